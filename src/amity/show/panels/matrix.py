"""The mixing matrix beside the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from matplotlib.figure import Figure

from amity.show import matrices
from amity.show.panels.base import Picture, panels
from amity.show.story import Story


@panels.register("matrix")
@dataclass(frozen=True)
class MatrixPanel(Picture):
    """The mixing matrix beside the truth: who is in whose group, or who has similar labels."""

    order: ClassVar[int] = 40
    title: ClassVar[str] = "Who took from whom"

    def note(self, story: Story) -> str:
        return (
            f"The mixing matrix, mean over the last 40 % of rounds of seed {story.config.seed},"
            " beside the truth; row: who took, column: from whom. Friends stand side by side, so"
            f" they form blocks: a friend is {story.said}."
        )

    def figure(self, story: Story) -> Figure | None:
        if story.friendship is None:
            return None
        alike = {
            label: runs
            for label, runs in story.runs.items()
            if runs[0].config.peers == story.config.peers
        }
        return matrices.heat_maps(alike, story.friendship)
