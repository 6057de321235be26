"""What all trackers share: one track per cell, and the numbers of a round by name.

A tracker is a sink that keeps each cell as a run in another tool. The file of a tool only says how
a track begins, what is done with the numbers of a round, and how a track ends.

    network/accuracy         of the whole network: the fields of RoundRecord
    peers/train_loss/mean    over honest peers: the fields of PeerRecord and the strategy's notes
    peers/train_loss/std     how far the peers lie apart (standard deviation)
    seconds/train            each phase; `seconds/round` is all of them
    peer/NAME/accuracy       of one peer, where the option `peers` asks for it
    excluded/Loss            a text: this run's ε does not cover that fact

Values that are not finite numbers are left out, and seconds are rounded as in timings.jsonl. So the
tool shows the same values, during the run or afterwards from its directory.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from amity.errors import ConfigError
from amity.events import CellId, Event, RoundDone, RunDone, RunFailed, RunStarted
from amity.records import PeerRecord, Record, Report

End = Literal["done", "failed", "stopped"]
Plain = bool | int | float | str
ALWAYS = "network/taken"
"""A number that every round has: who looks for the rounds of a track finds them by it."""


class Track(Protocol):
    """One cell in the tool."""

    @property
    def known(self) -> Iterable[int]:
        """Rounds that the tool had when this track began. They are not told again."""

    def log(self, round: int, values: Mapping[str, float], texts: Mapping[str, str]) -> None:
        """What was measured in a round; the rounds are the tool's steps. A text holds for the run
        from then on."""

    def end(self, outcome: End, error: str = "") -> None:
        """Nothing more will come. `stopped`: neither done nor failed; it can be continued later."""


class Tracker:
    """A sink with a track for every cell that is running; any number may run at once."""

    def __init__(self, begin: Callable[[RunStarted], Track | None], *, peers: bool = False) -> None:
        """`begin` may return None if there is nothing to add. `peers`: also the numbers of each
        single peer."""
        self._begin, self._peers = begin, peers
        self._tracks: dict[CellId, Track] = {}
        self._told: dict[CellId, set[int]] = {}

    def take(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self._start(event)
        elif event.cell not in self._tracks:
            return  # all its rounds were done before
        elif isinstance(event, RoundDone):
            self._round(event)
        elif isinstance(event, RunFailed):
            self._end(event.cell, "failed", event.error)
        elif isinstance(event, RunDone):
            self._end(event.cell, "done")

    def close(self) -> None:
        for cell in list(self._tracks):
            self._end(cell, "stopped")

    def _start(self, event: RunStarted) -> None:
        if event.first < event.rounds and event.cell not in self._tracks:
            track = self._begin(event)
            if track is not None:
                self._tracks[event.cell], self._told[event.cell] = track, set(track.known)

    def _round(self, event: RoundDone) -> None:
        """A round may be computed again after the run went back to a checkpoint. Its numbers are
        the same, and are told once."""
        report, told = event.report, self._told[event.cell]
        if report.round not in told:
            values = numbers(report, peers=self._peers)
            self._tracks[event.cell].log(report.round, values, texts(report))
            told.add(report.round)

    def _end(self, cell: CellId, outcome: End, error: str = "") -> None:
        del self._told[cell]
        self._tracks.pop(cell).end(outcome, error)


# -- what a cell is called -------------------------------------------------------------------------


def name_of(cell: CellId) -> str:
    """`afind+:paper seed 0`."""
    return f"{cell.label} seed {cell.seed}"


def group_of(cell: CellId) -> str:
    """The name of the comparison's folder; empty for a run alone."""
    return Path(cell.group).resolve().name if cell.group else ""


def identity(cell: CellId) -> str:
    """The same for the same run directory, so that a continued run finds its track again."""
    return hashlib.sha256(str(Path(cell.path).resolve()).encode()).hexdigest()[:16]


def missing(extra: str) -> ConfigError:
    """The library of a sink is not installed."""
    return ConfigError(f"sink {extra}: this needs pip install 'amity[{extra}]'")


# -- what is told ----------------------------------------------------------------------------------


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Plain]:
    """The keys of a config as they are given on the command line: `train.lr`. The stages are
    numbered: `stages.0.name`."""
    keys: dict[str, Plain] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            keys |= flat(value, f"{prefix}{key}.")
        elif isinstance(value, (list, tuple)) and any(isinstance(v, Mapping) for v in value):
            keys |= flat({str(at): part for at, part in enumerate(value)}, f"{prefix}{key}.")
        else:
            plain = isinstance(value, (bool, int, float, str))
            keys[prefix + key] = value if plain else json.dumps(value, default=str)
    return keys


def numbers(report: Report, *, peers: bool = False) -> dict[str, float]:
    """The numbers of a round by name; see the table above."""
    values = {f"network/{key}": value for key, value in _of(report.network).items()}
    honest = [record for record in report.peers.values() if not record.attacker]
    values |= _over(honest)
    laps = {phase: round(seconds, 4) for phase, seconds in report.seconds.items()}
    values |= {f"seconds/{phase}": seconds for phase, seconds in laps.items()}
    values["seconds/round"] = round(sum(laps.values()), 4)
    if peers:
        for name, record in report.peers.items():
            values |= {f"peer/{name}/{key}": value for key, value in _of(record).items()}
    return values


def texts(report: Report) -> dict[str, str]:
    """What must be shown beside the numbers: the facts that ε does not cover. Each has its own
    name, so that a later round without this fact does not remove it."""
    return {f"excluded/{fact}": "not covered by ε" for fact in report.network.excluded or ()}


def _of(record: Record) -> dict[str, float]:
    """The finite numbers of a record, without the round, which is the step; further metrics by
    their own names."""
    line = record.line()
    line |= {f"metrics/{name}": value for name, value in (line.pop("metrics", None) or {}).items()}
    return {
        key: float(value)
        for key, value in line.items()
        if key != "round" and type(value) in (int, float) and math.isfinite(value)
    }


def _over(records: Iterable[PeerRecord]) -> dict[str, float]:
    """Mean and standard deviation of every number, over the peers that have it."""
    columns: dict[str, list[float]] = {}
    for record in records:
        for key, value in _of(record).items():
            columns.setdefault(key, []).append(value)
    values: dict[str, float] = {}
    for key, column in columns.items():
        mean = math.fsum(column) / len(column)
        variance = math.fsum((value - mean) ** 2 for value in column) / len(column)
        values |= {f"peers/{key}/mean": mean, f"peers/{key}/std": math.sqrt(variance)}
    return values
