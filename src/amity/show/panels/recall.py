"""How many of its friends a peer finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from matplotlib.figure import Figure

from amity.show import curves
from amity.show.panels.base import Picture, panels
from amity.show.story import Story


@panels.register("recall")
@dataclass(frozen=True)
class RecallPanel(Picture):
    """How many of its friends a peer finds."""

    order: ClassVar[int] = 45
    title: ClassVar[str] = "Recall of friends by round"

    def note(self, story: Story) -> str:
        friend = f" A friend is {story.said}." if story.said else ""
        return f"Of all friends in reach, how many stand in their friends' averages.{friend}"

    def figure(self, story: Story) -> Figure | None:
        return curves.recall_of_friends(story.runs)
