"""What must be said beside the numbers."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import ClassVar

from amity.show.panels.base import panels
from amity.show.remarks import remarks_of
from amity.show.story import Story


@panels.register("remarks")
@dataclass(frozen=True)
class RemarksPanel:
    """Runs that diverged, ended early or were extended; nothing where there are none."""

    order: ClassVar[int] = 1

    def html(self, story: Story) -> str:
        said = remarks_of(story.runs)
        items = "".join(f"<li>{html.escape(line)}</li>" for line in said)
        return f'<ul class="remarks">{items}</ul>' if said else ""
