"""Asking several members at once, and waiting no longer than is usual.

Half of those asked must have answered (or failed); the others are given a limit. Who is slower is
missing in this round. His answer goes on in the background, and what it brings (a model, a card) is
taken in the next round that asks for it. Nobody is asked anything while he still owes an answer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from amity.core import PeerId
from amity.net.audit import Audit
from amity.net.link.base import AskFailed
from amity.net.options import Net
from amity.patience import Habit, Purses, quorum

T = TypeVar("T")
THREADS = 16
"""At least."""


class Belated:
    """What came after its round: the newest of a kind from each member, until it is taken. Methods
    may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[tuple[str, PeerId], Any] = {}
        self.rounds: dict[PeerId, int] = {}
        """The newest round of each member whose model has been here: none is used twice."""

    def keep(self, kind: str, j: PeerId, found: Any) -> None:
        with self._lock:
            self._found[kind, j] = found

    def take(self, kind: str, j: PeerId) -> Any:
        """None: nothing came."""
        with self._lock:
            return self._found.pop((kind, j), None)

    def look(self, kind: str, j: PeerId) -> Any:
        """The same, and it stays."""
        with self._lock:
            return self._found.get((kind, j))


class Asking:
    """The asks of all rounds. `all` is called by one thread."""

    def __init__(self, net: Net, purses: Purses, audit: Audit, members: int) -> None:
        """So many members may owe an answer at the same time."""
        self._net, self._purses, self._audit = net, purses, audit
        self._pool = ThreadPoolExecutor(max(THREADS, members), "asking")
        self._owed: dict[PeerId, Future[Any]] = {}
        self._habits: dict[str, Habit] = {}
        self.belated = Belated()

    def all(
        self, what: str, peers: Sequence[PeerId], work: Callable[[PeerId], T]
    ) -> dict[PeerId, Future[T]]:
        """Ask all at once. Returns what came or failed in time; who is missing is slow."""
        began = time.monotonic()
        free = [j for j in peers if j not in self._owed or self._owed[j].done()]
        futures = {j: self._pool.submit(work, j) for j in free}
        self._owed |= futures
        took = self._wait(what, futures, began)
        for j in peers:
            if j not in took:
                self._audit("slow", j, what)
        return {j: futures[j] for j in peers if j in took}

    def _wait(
        self, what: str, futures: Mapping[PeerId, Future[Any]], began: float
    ) -> dict[PeerId, float]:
        """How long each took that was not too slow."""
        habit = self._habits.setdefault(what, Habit(self._net.patience))
        took: dict[PeerId, float] = {}
        awaited = [j for j in futures if self._purses.open(j)]
        spared = [j for j in futures if self._purses.courtesy(j)]
        need, free = quorum(awaited), habit.free(0.0)
        while True:
            now = time.monotonic() - began
            took |= {j: now for j, one in futures.items() if j not in took and one.done()}
            waiting = [futures[j] for j in awaited if j not in took]
            polite = [futures[j] for j in spared if j not in took and now < free]
            came = sorted(took[j] for j in awaited if j in took)
            half = came[need - 1] if need and len(came) >= need else None
            until = self._net.patience if half is None else habit.limit(0.0, half)
            if (not waiting or now >= until) and not polite:
                break
            soon = free if polite else until
            wait([*waiting, *polite], max(0.0, soon - now), FIRST_COMPLETED)
        self._settle(habit, what, {j: took.get(j, now) for j in awaited})
        return took

    def _settle(self, habit: Habit, what: str, took: Mapping[PeerId, float]) -> None:
        free = habit.free(0.0)
        late = {j: one - free for j, one in took.items() if one > free}
        self._purses.settle(late, [])
        for j in sorted(late):
            if not self._purses.open(j):
                self._audit("costs time", j, what, seconds=round(late[j], 3))
        habit.learn(took.values())

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def result_of(future: Future[T] | None) -> T:
    """What an ask brought; raises what it raised, or that it was too slow."""
    if future is None:
        raise AskFailed("slow: more than is usual; what comes is used in a later round")
    return future.result()
