"""Experiments that are a table: what stands in the rows, what in the columns, and how the cells are compared.

`amity reproduce pfl` is the paper's compatibility figure (personalised methods, each with Gossip and with AFIND+), `attack`
the table of attacks and defences, `privacy` that of noise on cards. Cells are runs like any other: paired by seed, kept
when finished, taken up again after a kill.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

from amity import figures
from amity.cells import Cell, OnEvent
from amity.compare import Comparison, check_seeds, collect, parse_spec, slug, with_layer
from amity.config import Config, nested, read_toml, resolve
from amity.errors import ConfigError, RunDirError, unknown
from amity.files import csv_text, write_atomically
from amity.report import describe, page, section
from amity.run import Result
from amity.summary import std

Layer = Mapping[str, Any]

FASHION: Layer = {
    "data": "fashionmnist",
    "peers": 20,
    "rounds": 20,
    "partition": {"name": "pathological", "classes": 4, "samples": 80, "test": 100},
    "model": "fashion_cnn2",
    "train": {"epochs": 5, "batch": 20, "lr": 0.02, "momentum": 0.9},
    "eval": {"every": 5, "gradients_every": 0},
}
"""Twenty peers with 80 images of four kinds of clothes each: small enough for two cores."""
SMALL: Layer = {**FASHION, "rounds": 30, "model": {"name": "mlp", "hidden": 24}}
"""The same with a net of 19,000 parameters, which trains many peers at a time: for tables of many runs."""


@dataclass(frozen=True)
class Grid:
    """An experiment: every row with every column. A layer is a piece of config."""

    name: str
    title: str
    rows: Mapping[str, Layer]
    columns: Mapping[str, Layer]
    base: Layer
    against: str
    """The column that all others are compared with."""
    note: str = ""
    picture: str = "bars"

    @property
    def varied(self) -> set[str]:
        """The sections that rows and columns set."""
        return {key for layer in (*self.rows.values(), *self.columns.values()) for key in layer}


GOSSIP: Layer = {"strategy": {"name": "gossip", "k": 5}}
AFIND: Layer = {"strategy": {"name": "afind+"}}

PFL = Grid(
    "pfl",
    "Personalised methods, with Gossip and with AFIND+",
    {
        "Fed-FT": {"method": "finetune"},
        "Ditto": {"method": "ditto"},
        "FOMO": {"method": "finetune", "stages": ["fomo"]},
        "Dis-PFL": {"method": "dispfl"},
    },
    {"Gossip": GOSSIP, "AFIND+": AFIND},
    FASHION,
    "Gossip",
    "The paper claims that AFIND+ lifts each of them by about 3 points.",
)

ATTACK = Grid(
    "attack",
    "Attackers and defences: accuracy of honest peers",
    {
        "gossip": GOSSIP,
        "afind+": AFIND,
        "afind+:paper": {"strategy": {"name": "afind+", "preset": "paper"}},
        "gossip/normclip": {**GOSSIP, "stages": ["normclip"]},
        "gossip/simgate": {**GOSSIP, "stages": ["simgate"]},
        "gossip/lossgate": {**GOSSIP, "stages": ["lossgate"]},
        "gossip/krum": {**GOSSIP, "stages": ["krum"]},
        "gossip, median": {**GOSSIP, "mixer": "median"},
        "gossip, trimmed": {**GOSSIP, "mixer": "trimmed"},
        "afind+/normclip": {**AFIND, "stages": ["normclip"]},
        "afind+/lossgate": {**AFIND, "stages": ["lossgate"]},
        "afind+/krum": {**AFIND, "stages": ["krum"]},
        "afind+, median": {**AFIND, "mixer": "median"},
        "local": {"strategy": {"name": "local"}},
    },
    {
        "clean": {"attack": "none"},
        **{
            name: {"attack": {"name": name}}
            for name in (
                "label_flip",
                "sign_flip",
                "noise",
                "scaled",
                "constant",
                "free_rider",
                "loss_liar",
                "sketch_liar",
            )
        },
    },
    SMALL,
    "clean",
    "A fifth of the peers attack (attack.fraction). Bold: within 2 points of the same row without attackers.",
    "heat",
)

PRIVACY = Grid(
    "privacy",
    "Noise on cards: does AFIND+ survive it?",
    {
        "afind+:tuned": AFIND,
        "afind+:paper": {"strategy": {"name": "afind+", "preset": "paper"}},
        "afind (no losses)": {"strategy": {"name": "afind"}},
        "gossip": GOSSIP,
    },
    {f"σ = {sigma}": {"privacy": {"name": "proxy", "sigma": sigma}} for sigma in (0, 2, 5, 10, 50)},
    SMALL,
    "σ = 0",
    "The paper's Table 4 loses 1.3 points at σ = 2 and 7.7 at σ = 50, where it is where Gossip is.",
)

GRIDS = {grid.name: grid for grid in (PFL, ATTACK, PRIVACY)}


def with_rows(grid: Grid, specs: Sequence[str]) -> Grid:
    """The grid with rows of one's own, as comparisons name them: `gossip:k=5/mine.py:MyGate`."""
    return replace(grid, rows=dict(parse_spec(spec) for spec in specs)) if specs else grid


