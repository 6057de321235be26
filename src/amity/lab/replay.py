"""The events of a run that is over, read back from its directory.

They are the events that a sink was told during the run, with the same values. So a sink can be
given old runs too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amity.core import PeerId, Reference, Row
from amity.errors import RunDirError
from amity.events import CellId, Event, RoundDone, RunDone, RunStarted
from amity.lab.comparison import runs_of
from amity.lab.result import Result
from amity.records import PeerRecord, Report, TimingRecord, WhyRecord
from amity.store import how_to_go_on, read_config, read_records


@dataclass(frozen=True)
class Replay:
    """A run on disk, and what it is called among others."""

    cell: CellId
    result: Result

    @classmethod
    def of(cls, result: Result, *, label: str = "", group: str = "") -> Replay:
        config = result.config
        cell = CellId(
            label=label or config.label, seed=config.seed, path=str(result.path), group=group
        )
        return cls(cell, result)

    def events(self) -> Iterator[Event]:
        """From the start to the last complete round, and the end only if it was reached."""
        config = self.result.config
        yield RunStarted(
            cell=self.cell,
            config=config.to_dict(),
            rounds=config.rounds,
            reference=isinstance(config.strategy.instance, Reference),
        )
        last, ended = -1, False
        for report in reports(self.result):
            yield RoundDone(cell=self.cell, report=report)
            last, ended = report.round, report.network.ended is not None
        if ended or last == config.rounds - 1:
            yield RunDone(cell=self.cell)


def replays(path: Path) -> list[Replay]:
    """The run of a directory, or all runs of a comparison or sweep that have begun."""
    if (path / "config.toml").is_file():
        return [Replay.of(Result(path, read_config(path)))]
    return [
        Replay.of(result, label=label, group=str(path))
        for label, runs in runs_of(path).items()
        for result in runs
    ]


def reports(result: Result) -> Iterator[Report]:
    """What each round yielded, in their order."""
    peers: dict[int, dict[PeerId, PeerRecord]] = {}
    rows: dict[int, dict[PeerId, Row]] = {}
    for record in result.metrics:
        peers.setdefault(record.round, {})[record.peer] = record
    for edge in result.edges:
        rows.setdefault(edge.round, {})[edge.peer] = edge.row
    seconds = _seconds(result.path)
    why: dict[int, dict[PeerId, Any]] = {}
    for known in read_records(result.path / "why.jsonl", WhyRecord):
        why.setdefault(known.round, {})[known.peer] = known.facts
    for network in result.rounds:
        at = network.round
        if at not in peers or at not in rows:
            raise RunDirError(
                f"{result.path}: lines of round {at} are missing; {how_to_go_on(result.path)}"
                " repairs it"
            )
        yield Report(
            round=at,
            peers=peers[at],
            rows=rows[at],
            network=network,
            seconds=seconds.get(at, {}),
            why=why.get(at, {}),
        )


def _seconds(path: Path) -> dict[int, dict[str, float]]:
    """The seconds of each phase by round. For a swarm: the mean over its peers. For a round that
    was done twice: the time of the second."""
    laps: dict[int, dict[str, dict[str, float]]] = {}
    for record in read_records(path / "timings.jsonl", TimingRecord):
        phases = dict(record.notes)
        peer = str(phases.pop("peer", ""))
        laps.setdefault(record.round, {})[peer] = phases
    return {at: _mean(list(by_peer.values())) for at, by_peer in laps.items()}


def _mean(parts: list[dict[str, float]]) -> dict[str, float]:
    phases = dict.fromkeys(phase for part in parts for phase in part)
    columns = {phase: [part[phase] for part in parts if phase in part] for phase in phases}
    return {phase: math.fsum(column) / len(column) for phase, column in columns.items()}
