"""The one stream of events: what happens in a run, told to whoever listens.

Everything that runs (one run, a comparison, a sweep, a table of `amity reproduce`, a swarm, a real
peer) tells the same events in the same order, and every event names its cell: the run that it
belongs to. Events are frozen values without tensors, so they go through pipes and queues as they
are.

    RunStarted, then for every round any number of Progress and PeerEvent and one RoundDone,
    then RunDone or RunFailed.

A **sink** takes events and can be closed; see `amity.sinks`. The run directory is written before
the event of a round is told, so a sink may read it, and a sink that fails loses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from amity.records import Report


@dataclass(frozen=True, kw_only=True)
class CellId:
    """Which run an event belongs to."""

    label: str
    """What is compared: `afind+:paper`; of a single run, its strategy and stages."""
    seed: int
    path: str
    """Its run directory."""
    group: str = ""
    """The directory of the comparison, sweep, table or swarm that it is part of; empty: none."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """Base of all events."""

    cell: CellId


@dataclass(frozen=True, kw_only=True)
class RunStarted(Event):
    """A run begins, or goes on."""

    config: Mapping[str, Any]
    """All keys of the run, nested as in config.toml."""
    rounds: int
    first: int = 0
    """The round that it begins with: more than 0 after a resume, `rounds` if all was done before."""
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


What = Literal["joined", "left", "late", "missing", "refused", "silent", "error"]


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


class Sink(Protocol):
    """Takes events, one after the other, in the process that was asked to run; can be closed."""

    def take(self, event: Event) -> None:
        """One event. May raise: the sink is then reported once and dropped, and the run goes on."""

    def close(self) -> None:
        """The stream has ended; called once."""
