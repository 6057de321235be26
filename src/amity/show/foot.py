"""The foot of a report: when its runs were made, by which command, and how long they took."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from amity.records import TimingRecord
from amity.store import read_commands, read_records
from amity.units import duration

MOST = 4
"""Commands that are shown."""


@dataclass(frozen=True)
class Took:
    """When a run was made, in seconds from 1970, and how long its rounds took."""

    began: float
    ended: float
    seconds: float
    rounds: int

    @classmethod
    def read(cls, path: Path) -> Took | None:
        """From timings.jsonl; None if it has none. Of a round that was done twice, the second
        counts. Real peers run side by side: the slowest counts."""
        latest = {
            (str(r.notes.get("peer", "")), r.round): r
            for r in read_records(path / "timings.jsonl", TimingRecord)
        }
        if not latest:
            return None
        seconds: dict[str, float] = {}
        for (peer, _), record in latest.items():
            seconds[peer] = seconds.get(peer, 0.0) + record.seconds
        known = [r for r in latest.values() if math.isfinite(r.at)]
        return cls(
            began=min((r.at - r.seconds for r in known), default=math.nan),
            ended=max((r.at for r in known), default=math.nan),
            seconds=max(seconds.values()),
            rounds=len({t for _, t in latest}),
        )


def foot(folder: Path, runs: Sequence[Path], called: str = "runs") -> str:
    """Date, command and runtime of the runs in a folder, as HTML; `called`: what they are."""
    found = [took for path in runs if (took := Took.read(path)) is not None]
    commands = list(dict.fromkeys(str(line["command"]) for line in read_commands(folder)))
    shown = [html.escape(command) for command in commands if command]
    left = f" and {len(shown) - MOST} more" if len(shown) > MOST else ""
    said = "<br>".join(f"<code>{command}</code>" for command in shown[:MOST])
    return "<br>".join(part for part in (_when(found, called), said + left) if part)


def _when(found: Sequence[Took], called: str) -> str:
    if not found:
        return ""
    rounds, seconds = sum(one.rounds for one in found), sum(one.seconds for one in found)
    runs = f"{len(found)} {called}, " if len(found) > 1 else ""
    spent = f"{runs}{rounds} rounds in {duration(seconds)} of computing"
    began, ended = min(one.began for one in found), max(one.ended for one in found)
    if not math.isfinite(began) or not math.isfinite(ended):
        return spent
    first, last = (datetime.fromtimestamp(at, UTC) for at in (began, ended))
    day = "" if first.date() == last.date() else f"{last:%Y-%m-%d} "
    return f"{first:%Y-%m-%d %H:%M:%S} to {day}{last:%H:%M:%S} UTC: {spent}"
