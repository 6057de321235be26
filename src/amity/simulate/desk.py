"""Carries one peer's asks within a round of the simulator, and books what they move.

An ask is answered in three steps, so that the asks of all peers can be computed together: `open`
says who answers and books what is lost on the way, the engine computes what is not known yet, and
`read` turns it into answers and books what moved.
"""

from __future__ import annotations

from collections.abc import Mapping

from amity.core import START, Answers, Ask, PeerId, Reference, Share, Strategy
from amity.facts import REPLY_BYTES, Fact, Ledger, ModelFact, Offer, Similarity, transfer
from amity.round.deciding import check_ask
from amity.round.saying import encode_says
from amity.simulate.seat import ELSEWHERE, Gallery, Seat
from amity.topology import Network

OWN_START = Offer(share=ELSEWHERE)


def is_central(strategy: Strategy) -> bool:
    """Whether a strategy stands for a server: everyone is a neighbour, and all models move through
    it."""
    return isinstance(strategy, Reference) and strategy.ignores_graph


class LocalDesk:
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
        fact, me = check_ask(ask, reference=self.reference), self.me
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
        """A lost answer costs its sender as much as one that arrives; the same for a lost model and
        its owner."""
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
        """The answers. `hosted` are the offers of the peers that computed on my model."""
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
        """My model goes once to each peer that computes on it. What comes back was made for me, and
        exists nowhere else."""
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
        if offer.says is not None:
            transfer("reply", len(encode_says(offer.says)), *books)
        if offer.share is not None and (fresh or j not in self.arrived):
            if not self.central:
                transfer("model", offer.share.nbytes if fresh else other.share_bytes, *books)
            self.arrived.add(j)
