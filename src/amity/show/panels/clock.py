"""Test accuracy against time, where peers are not equally fast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from matplotlib.figure import Figure

from amity.show import curves
from amity.show.panels.base import Picture, panels
from amity.show.story import Story


@panels.register("clock")
@dataclass(frozen=True)
class ClockPanel(Picture):
    """Test accuracy against time, where peers are not equally fast."""

    order: ClassVar[int] = 31
    title: ClassVar[str] = "Accuracy against time"

    def note(self, story: Story) -> str:
        return (
            "The same accuracies against the simulated clock. The unit is what a peer of speed 1"
            " needs for the training of a round. Who is slow is waited for as real peers do: a"
            " little, and then no more; it takes part again when it is ready."
        )

    def figure(self, story: Story) -> Figure | None:
        return curves.accuracy_by_time(story.runs)
