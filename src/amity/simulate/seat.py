"""What the engine knows of each peer within a round: never its vectors, only what was said of
them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from amity.core import Answers, Card, Memory, PeerId, Share
from amity.facts import Fact, Groups, Labels, Ledger, Losses, ModelFact, Offer, Said
from amity.geometry import as_cosines, units
from amity.peer.attacks import Attack
from amity.round.known import Known
from amity.round.saying import says_of
from amity.round.spending import Budget

ELSEWHERE = Share(torch.empty(0))
"""Stands for a published model: a desk sees who has it, never its vector."""


@dataclass(kw_only=True)
class Seat:
    """What the engine knows of one peer within a round: never its vectors, only what has been said
    of them."""

    name: PeerId
    examples: int
    labels: tuple[float, ...]
    group: int | None = None
    memory: Memory = field(default_factory=dict)
    round: int = 0
    degree: int = 0
    card: Card | None = None
    ledger: Ledger = field(default_factory=Ledger)
    train_loss: float = float("nan")
    diverged: bool = False
    share_bytes: int = 0
    start_bytes: int = 0
    losses: Losses | None = None
    """Its own, before and after training, once somebody has asked."""
    known: Known = field(default_factory=Known)
    """What I have measured of others' models: nothing is computed twice in a round."""
    offers: dict[type[Fact], Offer] = field(default_factory=dict)
    attack: Attack | None = None
    """How I tamper with what I show, if I do."""
    last: torch.Tensor | None = None
    """The sketch of my card of the last round."""
    seen: Sighting | None = None
    """For one who fakes cards, where they are looked at once: those that I have seen."""
    budget: Budget = field(default_factory=Budget)
    private: int = 0
    """Private steps or uploads since the run began."""
    raw: set[str] = field(default_factory=set)
    """Facts of this round that looked at raw data past any privacy."""

    def begin(self, round: int, degree: int) -> None:
        """A new round: the answers of the last one are forgotten."""
        self.last = self.card.sketch if self.card is not None else None
        self.round, self.degree, self.card, self.losses = round, degree, None, None
        self.ledger, self.known, self.offers, self.raw = Ledger(), Known(), {}, set()

    def offer_to(self, fact: Fact, asker: Seat) -> Offer:
        """What a fact moves from me to this asker. An attacker may lie to it."""
        offer = self.offer(fact)
        return offer if self.attack is None or asker is self else self.tampered(offer, asker)

    def tampered(self, offer: Offer, asker: Seat) -> Offer:
        """An offer as an attacker shows it."""
        if self.attack is None:
            return offer
        if offer.losses is not None:
            offer = offer._replace(losses=self.attack.losses(offer.losses))
        if offer.card is not None:
            mine = offer.card.sketch
            target = asker.last if self.seen is None else self.seen.most_like(asker.name)
            known = target if target is not None and target.shape == mine.shape else None
            offer = offer._replace(card=replace(offer.card, sketch=self.attack.sketch(mine, known)))
        return offer

    def offer(self, fact: Fact) -> Offer:
        """What a fact moves from me: the same for everyone."""
        kind, says = type(fact), isinstance(fact, Said)
        if kind not in self.offers or (self.losses is not None and "reply" in fact.moves):
            self.offers[kind] = Offer(
                self.examples,
                self.card if "card" in fact.moves else None,
                ELSEWHERE if "model" in fact.moves else None,
                self.losses if "reply" in fact.moves and not says else None,
                self.labels if isinstance(fact, Labels) else (),
                self.degree,
                says_of(self.memory) if says else None,
                self.group if isinstance(fact, Groups) else None,
            )
        return self.offers[kind]

    def measured(self, fact: ModelFact, peers: Sequence[PeerId]) -> Answers:
        return self.known.of(fact, peers)

    @property
    def allowed(self) -> int | None:
        """Private steps that the budget still has room for."""
        return self.budget.allowed(self.private)

    def pay(self, forward: int, backward: int) -> None:
        self.ledger.forward += forward
        self.ledger.backward += backward


class Gallery:
    """All cards of a round, and the cosine of any two. If most pairs are asked for, one product
    gives them all.

    Products are computed in double precision and rounded once. So a cosine has the same bits, no
    matter how many are computed together.
    """

    def __init__(self, seats: Mapping[PeerId, Seat], pairs: int) -> None:
        names = [name for name in sorted(seats) if seats[name].card is not None]
        self._row = {name: i for i, name in enumerate(names)}
        cards = [card.sketch for name in names if (card := seats[name].card) is not None]
        self._kind = cards[0].dtype if cards else torch.float32
        self._unit = units(torch.stack(cards)) if cards else torch.empty(0, 0)
        self._all = self._unit @ self._unit.T if 4 * pairs >= len(names) ** 2 else None

    def cosines(self, me: PeerId, others: list[PeerId]) -> dict[PeerId, float]:
        at = torch.tensor([self._row[j] for j in others], dtype=torch.long)
        mine = self._row[me]
        row = self._unit[at] @ self._unit[mine] if self._all is None else self._all[mine, at]
        return dict(zip(others, as_cosines(row, self._kind).tolist(), strict=True))


@dataclass(frozen=True)
class Sighting:
    """Cards that one who fakes its own has seen."""

    gallery: Gallery
    cards: Mapping[PeerId, torch.Tensor]

    def most_like(self, asker: PeerId) -> torch.Tensor | None:
        """Of all but the asker's own, the one that is most like it."""
        alike = self.gallery.cosines(asker, [j for j in self.cards if j != asker])
        return self.cards[max(alike, key=alike.__getitem__)] if alike else None


def let_fakers_look(seats: Mapping[PeerId, Seat], near: Mapping[PeerId, Sequence[PeerId]]) -> None:
    """Whoever fakes cards sees those of its honest neighbours before it shows its own."""
    fakers = [one for one in seats.values() if one.attack is not None and one.attack.fakes_cards]
    if not fakers:
        return
    gallery = Gallery(seats, len(seats) ** 2)
    for seat in fakers:
        honest = [seats[j] for j in near[seat.name] if seats[j].attack is None]
        cards = {other.name: other.card.sketch for other in honest if other.card is not None}
        seat.seen = Sighting(gallery, cards)
