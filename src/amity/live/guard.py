"""Who may ask: token, host and origin are checked before anything is read, and every answer says
what a browser may do with it.

The token keeps other users of this machine out. The check of the host keeps web pages out whose
name was made to point here; that of the origin, pages that send requests across. Nothing but GET is
answered.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HERE = ("localhost", "127.0.0.1", "::1")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src"
    " 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[bytes, bytes] = {
    b"content-security-policy": POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), geolocation=(), microphone=()",
    b"cache-control": b"no-store",
}
HOST = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([^\[\]:@/]+))(?::\d{1,5})?")
"""A name or an address, and perhaps a port."""
OPEN = "/static/"
"""What anybody may have: files of the package, the same for all."""


@dataclass(frozen=True)
class Guard:
    """Stands before the application."""

    app: ASGIApp
    token: str
    scheme: str
    names: tuple[str, ...]
    """What this server may be called, besides an address in numbers where it is open."""
    open: bool
    """Whether it listens on more than loopback."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *HEADERS.items()]}
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, dressed)
            return
        await self.app(scope, receive, dressed)

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        heads: dict[bytes, str] = {}
        for key, value in scope["headers"]:  # one that comes twice is neither
            heads[key] = heads.get(key, "") + value.decode("latin-1")
        host = heads.get(b"host", "")
        if not self._is_me(host):
            return _no(421, "this request is for another host than this one")
        if scope["method"] not in ("GET", "HEAD"):
            return _no(405, "this page is read-only: there is GET alone")
        origin, site = heads.get(b"origin"), heads.get(b"sec-fetch-site", "none")
        if origin not in (None, f"{self.scheme}://{host}"):
            return _no(403, "this request comes from another page")
        if site not in ("none", "same-origin"):
            return _no(403, "this request comes from another page")
        if not scope["path"].startswith(OPEN) and not self._knows(scope):
            return _no(403, "the address needs its token: take it from where amity was started")
        return None

    def _is_me(self, host: str) -> bool:
        named = HOST.fullmatch(host)
        if named is None:
            return False
        name = named[1] or named[2]
        if name.lower() in self.names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return self.open  # an address in numbers is nobody's name

    def _knows(self, scope: Scope) -> bool:
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        return hmac.compare_digest(given.encode(), self.token.encode())


def _no(status: int, why: str) -> PlainTextResponse:
    return PlainTextResponse(f"amity: {why}\n", status)
