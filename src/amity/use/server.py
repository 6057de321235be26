"""A small HTTP endpoint for one model, for programs on the same machine.

It listens on loopback alone, unless it is told that this is not enough: there is no password and no
TLS. A request that names another host than this one is refused, so that no web page can reach it
by way of somebody's browser; so is a body that is too long or no JSON.
"""

from __future__ import annotations

import ipaddress
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from amity.errors import ConfigError, NetworkError
from amity.use.answers import MOST_ROWS, Unfit, answer
from amity.use.classifier import Classifier
from amity.use.openapi import document

MOST_BYTES = 16 * 2**20
MOST_AT_ONCE = 64
HERE = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where to listen."""

    host: str
    port: int
    open: bool
    """Whether other machines may ask."""
    fill: bool = False
    """Whether what is missing or unknown is taken as it usually was in training."""

    @classmethod
    def of(cls, host: str, port: str, *, insecure: bool, fill: bool) -> Endpoint:
        if not port.isdecimal() or int(port) > 65535:
            raise ConfigError(f"port: expected 0 to 65535, got {port!r}")
        here = host == "localhost"
        with suppress(ValueError):
            here = here or ipaddress.ip_address(host).is_loopback
        if not here and not insecure:
            raise ConfigError(
                f"host: {host} is not this machine alone, and there is no password and no TLS; use"
                " 127.0.0.1 behind a proxy that has both, or say --insecure"
            )
        return cls(host=host, port=int(port), open=not here, fill=fill)

    def listen(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            return socket.create_server((self.host, self.port), family=family)
        except OSError as error:
            raise NetworkError(
                f"{self.host}:{self.port} cannot be listened on ({error.strerror}); choose another"
                " port="
            ) from None


def serve_model(model: Classifier, where: Endpoint, say: Callable[[str], None]) -> None:
    """Until SIGTERM or Ctrl-C."""
    with where.listen() as listening:
        port = listening.getsockname()[1]
        host = f"[{where.host}]" if ":" in where.host else where.host
        origin = model.description.origin
        server = uvicorn.Server(
            uvicorn.Config(
                application(model, where),
                log_level="warning",
                access_log=False,
                lifespan="off",
                ws="none",
                server_header=False,
                limit_concurrency=MOST_AT_ONCE,
                timeout_graceful_shutdown=2,
            )
        )
        for end in (signal.SIGINT, signal.SIGTERM):  # uvicorn repeats them when it has ended
            signal.signal(end, lambda _signal, _frame: None)
        say(
            f"the {origin.which} model of {origin.peer} (round {origin.rounds}) answers at"
            f" http://{host}:{port}/predict; /openapi.json shows what it takes"
        )
        if where.open:
            say("anyone who reaches this address may ask: there is no password and no TLS")
        server.run(sockets=[listening])


def application(model: Classifier, where: Endpoint) -> ASGIApp:
    """The ASGI application."""
    origin = model.description.origin
    described = document(model.description, MOST_ROWS, where.fill)
    alive = {
        "status": "ok",
        "peer": origin.peer,
        "model": origin.which,
        "rounds": origin.rounds,
        "classes": list(model.description.names),
        "version": origin.version,
    }

    async def predict(request: Request) -> JSONResponse:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Unfit(415, "send JSON with content-type: application/json")
        body = await _body(request)
        return JSONResponse(await run_in_threadpool(answer, model, body, where.fill))

    async def health(_request: Request) -> JSONResponse:
        return JSONResponse(alive)

    async def schema(_request: Request) -> JSONResponse:
        return JSONResponse(described)

    return _OnlyHere(
        Starlette(
            routes=[
                Route("/predict", predict, methods=["POST"]),
                Route("/health", health),
                Route("/openapi.json", schema),
            ],
            exception_handlers={Unfit: _unfit, HTTPException: _wrong, Exception: _failed},
        ),
        () if where.open else (*HERE, where.host),
    )


async def _body(request: Request) -> bytes:
    """All of it, unless it is too long: then no more than that is read."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MOST_BYTES:
            raise Unfit(
                413, f"the body is longer than {MOST_BYTES // 2**20} MiB; send less at once"
            )
        parts.append(part)
    return b"".join(parts)


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": " ".join(message.split())}, status, headers)


async def _unfit(_request: Request, error: Exception) -> JSONResponse:
    return _error(error.status if isinstance(error, Unfit) else 500, str(error))


async def _wrong(request: Request, error: Exception) -> JSONResponse:
    status = error.status_code if isinstance(error, HTTPException) else 500
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    known = "there are POST /predict, GET /health and GET /openapi.json"
    return _error(status, f"{request.method} {request.url.path[:60]}: {known}", headers)


async def _failed(_request: Request, _error_: Exception) -> JSONResponse:
    return _error(500, "the model failed on this request; the log of the server says more")


@dataclass(frozen=True)
class _OnlyHere:
    """Refuses requests that name another host: they come from a web page whose name was made to
    point here."""

    app: ASGIApp
    hosts: tuple[str, ...]
    """What this one may be called; empty: anything."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self.hosts and _host(scope) not in self.hosts:
            await _error(421, "the request is for another host than this one")(scope, receive, send)
            return
        await self.app(scope, receive, send)


def _host(scope: Scope) -> str:
    """The host that a request names, without its port."""
    named = next((value for key, value in scope["headers"] if key == b"host"), b"")
    text = str(named.decode("latin-1")).lower()
    return text.partition("]")[0] + "]" if text.startswith("[") else text.partition(":")[0]
