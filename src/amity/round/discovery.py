"""Friends of friends: how a peer finds the most similar peers of a network that is too large to
know. Decisions only: ids, similarities and lots come in, ids come out.

Each peer keeps a *circle*: the `view` most similar peers that it has heard of, and `random` others.
In every round it exchanges cards with one member of its circle, drawn by lot. Each side hands out
the cards that are most like the other's, and a few of its random members:

    handed by j to i  =  the most similar to i of j's circle and j itself, and some random members
    view of i         =  the `view` most similar of its view and of all that it was handed
    random member s   =  the one with the smallest lot h(s, ·) of all that its random members
                         handed it as random

The first two lines are T-Man (Jelasity et al. 2009), which NN-Descent (Dong et al. 2011) uses for
graphs in memory. The third is the sampler of Brahms (Bortnikov et al. 2009): who is named more
often is not chosen more often: what counts is how many different names of liars a peer has heard.
Of its view it hears none, for liars can be similar to anybody, but nobody is at random by its own
doing. The lots are a secret of each peer. docs/DISCOVERY.md says how much that holds.

Nobody is told more than once a round: a peer starts one exchange, and answers at most `answers`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from amity.core import PeerId
from amity.topology import Discover

HEAD_BYTES = 640
"""Of a card as it is passed on, beside its sketch: who, which round, key and signature."""
Alike = Mapping[PeerId, float]
"""How similar cards are to one peer's; of whom no card is here, nothing is known."""
Lot = Callable[[int, PeerId], int]
"""The lot of a peer for a place among my random members: the smallest wins."""


class Circle(NamedTuple):
    """Whom a peer knows."""

    view: tuple[PeerId, ...]
    """The most similar, best first."""
    random: tuple[PeerId, ...]
    """By place; one peer may have several."""

    @property
    def all(self) -> tuple[PeerId, ...]:
        """Everyone in it, sorted."""
        return tuple(sorted({*self.view, *self.random}))


class Handed(NamedTuple):
    """Whose cards were handed over."""

    giver: PeerId
    best: tuple[PeerId, ...]
    random: tuple[PeerId, ...]


def lot_of(secret: str) -> Lot:
    """Lots that nobody knows who does not know the secret."""

    def lot(place: int, name: PeerId) -> int:
        text = f"{secret} {place} {name}".encode()
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")

    return lot


def at_first(rule: Discover, known: Sequence[PeerId], lot: Lot) -> Circle:
    """The circle of one who has not exchanged anything yet: those whom it was told of."""
    places = range(rule.random if known else 0)
    random = tuple(min(known, key=lambda j: (lot(place, j), j)) for place in places)
    return Circle(tuple(known[: rule.view]), random)


def partner(circle: Circle, draw: float) -> PeerId | None:
    """With whom to exchange in this round; `draw` in [0, 1)."""
    known = (*circle.view, *circle.random)
    return known[int(draw * len(known))] if known else None


def let_in(rule: Discover, askers: Mapping[PeerId, float]) -> list[PeerId]:
    """Whose exchanges are answered, by their lots."""
    return sorted(askers, key=lambda j: (askers[j], j))[: rule.answers]


def hand_out(
    rule: Discover, me: PeerId, circle: Circle, taker: PeerId, alike: Alike, draw: float
) -> Handed:
    """Whose cards go to another; `alike` is how similar they are to *its* card."""
    known = {*circle.view, *circle.random, me} - {taker}
    best = sorted((j for j in known if j in alike), key=lambda j: (-alike[j], j))
    places = len(circle.random)
    start = int(draw * places)
    turn = [circle.random[(start + at) % places] for at in range(min(rule.passed, places))]
    return Handed(
        me,
        tuple(best[: rule.cards - rule.passed]),
        tuple(j for j in dict.fromkeys(turn) if j != taker and j in alike),
    )


def take_in(
    rule: Discover, me: PeerId, circle: Circle, handed: Sequence[Handed], alike: Alike, lot: Lot
) -> Circle:
    """My circle after this round's exchanges; `alike` is how similar all of them are to my card.
    Who showed no card in this round gives way to anybody who did. Names at random are believed from
    random members; from anybody only where a place is empty, and none of those said anything."""
    told = {j for one in handed for j in (*one.best, *one.random)} | {*circle.view}
    view = sorted(told - {me}, key=lambda j: (-alike.get(j, float("-inf")), j))
    trusted = {j for one in handed if one.giver in circle.random for j in one.random}
    anyone = {j for one in handed for j in (*one.random, one.giver)}
    random = []
    for place, now in enumerate(circle.random):
        found = ({now, *trusted} if now in alike else trusted or anyone) & alike.keys() - {me}
        random.append(min(found, key=lambda j: (lot(place, j), j)) if found else now)
    return Circle(tuple(view[: rule.view]), tuple(random))
