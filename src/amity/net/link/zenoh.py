"""Zenoh (https://zenoh.io): the link for real machines. TLS with certificates on both sides is
always on; `zenoh_settings.py` says who may say what.

Behind a relay the neighbour's certificate is the relay's, so all of that is checked again by
signature (`amity.net.wire`).
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import zenoh

from amity.errors import NetworkError
from amity.net.audit import Audit, Handshakes
from amity.net.link.base import Alive, AskFailed, Handlers, Link, Transport
from amity.net.link.few import Few
from amity.net.link.registry import links
from amity.net.link.zenoh_session import (
    FEW,
    MOST,
    ZenohRelay,
    opened,
    opened_here,
    short,
    watch_links,
)
from amity.net.link.zenoh_settings import calling, listening, settings
from amity.net.trust.identity import Identity
from amity.net.trust.roster import Member, Roster

LOOK = 0.25
"""Seconds between looks whether somebody who owes an answer is still there."""
SMALLEST_CHUNK = 1024
"""Bytes of the parts of a long answer, but for the last."""
log = logging.getLogger(__name__)


@links.register("zenoh")
@dataclass(frozen=True)
class Zenoh(Transport):
    """Mutual TLS over TCP, dialled by the roster; a router of Zenoh as relay."""

    def open(
        self, *, identity: Identity, roster: Roster, listen: str, handlers: Handlers, lease: float
    ) -> ZenohLink:
        config = settings(identity, roster, listen, lease)
        return ZenohLink(identity=identity, roster=roster, handlers=handlers, config=config)

    def few(
        self,
        *,
        identity: Identity,
        roster: Roster,
        listen: str,
        handlers: Handlers,
        lease: float,
        most: int,
    ) -> Link:
        def home(told: Handlers) -> ZenohLink:
            config = listening(identity, roster, listen, lease, most)
            return ZenohLink(
                identity=identity, roster=roster, handlers=told, config=config, threads=FEW
            )

        def call(member: Member, told: Handlers) -> ZenohLink:
            config = calling(identity, roster, member, lease)
            return ZenohLink(
                identity=identity, roster=roster, handlers=told, config=config, watched=False
            )

        return Few(roster=roster, handlers=handlers, home=home, call=call)

    def relay(
        self,
        *,
        identity: Identity,
        roster: Roster,
        listen: str,
        lease: float,
        on_stranger: Callable[[str], None],
    ) -> ZenohRelay:
        return ZenohRelay(
            identity=identity, roster=roster, listen=listen, lease=lease, on_stranger=on_stranger
        )

    def overhear(self, audit: Audit) -> None:
        Handshakes(audit)

    @property
    def may_fork(self) -> bool:
        return not opened_here()


class _Query:
    """A Zenoh query as a request."""

    def __init__(self, query: zenoh.Query, asker: str, method: str, key: str = "") -> None:
        """`key`: under which it is answered; empty: the one that was asked."""
        self._query, self.asker, self.method = query, asker, method
        self._key = key or query.key_expr
        payload = query.payload
        self.payload = payload.to_bytes() if payload is not None and len(payload) <= 65536 else b""

    def reply(self, data: bytes, offset: int = 0) -> None:
        self._query.reply(self._key, data, attachment=offset.to_bytes(8, "big"))

    def fail(self, reason: str) -> None:
        self._query.reply_err(reason.encode())
        self.done()

    def done(self) -> None:
        self._query.drop()  # type: ignore[no-untyped-call]


class _Parts:
    """Collects replies for one ask, never more than its limit."""

    def __init__(self, limit: int, alive: Alive) -> None:
        self._alive = alive
        self._queue: queue.SimpleQueue[tuple[int, bytes] | str | None] = queue.SimpleQueue()
        self._left, self._parts = limit, limit // SMALLEST_CHUNK + 2
        self._over = False

    def put(self, reply: zenoh.Reply) -> None:
        if self._over:
            return  # whoever sends on and on fills nobody's memory
        if reply.ok is None:
            error = reply.err.payload.to_bytes() if reply.err is not None else b"failed"
            self._fail(error[:200].decode(errors="replace"))
            return
        data, attachment = reply.ok.payload, reply.ok.attachment
        self._left -= len(data)
        self._parts -= 1
        if self._left < 0 or self._parts < 0:
            self._fail("more than was asked for")
            return
        offset = int.from_bytes(attachment.to_bytes()[:8], "big") if attachment is not None else 0
        self._queue.put((offset, data.to_bytes()))

    def _fail(self, reason: str) -> None:
        self._over = True
        self._queue.put(reason)

    def end(self) -> None:
        self._queue.put(None)

    def __call__(self, timeout: float) -> Iterator[tuple[int, bytes]]:
        try:
            yield from self._until(time.monotonic() + timeout)
        finally:
            self._over = True

    def _until(self, until: float) -> Iterator[tuple[int, bytes]]:
        some = False
        while True:
            left = until - time.monotonic()
            try:
                part = self._queue.get(timeout=max(0.0, min(left, LOOK)))
            except queue.Empty:
                if left > LOOK and self._alive():
                    continue
                raise AskFailed("timeout" if left <= LOOK else "gone") from None
            if isinstance(part, str):
                raise AskFailed(part)
            if part is None:
                if not some:
                    raise AskFailed("no answer")
                return
            some = True
            yield part


class ZenohLink:
    """One Zenoh session."""

    def __init__(
        self,
        *,
        identity: Identity,
        roster: Roster,
        handlers: Handlers,
        config: dict[str, Any],
        watched: bool = True,
        threads: int = MOST,
    ) -> None:
        """`watched`: whether those are reported who are linked and on no roster. `threads`: of a
        kind, at most, where this is the first link of a process."""
        self._me, self._root, self._handlers = identity.name, f"amity/{roster.network}", handlers
        mine, ends = f"{self._root}/{self._me}", config["listen"]["endpoints"]
        where = f"listen {ends[0].removeprefix('tls/')}" if ends else "no listener"
        try:
            self._session = session = opened(config, roster, threads)
        except zenoh.ZError as error:
            raise NetworkError(
                f"{identity.name}: the network could not be opened ({where}; {short(error)})"
            ) from None
        try:
            self._declared: list[Any] = [
                session.declare_queryable(f"{mine}/rpc/**", self._on_query),
                session.declare_subscriber(f"{self._root}/*/card", self._on_card),
                session.liveliness().declare_subscriber(
                    f"{self._root}/*/live", self._on_live, history=True
                ),
                session.liveliness().declare_token(f"{mine}/live"),
            ]
            if roster.any_signed:
                self._declared.append(session.declare_queryable(f"{mine}/door/*", self._on_knock))
        except zenoh.ZError as error:
            session.close()  # type: ignore[no-untyped-call]
            raise NetworkError(
                f"{identity.name}: the network could not be opened ({short(error)})"
            ) from None
        self._closing = threading.Event()
        if watched:
            watch_links(session, roster, handlers.on_stranger, self._closing)

    def choose(self, members: Collection[str]) -> None:
        """This one dials by the roster."""

    def visitors(self) -> Collection[str]:
        return ()

    def close(self) -> None:
        self._closing.set()
        self._session.close()  # type: ignore[no-untyped-call]

    def publish(self, data: bytes) -> None:
        try:
            self._session.put(
                f"{self._root}/{self._me}/card",
                data,
                congestion_control=zenoh.CongestionControl.BLOCK,
                priority=zenoh.Priority.INTERACTIVE_HIGH,
            )
        except zenoh.ZError as error:  # closed meanwhile
            raise AskFailed(short(error)) from None

    def ask(
        self,
        peer: str,
        method: str,
        payload: bytes,
        *,
        timeout: float,
        limit: int,
        alive: Alive,
        bulk: bool = False,
    ) -> Iterator[tuple[int, bytes]]:
        parts = _Parts(limit, alive)
        try:
            self._session.get(
                f"{self._root}/{peer}/rpc/{self._me}/{method}",
                zenoh.handlers.Callback(parts.put, parts.end),
                payload=payload,
                timeout=timeout,
                consolidation=zenoh.ConsolidationMode.NONE,
                congestion_control=zenoh.CongestionControl.BLOCK,
                priority=zenoh.Priority.DATA_LOW if bulk else zenoh.Priority.INTERACTIVE_HIGH,
            )
        except zenoh.ZError as error:
            raise AskFailed(short(error)) from None
        yield from parts(timeout + 1)

    def knock(self, data: bytes, *, timeout: float, limit: int) -> Iterator[bytes]:
        found: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        left = limit

        def put(reply: zenoh.Reply) -> None:
            nonlocal left
            if reply.ok is not None and left > 0:  # who sends on and on fills nobody's memory
                left -= len(reply.ok.payload) + SMALLEST_CHUNK
                found.put(reply.ok.payload.to_bytes())

        try:
            self._session.get(
                f"{self._root}/*/door/{self._me}",
                zenoh.handlers.Callback(put, lambda: found.put(None)),
                payload=data,
                timeout=timeout,
                target=zenoh.QueryTarget.ALL,
                consolidation=zenoh.ConsolidationMode.NONE,
                congestion_control=zenoh.CongestionControl.BLOCK,
            )
        except zenoh.ZError as error:
            raise AskFailed(short(error)) from None
        while (answer := found.get()) is not None:
            yield answer

    # -- called by Zenoh ---------------------------------------------------------------------------

    def _name_in(self, key: str, at: int) -> str:
        words = key.removeprefix(self._root + "/").split("/")
        return words[at] if len(words) > at else ""

    def _on_query(self, query: zenoh.Query) -> None:
        key = str(query.key_expr)
        request = _Query(query, self._name_in(key, 2), self._name_in(key, 3))
        try:
            self._handlers.on_ask(request)
        except Exception:
            log.exception("an ask could not be taken")
            request.fail("failed")

    def _on_knock(self, query: zenoh.Query) -> None:
        asker = self._name_in(str(query.key_expr), 2)
        request = _Query(query, asker, "door", f"{self._root}/{self._me}/door/{asker}")
        if self._handlers.on_knock is None or request.asker == self._me:
            request.done()
        else:
            self._handlers.on_knock(request)

    def _on_card(self, sample: zenoh.Sample) -> None:
        sender = self._name_in(str(sample.key_expr), 0)
        if sender != self._me:
            self._handlers.on_card(sender, sample.payload.to_bytes())

    def _on_live(self, sample: zenoh.Sample) -> None:
        name = self._name_in(str(sample.key_expr), 0)
        if name != self._me:
            self._handlers.on_live(name, sample.kind == zenoh.SampleKind.PUT)
