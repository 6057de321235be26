"""Links to chosen members alone: one at which others call, and one for each member that I call.

A link belongs to the one who dialled it. It brings that one the cards of the other, and both may
ask on it. So two who chose each other have two links, and nobody has to agree on when one ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial

from amity.errors import NetworkError
from amity.net.link.base import Alive, Handlers, Link
from amity.net.trust.roster import Member, Roster

HOME = ""
"""The way by which somebody is here who dialled me; all others are names of whom I dialled."""


class Few:
    """One link made of several. Methods may be called from any thread."""

    def __init__(
        self,
        *,
        roster: Roster,
        handlers: Handlers,
        home: Callable[[Handlers], Link],
        call: Callable[[Member, Handlers], Link],
    ) -> None:
        """`home` opens the link at which others call, `call` one to a member; a member that is away
        is called again and again until that link is closed."""
        self._roster, self._handlers, self._call = roster, handlers, call
        self._lock, self._wanted = threading.RLock(), set[str]()
        self._calls: dict[str, Link] = {}
        self._ways: dict[str, set[str]] = {}
        """By which ways each member is here."""
        self._closing = ThreadPoolExecutor(4, "hanging up")
        self._home = home(replace(handlers, on_live=partial(self._on_live, HOME)))

    # -- whom I call -------------------------------------------------------------------------------

    def choose(self, members: Collection[str]) -> None:
        with self._lock:
            self._wanted = {*members} & self._roster.members.keys()
            for name in [name for name in self._calls if name not in self._wanted]:
                self._closing.submit(self._calls.pop(name).close)  # it may take seconds
                self._on_live(name, name, here=False)
            for name in sorted(self._wanted - self._calls.keys()):
                self._dial(self._roster.members[name])

    def _dial(self, member: Member) -> None:
        if not member.address:
            return
        told = replace(self._handlers, on_live=partial(self._on_live, member.name))
        with suppress(NetworkError):  # it stays away, and is tried when I choose again
            self._calls[member.name] = self._call(member, told)

    def _on_live(self, way: str, name: str, here: bool) -> None:
        """Somebody came or went on one of the links: it is here while it is on any of them. Who is
        called speaks for itself alone."""
        with self._lock:
            if here and way != HOME and (way != name or name not in self._wanted):
                return
            ways = self._ways.setdefault(name, set())
            before = bool(ways)
            (ways.add if here else ways.discard)(way)
            if bool(ways) != before:
                self._handlers.on_live(name, here)

    def visitors(self) -> Collection[str]:
        return frozenset(name for name, ways in list(self._ways.items()) if HOME in ways)

    # -- as one link -------------------------------------------------------------------------------

    def publish(self, data: bytes) -> None:
        self._home.publish(data)

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
        return self._way_to(peer).ask(
            peer, method, payload, timeout=timeout, limit=limit, alive=alive, bulk=bulk
        )

    def _way_to(self, peer: str) -> Link:
        """The link that I dialled, unless only the other's is there."""
        with self._lock:  # what came on a link that is being dialled may be asked about at once
            mine, ways = self._calls.get(peer), self._ways.get(peer, set())
            return self._home if mine is None or ways == {HOME} else mine

    def knock(self, data: bytes, *, timeout: float, limit: int) -> Iterator[bytes]:
        for link in (self._home, *list(self._calls.values())):
            yield from link.knock(data, timeout=timeout, limit=limit)

    def close(self) -> None:
        with self._lock:
            self._wanted = set()
            calls, self._calls = self._calls, {}
        for link in calls.values():
            self._closing.submit(link.close)
        self._home.close()
        self._closing.shutdown(wait=True)
