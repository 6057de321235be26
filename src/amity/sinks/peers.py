"""A swarm at a glance: a line for each peer, live on a terminal; elsewhere a line now and then."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from rich.console import Console
from rich.live import Live
from rich.table import Table

from amity.console import blank_table, out_console
from amity.core import START
from amity.events import (
    Event,
    PeerEvent,
    Progress,
    RoundDone,
    RunDone,
    RunFailed,
    RunQueued,
    RunStarted,
    Sink,
)
from amity.records import PeerRecord, Report
from amity.sinks.happenings import GRAVE, Happenings
from amity.sinks.plain import EVERY
from amity.sinks.registry import sinks
from amity.tasks import ACCURACY, Metric, metric_of

LEAD = "accuracy"
COLUMNS = ("peer", "round", LEAD, "took from", "kB in", "s/round", "")
WAITING = {"waits": "waits for others", "goes on": "running"}
STATES: dict[type[Event], str] = {
    RunQueued: "waiting",
    RunStarted: "running",
    Progress: "running",
    RoundDone: "running",
    RunFailed: "failed",
    RunDone: "done",
}


@dataclass
class Latest:
    """The newest figures of one peer."""

    rounds: int
    metric: Metric = ACCURACY
    state: str = "waiting"
    report: Report | None = None

    @property
    def record(self) -> PeerRecord | None:
        return next(iter(self.report.peers.values())) if self.report else None


class Peers:
    """All peers, in the order in which they were heard of."""

    def __init__(self) -> None:
        self._peers: dict[str, Latest] = {}
        self._lock = threading.Lock()
        """The live table is drawn by another thread."""

    def take(self, event: Event) -> None:
        with self._lock:
            name = event.cell.label
            if isinstance(event, RunQueued | RunStarted):
                self._peers.setdefault(name, Latest(event.rounds))
            latest = self._peers[name]
            if isinstance(event, RunStarted):
                latest.metric = metric_of(event.config)
            latest.state = STATES.get(type(event), latest.state)
            if isinstance(event, PeerEvent) and event.what in WAITING:
                latest.state = WAITING[event.what]
            if isinstance(event, RoundDone):
                latest.report = event.report

    def table(self) -> Table:
        with self._lock:
            first = next(iter(self._peers.values()), Latest(0)).metric
            head = [first.called if name == LEAD else name for name in COLUMNS]
            table = blank_table(head, (0, 3, 6), no_wrap=True)
            for name, latest in self._peers.items():
                table.add_row(name, *_cells(name, latest), latest.state)
        return table

    def line(self) -> str:
        peers = list(self._peers.values())
        done = min((latest.report.round + 1 if latest.report else 0) for latest in peers)
        records = [record for latest in peers if (record := latest.record) is not None]
        scores = [value for record in records if (value := record.lead()) is not None]
        metric = peers[0].metric
        mean = metric.text(sum(scores) / len(scores)) if scores else ""
        accuracy = f"; {metric.called} {mean}" if scores else ""
        running = sum(latest.state == "running" for latest in peers)
        return (
            f"all peers have done {done} of {peers[0].rounds} rounds, {running} running{accuracy}"
        )

    def __bool__(self) -> bool:
        return bool(self._peers)


def _cells(name: str, latest: Latest) -> tuple[str, ...]:
    """Round, accuracy, whom it took, kB received, seconds."""
    report, record = latest.report, latest.record
    if report is None or record is None:
        return "-", "", "", "", ""
    row = {j: weight for j, weight in report.rows[name].items() if j not in (name, START)}
    took = " ".join(f"{j.removeprefix('peer-')}:{weight:.2f}" for j, weight in sorted(row.items()))
    return (
        f"{report.round + 1}/{latest.rounds}",
        "" if (value := record.lead()) is None else latest.metric.text(value),
        took[:60],
        f"{record.received / 1e3:.0f}",
        f"{sum(report.seconds.values()):.2f}",
    )


class LiveTable:
    """On a terminal."""

    def __init__(self, console: Console) -> None:
        self._peers, self._happenings = Peers(), Happenings(GRAVE)
        self._live = Live(console=console, get_renderable=self._peers.table)

    def take(self, event: Event) -> None:
        self._peers.take(event)
        if said := self._happenings.line(event):
            self._live.console.print(said, soft_wrap=True, markup=False)
        if not self._live.is_started and not isinstance(event, RunQueued):
            self._live.start()

    def close(self) -> None:
        self._live.stop()


class LinesNowAndThen:
    """Elsewhere."""

    def __init__(self, console: Console, every: float) -> None:
        self._peers, self._console, self._every = Peers(), console, every
        self._last, self._happenings = -every, Happenings(GRAVE)

    def take(self, event: Event) -> None:
        self._peers.take(event)
        if said := self._happenings.line(event):
            self._console.print(said, soft_wrap=True, markup=False)
        due = time.monotonic() - self._last > self._every
        if due and not isinstance(event, RunQueued):
            self._say()

    def _say(self) -> None:
        self._last = time.monotonic()
        self._console.print(self._peers.line(), soft_wrap=True, markup=False)

    def close(self) -> None:
        if self._peers:
            self._say()


@sinks.register("peers")
@dataclass(frozen=True)
class PeerTable:
    """A line for each peer of a swarm, live on a terminal; elsewhere a line every few seconds."""

    every: Annotated[float, Field(ge=0)] = EVERY
    """Seconds between two lines, where there is no terminal."""

    def open(self) -> Sink:
        if out_console.is_terminal:
            return LiveTable(out_console)
        return LinesNowAndThen(out_console, self.every)
