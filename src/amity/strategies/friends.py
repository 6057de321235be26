"""Friends: find the peers that are like me, if there are any, and ask whether company helps."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from amity.core import Answers, Ask, Decision, PeerId, Plan, Row, View, spread
from amity.facts import Distance, Likeness, Pull
from amity.peer.proxy import CardSpec, ProxyName
from amity.peer.trials import Agreement, Alone, Skill
from amity.rng import rng
from amity.strategies.kinship import MOST, groups
from amity.strategies.registry import strategies

Company = Literal["alone", "friends", "everyone"]
CODES: Final[Mapping[Company, float]] = {"alone": 0.0, "friends": 1.0, "everyone": 2.0}
TAKES: Final[Mapping[float, str]] = {0.0: "nobody", 1.0: "its friends", 2.0: "everyone"}
TIGHT: Final = 0.88
"""A group is one of its own, and not merely the nearest part of a crowd, if I am so like it."""
FEWEST: Final = 3
"""So many friends at least are a group that needs no trial."""
SLACK: Final = 0.05
"""A crowd agrees with me if it is right as often as I would be alone, up to this."""
CURVE: Final = 0.17
"""Errors fall with the number n of examples as n to the power of minus this."""
OWN: Final = 0.4
"""The weight of my own model among strangers."""
LEAST_SKILL: Final = 0.05
"""The skill of a stranger of whom I know nothing yet, or nothing good."""
VETTED: Final = 2
"""Models a round that are tried one by one."""
POOR: Final = 0.5
"""A model is refused that has less than this share of the skill that a good one, the upper
quartile, has: even half of my friends may be liars."""
CHANCE: Final = 0.2
"""And by at least this: so far chance moves what a few examples say."""
PATIENCE: Final = 8
"""Rounds after which a refused one is looked at again."""
TRIALS: Final = (0.08, 0.16, 0.3, 0.5, 0.7)
"""When, as shares of all rounds, a peer without a group tries the crowd."""
FAR: Final = 1.75
"""A model is refused that is so many times farther from mine than the middle one."""
MOST_SEEN: Final = 200
"""Cards that are compared at a time."""


@dataclass(frozen=True)
class FriendBook:
    """What a peer knows: how like it each is, who its friends are, and what the trials said."""

    alike: dict[PeerId, float]
    friends: tuple[PeerId, ...] = ()
    groups: int = 0
    looked: int = -1
    wait: int = 1
    alone: float = math.nan
    agreement: float | None = None
    company: Company = "everyone"
    skills: dict[PeerId, float] = field(default_factory=dict)
    vetted: dict[PeerId, int] = field(default_factory=dict)
    poor: tuple[PeerId, ...] = ()
    far: float | None = None

    @classmethod
    def read(cls, view: View) -> FriendBook:
        memory = dict(view.memory) or {"alike": {}}
        names = {name: tuple(memory.get(name, ())) for name in ("friends", "poor")}
        return cls(**{**memory, **names})

    def write(self) -> dict[str, Any]:
        notes = {**vars(self), "friends": list(self.friends), "poor": list(self.poor)}
        return {name: value for name, value in notes.items() if value == value}  # NaN is no JSON

    @property
    def grouped(self) -> bool:
        """Whether I belong to a group of my own beyond doubt."""
        return self.near >= FEWEST

    @property
    def near(self) -> int:
        """How many friends I have who are really like me."""
        near = [min(self.alike[j], MOST) for j in self.friends if j not in self.poor]
        return len(near) if near and statistics.fmean(near) >= TIGHT else 0

    @property
    def undivided(self) -> bool:
        """Whether everyone whom I know is in my group, so that there are no groups."""
        return len(self.friends) == len(self.alike)


def agree(agreement: float, alone: float, friends: int = 0) -> bool:
    """Whether strangers are right on my examples as often as I would be alone, or as I would be
    with this many friends: errors fall with the examples that a model has seen."""
    if not friends:
        return agreement >= alone - SLACK
    return 1 - agreement <= (1 - alone) * math.pow(2 * (friends + 1), -CURVE)


@strategies.register("friends")
@dataclass(frozen=True)
class Friends:
    r"""Find those who are like me, chance set aside; without a group, ask the crowd for proof.

    Three questions, each answered by evidence:

    1. *Who is like me?* Once, every peer trains alone on either half of its examples and shows
       both drifts (the card `twins`; `proxy=twins_body` tells less of the labels). How alike two
       halves of one peer are tells how much of a difference between two peers is chance. The
       likeness ℓ_ij (fact `Likeness`) has that removed: 1 means the same distribution, whatever
       the data, the model and the number of examples.
    2. *Are there groups, and where does mine end?* Average linkage joins groups as long as their
       mean likeness is ≥ 0.8. My friends C_i are the others in mine. Three or more to whom I am
       really like (mean ℓ ≥ 0.88) are taken, and nobody else. If everyone is in my group there
       are no groups: I take everyone.
    3. *Does company help me?* With fewer friends I start with everyone. A few times in the run I
       try the crowd: are the strangers' models, unchanged, right on my examples as often as a model
       of one half of them is on the other half (facts `Agreement`, `Alone`)? If so the crowd knows
       what I need, whatever its cards say, and I stay. If not, I take the friends that I have, or
       nobody. Nothing is kept back for it: strangers have not seen my examples.

    Of those I take, `k` a round, in a ring that a lot draws anew each round, the same for all:
    everyone takes the next `k` of its own, so that each is taken as often as it takes, and

        w_i^{t+1} = 1 / (|C_i^t| + 1) · Σ_{j ∈ C_i^t ∪ {i}} ŵ_j.

    A liar's card buys little: a copy of mine is too near to mine to be true, and a model that is
    1.75 times farther from mine than the middle one is refused. Newcomers are looked at after 1, 2,
    4, ... rounds.

    Extremes: `k` = 0 is Local; where all are alike it is Gossip in a ring; where all groups are
    known beforehand it is `oracle`. Constants were chosen on FashionMNIST and CIFAR-10, seeds 1 to
    3 (docs/WHEN.md). Notes: `groups` (found at the last look), `friends`, `strangers`,
    `likeness` (mean, to friends), `alone`, `agreement`, `company` (0 nobody, 1 friends, 2
    everyone), `refused`.

    Ours. Its parts are old: Spearman's correction for attenuation (1904), average linkage, and
    agreement corrected for the prior (Saerens et al. 2002).
    """

    k: Annotated[int, Field(ge=0)] = 5
    sketch: Annotated[int, Field(ge=0)] = 1024
    proxy: ProxyName = "twins"

    def __post_init__(self) -> None:
        if self.card.kind.parts != 2:
            raise ValueError(
                f"proxy should show two halves, as twins and twins_body do, got {self.proxy}"
            )

    @property
    def card(self) -> CardSpec:
        return CardSpec(self.proxy, self.sketch, bits=16, shrink=4, once=True)

    def pulls(self, neighbours: int) -> float:
        return min(self.k, neighbours)

    # -- the plan ----------------------------------------------------------------------------------

    def decide(self, view: View, row: Row) -> Plan:
        book = yield from self._look(view, FriendBook.read(view))
        book = replace(book, company=self._company(view, book))
        ring = _ring(view)
        tried = self._strangers(book, ring) if self._due(view, book) else ()
        chosen = self._taken(view, book, ring)
        arrived = yield Ask(Pull(), tuple(sorted({*chosen, *tried})))
        far: Answers = (yield Ask(Distance(), tuple(sorted(arrived)))) if arrived else {}
        book, refused = _refuse(book, far)
        if tried:
            good = tuple(sorted(j for j in tried if j in arrived and j not in refused))
            book = yield from self._try(view, book, good)
            book = replace(book, company=self._company(view, book))
            chosen = self._taken(view, book, ring)
        taken = [j for j in chosen if j in arrived and j not in refused]
        if not book.undivided:
            book = yield from self._vet(view, book, taken)
            taken = [j for j in taken if j not in book.poor]
        notes = _notes(book, len(refused))
        return Decision(self._row(view, book, taken), book.write(), notes, dict(book.alike))

    def _look(self, view: View, book: FriendBook) -> Generator[Ask, Answers, FriendBook]:
        """Compare cards, if there are faces that I do not know."""
        fresh = [j for j in view.neighbours if j not in book.alike]
        if not fresh or (book.looked >= 0 and view.round < book.looked + book.wait):
            return book
        known = [j for j in view.neighbours if j in book.friends]
        others = [j for j in view.neighbours if j in book.alike and j not in known]
        seen = (*known, *fresh, *others)[:MOST_SEEN]
        alike = yield Ask(Likeness(), (view.me, *seen))
        wait = 1 if book.looked < 0 else 2 * book.wait
        book = replace(book, looked=view.round, wait=wait)
        if not math.isfinite(book.alone):
            alone = yield Ask(Alone(), (view.me,))
            book = replace(book, alone=alone.get(view.me, math.nan))
        if view.me not in alike:
            return book
        found = groups(alike)
        mine = next(group for group in found if view.me in group)
        absent = [j for j in book.friends if j not in alike]
        return replace(
            book,
            alike=book.alike | {j: x for j, x in alike[view.me].items() if j != view.me},
            friends=tuple(sorted({*mine, *absent} - {view.me})),
            groups=len(found),
        )

    def _company(self, view: View, book: FriendBook) -> Company:
        """Whom to take, by what is known so far."""
        here = [j for j in view.neighbours if j in book.friends]
        if book.undivided:
            return "everyone"
        if book.grouped:
            return "friends"
        if book.agreement is None or agree(book.agreement, book.alone, book.near):
            return "everyone"
        return "friends" if here else "alone"

    def _taken(self, view: View, book: FriendBook, ring: list[PeerId]) -> list[PeerId]:
        if book.company == "alone":
            return []
        mine = ring if book.company == "everyone" else [j for j in ring if j in book.friends]
        shut = {j for j in book.poor if view.round < book.vetted[j] + PATIENCE}
        return [j for j in mine if j not in shut][: self.k]

    def _vet(
        self, view: View, book: FriendBook, taken: list[PeerId]
    ) -> Generator[Ask, Answers, FriendBook]:
        """Try a few models one by one: those that I have not tried for longest."""
        oldest = sorted(taken, key=lambda j: (book.vetted.get(j, -1), taken.index(j)))
        some = tuple(sorted(oldest[:VETTED]))
        found = (yield Ask(Skill(), some)) if some else {}
        now = {j: skill for j, skill in found.items() if math.isfinite(skill)}
        blend = {j: (s + book.skills.get(j, s)) / 2 for j, s in now.items()}
        skills = book.skills | blend
        vetted = book.vetted | dict.fromkeys(now, view.round)
        trained = view.round >= TRIALS[1] * view.rounds
        return replace(book, skills=skills, vetted=vetted, poor=_poor(book, skills, trained))

    def _row(self, view: View, book: FriendBook, taken: list[PeerId]) -> Row:
        """Equal weights among my own; among strangers mine counts more."""
        if book.company != "everyone" or book.undivided or not taken:
            return spread((view.me, *taken))
        skilled = spread({j: max(book.skills.get(j, 0.0), LEAST_SKILL) ** 2 for j in taken})
        return spread({view.me: OWN} | {j: (1 - OWN) * share for j, share in skilled.items()})

    # -- trials ------------------------------------------------------------------------------------

    def _due(self, view: View, book: FriendBook) -> bool:
        sure = book.grouped or book.undivided
        return not sure and view.round in {round(share * view.rounds) for share in TRIALS}

    def _strangers(self, book: FriendBook, ring: list[PeerId]) -> tuple[PeerId, ...]:
        return tuple([j for j in ring if j not in book.friends][: self.k])

    def _try(
        self, view: View, book: FriendBook, strangers: tuple[PeerId, ...]
    ) -> Generator[Ask, Answers, FriendBook]:
        """Is the crowd right on my examples as often as I would be alone?"""
        if not strangers or not math.isfinite(book.alone):
            return book
        row = tuple(spread(strangers).items())
        found = yield Ask(Agreement(row), strangers)
        right = next(iter(found.values()), math.nan)
        if not math.isfinite(right):
            return book
        before = book.agreement
        return replace(book, agreement=right if before is None else (before + right) / 2)

    # -- in words ----------------------------------------------------------------------------------

    def explain(self, notes: Mapping[str, float]) -> str:
        """What a round's notes say, for people."""
        if "company" not in notes:
            return ""
        said = [_about_groups(notes)]
        if "agreement" in notes:
            verdict = "agree" if agree(notes["agreement"], notes["alone"]) else "do not agree"
            said.append(
                f"strangers {verdict}: right on {notes['agreement']:.0%} of its examples,"
                f" where learning alone is right on {notes['alone']:.0%}"
            )
        return "; ".join((*said, f"it takes {TAKES[notes['company']]}"))

    def sum_up(self, notes: Sequence[Mapping[str, float]]) -> str:
        """How many peers take whom."""
        count = Counter(one["company"] for one in notes if "company" in one)
        took = {code: TAKES[code].removeprefix("its ") for code in sorted(count)}
        return ", ".join(f"{count[code]} took {whom}" for code, whom in took.items())


