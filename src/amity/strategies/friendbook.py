"""What a peer of the strategy `friends` knows, and what follows from it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from amity.core import Answers, PeerId, View
from amity.strategies.kinship import MOST, groups

Company = Literal["alone", "friends", "everyone"]
TIGHT: Final = 0.88
"""A group is one of its own, and not merely the nearest part of a crowd, if I am so like it."""
FEWEST: Final = 3
"""So many friends at least are a group that needs no trial; so many models make a measure."""
SLACK: Final = 0.05
"""A crowd agrees with me if it is right as often as I would be alone, up to this."""
CURVE: Final = 0.17
"""Errors fall with the number n of examples about as n to the power of minus this."""
POOR: Final = 0.5
"""A model is refused that has less than this share of the skill of a good one: the upper quartile,
since half of my friends may be liars."""
CHANCE: Final = 0.2
"""And if it has less by this at least: so far does chance move what a few examples say."""
FAR: Final = 1.75
"""A model is refused that is so many times farther from mine than the middle one."""
FAR_JOINED: Final = 3.0
"""Where groups have joined, whose models have grown apart before."""


@dataclass(frozen=True, kw_only=True)
class FriendBook:
    """What a peer knows: how like it each is, who its friends are, and what the trials said."""

    alike: dict[PeerId, float] = field(default_factory=dict)
    friends: tuple[PeerId, ...] = ()
    groups: int = 0
    circles: tuple[tuple[PeerId, ...], ...] = ()
    """The others in groups, without mine."""
    looked: int = -1
    """The round of the last look at cards."""
    wait: int = 1
    """Rounds until the next."""
    alone: float = math.nan
    """How often I would be right alone."""
    lone_skill: float = math.nan
    """The same beyond chance: a friend's model should have as much."""
    agreement: float | None = None
    """How often strangers are right on my examples, if it was tried."""
    kin: float | None = None
    """How often friends are, tried at the same times."""
    joined: bool = False
    """Whether groups have joined: one of them needs the others, and I can afford it."""
    skills: dict[PeerId, float] = field(default_factory=dict)
    vetted: dict[PeerId, int] = field(default_factory=dict)
    """When each one's skill was last measured."""
    poor: tuple[PeerId, ...] = ()
    """Whose models are refused for their lack of skill."""
    far: float | None = None
    """The usual distance of a model from mine."""

    # -- in and out of a peer's memory -------------------------------------------------------------

    @classmethod
    def read(cls, view: View) -> FriendBook:
        names = {name: tuple(view.memory.get(name, ())) for name in ("friends", "poor")}
        circles = tuple(tuple(circle) for circle in view.memory.get("circles", ()))
        return cls(**{**view.memory, **names, "circles": circles})

    def write(self) -> dict[str, Any]:
        known = {**vars(self), "friends": list(self.friends), "poor": list(self.poor)}
        known["circles"] = [list(circle) for circle in self.circles]
        for name in ("alone", "lone_skill"):
            if not math.isfinite(known[name]):
                del known[name]  # it is no JSON
        return known

    # -- who is like me ----------------------------------------------------------------------------

    def compared(self, me: PeerId, alike: Answers) -> FriendBook:
        """After a look at these cards."""
        found = groups(alike)
        mine = next(group for group in found if me in group)
        absent = [j for j in self.friends if j not in alike]
        return replace(
            self,
            alike=self.alike | {j: x for j, x in alike[me].items() if j != me},
            friends=tuple(sorted({*mine, *absent} - {me})),
            groups=len(found),
            circles=tuple(group for group in found if me not in group),
        )

    @property
    def near(self) -> int:
        """How many friends I have who are really like me, and have not proved poor."""
        return self._tight([j for j in self.friends if j not in self.poor])

    @property
    def circled(self) -> bool:
        """Whether I have a group by the cards, whatever its models are worth."""
        return not self.undivided and self._tight(self.friends) >= FEWEST

    def _tight(self, friends: Sequence[PeerId]) -> int:
        likeness = [min(self.alike[j], MOST) for j in friends]
        return len(likeness) if likeness and statistics.fmean(likeness) >= TIGHT else 0

    @property
    def grouped(self) -> bool:
        """Whether I belong to a group of my own beyond doubt."""
        return self.near >= FEWEST

    @property
    def undivided(self) -> bool:
        """Whether everyone whom I know is in my group, or has joined it: as if there were no
        groups."""
        return self.joined or len(self.friends) == len(self.alike)

    @property
    def sure(self) -> bool:
        """Whether the cards alone have told me whom to take."""
        return self.grouped or self.undivided

    # -- whom to take ------------------------------------------------------------------------------

    @property
    def apart(self) -> bool:
        """Whether I do not live in the crowd: I have a group, or a trial has told me to leave."""
        if self.undivided:
            return False
        if self.grouped or self.agreement is None:
            return self.grouped
        return not agree(self.agreement, self.alone, self.near)

    def company(self, here: Sequence[PeerId]) -> Company:
        """Whom to take of those who are here, by what is known so far."""
        if self.undivided:
            return "everyone"
        if self.grouped:
            return "friends"
        if not self.apart and any(j not in self.friends for j in here):
            return "everyone"
        return "friends" if any(j in self.friends for j in here) else "alone"

    def tried(self, right: float) -> FriendBook:
        """After one more trial of strangers."""
        before = self.agreement
        return replace(self, agreement=right if before is None else (before + right) / 2)

    # -- whether groups join -----------------------------------------------------------------------

    def compared_with(self, kin: float, strangers: float) -> FriendBook:
        """After one more trial of friends and strangers, side by side."""
        kin = kin if self.kin is None else (self.kin + kin) / 2
        return replace(self.tried(strangers), kin=kin)

    @property
    def in_need(self) -> bool:
        """Whether my own group fails me: friends, who have learnt from me, are right on my examples
        less often than strangers, who have not."""
        return self.kin is not None and self.agreement is not None and self.agreement > self.kin

    def heard(self, me: PeerId, need: Mapping[PeerId, bool]) -> FriendBook:
        """After everyone has said whether its group fails it. Where most of a group say so, groups
        join, if strangers know my examples as well as I would alone."""
        mine = tuple(sorted({me, *self.friends}))
        calls = any(_most(circle, need) for circle in (mine, *self.circles))
        known = self.agreement is not None and agree(self.agreement, self.alone, 0)
        return replace(self, joined=calls and known)

    # -- whom to refuse ----------------------------------------------------------------------------

    def measured(self, skills: Mapping[PeerId, float], round: int, trained: bool) -> FriendBook:
        """After the skill of a few models was measured. `trained`: whether a friend's model should
        know by now what I would know alone."""
        blend = {j: (skill + self.skills.get(j, skill)) / 2 for j, skill in skills.items()}
        known = self.skills | blend
        vetted = self.vetted | dict.fromkeys(skills, round)
        return replace(self, skills=known, vetted=vetted, poor=self._poor(known, trained))

    def _poor(self, skills: Mapping[PeerId, float], trained: bool) -> tuple[PeerId, ...]:
        if len(skills) < FEWEST:
            return ()
        good = sorted(skills.values())[3 * len(skills) // 4]
        known = trained and math.isfinite(self.lone_skill)
        mine = max(good, self.lone_skill) if known else good
        usual = {j: mine if j in self.friends else good for j in skills}
        poor = {j for j, skill in skills.items() if skill < min(POOR * usual[j], usual[j] - CHANCE)}
        return tuple(sorted(poor))

    def refuse(self, distances: Answers) -> tuple[FriendBook, frozenset[PeerId]]:
        """Models that are much farther from mine than the middle one of all rounds so far, and
        those that are no numbers."""
        sound = [distance for distance in distances.values() if math.isfinite(distance)]
        if not sound:
            return self, frozenset(distances)
        middle, most = statistics.median_low(sound), FAR_JOINED if self.joined else FAR
        usual = middle if self.far is None else min(middle, most * self.far)
        refused = frozenset(j for j, distance in distances.items() if not distance <= most * usual)
        return replace(self, far=usual if self.far is None else (self.far + usual) / 2), refused

    def not_absurd(self, some: Sequence[PeerId], distances: Answers) -> list[PeerId]:
        """Those whose models are not too far even for groups that have joined."""
        most = FAR_JOINED * (self.far or math.inf)
        return [j for j in some if distances.get(j, math.inf) <= most]


def agree(agreement: float, alone: float, friends: int) -> bool:
    """Whether strangers are right on my examples as often as I would be alone; or, with friends, as
    I would be with them: `alone` is of half of my examples, and errors fall with their number."""
    if not friends:
        return agreement >= alone - SLACK
    return 1 - agreement <= (1 - alone) * math.pow(2 * (friends + 1), -CURVE)


def _most(circle: tuple[PeerId, ...], need: Mapping[PeerId, bool]) -> bool:
    """Whether more than half of a group, and three at least, are in need."""
    here = [need[j] for j in circle if j in need]
    return sum(here) >= FEWEST and 2 * sum(here) > len(here)
