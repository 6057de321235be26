"""Carries one peer's asks within a round over the network, and books what they move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, TypeVar

from amity.core import START, Answers, Ask, Card, PeerId, Row, Share
from amity.errors import StrategyError
from amity.facts import REPLY_BYTES, Fact, Ledger, Losses, ModelFact, Offer
from amity.net.audit import Audit
from amity.net.board import Notice
from amity.net.courier import Courier
from amity.net.link.zenoh import AskFailed, counted
from amity.net.wire import Refused
from amity.peer.mixing import check_row
from amity.peer.proxy import CardSpec
from amity.round.deciding import check_ask
from amity.round.shard import Shard

T = TypeVar("T")


class RemoteDesk:
    """One round's asks. `present` are the neighbours of this round with their cards."""

    def __init__(
        self,
        me: PeerId,
        round: int,
        shard: Shard,
        card: Card | None,
        spec: CardSpec | None,
        degree: int,
        present: dict[PeerId, Notice],
        courier: Courier,
        pool: ThreadPoolExecutor,
        audit: Audit,
    ) -> None:
        self._me, self._round, self._shard, self.card = me, round, shard, card
        self._spec, self._degree, self._present = spec, degree, present
        self._courier, self._pool, self._audit = courier, pool, audit
        self.ledger, self._books = Ledger(), Lock()
        self.arrived: set[PeerId] = set()
        self.missing: dict[PeerId, str] = {}
        self.invite: Callable[[PeerId], None] = lambda _peer: None
        self.allowed: Callable[[], int | None] = lambda: None
        self.spend: Callable[[int], None] = lambda _steps: None
        """Private steps that are left, and what to do about those that were taken (a peer may be
        its own guest)."""
        self._shares: dict[PeerId, Share] = {}
        self._examples: dict[PeerId, int] = {}
        self._brought: dict[PeerId, Share] = {}
        self._cards: dict[PeerId, Card] = {}
        self._known: dict[tuple[ModelFact, PeerId], Any] = {}
        self.raw: set[str] = set()
        """Facts that looked at raw data past any privacy."""
        self._own: Losses | None = None

    def answer(self, ask: Ask) -> Answers:
        """What came back; who did not answer in time is missing, and the log says why."""
        fact, me = check_ask(ask, reference=False), self._me
        others = sorted(j for j in set(ask.peers) if j in self._present and j != me)
        offers = self._all(others, lambda j: self._offer(j, fact), type(fact).__name__)
        if me in ask.peers:
            offers[me] = self._mine(fact)
        if START in ask.peers:
            offers[START] = Offer(share=self._shard.peers[me].share_start)
        if fact.raw and offers:
            self.raw.add(fact.name_of(self._spec))
        return fact.read(self, {j: offers[j] for j in sorted(offers)})

    def _all(self, peers: list[PeerId], work: Callable[[PeerId], T], what: str) -> dict[PeerId, T]:
        """Ask all at once; what fails is missing."""
        futures = {j: self._pool.submit(work, j) for j in peers}
        found: dict[PeerId, T] = {}
        for j, future in futures.items():
            try:
                found[j] = future.result()
            except AskFailed as failed:
                self._audit(
                    "missing",
                    j,
                    counted(failed.reason),
                    round=self._round,
                    ask=what,
                    detail=failed.reason[:100],
                )
                self.missing[j] = failed.reason
            except Refused as refused:
                self._audit.refuse(j, refused.reason, str(refused), round=self._round, ask=what)
                self.missing[j] = refused.reason
        return found

    def _offer(self, j: PeerId, fact: Fact) -> Offer:
        """Everything that a fact moves from one neighbour. Runs in a thread of the pool, one a
        neighbour."""
        if fact.sends:
            return self._visit(j, fact)
        offer = Offer(self._present[j].data.examples)
        if "model" in fact.moves and j in self._brought:
            offer = offer._replace(share=self._brought[j])
        elif "model" in fact.moves:
            self._pull(j)
            offer = offer._replace(share=self._shares[j], examples=self._examples[j])
        if "card" in fact.moves:
            offer = offer._replace(card=self._card_of(j))
        if "reply" in fact.moves:
            offer = offer._replace(losses=self._courier.losses(j, self._present[j].round))
            self._book(reply_in=REPLY_BYTES)
        return offer

    def _book(self, **sizes: int) -> None:
        with self._books:
            for column, size in sizes.items():
                setattr(self.ledger, column, getattr(self.ledger, column) + size)

    def _pull(self, j: PeerId) -> None:
        if j not in self._shares:
            try:
                found = self._courier.model(j, "share", self._present[j].round)
            except AskFailed as failed:
                if self._courier.in_step or counted(failed.reason) != "not here":
                    raise
                # at its own pace it has gone on: take its newest
                self._present[j] = self._courier.card(j)
                found = self._courier.model(j, "share", self._present[j].round)
            self._shares[j], self._examples[j] = found
            self._book(model_in=self._shares[j].nbytes)
            self.arrived.add(j)

    def _card_of(self, j: PeerId) -> Card:
        if j not in self._cards:
            self._cards[j] = self._courier.card_of(j, self._present[j])
            self._book(card_in=self._cards[j].nbytes)
        return self._cards[j]

    def _visit(self, j: PeerId, fact: Fact) -> Offer:
        self.invite(j)
        offer = self._courier.visit(j, type(fact).__name__, self._round)
        sent = self._shard.peers[self._me].share_start.nbytes
        self._book(
            model_out=sent, card_in=offer.card.nbytes if offer.card else 0, reply_in=REPLY_BYTES
        )
        if offer.share is not None:
            self._brought[j] = offer.share
            self._book(model_in=offer.share.nbytes)
            self.arrived.add(j)
        return offer

    # -- what concerns me alone --------------------------------------------------------------------

    def _mine(self, fact: Fact) -> Offer:
        peer = self._shard.peers[self._me]
        if fact.sends:
            hosted = self._shard.host(
                self._me, fact, self._me, self._spec, self._degree, self.allowed(), self._round
            )
            self.spend(hosted.private)
            self._pay(hosted.forward, hosted.backward)
            return hosted.offer
        if "reply" in fact.moves and self._own is None:
            answered = self._shard.own_losses(self._me, self._round)
            self._pay(answered.forward, answered.backward)
            self._own = Losses(*answered.values)
        return Offer(
            len(peer.data.train),
            self.card if "card" in fact.moves else None,
            peer.share if "model" in fact.moves else None,
            self._own if "reply" in fact.moves else None,
        )

    def _pay(self, forward: int, backward: int) -> None:
        self.ledger.forward += forward
        self.ledger.backward += backward

    def measured(self, fact: ModelFact, peers: Sequence[PeerId]) -> Answers:
        """What a fact says of models that are here; nothing is computed twice in a round."""
        missing = tuple(j for j in sorted(peers) if fact.together or (fact, j) not in self._known)
        if missing:
            self._shard.lent = self._shares
            answered = self._shard.measure(self._me, fact, missing, self._round, self._brought)
            self._pay(answered.forward, answered.backward)
            self._known |= {
                (fact, j): value for j, value in zip(missing, answered.values, strict=True)
            }
        return {j: self._known[fact, j] for j in peers}

    def mixed(self, row: Row) -> Share:
        """The mixture that a row asks for."""
        check_row(row, self._me, self.arrived)
        peer = self._shard.peers[self._me]
        shares = self._shares | {self._me: peer.mine} | self._brought
        if START in row:
            peer.round = self._round
            shares[START] = peer.share_start
        if any(j not in shares for j in row):
            raise StrategyError(f"row of {self._me}: a model that it stands on is not here")
        return self._shard.world.mixer.mix(row, {j: shares[j] for j in row})
