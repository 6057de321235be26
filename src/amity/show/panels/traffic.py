"""Test accuracy against the bytes that a peer received."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from matplotlib.figure import Figure

from amity.show import curves
from amity.show.panels.base import Picture, panels
from amity.show.story import Story


@panels.register("bytes")
@dataclass(frozen=True)
class TrafficPanel(Picture):
    """Test accuracy against the bytes that a peer received."""

    order: ClassVar[int] = 30
    title: ClassVar[str] = "Accuracy against bytes"

    def note(self, story: Story) -> str:
        return (
            "The same accuracies against the traffic that they cost: cards, models and replies"
            " received by a peer."
        )

    def figure(self, story: Story) -> Figure | None:
        return curves.accuracy_by_bytes(story.runs)
