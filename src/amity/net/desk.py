"""Carries one peer's asks within a round over the network. What moves is booked where it moves
(`calls.py`, `courier.py`, `answers.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from amity.core import START, Answers, Ask, Card, Decision, PeerId, Share
from amity.errors import StrategyError
from amity.facts import Fact, Losses, ModelFact, Offer, Said
from amity.net.audit import Audit
from amity.net.board import Notice
from amity.net.courier import Courier
from amity.net.link.base import AskFailed, counted
from amity.net.moment import Moment
from amity.net.spending import Spending
from amity.net.tally import Tally
from amity.net.wire import Refused
from amity.peer.mixing import check_decision, standing_on
from amity.round.deciding import check_ask
from amity.round.known import Known
from amity.round.shard import Shard

T = TypeVar("T")


class RemoteDesk:
    """One round's asks. `present` are the neighbours of this round with their cards."""

    def __init__(
        self,
        *,
        me: PeerId,
        moment: Moment,
        present: Mapping[PeerId, Notice],
        shard: Shard,
        courier: Courier,
        invite: Callable[[PeerId, int], None],
        spending: Spending,
        tally: Tally,
        pool: ThreadPoolExecutor,
        audit: Audit,
    ) -> None:
        self._me, self._moment, self._round = me, moment, moment.round
        self._present, self._shard, self._courier = dict(present), shard, courier
        self._invite, self._spending, self._tally = invite, spending, tally
        self._pool, self._audit = pool, audit
        self.arrived: set[PeerId] = set()
        self.missing: dict[PeerId, str] = {}
        self.raw: set[str] = set()
        """Facts that looked at raw data past any privacy."""
        self._shares: dict[PeerId, Share] = {}
        self._examples: dict[PeerId, int] = {}
        self._brought: dict[PeerId, Share] = {}
        self._cards: dict[PeerId, Card] = {}
        self._known = Known()
        self._own: Losses | None = None

    @property
    def card(self) -> Card | None:
        """My own, of this round."""
        return self._moment.card

    def round_of(self, j: PeerId) -> int:
        """Of which round a neighbour's model is."""
        return self._present[j].round

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
            self.raw.add(fact.name_of(self._moment.spec))
        return fact.read(self, {j: offers[j] for j in sorted(offers)})

    def _all(self, peers: list[PeerId], work: Callable[[PeerId], T], what: str) -> dict[PeerId, T]:
        """Ask all at once; what fails is missing."""
        futures = {j: self._pool.submit(work, j) for j in peers}
        found: dict[PeerId, T] = {}
        for j, future in futures.items():
            try:
                found[j] = future.result()
            except AskFailed as failed:
                why, detail = counted(failed.reason), failed.reason[:100]
                self._audit("missing", j, why, round=self._round, ask=what, detail=detail)
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
        said = self._present[j].data
        offer = Offer(said.examples, degree=said.degree)
        if "model" in fact.moves and j in self._brought:
            offer = offer._replace(share=self._brought[j])
        elif "model" in fact.moves:
            self._pull(j)
            offer = offer._replace(share=self._shares[j], examples=self._examples[j])
        if "card" in fact.moves:
            offer = offer._replace(card=self._card_of(j))
        if isinstance(fact, Said):
            offer = offer._replace(says=self._courier.says(j, self._present[j].round))
        elif "reply" in fact.moves:
            offer = offer._replace(losses=self._courier.losses(j, self._present[j].round))
        return offer

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
            self.arrived.add(j)

    def _card_of(self, j: PeerId) -> Card:
        if j not in self._cards:
            self._cards[j] = self._courier.card_of(j, self._present[j])
        return self._cards[j]

    def _visit(self, j: PeerId, fact: Fact) -> Offer:
        self._invite(j, self._round)
        offer = self._courier.visit(j, type(fact).__name__, self._round)
        if offer.share is not None:
            self._brought[j] = offer.share
            self.arrived.add(j)
        return offer

    # -- what concerns me alone --------------------------------------------------------------------

    def _mine(self, fact: Fact) -> Offer:
        peer = self._shard.peers[self._me]
        if fact.sends:
            return self._my_own_guest(fact)
        if isinstance(fact, Said):
            return Offer(says=self._moment.says)
        if "reply" in fact.moves and self._own is None:
            answered = self._shard.own_losses(self._me, self._round)
            self._tally.pay(answered.forward, answered.backward)
            self._own = Losses(*answered.values)
        return Offer(
            len(peer.data.train),
            self.card if "card" in fact.moves else None,
            peer.share if "model" in fact.moves else None,
            self._own if "reply" in fact.moves else None,
            degree=self._moment.degree,
        )

    def _my_own_guest(self, fact: Fact) -> Offer:
        moment, t = self._moment, self._round
        hosted = self._spending.own(
            t,
            lambda allowed: self._shard.host(
                self._me, fact, self._me, moment.spec, moment.degree, allowed, t
            ),
        )
        self._tally.pay(hosted.forward, hosted.backward)
        return hosted.offer

    def measured(self, fact: ModelFact, peers: Sequence[PeerId]) -> Answers:
        """What a fact says of models that are here; nothing is computed twice in a round."""
        missing = self._known.missing(fact, sorted(peers))
        if missing:
            self._shard.lent = self._shares
            answered = self._shard.measure(self._me, fact, missing, self._round, self._brought)
            self._tally.pay(answered.forward, answered.backward)
            self._known.learn(fact, missing, answered.values)
        return self._known.of(fact, peers)

    def mixed(self, decision: Decision) -> Share:
        """The mixture that a decision asks for."""
        check_decision(decision, self._me, self.arrived, self._brought)
        names = standing_on(decision.row, decision.head)
        peer = self._shard.peers[self._me]
        shares = self._shares | {self._me: peer.mine} | self._brought
        if START in names:
            peer.round = self._round
            shares[START] = peer.share_start
        if any(j not in shares for j in names):
            raise StrategyError(f"row of {self._me}: a model that it stands on is not here")
        return self._shard.mix(decision.row, decision.head, shares)
