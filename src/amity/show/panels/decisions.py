"""Why one peer decided as it did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from amity.show.decisions import last_round_said, told
from amity.show.page import html_table, section
from amity.show.panels.base import panels
from amity.show.story import Story

if TYPE_CHECKING:
    from amity.lab.result import Result

MOST_LINES = 20


@panels.register("decisions")
@dataclass(frozen=True)
class DecisionsPanel:
    """What the strategy says about one peer's decisions, round by round; for strategies that have
    words for their notes."""

    order: ClassVar[int] = 48

    def html(self, story: Story) -> str:
        return "".join(_of(label, runs[0]) for label, runs in story.runs.items())


def _of(label: str, result: Result) -> str:
    found = told(result)
    if found is None:
        return ""
    shown = [[str(round + 1), said] for round, said in found.said[:MOST_LINES]]
    left = len(found.said) - len(shown)
    more = f" {left} later changes are left out." if left else ""
    if any("right" in said for _, said in shown):
        more += f" How right a model is: {result.config.task.instance.rightly}."
    return section(
        f"Why {found.peer} took whom it took: {label}",
        f"A line for each round in which that changed (seed {result.config.seed}).{more} Of all"
        f" peers, in the last round {last_round_said(result)}.",
        html_table(["round", "what it knew, and what it did"], shown, wrap=True),
    )
