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
from amity.reproduce.design import CellKey
from amity.show.summary import received_by_round
from amity.topology import peer_names

SERIES = ("gradient_norm2", "consensus", "coreset_error", "all_error", "taken", "auc")
THINNED = ("taken", "auc")
"""Of these about ten points are enough."""
DIGITS = 5


@dataclass(frozen=True, kw_only=True)
class CellRecord:
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
    def key(self) -> CellKey:
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


def record_of(key: CellKey, result: Result, focus: str = "") -> CellRecord:
    """What is kept of a run that has ended; of one peer, where the experiment looks at one. This is
    the only place here that reads a run's own records."""
    config, moved = result.config, received_by_round(result)
    curve = _curve_of(result, focus) if focus else result.curve
    final = result.final()
    panel, row, column = key
    return CellRecord(
        panel=panel,
        row=row,
        column=column,
        seed=config.seed,
        digest=result.path.name,
        accuracy=_round(curve[-1][1]) or 0.0,
        best=_round(max(a for _, a in curve)) or 0.0,
        final=[_round(final.get(name)) for name in peer_names(config.peers)],
        megabytes=_round(float(moved[-1])) or 0.0,
        seconds=round(_seconds(result.path / "timings.jsonl"), 1),
        rounds=config.rounds,
        taken=_mean(result.rounds, "taken") or 0.0,
        precision=_mean(result.rounds, "precision"),
        base_rate=_mean(result.rounds, "base_rate"),
        attackers_weight=_mean(result.rounds, "attackers_weight"),
        curve=[[t + 1, _round(float(moved[t])) or 0.0, _round(a) or 0.0] for t, a in curve],
        series=_series(result),
    )


def _curve_of(result: Result, peer: str) -> list[tuple[int, float]]:
    """Round and accuracy of one peer."""
    return [
        (r.round, r.accuracy) for r in result.metrics if r.peer == peer and r.accuracy is not None
    ]


def _series(result: Result) -> dict[str, list[list[float]]]:
    """What else was measured, by name; what is measured in every round, ten times in all."""
    every = max(1, result.config.rounds // 10)
    out = {}
    for name in SERIES:
        points = [
            [r.round + 1, _round(value) or 0.0]
            for r in result.rounds
            if (value := r.value(name)) is not None and math.isfinite(value)
        ]
        if points:
            out[name] = points[:: every if name in THINNED else 1]
    return out


@dataclass(frozen=True, kw_only=True)
class TableHead:
    """The first line of a file of records."""

    experiment: str
    preset: str
    command: str
    sizes: str
    machine: str
    amity: str = __version__


def write_records(path: Path, head: TableHead, records: Sequence[CellRecord]) -> None:
    plain = [asdict(head), *(asdict(record) for record in records)]
    lines = [json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in plain]
    write_atomically(path, ("\n".join(lines) + "\n").encode())


def read_records(path: Path) -> tuple[TableHead, list[CellRecord]]:
    """A published file of records."""
    try:
        first, *rest = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return TableHead(**first), [CellRecord(**line) for line in rest]
    except (OSError, ValueError, TypeError) as error:
        raise RunDirError(
            f"{path}: is not a file of records of `amity reproduce` ({brief(error)})"
        ) from None
