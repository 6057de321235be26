"""What pictures of tables share, and the two that several tables have. All are made from records
alone. Whiskers and bands are one standard deviation over seeds; of differences, 95 % intervals."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from operator import gt, lt
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from amity.show.figures import DASHES, Array, styles

if TYPE_CHECKING:
    from amity.reproduce.design import CellKey
    from amity.reproduce.record import CellRecord
    from amity.reproduce.table import RunTable

ACCURACY = "test accuracy, mean over peers (%)"
STRIP = 6
"""At most this many columns stand side by side."""
MARKS = dict(zip(DASHES, "os^vPX", strict=False))
"""A strategy has its colour, and its variants have marks where they have no dashes."""
Spot = tuple[float, float, float | None]
"""A value, half the length of its whisker, and what the paper prints."""
SpotOf = Callable[["RunTable", "CellKey"], Spot | None]


def legend(axes: Axes, *of: Axes) -> None:
    """To the right of the axes; of others than their own, if told."""
    named = {
        label: handle
        for one in of or (axes,)
        for handle, label in zip(*one.get_legend_handles_labels(), strict=True)
    }
    axes.legend(
        named.values(), named, fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5)
    )


def mark(
    axes: Axes, x: Any, y: Any, spread: Any, look: dict[str, Any], label: str | None = None
) -> None:
    """Points with whiskers in the colour of a strategy."""
    axes.errorbar(
        x,
        y,
        spread,
        fmt=MARKS.get(look["linestyle"], "o"),
        color=look["color"],
        markerfacecolor=look["color"] if look["linestyle"] == "-" else "white",
        markersize=4.5,
        capsize=2,
        linewidth=0.9,
        label=label,
    )


def band(axes: Axes, x: Array, values: Array, label: str, look: dict[str, Any]) -> None:
    """A line through means with its spread, of one row of values per seed."""
    mean = values.mean(0)
    spread = values.std(0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1])
    axes.plot(x, mean, label=label, **look)
    axes.fill_between(x, mean - spread, mean + spread, alpha=0.12, color=look["color"], linewidth=0)


# -- a mark per cell -------------------------------------------------------------------------------


def points(table: RunTable) -> Figure:
    """A mark per row and column: on the left accuracies, on the right differences to the row that
    all are compared with. A hollow diamond is what the paper prints."""
    strips = []
    for panel in table.panels:
        columns = table.columns(panel)
        size = math.ceil(len(columns) / math.ceil(len(columns) / STRIP))
        strips += [(panel, columns[at : at + size]) for at in range(0, len(columns), size)]
    widest = max(len(columns) for _, columns in strips)
    figure = Figure(
        figsize=(2 * max(3.6, 0.2 * len(table.rows) * widest + 0.8) + 1.6, 2.7 * len(strips))
    )
    for (left, right), (panel, columns) in zip(
        figure.subplots(len(strips), 2, squeeze=False), strips, strict=True
    ):
        _strip(table, left, panel, columns, _level)
        _strip(table, right, panel, columns, _gap, cut=True)
        left.set_ylabel("test accuracy (%)")
        left.set_title(panel, fontsize=10, loc="left")
        right.set_ylabel(f"points over {table.experiment.against} (95 %)")
        right.axhline(0, color="grey", linewidth=0.8, zorder=0)
        legend(right, left, right)
    figure.tight_layout()
    return figure


def _level(table: RunTable, key: CellKey) -> Spot | None:
    entry = table.entry(*key)
    return None if entry is None else (entry.accuracy, entry.std, entry.paper)


def _gap(table: RunTable, key: CellKey) -> Spot | None:
    entry, other = table.entry(*key), table.baseline(*key)
    if entry is None or entry.difference is None or other is None:
        return None
    base = table.entry(*other)
    known = base and entry.paper is not None and base.paper is not None
    printed = entry.paper - base.paper if known else None  # type: ignore[operator, union-attr]
    return entry.difference, entry.interval or 0.0, printed


def _strip(
    table: RunTable,
    axes: Axes,
    panel: str,
    columns: list[str],
    spot_of: SpotOf,
    cut: bool = False,
) -> None:
    width, looks = 0.84 / len(table.rows), styles(table.rows)
    diamonds: list[tuple[float, float]] = []
    for at, row in enumerate(table.rows):
        spots = [(k, spot_of(table, (panel, row, column))) for k, column in enumerate(columns)]
        found = [(k, spot) for k, spot in spots if spot is not None]
        if not found:
            continue
        x = np.array([k for k, _ in found]) + (at - (len(table.rows) - 1) / 2) * width
        value, spread = (np.array([spot[part] for _, spot in found], float) for part in (0, 1))
        mark(axes, x, value, spread, looks[row], label=row)
        papers = [paper for _, (_, _, paper) in found]
        diamonds += [(xk, paper) for xk, paper in zip(x, papers, strict=True) if paper is not None]
    _papers(axes, diamonds, cut)
    for k in range(1, len(columns)):
        axes.axvline(k - 0.5, color="lightgrey", linewidth=0.6, zorder=0)
    axes.set_xlim(-0.5, len(columns) - 0.5)
    names = [re.sub(r"^(CIFAR-\d+|\w*MNIST|half graph) ", r"\1\n", column) for column in columns]
    axes.set_xticks(range(len(columns)), names, fontsize=8 if len(columns) < 5 else 7)


def _papers(axes: Axes, printed: list[tuple[float, float]], cut: bool) -> None:
    """What the paper prints, as hollow diamonds; if cut, what lies beyond all of ours as triangles
    at the edge."""
    low, high = axes.get_ylim() if cut else (-math.inf, math.inf)
    near = [(x, y) for x, y in printed if low <= y <= high]
    above, below = (
        [(x, edge) for x, y in printed if beyond(y, edge)]
        for edge, beyond in ((high, gt), (low, lt))
    )
    look: dict[str, Any] = {
        "markerfacecolor": "white",
        "color": "black",
        "linewidth": 0,
        "clip_on": False,
        "markersize": 3.5,
    }
    for shape, found, label in (
        ("D", near, "the paper"),
        ("^", above, "the paper, above"),
        ("v", below, "the paper, below"),
    ):
        if found:
            axes.plot(*zip(*found, strict=True), shape, label=label, **look)
    if cut:
        axes.set_ylim(low, high)


# -- a line per row --------------------------------------------------------------------------------


def curves(table: RunTable, by_bytes: bool = True) -> Figure:
    """Accuracy by round, and by bytes where they differ."""
    column, panel = table.columns()[0], table.panels[0]
    figure = Figure(figsize=(11.0 if by_bytes else 6.4, 3.8))
    drawn = figure.subplots(1, 2 if by_bytes else 1, squeeze=False)[0]
    finals, lowest, looks = [], math.inf, styles(table.rows)
    for row in table.rows:
        runs = list(table.of(panel, row, column).values())
        rounds, accuracy = _curve(runs)
        band(drawn[0], rounds, accuracy, row, looks[row])
        finals.append(accuracy[:, -1].mean())
        lowest = min(lowest, accuracy.min())
        if by_bytes:
            _against_bytes(drawn[1], runs, accuracy.mean(0), looks[row])
    who = f"test accuracy of {table.experiment.called} (%)" if table.experiment.focus else ACCURACY
    drawn[0].set(xlabel="round", ylabel=who)
    drawn[0].xaxis.set_major_locator(MaxNLocator(integer=True))
    bottom = max(lowest, min(finals) - 12)
    for axes in drawn:
        axes.set_ylim(bottom=bottom)
    if by_bytes:
        drawn[1].set(
            xlabel="MB received by a peer so far (line: receives nothing)", ylabel=ACCURACY
        )
    legend(drawn[-1], drawn[0])
    figure.tight_layout()
    return figure


def _curve(runs: list[CellRecord]) -> tuple[Array, Array]:
    """Rounds, and accuracy in percent: one row per seed."""
    rounds = np.array([point[0] for point in runs[0].curve])
    return rounds, 100 * np.array([[p[2] for p in r.curve] for r in runs])


def _against_bytes(axes: Axes, runs: list[CellRecord], mean: Array, look: dict[str, Any]) -> None:
    """The same line by bytes; who receives nothing is level."""
    moved = np.mean([[point[1] for point in run.curve] for run in runs], 0)
    if moved[-1] > 0:
        axes.plot(moved, mean, **look)
        axes.plot(moved[-1], mean[-1], "o", markersize=4, color=look["color"])
    else:
        axes.axhline(mean[-1], linewidth=1, **look)
