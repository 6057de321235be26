"""What collaboration is worth to each peer, by its shadow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from amity.show.alone import worth_of, worth_said
from amity.show.page import html_table, section
from amity.show.panels.base import panels
from amity.show.story import Story

if TYPE_CHECKING:
    from amity.lab.result import Result


@panels.register("alone")
@dataclass(frozen=True)
class AlonePanel:
    """Each peer beside its shadow that learns from nobody, where there is one."""

    order: ClassVar[int] = 22

    def html(self, story: Story) -> str:
        return "".join(_of(label, runs[0]) for label, runs in story.runs.items())


def _of(label: str, result: Result) -> str:
    metric = result.metric
    found = worth_of(result.metrics, metric)
    if not found:
        return ""
    lines = [
        [peer, metric.text(w.together), metric.text(w.alone), metric.number(w.gain, "+")]
        for peer, w in found.items()
    ]
    return section(
        f"Does collaboration help? {label}",
        f"A shadow of each peer trains alone on its data, every {result.config.eval.shadow} rounds"
        f" (seed {result.config.seed}). In the last rounds {worth_said(found)}.",
        html_table(["peer", metric.called, "alone", f"gain ({metric.apart})"], lines),
    )