def base_of(grid: Grid, file: str | Path | None = None, overrides: Mapping[str, Any] | None = None) -> Config:
    """The grid's own sizes, under a file's and the caller's."""
    given = [read_toml(file) if file else {}, nested(overrides or {})]
    for layer in given:
        for key, value in layer.items():
            if key in grid.varied and not (key == "attack" and isinstance(value, Mapping) and set(value) == {"fraction"}):
                raise ConfigError(f"{key}: is what the table of {grid.name!r} varies; use `amity compare` for others")
    return resolve([grid.base, *given])


def cells_of_grid(grid: Grid, base: Config, seeds: Sequence[int], path: Path) -> list[Cell]:
    """One cell a row, column and seed; the first seed of everything comes first."""
    check_seeds(seeds)
    _refuse_other(path, {_label(row, column) for row in grid.rows for column in grid.columns})
    cells = []
    for seed in seeds:
        for row, row_layer in grid.rows.items():
            for column, column_layer in grid.columns.items():
                layer = {**row_layer, **column_layer, "seed": seed}
                if "attack" in layer and layer["attack"] != "none":
                    layer["attack"] = {"fraction": base.attack.extra.fraction, **layer["attack"]}
                label = _label(row, column)
                cells.append(Cell(label, seed, with_layer(base, layer), path / slug(label) / f"seed-{seed}"))
    return cells


def _refuse_other(path: Path, labels: set[str]) -> None:
    """A folder with another table, or with a comparison, is not added to."""
    try:
        found = set(json.loads((path / "comparison.json").read_bytes()))
    except (OSError, ValueError):
        return
    if found - labels:
        raise RunDirError(f"{path}: holds another comparison ({min(found - labels)}); choose another out=")


def _label(row: str, column: str) -> str:
    return f"{row} | {column}"


def reproduce(
    name: str,
    seeds: Sequence[int] = (0, 1, 2),
    out: str | Path | None = None,
    jobs: int = 0,
    on_event: OnEvent | None = None,
    **overrides: Any,
) -> Table:
    """Run a grid and write its table, figure and page: `amity.reproduce.reproduce("pfl", rounds=10)`."""
    if name not in GRIDS:
        raise ConfigError(unknown("experiment", name, GRIDS))
    grid = GRIDS[name]
    path = Path(out) if out else Path("runs") / name
    cells = cells_of_grid(grid, base_of(grid, overrides=overrides), seeds, path)
    table = Table(grid, collect(cells, path, jobs, on_event))
    table.save()
    return table


# -- the table ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """One cell of the table, over all seeds; accuracies in percent, differences in points."""

    row: str
    column: str
    seeds: int
    accuracy: float
    std: float
    difference: float | None
    """To the column that all are compared with, paired by seed."""
    interval: float | None
    """Half of the 95 % confidence interval of the difference (Student's t over seeds)."""
    megabytes: float
    attackers_weight: float | None


def paired(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float | None]:
    """Mean difference, and half of its 95 % confidence interval (None for a single pair)."""
    apart = np.array(ours) - np.array(theirs)
    if len(apart) < 2:
        return float(apart.mean()), None
    half = student.ppf(0.975, len(apart) - 1) * apart.std(ddof=1) / math.sqrt(len(apart))
    return float(apart.mean()), float(half)


