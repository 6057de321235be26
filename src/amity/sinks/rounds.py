"""A line for each round: what `amity peer run` tells its operator."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console

from amity.console import out_console
from amity.core import START
from amity.events import CellId, Event, RoundDone, RunStarted, Sink
from amity.records import Report
from amity.sinks.happenings import Happenings
from amity.sinks.registry import sinks
from amity.tasks import ACCURACY, Metric, metric_of

SETTLED = "as planned: near the end it makes its own what it has from strangers"
"""Of the note `settled`, without which this would look like a failure."""


def took(report: Report) -> str:
    """For a single peer: from whom it took. For many peers: from how many they took."""
    if len(report.peers) != 1:
        return f"{report.network.taken:.3g} neighbours"
    (me,) = report.peers
    row = {j: weight for j, weight in report.rows[me].items() if j not in (me, START)}
    nobody = f"nobody ({SETTLED})" if report.peers[me].notes.get("settled") else "nobody"
    return ", ".join(f"{j} {weight:.2f}" for j, weight in sorted(row.items())) or nobody


class RoundLines:
    """`round 3: accuracy 81.2 %, took from hospital-b 0.40; 1.2 s`."""

    def __init__(self, console: Console) -> None:
        self._console, self._happenings = console, Happenings()
        self._metrics: dict[CellId, Metric] = {}

    def take(self, event: Event) -> None:
        if said := self._happenings.line(event):
            self._console.print(said, soft_wrap=True, markup=False)
        if isinstance(event, RunStarted):
            self._metrics[event.cell] = metric_of(event.config)
        if not isinstance(event, RoundDone):
            return
        report, metric = event.report, self._metrics.get(event.cell, ACCURACY)
        score = report.network.lead()
        line = (
            f"{event.cell.label + ', ' if event.cell.group else ''}round {report.round}:"
            f"{'' if score is None else f' {metric.called} {metric.text(score)},'}"
            f" took from {took(report)}; {sum(report.seconds.values()):.1f} s"
        )
        self._console.print(line, soft_wrap=True, markup=False)

    def close(self) -> None:
        """Nothing is held."""


@sinks.register("rounds")
@dataclass(frozen=True)
class RoundByRound:
    """A line on standard output for each round: accuracy, and from whom the peer took; and for
    whoever comes, leaves, is refused or waited for."""

    def open(self) -> Sink:
        return RoundLines(out_console)
