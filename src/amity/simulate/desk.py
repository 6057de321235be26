"""Carries one peer's asks within a round of the simulator, and books what they move."""

from __future__ import annotations

from collections.abc import Mapping

from amity.core import Answers, Ask, PeerId, Reference, Share, Strategy
from amity.facts import REPLY_BYTES, Fact, Labels, Ledger, Offer, transfer
from amity.peer import Peer
from amity.topology import Network


def is_central(strategy: Strategy) -> bool:
    """Whether a strategy stands for a server: everyone is its neighbour, and models move by way of it."""
    return isinstance(strategy, Reference) and strategy.ignores_graph


class Desk:
    """Carries one peer's asks within a round: who answers, what moves, and what has arrived."""

    def __init__(
        self,
        me: Peer,
        near: tuple[PeerId, ...],
        peers: Mapping[PeerId, Peer],
        network: Network,
        strategy: Strategy,
    ) -> None:
        self.me, self.near, self.peers, self.network = me, frozenset(near), peers, network
        self.reference, self.central = isinstance(strategy, Reference), is_central(strategy)
        self.arrived: dict[PeerId, Share] = {}
        self._cards: set[PeerId] = set()
        self._sent: set[PeerId] = set()

    def answer(self, ask: Ask) -> Answers:
        me, network = self.me, self.network
        if not (isinstance(ask, Ask) and isinstance(ask.fact, Fact)):
            raise TypeError(f"a plan must yield Ask(fact, peers), got {ask!r}")
        fact = ask.fact
        if fact.reference and not self.reference:
            raise TypeError(f"{type(fact).__name__}() is for references only; mix amity.core.Reference into the strategy")
        offers: dict[PeerId, Offer] = {}
        for j in sorted(set(ask.peers)):
            if j == me.name or (j in self.near and network.delivered(me.round, me.name, j, type(fact).__name__)):
                offers[j] = self._fetch(fact, j)
            elif j in self.near:
                self._lose(fact, self.peers[j])
        return fact.read(me, offers)

    def _lose(self, fact: Fact, other: Peer) -> None:
        """A lost answer costs its sender (and a lost model its owner) what it would have cost."""
        nowhere = Ledger()
        if fact.sends:
            transfer("model", self.me.share_start.nbytes, self.me.ledger, nowhere)
        elif "model" in fact.moves and other.name not in self.arrived:
            transfer("model", other.share.nbytes, other.ledger, nowhere)
        elif "card" in fact.moves and other.card is not None and other.name not in self._cards:
            transfer("card", other.card.nbytes, other.ledger, nowhere)

    def _fetch(self, fact: Fact, j: PeerId) -> Offer:
        """Bring what the fact moves from j to me, and book it; what is here already does not move again."""
        me, other = self.me, self.peers[j]
        if fact.sends:
            guest = me.share_start
            offer = fact.serve(other, guest, me.name)
            if j != me.name and j not in self._sent:
                transfer("model", guest.nbytes, me.ledger, other.ledger)
                self._sent.add(j)
        else:
            offer = Offer(
                len(other.data.train),
                other.card if "card" in fact.moves else None,
                self.arrived.get(j, other.share) if "model" in fact.moves else None,
                other.losses if "reply" in fact.moves else None,
                other.data.labels if isinstance(fact, Labels) else (),
            )
        if j != me.name:
            self._book(offer, other, fresh=fact.sends)
        return offer

    def _book(self, offer: Offer, other: Peer, fresh: bool) -> None:
        j, books = other.name, (other.ledger, self.me.ledger)
        if offer.card is not None and (fresh or j not in self._cards):
            transfer("card", offer.card.nbytes, *books)
            self._cards |= {j} if not fresh else set()
        if offer.losses is not None:
            transfer("reply", REPLY_BYTES, *books)
        if offer.share is not None and (fresh or j not in self.arrived):
            if not self.central:
                transfer("model", offer.share.nbytes, *books)
            self.arrived[j] = offer.share
