"""How a watched network is doing besides its rounds: running or not, real peers' links, what left
them, and what happened."""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amity.lines import Bookmark, CutBack, held, last_line, parsed, read_on
from amity.live.finding import json_of, toml

KEPT = 200
"""Lines of a peer's log that are shown: the newest."""
NEWEST = 12
"""Of these, as many are told to everyone who watches; all to who looks at that peer."""
TAIL = 1 << 18
"""Bytes of a log that are read when a peer is first looked at."""
QUIET = frozenset({"answered", "used", "absent"})
"""What happens in every round and is shown elsewhere."""
TEXT = 300
"""Characters of a text that comes from elsewhere."""
COURSE = "course.json"
"""In a copy of another machine's records: how they are doing there."""
SHOWN = ("at", "event", "peer", "why", "count", "round", "detail", "message")


class PeerState:
    """A real peer by what it writes of itself: status.json, audit.jsonl, disclosed.jsonl and, where
    members show theirs, shown.jsonl."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._disclosed: Counter[str] = Counter()
        self._spent = Bookmark()
        self._log: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._read = -1
        self._shown: dict[str, dict[str, Any]] = {}
        self._heard = Bookmark()

    def look(self) -> dict[str, Any]:
        """As plain data, bounded in length."""
        status = json_of(self._path / "status.json")
        self._count()
        self._listen()
        self._hear()
        ends = status.get("certificate")
        return {
            "status": {key: value for key, value in status.items() if key != "certificate"},
            "days": None if ends is None else round((float(ends) - time.time()) / 86400, 1),
            "disclosed": dict(self._disclosed),
            "log": self.log[-NEWEST:],
            "shown": dict(self._shown),
        }

    @property
    def log(self) -> list[dict[str, Any]]:
        """What happened, the newest last."""
        return list(self._log)

    def _count(self) -> None:
        """What has left the peer, by kind."""
        try:
            lines = read_on(self._path / "disclosed.jsonl", self._spent)
        except (CutBack, OSError):
            self._disclosed.clear()
            self._spent = Bookmark()
            return
        for line in lines:
            self._disclosed[str((parsed(line) or {}).get("kind", "damaged"))] += 1
        self._spent = self._spent.after(lines)

    def _listen(self) -> None:
        """The newest lines of its log."""
        try:
            with open(self._path / "audit.jsonl", "rb") as stream:
                size = os.fstat(stream.fileno()).st_size
                begin = max(0, size - TAIL) if not 0 <= self._read <= size else self._read
                stream.seek(begin)
                data = stream.read(TAIL)
        except OSError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._read = begin + len(whole)
        at = begin
        for line in whole.split(b"\n")[:-1]:
            at += len(line) + 1
            found = parsed(line)
            if found is not None and found.get("event") not in QUIET:
                self._log.append({"id": at, **{k: _short(found[k]) for k in SHOWN if k in found}})

    def _hear(self) -> None:
        """What members show of themselves, where they do: the newest of each."""
        try:
            lines = read_on(self._path / "shown.jsonl", self._heard)
        except (CutBack, OSError):
            self._shown.clear()
            self._heard = Bookmark()
            return
        for line in lines:
            found = parsed(line)
            if found is not None and "peer" in found:
                self._shown[str(found["peer"])] = found
        self._heard = self._heard.after(lines)


def course(path: Path, status: Mapping[str, Any], rounds: int) -> dict[str, Any]:
    """Whether a directory is being written, is done, or was left: a word, why, and the newest
    round."""
    last = parsed(last_line(path / "rounds.jsonl")) or {}
    newest = last.get("round", -1)
    newest = newest if isinstance(newest, int) else -1
    word, why = _course(path, status, str(last.get("ended") or ""), newest + 1 >= rounds > 0)
    return {"state": word, "why": why, "rounds": rounds, "last": newest}


def _course(path: Path, status: Mapping[str, Any], early: str, all_done: bool) -> tuple[str, str]:
    if not path.is_dir():
        return "gone", "its directory is not there"
    if not (path / "config.toml").is_file():
        return "waiting", "has not begun"
    if early:
        return "done", early
    if told := json_of(path / COURSE):
        return str(told.get("state", "?")), str(told.get("why", ""))
    running, word = held(path), str(status.get("state", ""))
    if not running and all_done:
        return "done", ""
    if running:
        return ("waits", str(status.get("why", ""))) if word == "waits" else ("running", "")
    if word in ("failed", "stopped"):
        return word, str(status.get("why", ""))
    return "stopped", "nobody is writing it; what is done is kept"


def rounds_of(path: Path) -> int:
    """How many rounds are planned, with what has extended the run."""
    planned = toml(path / "config.toml").get("rounds", 0)
    longer = (parsed(last_line(path / "extended.jsonl")) or {}).get("rounds", planned)
    return int(longer) if isinstance(longer, int) else 0


def _short(value: Any) -> Any:
    return value[:TEXT] if isinstance(value, str) else value
