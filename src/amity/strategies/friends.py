"""Friends: find the peers that are like me, if there are any, and ask whether company helps."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Final

from pydantic import Field

from amity.core import START, Answers, Ask, Band, Decision, PeerId, Plan, Row, Traffic, View, spread
from amity.facts import Distance, Likeness, Pull, Said
from amity.peer.proxy import CardSpec, ProxyName
from amity.peer.trials import Agreement, Alone, Skill
from amity.rng import rng
from amity.strategies.friendbook import FriendBook
from amity.strategies.friendwords import explained, noted, summed_up
from amity.strategies.registry import strategies

TRIALS: Final = (0.08, 0.16, 0.3, 0.5, 0.7)
"""When, as shares of all rounds, a peer without a group tries the crowd."""
SIDE_BY_SIDE: Final = TRIALS[:2]
"""When a peer with a group compares it with strangers."""
SETTLED: Final = 0.8
"""From this share of all rounds on, nothing more is taken from strangers."""
STEADY: Final = 0.75
"""From this share of all rounds on, models move by half."""
ASKED: Final = 3
"""How many times as many as are taken are asked whether they live in the crowd."""
APART: Final = "apart"
"""What a peer says of itself: whether it has left the crowd."""
NEED: Final = "need"
"""What a peer says of itself: whether its own group fails it."""
VETTED: Final = 2
"""Models a round whose skill is measured."""
PATIENCE: Final = 8
"""Rounds after which a refused one is looked at again."""
MOST_SEEN: Final = 200
"""Cards that are compared at a time."""


@strategies.register("friends")
@dataclass(frozen=True)
class Friends:
    r"""Find those who are like me, chance set aside; without a group, ask the crowd for proof.

    Four questions, each answered by evidence:

    1. *Who is like me?* Once, every peer trains alone on either half of its examples and shows
       both drifts (the card `twins`, or `twins_body` of the body alone). How alike two halves of
       one peer are tells how much of a difference between two peers is chance. The likeness ℓ_ij
       (fact `Likeness`) has that removed: 1 means the same distribution, whatever the data, the
       model and the number of examples.
    2. *Are there groups, and where does mine end?* Average linkage joins groups whose mean likeness
       is as near to 1 as chance allows for groups of their sizes (`kinship.groups`). My friends are
       the others in mine. Three or more to whom I am really like (mean ℓ ≥ 0.88) are taken, and
       nobody else. If everyone is in my group there are no groups: I take everyone.
    3. *Does company help me, and whose?* With fewer friends I start with everyone. A few times in
       the run I try the crowd: are the strangers' models, unchanged, right on my examples as often
       as I would be alone, or with the friends that I have (facts `Agreement`, `Alone`)? If so the
       crowd knows what I need, whatever its cards say, and I stay. If not, I take the friends that
       I have, or nobody. Nothing is kept back for it: strangers have not seen my examples.

    4. *Does my group fail me?* Twice early in the run who has a group compares it with strangers:
       two friends' models together, and three strangers', on my examples. My friends
       have learnt from me and strangers have not, so if strangers are right more often, my group
       does badly by itself (its data make training hard, or its models are broken), and I say so
       (fact `Said`). Where more than half of a group, and three at least, say that, groups join:
       everyone takes everyone, except whom strangers do not know (right less often than I would
       be alone). One-sided help does not suffice: who needs company must be learnt from too.

    The crowd is those who live in it. Who has a group, or has left, says so (fact `Said`), and is
    not taken by strangers any more, unless all of them live apart: models that go their own ways
    have a mean that is nobody's.

    Of those I take, `k` a round, in a ring that a lot draws anew each round, the same for all:
    everyone takes the next `k` of its own, so that each is taken as often as it takes. Weights are
    equal, and in the last quarter of the rounds models move by half, because a mean over rounds
    is steadier than the newest model:

        w_i^{t+1} = 1 / (|C_i^t| + 1) · Σ_{j ∈ C_i^t ∪ {i}} ŵ_j
        w_i^{t+1} = ½ w_i^t + ½ / (|C_i^t| + 1) · Σ_{j ∈ C_i^t ∪ {i}} ŵ_j         (last quarter)

    In the last fifth of the rounds nothing more is taken from strangers: each mixture pulls a model
    towards what others have, and a peer with few classes needs some rounds to make it its own.

    A liar's card buys little. A copy of my card is too near to it to be true. One that copies a
    friend's is believed, until its model has been tried: a model with less than half of the skill
    of a good one is refused for some rounds and is no friend any more, and one that is 1.75 times
    farther from mine than the middle one is refused at once. What a model knows of my examples
    beyond chance is its skill s_ij (fact `Skill`, two models a round). Where there are no groups,
    models are not tried one by one. Newcomers are looked at after 1, 2, 4, ... rounds.

    Extremes: `k` = 0 is Local; where all are alike it is Gossip in a ring; where all groups are
    known beforehand it is `oracle`. Constants were chosen on FashionMNIST, CIFAR-10 and digits,
    seeds 1 to 6 (docs/WHEN.md). Notes: `groups` (found at the last look), `friends`, `strangers`,
    `likeness` (mean, to friends), `alone`, `agreement`, `kin` (how often friends are right
    on my examples, beside strangers), `joined` (1 where groups have), `company` (0 nobody, 1
    friends, 2 everyone), `refused` (too far), `poor` (known to lack skill), `settled` (1 in the
    last fifth among strangers).

    Ours. Its parts are old: Spearman's correction for attenuation (1904), average linkage, and
    agreement corrected for the prior (Saerens et al. 2002).
    """

    guard: ClassVar[str] = "normclip:factor=2"
    """The stage of real peers: models are looked at here already, so that it may be wide."""

    k: Annotated[int, Field(ge=0)] = 5
    """Models that are taken in a round; 0 is training alone."""
    sketch: Annotated[int, Field(ge=0)] = 1024
    """Numbers on a card, at most: small models have smaller cards; 0: all of φ."""
    proxy: ProxyName = "twins"
    """What cards show, in two halves: `twins`, or `twins_body` of the body alone."""

    def __post_init__(self) -> None:
        if self.card.kind.parts != 2:
            raise ValueError(
                f"proxy should show two halves, as twins and twins_body do, got {self.proxy}"
            )

    @property
    def card(self) -> CardSpec:
        return CardSpec(self.proxy, self.sketch, bits=16, shrink=4, once=True)

    def pulls(self, neighbours: int) -> Traffic:
        """Nobody for who stays alone."""
        return Traffic(Band(0, min(self.k, neighbours)))

    # -- the plan ----------------------------------------------------------------------------------

    def decide(self, view: View, row: Row) -> Plan:
        book = yield from self._look(view, FriendBook.read(view))
        book = yield from self._listen(view, book)
        ring = yield from self._here(book, _ring(view))
        beside = self._beside(view, book)
        tried = self._strangers(book, ring, beside) if beside or self._due(view, book) else ()
        chosen = self._kin(book, ring, tried) if beside else self._chosen(view, book, ring)
        arrived = yield Ask(Pull(), tuple(sorted({*chosen, *tried})))
        far: Answers = (yield Ask(Distance(), tuple(sorted(arrived)))) if arrived else {}
        book, refused = book.refuse(far)
        if beside:
            near = [j for j in chosen if j in far and j not in refused]
            book = yield from self._compare(book, near, book.not_absurd(tried, far))
        elif tried:
            book = yield from self._try(book, [j for j in tried if j in far and j not in refused])
        if tried:
            chosen = self._chosen(view, book, ring)
        taken = [j for j in chosen if j in far and j not in refused]
        if not book.undivided:
            book = yield from self._vet(view, book, taken)
            taken = [j for j in taken if j not in book.poor]
        settled = float(_settled(view, book, ring))
        return Decision(
            self._row(view, taken),
            book.write(),
            noted(book, book.company(ring), len(refused)) | {"settled": settled},
            dict(book.alike),
            {name: 1.0 for name, so in ((NEED, book.in_need), (APART, book.apart)) if so},
        )

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
            alone = (yield Ask(Alone(), (view.me,))).get(view.me)
            if alone is not None:
                book = replace(book, alone=alone.right, lone_skill=alone.skill)
        return book.compared(view.me, alike) if view.me in alike else book

    def _here(self, book: FriendBook, ring: list[PeerId]) -> Generator[Ask, Answers, list[PeerId]]:
        """Those of the ring whom I may take or try. A stranger who lives apart does not learn from
        the crowd: its model goes its own way, and a mean of such models is nobody's. Who is late or
        silent has not said that it does. Where all strangers live apart there is no crowd to wait
        for: then a trial of them decides, as of any others."""
        if book.sure:
            return ring
        next_ones = tuple(sorted(ring[: ASKED * self.k]))
        said: Answers = (yield Ask(Said(), next_ones)) if next_ones else {}
        apart = {j for j, says in said.items() if says.get(APART)}
        strangers = {j for j in next_ones if j not in book.friends}
        crowd = strangers - apart or strangers
        return [j for j in ring if j in book.friends or j in crowd]

    def _chosen(self, view: View, book: FriendBook, ring: list[PeerId]) -> list[PeerId]:
        """The next k of my own. Who is known as poor has to wait. Who lives among strangers makes
        in the end of what it has from them its own."""
        company = book.company(ring)
        if company == "alone" or _settled(view, book, ring):
            return []
        mine = ring if company == "everyone" else [j for j in ring if j in book.friends]
        shut = {j for j in book.poor if view.round < book.vetted[j] + PATIENCE}
        return [j for j in mine if j not in shut][: self.k]

    def _row(self, view: View, taken: list[PeerId]) -> Row:
        """Equal weights; near the end half of my model stays what it was."""
        row = spread((view.me, *taken))
        if not self.k or view.round < STEADY * view.rounds:
            return row
        return spread({START: 1.0} | row)

    # -- trials ------------------------------------------------------------------------------------

    def _due(self, view: View, book: FriendBook) -> bool:
        """Whether it is time to try the crowd. Who came late, or found nobody to try, does it at
        the first chance."""
        if book.sure or not math.isfinite(book.alone):
            return False
        times = [round(share * view.rounds) for share in TRIALS]
        return view.round in times or (book.agreement is None and view.round > times[0])

    def _strangers(self, book: FriendBook, ring: list[PeerId], beside: bool) -> tuple[PeerId, ...]:
        """Whom to try: as many as I would take, or beside friends half of them."""
        most = (self.k + 1) // 2 if beside else self.k
        return tuple([j for j in ring if j not in book.friends][:most])

    def _try(
        self, book: FriendBook, strangers: Sequence[PeerId]
    ) -> Generator[Ask, Answers, FriendBook]:
        """Is the crowd right on my examples as often as I would be alone?"""
        if not strangers or not math.isfinite(book.alone):
            return book
        some = tuple(sorted(strangers))
        found = yield Ask(Agreement(tuple(spread(some).items())), some)
        right = next(iter(found.values()), math.nan)
        return book.tried(right) if math.isfinite(right) else book

    # -- whether groups join -----------------------------------------------------------------------

    def _beside(self, view: View, book: FriendBook) -> bool:
        """Whether it is time to compare my group with strangers."""
        times = [round(share * view.rounds) for share in SIDE_BY_SIDE]
        return self.k > 1 and book.circled and math.isfinite(book.alone) and view.round in times

    def _kin(self, book: FriendBook, ring: list[PeerId], tried: Sequence[PeerId]) -> list[PeerId]:
        """The friends that are compared with strangers; as many models move as in any round."""
        return [j for j in ring if j in book.friends][: self.k - len(tried)]

    def _compare(
        self, book: FriendBook, kin: Sequence[PeerId], strangers: Sequence[PeerId]
    ) -> Generator[Ask, Answers, FriendBook]:
        """Who is right on my examples more often, my friends together or strangers together?"""
        right = []
        for those in (kin, strangers):
            some = tuple(sorted(those))
            row = tuple(spread(some).items()) if some else ()
            found: Answers = (yield Ask(Agreement(row), some)) if some else {}
            right.append(next(iter(found.values()), math.nan))
        return book.compared_with(*right) if all(map(math.isfinite, right)) else book

    def _listen(self, view: View, book: FriendBook) -> Generator[Ask, Answers, FriendBook]:
        """The round after a comparison: who says that its group fails it?"""
        after = [1 + round(share * view.rounds) for share in TRIALS]
        if view.round not in after or not book.circled:
            return book
        known = [j for j in view.neighbours if j in book.alike][:MOST_SEEN]
        said: Answers = (yield Ask(Said(), tuple(known))) if known else {}
        need = {j: says.get(NEED, 0.0) > 0 for j, says in said.items()}
        return book.heard(view.me, need | {view.me: book.in_need})

    def _vet(
        self, view: View, book: FriendBook, taken: list[PeerId]
    ) -> Generator[Ask, Answers, FriendBook]:
        """Try a few models one by one: those that I have not tried for longest."""
        oldest = sorted(taken, key=lambda j: (book.vetted.get(j, -1), taken.index(j)))
        some = tuple(sorted(oldest[:VETTED]))
        found: Answers = (yield Ask(Skill(), some)) if some else {}
        now = {j: skill for j, skill in found.items() if math.isfinite(skill)}
        return book.measured(now, view.round, trained=view.round >= TRIALS[1] * view.rounds)

    # -- in words ----------------------------------------------------------------------------------

    def explain(self, notes: Mapping[str, float]) -> str:
        """What a round's notes say, for people."""
        return explained(notes)

    def sum_up(self, notes: Sequence[Mapping[str, float]]) -> str:
        """How many peers take whom."""
        return summed_up(notes)


def _settled(view: View, book: FriendBook, ring: Sequence[PeerId]) -> bool:
    """Whether I live among strangers and the run is near its end."""
    strange = book.company(ring) == "everyone" and not book.undivided
    return strange and view.round >= SETTLED * view.rounds


def _ring(view: View) -> list[PeerId]:
    """All neighbours, from the next one after me on, in the order of a lot that is the same for
    everyone, whoever it reaches."""
    lot = int(view.common_rng.integers(2**62))
    place = {j: rng(lot, "ring", j).random() for j in (view.me, *view.neighbours)}
    mine = place[view.me]
    return sorted(view.neighbours, key=lambda j: ((place[j] - mine) % 1.0, j))
