"""How well each class is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from matplotlib.figure import Figure

from amity.show.classes import of_runs, recalls, shares
from amity.show.matrices import short
from amity.show.number_maps import recall_map
from amity.show.panels.base import Picture, panels
from amity.show.story import Story

EVERYONE = "all peers"


@panels.register("classes")
@dataclass(frozen=True)
class ClassesPanel(Picture):
    """Recall by class: of each strategy, or in a single run of each peer."""

    order: ClassVar[int] = 35
    title: ClassVar[str] = "Recall by class"

    def note(self, story: Story) -> str:
        whose = (
            "of each peer, and of all peers' examples together"
            if story.single is not None
            else "all peers and seeds together"
        )
        return (
            "Of the test examples of a class, how many are classified right in the last round,"
            f" {whose}. Balanced accuracy is a peer's mean over the classes that it has."
        )

    def figure(self, story: Story) -> Figure | None:
        rows = {label: shares(of_runs(runs)) for label, runs in story.runs.items()}
        if story.single is not None:
            each = recalls(story.single)
            named = zip(short(list(each)), each.values(), strict=True)
            rows = {EVERYONE: next(iter(rows.values()))}
            rows |= {peer: shares(part) for peer, part in named}
        return recall_map(rows, story.class_names) if any(rows.values()) else None
