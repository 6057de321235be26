"""One directory of records, followed line by line: a message for each line of rounds.jsonl.

A line's number is its place, and the check of its bytes says whether it is still the same. So
whoever has come to a place goes on from there, also with another server, and a run that was cut
back to its checkpoint is told again from its beginning.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amity.lines import Bookmark, CutBack, parsed, read_on, text_after
from amity.live.finding import Subject, digest
from amity.live.measure import as_json, quickly, slowly
from amity.metric import ACCURACY, Metric

ROUNDS_AT_A_TIME = 25
"""Rounds that are read before others have their turn."""
PART = 1 << 22
"""Bytes of metrics.jsonl after which the same holds."""
Mark = tuple[int, int]
"""A place as viewers name it: how many lines, and the check of the last."""
START: Mark = (0, 0)


class RecordTrack:
    """The records of one directory: of a whole network, or of one real peer."""

    def __init__(self, found: Subject, peer: str, path: Path) -> None:
        self.id = digest(f"{found.id} {peer}")
        self.cell, self.peer, self.path = found.id, peer, path
        self.metric: Metric = ACCURACY
        """Of the network that it is part of, which knows it before the first line is read."""
        self._place, self._measured = Bookmark(), 0
        """How far rounds.jsonl was read, and how many bytes of metrics.jsonl."""
        self._moved = [0, 0]
        """Bytes received and sent in all rounds so far, by all peers."""
        self._read = 0
        """Bytes of metrics.jsonl that this poll has read."""
        self.messages: list[bytes] = []
        self.marks: list[int] = []
        """The check of the line of each message."""
        self.latest: dict[str, Any] = {}
        self.values: dict[int, float] = {}
        """The leading metric by round: a mean over honest peers."""
        self.lives = 0
        """How often it was told from its beginning."""
        self.trouble = ""

    def poll(self) -> bool:
        """Read on; returns whether there was anything."""
        try:
            lines = read_on(self.path / "rounds.jsonl", self._place, 1 << 14)[:ROUNDS_AT_A_TIME]
            self.trouble = ""
        except CutBack:
            if not (self.path / "rounds.jsonl").exists():  # deleted: what was told stays
                return False
            self._anew()
            return True
        except OSError as error:
            said = f"rounds.jsonl cannot be read ({error.strerror})"
            changed, self.trouble = said != self.trouble, said
            return changed
        self._read = 0
        for line in lines:
            self._place = self._place.after([line])  # whatever comes of it, it is told once
            self._take(line)
            if self._read > PART:
                break
        return bool(lines)

    def _anew(self) -> None:
        self._place, self._measured, self._moved = Bookmark(), 0, [0, 0]
        self.messages.clear()
        self.marks.clear()
        self.values.clear()
        self.latest, self.lives = {}, self.lives + 1

    def _take(self, line: bytes) -> None:
        record = parsed(line)
        place = len(self.messages) + 1
        if record is None or not isinstance(record.get("round"), int):
            message: dict[str, Any] = {"trouble": f"line {place} of rounds.jsonl is damaged"}
        else:
            message = self._message(record)
            self.latest = message
        message = {"t": "round", "track": self.id, "n": place, **message}
        self.messages.append(as_json(message))
        self.marks.append(zlib.crc32(line))

    def _message(self, record: dict[str, Any]) -> dict[str, Any]:
        t = int(record["round"])
        text, self._measured = text_after(self.path / "metrics.jsonl", self._measured, t)
        self._read += len(text)
        found = quickly(text, self.metric) or slowly(text, self.metric)
        received, sent = found.pop("moved")
        self._moved[0] += received
        self._moved[1] += sent
        peers = max(found["peers"], 1)
        if "spread" in found:
            self.values[t] = found["spread"][0]
        return {
            "round": t,
            "net": {key: value for key, value in record.items() if key != "round"},
            **found,
            "in": self._moved[0] / peers,
            "out": self._moved[1] / peers,
        }

    # -- for viewers -------------------------------------------------------------------------------

    @property
    def end(self) -> Mark:
        """The newest place."""
        return (len(self.marks), self.marks[-1]) if self.marks else START

    def holds(self, mark: Mark) -> bool:
        """Whether a viewer's place is one of this track as it is now."""
        count, check = mark
        return mark == START or (0 < count <= len(self.marks) and self.marks[count - 1] == check)


def marks_from(text: str) -> dict[str, Mark]:
    """Places from the id of an event, by track; what is not understood is left out."""
    found: dict[str, Mark] = {}
    for part in text.split(","):
        words = part.split(".")
        try:
            track, count, check = words
            found[track] = (int(count, 16), int(check, 16))
        except ValueError:
            continue
    return found


def marks_to(marks: Mapping[str, Mark]) -> str:
    """The id of an event: each track, how many of its lines, and the check of the last."""
    return ",".join(f"{track}.{count:x}.{check:x}" for track, (count, check) in marks.items())
