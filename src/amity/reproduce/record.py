"""What is kept of a run: a line of JSON, small enough to be published with the table that it
belongs to."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from amity._version import __version__
from amity.errors import RunDirError, brief
from amity.files import write_atomically
from amity.lab.result import Result
from amity.records import RoundRecord
from amity.reproduce.experiment import Key
from amity.show.summary import received_by_round
from amity.topology import peer_names

SERIES = ("gradient_norm2", "consensus", "coreset_error", "all_error", "taken", "auc")
DIGITS = 5


@dataclass(frozen=True)
class Record:
    """One run. Accuracies are fractions."""

    panel: str
    row: str
    column: str
    seed: int
    digest: str
    """The name of its folder among the cells: the start of its config's digest, and of one's own
    code's if there is any."""
    accuracy: float
    best: float
    final: list[float | None]
    """Of every peer in the last round; none for attackers."""
    megabytes: float
    """Received by a peer in the whole run."""
    seconds: float
    """Wall clock."""
    rounds: int
    taken: float
    precision: float | None
    base_rate: float | None
    attackers_weight: float | None
    curve: list[list[float]]
    """Round (from 1), megabytes so far, accuracy."""
    series: dict[str, list[list[float]]] = field(default_factory=dict)
    """Other measurements: round and value."""

    @property
    def key(self) -> Key:
        return self.panel, self.row, self.column


def _round(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")


def _mean(rounds: Sequence[RoundRecord], key: str) -> float | None:
    values = [value for r in rounds if (value := r.value(key)) is not None]
    return _round(float(np.mean(values))) if values else None


def _seconds(path: Path) -> float:
    """How long a run took, as far as can be read: no result depends on it."""
    total = 0.0
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        try:
            total += float(json.loads(line)["seconds"])
        except (ValueError, TypeError, KeyError):
            continue
    return total


def record_of(key: Key, result: Result, focus: str = "") -> Record:
    """What is kept of a run that has ended; of one peer, where the experiment looks at one."""
    names, config = peer_names(result.config.peers), result.config
    moved, curve = received_by_round(result), result.curve
    if focus:
        curve = [
            (r.round, r.accuracy)
            for r in result.metrics
            if r.peer == focus and r.accuracy is not None
        ]
    final = result.final()
    seconds = _seconds(result.path / "timings.jsonl")
    series = {
        name: points
        for name in SERIES
        if (
            points := [
                [r.round + 1, _round(value) or 0.0]
                for r in result.rounds
                if (value := r.value(name)) is not None and math.isfinite(value)
            ]
        )
    }
    for name in ("taken", "auc"):
        series[name] = series.get(name, [])[:: max(1, config.rounds // 10)]
    return Record(
        *key,
        config.seed,
        result.path.name,
        _round(curve[-1][1]) or 0.0,
        _round(max(a for _, a in curve)) or 0.0,
        [_round(final.get(name)) for name in names],
        _round(float(moved[-1])) or 0.0,
        round(seconds, 1),
        config.rounds,
        _mean(result.rounds, "taken") or 0.0,
        _mean(result.rounds, "precision"),
        _mean(result.rounds, "base_rate"),
        _mean(result.rounds, "attackers_weight"),
        [[t + 1, _round(float(moved[t])) or 0.0, _round(a) or 0.0] for t, a in curve],
        {name: points for name, points in series.items() if points},
    )


@dataclass(frozen=True)
class Head:
    """The first line of a file of records."""

    experiment: str
    preset: str
    command: str
    sizes: str
    machine: str
    amity: str = __version__


def write_records(path: Path, head: Head, records: Sequence[Record]) -> None:
    plain = [asdict(head), *(asdict(record) for record in records)]
    lines = [json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in plain]
    write_atomically(path, ("\n".join(lines) + "\n").encode())


def read_records(path: Path) -> tuple[Head, list[Record]]:
    """A published file of records."""
    try:
        first, *rest = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return Head(**first), [Record(**line) for line in rest]
    except (OSError, ValueError, TypeError) as error:
        raise RunDirError(
            f"{path}: is no file of records of `amity reproduce` ({brief(error)})"
        ) from None
