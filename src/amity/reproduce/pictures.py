"""The picture of a table, made from its records alone. Whiskers and bands are one standard
deviation over seeds; of differences, 95 % intervals."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from operator import gt, lt
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter, ScalarFormatter

from amity.reproduce.verdicts import bound, error_ratio, rounds_to, tau_levels, taus_of
from amity.show.figures import DASHES, OTHERS, Array, heat_table, styles

if TYPE_CHECKING:
    from amity.reproduce.experiment import Key
    from amity.reproduce.record import Record
    from amity.reproduce.table import Table

ACCURACY = "test accuracy, mean over peers (%)"
Draw = Callable[["Table"], Figure]


def picture_of(table: Table) -> Figure:
    """What suits the experiment."""
    kinds: dict[str, Draw] = {
        "points": _points,
        "heat": _heat,
        "curves": _curves,
        "tau": _tau,
        "cost": _cost,
        "dots": _dots,
        "theorem": _theorem,
        "coreset": _coreset,
    }
    return kinds[table.experiment.picture](table)


def _legend(axes: Axes, *of: Axes) -> None:
    """To the right of the axes; of others than their own, if told."""
    named = {
        label: handle
        for one in of or (axes,)
        for handle, label in zip(*one.get_legend_handles_labels(), strict=True)
    }
    axes.legend(
        named.values(), named, fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5)
    )


ModelFact = Callable[["Table", "Key"], tuple[float, float, float | None] | None]
"""Of a cell: a value, half the length of its whisker, and what the paper prints."""


def _points(table: Table) -> Figure:
    """A mark a row and column: on the left accuracies, on the right differences to the row that all
    are compared with. A hollow diamond is what the paper prints."""
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
        _strip(table, right, panel, columns, _gap)
        left.set_ylabel("test accuracy (%)")
        left.set_title(panel, fontsize=10, loc="left")
        right.set_ylabel(f"points over {table.experiment.against} (95 %)")
        right.axhline(0, color="grey", linewidth=0.8, zorder=0)
        _legend(right, left, right)
    figure.tight_layout()
    return figure


STRIP = 6
"""So many columns side by side at most."""
MARKS = dict(zip(DASHES, "os^vPX", strict=False))
"""A strategy has its colour, and its variants have marks where they have no dashes."""


def _level(table: Table, key: Key) -> tuple[float, float, float | None] | None:
    entry = table.entry(*key)
    return None if entry is None else (entry.accuracy, entry.std, entry.paper)


def _gap(table: Table, key: Key) -> tuple[float, float, float | None] | None:
    entry, other = table.entry(*key), table.baseline(*key)
    if entry is None or entry.difference is None or other is None:
        return None
    base = table.entry(*other)
    printed = (
        entry.paper - base.paper
        if base and entry.paper is not None and base.paper is not None
        else None
    )
    return entry.difference, entry.interval or 0.0, printed


def _strip(table: Table, axes: Axes, panel: str, columns: list[str], measure: ModelFact) -> None:
    width, looks, diamonds = 0.84 / len(table.rows), styles(table.rows), list[tuple[float, float]]()
    for at, row in enumerate(table.rows):
        found = [
            (k, m)
            for k, column in enumerate(columns)
            if (m := measure(table, (panel, row, column))) is not None
        ]
        if not found:
            continue
        x = np.array([k for k, _ in found]) + (at - (len(table.rows) - 1) / 2) * width
        value, spread = (np.array([m[part] for _, m in found], float) for part in (0, 1))
        _mark(axes, x, value, spread, looks[row], label=row)
        diamonds += [(xk, m[2]) for xk, (_, m) in zip(x, found, strict=True) if m[2] is not None]
    _papers(axes, diamonds, cut=measure is _gap)
    for k in range(1, len(columns)):
        axes.axvline(k - 0.5, color="lightgrey", linewidth=0.6, zorder=0)
    axes.set_xlim(-0.5, len(columns) - 0.5)
    names = [re.sub(r"^(CIFAR-\d+|\w*MNIST|half graph) ", r"\1\n", column) for column in columns]
    axes.set_xticks(range(len(columns)), names, fontsize=8 if len(columns) < 5 else 7)


def _papers(axes: Axes, points: list[tuple[float, float]], cut: bool) -> None:
    """What the paper prints, as hollow diamonds; if so asked, what lies beyond all of ours as
    triangles at the edge."""
    low, high = axes.get_ylim() if cut else (-math.inf, math.inf)
    near = [(x, y) for x, y in points if low <= y <= high]
    above, below = (
        [(x, edge) for x, y in points if beyond(y, edge)]
        for edge, beyond in ((high, gt), (low, lt))
    )
    look: dict[str, Any] = {
        "markerfacecolor": "white",
        "color": "black",
        "linewidth": 0,
        "clip_on": False,
        "markersize": 3.5,
    }
    for mark, found, label in (
        ("D", near, "the paper"),
        ("^", above, "the paper, above"),
        ("v", below, "the paper, below"),
    ):
        if found:
            axes.plot(*zip(*found, strict=True), mark, label=label, **look)
    if cut:
        axes.set_ylim(low, high)


def _mark(
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


def _heat(table: Table) -> Figure:
    rows, columns = table.rows, table.columns()
    entries = {(e.row, e.column): e for e in table.entries}
    value = np.array(
        [[getattr(entries.get((r, c)), "accuracy", math.nan) for c in columns] for r in rows]
    )
    weight = [
        [getattr(entries.get((r, c)), "attackers_weight", None) for c in columns] for r in rows
    ]
    return heat_table(rows, columns, value, weight)


def _band(axes: Axes, x: Array, values: Array, label: str, look: dict[str, Any]) -> None:
    mean, spread = (
        values.mean(0),
        values.std(0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1]),
    )
    axes.plot(x, mean, label=label, **look)
    axes.fill_between(x, mean - spread, mean + spread, alpha=0.12, color=look["color"], linewidth=0)


def _curve(runs: list[Record]) -> tuple[Array, Array]:
    """Rounds, and accuracy in percent: one row a seed."""
    return np.array([point[0] for point in runs[0].curve]), 100 * np.array(
        [[p[2] for p in r.curve] for r in runs]
    )


def _curves(table: Table) -> Figure:
    """Accuracy by round, and by bytes where bytes differ."""
    column, panel = table.columns()[0], table.panels[0]
    by_bytes = table.experiment.against == "Gossip"
    figure = Figure(figsize=(11.0 if by_bytes else 6.4, 3.8))
    drawn = figure.subplots(1, 2 if by_bytes else 1, squeeze=False)[0]
    finals, lowest, looks = [], math.inf, styles(table.rows)
    for row in table.rows:
        runs = list(table.of(panel, row, column).values())
        rounds, accuracy = _curve(runs)
        _band(drawn[0], rounds, accuracy, row, looks[row])
        finals.append(accuracy[:, -1].mean())
        lowest = min(lowest, accuracy.min())
        if by_bytes:
            moved = np.mean([[point[1] for point in run.curve] for run in runs], 0)
            if moved[-1] > 0:
                drawn[1].plot(moved, accuracy.mean(0), **looks[row])
                drawn[1].plot(
                    moved[-1], accuracy.mean(0)[-1], "o", markersize=4, color=looks[row]["color"]
                )
            else:
                drawn[1].axhline(accuracy.mean(0)[-1], linewidth=1, **looks[row])
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
    _legend(drawn[-1], drawn[0])
    figure.tight_layout()
    return figure


def _tau(table: Table) -> Figure:
    """Participants, final accuracy and rounds to a given accuracy, by τ."""
    rows, panel = taus_of(table), table.panels[0]
    taus = [float(row[2:]) for row in rows]
    figure = Figure(figsize=(11.5, 3.3))
    taken, final, sooner = figure.subplots(1, 3)
    for at, column in enumerate(table.columns()):
        runs = [list(table.of(panel, row, column).values()) for row in rows]
        level = tau_levels(table, panel, column)
        measured = (
            (taken, [[r.taken for r in rs] for rs in runs]),
            (final, [[100 * r.accuracy for r in rs] for rs in runs]),
            (sooner, [[rounds_to(r, level) or r.rounds for r in rs] for rs in runs]),
        )
        for axes, values in measured:
            mean = [np.mean(v) if v else math.nan for v in values]
            spread = [np.std(v, ddof=1) if len(v) > 1 else 0.0 for v in values]
            label = f"{column}, to {100 * level:.1f} %" if axes is sooner else column
            axes.errorbar(
                taus,
                mean,
                spread,
                marker="o",
                markersize=4,
                capsize=3,
                label=label,
                color=OTHERS[at % len(OTHERS)],
            )
    taken.set(ylabel="neighbours taken, mean over rounds", ylim=(0, None))
    final.set(ylabel="final test accuracy (%)")
    sooner.set(ylabel="rounds to that accuracy", ylim=(0, None))
    for axes in (taken, final, sooner):
        axes.set_xlabel("τ")
        axes.legend(fontsize=7, frameon=False)
    figure.tight_layout()
    return figure


def _cost(table: Table) -> Figure:
    """Final accuracy against megabytes: a point a row, with one standard deviation."""
    columns, panel = table.columns(), table.panels[0]
    figure = Figure(figsize=(5.6 * len(columns), 4.0))
    for axes, column in zip(
        figure.subplots(1, len(columns), squeeze=False)[0], columns, strict=True
    ):
        looks, named = styles(table.rows), list[tuple[str, float, float, str]]()
        for row in table.rows:
            entry = table.entry(panel, row, column)
            if entry is None:
                continue
            _mark(axes, entry.megabytes, entry.accuracy, entry.std, looks[row])
            named.append((row, entry.megabytes, entry.accuracy, looks[row]["color"]))
        axes.set(xlabel="MB received by a peer in the whole run", ylabel=ACCURACY)
        axes.set_title(column, fontsize=10, loc="left")
        axes.margins(x=0.16)
        _name_points(axes, named)
    figure.tight_layout()
    return figure


def _name_points(axes: Axes, named: list[tuple[str, float, float, str]]) -> None:
    """Names beside points, moved up or down where they would lie on each other."""
    low, high = axes.get_ylim()
    step, width = (high - low) / 24, (axes.get_xlim()[1] - axes.get_xlim()[0]) / 65
    taken = [(x - width, x + width, y) for _, x, y, _ in named]
    for name, x, y, colour in sorted(named, key=lambda point: -point[2]):
        left, right = x + width, x + width * (1 + len(name))
        tries = (y + sign * n * step / 4 for n in range(60) for sign in (1, -1))
        free = (
            at
            for at in tries
            if not any(abs(at - o) < step and left < e and right > s for s, e, o in taken)
        )
        spot = next(free, y)
        taken.append((left, right, spot))
        axes.text(left, spot, name, fontsize=7, color=colour, va="center")


def _dots(table: Table) -> Figure:
    """Rows against their difference to one of them at equal bytes: a mark a column, a line its
    seeds."""
    panels, rows = table.panels, [row for row in table.rows if row != table.experiment.against]
    figure = Figure(figsize=(5.4 * len(panels) + 1.6, 0.27 * len(rows) + 1.3))
    drawn = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axes, panel in zip(drawn, panels, strict=True):
        for at, column in enumerate(table.columns()):
            unnamed = column
            for line, row in enumerate(rows):
                ours = table.accuracies(panel, row, column, equal_bytes=True)
                theirs = table.accuracies(panel, table.experiment.against, column, equal_bytes=True)
                apart = [ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())]
                if apart:
                    y, look = (
                        len(rows) - line + 0.16 * (1.5 - at),
                        {"color": OTHERS[at % len(OTHERS)], "linewidth": 1},
                    )
                    axes.plot([min(apart), max(apart)], [y, y], **look)
                    axes.plot(
                        np.mean(apart), y, "osD^"[at % 4], markersize=3.5, label=unnamed, **look
                    )
                    unnamed = ""
        axes.axvline(0, color="grey", linewidth=0.8)
        axes.set_yticks(
            [len(rows) - line for line in range(len(rows))],
            [row.strip() for row in rows],
            fontsize=8,
        )
        axes.set_xlabel(
            f"points over {table.experiment.against} at its bytes (mark: mean, line: lowest to"
            " highest seed)"
        )
        axes.set_title(panel, fontsize=10, loc="left")
        axes.grid(axis="y", linewidth=0.3)
    _legend(drawn[-1])
    figure.tight_layout()
    return figure


def _theorem(table: Table) -> Figure:
    """The mean squared gradient norm over T rounds for each η with the fitted bound, and the
    consensus distance by η."""
    figure = Figure(figsize=(10.5, 3.8))
    norm, spread = figure.subplots(1, 2)
    mean, fit, slack = bound(table)
    etas = sorted({eta for eta, _ in mean})
    for at, eta in enumerate(etas):
        points = sorted((t, value) for (one, t), value in mean.items() if one == eta)
        t, value = (np.array(axis) for axis in zip(*points, strict=True))
        norm.plot(t, value, color=OTHERS[at % len(OTHERS)], label=f"η = {eta}")
        norm.plot(
            t,
            fit[0] / (eta * t) + fit[1] * eta + fit[2] * eta**2,
            color=OTHERS[at % len(OTHERS)],
            ls=":",
            lw=0.9,
        )
    norm.plot(
        [], [], ":", color="grey", label=f"tightest a/(ηT) + bη + cη² (median slack {slack:.1f})"
    )
    norm.set(
        xscale="log",
        yscale="log",
        xlabel="rounds T",
        ylabel="mean over T rounds of ‖mean gradient‖²",
    )
    norm.legend(fontsize=7, frameon=False)
    looks = styles(table.columns())
    for column in table.columns():
        values = [
            [
                float(np.mean([v for _, v in r.series["consensus"]]))
                for r in table.of("", f"η={eta}", column).values()
            ]
            for eta in etas
        ]
        center = np.array([np.mean(v) for v in values])
        width = [np.std(v, ddof=1) if len(v) > 1 else 0.0 for v in values]
        spread.errorbar(
            etas, center, width, marker="o", markersize=4, capsize=3, label=column, **looks[column]
        )
    reference = np.array(etas) ** 2
    spread.plot(etas, reference * center[0] / reference[0], ":", color="grey", label="∝ η²")
    spread.set(
        xscale="log",
        yscale="log",
        xlabel="learning rate η",
        ylabel="mean squared distance to the mean model",
    )
    spread.set_xticks(etas)
    spread.xaxis.set_major_formatter(ScalarFormatter())
    spread.xaxis.set_minor_formatter(NullFormatter())
    spread.legend(fontsize=8, frameon=False)
    figure.tight_layout()
    return figure


def _coreset(table: Table) -> Figure:
    """Gradient error of the chosen over that of all, by round: below 1, the choice is better than
    chance."""
    columns, panel = table.columns(), table.panels[0]
    figure = Figure(figsize=(5.2 * len(columns) + 1.2, 3.5))
    drawn = figure.subplots(1, len(columns), squeeze=False)[0]
    for axes, column in zip(drawn, columns, strict=True):
        looks = styles(table.rows)
        for row in table.rows:
            ratios = [error_ratio(r) for r in table.of(panel, row, column).values()]
            common = (
                sorted(set.intersection(*[{t for t, _ in ratio} for ratio in ratios]))
                if ratios
                else []
            )
            if common:
                _band(
                    axes,
                    np.array(common),
                    np.array([[dict(ratio)[t] for t in common] for ratio in ratios]),
                    row,
                    looks[row],
                )
        axes.axhline(1, color="grey", linewidth=0.8)
        axes.set(xlabel="round", ylabel="gradient error, chosen / all in reach")
        axes.set_title(column, fontsize=10, loc="left")
    _legend(drawn[-1])
    figure.tight_layout()
    return figure
