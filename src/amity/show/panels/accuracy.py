"""Test accuracy by round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from matplotlib.figure import Figure

from amity.show import curves
from amity.show.panels.base import Picture, panels
from amity.show.story import Story
from amity.tasks import ACCURACY


@panels.register("accuracy")
@dataclass(frozen=True)
class AccuracyPanel(Picture):
    """Test accuracy by round."""

    order: ClassVar[int] = 10
    title: ClassVar[str] = "Accuracy by round"

    def note(self, story: Story) -> str:
        seeds = max(map(len, story.runs.values()))
        bands = "; bands: one std over seeds" * (seeds > 1)
        start = "; round 0 is the untrained model" * (
            next(iter(story.runs.values()))[0].start is not None
        )
        metric = story.metric
        what = "" if metric == ACCURACY else f"Test {metric.head}. "
        return (
            f"{what}After the method's own last step (such as fine-tuning), mean over"
            f" peers{bands}{start}."
        )

    def figure(self, story: Story) -> Figure | None:
        return curves.accuracy_curves(story.runs)
