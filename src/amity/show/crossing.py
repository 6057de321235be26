"""Everyone's model on everyone's test examples, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from amity.round.truth import Friendship
from amity.show.figures import Array
from amity.show.matrices import SMALL, name_side, order_of, short

if TYPE_CHECKING:
    from amity.store import Crossed
    from amity.tasks.metrics import Metric

COLOURS = {True: "cividis", False: "cividis_r"}
"""By whether more is better. Colour-blind readers see them as everyone does, and lighter is
better."""
WRITTEN = 24
"""Peers up to which there is room for the numbers themselves."""
WORST = 5
"""Of a hundred numbers, so many of the worst may share one colour."""
Beyond = Literal["neither", "min", "max"]


def crossing(crossed: Crossed, friendship: Friendship | None) -> Figure:
    """Row: whose model; column: on whose test examples. Friends stand side by side."""
    order = _order(crossed.names, friendship)
    metric = crossed.metric
    shown = metric.factor * crossed.array[np.ix_(order, order)]
    names = short([crossed.names[at] for at in order])
    side = float(np.clip(0.34 * len(names), 1.8, 8.2))
    figure = Figure(figsize=(side + 1.6, side + 0.7), layout="constrained")
    axes = figure.subplots()
    low, high, beyond = _scale(shown, metric)
    image = axes.imshow(
        shown, cmap=COLOURS[metric.more], vmin=low, vmax=high, interpolation="nearest"
    )
    axes.spines[:].set_visible(False)
    name_side(axes, "x", names, side)
    name_side(axes, "y", names, side)
    axes.set_xlabel("on the test examples of", fontsize=8)
    axes.set_ylabel("model of", fontsize=8)
    bar = figure.colorbar(image, ax=axes, fraction=0.046, pad=0.03, extend=beyond)
    bar.set_label(metric.head, fontsize=8)
    bar.ax.tick_params(labelsize=SMALL)
    bar.outline.set_visible(False)
    if len(names) <= WRITTEN:
        _write(axes, shown, (low + high) / 2, metric)
    return figure


def _order(names: Sequence[str], friendship: Friendship | None) -> Array:
    """As the other matrices of a report have it."""
    if friendship is None:
        return np.arange(len(names))
    ranked = [friendship.names[at] for at in order_of(friendship)]
    return np.array([names.index(name) for name in ranked if name in names])


def _scale(shown: Array, metric: Metric) -> tuple[float, float, Beyond]:
    """From where to where colours go. Shares are all told apart. Other numbers may have a few that
    are far worse than the rest, and would leave no colours for it."""
    sound = shown[np.isfinite(shown)]
    if not len(sound):
        return 0.0, 1.0, "neither"
    low, high = float(sound.min()), float(sound.max())
    if metric.unit == "%":
        return low, high, "neither"
    if metric.more:
        return float(np.percentile(sound, WORST)), high, "min"
    return low, float(np.percentile(sound, 100 - WORST)), "max"


def _write(axes: Axes, shown: Array, middle: float, metric: Metric) -> None:
    """The numbers in their cells; each peer's own model is bold."""
    for (row, column), value in np.ndenumerate(shown):
        if np.isfinite(value):
            text = f"{value:.0f}" if metric.unit == "%" else f"{value:.3g}"
            written = axes.text(column, row, text, ha="center", va="center", fontsize=7)
            dark = (value < middle) == metric.more
            written.set_color("white" if dark else "black")
            written.set_fontweight("bold" if row == column else "normal")
