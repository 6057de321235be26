"""What the peers of a swarm tell: by one pipe each, told on as one stream.

A peer may be killed at any moment, so nothing here waits for one, and its end is told for it if it
could not tell it itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from amity.config import Config
from amity.core import PeerId
from amity.events import CellId, Event, RunDone, RunFailed, RunStarted, Tell, Teller
from amity.forward import Inbox, PipeSink, pipe


@dataclass
class _Ear:
    """The line to one peer."""

    inbox: Inbox
    begun: bool = False
    over: bool = False


class Ears:
    """Every peer is a cell of the swarm's directory."""

    def __init__(self, tell: Tell, out: Path, config: Config) -> None:
        self._tell, self._out, self._config = tell, out, config
        self._planned: set[PeerId] = set()
        self._lines: dict[PeerId, _Ear] = {}

    def queue(self, names: Iterable[PeerId]) -> None:
        """Say who will take part, of whom nothing was said before."""
        for name in names:
            if name not in self._planned:
                self._planned.add(name)
                self._teller(name).queued()

    def _teller(self, name: PeerId) -> Teller:
        path = self._out / "peers" / name / "state"
        cell = CellId(label=name, seed=self._config.seed, path=str(path), group=str(self._out))
        config = self._config
        return Teller(cell, self._tell, config=config.to_dict(), rounds=config.rounds)

    def open(self, name: PeerId) -> PipeSink:
        """A line to a peer that is about to be started."""
        inbox, sink = pipe()
        self._lines[name] = _Ear(inbox)
        return sink

    @property
    def waiting_for(self) -> list[int]:
        """The pipes by which something may still come."""
        return [line.inbox.fileno() for line in self._lines.values() if not line.inbox.ended]

    def hear(self, cause: Callable[[PeerId], str | None]) -> None:
        """Tell on what has come. `cause` says why a peer's process has ended; None: it has not."""
        for name, line in list(self._lines.items()):
            ended = cause(name)
            for event in line.inbox.take():  # after that: who has ended has told all it had to
                self._heard(line, event)
            if ended is not None:
                self._hang_up(name, ended)

    def _hang_up(self, name: PeerId, cause: str) -> None:
        line, teller = self._lines.pop(name), self._teller(name)
        line.inbox.close()
        if line.begun and not line.over:
            self._tell(RunFailed(cell=teller.cell, error=cause))
        elif not line.over:
            teller.failed(cause)

    def _heard(self, line: _Ear, event: Event) -> None:
        line.begun |= isinstance(event, RunStarted)
        line.over |= isinstance(event, RunDone | RunFailed)
        self._tell(replace(event, cell=replace(event.cell, group=str(self._out))))
