"""A link on which everything is sealed: it wraps whatever carries the messages."""

from __future__ import annotations

import secrets
import threading
from collections import deque
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial

from amity.core import PeerId
from amity.net.link.base import Alive, AskFailed, Handlers, Link, Request, Transport
from amity.net.sealed.boxes import KEY, OVERHEAD, Box, lock, name_of, seal, unlock
from amity.net.sealed.keys import HELLO, Keys
from amity.net.trust.identity import Identity
from amity.net.trust.roster import Roster
from amity.net.wire import PROTOCOL, Refused

ASK, CARD = b"AMS" + bytes([PROTOCOL]), b"AMC" + bytes([PROTOCOL])
LONGEST_ASK = 65536
LONGEST_CARD = 80 * 1024
"""Bytes of a message that is opened at all; a card that is longer is fetched in parts."""
SMALLEST_PART = 1024
"""Bytes of the parts of a long answer, but for the last."""
OTHER_KEY = "other key"
PARTED, FAILED = b"\0", b"\1"
"""What a part of an answer begins with: it is one, or it says why there is none."""
WAITING = 4
"""Cards of one member that are kept until its key is here."""
GREET = 3.0
"""Seconds to ask for the key of a card that has come."""


@dataclass(frozen=True)
class Sealed(Transport):
    """Opens the links of another transport, with keys of their own."""

    inner: Transport
    keys: Keys
    most: int = 0
    """With chosen members alone, links that others may open to me; 0: all members are linked."""

    def open(
        self, *, identity: Identity, roster: Roster, listen: str, handlers: Handlers, lease: float
    ) -> Link:
        self.keys.renew()
        link = SealedLink(identity.name, self.keys, handlers)
        opener = partial(self.inner.few, most=self.most) if self.most else self.inner.open
        link.inner = opener(
            identity=identity, roster=roster, listen=listen, handlers=link.handlers, lease=lease
        )
        self.keys.line = link.inner
        link.ready.set()
        return link