def _about_groups(notes: Mapping[str, float]) -> str:
    """Whether there are groups, and what its own is like."""
    friends, strangers = int(notes["friends"]), int(notes["strangers"])
    if not friends and not strangers:
        return "it has seen nobody's card"
    if not strangers:
        return "all cards look alike, so there are no groups"
    if not friends:
        return f"it is like none of {strangers} others"
    return (
        f"of {friends + strangers} others {friends} are like it (likeness"
        f" {notes['likeness']:.2f}; {int(notes['groups'])} groups)"
    )


def _ring(view: View) -> list[PeerId]:
    """All neighbours, from the next one after me on, in the order of a lot that is the same for
    everyone, whoever it reaches."""
    lot = int(view.common_rng.integers(2**62))
    place = {j: rng(lot, "ring", j).random() for j in (view.me, *view.neighbours)}
    mine = place[view.me]
    return sorted(view.neighbours, key=lambda j: ((place[j] - mine) % 1.0, j))


def _refuse(book: FriendBook, far: Answers) -> tuple[FriendBook, frozenset[PeerId]]:
    """Models that are much farther from mine than the middle one of all rounds so far, and those
    that are no numbers."""
    sound = [distance for distance in far.values() if math.isfinite(distance)]
    if not sound:
        return book, frozenset(far)
    middle = statistics.median_low(sound)
    usual = middle if book.far is None else min(middle, FAR * book.far)
    refused = frozenset(j for j, distance in far.items() if not distance <= FAR * usual)
    mean = usual if book.far is None else (book.far + usual) / 2
    return replace(book, far=mean), refused


def _poor(book: FriendBook, skills: Mapping[PeerId, float], trained: bool) -> tuple[PeerId, ...]:
    """Those whose models know much less of my examples than good ones do; and friends who, once
    models are `trained`, know much less than I would alone."""
    if len(skills) < FEWEST:
        return ()
    usual = sorted(skills.values())[3 * len(skills) // 4]
    mine = max(usual, book.alone) if trained and math.isfinite(book.alone) else usual
    least = {j: mine if j in book.friends else usual for j in skills}
    return tuple(
        j for j, skill in sorted(skills.items()) if skill < min(POOR * least[j], least[j] - CHANCE)
    )


def _notes(book: FriendBook, refused: int) -> dict[str, float]:
    near = [book.alike[j] for j in book.friends]
    notes = {
        "groups": float(book.groups),
        "friends": float(len(near)),
        "strangers": float(len(book.alike) - len(near)),
        "company": CODES[book.company],
        "refused": float(refused),
    }
    if near:
        notes["likeness"] = statistics.fmean(near)
    if book.agreement is not None:
        notes |= {"alone": book.alone, "agreement": book.agreement}
    return notes
