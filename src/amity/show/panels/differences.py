"""How far strategies lie apart, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from amity.differences import Difference
from amity.show.page import html_table, section
from amity.show.panels.base import panels
from amity.show.story import Story
from amity.show.summary import apart

MOST = 14
"""As many strategies as a table of all pairs has room for."""


@panels.register("differences")
@dataclass(frozen=True)
class DifferencesPanel:
    """All differences of accuracy, paired by seed, with their intervals."""

    order: ClassVar[int] = 15

    def html(self, story: Story) -> str:
        if not 2 <= len(story.runs) <= MOST:
            return ""
        lines = [
            [one, *(_cell(apart(story.runs[one], story.runs[other])) for other in story.runs)]
            for one in story.runs
        ]
        for at, line in enumerate(lines):
            line[at + 1] = ""
        return section(
            "Differences, paired by seed",
            f"The row's {story.metric.called} minus the column's in the last round, in"
            f" {story.metric.apart or 'its own numbers'}: mean over the"
            " seeds that both have, ± half of the 95 % interval (Student's t). Bold: the interval"
            " excludes 0.",
            html_table(["row minus column", *story.runs], lines),
        )


def _cell(gap: Difference | None) -> str:
    if gap is None:
        return "-"
    return f"**{gap}**" if gap.sign else str(gap)
