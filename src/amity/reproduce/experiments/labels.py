"""What a card tells of its peer's labels (`leakage` says how that is measured).

It is not a table of runs: half of the peers of one run read the cards of the other half, in some of
its rounds. So it has its own way of running.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from amity.config import Config, resolve
from amity.errors import ConfigError, Failure, RunDirError
from amity.files import csv_text, write_atomically
from amity.lab.cells import Cell
from amity.lab.compare import check_seeds
from amity.reproduce.experiment import Experiment, Grid, Say, Scope
from amity.reproduce.leakage import PROXIES, SIGMAS, SKETCHES, USUAL, Leak, measure
from amity.reproduce.presets import FASHION, PRESETS, Layer
from amity.reproduce.registry import experiments
from amity.show import figures
from amity.show.page import html_table, markdown_table, page, section
from amity.show.report import describe
from amity.show.summary import std
from amity.sinks.stream import Wanted
from amity.store import refuse_foreign, refuse_unusable

BASE: Layer = {**FASHION, "peers": 60, "rounds": 10, "strategy": {"name": "gossip", "k": 5}}
SMALL: Layer = {
    "data": "digits",
    "model": "mlp",
    "peers": 12,
    "rounds": 2,
    "partition": {"samples": 24, "test": 20},
}
"""What `smoke` sets on top."""
FEWEST = 8
"""Half of the peers read the others' cards, and must have something to learn from."""
HEAD = ["proxy", "numbers", "σ", "round", "overlap", "leakage", "AUC of friends", "baseline"]
Kind = tuple[str, int, float, int]
"""Proxy, numbers on the card, σ and round."""
Line = list[tuple[float, float]]
"""Mean and standard deviation at each tick."""
Panels = list[tuple[str, str, list[str], dict[str, Line]]]
"""Title, axis, ticks, and the lines by name."""


@experiments.register("labels")
@dataclass(frozen=True)
class LabelInference(Experiment):
    """How well does a neighbour predict my label distribution from my card?"""

    title = "What a card tells of its peer's labels"
    place = 150
    presets = ("smoke", "cpu")
    in_all = ("smoke",)
    takes = ()

    def prepare(self, scope: Scope) -> LabelsTodo:
        preset = PRESETS[scope.preset]
        base = resolve([BASE, preset.pick({}, smoke=SMALL), *scope.given])
        if base.peers < FEWEST or not base.engine.instance.here:
            raise ConfigError(
                f"labels: needs at least {FEWEST} peers (half of them read the others' cards), and"
                " engine=local"
            )
        seeds, path = scope.seeds or preset.seeds, scope.root / scope.folder
        check_seeds(seeds)
        refuse_unusable(path)
        kept = {seed: _kept(path, base.replace(seed=seed)) for seed in seeds}
        return LabelsTodo(title=self.title, base=base, path=path, kept=kept)


@dataclass(frozen=True, kw_only=True)
class LabelsTodo:
    """Seeds to measure, and what was measured before."""

    title: str
    base: Config
    path: Path
    kept: Mapping[int, list[Leak] | None]
    """By seed; none where it is still to be measured."""
    cells: Sequence[Cell] = ()
    done: frozenset[Path] = frozenset()

    def run(self, jobs: int = 0, sinks: Wanted = None, say: Say | None = None) -> Leaks:
        refuse_foreign(self.path, "labels.csv", *(f"seed-{seed}.json" for seed in self.kept))
        last = self.base.rounds - 1
        rounds = {0, min(4, last), last}
        found: dict[int, list[Leak]] = {}
        for seed, kept in self.kept.items():
            if kept is None:
                config = self.base.replace(seed=seed)
                kept = measure(config, rounds, say or (lambda line: None))
                record = {"config": config.digest, "readings": [asdict(leak) for leak in kept]}
                write_atomically(
                    self.path / f"seed-{seed}.json", json.dumps(record, indent=1).encode()
                )
            found[seed] = kept
        return self._leaks(found)

    def so_far(self) -> Leaks:
        found = {seed: kept for seed, kept in self.kept.items() if kept is not None}
        if not found:
            raise Failure(f"no seed of these is finished in {self.path}")
        return self._leaks(found)

    def _leaks(self, found: Mapping[int, list[Leak]]) -> Leaks:
        leaks = [leak for kept in found.values() for leak in kept]
        return Leaks(title=self.title, base=self.base, seeds=tuple(found), leaks=leaks)


