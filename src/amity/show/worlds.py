"""How a world with groups of peers looks: what each group sees, and who is in it."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from amity.core import PeerId
from amity.data import Dataset, PeerData, Samples
from amity.data.inputs import kind_of
from amity.data.shift import members
from amity.show import figures
from amity.show.page import framed, html_table, section

Array = np.ndarray[Any, np.dtype[Any]]
Data = Mapping[PeerId, PeerData]
MOST_GROUPS, MOST_LABELS, MOST_COLUMNS, MOST_NAMES = 20, 12, 8, 8
"""What a picture or a table has room for."""


def groups_said(data: Data) -> str:
    """How many groups there are, their sizes, and who is alone in one; empty: there are none."""
    found = members(data)
    if not found:
        return ""
    sizes = ", ".join(str(len(names)) for names in found.values())
    alone = [names[0] for names in found.values() if len(names) == 1]
    loners = f"; loners: {_some(alone)}" if alone else "; no loners"
    groups = "1 group" if len(found) == 1 else f"{len(found)} groups"
    return f"{len(data)} peers in {groups} of {sizes}{loners}"


def world_section(title: str, dataset: Dataset, data: Data) -> str:
    """What each group sees, and who is in it; empty where there are no groups."""
    found = members(data)
    if not found:
        return ""
    names = [group_name(dataset, group) for group in found]
    table = html_table(
        ["group", "peers", "who"],
        [
            [name, "1, a loner" if len(who) == 1 else str(len(who)), _some(who)]
            for name, who in zip(names, found.values(), strict=True)
        ],
        wrap=True,
    )
    held = [_held(data, who) for who in list(found.values())[:MOST_GROUPS]]
    images = len(dataset.sides) == 3
    seen = (
        framed(figures.svg(group_sheet(dataset, names, held)), title, photo=True)
        if images
        else _means(dataset, names, held)
        if kind_of(dataset.shape) not in ("tokens", "several")
        else ""
    )
    note = (
        f"{groups_said(data)}. All examples of a group, for training and for testing, are changed"
        " in the same way."
        + (" A column shows what the groups give the same label." if images else "")
    )
    return section(title, note, seen + table)


def group_name(dataset: Dataset, group: int) -> str:
    """As the data calls it, or its number."""
    return dataset.group_names[group] if dataset.group_names else str(group)


def group_sheet(dataset: Dataset, names: Sequence[str], held: Sequence[Samples]) -> Figure:
    """A row a group: its first training image with each label. So what a group sees, and what it
    calls what it sees, stand side by side with the other groups."""
    _, height, width = dataset.sides
    shown = min(MOST_LABELS, dataset.classes)
    figure = Figure(figsize=(0.6 * shown + 0.8, 0.6 * len(held) * height / width + 0.5))
    axes = figure.subplots()
    axes.imshow(_sheet(dataset, held, shown), interpolation="nearest")
    axes.set_yticks(
        [row * (height + 2) + height / 2 for row in range(len(held))],
        [f"group {name}" for name in names[: len(held)]],
        fontsize=7,
    )
    classes = dataset.names or tuple(map(str, range(dataset.classes)))
    places = [label * (width + 2) + width / 2 for label in range(shown)]
    axes.set_xticks(places, classes[:shown], fontsize=7)
    axes.set_xlabel("label", fontsize=7)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return figure


def _sheet(dataset: Dataset, held: Sequence[Samples], shown: int) -> Array:
    """The pictures in their places; a label that a group has not leaves its place white."""
    channels, height, width = dataset.sides
    sheet = np.ones((len(held) * (height + 2), shown * (width + 2), 3))
    low, high = _range(held)
    for row, samples in enumerate(held):
        labels = samples.pixels.y[samples.index]
        for label in range(shown):
            mine = samples.index[labels == label]
            if len(mine):
                image = samples.pixels.x[int(mine[0])].float().cpu().numpy()
                image = ((image - low) / (high - low)).clip(0, 1)
                picture = np.repeat(image[:1], 3, 0) if channels < 3 else image[:3]
                top, left = row * (height + 2), label * (width + 2)
                sheet[top : top + height, left : left + width] = picture.transpose(1, 2, 0)
    return sheet


def _range(held: Sequence[Samples]) -> tuple[float, float]:
    """Black and white for all groups alike, so that darker groups look darker."""
    ends = [s.pixels.x[s.index[:200]].float().aminmax() for s in held]
    low, high = min(float(e.min) for e in ends), max(float(e.max) for e in ends)
    return low, max(high, low + 1e-6)


def _held(data: Data, who: Sequence[PeerId]) -> Samples:
    """The training examples of these peers."""
    parts = [data[name].train for name in who]
    return Samples(parts[0].pixels, torch.cat([part.index for part in parts]))


def _means(dataset: Dataset, names: Sequence[str], held: Sequence[Samples]) -> str:
    """Of a table: the mean of the first columns, and the mean example of each label, by group."""
    columns = min(MOST_COLUMNS, dataset.sides[0])
    classes = (dataset.names or tuple(map(str, range(dataset.classes))))[:MOST_LABELS]
    by_column, by_label = [], []
    for name, samples in zip(names, held, strict=False):
        raw = samples.pixels.x[samples.index].float().flatten(1)
        x, y = samples.pixels.batch(samples.index)
        by_column.append([name, *(f"{v:.3g}" for v in raw.mean(0)[:columns].tolist())])
        means = [
            f"{float(x[y == label].mean()):.2f}" if bool((y == label).any()) else "-"
            for label in range(len(classes))
        ]
        by_label.append([name, *means])
    return (
        "<p>Mean of the first columns, by group:</p>"
        + html_table(["group", *(f"column {k + 1}" for k in range(columns))], by_column)
        + "<p>Mean of all columns (each normalised) of the examples with a label, by group:</p>"
        + html_table(["group", *map(html.escape, classes)], by_label)
    )


def _some(names: Sequence[str]) -> str:
    """A few of many."""
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
