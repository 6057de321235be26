"""Lines in a log, for places without a terminal: every few seconds, how far the run is."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from rich.console import Console

from amity.console import out_console
from amity.events import Event, RunQueued, Sink
from amity.sinks.registry import sinks
from amity.sinks.tally import Standings, mean

EVERY = 5.0
"""Seconds between two lines."""


class Lines:
    """`40 of 60 rounds done, about 12 s left; highest at round 4: pens 71.0 %`."""

    def __init__(self, console: Console, every: float) -> None:
        self._console, self._every = console, every
        self._tally = Standings()
        self._last = time.monotonic()

    def take(self, event: Event) -> None:
        self._tally.take(event)
        unfinished = self._tally.done < self._tally.rounds
        due = time.monotonic() - self._last > self._every
        if due and unfinished and not isinstance(event, RunQueued):
            self._say()

    def close(self) -> None:
        if self._tally.rounds and self._tally.done == self._tally.rounds:
            self._say()

    def _say(self) -> None:
        self._last = time.monotonic()
        tally = self._tally
        line = f"{int(tally.done)} of {tally.rounds} rounds done{tally.left()}"
        rows = tally.rows.values() if tally.comparable else ()
        scores = (
            f"{row[0].metric.called} {row[0].metric.text(m)}" for row in rows if (m := mean(row))
        )
        lead = tally.leader() or next(scores, "")
        text = "; ".join(part for part in (line, lead) if part)
        self._console.print(text, highlight=False, markup=False, emoji=False, soft_wrap=True)


@sinks.register("plain")
@dataclass(frozen=True)
class Plain:
    """Lines on standard output: every few seconds how far it is, and who is highest, or leads."""

    every: Annotated[float, Field(ge=0)] = EVERY
    """Seconds between two lines."""

    def open(self) -> Sink:
        return Lines(out_console, self.every)