def _kept(path: Path, config: Config) -> list[Leak] | None:
    """What was measured before with this config and seed; None if that is not whole."""
    try:
        record = json.loads((path / f"seed-{config.seed}.json").read_bytes())
        found = [Leak(**leak) for leak in record["readings"]]
        if record["config"] != config.digest:
            raise RunDirError(f"{path}: holds labels of another config; choose another out=")
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found


@dataclass(frozen=True, kw_only=True)
class Leaks:
    """What was found for all seeds."""

    title: str
    base: Config
    seeds: tuple[int, ...]
    leaks: Sequence[Leak]
    errors: Mapping[str, str] = field(default_factory=dict)

    def shown(self) -> list[Grid]:
        return []

    def remarks(self) -> list[str]:
        return []

    def save(self, path: Path) -> Path:
        """labels.csv, table.md, figure.svg and report.html."""
        rows = self._rows()
        picture = figures.svg(figures.leakage_panels(self._panels()))
        about = html.escape(describe([self.base], self.seeds))
        text = page(
            "Amity: what a card tells of labels",
            f"<h1>{html.escape(self.title, quote=False)}</h1><p>{about}</p>",
            section(
                "The picture",
                "Leakage: how far half of the peers, pooling their own cards and labels, come in"
                " predicting the label distributions of the other half; 0 is no better than without"
                " cards, 1 is exact. AUC: how well cosines of the same cards tell friends from"
                " strangers.",
                picture,
            ),
            section("The numbers", "Mean ± standard deviation over seeds.", html_table(HEAD, rows)),
        )
        for name, content in (
            ("labels.csv", csv_text([asdict(leak) for leak in self.leaks])),
            ("table.md", markdown_table(HEAD, rows) + "\n"),
            ("figure.svg", picture),
            ("report.html", text),
        ):
            write_atomically(path / name, content.encode())
        return path / "report.html"

    def _stat(self, number: str, kind: Kind) -> tuple[float, float]:
        """Mean and standard deviation over seeds of one number, for one kind of card."""
        here = [getattr(leak, number) for leak in self.leaks if _kind(leak) == kind]
        return float(np.mean(here)), std(here)

    def _rows(self) -> list[list[str]]:
        """The lines of the table."""
        rows = []
        for kind in dict.fromkeys(_kind(leak) for leak in self.leaks):
            proxy, sketch, sigma, round = kind
            stats = [self._stat(number, kind) for number in ("overlap", "leakage", "auc")]
            cells = [f"{mean:.2f} ± {spread:.2f}" for mean, spread in stats]
            base, _ = self._stat("baseline", kind)
            named = [proxy, str(sketch or "all"), f"{sigma:g}", str(round)]
            rows.append([*named, *cells, f"{base:.2f}"])
        return rows

    def _panels(self) -> Panels:
        """The panels of the picture: by proxy, by size of the card, by noise."""
        rounds = sorted({leak.round for leak in self.leaks})
        sizes = (*SKETCHES[1:], 0)

        def usual(kinds: Iterable[tuple[int, float]]) -> dict[str, Line]:
            """Of the usual proxy in the first and the last round, for these sizes and σ."""
            pairs = list(kinds)
            return {
                f"{number}, round {t}": [
                    self._stat(number, (PROXIES[0], sketch, sigma, t)) for sketch, sigma in pairs
                ]
                for t in sorted({rounds[0], rounds[-1]})
                for number in ("leakage", "auc")
            }

        return [
            (
                f"by proxy ({USUAL} numbers)",
                "round",
                [str(t) for t in rounds],
                {p: [self._stat("leakage", (p, USUAL, 0.0, t)) for t in rounds] for p in PROXIES},
            ),
            (
                "grad, by size of the card",
                "numbers on the card",
                [str(d or "all") for d in sizes],
                usual((d, 0.0) for d in sizes),
            ),
            (
                f"grad, by noise ({USUAL} numbers)",
                "σ of privacy=proxy",
                [f"{sigma:g}" for sigma in SIGMAS],
                usual((USUAL, sigma) for sigma in SIGMAS),
            ),
        ]


def _kind(leak: Leak) -> Kind:
    return leak.proxy, leak.sketch, leak.sigma, leak.round
