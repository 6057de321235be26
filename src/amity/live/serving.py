"""The life of the live page as a process."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import uvicorn

from amity.live.follower import BESIDE, EVERY, Follower
from amity.live.guard import HERE, Guard
from amity.live.mirror import Mirror
from amity.live.server import LOOK, Live, application
from amity.live.where import Where

LONGEST = 1 << 18
"""Bytes of a request's head: the place of a viewer in many runs is long."""


def guard_of(where: Where) -> Callable[..., Guard]:
    mine = (*HERE, where.host.lower(), *((socket.gethostname().lower(),) if where.open else ()))
    names = tuple(name for name in mine if name)
    return partial(Guard, token=where.token, scheme=where.scheme, names=names, open=where.open)


class Server(uvicorn.Server):
    """Ends when it is told to; viewers are told first."""

    def __init__(self, live: Live, where: Where) -> None:
        files = {}
        if where.identity is not None:
            files = {
                "ssl_keyfile": str(where.identity / "key.pem"),
                "ssl_certfile": str(where.identity / "cert.pem"),
            }
        super().__init__(
            uvicorn.Config(
                application(live, guard_of(where)),
                log_level="error",
                access_log=False,
                lifespan="off",
                ws="none",
                server_header=False,
                http="h11",
                h11_max_incomplete_event_size=LONGEST,
                timeout_graceful_shutdown=5,
                **files,  # type: ignore[arg-type]
            )
        )

    async def main_loop(self) -> None:
        """As uvicorn's own, which looks ten times a second whether it is to end."""
        while not await self.on_tick(0):
            await asyncio.sleep(LOOK)


def serve(
    paths: Sequence[Path],
    where: Where,
    listening: socket.socket,
    *,
    mirrors: Sequence[Mirror] = (),
    beside: bool = False,
    labels: Mapping[Path, str] | None = None,
) -> None:
    """Until SIGTERM or Ctrl-C."""
    folders = [*paths, *(mirror.path for mirror in mirrors)]

    def lost() -> list[str]:
        return [mirror.trouble for mirror in mirrors if mirror.trouble]

    follower = Follower(folders, labels, lost, BESIDE if beside else EVERY)
    server: Server | None = None
    live = Live(follower, lambda: server is not None and server.should_exit, beside)
    server = Server(live, where)
    for end in (signal.SIGINT, signal.SIGTERM):  # uvicorn repeats them when it has ended
        if threading.current_thread() is threading.main_thread():
            signal.signal(end, lambda _signal, _frame: None)
    follower.start()
    try:
        server.run(sockets=[listening])
    finally:
        follower.close()
