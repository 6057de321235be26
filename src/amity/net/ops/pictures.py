"""Pictures and tables about real peers, from what each wrote of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from amity.core import START
from amity.show import figures
from amity.show.classes import Recall, pooled, read, shares
from amity.show.matrices import name_side
from amity.show.number_maps import recall_map

if TYPE_CHECKING:
    from amity.net.ops.report import PeerStory

EVERYONE = "all peers"


def drawn(found: Sequence[PeerStory]) -> dict[str, Figure]:
    """All pictures that there is something to show in, by name."""
    recalls = recalls_of(found)
    pictures = {"accuracy": curves(found), "matrix": matrix(found)}
    if recalls:
        rows = {name: shares(part) for name, part in recalls.items()}
        pictures["classes"] = recall_map(rows, names_of(found, recalls))
    return pictures


def recalls_of(found: Sequence[PeerStory]) -> dict[str, Mapping[int, Recall]]:
    """Of each peer in the last round that it measured, and of all of them together."""
    each: dict[str, Mapping[int, Recall]] = {}
    for story in found:
        counts = [r.by_class for r in story.metrics if r.by_class]
        if counts:
            each[story.name] = read(counts[-1])
    return {EVERYONE: pooled(each.values()), **each} if len(each) > 1 else each


def names_of(
    found: Sequence[PeerStory], recalls: Mapping[str, Mapping[int, Recall]]
) -> dict[int, str]:
    """What the classes are called, as far as a peer's own file says so."""
    known: Sequence[str] = next((story.classes for story in found if story.classes), ())
    named = dict(enumerate(known))
    return {c: named.get(c, str(c)) for c in sorted({c for part in recalls.values() for c in part})}


def curves(found: Sequence[PeerStory]) -> Figure:
    """Accuracy by round; round 0 is the untrained model."""
    figure, axes = figures.axes_of()
    look = figures.styles(story.name for story in found)
    for story in found:
        unit = story.metric.factor
        measured = [(r.round + 1, r.lead(), r.lead("start")) for r in story.metrics]
        points = [(at, unit * value) for at, value, _ in measured if value is not None]
        starts = [unit * start for _, _, start in measured if start is not None]
        points = [*((0, start) for start in starts[:1]), *points]
        if points:
            axes.plot(*zip(*points, strict=True), label=story.name, **look[story.name])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="round", ylabel=f"test {found[0].metric.head}" if found else "")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def matrix(found: Sequence[PeerStory]) -> Figure:
    """Who took how much from whom, mean over all rounds."""
    rows = [story.name for story in found]
    columns = sorted(
        {*rows, *(j for story in found for edge in story.edges for j in edge.row if j != START)}
    )
    weights = np.zeros((len(rows), len(columns)))
    for at, story in enumerate(found):
        for edge in story.edges:
            for j, weight in edge.row.items():
                weights[at, columns.index(story.name if j == START else j)] += weight / len(
                    story.edges
                )
    width, height = min(0.45 * len(columns), 9.0), min(0.35 * len(rows), 9.0)
    figure = Figure(figsize=(2.6 + width, 1.4 + height), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(weights, cmap="Blues", vmin=0, aspect="auto")
    name_side(axes, "x", columns, width)
    name_side(axes, "y", rows, height)
    axes.set(xlabel="taken from", ylabel="who took")
    figure.colorbar(image, ax=axes, label="weight")
    return figure
