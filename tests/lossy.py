"""A bad line for tests, where the kernel has no netem: a door in front of a peer, through which all
who dial it must go.

What loss does to TCP is that a lost segment is sent again, and all that follows waits for it. So a
door delivers every byte, in order, `delay` seconds late, and with chance `loss` for each segment
`AGAIN` seconds later still, twice as long if it is lost again. Now and then it resets a connection,
as one that was cut for too long. A door that is shut resets all, and lets nobody in.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import socket
import struct
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from typing import Any

SEGMENT, CHUNK, WAITING = 1448, 16384, 64
"""Bytes of a segment; bytes read at a time; chunks on the way, in one direction."""
AGAIN = 0.2
"""Seconds until TCP sends a lost segment again, at first."""


@dataclass(frozen=True)
class Line:
    """How bad it is."""

    loss: float = 0.05
    delay: float = 0.2
    resets: float = 1 / 5000
    """Chance of a reset, with each chunk."""

    def late(self, size: int, draw: random.Random) -> float:
        """Seconds until all segments of a chunk are there."""
        worst, segments = 0.0, -(-size // SEGMENT)
        for _ in range(segments):
            wait, again = 0.0, AGAIN
            while draw.random() < self.loss:
                wait, again = wait + again, 2 * again
            worst = max(worst, wait)
        return self.delay + worst


def nothing() -> None:
    """Stay where we are."""


class Door:
    """A process that listens at one address and passes everything on to another."""

    def __init__(
        self,
        outside: tuple[str, int],
        inside: tuple[str, int],
        line: Line,
        enter: Callable[[], None] = nothing,
        seed: int = 1,
    ) -> None:
        """`enter` is called first thing in the process: it may go into a namespace."""
        context = multiprocessing.get_context("fork")
        self.shut: Event = context.Event()
        self._ready: Event = context.Event()
        self._process = context.Process(
            target=self._run, args=(outside, inside, line, enter, seed), daemon=True
        )

    def open(self) -> Door:
        self._process.start()
        assert self._ready.wait(30), "the door did not open"
        return self

    def close(self) -> None:
        self._process.terminate()
        self._process.join()

    def _run(
        self,
        outside: tuple[str, int],
        inside: tuple[str, int],
        line: Line,
        enter: Callable[[], None],
        seed: int,
    ) -> None:
        enter()
        asyncio.run(self._serve(outside, inside, line, random.Random(seed)))

    async def _serve(
        self, outside: tuple[str, int], inside: tuple[str, int], line: Line, draw: random.Random
    ) -> None:
        ends: set[asyncio.StreamWriter] = set()

        async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            ends.add(writer)
            try:
                if not self.shut.is_set():
                    there, back = await asyncio.open_connection(*inside)
                    ends.add(back)
                    both = (carry(reader, back, line, draw), carry(there, writer, line, draw))
                    await first_of(both)
                    reset(back)
                    ends.discard(back)
            except OSError:  # nobody is behind the door
                pass
            finally:
                reset(writer)
                ends.discard(writer)

        async with await asyncio.start_server(pass_on, *outside):
            self._ready.set()
            while True:
                await asyncio.sleep(0.05)
                if self.shut.is_set():
                    for end in list(ends):
                        reset(end)


def reset(end: asyncio.StreamWriter) -> None:
    """Break a connection off: whoever is at its end gets an error, not an end."""
    if not end.is_closing():
        at_once = struct.pack("ii", 1, 0)
        end.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        end.transport.abort()


async def first_of(both: tuple[Coroutine[Any, Any, None], ...]) -> None:
    """Both directions, until one of them ends."""
    tasks = [asyncio.ensure_future(one) for one in both]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def carry(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: Line, draw: random.Random
) -> None:
    """One direction, until its end or a reset. What was on the way at the end arrives."""
    loop = asyncio.get_running_loop()
    way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(WAITING)

    async def deliver() -> None:
        while True:
            due, data = await way.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            if not data:
                return
            writer.write(data)
            await writer.drain()

    delivery, due = asyncio.ensure_future(deliver()), 0.0
    try:
        while (data := await reader.read(CHUNK)) and not delivery.done():
            if draw.random() < line.resets:
                return
            due = max(due, loop.time() + line.late(len(data), draw))
            await way.put((due, data))
        await way.put((due, b""))
        await delivery
    except OSError:  # one of the two ends is gone
        return
    finally:
        delivery.cancel()
