r"""How well does a neighbour predict my label distribution from my card?

The paper says that its proxy leaks nothing more than models do. Here is the measurement. Half of
the peers are *shadows*: they pool what each knows of itself, its card φ_j and its label
distribution P_j. From these they learn to read cards, and then read those of the other half, the
*victims*, by kernel ridge regression on cards of unit length (inner products are all that a
neighbour compares, too),

    P̂(φ) = P̄ + k(φ)ᵀ (K + λ I)⁻¹ (P − P̄),      negative parts cut off, scaled to sum 1,

with λ chosen by leaving one shadow out. Told are

- `overlap`: Σ_c min(P̂(c), P(c)), mean over victims; and that of P̄ itself, which needs no card
  (`baseline`)
- `leakage`: (overlap − baseline) / (1 − baseline): 0 is nothing, 1 is everything
- `auc`: how well cosines of the same cards tell friends from strangers, which is what the card is
  for

It bounds what these shadows can do, not what anybody could: an attacker with more shadows or a
better reader learns more.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from amity.config import Config
from amity.geometry import cosines
from amity.peer.privacy import ProxyNoise
from amity.peer.proxy import CardSpec, ProxyName, Sketcher
from amity.reproduce.experiment import Say
from amity.rng import rng
from amity.round.build import load_data, one_thread
from amity.round.quality import auc
from amity.round.truth import Mask
from amity.simulate import Simulation

PROXIES: tuple[ProxyName, ...] = (
    "grad",
    "grad_ref",
    "delta",
    "feature_mean",
    "weight",
    "head_drift",
)
SKETCHES = (0, 16, 64, 256, 1024)
SIGMAS = (0.0, 2.0, 5.0, 10.0, 50.0)
USUAL = 256
"""Numbers of a card where nothing else is said: AFIND+'s `tuned`."""
DRAWS = 5
"""Draws of noise that are averaged."""
RIDGES = (1e-3, 1e-2, 1e-1, 1.0)
FloatArray = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, kw_only=True)
class Leak:
    """What cards of one kind tell in one round of one run."""

    seed: int
    round: int
    proxy: str
    sketch: int
    sigma: float
    overlap: float
    baseline: float
    leakage: float
    auc: float


def predict(known: FloatArray, labels: FloatArray, cards: FloatArray) -> FloatArray:
    """P̂ for each row of `cards`, learnt from the rows of `known`: unit vectors, and
    distributions."""
    mean = labels.mean(0)
    kernel, rest = known @ known.T, labels - labels.mean(0)

    def error(ridge: float) -> float:
        """Left-one-out, in closed form: (I − H)y / (1 − diag H)."""
        hat = kernel @ np.linalg.inv(kernel + ridge * np.eye(len(kernel)))
        return float((((rest - hat @ rest) / (1 - np.diag(hat)).clip(1e-9)[:, None]) ** 2).sum())

    ridge = min(RIDGES, key=error)
    guess = mean + cards @ known.T @ np.linalg.solve(kernel + ridge * np.eye(len(kernel)), rest)
    guess = guess.clip(0)
    total = guess.sum(1, keepdims=True)
    return np.asarray(np.where(total > 0, guess / np.where(total > 0, total, 1), mean))


def told_by(
    cards_MD: torch.Tensor, labels_MC: FloatArray, shadows: Mask, friends_MM: Mask
) -> tuple[float, float, float, float]:
    """Overlap, baseline, leakage and AUC of the cards of M peers, of whom `shadows` (a mask) are
    known. `friends_MM` says who is a friend of whom."""
    rows = cards_MD.double().numpy()
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True).clip(1e-30)
    truth = labels_MC[~shadows]
    guess = predict(units[shadows], labels_MC[shadows], units[~shadows])
    found = float(np.minimum(guess, truth).sum(1).mean())
    base = float(np.minimum(labels_MC[shadows].mean(0), truth).sum(1).mean())
    areas = []
    for i in range(len(rows)):
        others = [j for j in range(len(rows)) if j != i]
        area = auc(friends_MM[i, others], cosines(cards_MD[i], cards_MD[others]).numpy())
        areas += [] if area is None else [area]
    mean_area = float(np.mean(areas)) if areas else float("nan")
    return found, base, (found - base) / max(1 - base, 1e-9), mean_area


def kinds_of_cards() -> list[tuple[ProxyName, int, float]]:
    """Proxy, numbers on the card and σ of all that is measured: every proxy as usual, the first one
    at every size, and with noise."""
    first, *others = PROXIES
    noisy = {sketch: SIGMAS if sketch in (0, USUAL) else (0.0,) for sketch in SKETCHES}
    return [(first, sketch, sigma) for sketch, sigmas in noisy.items() for sigma in sigmas] + [
        (proxy, USUAL, 0.0) for proxy in others
    ]


def measure(config: Config, rounds: Collection[int], say: Say) -> list[Leak]:
    """Everything that is measured in one run, in these rounds."""
    with Simulation(config, load_data(config)) as simulation, one_thread():
        names = simulation.names
        labels, friends = simulation.friendship.shares, simulation.friendship.pairs
        shadows = np.zeros(len(names), bool)
        half = rng(config.seed, "shadows").choice(len(names), len(names) // 2, replace=False)
        shadows[half] = True
        found: list[Leak] = []

        def look(t: int) -> None:
            if t in rounds:
                say(f"seed {config.seed}, round {t + 1}: reading the cards")
                peers = [simulation.peers[name] for name in names]
                for peer in peers:
                    peer.round = t
                cards = {
                    proxy: torch.stack([peer.sketch(CardSpec(proxy, 0)) for peer in peers])
                    for proxy in PROXIES
                }
                found.extend(_leaks(config, t, cards, labels, shadows, friends))

        simulation.on_trained = look
        for t in range(config.rounds):
            simulation.round()
            say(f"seed {config.seed}: round {t + 1} of {config.rounds} done")
        return found


def _leaks(
    config: Config,
    t: int,
    cards: dict[ProxyName, torch.Tensor],
    labels: FloatArray,
    shadows: Mask,
    friends: Mask,
) -> list[Leak]:
    """One round's."""
    out = []
    for proxy, sketch, sigma in kinds_of_cards():
        overlap, baseline, leakage, area = _noisy(
            cards[proxy], sketch, sigma, config, labels, shadows, friends
        )
        out.append(
            Leak(
                seed=config.seed,
                round=t + 1,
                proxy=proxy,
                sketch=sketch,
                sigma=sigma,
                overlap=overlap,
                baseline=baseline,
                leakage=leakage,
                auc=area,
            )
        )
    return out


def _noisy(
    phi: torch.Tensor,
    sketch: int,
    sigma: float,
    config: Config,
    labels: FloatArray,
    shadows: Mask,
    friends: Mask,
) -> FloatArray:
    """What cards of this many numbers with this much noise tell, mean over some draws of it."""
    sketcher, noise = Sketcher(config.seed), ProxyNoise(sigma=sigma)
    out = []
    for draw in range(DRAWS if sigma else 1):
        stream = rng(config.seed, "label noise", draw)
        cards = [
            noise.card(row, lambda v: sketcher(v, sketch), config.train.batch, stream)
            for row in phi
        ]
        out.append(told_by(torch.stack(cards), labels, shadows, friends))
    return np.asarray(np.mean(out, 0))
