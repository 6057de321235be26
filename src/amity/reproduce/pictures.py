"""The picture of a table, made from its records alone. Whiskers and bands are one standard deviation over seeds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter, ScalarFormatter

from amity.figures import OTHERS, Array, heat_table, styles
from amity.reproduce.verdicts import bound, error_ratio, rounds_to, tau_levels

if TYPE_CHECKING:
    from amity.reproduce.record import Record
    from amity.reproduce.table import Table

ACCURACY = "test accuracy, mean over peers (%)"
Draw = Callable[["Table"], Figure]


def picture_of(table: Table) -> Figure:
    """What suits the experiment."""
    kinds: dict[str, Draw] = {
        "bars": _bars,
        "heat": _heat,
        "curves": _curves,
        "tau": _tau,
        "cost": _cost,
        "lines": _lines,
        "dots": _dots,
        "theorem": _theorem,
        "coreset": _coreset,
    }
    return kinds[table.experiment.picture](table)


def _legend(axes: Axes) -> None:
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))


def _bars(table: Table) -> Figure:
    """A group of bars a column, a bar a row; a hollow diamond is what the paper prints. The axis is cut off."""
    strips = []
    for panel in table.panels:
        columns = table.columns(panel)
        strips += [(panel, columns[at : at + STRIP]) for at in range(0, len(columns), STRIP)]
    widest = max(len(columns) for _, columns in strips)
    figure = Figure(figsize=(max(6.0, 0.27 * len(table.rows) * widest + 2.4), 2.9 * len(strips)))
    for axes, (panel, columns) in zip(figure.subplots(len(strips), 1, squeeze=False)[:, 0], strips, strict=True):
        _strip(table, axes, panel, columns)
    figure.tight_layout()
    return figure


STRIP = 4
"""So many columns side by side."""


def _strip(table: Table, axes: Axes, panel: str, columns: list[str]) -> None:
    rows = table.rows
    width, seen, looks = 0.84 / len(rows), list[float](), styles(rows)
    for at, row in enumerate(rows):
        look = looks[row]
        entries = [(k, e) for k, column in enumerate(columns) if (e := table.entry(panel, row, column)) is not None]
        if not entries:
            continue
        x = np.array([k for k, _ in entries]) + (at - (len(rows) - 1) / 2) * width
        mean, spread = np.array([e.accuracy for _, e in entries]), np.array([e.std for _, e in entries])
        axes.bar(
            x,
            mean,
            width * 0.9,
            yerr=spread,
            color=look["color"],
            alpha=1.0 if look["linestyle"] == "-" else 0.5,
            label=row,
            capsize=2,
            error_kw={"linewidth": 0.8},
        )
        printed = [(xk, e.paper) for xk, (_, e) in zip(x, entries, strict=True) if e.paper is not None]
        if printed:
            axes.plot(*zip(*printed, strict=True), "D", markersize=3.5, markerfacecolor="white", color="black", linewidth=0)
        seen += [*(mean - spread), *(mean + spread), *(value for _, value in printed)]
    low, high = min(seen), max(seen)
    axes.set_ylim(max(0.0, low - 0.08 * (high - low) - 1), min(101.0, high + 0.06 * (high - low) + 1))
    axes.set_xticks(range(len(columns)), columns)
    axes.set_ylabel("test accuracy (%)")
    axes.set_title(panel, fontsize=10, loc="left")
    if table.printed.numbers:
        axes.plot([], [], "D", markersize=3.5, markerfacecolor="white", color="black", label="the paper", linewidth=0)
    _legend(axes)


def _heat(table: Table) -> Figure:
    rows, columns = table.rows, table.columns()
    entries = {(e.row, e.column): e for e in table.entries}
    value = np.array([[getattr(entries.get((r, c)), "accuracy", math.nan) for c in columns] for r in rows])
    weight = [[getattr(entries.get((r, c)), "attackers_weight", None) for c in columns] for r in rows]
    return heat_table(rows, columns, value, weight)


def _band(axes: Axes, x: Array, values: Array, label: str, look: dict[str, Any]) -> None:
    mean, spread = values.mean(0), values.std(0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1])
    axes.plot(x, mean, label=label, **look)
    axes.fill_between(x, mean - spread, mean + spread, alpha=0.12, color=look["color"], linewidth=0)


def _curve(runs: list[Record]) -> tuple[Array, Array]:
    """Rounds, and accuracy in percent: one row a seed."""
    return np.array([point[0] for point in runs[0].curve]), 100 * np.array([[p[2] for p in r.curve] for r in runs])


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
                drawn[1].plot(moved[-1], accuracy.mean(0)[-1], "o", markersize=4, color=looks[row]["color"])
            else:
                drawn[1].axhline(accuracy.mean(0)[-1], linewidth=1, **looks[row])
    who = f"test accuracy of {table.experiment.called} (%)" if table.experiment.focus else ACCURACY
    drawn[0].set(xlabel="round", ylabel=who)
    drawn[0].xaxis.set_major_locator(MaxNLocator(integer=True))
    bottom = max(lowest, min(finals) - 12)
    for axes in drawn:
        axes.set_ylim(bottom=bottom)
    if by_bytes:
        drawn[1].set(xlabel="MB received by a peer so far (line: receives nothing)", ylabel=ACCURACY)
    handles, labels = drawn[0].get_legend_handles_labels()
    drawn[-1].legend(handles, labels, fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.tight_layout()
    return figure


def _tau(table: Table) -> Figure:
    """Participants, final accuracy and rounds to a given accuracy, by τ."""
    rows, panel = table.rows, table.panels[0]
    taus = [float(row.partition("=")[2]) for row in rows]
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
            mean = [np.mean(v) for v in values]
            spread = [np.std(v, ddof=1) if len(v) > 1 else 0.0 for v in values]
            label = f"{column}, to {100 * level:.1f} %" if axes is sooner else column
            axes.errorbar(
                taus, mean, spread, marker="o", markersize=4, capsize=3, label=label, color=OTHERS[at % len(OTHERS)]
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
    for axes, column in zip(figure.subplots(1, len(columns), squeeze=False)[0], columns, strict=True):
        looks, named = styles(table.rows), list[tuple[str, float, float, str]]()
        for row in table.rows:
            entry = table.entry(panel, row, column)
            if entry is None:
                continue
            colour = looks[row]["color"]
            hollow = {} if looks[row]["linestyle"] == "-" else {"markerfacecolor": "white"}
            axes.errorbar(
                entry.megabytes, entry.accuracy, entry.std, marker="o", capsize=2, color=colour, linewidth=0.8, **hollow
            )
            named.append((row, entry.megabytes, entry.accuracy, colour))
        axes.set(xlabel="MB received by a peer in the whole run", ylabel=ACCURACY)
        axes.set_title(column, fontsize=10, loc="left")
        axes.margins(x=0.16)
        _name_points(axes, named)
    figure.tight_layout()
    return figure


def _name_points(axes: Axes, named: list[tuple[str, float, float, str]]) -> None:
    """Names beside points, moved down where they would lie on each other."""
    low, high = axes.get_ylim()
    step, width = (high - low) / 24, (axes.get_xlim()[1] - axes.get_xlim()[0]) / 65
    taken: list[tuple[float, float, float]] = []
    for name, x, y, colour in sorted(named, key=lambda point: -point[2]):
        left, right, spot = x + width, x + width * (1 + len(name)), y
        while any(abs(spot - other) < step and left < end and right > start for start, end, other in taken):
            spot -= step / 4
        taken.append((left, right, spot))
        axes.text(left, spot, name, fontsize=7, color=colour, va="center")


def _lines(table: Table) -> Figure:
    """A line a row over the columns."""
    columns, panel = table.columns(), table.panels[0]
    figure = Figure(figsize=(1.25 * len(columns) + 2.5, 3.6))
    axes = figure.subplots()
    looks = styles(table.rows)
    for row in table.rows:
        entries = [(k, e) for k, c in enumerate(columns) if (e := table.entry(panel, row, c)) is not None]
        x, mean, spread = zip(*[(k, e.accuracy, e.std) for k, e in entries], strict=True)
        axes.errorbar(x, mean, spread, marker="o", markersize=4, capsize=3, label=row, **looks[row])
    axes.set_xticks(range(len(columns)), [column.replace(", ", ",\n") for column in columns], fontsize=8)
    axes.set_ylabel(ACCURACY)
    _legend(axes)
    return figure


def _dots(table: Table) -> Figure:
    """Rows against their difference to one of them at equal bytes: a mark a column, a line its seeds."""
    panels, rows = table.panels, [row for row in table.rows if row != table.experiment.against]
    figure = Figure(figsize=(5.4 * len(panels) + 1.6, 0.27 * len(rows) + 1.3))
    drawn = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axes, panel in zip(drawn, panels, strict=True):
        for at, column in enumerate(table.columns()):
            for line, row in enumerate(rows):
                ours = table.accuracies(panel, row, column, equal_bytes=True)
                theirs = table.accuracies(panel, table.experiment.against, column, equal_bytes=True)
                apart = [ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())]
                if apart:
                    y, look = len(rows) - line + 0.16 * (1.5 - at), {"color": OTHERS[at % len(OTHERS)], "linewidth": 1}
                    axes.plot([min(apart), max(apart)], [y, y], **look)
                    label = column if line == 0 else None
                    axes.plot(np.mean(apart), y, "osD^"[at % 4], markersize=3.5, label=label, **look)
        axes.axvline(0, color="grey", linewidth=0.8)
        axes.set_yticks([len(rows) - line for line in range(len(rows))], [row.strip() for row in rows], fontsize=8)
        axes.set_xlabel(f"points over {table.experiment.against} at its bytes (line: seeds)")
        axes.set_title(panel, fontsize=10, loc="left")
        axes.grid(axis="y", linewidth=0.3)
    _legend(drawn[-1])
    figure.tight_layout()
    return figure


def _theorem(table: Table) -> Figure:
    """The mean squared gradient norm over T rounds for each η with the fitted bound, and the consensus distance by η."""
    figure = Figure(figsize=(10.5, 3.8))
    norm, spread = figure.subplots(1, 2)
    mean, fit, slack = bound(table)
    etas = sorted({eta for eta, _ in mean})
    for at, eta in enumerate(etas):
        points = sorted((t, value) for (one, t), value in mean.items() if one == eta)
        t, value = (np.array(axis) for axis in zip(*points, strict=True))
        norm.plot(t, value, color=OTHERS[at % len(OTHERS)], label=f"η = {eta}")
        norm.plot(t, fit[0] / (eta * t) + fit[1] * eta + fit[2] * eta**2, color=OTHERS[at % len(OTHERS)], linestyle=":")
    norm.plot([], [], ":", color="grey", label=f"tightest a/(ηT) + bη + cη² (median slack {slack:.1f})")
    norm.set(xscale="log", yscale="log", xlabel="rounds T", ylabel="mean over T rounds of ‖mean gradient‖²")
    norm.legend(fontsize=7, frameon=False)
    looks = styles(table.columns())
    for column in table.columns():
        values = [
            [float(np.mean([v for _, v in r.series["consensus"]])) for r in table.of("", f"η={eta}", column).values()]
            for eta in etas
        ]
        center = np.array([np.mean(v) for v in values])
        width = [np.std(v, ddof=1) if len(v) > 1 else 0.0 for v in values]
        spread.errorbar(etas, center, width, marker="o", markersize=4, capsize=3, label=column, **looks[column])
    reference = np.array(etas) ** 2
    spread.plot(etas, reference * center[0] / reference[0], ":", color="grey", label="∝ η²")
    spread.set(xscale="log", yscale="log", xlabel="learning rate η", ylabel="mean squared distance to the mean model")
    spread.set_xticks(etas)
    spread.xaxis.set_major_formatter(ScalarFormatter())
    spread.xaxis.set_minor_formatter(NullFormatter())
    spread.legend(fontsize=8, frameon=False)
    figure.tight_layout()
    return figure


def _coreset(table: Table) -> Figure:
    """Gradient error of the chosen over that of all, by round: below 1, the choice is better than chance."""
    columns, panel = table.columns(), table.panels[0]
    figure = Figure(figsize=(5.2 * len(columns) + 1.2, 3.5))
    drawn = figure.subplots(1, len(columns), squeeze=False)[0]
    for axes, column in zip(drawn, columns, strict=True):
        looks = styles(table.rows)
        for row in table.rows:
            ratios = [error_ratio(r) for r in table.of(panel, row, column).values()]
            common = sorted(set.intersection(*[{t for t, _ in ratio} for ratio in ratios])) if ratios else []
            if common:
                _band(
                    axes, np.array(common), np.array([[dict(ratio)[t] for t in common] for ratio in ratios]), row, looks[row]
                )
        axes.axhline(1, color="grey", linewidth=0.8)
        axes.set(xlabel="round", ylabel="gradient error, chosen / all in reach")
        axes.set_title(column, fontsize=10, loc="left")
    _legend(drawn[-1])
    figure.tight_layout()
    return figure
