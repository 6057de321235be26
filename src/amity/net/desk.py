"""Carries one peer's asks within a round over the network. What moves is booked where it moves
(`calls.py`, `courier.py`, `answers.py`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from amity.core import START, Answers, Ask, Card, Decision, PeerId, Share
from amity.errors import StrategyError
from amity.facts import Fact, Losses, ModelFact, Offer, Said
from amity.net.asking import Asking, result_of
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
Model: TypeAlias = tuple[Share, int, Notice]
"""A model, how many examples stand behind it, and the card that it belongs to."""


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
        asking: Asking,
        audit: Audit,
    ) -> None:
        self._me, self._moment, self._round = me, moment, moment.round
        self._present, self._shard, self._courier = dict(present), shard, courier
        self._invite, self._spending, self._tally = invite, spending, tally
        self._asking, self._audit = asking, audit
        self._lock, self._over = threading.Lock(), set[PeerId]()
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
        self._take_belated(others, fact)
        here = [j for j in others if self._is_here(j, fact)]
        offers = {j: self._offer(j, fact) for j in here}
        far = [j for j in others if j not in offers]
        offers |= self._all(far, lambda j: self._offer(j, fact), type(fact).__name__)
        if me in ask.peers:
            offers[me] = self._mine(fact)
        if START in ask.peers:
            offers[START] = Offer(share=self._shard.peers[me].share_start)
        if fact.raw and offers:
            self.raw.add(fact.name_of(self._moment.spec))
        return fact.read(self, {j: offers[j] for j in sorted(offers)})

    def _take_belated(self, peers: Sequence[PeerId], fact: Fact) -> None:
        """What was asked in a round before, and came too late for it, is used in this one."""
        belated = self._asking.belated
        for j in peers:
            if "model" in fact.moves and not fact.sends and j not in self._shares:
                model: Model | None = belated.take("model", j)
                if model is not None and model[-1].round > belated.rounds.get(j, -1):
                    self._arrive(j, model)
            if "card" in fact.moves and not fact.sends and j not in self._cards:
                card: Card | None = belated.take("card", j)
                if card is not None:
                    self._cards[j] = card

    def _is_here(self, j: PeerId, fact: Fact) -> bool:
        """Whether all that a fact moves has come already."""
        if fact.sends or "reply" in fact.moves:
            return False
        model = "model" not in fact.moves or j in self._shares or j in self._brought
        return model and ("card" not in fact.moves or j in self._cards)

    def _all(self, peers: list[PeerId], work: Callable[[PeerId], T], what: str) -> dict[PeerId, T]:
        """Ask all at once; what fails is missing, and so is what takes too long."""
        futures = self._asking.all(what, peers, work)
        with self._lock:  # what comes later is not of this round
            self._over |= set(peers) - futures.keys()
        found: dict[PeerId, T] = {}
        for j in peers:
            try:
                found[j] = result_of(futures.get(j))
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
        if j in self._shares:
            return
        came = self._fetch(j)
        with self._lock:
            if j in self._over:
                self._asking.belated.keep("model", j, came)
                raise AskFailed("slow")
            self._arrive(j, came)

    def _arrive(self, j: PeerId, model: Model) -> None:
        self._shares[j], self._examples[j], self._present[j] = model
        self.arrived.add(j)
        rounds = self._asking.belated.rounds
        rounds[j] = max(rounds.get(j, -1), model[-1].round)

    def _fetch(self, j: PeerId) -> Model:
        """A neighbour's model, with the card that it belongs to."""
        notice = self._present[j]
        try:
            return *self._courier.model(j, "share", notice.round), notice
        except AskFailed as failed:
            late = notice.round != self._round  # it was, and has gone on since
            if (self._courier.in_step and not late) or counted(failed.reason) != "not here":
                raise
            notice = self._courier.card(j)
            if self._courier.in_step and notice.round <= self._asking.belated.rounds.get(j, -1):
                raise AskFailed("not here: nothing that is new") from None
            return *self._courier.model(j, "share", notice.round), notice

    def _card_of(self, j: PeerId) -> Card:
        if j in self._cards:
            return self._cards[j]
        came = self._courier.card_of(j, self._present[j])
        with self._lock:
            if j in self._over:
                self._asking.belated.keep("card", j, came)
                raise AskFailed("slow")
            self._cards[j] = came
        return came

    def _visit(self, j: PeerId, fact: Fact) -> Offer:
        self._invite(j, self._round)
        offer = self._courier.visit(j, type(fact).__name__, self._round)
        with self._lock:
            if offer.share is not None and j not in self._over:
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

    def settled(self, decision: Decision) -> Decision:
        """What came of a decision before it is mixed: here the same."""
        return decision

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
