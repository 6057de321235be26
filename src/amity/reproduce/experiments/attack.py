"""Attackers and defences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from amity.reproduce.design import Design
from amity.reproduce.paper import Claim, Judged, Printed
from amity.reproduce.presets import TINY, Layer, Preset
from amity.reproduce.registry import experiments
from amity.reproduce.shared import AFIND, GOSSIP, LOCAL, PAPERS, afind, gossip
from amity.reproduce.table_of_runs import TableOfRuns
from amity.reproduce.verdicts import OPEN, graded, judged_rows, places
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
        " points of the same row without attackers."
    )
    printed = Printed(where="beyond the paper")
    claims = (
        Claim(
            "within-two",
            "Ours, not the paper's: for every attack some defence stays within 2 points of its run"
            " without attackers.",
            within_two,
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
                "AFIND+ (wary)": {"strategy": {"name": "afind+", "preset": "wary"}},
                **defended(
                    random,
                    GOSSIP,
                    ("normclip", "simgate", "lossgate", "krum"),
                    ("median", "trimmed"),
                ),
                **defended(ours, AFIND, ("normclip", "lossgate", "krum"), ("median",)),
                "Local": LOCAL,
            },
            columns={
                CLEAN: {"attack": "none"},
                **{name: {"attack": {"name": name}} for name in ATTACKS},
            },
            sizes={"fashionmnist": preset.pick(large, cpu={**large, **TINY})},
            seeds=preset.seeds,
            first=(GOSSIP, AFIND, "Gossip/normclip"),
        )

    def picture(self, table: RunTable) -> Figure:
        """A coloured table, with the weight that attackers obtain."""
        rows, columns = table.rows, table.columns()
        cells = {(e.row, e.column): e for e in table.entries}
        grid = [[cells.get((r, c)) for c in columns] for r in rows]
        value = np.array([[e.accuracy if e else math.nan for e in line] for line in grid])
        weight = [[e.attackers_weight if e else None for e in line] for line in grid]
        return heat_table(rows, columns, value, weight)
