"""What one neighbour may cause: asks and bytes a second, transfers at a time, visits a round."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from amity.net.options import Net
from amity.net.trust.roster import Roster
from amity.net.wire import Refused

BURST = 3.0
"""Seconds' worth that may come at once."""
CARDS = 100.0
"""Cards per second that one neighbour may publish: rounds take longer than that."""
MOST_NONCES = 1 << 16
"""Asks of one neighbour that are remembered, to know a replay."""


class Bucket:
    """A token bucket: `rate` a second, at most three seconds' worth at once."""

    def __init__(self, rate: float, now: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._now = rate, now
        self._level, self._at = rate * BURST, now()

    def take(self, amount: float = 1.0) -> bool:
        """Whether so much may pass now."""
        now = self._now()
        self._level = min(self._rate * BURST, self._level + (now - self._at) * self._rate)
        self._at = now
        if amount > self._level:
            return False
        self._level -= amount
        return True

    def wait(self, amount: float) -> float:
        """Take so much, and say how long to wait before it may pass."""
        if self.take(amount):
            return 0.0
        self._level -= amount
        return -self._level / self._rate


class Allowance:
    """The limits of one neighbour."""

    def __init__(
        self,
        net: Net,
        now: Callable[[], float] = time.monotonic,
        seen: Mapping[str, float] | None = None,
    ) -> None:
        self._net, self._now, self._lock = net, now, threading.Lock()
        self._asks, self._bytes = Bucket(net.requests, now), Bucket(net.bandwidth, now)
        self._cards = Bucket(CARDS, now)
        self._pending = self._running = 0
        self._hosted = False
        self._visits: dict[int, int] = {}
        ages = sorted((seen or {}).items(), key=lambda one: -one[1])
        self._nonces: OrderedDict[str, float] = OrderedDict((n, now() - age) for n, age in ages)
        """When each was seen, oldest first."""

    def ask(self) -> None:
        """One more ask: refused if there are too many per second or too many waiting."""
        with self._lock:
            if not self._asks.take():
                raise Refused("too many asks", f"more than {self._net.requests} a second")
            if self._pending >= 4 * self._net.transfers + 16:
                raise Refused("too many asks", "others of yours are still waiting")
            self._pending += 1

    def card(self) -> None:
        """One more card that was published."""
        with self._lock:
            if not self._cards.take():
                raise Refused("too many cards", f"more than {CARDS:.0f} a second")

    def answered(self) -> None:
        with self._lock:
            self._pending -= 1

    def fresh(self, nonce: str, max_age: float) -> None:
        """Every ask has a number of its own, and is answered once."""
        with self._lock:
            now = self._now()
            while self._nonces and now - next(iter(self._nonces.values())) >= max_age:
                self._nonces.popitem(last=False)
            if nonce in self._nonces:
                raise Refused("replay", "this ask was answered already")
            if len(self._nonces) >= MOST_NONCES:
                raise Refused("too many asks", "in the time for which asks are remembered")
            self._nonces[nonce] = now

    @contextmanager
    def transfer(self) -> Iterator[None]:
        with self._lock:
            if self._running >= self._net.transfers:
                raise Refused("too many transfers", f"more than {self._net.transfers} at a time")
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1

    @contextmanager
    def hosted(self) -> Iterator[None]:
        """One guest's model at a time: whoever keeps me waiting for it keeps nobody else
        waiting."""
        with self._lock:
            if self._hosted:
                raise Refused("too many visits", "one at a time")
            self._hosted = True
        try:
            yield
        finally:
            with self._lock:
                self._hosted = False

    def pace(self, size: int) -> float:
        """Seconds to wait before so many bytes may leave."""
        with self._lock:
            return self._bytes.wait(size)

    def visit(self, round: int) -> None:
        """One more visit in a round. A round that is no longer counted is over: otherwise whoever
        names rounds to and fro would be counted from 0 again and again."""
        with self._lock:
            oldest = max(self._visits, default=round) - 2
            if round < oldest:
                raise Refused("too many visits", f"round {round} is over")
            self._visits = {r: n for r, n in self._visits.items() if r >= round - 2}
            if self._visits.get(round, 0) >= self._net.visits:
                raise Refused("too many visits", f"more than {self._net.visits} in round {round}")
            self._visits[round] = self._visits.get(round, 0) + 1


class Allowances:
    """The limits of all members of a roster, whichever it is at the moment."""

    def __init__(
        self,
        net: Net,
        me: str,
        roster: Callable[[], Roster],
        seen: Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        """`seen`: by asker, the asks that were answered before a restart, and how long ago."""
        self._net, self._me, self._roster, self._seen = net, me, roster, seen or {}
        self._lock = threading.Lock()
        self._known: dict[str, Allowance] = {}

    def of(self, name: str) -> Allowance:
        """Raises if this is no other member."""
        if name == self._me or name not in self._roster().members:
            raise Refused("not on the roster", repr(name[:63]))
        with self._lock:
            if name not in self._known:
                self._known[name] = Allowance(self._net, seen=self._seen.get(name, {}))
            return self._known[name]