class SealedLink:
    """Seals what leaves, and opens what comes. What cannot be opened is passed on as it is, and
    refused where it is read."""

    inner: Link

    def __init__(self, me: PeerId, keys: Keys, handlers: Handlers) -> None:
        self._me, self._keys, self._outer = me, keys, handlers
        self._pool = ThreadPoolExecutor(4, "keys")
        self._lock, self._locked = threading.Lock(), dict[PeerId, deque[bytes]]()
        """The newest cards of each member whose key I do not have yet."""
        self.ready = threading.Event()
        self.handlers = replace(
            handlers, on_card=self._on_card, on_ask=self._on_ask, on_live=self._on_live
        )

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self.inner.close()

    def choose(self, members: Collection[str]) -> None:
        self.inner.choose(members)

    def visitors(self) -> Collection[str]:
        return self.inner.visitors()

    # -- what leaves -------------------------------------------------------------------------------

    def publish(self, data: bytes) -> None:
        ring = self._keys.mine.ring
        self.inner.publish(CARD + name_of(ring) + lock(ring, data, self._about_card(self._me)))

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
        for last in (False, True):
            box = self._keys.of(peer, self.inner, timeout, alive).box
            key = secrets.token_bytes(KEY)
            sealed = ASK + seal(key + payload, box, self._about_ask(self._me, peer, method))
            parts = self.inner.ask(
                peer,
                method,
                sealed,
                timeout=timeout,
                limit=limit + (OVERHEAD + 1) * (limit // SMALLEST_PART + 2),
                alive=alive,
                bulk=bulk,
            )
            try:
                yield from _opened(key, parts, limit)
                return
            except AskFailed as failed:
                if last or failed.reason != OTHER_KEY:
                    raise
            self._keys.forget(peer)

    def knock(self, data: bytes, *, timeout: float, limit: int) -> Iterator[bytes]:
        return self.inner.knock(data, timeout=timeout, limit=limit)

    # -- what comes --------------------------------------------------------------------------------

    def _on_ask(self, request: Request) -> None:
        about = self._about_ask(request.asker, self._me, request.method)
        self._outer.on_ask(SealedRequest(request, self._keys.mine, about))

    def _on_live(self, name: str, here: bool) -> None:
        self._keys.forget(name)
        self._outer.on_live(name, here)

    def _on_card(self, sender: str, data: bytes) -> None:
        sealed = data[: len(CARD)] == CARD and len(data) <= LONGEST_CARD
        if not sealed or not self._keys.is_member(sender):
            self._outer.on_card(sender, data)
        elif self._keys.ring(sender, _ring_in(data)) is not None:
            self._outer.on_card(sender, self._unlocked(sender, data))
        else:
            self._keep(sender, data)

    def _unlocked(self, sender: str, data: bytes) -> bytes:
        """A card, if I have its key; otherwise what came."""
        ring = self._keys.ring(sender, _ring_in(data))
        try:
            locked = data[len(CARD) + 8 :]
            return data if ring is None else unlock(ring, locked, self._about_card(sender))
        except Refused:
            return data

    def _keep(self, sender: str, data: bytes) -> None:
        """Until its key is here; of each member the newest few."""
        with self._lock:
            asked = sender in self._locked
            self._locked.setdefault(sender, deque(maxlen=WAITING)).append(data)
        if not asked:
            try:
                self._pool.submit(self._open_later, sender)
            except RuntimeError:  # closing
                return

    def _open_later(self, sender: str) -> None:
        self.ready.wait(GREET)
        self._keys.forget(sender)
        self._ask_key(sender)
        with self._lock:
            waiting = self._locked.pop(sender)
        for data in waiting:
            self._ask_key(sender)  # it may have come just now, and its old keys be forgotten
            self._outer.on_card(sender, self._unlocked(sender, data))

    def _ask_key(self, sender: str) -> None:
        """If it is not known. Whoever meets the sender tells why not; its cards are refused."""
        with suppress(AskFailed, Refused):
            self._keys.of(sender, self.inner, GREET, lambda: True)

    def _about_ask(self, asker: str, owner: str, method: str) -> str:
        return f"amity ask {self._keys.network} {asker} {owner} {method}"

    def _about_card(self, sender: str) -> str:
        return f"amity card {self._keys.network} {sender}"


class SealedRequest:
    """An ask, which is opened when it is looked at, and whose answer is sealed."""

    def __init__(self, request: Request, box: Box, about: str) -> None:
        self.asker, self.method = request.asker, request.method
        self._request, self._box, self._about = request, box, about
        self._key: bytes | None = None

    @cached_property
    def payload(self) -> bytes:
        """Empty: too long to be an ask. Raises Refused if it is sealed to another key, or not at
        all; a greeting need not be."""
        data = self._request.payload
        if len(data) > LONGEST_ASK:
            return b""
        if data[: len(ASK)] != ASK:
            if self.method != HELLO:
                raise Refused("malformed", "an ask that is not sealed, or by another version")
            return data
        opened = self._box.open(data[len(ASK) :], self._about)
        self._key = opened[:KEY]
        return opened[KEY:]

    def reply(self, data: bytes, offset: int = 0) -> None:
        self._request.reply(self._sealed(PARTED, data, offset), offset)

    def fail(self, reason: str) -> None:
        if self._key is None:
            self._request.fail(reason)
            return
        self._request.reply(self._sealed(FAILED, reason.encode(), 0), 0)
        self._request.done()

    def done(self) -> None:
        self._request.done()

    def _sealed(self, mark: bytes, data: bytes, offset: int) -> bytes:
        return data if self._key is None else lock(self._key, mark + data, _about_part(offset))


def _opened(
    key: bytes, parts: Iterator[tuple[int, bytes]], limit: int
) -> Iterator[tuple[int, bytes]]:
    """The parts of an answer, at most so many bytes."""
    for offset, part in parts:
        text = unlock(key, part, _about_part(offset))
        if text[:1] == FAILED:
            raise AskFailed(text[1:201].decode(errors="replace"))
        limit -= len(text) - 1
        if limit < 0:
            raise AskFailed("more than was asked for")
        yield offset, text[1:]


def _about_part(offset: int) -> str:
    return f"amity part {offset}"


def _ring_in(data: bytes) -> bytes:
    return data[len(CARD) : len(CARD) + 8]
