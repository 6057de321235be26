"""Test accuracy by round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from matplotlib.figure import Figure

from amity.show import figures
from amity.show.panels.base import Picture, panels
from amity.show.story import Story


@panels.register("accuracy")
@dataclass(frozen=True)
class AccuracyPanel(Picture):
    """Test accuracy by round."""

    order: ClassVar[int] = 10
    title: ClassVar[str] = "Accuracy by round"

    def note(self, story: Story) -> str:
        return (
            "After the method's own last step (such as fine-tuning), mean over peers; bands: one"
            " std over seeds."
        )

    def figure(self, story: Story) -> Figure | None:
        return figures.accuracy_curves(story.runs)
