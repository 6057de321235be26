"""What a sweep chose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from amity.show.page import html_table, section
from amity.show.panels.base import panels
from amity.show.story import Story


@panels.register("winners")
@dataclass(frozen=True)
class WinnersPanel:
    """Of a sweep: the best try of each strategy, and how far it is ahead of the next."""

    order: ClassVar[int] = 1

    def html(self, story: Story) -> str:
        if story.tries is None:
            return ""
        head, lines = winners(story)
        warning = f" These were {story.tries.warning}." if story.tries.warning else ""
        return section(
            "The winners",
            f"The best try of each strategy by {story.tries.chosen_on} {story.metric.head}, mean"
            f" over peers and seeds, and the {story.metric.apart or 'difference'} by which it is"
            " ahead of the strategy's second best,"
            f" paired by seed ± half of the 95 % interval.{warning}",
            html_table(head, lines, wrap=True),
        )


def winners(story: Story) -> tuple[list[str], list[list[str]]]:
    """The table: a header, and a line for each strategy."""
    tries = story.tries
    if tries is None:
        return [], []
    metric, named = story.metric, story.metric.called
    head = ["strategy", "chosen", f"{tries.chosen_on} {named}", f"test {named}", "ahead by"]
    tests = {line.label: metric.number(line.accuracy) for line in story.lines}
    lines = []
    for name, best in tries.best.items():
        values = ", ".join(f"{key}={value}" for key, value in best.values.items())
        second = tries.ahead(name)
        ahead = "-" if second is None or second[1] is None else str(second[1])
        score = metric.number(best.score) if best.by_seed else "-"
        lines.append([name, values or "-", score, tests.get(best.label, "-"), ahead])
    return head, lines
