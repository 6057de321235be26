"""Carries one peer's asks within a round of the simulator, and books what they move.

An ask is answered in three steps, so that the asks of all peers can be computed together: `open`
says who answers and books the transfer, the engine has done what is `wanting`, and `read` turns it
into answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from amity.core import START, Answers, Ask, Card, Memory, PeerId, Reference, Share, Strategy
from amity.facts import (
    REPLY_BYTES,
    Fact,
    Labels,
    Ledger,
    Losses,
    ModelFact,
    Offer,
    Similarity,
    transfer,
)
from amity.geometry import units
from amity.peer.attacks import Attack
from amity.topology import Network

ELSEWHERE = Share(torch.empty(0))
"""Stands for a published model: the desk sees who has it, never its vector."""


OWN_START = Offer(share=ELSEWHERE)


def is_central(strategy: Strategy) -> bool:
    """Whether a strategy stands for a server: everyone is its neighbour, and models move by way of
    it."""
    return isinstance(strategy, Reference) and strategy.ignores_graph


@dataclass
class Seat:
    """What the engine knows of one peer within a round: never its vectors, only what has been said
    of them."""

    name: PeerId
    examples: int
    labels: tuple[float, ...]
    memory: Memory = field(default_factory=dict)
    round: int = 0
    degree: int = 0
    card: Card | None = None
    ledger: Ledger = field(default_factory=Ledger)
    train_loss: float = float("nan")
    share_bytes: int = 0
    start_bytes: int = 0
    losses: Losses | None = None
    """Its own, before and after training, once somebody has asked."""
    known: dict[tuple[ModelFact, PeerId], Any] = field(default_factory=dict)
    """What I have measured of others' models: nothing is computed twice in a round."""
    offers: dict[type[Fact], Offer] = field(default_factory=dict)
    attack: Attack | None = None
    """How I tamper with what I show, if I do."""
    last: torch.Tensor | None = None
    """The sketch of my card of the last round."""
    private: int = 0
    """Private steps or uploads since the run began."""
    raw: set[str] = field(default_factory=set)
    """Facts of this round that looked at raw data past any privacy."""

    def begin(self, round: int, degree: int) -> None:
        """A new round: nothing of the last one's answers is kept."""
        self.last = self.card.sketch if self.card is not None else None
        self.round, self.degree, self.card, self.losses = round, degree, None, None
        self.ledger, self.known, self.offers, self.raw = Ledger(), {}, {}, set()

    def offer_to(self, fact: Fact, asker: Seat) -> Offer:
        """What a fact moves from me to this asker, who may be lied to."""
        offer = self.offer(fact)
        return offer if self.attack is None or asker is self else self.tampered(offer, asker)

    def tampered(self, offer: Offer, asker: Seat) -> Offer:
        """An offer as an attacker shows it."""
        if self.attack is None:
            return offer
        if offer.losses is not None:
            offer = offer._replace(losses=self.attack.losses(offer.losses))
        if offer.card is not None:
            known = (
                asker.last
                if asker.last is not None and asker.last.shape == offer.card.sketch.shape
                else None
            )
            offer = offer._replace(
                card=replace(offer.card, sketch=self.attack.sketch(offer.card.sketch, known))
            )
        return offer

    def offer(self, fact: Fact) -> Offer:
        """What a fact moves from me: the same for everyone."""
        kind = type(fact)
        if kind not in self.offers or (self.losses is not None and "reply" in fact.moves):
            self.offers[kind] = Offer(
                self.examples,
                self.card if "card" in fact.moves else None,
                ELSEWHERE if "model" in fact.moves else None,
                self.losses if "reply" in fact.moves else None,
                self.labels if isinstance(fact, Labels) else (),
            )
        return self.offers[kind]

    def measured(self, fact: ModelFact, peers: Sequence[PeerId]) -> Answers:
        return {j: self.known[fact, j] for j in peers}

    def pay(self, forward: int, backward: int) -> None:
        self.ledger.forward += forward
        self.ledger.backward += backward


