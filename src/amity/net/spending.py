"""What may leave this peer, and what that costs its privacy: every line is on the disk before
anything that follows from it can leave."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Protocol, TypeVar

from amity.config import Config
from amity.net.accounts import Accounts, disclosed_facts
from amity.peer.privacy import uncovered
from amity.round.spending import Budget, Spent


class Costly(Protocol):
    """What came of some work, and the private steps that it took."""

    @property
    def private(self) -> int: ...


W = TypeVar("W", bound=Costly)
Work = Callable[[int | None], W]
"""Something that may take so many private steps (None: any number)."""


class Spending:
    """The budget of one peer, over its whole life."""

    def __init__(self, *, accounts: Accounts, budget: Budget, config: Config) -> None:
        self._accounts, self._budget, self._config = accounts, budget, config
        self._lock = threading.Lock()
        """Held while private steps are done and written down, so that two together do not
        overspend."""

    @property
    def allowed(self) -> int | None:
        """Private steps that the budget still has room for."""
        return self._budget.allowed(self._accounts.private)

    def own(self, round: int, work: Work[W]) -> W:
        """Work on my own model. Without a budget nobody has to wait for it."""
        limited = bool(self._config.privacy.instance.budget)
        with self._lock if limited else nullcontext():
            done = work(self.allowed)
            if done.private:
                self._spend("training", round, "", done.private)
        return done

    def hosted(self, kind: str, round: int, guest: str, work: Work[W]) -> W:
        """Work on a guest's model: a disclosure of its own each time."""
        with self._lock:
            done = work(self.allowed)
            self._spend(kind, round, guest, done.private)
        return done

    def _spend(self, kind: str, round: int, to: str, steps: int) -> None:
        self._accounts.spend(kind, round, to, again=True, steps=steps, rate=self._budget.rate)

    def disclose(self, kind: str, round: int, to: str = "") -> None:
        """Something is about to leave; the same again is the same disclosure."""
        self._accounts.spend(kind, round, to)

    def told(self, kind: str, round: int, to: str) -> bool:
        """Whether this has left already, in this life or one before."""
        return self._accounts.told(kind, round, to)

    @property
    def spent(self) -> Spent:
        """For the record of a round."""
        return self._budget.spent(self._accounts.private)

    def excluded(self, asked: set[str]) -> tuple[str, ...] | None:
        """What ε does not cover: what I asked, and what I answered. None where nothing is
        private."""
        if self._budget.account is None:
            return None
        mechanism, method = self._config.privacy.instance, self._config.method.instance
        answered = disclosed_facts(self._accounts.spent, self._config)
        return tuple(uncovered(mechanism, method, asked | answered))

    def close(self) -> None:
        self._accounts.close()
