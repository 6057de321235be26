"""Reading files of lines that somebody else may be writing: whole lines only, from any place.

Lines of a run are in the order of their rounds, so a round is found by halving the file, however
long it is. A line that has no end yet is not there yet.
"""

from __future__ import annotations

import fcntl
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

MOST = 1 << 20
"""Bytes that are read at a time."""
ROUND = re.compile(rb'"round": (\d+)')


@dataclass(frozen=True)
class Bookmark:
    """How far a file was read: bytes and lines, and a check of the last line, by which a file that
    was cut back and written again is known."""

    at: int = 0
    lines: int = 0
    length: int = 0
    check: int = 0

    def after(self, lines: list[bytes]) -> Bookmark:
        """The place behind these lines, which follow."""
        if not lines:
            return self
        size = sum(len(line) + 1 for line in lines)
        return Bookmark(
            self.at + size, self.lines + len(lines), len(lines[-1]) + 1, zlib.crc32(lines[-1])
        )


class CutBack(Exception):
    """What was read is no longer there."""


def read_on(path: Path, place: Bookmark, most: int = MOST) -> list[bytes]:
    """The whole lines that follow, about `most` bytes of them; none: nothing is there yet."""
    try:
        with open(path, "rb") as stream:
            _same(stream, place)
            data = stream.read(most)
            while data and b"\n" not in data and (more := stream.read(most)):
                data += more
    except FileNotFoundError:
        if place.at:
            raise CutBack from None
        return []
    return data[: data.rfind(b"\n") + 1].split(b"\n")[:-1]


def _same(stream: IO[bytes], place: Bookmark) -> None:
    """Stand at a place, if what stands before it is what was read."""
    stream.seek(place.at - place.length)
    last = stream.read(place.length)
    if place.length and (len(last) != place.length or zlib.crc32(last[:-1]) != place.check):
        raise CutBack


def span(path: Path, first: int, end: int) -> tuple[int, int]:
    """Between which bytes the lines of the rounds from `first` to before `end` stand."""
    try:
        with open(path, "rb") as stream:
            size = stream.seek(0, 2)
            return _begin(stream, size, first), _begin(stream, size, end)
    except FileNotFoundError:
        return 0, 0


def size_before(path: Path, round: int) -> int:
    """How many bytes of a file belong to the rounds before this one."""
    return span(path, 0, round)[1]


def text_of(path: Path, first: int, end: int) -> bytes:
    """The whole lines of these rounds, as they are written."""
    low, high = span(path, first, end)
    if high <= low:
        return b""
    with open(path, "rb") as stream:
        stream.seek(low)
        return stream.read(high - low)


def text_after(path: Path, at: int, round: int) -> tuple[bytes, int]:
    """The same for one round, by somebody who has read everything up to `at`; and where it ends."""
    try:
        with open(path, "rb") as stream:
            size = stream.seek(0, 2)
            low = _begin(stream, size, round, at if at <= size else 0)
            high = _begin(stream, size, round + 1, low)
            stream.seek(low)
            return stream.read(high - low), high
    except FileNotFoundError:
        return b"", 0


def of_rounds(path: Path, first: int, end: int) -> list[bytes]:
    """The whole lines of these rounds."""
    return text_of(path, first, end).split(b"\n")[:-1]


def _begin(stream: IO[bytes], size: int, round: int, low: int = 0) -> int:
    """Where the first line of this round or a later one begins; else where whole lines end. All
    lines before `low` are of earlier rounds."""
    high = size
    while low < high:
        middle = (low + high) // 2
        stream.seek(max(low, middle - 1))
        if middle > low:
            stream.readline()  # the rest of a line that began before
        at, line = stream.tell(), stream.readline()
        found = ROUND.search(line)
        if at >= high or not line.endswith(b"\n") or (found and int(found[1]) >= round):
            high = middle
        else:
            low = at + len(line)
    return low


def about(path: Path, key: str, name: str, most: int) -> list[dict[str, Any]]:
    """The newest lines in which a key has this value, at most so many, in their order."""
    wanted = f'"{key}": {json.dumps(name, ensure_ascii=False)}'.encode()
    found: list[dict[str, Any]] = []
    for line in _with(path, wanted):
        record = parsed(line)
        if record is not None and record.get(key) == name:
            found.append(record)
            del found[:-most]
    return found


def _with(path: Path, wanted: bytes) -> Iterator[bytes]:
    """Whole lines that hold these bytes; the file is read in parts."""
    rest = b""
    try:
        with open(path, "rb") as stream:
            while data := stream.read(MOST * 8):
                data, _, rest = (rest + data).rpartition(b"\n")
                at = data.find(wanted)
                while at >= 0:
                    begin, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
                    yield data[begin : end if end >= 0 else len(data)]
                    at = data.find(wanted, end) if end >= 0 else -1
    except FileNotFoundError:
        return


def last_line(path: Path) -> bytes:
    """The last whole line; empty: there is none."""
    try:
        with open(path, "rb") as stream:
            size = stream.seek(0, 2)
            length = 1 << 12
            while True:
                stream.seek(max(0, size - length))
                whole = stream.read(length).rpartition(b"\n")[0]
                _, newline, line = whole.rpartition(b"\n")
                if newline or length >= size:
                    return line
                length *= 4
    except FileNotFoundError:
        return b""


def parsed(line: bytes) -> dict[str, Any] | None:
    """A line as it was written; None: it is damaged."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def held(path: Path) -> bool:
    """Whether a process holds the lock of a directory that is being written."""
    try:
        with open(path / ".lock", "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
