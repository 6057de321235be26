"""Whole events as lines of JSON: to follow a run from elsewhere, or to read it again later."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from amity.events import Event, Sink
from amity.files import dump
from amity.records import Record
from amity.sinks.registry import sinks


def line_of(event: Event) -> dict[str, Any]:
    """An event as plain data: its kind, when it was told, and its fields."""
    fields = {f.name: plain(getattr(event, f.name)) for f in dataclasses.fields(event)}
    return {"event": type(event).__name__, "at": round(time.time(), 3), **fields}


def plain(value: Any) -> Any:
    """Dataclasses as dictionaries, records as their lines in metrics.jsonl."""
    if isinstance(value, Record):
        return value.line()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return value


class LineFile:
    """A file of events. It is made when the first event comes."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._stream: IO[bytes] | None = None

    def take(self, event: Event) -> None:
        if self._stream is None:
            folder = event.cell.group or event.cell.path
            path = Path(self._path) if self._path else Path(folder) / "events.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            self._stream = open(path, "ab", buffering=0)  # noqa: SIM115  held until closed
        self._stream.write(dump(line_of(event)))

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()


@sinks.register("jsonl")
@dataclass(frozen=True)
class JsonLines:
    """Every event as a line of JSON."""

    path: str = ""
    """Empty: events.jsonl in the directory of the run, or of the comparison that it is part of."""

    def open(self) -> Sink:
        return LineFile(self.path)
