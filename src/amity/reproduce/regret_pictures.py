"""The pictures of the map of regimes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from amity.differences import Difference
from amity.reproduce.regret import ALONE, ANYONE, EVERYONE, FRIENDS, UNKNOWN, Gap
from amity.show.figures import styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TINTS = {
    FRIENDS: "#DCEFE6",
    EVERYONE: "#FBE7D6",
    ANYONE: "#F2F2F2",
    ALONE: "#E4E4F4",
    UNKNOWN: "#FFFFFF",
}
"""The colour of a world, by the company that pays there."""
MOST = 5.0
"""Points of regret at which the scale of colours ends."""


def map_of_gains(
    gains: Mapping[str, Mapping[str, Difference]], pays: Mapping[str, str], rows: Mapping[str, str]
) -> Figure:
    """Worlds one under the other, in the colour of what pays there: the gain over Local of every
    one of these rows, with its 95 % interval. `gains` is by world and row; `rows` says what they
    stand for."""
    worlds = sorted(gains, key=lambda world: list(TINTS).index(pays[world]))
    figure = Figure(figsize=(7.6, 0.32 * len(worlds) + 1.4))
    axes, looks = figure.subplots(), styles(rows)
    for line, world in enumerate(worlds):
        axes.axhspan(line - 0.5, line + 0.5, color=TINTS[pays[world]], linewidth=0, zorder=0)
        axes.text(
            1.01, line, pays[world], transform=axes.get_yaxis_transform(), va="center", fontsize=8
        )
    for at, row in enumerate(rows):
        found = [
            (line, gains[world][row]) for line, world in enumerate(worlds) if row in gains[world]
        ]
        if found:
            y = [line + 0.18 * (at - (len(rows) - 1) / 2) for line, _ in found]
            _across(axes, y, [apart for _, apart in found], looks[row], rows[row])
    axes.axvline(0, color="grey", linewidth=1, zorder=1, label="alone (Local)")
    axes.set_yticks(range(len(worlds)), worlds, fontsize=8)
    axes.set_ylim(len(worlds) - 0.5, -0.5)
    axes.set_xlabel(
        "points over training alone (95 % interval); on the right: whose company pays"
        f"\n{UNKNOWN}: the intervals include 0, so nothing is said"
    )
    axes.legend(
        fontsize=8, frameon=False, ncol=len(rows), loc="lower center", bbox_to_anchor=(0.4, 1)
    )
    figure.tight_layout()
    return figure


def _across(
    axes: Axes, y: list[float], gains: list[Difference], look: dict[str, Any], label: str
) -> None:
    """Marks with whiskers that lie."""
    axes.errorbar(
        [gain.mean for gain in gains],
        y,
        xerr=[gain.half or 0.0 for gain in gains],
        fmt="o",
        color=look["color"],
        markersize=4.5,
        capsize=2,
        linewidth=0.9,
        label=label,
    )


def map_of_regret(gaps: Mapping[tuple[str, str], Gap], rows: Sequence[str]) -> Figure:
    """Worlds x strategies: points behind the best rival. Blue is better than all of them."""
    worlds = list(dict.fromkeys(world for _, world in gaps))
    value = np.array(
        [[gaps[r, w].behind.mean if (r, w) in gaps else np.nan for r in rows] for w in worlds]
    )
    figure = Figure(figsize=(0.62 * len(rows) + 4.2, 0.3 * len(worlds) + 1.6))
    axes = figure.subplots()
    image = axes.imshow(value, cmap="RdBu_r", vmin=-MOST, vmax=MOST, aspect="auto")
    for (line, at), points in np.ndenumerate(value):
        if np.isfinite(points):
            colour = "white" if abs(points) > 0.7 * MOST else "black"
            shown = f"{points:.1f}".replace("-", "−")
            axes.text(at, line, shown, ha="center", va="center", fontsize=7, color=colour)
    axes.set_xticks(range(len(rows)), rows, rotation=30, ha="right", fontsize=8)
    axes.set_yticks(range(len(worlds)), worlds, fontsize=8)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02, extend="both")
    bar.set_label("points behind the best rival", fontsize=8)
    bar.outline.set_visible(False)
    figure.tight_layout()
    return figure
