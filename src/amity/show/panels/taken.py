"""How many neighbours a peer takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from matplotlib.figure import Figure

from amity.show import curves
from amity.show.panels.base import Picture, panels
from amity.show.story import Story


@panels.register("taken")
@dataclass(frozen=True)
class TakenPanel(Picture):
    """How many neighbours a peer takes."""

    order: ClassVar[int] = 50
    title: ClassVar[str] = "Neighbours taken"

    def note(self, story: Story) -> str:
        return "How many neighbours stand in a peer's average."

    def figure(self, story: Story) -> Figure | None:
        return curves.neighbours_taken(story.runs)
