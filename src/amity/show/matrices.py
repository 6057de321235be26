"""Who took from whom, and who holds what. A matrix has names on its sides, and a bar that says what
its colours mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from amity.core import START
from amity.round.truth import Friendship
from amity.show.figures import COLOURS, Array, Runs, axes_of, broken

if TYPE_CHECKING:
    from amity.lab.result import Result

POINT = 1 / 72
"""Inches."""
SMALL = 6.0
"""Points: the smallest letters."""


def mixing_matrix(result: Result, names: Sequence[str], last: float = 0.4) -> Array:
    """W, mean over the last rounds: row i is how much peer i took from whom (its own part on the
    diagonal)."""
    at = {name: i for i, name in enumerate(names)}
    since = int((result.rounds[-1].round + 1) * (1 - last))
    matrix, count = np.zeros((len(names), len(names))), np.zeros((len(names), 1))
    for edge in result.edges:
        if edge.round >= since:
            count[at[edge.peer]] += 1
            for j, weight in edge.row.items():
                matrix[at[edge.peer], at[edge.peer if j == START else j]] += weight
    return np.asarray(matrix / count.clip(1))


def similar_order(overlap: Array) -> Array:
    """Peers in an order that puts similar ones side by side."""
    if len(overlap) < 3:
        return np.arange(len(overlap))
    distance = 1 - (overlap + overlap.T) / 2
    np.fill_diagonal(distance, 0)
    return np.asarray(leaves_list(linkage(squareform(distance.clip(0), checks=False), "average")))


def order_of(friendship: Friendship) -> Array:
    """Peers group by group, where there are groups, and similar labels side by side."""
    place = np.argsort(similar_order(friendship.overlap))
    return np.lexsort((place, friendship.group_numbers))


def short(names: Sequence[str]) -> list[str]:
    """Names without what they have in common: `07` of `peer-07`."""
    return [name.removeprefix("peer-") for name in names]


def name_side(axes: Axes, side: str, names: Sequence[str], inches: float) -> None:
    """Names along a side of this length; if there is no room for all, for every second, fifth, ..
    of them."""
    room = max(1, int(inches / (1.25 * SMALL * POINT)))
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100, len(names)) if -(-len(names) // s) <= room)
    at = range(0, len(names), step)
    shown, each = [names[k] for k in at], inches / POINT / len(names) * step
    size = min(8.0, max(SMALL, each / 1.6))
    if side == "x":
        flat = 0.65 * size * max(map(len, shown)) < each
        axes.set_xticks(at, shown, fontsize=size, rotation=0 if flat else 90)
    else:
        axes.set_yticks(at, shown, fontsize=size)
    axes.tick_params(length=1.5, pad=1.5, width=0.5)


# -- who took from whom ----------------------------------------------------------------------------


def heat_maps(runs: Runs, friendship: Friendship) -> Figure:
    """Who took from whom (the first seed's last rounds, without the diagonal) beside the truth.
    Every matrix has a scale of its own, from 0 to its largest value."""
    truth = friendship.matrix
    title = "true groups" if friendship.kind == "group" else "true label similarity"
    panels: list[tuple[str, Array, str]] = [(title, truth, "Greens")]
    panels += [
        (label, mixing_matrix(results[0], friendship.names), "Blues")
        for label, results in runs.items()
    ]
    side = float(np.clip(0.11 * len(truth), 1.7, 3.4))
    columns = min(max(2, int(11.5 / (side + 0.75))), len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=((side + 0.75) * columns, (side + 0.65) * rows), layout="constrained")
    draw_matrices(figure, panels, friendship, side, (rows, columns))
    return figure


def draw_matrices(
    figure: Figure | SubFigure,
    panels: Sequence[tuple[str, Array, str]],
    friendship: Friendship,
    side: float,
    grid: tuple[int, int],
) -> None:
    """Matrices with their titles and colours, in the order that puts friends side by side."""
    order = order_of(friendship)
    names = short([friendship.names[i] for i in order])
    plots = figure.subplots(*grid, squeeze=False).ravel()
    for axes in plots[len(panels) :]:
        axes.axis("off")
    for axes, (title, matrix, colours) in zip(plots, panels, strict=False):
        heat(figure, axes, np.array(matrix[np.ix_(order, order)], float), colours)
        name_side(axes, "x", names, side)
        name_side(axes, "y", names, side)
        axes.set_title(broken(title), fontsize=8)


def heat(figure: Figure | SubFigure, axes: Axes, shown: Array, colours: str) -> None:
    """One matrix without its diagonal, and its scale."""
    np.fill_diagonal(shown, np.nan)
    most = float(np.nanmax(shown)) if np.nansum(shown) > 0 else 1.0
    image = axes.imshow(shown, cmap=colours, vmin=0, vmax=most, interpolation="nearest")
    bar = figure.colorbar(image, ax=axes, fraction=0.046, pad=0.03, ticks=[0, most])
    bar.ax.set_yticklabels(["0", f"{most:.2g}"], fontsize=SMALL)
    bar.outline.set_visible(False)
    axes.spines[:].set_visible(False)


def partition_bubbles(friendship: Friendship) -> Figure:
    """Peers x classes: the area of a bubble is the class's share of the peer's training
    examples. Lines stand between groups."""
    order, labels, names = order_of(friendship), friendship.shares, friendship.names
    peers, classes = labels.shape
    figure, axes = axes_of(
        max(4.0, min(12.0, 0.28 * peers + 1.5)), max(2.2, min(10.0, 0.22 * classes + 1))
    )
    x, y = np.meshgrid(np.arange(peers), np.arange(classes), indexing="ij")
    size = labels[order] * min(140.0, 6000 / max(peers, classes))
    axes.scatter(x.ravel(), y.ravel(), s=size.ravel(), color=COLOURS[0], alpha=0.75, linewidth=0)
    for edge in np.flatnonzero(np.diff(friendship.group_numbers[order])):
        axes.axvline(edge + 0.5, color="grey", linewidth=0.8)
    axes.set(xlabel="peer (similar ones side by side)", ylabel="class")
    if classes <= 20:
        axes.set_yticks(range(classes))
    width = figure.get_figwidth() * 0.775
    name_side(axes, "x", short([names[i] for i in order]), width)
    return figure
