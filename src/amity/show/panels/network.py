"""The network in numbers."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import ClassVar

from amity.show.page import section
from amity.show.panels.base import panels
from amity.show.story import Story


@panels.register("network")
@dataclass(frozen=True)
class NetworkPanel:
    """What was measured of the whole network in the last round; for a single run."""

    order: ClassVar[int] = 80

    def html(self, story: Story) -> str:
        if story.single is None:
            return ""
        last = story.single.rounds[-1].line()
        rows = "".join(
            f"<tr><td>{html.escape(key)}</td><td>{value:.4g}</td></tr>"
            for key, value in last.items()
            if isinstance(value, float)
        )
        note = "What each value means is in docs/RECORDS.md."
        return section("The network in the last round", note, f"<table>{rows}</table>")
