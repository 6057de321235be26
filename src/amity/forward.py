"""Events on their way to the stream: from another thread, or from a forked process.

Whoever tells is never kept waiting. An `Outbox` keeps what was told and hands it on from a thread
of its own; if too much waits there, progress is dropped first and then what happened between peers,
the oldest first; starts, rounds and ends are never dropped (there is one for each round, and it is
small). A forked process hands on by a pipe of its own and without any lock, so that it may be
killed at any moment: what it had not yet written whole is lost, and nobody waits for it.
"""

from __future__ import annotations

import os
import pickle
import struct
import threading
from collections import deque
from collections.abc import Iterator

from amity.events import Event, PeerEvent, Progress, Sink

ROOM = 1000
"""Events that may wait in an outbox before some are dropped."""
PATIENCE = 5.0
"""Seconds that a peer waits at its end for the last events to be taken."""
HEAD = struct.Struct(">I")
"""How long the event is that follows."""


class Outbox:
    """A sink that returns at once; another sink takes the events in a thread."""

    def __init__(self, sink: Sink, room: int = ROOM) -> None:
        self._sink, self._room = sink, room
        self._waiting: deque[Event] = deque()
        self._news = threading.Condition()
        self._closing = False
        self.dropped = 0
        self._thread = threading.Thread(target=self._work, name="outbox", daemon=True)
        self._thread.start()

    def take(self, event: Event) -> None:
        with self._news:
            if self._closing:
                return
            self._waiting.append(event)
            if len(self._waiting) > self._room:
                self._drop()
            self._news.notify()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def _drop(self) -> None:
        for kind in (Progress, PeerEvent):
            found = next((e for e in self._waiting if isinstance(e, kind)), None)
            if found is not None:
                self._waiting.remove(found)
                self.dropped += 1
                return

    def _work(self) -> None:
        try:
            for event in self._events():
                self._sink.take(event)
            self._sink.close()
        except (Exception, SystemExit):  # a stream reports its own; a pipe has no reader any more
            return
        finally:
            with self._news:  # whatever ended it: nobody takes any more
                self._closing = True
                self._waiting.clear()

    def _events(self) -> Iterator[Event]:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._waiting or self._closing)
                if not self._waiting:
                    return
                event = self._waiting.popleft()
            yield event

    def close(self, patience: float | None = PATIENCE) -> None:
        """Have the rest taken and the sink closed, but wait no longer than this (None: as long as
        it takes)."""
        with self._news:
            self._closing = True
            self._news.notify()
        self._thread.join(patience)


class PipeSink:
    """The end of a pipe that a forked process writes events to."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        return self._fd

    def take(self, event: Event) -> None:
        data = pickle.dumps(event)
        left = memoryview(HEAD.pack(len(data)) + data)
        while left:
            left = left[os.write(self._fd, left) :]

    def close(self) -> None:
        os.close(self._fd)


class Inbox:
    """The end that the parent reads. It never waits: of an event that is not there whole, the rest
    is taken the next time."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._data = bytearray()
        self.ended = False
        """Whether nobody writes any more, and all that was written has been taken."""
        os.set_blocking(fd, False)

    def fileno(self) -> int:
        return self._fd

    def take(self) -> list[Event]:
        """What has come since the last time."""
        while not self.ended:
            try:
                data = os.read(self._fd, 1 << 16)
            except BlockingIOError:
                break
            self._data += data
            self.ended = not data
        return list(self._whole())

    def _whole(self) -> Iterator[Event]:
        while len(self._data) >= HEAD.size:
            end = HEAD.size + HEAD.unpack_from(self._data)[0]
            if len(self._data) < end:
                return
            event = pickle.loads(self._data[HEAD.size : end])  # noqa: S301  from our own fork
            del self._data[:end]
            yield event

    def close(self) -> None:
        self.ended = True
        os.close(self._fd)


def pipe() -> tuple[Inbox, PipeSink]:
    """What the parent reads, and what the process that it will fork writes to."""
    read, write = os.pipe()
    return Inbox(read), PipeSink(write)