class Desk:
    """One peer's asks within a round: who answers, what moves, and what has arrived."""

    def __init__(
        self,
        me: Seat,
        near: tuple[PeerId, ...],
        seats: Mapping[PeerId, Seat],
        network: Network,
        strategy: Strategy,
    ) -> None:
        self.me, self.near, self.seats, self.network = me, frozenset(near), seats, network
        self.reference, self.central = isinstance(strategy, Reference), is_central(strategy)
        self.arrived: set[PeerId] = set()
        """Whose model is here and may stand in a row."""
        self.brought: dict[PeerId, Share] = {}
        """Models that came back from visits: these vectors exist nowhere else."""
        self._cards: set[PeerId] = set()
        self._sent: set[PeerId] = set()

    def open(self, ask: Ask) -> list[PeerId]:
        """Who answers, in order; what is lost on the way is booked."""
        if not (isinstance(ask, Ask) and isinstance(ask.fact, Fact)):
            raise TypeError(f"a plan must yield Ask(fact, peers), got {ask!r}")
        fact, me = ask.fact, self.me
        if fact.reference and not self.reference:
            raise TypeError(
                f"{type(fact).__name__}() is for references only; mix amity.core.Reference into the"
                " strategy"
            )
        if START in ask.peers and not isinstance(fact, ModelFact):
            raise TypeError(
                f"{type(fact).__name__}() cannot be asked of START; facts that measure models can"
            )
        mine = (me.name, START)
        if self.network.drop == 0:
            return sorted(j for j in set(ask.peers) if j in self.near or j in mine)
        here = []
        for j in sorted(set(ask.peers)):
            # measured here: nothing is sent that could be lost
            arrived = isinstance(fact, ModelFact) and j in self.arrived
            if (
                j in mine
                or arrived
                or (
                    j in self.near
                    and self.network.delivered(me.round, me.name, j, type(fact).__name__)
                )
            ):
                here.append(j)
            elif j in self.near:
                self._lose(fact, self.seats[j])
        return here

    def _lose(self, fact: Fact, other: Seat) -> None:
        """A lost answer costs its sender (and a lost model its owner) what it would have cost."""
        nowhere = Ledger()
        if fact.sends:
            transfer("model", self.me.start_bytes, self.me.ledger, nowhere)
        elif "model" in fact.moves and other.name not in self.arrived:
            transfer("model", other.share_bytes, other.ledger, nowhere)
        elif "card" in fact.moves and other.card is not None and other.name not in self._cards:
            transfer("card", other.card.nbytes, other.ledger, nowhere)

    def read(
        self,
        fact: Fact,
        here: list[PeerId],
        hosted: Mapping[PeerId, Offer],
        gallery: Gallery | None,
    ) -> Answers:
        """The answers; `hosted` are the offers of those who computed on my model."""
        if fact.sends:
            offers = {j: hosted[j] for j in here}
            self._send(here, offers)
        else:
            offers = {
                j: OWN_START if j == START else self.seats[j].offer_to(fact, self.me) for j in here
            }
        if fact.moves:
            for j in here:
                if j not in (self.me.name, START):
                    self._book(offers[j], self.seats[j], fresh=fact.sends)
        honest = not any(self.seats[j].attack for j in here if j != START)
        if gallery is not None and fact == Similarity() and self.me.card is not None and honest:
            return gallery.cosines(self.me.name, [j for j in here if offers[j].card is not None])
        return fact.read(self.me, offers)

    def _send(self, here: list[PeerId], offers: Mapping[PeerId, Offer]) -> None:
        """My model goes to those who compute on it, once; what comes back made for me exists
        nowhere else."""
        me = self.me
        for j in here:
            if j != me.name and j not in self._sent:
                transfer("model", me.start_bytes, me.ledger, self.seats[j].ledger)
                self._sent.add(j)
        self.brought |= {
            j: share for j in here if j != me.name and (share := offers[j].share) is not None
        }

    def _book(self, offer: Offer, other: Seat, fresh: bool) -> None:
        j, books = other.name, (other.ledger, self.me.ledger)
        if offer.card is not None and (fresh or j not in self._cards):
            transfer("card", offer.card.nbytes, *books)
            self._cards |= {j} if not fresh else set()
        if offer.losses is not None:
            transfer("reply", REPLY_BYTES, *books)
        if offer.share is not None and (fresh or j not in self.arrived):
            if not self.central:
                transfer("model", offer.share.nbytes if fresh else other.share_bytes, *books)
            self.arrived.add(j)


class Gallery:
    """All cards of a round: the cosines of any two, from one product where most pairs are asked
    for.

    Products are taken in double precision and rounded once, so that a cosine has the same bits
    however many are computed together.
    """

    def __init__(self, seats: Mapping[PeerId, Seat], pairs: int) -> None:
        names = [name for name in sorted(seats) if seats[name].card is not None]
        self._row = {name: i for i, name in enumerate(names)}
        cards = [card.sketch for name in names if (card := seats[name].card) is not None]
        self._unit = units(torch.stack(cards)) if cards else torch.empty(0, 0)
        self._all = self._unit @ self._unit.T if 4 * pairs >= len(names) ** 2 else None

    def cosines(self, me: PeerId, others: list[PeerId]) -> dict[PeerId, float]:
        at = torch.tensor([self._row[j] for j in others], dtype=torch.long)
        mine = self._row[me]
        row = self._unit[at] @ self._unit[mine] if self._all is None else self._all[mine, at]
        return dict(zip(others, row.float().clamp(-1, 1).tolist(), strict=True))
