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
  for. Friends are peers of the same hidden group, or in a world without groups those whose labels
  overlap.

Cards of two halves (`twins`) are not compared by their cosine but by their likeness, which compares
the sums of the halves and sets chance aside (`facts.Likeness`). So the reader, too, reads the sum
of the two halves, each of unit length.

It bounds what these shadows can do, not what anybody could: an attacker with more shadows or a
better reader learns more.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from amity.config import Config
from amity.core import Card
from amity.facts import likeness
from amity.geometry import as_cosines, units
from amity.peer.peer import Peer
from amity.peer.privacy import ProxyNoise
from amity.peer.proxies import proxies
from amity.peer.proxy import Bits, CardSpec, Sketcher, signs_of
from amity.reproduce.experiment import Say
from amity.reproduce.kinds import PROXIES, CardKind, kinds_of_cards
from amity.rng import rng
from amity.round.build import load_data, one_thread
from amity.round.quality import auc
from amity.round.truth import Mask
from amity.simulate import Simulation

DRAWS = 5
"""Draws of noise that are averaged."""
RIDGES = (1e-3, 1e-2, 1e-1, 1.0)
FloatArray = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, kw_only=True)
class Leak:
    """What cards of one kind tell in one round of one run."""

    world: str
    seed: int
    round: int
    proxy: str
    sketch: int
    bits: Bits
    sigma: float
    nbytes: int
    """Of one card."""
    overlap: float
    baseline: float
    leakage: float
    auc: float

    @property
    def kind(self) -> CardKind:
        return CardKind(self.proxy, self.sketch, self.bits, self.sigma)


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


def compared(cards_MD: torch.Tensor, parts: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """The unit vectors that a neighbour compares, and how alike any two cards are to it."""
    if parts == 1:
        unit_MD = units(cards_MD)
        return unit_MD, as_cosines(unit_MD @ unit_MD.T, cards_MD.dtype)
    one, other = cards_MD.chunk(parts, dim=1)
    return units(units(one) + units(other)), likeness(cards_MD)


def told_by(
    cards_MD: torch.Tensor, labels_MC: FloatArray, shadows: Mask, friends_MM: Mask, parts: int = 1
) -> tuple[float, float, float, float]:
    """Overlap, baseline, leakage and AUC of the cards of M peers, of whom `shadows` (a mask) are
    known; each card is of one vector or of two halves."""
    unit_MD, alike_MM = compared(cards_MD, parts)
    rows, alike, truth = unit_MD.numpy(), alike_MM.numpy(), labels_MC[~shadows]
    guess = predict(rows[shadows], labels_MC[shadows], rows[~shadows])
    found = float(np.minimum(guess, truth).sum(1).mean())
    base = float(np.minimum(labels_MC[shadows].mean(0), truth).sum(1).mean())
    others = ~np.eye(len(rows), dtype=bool)
    found_areas = [auc(f[o], s[o]) for f, s, o in zip(friends_MM, alike, others, strict=True)]
    areas = [area for area in found_areas if area is not None]
    mean_area = float(np.mean(areas)) if areas else float("nan")
    return found, base, (found - base) / max(1 - base, 1e-9), mean_area


@dataclass(frozen=True, kw_only=True)
class Watch:
    """A run whose cards are read: what is true of its peers."""

    world: str
    config: Config
    labels: FloatArray
    friends: Mask
    shadows: Mask
    grouped: bool

    @classmethod
    def of(cls, world: str, config: Config, simulation: Simulation) -> Watch:
        names, shadows = simulation.names, np.zeros(len(simulation.names), bool)
        half = rng(config.seed, "shadows").choice(len(names), len(names) // 2, replace=False)
        shadows[half] = True
        friendship = simulation.friendship
        return cls(
            world=world,
            config=config,
            labels=friendship.shares,
            friends=friendship.pairs,
            shadows=shadows,
            grouped=friendship.kind == "group",
        )

    def leaks(self, t: int, peers: Sequence[Peer], lasting: dict[str, torch.Tensor]) -> list[Leak]:
        """One round's. Proxies that never change are kept in `lasting`."""
        for peer in peers:
            peer.round = t
        whole = dict(lasting)
        for spec in (CardSpec(proxy, 0) for proxy in PROXIES if proxy not in lasting):
            whole[spec.proxy] = torch.stack([peer.sketch(spec) for peer in peers])
        lasting |= {proxy: phi for proxy, phi in whole.items() if proxies.made(proxy).lasting}
        return [self._leak(t, kind, whole[kind.proxy]) for kind in kinds_of_cards(self.grouped)]

    def _leak(self, t: int, kind: CardKind, phi_MP: torch.Tensor) -> Leak:
        """What cards of a kind tell, mean over some draws of noise."""
        draws = [self._cards(kind, phi_MP, draw) for draw in range(DRAWS if kind.sigma else 1)]
        told = [
            told_by(cards, self.labels, self.shadows, self.friends, kind.parts) for cards in draws
        ]
        overlap, baseline, leakage, area = np.mean(told, 0).tolist()
        return Leak(
            world=self.world,
            seed=self.config.seed,
            round=t + 1,
            **asdict(kind),
            nbytes=Card("", t, 0, 0, draws[0][0]).nbytes,
            overlap=overlap,
            baseline=baseline,
            leakage=leakage,
            auc=area,
        )

    def _cards(self, kind: CardKind, phi_MP: torch.Tensor, draw: int) -> torch.Tensor:
        """Everyone's card, with one draw of noise."""
        sketcher, noise = Sketcher(self.config.seed), ProxyNoise(sigma=kind.sigma)
        stream = rng(self.config.seed, "label noise", draw)
        coins = rng(self.config.seed, "label coins", draw)
        spec, lot = CardSpec(kind.proxy, kind.sketch), self.config.train.batch
        cards = [noise.card(row, lambda v: spec.small(v, sketcher), lot, stream) for row in phi_MP]
        return torch.stack([signs_of(c, coins) for c in cards] if kind.bits == 1 else cards)


def measure(world: str, config: Config, rounds: Collection[int], say: Say) -> list[Leak]:
    """Everything that is measured in one run, in these rounds."""
    with Simulation(config, load_data(config)) as simulation, one_thread():
        watch, found = Watch.of(world, config, simulation), list[Leak]()
        lasting: dict[str, torch.Tensor] = {}
        where = f"{world}, seed {config.seed}"

        def look(t: int) -> None:
            if t in rounds:
                say(f"{where}, round {t + 1}: reading the cards")
                peers = [simulation.peers[name] for name in simulation.names]
                found.extend(watch.leaks(t, peers, lasting))

        simulation.on_trained = look
        for t in range(config.rounds):
            simulation.round()
            say(f"{where}: round {t + 1} of {config.rounds} done")
        return found
