"""What a sweep found at each point of its grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from matplotlib.figure import Figure

from amity.show.number_maps import NumberMap, number_maps
from amity.show.panels.base import Picture, panels
from amity.show.story import Story
from amity.show.tried import Tried


@panels.register("grid")
@dataclass(frozen=True)
class GridPanel(Picture):
    """Of a sweep: the accuracy that it chose by, over the grid, with the chosen point framed."""

    order: ClassVar[int] = 2
    title: ClassVar[str] = "The grid"

    def note(self, story: Story) -> str:
        chosen_on = story.tries.chosen_on if story.tries is not None else ""
        return (
            f"{story.metric.head} on {chosen_on} examples in the last round, mean over peers and"
            " seeds. The frame is what was chosen; a point without a number was not tried."
        )

    def figure(self, story: Story) -> Figure | None:
        if story.tries is None:
            return None
        tries, best = story.tries.by_strategy, story.tries.best
        maps = [
            one for name, points in tries.items() if (one := map_of(points, best[name])) is not None
        ]
        if not maps:
            return None
        seen = np.concatenate([one.percent[np.isfinite(one.percent)] for one in maps])
        said = f"{story.tries.chosen_on} {story.metric.head}"
        return number_maps(maps, said, float(seen.min()), float(seen.max()))


def map_of(tries: Sequence[Tried], best: Tried) -> NumberMap | None:
    """The key with the most values goes across, all combinations of the others down; None if only
    one point was tried, or none has ended."""
    keys = {key: _values(tries, key) for key in tries[0].values}
    varied = [key for key, values in keys.items() if len(values) > 1]
    if not varied or not any(one.by_seed for one in tries):
        return None
    across = max(varied, key=lambda key: len(keys[key]))
    down = [key for key in varied if key != across]
    rows = sorted(
        {tuple(one.values[key] for key in down) for one in tries},
        key=lambda row: [keys[key].index(part) for key, part in zip(down, row, strict=True)],
    )
    percent = np.full((len(rows), len(keys[across])), np.nan)
    places = {
        one.label: (
            rows.index(tuple(one.values[key] for key in down)),
            keys[across].index(one.values[across]),
        )
        for one in tries
    }
    for one in tries:
        if one.by_seed:
            percent[places[one.label]] = one.metric.factor * one.score
    return NumberMap(
        title=best.strategy,
        rows=[", ".join(f"{k}={v}" for k, v in zip(down, row, strict=True)) for row in rows],
        columns=[str(value) for value in keys[across]],
        percent=percent,
        across=across,
        framed=places[best.label],
    )


def _values(tries: Sequence[Tried], key: str) -> list[Any]:
    """The values of a key: numbers by size, others in the order in which they come."""
    found = list(dict.fromkeys(one.values[key] for one in tries))
    numbers = all(isinstance(value, int | float) for value in found)
    return sorted(found) if numbers else found
