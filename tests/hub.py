"""A network in memory: the same `Link`, with a hand on the wire that can lose, alter or repeat what
passes."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from amity.net.link import links
from amity.net.link.base import Alive, AskFailed, Handlers, Link, Transport
from amity.net.sealed import link as sealed_link
from amity.net.sealed.boxes import OVERHEAD
from amity.net.trust.identity import Identity
from amity.net.trust.roster import Roster

Touch = Callable[[str, str, str, bytes], "bytes | None"]
"""What happens to a message from one peer to another, of a kind (put, a method, `METHOD reply`):
other bytes, or None."""


def seal_nothing(patch: pytest.MonkeyPatch) -> None:
    """From now on answers and cards are as long as if they were sealed, and can be read."""
    patch.setattr(sealed_link, "lock", lambda _key, text, _about: bytes(OVERHEAD) + text)
    patch.setattr(sealed_link, "unlock", lambda _key, text, _about: text[OVERHEAD:])


@dataclass
class Hub(Transport):
    touch: Touch = lambda source, target, kind, data: data
    links: dict[str, MemoryLink] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def open(
        self, *, identity: Identity, roster: Roster, listen: str, handlers: Handlers, lease: float
    ) -> Link:
        link = MemoryLink(self, identity.name, handlers)
        with self.lock:
            for name, other in self.links.items():
                other.handlers.on_live(identity.name, True)
                handlers.on_live(name, True)
            self.links[identity.name] = link
        return link


@links.register("memory")
@dataclass(frozen=True)
class Memory(Transport):
    """One hub for all peers of a process, chosen by `net.link=memory`: all that another transport
    needs."""

    hub: ClassVar[Hub] = Hub()

    def open(
        self, *, identity: Identity, roster: Roster, listen: str, handlers: Handlers, lease: float
    ) -> Link:
        return self.hub.open(
            identity=identity, roster=roster, listen=listen, handlers=handlers, lease=lease
        )


@dataclass
class MemoryRequest:
    hub: Hub
    owner: str
    asker: str
    method: str
    payload: bytes
    parts: queue.SimpleQueue[tuple[int, bytes] | str | None]

    def reply(self, data: bytes, offset: int = 0) -> None:
        touched = self.hub.touch(self.owner, self.asker, f"{self.method} reply", data)
        if touched is not None:
            self.parts.put((offset, touched))

    def fail(self, reason: str) -> None:
        self.parts.put(reason)

    def done(self) -> None:
        self.parts.put(None)


@dataclass
class MemoryLink:
    hub: Hub
    name: str
    handlers: Handlers

    def publish(self, data: bytes) -> None:
        for name, other in list(self.hub.links.items()):
            touched = self.hub.touch(self.name, name, "put", data) if name != self.name else None
            if touched is not None:
                other.handlers.on_card(self.name, touched)

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
        touched = self.hub.touch(self.name, peer, method, payload)
        if peer not in self.hub.links or touched is None:
            raise AskFailed("no answer")
        parts: queue.SimpleQueue[tuple[int, bytes] | str | None] = queue.SimpleQueue()
        self.hub.links[peer].handlers.on_ask(
            MemoryRequest(self.hub, peer, self.name, method, touched, parts)
        )
        while True:
            try:
                part = parts.get(timeout=timeout)
            except queue.Empty:
                raise AskFailed("timeout") from None
            if isinstance(part, str):
                raise AskFailed(part)
            if part is None:
                return
            yield part

    def knock(self, data: bytes, *, timeout: float, limit: int) -> Iterator[bytes]:
        for name, other in list(self.hub.links.items()):
            touched = self.hub.touch(self.name, name, "door", data) if name != self.name else None
            if touched is None or other.handlers.on_knock is None:
                continue
            parts: queue.SimpleQueue[tuple[int, bytes] | str | None] = queue.SimpleQueue()
            other.handlers.on_knock(
                MemoryRequest(self.hub, name, self.name, "door", touched, parts)
            )
            while isinstance(part := parts.get(timeout=timeout), tuple):
                yield part[1]

    def close(self) -> None:
        with self.hub.lock:
            self.hub.links.pop(self.name, None)
            for other in self.hub.links.values():
                other.handlers.on_live(self.name, False)
