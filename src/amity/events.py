"""The stream of events: what happens in a run, told to all sinks.

Everything that runs (one run, a comparison, a sweep, a table of `amity reproduce`, a swarm, a real
peer) tells the same events in the same order. Every event names its cell: the run that it belongs
to. Events are frozen values without tensors, so they can be sent through pipes and queues as they
are.

    RunStarted, then for every round any number of Progress and PeerEvent and one RoundDone,
    then RunDone or RunFailed.

If there are several runs, a RunQueued for each comes before everything else. So a display knows
how much there is to do. A run that is continued after a failure begins again with RunStarted.

A **sink** takes events and can be closed; see `amity.sinks`. The run directory is written before
the event of a round is told. So a sink may read it, and nothing is lost if a sink fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Protocol, runtime_checkable

from amity.errors import line_of
from amity.records import Report


@dataclass(frozen=True, kw_only=True)
class CellId:
    """Which run an event belongs to."""

    label: str
    """What is compared: `afind+:paper`; of a single run, its strategy and stages; of a real peer,
    its name."""
    seed: int
    path: str
    """Its run directory."""
    group: str = ""
    """The directory of the comparison, sweep, table or swarm that it is part of; empty: none."""
    row: str = ""
    """What it is counted under where many cells are shown together; empty: its label."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """Base of all events."""

    cell: CellId


@dataclass(frozen=True, kw_only=True)
class RunQueued(Event):
    """One of several runs that are about to be done."""

    rounds: int
    reference: bool = False
    """Whether no real network could run it."""


@dataclass(frozen=True, kw_only=True)
class RunStarted(Event):
    """A run begins, or is continued."""

    config: Mapping[str, Any]
    """All keys of the run, nested as in config.toml."""
    rounds: int
    first: int = 0
    """The round that it begins with: more than 0 after a resume, `rounds` if all was done
    before."""
    reference: bool = False
    """Whether no real network could run it."""


@dataclass(frozen=True, kw_only=True)
class Progress(Event):
    """A long round is on its way."""

    round: int
    part: float
    """How much of the round is done, from 0 to 1."""


@dataclass(frozen=True, kw_only=True)
class RoundDone(Event):
    """A round is done, and is in the run directory."""

    report: Report


@dataclass(frozen=True, kw_only=True)
class Diverged(Event):
    """For the first time in this run (or since it was continued) a loss is no number."""

    peer: str
    """Whose; of several the first by name."""
    peers: int
    """How many honest peers it is in this round."""
    round: int
    lr: float

    def __str__(self) -> str:
        more = f" and {self.peers - 1} more" if self.peers > 1 else ""
        return (
            f"training has diverged: in round {self.round + 1} the loss of {self.peer}{more} is no"
            f" number; lower train.lr ({self.lr:g}) or set train.clip=1"
        )


What = Literal[
    "joined",
    "left",
    "late",
    "missing",
    "refused",
    "silent",
    "error",
    "differs",
    "waits",
    "goes on",
    "slow",
    "costs time",
]


@dataclass(frozen=True, kw_only=True)
class PeerEvent(Event):
    """Something happened between real peers."""

    peer: str
    """Who tells."""
    what: What
    about: str = ""
    """Of whom; empty: a stranger, or nobody."""
    why: str = ""
    round: int | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RunFailed(Event):
    """A run ended with an error; what it had done is kept."""

    error: str


@dataclass(frozen=True, kw_only=True)
class RunDone(Event):
    """A run has done all its rounds."""


@runtime_checkable
class Sink(Protocol):
    """Takes events, one after the other, in the process that was asked to run; can be closed."""

    def take(self, event: Event) -> None:
        """One event. May raise: the sink is then reported once and dropped, and the run goes on."""

    def close(self) -> None:
        """The stream has ended; called once."""


Tell = Callable[[Event], None]
"""Whoever is told events."""


def nobody(_event: Event) -> None:
    """Ignores every event."""


class Teller:
    """Tells the events of one run in their order. As a context it also tells how the run ended."""

    def __init__(
        self,
        cell: CellId,
        tell: Tell,
        *,
        config: Mapping[str, Any],
        rounds: int,
        reference: bool = False,
    ) -> None:
        self.cell = cell
        self._tell, self._config = tell, config
        self._rounds, self._reference = rounds, reference
        self._diverged = False
        self._next: int | None = None
        """The round that comes next; None before the start."""

    def __enter__(self) -> Teller:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if error is not None:
            self.failed(line_of(error))
        elif self._next is None or self._next < self._rounds:
            self.failed("ended before its last round")
        else:
            self._tell(RunDone(cell=self.cell))

    def queued(self) -> None:
        self._tell(RunQueued(cell=self.cell, rounds=self._rounds, reference=self._reference))

    def started(self, first: int, config: Mapping[str, Any] | None = None) -> None:
        """The run begins with this round. `config` is the final one, in which nothing is left
        open."""
        self._next = first
        self._tell(
            RunStarted(
                cell=self.cell,
                config=self._config if config is None else config,
                rounds=self._rounds,
                first=first,
                reference=self._reference,
            )
        )

    def progress(self, round: int, part: float) -> None:
        self._tell(Progress(cell=self.cell, round=round, part=part))

    def round(self, report: Report) -> None:
        """A round is done, and on the disk."""
        self._next = report.round + 1
        if report.network.ended:
            self._rounds = self._next
        self._tell(RoundDone(cell=self.cell, report=report))
        if report.network.diverged and not self._diverged:
            self._diverged = True
            self._tell(self._first_diverged(report, report.network.diverged))

    def _first_diverged(self, report: Report, peers: int) -> Diverged:
        lost = (r.peer for r in report.peers.values() if r.diverged and not r.attacker)
        lr = float(self._config["train"]["lr"])
        return Diverged(cell=self.cell, peer=min(lost), peers=peers, round=report.round, lr=lr)

    def happened(
        self, peer: str, what: What, about: str, why: str, more: Mapping[str, Any]
    ) -> None:
        """Something between real peers."""
        rest = dict(more)
        round = rest.pop("round", None)
        self._tell(
            PeerEvent(
                cell=self.cell, peer=peer, what=what, about=about, why=why, round=round, more=rest
            )
        )

    def failed(self, error: str) -> None:
        """Tells a start first if there was none: sinks never hear of an end without a start."""
        if self._next is None:
            self.started(0)
        self._tell(RunFailed(cell=self.cell, error=error))
