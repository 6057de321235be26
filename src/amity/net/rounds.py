"""One round of a real peer: train -> card and share -> decide -> mix.

The strategy, the method, the mixing and every number that is computed are those of the simulator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import torch

from amity.config import Config
from amity.core import START, Decision, Memory, PeerId, Row, drive, follow, taken_from
from amity.net.board import Notice
from amity.net.desk import RemoteDesk
from amity.net.moment import Blob, Moment, Phase, frozen
from amity.net.online import Online
from amity.net.waiting import Next
from amity.net.workshop import Workshop
from amity.records import PeerRecord, Report, RoundRecord, Scores
from amity.round.cards import Sketches
from amity.round.clock import Clock
from amity.round.deciding import blaming, plain, view_of
from amity.round.evidence import Evidence
from amity.round.recording import count_diverged, is_due, means, record_of
from amity.round.saying import says_of
from amity.round.shard import Trained


class Done(NamedTuple):
    """What came of a round: its report, and the strategy's notebook for the next."""

    report: Report
    memory: Memory


class Rounds:
    """All rounds of a peer, from its start to its stop."""

    def __init__(self, *, workshop: Workshop, online: Online) -> None:
        self._shop, self._online = workshop, online
        self._phase: Config | None = None
        self._sketches = Sketches(None)

    def play(self, now: Next, memory: Memory) -> Done:
        """One round, from its training to its record."""
        t, clock, online = now.round, Clock(), self._online
        near, searching = online.near(t), online.searching
        moment, trained = self._train(t, near, now.phase, says_of(memory))
        clock.lap("train")
        if searching is not None:
            searching.meet()
        present = online.waiting.cards(t, near)
        clock.lap("wait")
        desk = online.desk(moment, present)
        decision = desk.settled(self._decide(moment, present, desk, memory))
        if searching is not None:
            searching.begin(moment, present)
        clock.lap("select")
        self._shop.shard.absorb(self._shop.me, desk.mixed(decision), t)
        clock.lap("mix")
        turn = self._train_alone(t)
        if turn:
            clock.lap("alone")
        self._tell_use(t, decision.row, desk)
        if searching is not None:
            searching.end(t)
        report = self._report(t, decision, desk, trained, len(present), clock, turn)
        return Done(report, decision.memory)

    def finish(self) -> None:
        """All rounds are done: tell the others, and stay until they have what they need."""
        online, rounds = self._online, self._shop.config.rounds
        degree = len(online.near(rounds - 1))
        data = {"examples": self._shop.examples, "degree": degree, "phase": "done"}

        def farewell() -> Blob:
            return Blob(online.stamp.seal("card", rounds, data=data), b"")

        last = farewell()
        online.answers.say_farewell(last)
        online.line.show(last, again=farewell)
        if online.searching is not None:
            online.searching.finish()
        online.waiting.linger()

    # -- training, and what the others see of it ---------------------------------------------------

    def _train(
        self, t: int, near: tuple[PeerId, ...], phase: Phase, says: Mapping[str, float]
    ) -> tuple[Moment, Trained]:
        """Local training. After it the card is published, and peers that ask get what they need."""
        shop, online = self._shop, self._online
        if shop.config.at(t) is not self._phase:
            self._phase, self._sketches = shop.config.at(t), Sketches(shop.spec(t))
        wanted = self._sketches.wanted((shop.me,))
        trained = online.spending.own(
            t, lambda allowed: shop.shard.train((shop.me,), t, wanted, (allowed,))[0]
        )
        card = self._sketches.card(
            trained.sketch, peer=shop.me, round=t, examples=shop.examples, degree=len(near)
        )
        moment = online.moment(frozen(shop.peer, shop.hosting, t), card, len(near), phase, says)
        blob = moment.announcement()
        if card is not None and phase == "ready":
            online.spending.disclose("card", t)
        online.answers.offer(moment)
        self._show(moment, blob)
        return moment, trained

    def _show(self, moment: Moment, card: Blob) -> None:
        here = self._online.reached(moment.round)
        if self._online.line.show(card, again=moment.announcement):
            self._online.tally.sent("card", len(card.carried) * len(here))

    def _train_alone(self, t: int) -> bool:
        """Train my shadow, where there is one and it is its turn: in its first round, and every so
        many rounds. Returns whether it was."""
        shop, shadow = self._shop, self._shop.peer.shadow
        if shadow is None:
            return False
        new = torch.equal(shadow.start, shadow.world.initial)
        if not new and t % shop.config.eval.shadow:
            return False
        for trained in shop.shard.train_alone((shop.me,), t):
            self._online.tally.pay(trained.forward, trained.backward)
        return True

    # -- deciding ----------------------------------------------------------------------------------

    def _decide(
        self,
        moment: Moment,
        present: Mapping[PeerId, Notice],
        desk: RemoteDesk,
        memory: Memory,
    ) -> Decision:
        """The strategy's decision; the network carries its asks."""
        shop, config = self._shop, self._shop.config.at(moment.round)
        view = view_of(
            config,
            me=shop.me,
            round=moment.round,
            neighbours=tuple(present),
            examples=shop.examples,
            card=moment.card,
            memory=memory,
        )
        with blaming(config, view):
            evidence = Evidence(shop.me, len(present))
            decision = plain(
                drive(
                    config.decider.decide(view, {shop.me: 1.0}),
                    lambda ask: evidence.heard(ask.fact, desk.answer(ask)),
                )
            )
            decision = replace(decision, why=evidence.why(decision))
        if moment.phase == "joining":
            row = _of_friends(decision.row, shop.me)
            head = None if decision.head is None else follow(decision.head, decision.row, row)
            decision = replace(decision, row=row, head=head)
        return decision

    def _tell_use(self, t: int, row: Row, desk: RemoteDesk) -> None:
        for j, weight in sorted(taken_from(row, self._shop.me).items()):
            self._online.audit("used", j, round=t, weight=weight, of_round=desk.round_of(j))

    # -- the record --------------------------------------------------------------------------------

    def _report(
        self,
        t: int,
        decision: Decision,
        desk: RemoteDesk,
        trained: Trained,
        available: int,
        clock: Clock,
        turn: bool,
    ) -> Report:
        """The same record as the simulator's, of this peer alone."""
        shop, online = self._shop, self._online
        online.tally.pay(trained.forward, trained.backward)
        ledger = online.tally.take()
        due = is_due(t, shop.config.horizon(t), shop.config.eval.every)
        scores = shop.shard.evaluate((shop.me,), t)[0] if due else Scores()
        (alone,) = shop.shard.settle_alone((shop.me,), t, turn, due)
        record = record_of(
            peer=shop.me,
            round=t,
            available=available,
            decision=decision,
            train_loss=trained.loss,
            diverged=trained.diverged,
            ledger=ledger,
            scores=scores.beside(alone),
            missing=len(desk.missing),
            excluded=online.spending.excluded(desk.raw),
            **online.spending.spent,
        )
        clock.lap("evaluate")
        return Report(
            round=t,
            peers={shop.me: record},
            rows={shop.me: decision.row},
            why={shop.me: decision.why} if decision.why else {},
            network=_of_network(record),
            seconds=clock.laps,
        )


def _of_network(record: PeerRecord) -> RoundRecord:
    """The whole network, as far as this peer knows it: itself."""
    return RoundRecord(
        round=record.round,
        taken=float(record.taken),
        **means([record]),
        diverged=count_diverged([record]),
        epsilon=record.epsilon,
        excluded=record.excluded,
    )


def _of_friends(row: Row, me: PeerId) -> dict[PeerId, float]:
    """A newcomer's row: only its friends' models, as its own has learnt nothing yet; itself if
    nobody came."""
    friends = {j: weight for j, weight in row.items() if j not in (me, START)}
    total = sum(friends[j] for j in sorted(friends))
    return {j: friends[j] / total for j in sorted(friends)} if total > 0 else dict(row)
