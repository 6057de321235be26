"""The keys of all members: mine, and theirs as each has signed them in its `hello`.

`hello` is also where versions meet: who speaks another protocol is refused with a line that names
both, before anything else is said.
"""

from __future__ import annotations

import base64
import binascii
import secrets
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from amity._version import __version__
from amity.core import PeerId
from amity.net.link.base import Alive, AskFailed, Link
from amity.net.sealed.boxes import KEY, Box, name_of, seal
from amity.net.trust.roster import Roster
from amity.net.wire import (
    PROTOCOL,
    Expected,
    Manifest,
    Refused,
    Stamp,
    WireSchema,
    open_head,
    other_protocol,
)

HELLO = "hello"
LONGEST_HELLO = 8192
"""Bytes of an answer to it: one signed head."""
UNNUMBERED = 1
"""The protocol of Amity 0.1.0, whose greeting has no number."""


class Theirs(NamedTuple):
    """The keys of one member, while its link is open."""

    box: bytes
    ring: bytes


class Keys:
    """Who seals by which keys. Methods may be called from any thread."""

    def __init__(
        self, *, stamp: Stamp, schema: WireSchema, roster: Callable[[], Roster], me: PeerId
    ) -> None:
        self._stamp, self._schema, self._roster, self._me = stamp, schema, roster, me
        self._lock, self._asking = threading.Lock(), dict[PeerId, threading.Lock]()
        self._theirs: dict[PeerId, Theirs] = {}
        self.mine = Box()
        self.line: Link | None = None
        """On which greetings go; None: no link is open."""

    @property
    def network(self) -> str:
        return self._stamp.network

    def renew(self) -> None:
        """New keys for a new link: whoever has left cannot read what comes from now on."""
        with self._lock:
            self.mine, self._theirs = Box(), {}

    def forget(self, peer: PeerId) -> None:
        """A member came or went: its keys may be others now."""
        with self._lock:
            self._theirs.pop(peer, None)

    @property
    def mine_name(self) -> str:
        """By which others know my key."""
        return name_of(self.mine.public).hex()

    def name_of(self, peer: PeerId, timeout: float) -> str:
        """By which all know a member's key. Raises AskFailed, or Refused."""
        return name_of(self.of(peer, self._line(), timeout, lambda: True).box).hex()

    def shared(self, peer: PeerId, name: str, timeout: float) -> bytes:
        """What only I and a member know, if its key has this name. Raises AskFailed, or Refused."""
        for last in (False, True):
            box = self.of(peer, self._line(), timeout, lambda: True).box
            if name_of(box).hex() == name:
                return self.mine.shared(box)
            if not last:
                self.forget(peer)
        raise AskFailed("unavailable: another key")

    def _line(self) -> Link:
        if self.line is None:
            raise AskFailed("not connected")
        return self.line

    def is_member(self, peer: PeerId) -> bool:
        return peer in self._roster().members

    def ring(self, peer: PeerId, name: bytes) -> bytes | None:
        """The card key of a member, if I know the one of this name."""
        theirs = self._theirs.get(peer)
        return theirs.ring if theirs is not None and name_of(theirs.ring) == name else None

    def of(self, peer: PeerId, link: Link, timeout: float, alive: Alive) -> Theirs:
        """A member's keys; asked for where they are not known. Raises AskFailed, or Refused."""
        with self._lock:
            found, turn = self._theirs.get(peer), self._asking.setdefault(peer, threading.Lock())
        if found is not None:
            return found
        with turn:  # whoever waited for it finds it known
            mine, found = self.mine, self._theirs.get(peer)
            if found is None:
                found = self._greet(peer, mine, link, timeout, alive)
                with self._lock:
                    if self.mine is mine:
                        self._theirs[peer] = found
        return found

    # -- hello -------------------------------------------------------------------------------------

    def _greet(self, peer: PeerId, mine: Box, link: Link, timeout: float, alive: Alive) -> Theirs:
        nonce, data = secrets.token_hex(16), {"method": HELLO, **self._greeting(mine)}
        ask = self._stamp.seal("ask", 0, to=peer, data=data, nonce=nonce)
        parts = link.ask(
            peer, HELLO, ask, timeout=timeout, limit=LONGEST_HELLO, alive=alive, bulk=False
        )
        head = next((part for _, part in parts), b"")
        if not head:
            raise AskFailed("no answer")
        want = Expected(
            me=self._me,
            schema=self._schema,
            kinds=("answer",),
            sender=peer,
            re=nonce,
            any_schema=True,
        )
        manifest, _ = open_head(head, self._roster(), want)
        _same_protocol(manifest.data)
        ring = mine.open(_bytes(manifest.data.get("ring")), self._about(peer, self._me))
        if len(ring) != KEY:
            raise Refused("malformed", "hello: no card key")
        return Theirs(_key(manifest.data.get("box")), ring)

    def _greeting(self, mine: Box) -> dict[str, int | str]:
        return {"protocol": PROTOCOL, "version": __version__, "box": _text(mine.public)}

    def _about(self, owner: PeerId, asker: PeerId) -> str:
        return f"amity ring {self.network} {owner} {asker}"

    def answer(self, manifest: Manifest) -> Mapping[str, int | str]:
        """What I say to a member that greets me: my keys, if it has told its own."""
        mine, theirs = self.mine, manifest.data.get("box")
        if theirs is None:
            return {}
        about = self._about(self._me, manifest.sender)
        return {**self._greeting(mine), "ring": _text(seal(mine.ring, _key(theirs), about))}


def _same_protocol(data: Mapping[str, Any]) -> None:
    protocol, version = data.get("protocol", UNNUMBERED), str(data.get("version", "?"))
    if not isinstance(protocol, int):
        raise Refused("malformed", "hello: its protocol is no number")
    if protocol != PROTOCOL:
        raise Refused("other protocol", other_protocol(version, protocol))


def _text(key: bytes) -> str:
    return base64.b64encode(key).decode()


def _bytes(text: Any) -> bytes:
    try:
        return base64.b64decode(str(text), validate=True)
    except (binascii.Error, ValueError):
        raise Refused("malformed", "hello: a key is not base64") from None


def _key(text: Any) -> bytes:
    key = _bytes(text)
    if len(key) != KEY:
        raise Refused("malformed", "hello: no X25519 key")
    return key
