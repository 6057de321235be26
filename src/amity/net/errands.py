"""Small things to do about members, each in another thread, and none twice at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from amity.core import PeerId


class Errands:
    """Whoever comes and goes a hundred times a second makes no more work than others."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(16, "looking")
        self._lock = threading.Lock()
        self._doing: set[tuple[str, PeerId]] = set()

    def once(self, what: str, about: PeerId, work: Callable[[], None]) -> Future[None] | None:
        """Do something about a member, unless the same is being done."""
        key = (what, about)
        with self._lock:
            if key in self._doing:
                return None
            self._doing.add(key)

        def done() -> None:
            try:
                work()
            finally:
                self._forget(key)

        try:
            return self._pool.submit(done)
        except RuntimeError:  # closing, or out of threads
            self._forget(key)
            return None

    def _forget(self, key: tuple[str, PeerId]) -> None:
        with self._lock:
            self._doing.discard(key)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
