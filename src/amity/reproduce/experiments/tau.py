"""Figure 8: the global threshold τ."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from amity.differences import paired
from amity.reproduce.design import Design
from amity.reproduce.paper import Claim, Judged, Printed
from amity.reproduce.presets import Preset
from amity.reproduce.registry import experiments
from amity.reproduce.shared import TWO, threshold
from amity.reproduce.table_of_runs import TableOfRuns
from amity.reproduce.verdicts import (
    NOT,
    OPEN,
    at_least_one,
    graded,
    places,
    sure,
    there,
    weigh,
)
from amity.show.figures import OTHERS
from amity.show.summary import std

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from amity.reproduce.record import CellRecord
    from amity.reproduce.table import CellStats, RunTable


def taus_of(table: RunTable) -> list[str]:
    """The rows of a τ each, from the smallest to the largest; at least two."""
    rows = sorted(
        (row for row in table.rows if re.fullmatch(r"τ=[\d.]+", row)),
        key=lambda row: float(row[2:]),
    )
    if len(rows) < 2:
        raise LookupError("τ")
    return rows


def _entries(table: RunTable, panel: str, column: str) -> list[CellStats]:
    """Of every τ that was run there."""
    cells = [table.entry(panel, row, column) for row in taus_of(table)]
    return at_least_one(entry for entry in cells if entry is not None)


# -- the claims ------------------------------------------------------------------------------------


def fewer(table: RunTable) -> Judged:
    rows, falls, said = taus_of(table), [], []
    for p, c in places(table):
        by_seed = [table.of(p, row, c) for row in rows]
        seeds = at_least_one(set.intersection(*[set(runs) for runs in by_seed]))
        taken = [float(np.mean([runs[s].taken for s in seeds])) for runs in by_seed]
        steady = all(a >= b - 0.05 for a, b in pairwise(taken))
        falls.append(steady and all(by_seed[0][s].taken > by_seed[-1][s].taken for s in seeds))
        said.append(f"{c}: {', '.join(f'{n:.1f}' for n in taken)}")
    return graded(all(falls), any(falls)), (
        f"Neighbours taken, mean over rounds, for {', '.join(rows)}: {'; '.join(said)}."
    )


def stable(table: RunTable) -> Judged:
    rows, spans, found = taus_of(table), [], []
    for p, c in places(table):
        accuracies = [entry.accuracy for entry in _entries(table, p, c)]
        spans.append(max(accuracies) - min(accuracies))
        found.append(table.difference((p, rows[0], c), (p, rows[-1], c)))
    _, evidence = weigh(found)
    firsts = [there(d) for d in found]
    smaller_is_worse = any(d.sign < 0 for d in firsts)
    widest = max(spans)
    status = NOT if widest > 4 else graded(widest <= 2 and not smaller_is_worse, True)
    return status if sure(firsts) else OPEN, (
        f"From best to worst τ: {widest:.1f} points at most (2 are stable, 4 are in part)."
        f" {rows[0]} minus {rows[-1]}: {evidence}"
    )


def needed(record: CellRecord, level: float) -> float:
    """The first measured round with at least this accuracy; all of them if there is none."""
    return next((point[0] for point in record.curve if point[2] >= level), record.rounds)


def level_of(table: RunTable, panel: str, column: str) -> float:
    """The accuracy to be reached: 98 % of the lowest final accuracy of any τ."""
    return 0.0098 * min(entry.accuracy for entry in _entries(table, panel, column))


def sooner(table: RunTable) -> Judged:
    rows, said, found = taus_of(table), [], []
    for p, c in places(table):
        level = level_of(table, p, c)
        rounds = [{s: needed(r, level) for s, r in table.of(p, row, c).items()} for row in rows]
        found.append(there(paired(rounds[0], rounds[-1])))
        means = ", ".join(f"{np.mean(list(n.values())):.0f}" for n in rounds)
        said.append(f"{c} ({100 * level:.1f} %): {means}")
    status, _ = weigh(found)
    return status, (
        f"Rounds to 98 % of the lowest final accuracy, for {', '.join(rows)}:"
        f" {'; '.join(said)}. {rows[-1]} saves {', '.join(map(str, found))} rounds over {rows[0]}."
    )


# -- the experiment --------------------------------------------------------------------------------


@experiments.register("tau")
@dataclass(frozen=True)
class Tau(TableOfRuns):
    """Figure 8: the global threshold τ."""

    title = "The threshold τ: participants, accuracy, rounds"
    place = 50
    against = "τ=0.5"
    friends = True
    printed = Printed(
        where="Figure 8, appendix (no numbers printed)",
        sizes="CIFAR-10, α=0.1, otherwise as Table 1",
        known=(
            "The list of τ has no 0.2, which the text then discusses; we run 0.1, 0.2, 0.5, 0.8,"
            " 1.0 and 1.5.",
            "The threshold as printed admits everyone or no one; ours is e normalised over all in"
            " reach.",
        ),
    )
    claims = (
        Claim("fewer", "A larger τ lets fewer clients take part.", fewer),
        Claim("stable", "Accuracy is stable in τ, slightly better for a small one.", stable),
        Claim("sooner", "A larger τ converges in fewer rounds.", sooner),
    )

    def design(self, preset: Preset) -> Design:
        return Design(
            rows={f"τ={t}": threshold(preset, t) for t in (0.1, 0.2, 0.5, 0.8, 1.0, 1.5)},
            columns=TWO,
            sizes=preset.sizes,
            seeds=preset.seeds,
            first=("τ=0.1", "τ=1.5", "τ=0.5"),
        )

    def picture(self, table: RunTable) -> Figure:
        """Participants, final accuracy and rounds to a given accuracy, by τ."""
        figure = Figure(figsize=(11.5, 3.3))
        taken, final, speed = figure.subplots(1, 3)
        rows, panel = taus_of(table), table.panels[0]
        for at, column in enumerate(table.columns()):
            runs = {float(r[2:]): list(table.of(panel, r, column).values()) for r in rows}
            level, colour = level_of(table, panel, column), OTHERS[at % len(OTHERS)]
            goal = f"{column}, to {100 * level:.1f} %"
            _by_tau(taken, runs, lambda r: r.taken, column, colour)
            _by_tau(final, runs, lambda r: 100 * r.accuracy, column, colour)
            _by_tau(speed, runs, partial(needed, level=level), goal, colour)
        taken.set(ylabel="neighbours taken, mean over rounds", ylim=(0, None))
        final.set(ylabel="final test accuracy (%)")
        speed.set(ylabel="rounds to that accuracy", ylim=(0, None))
        for axes in (taken, final, speed):
            axes.set_xlabel("τ")
            axes.legend(fontsize=7, frameon=False)
        figure.tight_layout()
        return figure


def _by_tau(
    axes: Axes,
    runs: Mapping[float, Sequence[CellRecord]],
    number: Callable[[CellRecord], float],
    label: str,
    colour: str,
) -> None:
    """One line: a number of each run, mean and standard deviation over seeds."""
    values = [[number(record) for record in records] for records in runs.values()]
    axes.errorbar(
        list(runs),
        [float(np.mean(v)) if v else math.nan for v in values],
        [std(v) for v in values],
        marker="o",
        markersize=4,
        capsize=3,
        label=label,
        color=colour,
    )
