"""How long to wait for whom. The same rule for real peers and for the simulator's clock.

A round waits for a **quorum** of those it has reason to wait for: half of them. For the others it
waits no longer than `LIMIT` times what such a round usually takes. "Usually" is the middle one of
all (me included), so it takes half of a neighbourhood to be slow before slow is usual.

Whoever comes later than `FREE` times that **costs** time, and pays it from a purse. The purse holds
a quarter of the deadline, and fills by a tenth of the time that goes by; by ever less for those who
were late many times in a row. Nobody pays for a member whose purse is empty: it is given what costs
nothing, and nothing at all if it is late by habit; it is taken with its newest card or model when
that comes. So one member can cost the others a quarter of a deadline once, and after that a tenth
of their time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median_low

from amity.core import PeerId

LIMIT, FREE = 4.0, 1.25
"""Of the usual time: so long the late are waited for, and so late nobody pays."""
LEAST_LIMIT, LEAST_FREE, PURSE = 1 / 4, 1 / 120, 1 / 4
"""Of the deadline: the least limit, the least delay that costs, and what a purse holds."""
HABIT = 4
"""Who was late so many times in a row, and has an empty purse, is not waited for at all."""
SHARE = 0.1
"""Of the time that goes by, what flows into a purse."""
ROUNDS = 15
"""So many past rounds say what is usual."""


@dataclass
class Habit:
    """How long something usually takes."""

    deadline: float
    _past: deque[float] = field(default_factory=lambda: deque(maxlen=ROUNDS))

    @property
    def usual(self) -> float | None:
        """None: nothing is known yet."""
        return median_low(self._past) if self._past else None

    def limit(self, mine: float, half: float) -> float:
        """Until when to wait for those who are late, if I was ready after `mine` seconds, and half
        of the others after `half`. With no past, for a whole deadline: who begins cannot know what
        is usual."""
        if self.usual is None:
            return mine + self.deadline
        wait = max(mine + LEAST_LIMIT * self.deadline, LIMIT * max(self.usual, half))
        return min(mine + self.deadline, wait)

    def free(self, mine: float) -> float:
        """Who comes by then costs nothing."""
        return max(mine + LEAST_FREE * self.deadline, FREE * (self.usual or 0.0))

    def learn(self, times: Iterable[float]) -> None:
        """What a round took with each."""
        found = sorted(times)
        if found:
            self._past.append(median_low(found))


def quorum(awaited: Collection[object]) -> int:
    """How many of those who are waited for must have come, before the rest is given a limit."""
    return (len(awaited) + 1) // 2


@dataclass
class Purses:
    """What each member may still cost."""

    deadline: float
    _left: dict[PeerId, float] = field(default_factory=dict)
    _late: dict[PeerId, int] = field(default_factory=dict)
    """How many times in a row a member was late."""
    _cost: dict[PeerId, float] = field(default_factory=dict)

    def open(self, j: PeerId) -> bool:
        """Whether a member is waited for."""
        return self._left.get(j, 1.0) > 0

    def courtesy(self, j: PeerId) -> bool:
        """Whether a member with an empty purse is given as long as costs nothing: not if it was
        late many times in a row."""
        return not self.open(j) and self._late.get(j, 0) < HABIT

    def settle(self, late: Mapping[PeerId, float], prompt: Collection[PeerId]) -> None:
        """After a round: by how many seconds who was too late, and who was not."""
        for j, seconds in late.items():
            self._left[j] = self._left.get(j, PURSE * self.deadline) - seconds
            self._cost[j] = self._cost.get(j, 0.0) + seconds
            self._late[j] = self._late.get(j, 0) + 1
        for j in prompt:
            self._late[j] = max(0, self._late.get(j, 0) - 1)

    def missed(self, j: PeerId) -> None:
        """A member was not waited for, and did not come either."""
        self._late[j] = self._late.get(j, 0) + 1

    def fill(self, seconds: float) -> None:
        """Time has gone by."""
        full = PURSE * self.deadline
        for j, left in self._left.items():
            more = SHARE * seconds / (1 + self._late.get(j, 0))
            self._left[j] = min(full, left + more)

    def standing(self) -> dict[PeerId, tuple[float, float]]:
        """Of all who have cost anything: how full the purse is (1: full; 0 or less: nobody waits),
        and the seconds lost to it so far."""
        full = PURSE * self.deadline
        return {j: (self._left[j] / full, cost) for j, cost in sorted(self._cost.items())}
