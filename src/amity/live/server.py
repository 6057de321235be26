"""The server of the live page: the page, a stream of what happens, and details on request.

/                the page
/static/...      its files
/api/stream      server-sent events; the id of each is the place in the records
/api/round       one round of one network
/api/peer        one peer through all rounds
/api/table       a comparison as it stands
/api/figures     all figures and tables of a report, in one file
/api/records     the files themselves, for another machine's `amity watch`
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from amity._version import __version__
from amity.live.details import RoundsKept, peer_of
from amity.live.figures import Figures
from amity.live.follower import Follower
from amity.live.guard import Guard
from amity.live.measure import as_json
from amity.live.mirror import FILES, SIZE, chunk_of
from amity.live.standing import table_of
from amity.live.tracks import Mark, marks_from, marks_to
from amity.live.watched import Watched

WEB = Path(__file__).parent / "web"
MOST_VIEWERS = 200
BEAT = 15.0
"""Seconds after which a sign of life is sent where nothing happens."""
LOOK = 0.5
"""Seconds after which it is seen that the server ends."""


@dataclass
class Live:
    """What is served, and to how many."""

    follower: Follower
    ending: Callable[[], bool]
    """Whether the server is about to end."""
    beside: bool = False
    """Whether it runs beside a command, and ends with it."""
    viewers: int = 0

    def __post_init__(self) -> None:
        self._figures, self._rounds = Figures(), RoundsKept()

    def routes(self) -> list[Route | Mount]:
        return [
            Route("/", self.page),
            Route("/api/stream", self.stream),
            Route("/api/round", self.round),
            Route("/api/peer", self.peer),
            Route("/api/table", self.table),
            Route("/api/figures", self.figures),
            Route("/api/records", self.records),
            Mount("/static", StaticFiles(directory=WEB)),
        ]

    async def page(self, _request: Request) -> Response:
        return FileResponse(WEB / "index.html", media_type="text/html; charset=utf-8")

    # -- the stream --------------------------------------------------------------------------------

    async def stream(self, request: Request) -> Response:
        if self.viewers >= MOST_VIEWERS:
            raise HTTPException(503, f"{MOST_VIEWERS} are watching already")
        said = request.headers.get("last-event-id") or request.query_params.get("from", "")
        return StreamingResponse(
            self._events(marks_from(said)), media_type="text/event-stream; charset=utf-8"
        )

    async def _events(self, marks: dict[str, Mark]) -> AsyncIterator[bytes]:
        """Batches of messages. What a slow viewer has not taken yet is not made."""
        news, loop = asyncio.Event(), asyncio.get_running_loop()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(news.set)

        ignore = self.follower.listen(wake)
        versions: dict[str, int] = {}
        self.viewers += 1
        try:
            yield _event("hello", {"version": __version__, "beside": self.beside}, marks)
            quiet, more, fresh = 0.0, True, True
            while True:
                ending, found = self.ending(), list[bytes]()
                if fresh or ending:
                    found, more = await run_in_threadpool(self.follower.news, marks, versions)
                if found:
                    quiet = 0.0
                    yield _batch(found, marks)
                elif ending:
                    yield _event("bye", {"beside": self.beside}, marks)
                    return
                elif quiet >= BEAT:
                    quiet = 0.0
                    yield b": here\n\n"
                if not more and not found:
                    waited = await _wait(news)
                    quiet, fresh = quiet + waited, not waited
        finally:
            self.viewers -= 1
            ignore()

    # -- details -----------------------------------------------------------------------------------

    def _cell(self, request: Request) -> Watched:
        cell = self.follower.cells.get(request.query_params.get("cell", ""))
        if cell is None:
            raise HTTPException(404, "there is no such run here")
        return cell

    async def round(self, request: Request) -> Response:
        cell, asked = self._cell(request), request.query_params.get("round", "")
        if not asked.isdecimal() or len(asked) > 9:
            raise HTTPException(400, "round: expected a number")
        return await self._data(self._rounds.of, cell, int(asked))

    async def peer(self, request: Request) -> Response:
        return await self._data(peer_of, self._cell(request), request.query_params.get("peer", ""))

    async def _data(self, make: Callable[..., Any], *given: Any) -> Response:
        def made() -> bytes:
            with self.follower.first():
                found = make(*given)
                return found if isinstance(found, bytes) else as_json(found)

        body = await run_in_threadpool(made)
        return Response(body, media_type="application/json; charset=utf-8")

    async def table(self, request: Request) -> Response:
        group = request.query_params.get("group", "")
        cells = [c for c in self.follower.cells.values() if c.about.get("group") == group]
        if not cells:
            raise HTTPException(404, "there is no such comparison here")
        return await self._data(table_of, cells)

    async def figures(self, request: Request) -> Response:
        """Of a run, or of the group that it is part of."""
        cell = self._cell(request)
        whole = request.query_params.get("whole") == "1" and cell.found.group is not None
        path = cell.found.group if whole and cell.found.group else cell.found.path
        made = await run_in_threadpool(self._figures.of, path)
        if isinstance(made, str):
            raise HTTPException(409, made)
        name = "".join(c if c.isalnum() or c in "-_." else "_" for c in path.name) or "figures"
        said = {"content-disposition": f'attachment; filename="{name}.zip"'}
        return Response(made, media_type="application/zip", headers=said)

    async def records(self, request: Request) -> Response:
        cell, ask = self._cell(request), request.query_params
        folders = {"": cell.found.path} | {t.id: t.path for t in cell.tracks.values()}
        folder, start = folders.get(ask.get("track", "")), ask.get("at", "0")
        if folder is None or ask.get("file") not in FILES or not start.isdecimal():
            raise HTTPException(404, "there is no such file of records")
        data, size = await run_in_threadpool(chunk_of, folder / ask["file"], int(start[:15]))
        return Response(data, headers={SIZE: str(size)}, media_type="application/octet-stream")


def application(live: Live, guard: Callable[[ASGIApp], Guard]) -> ASGIApp:
    """Everything behind its guard."""
    return guard(Starlette(routes=live.routes(), exception_handlers={HTTPException: _wrong}))


async def _wrong(_request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    detail = error.detail if isinstance(error, HTTPException) else "failed"
    return PlainTextResponse(f"amity: {detail}\n", status)


async def _wait(news: asyncio.Event) -> float:
    """Until there is news, but not for long; returns how long at most."""
    try:
        await asyncio.wait_for(news.wait(), LOOK)
    except TimeoutError:
        return LOOK
    news.clear()
    return 0.0


def _batch(messages: list[bytes], marks: dict[str, Mark]) -> bytes:
    """JSON has no line breaks, so each message is a line of the event."""
    body = b"".join(b"data: " + message + b"\n" for message in messages)
    return b"event: batch\nid: " + marks_to(marks).encode() + b"\n" + body + b"\n"


def _event(kind: str, data: dict[str, Any], marks: dict[str, Mark]) -> bytes:
    head = f"id: {marks_to(marks)}\n" if marks else ""
    return f"event: {kind}\n{head}data: {json.dumps(data)}\n\n".encode()
