r"""Label inference: how well does a neighbour predict my label distribution from my card?

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

import html
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from amity.config import Config, nested, read_run, resolve
from amity.errors import ConfigError, RunDirError
from amity.files import csv_text, write_atomically
from amity.geometry import cosines
from amity.lab.compare import check_seeds
from amity.peer.privacy import ProxyNoise
from amity.peer.proxy import CardSpec, ProxyName, Sketcher
from amity.reproduce.catalogue import FASHION
from amity.rng import rng
from amity.round.build import load_data, one_thread
from amity.round.quality import auc, overlaps
from amity.show import figures
from amity.show.page import html_table, markdown_table, page, section
from amity.show.report import describe
from amity.show.summary import std
from amity.simulate import Simulation
from amity.store import refuse_foreign, refuse_unusable

NAME = "labels"
BASE: Mapping[str, Any] = {
    **FASHION,
    "peers": 60,
    "rounds": 10,
    "strategy": {"name": "gossip", "k": 5},
}
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
Array = np.ndarray[Any, np.dtype[np.float64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class Reading:
    """What was read from cards of one kind."""

    seed: int
    round: int
    proxy: str
    sketch: int
    sigma: float
    overlap: float
    baseline: float
    leakage: float
    auc: float


def predict(known: Array, labels: Array, cards: Array) -> Array:
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


def judge(
    cards_MD: torch.Tensor, labels_MC: Array, shadows: Mask, friend: float
) -> tuple[float, float, float, float]:
    """Overlap, baseline, leakage and AUC of the cards of M peers, of whom `shadows` (a mask) are
    known."""
    rows = cards_MD.double().numpy()
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True).clip(1e-30)
    truth = labels_MC[~shadows]
    guess = predict(units[shadows], labels_MC[shadows], units[~shadows])
    found = float(np.minimum(guess, truth).sum(1).mean())
    base = float(np.minimum(labels_MC[shadows].mean(0), truth).sum(1).mean())
    areas = []
    for i in range(len(rows)):
        others = [j for j in range(len(rows)) if j != i]
        real = overlaps(labels_MC[i].tolist(), labels_MC[others]) >= friend
        area = auc(real, cosines(cards_MD[i], cards_MD[others]).numpy())
        areas += [] if area is None else [area]
    return (
        found,
        base,
        (found - base) / max(1 - base, 1e-9),
        float(np.mean(areas)) if areas else float("nan"),
    )


def readings(
    config: Config, rounds: Sequence[int], say: Callable[[str], None]
) -> Iterator[Reading]:
    """Everything that is measured in one run."""
    with Simulation(config, load_data(config)) as simulation, one_thread():
        names = simulation.names
        labels = np.array([simulation.seats[name].labels for name in names])
        shadows = np.zeros(len(names), bool)
        shadows[rng(config.seed, "shadows").choice(len(names), len(names) // 2, replace=False)] = (
            True
        )
        found: list[Reading] = []

        def look(t: int) -> None:
            if t not in rounds:
                return
            say(f"seed {config.seed}, round {t + 1}: reading the cards")
            peers = [simulation.peers[name] for name in names]
            for peer in peers:
                peer.round = t
            for proxy in PROXIES:
                phi = torch.stack([peer.sketch(CardSpec(proxy, 0)) for peer in peers])
                usual = proxy == "grad"
                for sketch in SKETCHES if usual else (USUAL,):
                    for sigma in SIGMAS if usual and sketch in (0, USUAL) else (0.0,):
                        values = _noisy(phi, sketch, sigma, config, labels, shadows)
                        found.append(Reading(config.seed, t + 1, proxy, sketch, sigma, *values))

        simulation.on_trained = look
        for t in range(config.rounds):
            simulation.round()
            say(f"seed {config.seed}: round {t + 1} of {config.rounds} done")
        yield from found


def _noisy(
    phi: torch.Tensor, sketch: int, sigma: float, config: Config, labels: Array, shadows: Mask
) -> Array:
    """The judgement of cards of so many numbers with so much noise, mean over some draws of it."""
    sketcher, noise = Sketcher(config.seed), ProxyNoise(sigma=sigma)
    out = []
    for draw in range(DRAWS if sigma else 1):
        stream = rng(config.seed, "label noise", draw)
        cards = [
            noise.card(row, lambda v: sketcher(v, sketch), config.train.batch, stream)
            for row in phi
        ]
        out.append(judge(torch.stack(cards), labels, shadows, config.eval.friend))
    return np.asarray(np.mean(out, 0))


def measure_labels(
    file: str | Path | None,
    overrides: Mapping[str, Any],
    seeds: Sequence[int],
    path: Path,
    say: Callable[[str], None],
) -> Path:
    """Run the experiment for all seeds and write labels.csv, table.md, figure.svg and report.html;
    returns the page."""
    base = resolve([BASE, read_run(file) if file else {}, nested(overrides)])
    if base.peers < 8 or base.engine.name != "local":
        raise ConfigError(
            "labels: needs at least 8 peers (half of them read the others' cards), and engine=local"
        )
    check_seeds(seeds)
    records = {seed: _record(path, base.replace(seed=seed)) for seed in seeds}
    refuse_foreign(path, "labels.csv", *(f"seed-{seed}.json" for seed in seeds))
    rounds = sorted({0, min(4, base.rounds - 1), base.rounds - 1})
    found: list[Reading] = []
    for seed in seeds:
        kept = records[seed]
        if kept is None:
            config = base.replace(seed=seed)
            kept = list(readings(config, rounds, say))
            record = {"config": config.digest, "readings": [asdict(reading) for reading in kept]}
            write_atomically(path / f"seed-{seed}.json", json.dumps(record, indent=1).encode())
        found += kept
    return save(found, base, seeds, path)


def _record(path: Path, config: Config) -> list[Reading] | None:
    """What was read before with this config and seed; None if that is not whole."""
    refuse_unusable(path)
    kept = path / f"seed-{config.seed}.json"
    try:
        record = json.loads(kept.read_bytes())
        found = [Reading(**reading) for reading in record["readings"]]
        if record["config"] != config.digest:
            raise RunDirError(f"{path}: holds labels of another config; choose another out=")
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found


Panels = list[tuple[str, str, list[str], dict[str, list[tuple[float, float]]]]]
"""Title, axis, ticks, and by line: mean and standard deviation at each tick."""


def summarise(found: Sequence[Reading]) -> tuple[list[list[str]], Panels]:
    """The rows of the table, and the panels of the picture."""
    kinds = dict.fromkeys((r.proxy, r.sketch, r.sigma, r.round) for r in found)

    def stat(key: str, proxy: str, sketch: int, sigma: float, round: int) -> tuple[float, float]:
        here = [
            getattr(r, key)
            for r in found
            if (r.proxy, r.sketch, r.sigma, r.round) == (proxy, sketch, sigma, round)
        ]
        return float(np.mean(here)), std(here)

    rows = []
    for kind in kinds:
        proxy, sketch, sigma, round = kind
        cells = [
            f"{mean:.2f} ± {spread:.2f}"
            for mean, spread in (stat(key, *kind) for key in ("overlap", "leakage", "auc"))
        ]
        rows.append(
            [
                proxy,
                str(sketch or "all"),
                f"{sigma:g}",
                str(round),
                *cells,
                f"{stat('baseline', *kind)[0]:.2f}",
            ]
        )
    rounds = sorted({r.round for r in found})
    ends = sorted({rounds[0], rounds[-1]})
    sizes = (*SKETCHES[1:], 0)
    panels: Panels = [
        (
            f"by proxy ({USUAL} numbers)",
            "round",
            [str(t) for t in rounds],
            {p: [stat("leakage", p, USUAL, 0.0, t) for t in rounds] for p in PROXIES},
        ),
        (
            "grad, by size of the card",
            "numbers on the card",
            [str(d or "all") for d in sizes],
            {
                f"{k}, round {t}": [stat(k, "grad", d, 0.0, t) for d in sizes]
                for t in ends
                for k in ("leakage", "auc")
            },
        ),
        (
            f"grad, by noise ({USUAL} numbers)",
            "σ of privacy=proxy",
            [f"{sigma:g}" for sigma in SIGMAS],
            {
                f"{k}, round {t}": [stat(k, "grad", USUAL, s, t) for s in SIGMAS]
                for t in ends
                for k in ("leakage", "auc")
            },
        ),
    ]
    return rows, panels


def save(found: Sequence[Reading], base: Config, seeds: Sequence[int], path: Path) -> Path:
    rows, panels = summarise(found)
    picture = figures.svg(figures.leakage_panels(panels))
    head = ["proxy", "numbers", "σ", "round", "overlap", "leakage", "AUC of friends", "baseline"]
    text = page(
        "Amity: what a card tells of labels",
        "<h1>What a card tells of its peer's"
        f" labels</h1><p>{html.escape(describe([base], seeds))}</p>",
        section(
            "The picture",
            "Leakage: how far half of the peers, pooling their own cards and labels, come in"
            " predicting the label distributions of the other half; 0 is no better than without"
            " cards, 1 is exact. AUC: how well cosines of the same cards tell friends from"
            " strangers.",
            picture,
        ),
        section("The numbers", "Mean ± standard deviation over seeds.", html_table(head, rows)),
    )
    for name, content in (
        ("labels.csv", csv_text([asdict(reading) for reading in found])),
        ("table.md", markdown_table(head, rows) + "\n"),
        ("figure.svg", picture),
        ("report.html", text),
    ):
        write_atomically(path / name, content.encode())
    return path / "report.html"
