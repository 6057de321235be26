r"""Peers that are not equally fast, and the clock of the simulator.

Peer j needs d_j = 1/s_j for the training of a round, where s_j is its speed: the unit of time is
what a peer of speed 1 needs. The others wait for it by the rule of real peers (`patience`). Once
nobody waits for it any more, it misses rounds, and takes part again with its newest model in the
round in which it is ready: that model began d_j ago, from what the others had then.

Who is ready when depends on the speeds alone, so any round can be told without running it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from amity.core import PeerId
from amity.patience import Habit, Purses, quorum
from amity.rng import rng

DEADLINE = 10.0
"""How long a round waits at most, in trainings of a peer of speed 1."""
DRAWN = "lognormal"
SLOWEST, FASTEST = 1e-3, 1e3
HOW = "numbers above 0 with commas between, as 1,1,1,0.1, or lognormal:0.5"


def read_speed(given: object) -> str:
    """`1,1,0.1` (or with + between, which a sweep takes for one value), a list or `lognormal:0.5`,
    as one text."""
    if isinstance(given, str) and given.partition(":")[0] == DRAWN:
        width = _number(given.partition(":")[2], given)
        return f"{DRAWN}:{width:g}"
    listed = given if isinstance(given, list | tuple) else re.split("[,+]", str(given))
    parts = [str(part).strip() for part in listed]
    if parts in ([], [""]):
        return ""
    speeds = [_number(part, given) for part in parts]
    if not all(SLOWEST <= speed <= FASTEST for speed in speeds):
        raise ValueError(f"speed: expected {SLOWEST:g} to {FASTEST:g}, got {given!r}")
    return ",".join(f"{speed:g}" for speed in speeds)


def _number(text: str, given: object) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise ValueError(f"speed: expected {HOW}, got {given!r}")
    return number


def speeds(text: str, names: tuple[PeerId, ...], seed: int) -> dict[PeerId, float]:
    """Everyone's speed: those that are listed, from the first peer on and again from the beginning;
    or drawn from the seed, exp(σ·N(0, 1))."""
    kind, _, width = text.partition(":")
    if kind == DRAWN:
        drawn = rng(seed, "speed").standard_normal(len(names))
        found = [math.exp(float(width) * float(z)) for z in drawn]
    else:
        listed = [float(part) for part in text.split(",")]
        found = [listed[at % len(listed)] for at in range(len(names))]
    return {j: min(max(s, SLOWEST), FASTEST) for j, s in zip(names, found, strict=True)}


@dataclass(frozen=True)
class Tick:
    """One round on the clock."""

    ready: frozenset[PeerId]
    """Who takes part."""
    clock: float
    """The time at its end."""


@dataclass
class Pace:
    """The rounds of a network whose peers have these speeds."""

    speeds: Mapping[PeerId, float]
    _ticks: list[Tick] = field(default_factory=list)
    _left: dict[PeerId, float] = field(default_factory=dict)
    """What each still needs for the training that it is in."""
    _first: dict[PeerId, int] = field(default_factory=dict)
    """The first round of each that has been in one."""

    def __post_init__(self) -> None:
        self._habit, self._purses = Habit(DEADLINE), Purses(DEADLINE)
        self._left = {j: 1 / speed for j, speed in self.speeds.items()}

    def tick(self, round: int) -> Tick:
        while len(self._ticks) <= round:
            self._ticks.append(self._next())
            for name in self._ticks[-1].ready:
                self._first.setdefault(name, len(self._ticks) - 1)
        return self._ticks[round]

    def first(self, name: PeerId) -> int:
        """The first round in which a peer takes part."""
        while name not in self._first:
            self.tick(len(self._ticks))
        return self._first[name]

    def _next(self) -> Tick:
        left, purses = self._left, self._purses
        firm = sorted(left[j] for j in left if purses.open(j)) or sorted(left.values())
        half = firm[max(quorum(firm), 1) - 1]
        free = max(self._habit.free(half), half)
        polite = [left[j] for j in left if purses.courtesy(j) and left[j] <= free]
        over = max(min(firm[-1], self._habit.limit(half, half)), *polite, half)
        ready = frozenset(j for j in left if left[j] <= over)
        late = {j: min(left[j], over) - free for j in left if purses.open(j) and left[j] > free}
        absent = [j for j in left if not purses.open(j) and j not in ready]
        purses.settle({j: by for j, by in late.items() if by > 0}, sorted(ready - late.keys()))
        for j in absent:
            purses.missed(j)
        purses.fill(over)
        self._habit.learn(left[j] for j in ready)
        self._left = {
            j: 1 / self.speeds[j] if j in ready else still - over for j, still in left.items()
        }
        return Tick(ready, (self._ticks[-1].clock if self._ticks else 0.0) + over)