@dataclass(frozen=True)
class Table:
    """A grid with its results."""

    grid: Grid
    comparison: Comparison

    def runs(self, row: str, column: str) -> Sequence[Result]:
        return self.comparison.results.get(_label(row, column), [])

    def _accuracies(self, row: str, column: str) -> dict[int, float]:
        """By seed, in percent: of the peers that are honest in every column, so that columns can be compared."""
        finals: dict[int, list[dict[str, float]]] = {}
        for other in self.grid.columns:
            for run in self.runs(row, other):
                finals.setdefault(run.config.seed, []).append(run.final())
        out = {}
        for run in self.runs(row, column):
            mine = run.final()
            common = set(mine).intersection(*finals[run.config.seed])
            out[run.config.seed] = 100 * float(np.mean([mine[peer] for peer in sorted(common)]))
        return out

    def entry(self, row: str, column: str) -> Entry | None:
        found = self._accuracies(row, column)
        if not found:
            return None
        line = next(line for line in self.comparison.lines if line.label == _label(row, column))
        difference = interval = None
        if column != self.grid.against:
            other = self._accuracies(row, self.grid.against)
            both = sorted(found.keys() & other.keys())
            if both:
                difference, interval = paired([found[seed] for seed in both], [other[seed] for seed in both])
        values = list(found.values())
        return Entry(
            row,
            column,
            len(values),
            float(np.mean(values)),
            std(values),
            difference,
            interval,
            line.megabytes,
            line.attackers_weight,
        )

    @property
    def entries(self) -> list[Entry]:
        found = (self.entry(row, column) for row in self.grid.rows for column in self.grid.columns)
        return [entry for entry in found if entry is not None]

    def text(self, entry: Entry | None) -> str:
        """A cell as it is printed; in tables of attacks, bold if it holds."""
        if entry is None:
            return "-"
        spread = f" ± {entry.std:.1f}" if entry.seeds > 1 else ""
        value = f"{entry.accuracy:.1f}{spread}"
        holds = entry.difference is not None and entry.difference >= -2
        return f"**{value}**" if self.grid.picture == "heat" and holds else value

    def header(self) -> list[str]:
        extra = [f"{column} − {self.grid.against}" for column in self.grid.columns if column != self.grid.against]
        return ["", *self.grid.columns, *(extra if self.grid.picture == "bars" else [])]

    def lines(self) -> list[list[str]]:
        """The table as text."""
        out = []
        for row in self.grid.rows:
            entries = [self.entry(row, column) for column in self.grid.columns]
            cells = [self.text(entry) for entry in entries]
            if self.grid.picture == "bars":
                cells += [_difference(entry) for entry in entries if entry is None or entry.difference is not None]
            out.append([row, *cells])
        return out

    def markdown(self) -> str:
        head = self.header()
        rows = ["| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *self.lines()]]
        return "\n".join(rows) + "\n"

    def save(self) -> Path:
        """table.md, table.csv, table.json, figure.svg and report.html."""
        path, entries = self.comparison.path, [asdict(entry) for entry in self.entries]
        picture = figures.svg(self.figure())
        for name, text in (
            ("table.md", self.markdown()),
            ("table.csv", csv_text(entries)),
            ("table.json", json.dumps(entries, indent=1)),
            ("figure.svg", picture),
            ("report.html", self._html(picture)),
        ):
            write_atomically(path / name, text.encode())
        return path / "report.html"

    def figure(self) -> Any:
        grid = self.grid
        cells = {(entry.row, entry.column): entry for entry in self.entries}
        value = [[getattr(cells.get((r, c)), "accuracy", math.nan) for c in grid.columns] for r in grid.rows]
        if grid.picture == "bars":
            spread = [[getattr(cells.get((r, c)), "std", 0.0) for c in grid.columns] for r in grid.rows]
            return figures.grouped_bars(list(grid.rows), list(grid.columns), np.array(value), np.array(spread))
        weight = [[getattr(cells.get((r, c)), "attackers_weight", None) for c in grid.columns] for r in grid.rows]
        return figures.heat_table(list(grid.rows), list(grid.columns), np.array(value), weight)

    def _html(self, picture: str) -> str:
        runs = [rs[0].config for rs in self.comparison.results.values() if rs]
        seeds = sorted({r.config.seed for rs in self.comparison.results.values() for r in rs})
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in self.header())
        body = "".join("<tr>" + "".join(f"<td>{_bold(cell)}</td>" for cell in cells) + "</tr>" for cells in self.lines())
        errors = "".join(f'<p class="bad">{html.escape(k)}: {html.escape(v)}</p>' for k, v in self.comparison.errors.items())
        note = f"Test accuracy in the last round, mean over peers ± standard deviation over seeds, in %. {self.grid.note}"
        return page(
            f"Amity: {self.grid.title}",
            f"<h1>{html.escape(self.grid.title)}</h1><p>{html.escape(describe(runs[:1], seeds))}</p>",
            errors,
            section("The table", note, f"<table><tr>{head}</tr>{body}</table>"),
            section("The picture", "", picture),
        )


def _difference(entry: Entry | None) -> str:
    if entry is None or entry.difference is None:
        return "-"
    return f"{entry.difference:+.1f}" + ("" if entry.interval is None else f" ± {entry.interval:.1f}")


def _bold(cell: str) -> str:
    text = html.escape(cell)
    return f"<b>{text[2:-2]}</b>" if text.startswith("**") else text
