"""A network in memory: the same `Link`, with a hand on the wire that can lose, alter or repeat what
passes."""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from amity.net.link import links
from amity.net.link.base import Alive, AskFailed, Handlers, Link, Transport
from amity.net.link.few import Few
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
    hub: Hub | Exchange
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

    def choose(self, members: Collection[str]) -> None:
        """Everybody is linked here."""

    def visitors(self) -> Collection[str]:
        return ()

    def close(self) -> None:
        with self.hub.lock:
            self.hub.links.pop(self.name, None)
            for other in self.hub.links.values():
                other.handlers.on_live(self.name, False)


# -- members that are chosen -----------------------------------------------------------------------


@dataclass
class Exchange(Transport):
    """A network in memory on which everyone dials whom it chooses: the same `Few` as with Zenoh,
    over links that are made here."""

    touch: Touch = lambda source, target, kind, data: data
    homes: dict[str, Home] = field(default_factory=dict)
    calls: dict[tuple[str, str], Call] = field(default_factory=dict)
    """By who dialled, and whom."""
    most: Counter[str] = field(default_factory=Counter)
    """The most links that others had to each at a time."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    telling: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))

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
        return Few(
            roster=roster,
            handlers=handlers,
            home=lambda told: Home(self, identity.name, told, most).begin(),
            call=lambda member, told: Call(self, identity.name, member.name, told).begin(),
        )

    def connect(self) -> None:
        """Everyone who dials somebody that listens and has a link to spare."""
        with self.lock:
            for (source, target), call in self.calls.items():
                home = self.homes.get(target)
                if home is None or call.open or len(home.guests()) >= home.limit:
                    continue
                call.open = True
                self.most[target] = max(self.most[target], len(home.guests()))
                self.telling.submit(call.handlers.on_live, target, True)
                self.telling.submit(home.handlers.on_live, source, True)

    def asked(self, to: Handlers, request: MemoryRequest) -> Iterator[tuple[int, bytes]]:
        touched = self.touch(request.asker, request.owner, request.method, request.payload)
        if touched is None:
            raise AskFailed("no answer")
        request.payload = touched
        to.on_ask(request)
        while isinstance(part := request.parts.get(timeout=60), tuple):
            yield part
        if part is not None:
            raise AskFailed(part)


@dataclass
class _End:
    """What both ends of a link have in common."""

    hub: Exchange
    name: str

    def other(self, peer: str) -> Handlers | None:
        raise NotImplementedError

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
        with self.hub.lock:
            to = self.other(peer)
        if to is None:
            raise AskFailed("no answer")
        parts: queue.SimpleQueue[tuple[int, bytes] | str | None] = queue.SimpleQueue()
        request = MemoryRequest(self.hub, peer, self.name, method, payload, parts)
        yield from self.hub.asked(to, request)

    def publish(self, data: bytes) -> None:
        raise NotImplementedError

    def knock(self, data: bytes, *, timeout: float, limit: int) -> Iterator[bytes]:
        yield from ()

    def choose(self, members: Collection[str]) -> None:
        raise NotImplementedError

    def visitors(self) -> Collection[str]:
        raise NotImplementedError


@dataclass
class Home(_End):
    handlers: Handlers
    limit: int

    def begin(self) -> Home:
        with self.hub.lock:
            self.hub.homes[self.name] = self
            self.hub.connect()
        return self

    def guests(self) -> list[Call]:
        return [one for one in self.hub.calls.values() if one.target == self.name and one.open]

    def other(self, peer: str) -> Handlers | None:
        call = self.hub.calls.get((peer, self.name))
        return call.handlers if call is not None and call.open else None

    def publish(self, data: bytes) -> None:
        with self.hub.lock:
            guests = self.guests()
        for one in guests:
            touched = self.hub.touch(self.name, one.name, "put", data)
            if touched is not None:
                one.handlers.on_card(self.name, touched)

    def close(self) -> None:
        with self.hub.lock:
            self.hub.homes.pop(self.name, None)
            for one in self.guests():
                one.open = False
                self.hub.telling.submit(one.handlers.on_live, self.name, False)


@dataclass
class Call(_End):
    target: str
    handlers: Handlers
    open: bool = False

    def begin(self) -> Call:
        with self.hub.lock:
            self.hub.calls[self.name, self.target] = self
            self.hub.connect()
        return self

    def other(self, peer: str) -> Handlers | None:
        home = self.hub.homes.get(peer)
        return home.handlers if home is not None and self.open and peer == self.target else None

    def close(self) -> None:
        with self.hub.lock:
            self.hub.calls.pop((self.name, self.target), None)
            home = self.hub.homes.get(self.target)
            if self.open and home is not None:
                self.hub.telling.submit(home.handlers.on_live, self.name, False)
            self.open = False
            self.hub.connect()
