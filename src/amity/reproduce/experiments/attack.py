"""Attackers and defences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from amity.differences import Difference, paired
from amity.reproduce.design import Design
from amity.reproduce.paper import Claim, Judged, Printed
from amity.reproduce.presets import TINY, Layer, Preset
from amity.reproduce.registry import experiments
from amity.reproduce.shared import AFIND, GOSSIP, LOCAL, NEW, PAPERS, afind, default, gossip
from amity.reproduce.table_of_runs import TableOfRuns
from amity.reproduce.verdicts import (
    HOLDS,
    NOT,
    OPEN,
    PARTLY,
    at_least_one,
    graded,
    judged_rows,
    places,
    there,
)
from amity.show.figures import heat_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from amity.reproduce.table import CellStats, RunTable

CLEAN = "clean"
ATTACKS = (
    "label_flip",
    "sign_flip",
    "noise",
    "scaled",
    "constant",
    "free_rider",
    "loss_liar",
    "sketch_liar",
)
BOUND = 2.0
"""A defence may lose this many points."""
CLIPPED = f"{NEW}/normclip"
WARY = "AFIND+ (wary)"
LEAST = 1.5
"""The default with clipping may lose this many points."""
SKEW, GROUPS = "label skew", "labels permuted"
"""The worlds: everyone has four classes of ten; four hidden groups call things by other names."""


def within_two(table: RunTable) -> Judged:
    cells = {row: _attacked(table, row) for row in judged_rows(table)}
    takers = {row: mine for row, mine in cells.items() if _takes(mine)}
    if not takers:
        raise LookupError("attack")
    likely = [row for row, mine in takers.items() if all(_within(e) for e in mine)]
    sure = [row for row in likely if all(_surely_within(e) for e in takers[row])]
    seeds = max(e.seeds for mine in takers.values() for e in mine)
    return graded(bool(sure), bool(likely)) if seeds > 1 else OPEN, (
        "Within 2 points for every attack while taking from others:"
        f" {', '.join(likely) or 'no row'}; with the whole interval:"
        f" {', '.join(sure) or 'no row'}."
    )


def _attacked(table: RunTable, row: str) -> list[CellStats]:
    """The cells of a row that have something to be compared with."""
    cells = [table.entry(panel, row, column) for panel, column in places(table)]
    return [entry for entry in cells if entry is not None and entry.difference is not None]


def _takes(cells: Sequence[CellStats]) -> bool:
    """Who takes nobody cannot be harmed."""
    return any(entry.taken > 0.5 for entry in cells)


def _within(entry: CellStats) -> bool:
    return (entry.difference or 0.0) >= -BOUND


def _surely_within(entry: CellStats) -> bool:
    """With the whole interval."""
    return entry.interval is not None and (entry.difference or 0.0) - entry.interval >= -BOUND


def as_steady_as_wary(table: RunTable) -> Judged:
    """Of every attack: what the default loses by it, minus what AFIND+ wary loses."""
    found = {}
    for panel, column in _attacks(table):
        ours, theirs = (_losses(table, panel, row, column) for row in (NEW, WARY))
        found[f"{panel}, {column}".removeprefix(", ")] = there(paired(ours, theirs))
    return _never_above(found, 0.0, f"{NEW} loses, beyond what wary loses,")


def steady_when_clipped(table: RunTable) -> Judged:
    """Of every attack: what the default with clipping loses by it."""
    found = {
        f"{panel}, {column}".removeprefix(", "): -there(
            table.difference((panel, CLIPPED, column), (panel, CLIPPED, CLEAN))
        )
        for panel, column in _attacks(table)
    }
    return _never_above(found, LEAST, f"{CLIPPED} loses")


def _attacks(table: RunTable) -> list[tuple[str, str]]:
    """Panels and columns with attackers."""
    return at_least_one(place for place in places(table) if place[1] != CLEAN)


def _losses(table: RunTable, panel: str, row: str, column: str) -> dict[int, float]:
    """What a row loses by an attack, in points, by seed."""
    clean, attacked = (table.accuracies(panel, row, c) for c in (CLEAN, column))
    return {seed: clean[seed] - attacked[seed] for seed in clean.keys() & attacked.keys()}


def _never_above(found: Mapping[str, Difference], most: float, said: str) -> Judged:
    """Whether no loss is above a bound: surely, by the means, or not. If some means are above it
    and no interval excludes it, nothing can be told."""
    worst = max(found, key=lambda place: found[place].mean)
    above = [one.half is not None and one.mean - one.half > most for one in found.values()]
    means = sum(one.mean <= most for one in found.values())
    below = [one.half is not None and one.mean + one.half <= most for one in found.values()]
    status = HOLDS if all(below) else PARTLY if means == len(found) else NOT if any(above) else OPEN
    return status, (
        f"{said} at most {found[worst]} points ({worst}); the mean is within {most:g} in {means} of"
        f" {len(found)} cases, with the whole interval in {sum(below)}."
    )


def defended(
    base: Layer, name: str, stages: tuple[str, ...], mixers: tuple[str, ...] = ()
) -> dict[str, Layer]:
    """A row with each of these stages, and with each of these mixers."""
    return {
        **{f"{name}/{stage}": {**base, "stages": [stage]} for stage in stages},
        **{f"{name} + {mixer}": {**base, "mixer": mixer} for mixer in mixers},
    }


@experiments.register("attack")
@dataclass(frozen=True)
class Attacked(TableOfRuns):
    """Attackers and defences."""

    title = "Attackers and defences: accuracy of honest peers"
    place = 120
    against = f"|{CLEAN}"
    bold_within = BOUND
    note = (
        "A fifth of the peers attack, unless attack.fraction says otherwise. Bold: within 2"
        " points of the same row without attackers. In the first world everyone has four classes"
        " of ten; in the second there are four hidden groups that call things by other names, and"
        " attackers are in any of them."
    )
    printed = Printed(where="beyond the paper")
    claims = (
        Claim(
            "within-two",
            "Ours, not the paper's: for every attack some defence stays within 2 points of its run"
            " without attackers.",
            within_two,
        ),
        Claim(
            "as-wary",
            "Ours, not the paper's: under every attack the default, without any stage, loses at"
            " most as much as AFIND+ wary.",
            as_steady_as_wary,
        ),
        Claim(
            "clipped",
            f"Ours, not the paper's: under every attack the default with stages=normclip loses at"
            f" most {LEAST:g} points.",
            steady_when_clipped,
        ),
    )

    def design(self, preset: Preset) -> Design:
        random, ours = gossip(preset.k), afind(preset.k)
        large = preset.sizes["fashionmnist"]
        return Design(
            rows={
                GOSSIP: random,
                AFIND: ours,
                "AFIND+ (paper)": PAPERS,
                WARY: {"strategy": {"name": "afind+", "preset": "wary"}},
                **default(),
                **defended(
                    random,
                    GOSSIP,
                    ("normclip", "simgate", "lossgate", "krum"),
                    ("median", "trimmed"),
                ),
                **defended(ours, AFIND, ("normclip", "lossgate", "krum"), ("median",)),
                **defended(default()[NEW], NEW, ("normclip",)),
                "Local": LOCAL,
            },
            columns={
                CLEAN: {"attack": "none"},
                **{name: {"attack": {"name": name}} for name in ATTACKS},
            },
            panels={
                SKEW: {},
                GROUPS: {
                    "partition": {"name": "iid"},
                    "shift": {"name": "permute_labels", "groups": preset.pick(4, smoke=2)},
                },
            },
            sizes={"fashionmnist": preset.pick(large, cpu={**large, **TINY})},
            seeds=preset.seeds,
            first=(NEW, CLIPPED, WARY, GOSSIP, AFIND, "Gossip/normclip"),
        )

    def picture(self, table: RunTable) -> Figure:
        """A coloured table, with the weight that attackers obtain."""
        return coloured(table, table.panels[0])

    def pictures(self, table: RunTable) -> Mapping[str, Figure]:
        """The same of the other worlds."""
        return {panel.replace(" ", "-"): coloured(table, panel) for panel in table.panels[1:]}


def coloured(table: RunTable, panel: str) -> Figure:
    """Accuracy by row and attack in one world, with the weight that attackers obtain."""
    rows, columns = table.rows, table.columns(panel)
    grid = [[table.entry(panel, r, c) for c in columns] for r in rows]
    value = np.array([[e.accuracy if e else math.nan for e in line] for line in grid])
    weight = [[e.attackers_weight if e else None for e in line] for line in grid]
    figure = heat_table(rows, columns, value, weight)
    figure.axes[0].set_title(panel, fontsize=10, loc="left")
    return figure
