"""Tables of percentages in colours: recall by class, and what a sweep found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from amity.show.figures import Array, broken
from amity.show.matrices import SMALL, name_side

LETTERS = 30
"""Of a row's name in one line."""


@dataclass(frozen=True, kw_only=True)
class NumberMap:
    """Percentages by row and column; NaN where there is none."""

    rows: Sequence[str]
    columns: Sequence[str]
    percent: Array
    title: str = ""
    down: str = ""
    """What the rows are."""
    across: str = ""
    framed: tuple[int, int] | None = None
    """Row and column of a cell with a frame."""

    @property
    def names(self) -> list[str]:
        return [broken(name, LETTERS) for name in self.rows]

    @property
    def width(self) -> float:
        """Inches of its cells."""
        return float(np.clip(0.42 * len(self.columns), 1.2, 9.5))

    @property
    def height(self) -> float:
        lines = sum(name.count("\n") + 1 for name in self.names)
        return float(np.clip(0.2 * lines + 0.1 * len(self.rows), 0.4, 9.0))


def number_maps(maps: Sequence[NumberMap], said: str, low: float, high: float) -> Figure:
    """One below the other, with one scale of colours; `said` stands beside it."""
    heights = [one.height + 0.45 * bool(one.title) + 0.4 for one in maps]
    longest = max(len(line) for one in maps for name in one.names for line in name.split("\n"))
    width = max(one.width for one in maps) + 0.065 * longest + 1.3
    figure = Figure(figsize=(width, sum(heights) + 0.2), layout="constrained")
    plots = figure.subplots(len(maps), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, one in zip(plots, maps, strict=True):
        _draw(axes, one, low, max(high, low + 1e-9))
    bar = figure.colorbar(plots[0].images[0], ax=list(plots), fraction=0.05, pad=0.02, aspect=30)
    bar.set_label(said, fontsize=8)
    bar.ax.tick_params(labelsize=SMALL)
    bar.outline.set_visible(False)
    return figure


def _draw(axes: Axes, one: NumberMap, low: float, high: float) -> None:
    axes.imshow(one.percent, cmap="YlGnBu", vmin=low, vmax=high, aspect="auto")
    axes.spines[:].set_visible(False)
    if one.width / len(one.columns) >= 0.3 and len(one.rows) <= 60:
        _write(axes, one.percent, low + 0.55 * (high - low))
    name_side(axes, "y", one.names, one.height)
    name_side(axes, "x", one.columns, one.width)
    axes.set_title(broken(one.title, 60), fontsize=8, loc="left")
    axes.set_ylabel(one.down, fontsize=8)
    axes.set_xlabel(one.across, fontsize=8)
    if one.framed is not None:
        row, column = one.framed
        frame = Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor="#D55E00")
        frame.set(linewidth=2.2, clip_on=False, zorder=5)
        axes.add_patch(frame)


def _write(axes: Axes, percent: Array, dark: float) -> None:
    """The numbers in their cells; in white where the colour is dark."""
    for row, column in np.argwhere(np.isfinite(percent)):
        value = percent[row, column]
        text = f"{value:.0f}" if value >= 99.95 else f"{value:.1f}"
        colour = "white" if value > dark else "black"
        axes.text(column, row, text, color=colour, ha="center", va="center", fontsize=7)


def recall_map(recalls: Mapping[str, Mapping[int, float]], names: Mapping[int, str]) -> Figure:
    """Recall by row and class, in percent."""
    percent = np.array(
        [[100 * row.get(label, np.nan) for label in names] for row in recalls.values()]
    )
    one = NumberMap(rows=list(recalls), columns=list(names.values()), percent=percent)
    low = 10 * float(np.floor(np.nanmin(percent) / 10))
    return number_maps([one], "recall (%)", min(low, 90.0), 100.0)
