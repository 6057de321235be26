"""Several worlds side by side: one table, one picture, one page."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from amity.live.bundle import Moving
from amity.processes import Aside
from amity.show import curves, figures, matrices
from amity.show.columns import COLUMNS, NONE, cells_of
from amity.show.page import framed, html_table, markdown_table, page, section
from amity.show.report import foot_of
from amity.show.summary import Line

if TYPE_CHECKING:
    from amity.lab.comparison import Comparison

Comparisons = Mapping[str, "Comparison"]
PartsOf = Callable[[str], Sequence[str]]
"""All that the report of a world says, by its name."""
SHOWN = ("accuracy", "vs local", "harmed", "friends")
"""What the table says of a strategy in each world."""
NOTE = (
    "Accuracy in the last round in %, mean over peers ± std over seeds; points over training alone"
    " ± half of the 95 % interval over seeds; share of peers that do worse than alone; where there"
    " are groups, the share of true friends among those taken."
)


def head_of(comparisons: Comparisons) -> list[str]:
    """The columns: each world's own, its name first."""
    names = ["strategy"]
    for world, comparison in comparisons.items():
        first, *others = _shown(comparison)
        names += [f"{world}: {first}", *others]
    return names


def lines_of(comparisons: Comparisons) -> dict[str, list[str]]:
    """The cells of every strategy, without its name."""
    labels = dict.fromkeys(
        line.label for comparison in comparisons.values() for line in comparison.lines
    )
    return {
        label: [cell for comparison in comparisons.values() for cell in _cells(comparison, label)]
        for label in labels
    }


def markdown(comparisons: Comparisons) -> str:
    """The table as Markdown."""
    lines = [[f"`{label}`", *cells] for label, cells in lines_of(comparisons).items()]
    return markdown_table(head_of(comparisons), lines) + "\n"


def _shown(comparison: Comparison) -> tuple[str, ...]:
    """Friends are worth a column where there are groups; elsewhere everyone is like everyone, or a
    friend is a matter of degree."""
    return SHOWN if grouped(comparison) else SHOWN[:-1]


def _cells(comparison: Comparison, label: str) -> list[str]:
    line: Line | None = next((x for x in comparison.lines if x.label == label), None)
    if line is None:
        return [NONE] * len(_shown(comparison))
    cells = dict(zip((column.name for column in COLUMNS), cells_of(line), strict=True))
    return [cells[name] for name in _shown(comparison)]


def grouped(comparison: Comparison) -> bool:
    """Whether this world has hidden groups."""
    friendship = comparison.story.friendship
    return friendship is not None and friendship.kind == "group"


# -- the picture -----------------------------------------------------------------------------------


def picture(comparisons: Comparisons) -> Figure:
    """Accuracy by round in every world, and below it, for the first world with groups, who took
    from whom beside the truth."""
    shown = next((c for c in comparisons.values() if grouped(c)), None)
    height = 3.6 if shown is None else 6.0
    figure = Figure(figsize=(max(5.5 * len(comparisons), 7.5), height), layout="constrained")
    if shown is None:
        _curves(figure, comparisons)
        return figure
    above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=(3.6, 2.4))[:, 0]
    _curves(above, comparisons)
    _matrices(below, shown)
    return figure


def narrow(comparisons: Comparisons) -> Figure:
    """The same for a small screen: one below the other, and large enough to be read there."""
    shown = next((c for c in comparisons.values() if grouped(c)), None)
    heights = (2.6 * len(comparisons) + 0.8, 0.01 if shown is None else 3.2)
    figure = Figure(figsize=(4.6, sum(heights)), layout="constrained")
    above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=heights)[:, 0]
    plots = above.subplots(len(comparisons), 1, squeeze=False, sharex=True)[:, 0]
    _draw_curves(plots, comparisons)
    for axes in plots[:-1]:
        axes.set_xlabel("")
    above.legend(*plots[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    if shown is not None:
        _matrices(below, shown, 3)
    return figure


def _curves(figure: Figure | SubFigure, comparisons: Comparisons) -> None:
    plots = figure.subplots(1, len(comparisons), squeeze=False, sharey=True)[0]
    _draw_curves(plots, comparisons)
    for axes in plots[1:]:
        axes.set_ylabel("")
    plots[-1].legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))


def _draw_curves(plots: Sequence[Axes], comparisons: Comparisons) -> None:
    for axes, (world, comparison) in zip(plots, comparisons.items(), strict=True):
        curves.draw_accuracy(axes, _references_first(comparison))
        axes.set_title(f"{figures.broken(world, 60)}: {_groups(comparison)}", fontsize=9)
        axes.set_xlim(left=0)
        if comparison.story.metric.factor == 100:
            axes.set_ylim(0, 102)


def _references_first(comparison: Comparison) -> figures.Runs:
    """So that their curves lie below those of strategies that reach them."""
    runs, fair = comparison.story.runs, {line.label for line in comparison.fair}
    return {label: runs[label] for label in sorted(runs, key=fair.__contains__)}


def _groups(comparison: Comparison) -> str:
    friendship = comparison.story.friendship
    found = set() if friendship is None else set(friendship.groups.values())
    return f"{len(found)} hidden groups" if found else "no hidden groups"


def _matrices(figure: SubFigure, comparison: Comparison, across: int = 0) -> None:
    """The true groups, and the rows of all that a real network could run and that take anyone; so
    many beside each other, or all."""
    friendship = comparison.story.friendship
    if friendship is None:
        return
    taking = [line.label for line in comparison.fair if line.taken > 0]
    drawn = [("true groups", friendship.matrix, "Greens")]
    for label in taking:
        first = comparison.results[label][0]
        drawn.append((label, matrices.mixing_matrix(first, friendship.names), "Blues"))
    grid = (math.ceil(len(drawn) / across), across) if across else (1, len(drawn))
    matrices.draw_matrices(figure, drawn, friendship, 0.7 if across else 1.5, grid)


# -- the page --------------------------------------------------------------------------------------


def worlds_html(
    comparisons: Comparisons, folder: Path, parts_of: PartsOf, drawn: str, replays: Aside[Moving]
) -> str:
    """The report: all worlds in one table and one picture (`drawn`, as SVG), then each with all of
    its panels."""
    lines: Sequence[Sequence[str]] = [
        [label, *cells] for label, cells in lines_of(comparisons).items()
    ]
    parts = [
        part
        for world in comparisons
        for part in (f"<h1>World: {html.escape(world)}</h1>", *parts_of(world))
    ]
    return page(
        "Amity: worlds",
        "<h1>Who should I learn from?</h1>",
        section("All worlds side by side", NOTE, html_table(head_of(comparisons), lines)),
        section(
            "At a glance",
            "Accuracy by round in every world; below, in the first world with groups, who took from"
            " whom (row: who took) beside the groups that no peer was told.",
            framed(drawn, "At a glance"),
        ),
        *parts,
        foot=foot_of(*comparisons.values(), folder=folder),
        replays=replays,
    )
