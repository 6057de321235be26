"""Everything that is watched: found again and again, read on, and told to whoever looks.

One thread reads; viewers only take what it has read, so fifty of them cost little more than one.
What is kept in memory is a short message for each round, whatever the number of peers, and no more
than `MOST_KEPT` of them.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from amity.live.finding import MOST_CELLS, find
from amity.live.measure import as_json
from amity.live.states import course, rounds_of
from amity.live.tracks import START, Mark, RecordTrack
from amity.live.watched import Watched

EVERY, BESIDE = 0.4, 1.0
"""Seconds between two looks at the disk; beside a command, which needs the machine more."""
SHARE, LONGEST = 0.015, 5.0
"""The share of one core that looking may take, and the longest pause that this leads to."""
YIELD = 0.25
"""Seconds that reading waits at most for those who ask for something."""
AGAIN = 2.0
"""Seconds between two searches for new runs."""
RESTS, APIECE = 1.0, 0.005
"""Seconds after which a run that rests is looked at again, and for each run that is watched."""
MOST_KEPT = 300_000
"""Messages of all tracks."""
MOST_SAID = 300
"""Characters of what is said of a run that cannot be shown."""
BATCH = 1 << 17
"""Bytes that a viewer is told at a time."""


class Follower:
    """Reads in a thread of its own. All other methods may be called from any thread."""

    def __init__(
        self,
        paths: Sequence[Path],
        labels: Mapping[Path, str] | None = None,
        elsewhere: Callable[[], Sequence[str]] = tuple,
        every: float = EVERY,
    ) -> None:
        """`elsewhere` says what others who bring records cannot do."""
        self.paths, self._labels, self._elsewhere = list(paths), dict(labels or {}), elsewhere
        self._every = every
        self.cells: dict[str, Watched] = {}
        self.tracks: dict[str, RecordTrack] = {}
        self._sought_in_vain: list[str] = []
        self._failed: dict[str, str] = {}
        """Runs that cannot be shown, and why."""
        self.trouble: list[str] = []
        """What cannot be read, besides what a run says of itself; everyone is told."""
        self._warned = 0
        self.lock = threading.RLock()
        self._listeners: set[Callable[[], None]] = set()
        self._stop, self._free = threading.Event(), threading.Event()
        self._free.set()
        self._asking = 0
        self._sought = -AGAIN
        self._thread = threading.Thread(target=self._work, name="follower", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Look once more, and end."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(10)

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have something called when there is news; returns what ends it."""
        with self.lock:
            self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    @contextmanager
    def first(self) -> Iterator[None]:
        """Whoever asks for something comes first: inside, nothing more is read."""
        with self.lock:
            self._asking += 1
            self._free.clear()
        try:
            yield
        finally:
            with self.lock:
                self._asking -= 1
                if not self._asking:
                    self._free.set()

    # -- reading -----------------------------------------------------------------------------------

    def _work(self) -> None:
        pause = 0.0
        while not self._stop.wait(pause):
            self._free.wait(YIELD)
            begun = time.thread_time()
            more = self.look()
            spent = time.thread_time() - begun
            pause = 0.0 if more else min(LONGEST, max(self._every, spent / SHARE))
        while self.look(last=True):
            pass

    def look(self, last: bool = False) -> bool:
        """Everything once; returns whether there is more to read at once."""
        now, more = time.monotonic(), False
        with self.lock:
            if now - self._sought >= AGAIN or last:
                self._sought = now
                self._seek()
            cells = list(self.cells.values())
        news = False
        for cell in cells:
            if now < cell.due and not last:
                continue
            try:
                read, changed = self._read(cell)
                self._failed.pop(cell.found.id, None)
            except Exception as error:  # whatever stands in one, the others go on
                read = changed = False
                said = f"{cell.found.path}: cannot be shown ({type(error).__name__}: {error})"
                self._failed[cell.found.id] = said[:MOST_SAID]
            cell.due = now + (RESTS + len(cells) * APIECE if cell.rests and not read else 0.0)
            more, news = more or read, news or changed
        self._thin()
        news |= self._warn()
        if more or news:
            for listener in list(self._listeners):
                listener()
        return more

    def _read(self, cell: Watched) -> tuple[bool, bool]:
        """Whether there was anything to read, and whether the network is doing otherwise now."""
        cell.describe()  # by what its rounds are measured, before they are
        read = False
        for track in cell.tracks.values():
            with self.lock:
                read |= track.poll()
        return read, self._renew(cell)

    def _seek(self) -> None:
        """Runs that are there now; one that is gone stays, and says so."""
        try:
            found = find(self.paths)
        except OSError as error:
            self._sought_in_vain = [f"{error.filename}: cannot be read ({error.strerror})"]
            return
        more = f"{MOST_CELLS} of {len(found)} runs are followed; name fewer folders"
        self._sought_in_vain = [more] if len(found) > MOST_CELLS else []
        for one in found[:MOST_CELLS]:
            one = replace(one, label=self._labels.get(one.path, one.label))
            known = self.cells.get(one.id)
            if known is None or known.found != one:
                self.cells[one.id] = cell = Watched.of(one)
                if known is not None:
                    cell.tracks = {p: known.tracks.get(p, t) for p, t in cell.tracks.items()}
                    cell.states = {p: known.states.get(p, s) for p, s in cell.states.items()}
        self.tracks = {t.id: t for cell in self.cells.values() for t in cell.tracks.values()}

    def _warn(self) -> bool:
        """Whether what cannot be read has changed."""
        now = [*self._sought_in_vain, *self._failed.values(), *self._elsewhere()]
        with self.lock:
            changed, self.trouble = now != self.trouble, now
            self._warned += changed
        return changed

    def _renew(self, cell: Watched) -> bool:
        """How a network is doing now; returns whether that has changed."""
        looks = {peer: state.look() for peer, state in cell.states.items()}
        tracks = {}
        for peer, track in cell.tracks.items():
            planned = rounds_of(track.path)
            tracks[track.id] = course(track.path, looks.get(peer, {}).get("status", {}), planned)
            if track.trouble:
                tracks[track.id]["trouble"] = track.trouble
        about, state = cell.about, {"tracks": tracks, "peers": looks}
        now = json.dumps([about, state], sort_keys=True, default=str)
        with self.lock:
            if now == cell.state.get("same"):
                return False
            cell.state = {"same": now, **state}
            cell.version += 1
        return True

    def _thin(self) -> None:
        """Keep memory bounded: of the longest tracks, only the newest rounds are kept."""
        with self.lock:
            total = sum(len(track.messages) for track in self.tracks.values())
            if total <= MOST_KEPT:
                return
            room = MOST_KEPT // max(1, len(self.tracks))
            for track in self.tracks.values():
                for at in range(len(track.messages) - room):
                    track.messages[at] = b""

    # -- telling -----------------------------------------------------------------------------------

    def news(self, marks: dict[str, Mark], versions: dict[str, int]) -> tuple[list[bytes], bool]:
        """What a viewer does not know yet, about `BATCH` bytes of it, and whether there is more.
        What it knows is brought up to date."""
        out: list[bytes] = []
        size = 0
        with self.lock:
            if versions.get("", 0) != self._warned:
                versions[""] = self._warned
                out.append(_line("trouble", {"said": self.trouble}))
            for cell in self.cells.values():
                if versions.get(cell.found.id, 0) != cell.version:
                    versions[cell.found.id] = cell.version
                    out += [_line("cell", cell.about), _line("state", _state(cell))]
            for track in self.tracks.values():
                for message in _since(track, marks):
                    out.append(message)
                    size += len(message)
                    if size > BATCH:
                        return out, True
        return out, False


def _state(cell: Watched) -> dict[str, Any]:
    return {"cell": cell.found.id, "tracks": cell.state["tracks"], "peers": cell.state["peers"]}


def _since(track: RecordTrack, marks: dict[str, Mark]) -> Iterator[bytes]:
    """Messages after a viewer's mark, which moves with them."""
    mark = marks.get(track.id, START)
    if not track.holds(mark):
        mark = marks[track.id] = START
        yield _line("reset", {"track": track.id})
    for at in range(mark[0], len(track.messages)):
        marks[track.id] = (at + 1, track.marks[at])
        if track.messages[at]:
            yield track.messages[at]


def _line(kind: str, fields: Mapping[str, Any]) -> bytes:
    return as_json({"t": kind, **fields})
