"""The gain over training alone, peer by peer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from matplotlib.figure import Figure

from amity.show import curves
from amity.show.panels.base import Picture, panels
from amity.show.story import Story
from amity.show.summary import gains


@panels.register("gains")
@dataclass(frozen=True)
class GainsPanel(Picture):
    """The gain over training alone, peer by peer."""

    order: ClassVar[int] = 20
    title: ClassVar[str] = "Who gains, who is harmed"

    def note(self, story: Story) -> str:
        return (
            f"Each dot is a peer of a seed: its {story.metric.called} in the last round minus that"
            " of the same peer training alone"
            + ("." if story.metric.more else ", with the sign turned: less is better.")
        )

    def figure(self, story: Story) -> Figure | None:
        others = {label: runs for label, runs in story.runs.items() if runs is not story.alone}
        paired = {label: gains(runs, story.alone) for label, runs in others.items()}
        found = {label: values for label, values in paired.items() if values}
        return curves.gain_by_peer(found, story.metric) if found else None
