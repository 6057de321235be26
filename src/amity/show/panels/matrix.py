"""The mixing matrix beside the true similarity of labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from matplotlib.figure import Figure

from amity.show import figures
from amity.show.panels.base import Picture, panels
from amity.show.story import Story


@panels.register("matrix")
@dataclass(frozen=True)
class MatrixPanel(Picture):
    """The mixing matrix beside the true similarity of labels."""

    order: ClassVar[int] = 40
    title: ClassVar[str] = "Who took from whom"

    def note(self, story: Story) -> str:
        return (
            f"The mixing matrix, mean over the last 40 % of rounds of seed {story.config.seed},"
            " beside the true label similarity; row: who took, column: from whom. Peers with"
            " similar labels stand side by side, so friends form blocks."
        )

    def figure(self, story: Story) -> Figure | None:
        if story.config.data.absent:  # it was passed as an object to another process
            return None
        alike = {
            label: runs
            for label, runs in story.runs.items()
            if runs[0].config.peers == story.config.peers
        }
        return figures.heat_maps(alike, story.names, story.overlap)
