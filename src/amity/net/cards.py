"""The cards of a round: waiting for them, for as long as it is usual, and what is taken of those
who are late. How long, and for whom, `patience.py` says."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from amity.core import PeerId
from amity.net.asking import Belated
from amity.net.audit import Audit
from amity.net.board import Board, Notice
from amity.net.membership import LOOK
from amity.net.options import Net
from amity.patience import Habit, Purses, quorum


class Cards:
    """Whose cards have come, and whose are waited for."""

    def __init__(
        self,
        *,
        net: Net,
        board: Board,
        audit: Audit,
        purses: Purses,
        belated: Belated,
        alike: Callable[[int, int], bool],
        nudge: Callable[[Sequence[PeerId], float], float],
        see: Callable[[Sequence[PeerId], int], None],
        stop: threading.Event,
    ) -> None:
        """`alike`: whether the same holds in two rounds. `nudge` looks for cards now and
        then, `see` asks for those of a round and waits for them a little."""
        self._net, self._board, self._audit, self._purses = net, board, audit, purses
        self._belated = belated
        self._alike, self._nudge, self._see, self._stop = alike, nudge, see, stop
        self._habit = Habit(net.deadline)
        self._began = time.monotonic()
        self._used: dict[PeerId, int] = {}
        """The newest round of each member whose card was taken."""
        self._spared: set[PeerId] = set()
        """Whose purse was empty when this round began to wait."""
        self.awaited: frozenset[PeerId] = frozenset()
        """Whose cards this round is waiting for."""

    def begin(self) -> None:
        """A round begins: what went by since the last one did fills purses."""
        now = time.monotonic()
        self._purses.fill(now - self._began)
        self._began = now

    def of_round(self, t: int, near: tuple[PeerId, ...]) -> dict[PeerId, Notice]:
        """The cards of a round; and of those who are late the newest, once."""
        came = self._wait_for(t, near)
        found = {j: notice for j in near if (notice := self._board.notice(j, t)) is not None}
        for j in near:
            if j not in found:
                self._tell_late(j, t, came)
                if (newest := self._newest(j, t)) is not None:
                    found[j] = newest
        self._used |= {j: max(self._used.get(j, -1), one.round) for j, one in found.items()}
        return {j: found[j] for j in near if j in found}

    def _tell_late(self, j: PeerId, t: int, came: Mapping[PeerId, float | None]) -> None:
        here = self._board.alive(j)
        firm = j in came and j not in self._spared
        why = "no card before the deadline" if firm else "not waited for"
        self._audit("late", j, why if here else "not reachable", round=t)
        if here and not firm:
            self._purses.missed(j)

    def _newest(self, j: PeerId, t: int) -> Notice | None:
        """The newest card of a member that has none of this round: if it was not taken before, and
        nothing was planned to change in between."""
        had = max(self._used.get(j, -1), self._belated.rounds.get(j, -1))
        if (model := self._belated.look("model", j)) is not None:
            kept: Notice = model[-1]  # it came after its round, and waits to be used
            if kept.round > self._belated.rounds.get(j, -1) and self._alike(kept.round, t):
                return kept
        notice = self._board.notice(j)
        if notice is None or notice.data.phase != "ready" or not self._board.alive(j):
            return None
        return notice if notice.round > had and self._alike(notice.round, t) else None

    # -- waiting -----------------------------------------------------------------------------------

    def _wait_for(self, t: int, near: tuple[PeerId, ...]) -> dict[PeerId, float | None]:
        """Wait for those who are here and may be waited for. Returns how long each took from the
        beginning of the round; None: it did not come."""
        board, trained = self._board, time.monotonic() - self._began
        self._spared = {j for j in near if not self._purses.open(j)}
        came: dict[PeerId, float | None] = {}
        look, ended, free = time.monotonic() + LOOK, False, self._habit.free(trained)
        while not ended and not self._stop.is_set():
            with board.changed:
                took = time.monotonic() - self._began
                awaited = [j for j in near if board.alive(j) and self._awaits(j, took < free)]
                for j in awaited:
                    if came.setdefault(j, None) is None and board.notice(j, t) is not None:
                        came[j] = took
                waiting = [j for j in awaited if came[j] is None]
                self.awaited = frozenset(waiting)
                passed = [j for j in waiting if board.newest(j) > t]
                ended = len(passed) == len(waiting) or took >= self._limit(came, trained)
                if not ended:
                    board.changed.wait(0.1)
            look = self._nudge(waiting, look)
        self.awaited = frozenset()
        self._ask_passed(passed if ended else [], t, came)
        self._settle(came, trained)
        return came

    def _awaits(self, j: PeerId, early: bool) -> bool:
        return self._purses.open(j) or (early and self._purses.courtesy(j))

    def _ask_passed(
        self, passed: Sequence[PeerId], t: int, came: dict[PeerId, float | None]
    ) -> None:
        """Members that are past this round have a card of it, and must be asked."""
        if passed:
            self._see(passed, t)
            took = time.monotonic() - self._began
            came |= {j: took for j in passed if self._board.notice(j, t) is not None}

    def _limit(self, came: Mapping[PeerId, float | None], trained: float) -> float:
        """Until when to wait, now that so many have come."""
        firm = [took for j, took in came.items() if self._purses.open(j)]
        times = sorted(took for took in firm if took is not None)
        need = quorum(firm)
        if len(times) < need:
            return trained + self._net.deadline
        return self._habit.limit(trained, times[need - 1] if need else trained)

    def _settle(self, came: Mapping[PeerId, float | None], trained: float) -> None:
        """Who came too late has cost time; what is usual is learnt from all."""
        over = time.monotonic() - self._began
        free = self._habit.free(trained)
        took = {
            j: over if one is None else one
            for j, one in came.items()
            if one is not None or self._purses.open(j)
        }
        late = {j: one - free for j, one in took.items() if one > free and self._purses.open(j)}
        self._purses.settle(late, [j for j, one in took.items() if one <= free])
        for j in sorted(late):
            if not self._purses.open(j):
                self._audit("costs time", j, "cards", seconds=round(late[j], 3))
        self._habit.learn([trained, *took.values()])
