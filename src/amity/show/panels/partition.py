"""Which classes each peer holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from matplotlib.figure import Figure

from amity.show import matrices
from amity.show.panels.base import Picture, panels
from amity.show.story import Story


@panels.register("partition")
@dataclass(frozen=True)
class PartitionPanel(Picture):
    """Which classes each peer holds."""

    order: ClassVar[int] = 60
    title: ClassVar[str] = "The partition"

    def note(self, story: Story) -> str:
        return f"Which classes each peer holds (seed {story.config.seed})."

    def figure(self, story: Story) -> Figure | None:
        known = story.friendship
        return None if known is None else matrices.partition_bubbles(known)
