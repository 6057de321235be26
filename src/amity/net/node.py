"""One peer on a real network: train -> card and share -> decide -> mix -> checkpoint, beside the
others, with no server.

The strategy, the method, the mixing and every number that is computed are those of the simulator.
What is new here is waiting: for the cards of a round at most a deadline, for an answer at most a
patience. Who is late is missing in that round, and the log says so.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch

from amity.core import START, Decision, PeerId, drive, taken_from
from amity.data import Dataset
from amity.errors import AmityError, ConfigError, IdentityError, RunDirError
from amity.events import CellId, Event, Tell, Teller, nobody
from amity.net.accounts import Accounts, disclosed_facts
from amity.net.audit import Audit
from amity.net.board import Board, Notice
from amity.net.courier import Courier
from amity.net.desk import RemoteDesk
from amity.net.link.zenoh import AskFailed, Handlers, Link, ZenohLink
from amity.net.moment import Blob, Moment, frozen
from amity.net.service import Service
from amity.net.setup import Setup, data_of
from amity.net.trust.identity import Identity, expires
from amity.net.trust.roster import Roster
from amity.net.wire import Refused, Schema, Stamp, digest_of
from amity.peer.privacy import uncovered
from amity.records import Report, RoundRecord, Scores
from amity.round.build import load_data, make_learner, make_shard, settled
from amity.round.cards import Sketches
from amity.round.clock import Clock
from amity.round.deciding import blaming, plain, view_of
from amity.round.recording import is_due, record_of
from amity.round.shard import Trained
from amity.round.spending import Budget
from amity.store import RunDir
from amity.topology import Network

Connect = Callable[[Identity, Roster, Handlers], Link]
LOOK = 1.0
"""Seconds between looks for lost cards, and for a new roster or certificate."""
SOON = 14 * 86400.0
"""Seconds before the end of a certificate from which on the log warns."""
MEET = 1.5
"""Seconds for links to those who are under way already."""


class Node:
    """One peer. `run` does all rounds; it may be killed at any moment and started again."""

    def __init__(
        self,
        setup: Setup,
        connect: Connect | None = None,
        dataset: Dataset | None = None,
        listen_in: Callable[[Audit], object] | None = None,
        tell: Tell = nobody,
    ) -> None:
        torch.set_num_threads(1)
        self._listen_in = listen_in
        self.setup, self.net, self.me = setup, setup.net, setup.who.name
        self.identity = Identity.load(setup.identity, self.me)
        self._ends = expires(self.identity.cert_path)
        self.roster = member_of(Roster.load(setup.roster), self.identity, setup)
        self._connect = connect or (
            lambda i, r, h: ZenohLink(i, r, setup.who.listen, h, setup.net.lease)
        )
        dataset, data = data_of(setup, dataset or load_data(setup.config))
        dataset = replace(dataset, pixels=dataset.pixels.to(setup.config.device))
        self.config = settled(RunDir.check(setup.state, setup.config), dataset)
        self.decider, self.spec = self.config.decider, self.config.decider.card
        self.shard = make_shard(self.config, dataset, (self.me,), {self.me: data}, secret=True)
        self._budget = Budget.of(self.config, len(data.train))
        self.peer = self.shard.peers[self.me]
        self._hosting = replace(
            self.shard.world, learner=make_learner(self.config, dataset.shape, dataset.classes)
        )
        self.names = (self.me,)
        self.next_round = 0
        self.memory: Mapping[str, Any] = {}
        self.stop = threading.Event()
        self._computing, self._linking = threading.Lock(), threading.Lock()
        self._link: Link | None = None
        self._sketches = Sketches(self.spec)
        self._waiting: frozenset[PeerId] = frozenset()
        """Whose cards this round is waiting for."""
        self._slow: Counter[PeerId] = Counter()
        """How many deadlines in a row a member has let pass."""
        self._looks: set[tuple[str, PeerId]] = set()
        self._looks_lock = threading.Lock()
        self._announce: Callable[[], Blob] | None = None
        """Makes the card that was published last, signed anew: whoever comes back shows it
        again."""
        self._meters: Any = None
        self._warned = float("-inf")
        self.schema = self._schema_of(dataset)
        self._graph = self._network(self.roster)
        self._listeners = [tell]
        cell = CellId(label=self.me, seed=self.config.seed, path=str(setup.state))
        self.teller = Teller(
            cell, self._told, config=self.config.to_dict(), rounds=self.config.rounds
        )

    def _told(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)

    def _schema_of(self, dataset: Dataset) -> Schema:
        world, layout = self.shard.world, self.shard.world.learner.layout
        bins = self.spec.sketch if self.spec else 0
        self.peer.trained.copy_(self.peer.start)
        card = len(self.peer.sketch(self.spec)) if self.spec else 0
        probe = len(world.sketcher(world.initial[layout.proxy], bins))
        masked = self.peer.rows.mask is not None
        common = {
            "classes": dataset.names or dataset.classes,
            "card": [self.spec.proxy, self.spec.sketch] if self.spec else None,
            "masked": masked,
            "seed": self.config.seed,
        }
        digest = digest_of({slot.name: slot.shape for slot in layout.slots}, common)
        return Schema(layout.size, masked, card, probe, digest, self.net.max_norm)

    def _network(self, roster: Roster) -> Network:
        """Who neighbours whom, among the members of a roster."""
        names = roster.names
        return Network(
            self.config.topology.instance,
            names,
            self.config.seed,
            self.config.topology.common.redraw,
        )

    # -- a life ------------------------------------------------------------------------------------

    def run(self) -> None:
        """All rounds that are left."""
        # of this thread: it may be another than the one that made the node
        torch.set_num_threads(1)
        directory = RunDir.create(self.setup.state, self.config)
        with self.teller, directory:
            if directory.recover(self) >= self.config.rounds:
                self.teller.started(self.config.rounds)
                return  # all is done, and those who needed it have gone
            self._open()
            self.teller.started(self.next_round)
            try:
                self._go_online()
                self._gather()
                while self.next_round < self.config.rounds and not self.stop.is_set():
                    self._catch_up()
                    report = self._round()
                    directory.append(report)
                    directory.checkpoint(self)
                    self.audit.flush()
                    self.teller.round(report)
                self._linger()
            except Exception as error:
                self.audit("error", why=type(error).__name__, message=str(error)[:500])
                raise
            finally:
                self._close()

    def _open(self) -> None:
        state = self.setup.state
        self.audit = Audit(state / "audit.jsonl", self.me, self.teller.happened)
        self._listeners.append(self.audit.meters.take)
        self.accounts = Accounts(state / "disclosed.jsonl")
        if self._listen_in is not None:
            self._listen_in(self.audit)
        self.audit(
            "start",
            round=self.next_round,
            network=self.roster.network,
            members=len(self.roster.names),
        )
        self.stamp = Stamp(self.identity, self.roster.network, self.schema.digest)
        self.board = Board(self.roster.names)
        self.courier = Courier(
            self.stamp, self.schema, self.net, self.audit, self.board, self.config.rounds
        )
        self.courier.link, self.courier.roster = self._current_link, self.roster
        self.service = Service(
            self.stamp,
            self.schema,
            self.net,
            self.audit,
            self.accounts,
            self.spec,
            lambda j, t: self._guest(j, t),
        )
        self.service.allowed = self._allowed
        self.service.rate = self._budget.rate
        self.service.admit(self.roster)
        self._asking = ThreadPoolExecutor(16, "asking")
        self._looking = ThreadPoolExecutor(16, "looking")

    def _go_online(self) -> None:
        port = self.setup.who.metrics
        try:
            self._meters = self.audit.meters.serve(port) if port else None
        except OSError as error:
            raise ConfigError(
                f"peer.metrics: port {port} cannot be used ({error.strerror}); choose another, or 0"
            ) from None
        self._files = self._stat()
        self._relink()
        threading.Thread(target=self._tend, name="tend", daemon=True).start()

    @contextmanager
    def connected(self) -> Iterator[None]:
        """The network without any rounds: to look around. Logs go to a folder that is thrown
        away."""
        with tempfile.TemporaryDirectory() as scratch:
            self.setup = replace(self.setup, who=replace(self.setup.who, state=scratch, metrics=0))
            self._open()
            try:
                self._go_online()
                yield
            finally:
                self._close()

    def _close(self) -> None:
        self.stop.set()
        with self._linking:
            if self._link is not None:
                self._link.close()
                self._link = None
        self.service.close()
        for pool in (self._asking, self._looking):
            pool.shutdown(wait=False, cancel_futures=True)
        if self._meters is not None:
            self._meters.shutdown()
        self.accounts.close()
        self.audit("stop", round=self.next_round)
        self.audit.close()

    # -- links, roster and certificate -------------------------------------------------------------

    def _current_link(self) -> Link:
        link = self._link
        if link is None:
            raise AskFailed("not connected")
        return link

    def _relink(self) -> None:
        """Open the link, or open it anew: for a moment this peer is away, all others stay as they
        are."""
        handlers = Handlers(self._on_card, self.service.on_ask, self._on_live, self._on_stranger)
        with self._linking:
            old, self._link = self._link, None
            if old is not None:
                old.close()
            self.board.reset(self.roster.names)
            if not self.stop.is_set():
                self._link = self._connect(self.identity, self.roster, handlers)
        if self._announce is not None:
            self._publish(self._announce())

    def _stat(self) -> dict[Path, tuple[int, int]]:
        return stamps(self.setup.roster, self.identity.cert_path, self.identity.ca_path)

    def _tend(self) -> None:
        """A new roster or certificate is taken up when its file changes; a wrong one is reported,
        and the old one stays."""
        told = ""
        while not self.stop.wait(LOOK):
            self._ping()
            self.audit.meters.certificate.set(self._validity())
            files = self._stat()
            try:
                if files != self._files:
                    self._renew()
                    self._files = files
                elif (
                    self._link is None
                ):  # the last attempt failed: an address that is away, a port that is taken
                    self._relink()
                told = ""
            except (
                Exception
            ) as error:  # an operator's mistake must not stop a running peer; it is tried again
                if str(error) != told:
                    self.audit("error", why="roster, certificate or network", message=str(error))
                told = str(error)

    def _validity(self) -> float:
        """Seconds until my certificate ends; a word in the log while it is soon, twice a day."""
        left = (self._ends - datetime.now(UTC)).total_seconds()
        if left < SOON and time.monotonic() - self._warned > SOON / 28:
            self._warned = time.monotonic()
            self.audit("certificate", self.me, "ends soon", seconds=round(left))
        return left

    def _ping(self) -> None:
        """Whoever is waited for and says nothing is asked whether it is there."""
        for j in self.roster.names:
            if (
                (self.courier.owing(j) or j in self._waiting)
                and self.board.alive(j)
                and self.board.quiet(j) > LOOK
            ):
                self._once("ping", j, partial(self.courier.ping, j, 1.5 * self.net.lease))

    def _once(self, what: str, j: PeerId, work: Callable[[], None]) -> Future[None] | None:
        """Do something about a member in another thread, unless the same is being done: whoever
        comes and goes a hundred times a second makes no more work than others."""
        key = (what, j)
        with self._looks_lock:
            if key in self._looks:
                return None
            self._looks.add(key)

        def done() -> None:
            try:
                work()
            finally:
                with self._looks_lock:
                    self._looks.discard(key)

        try:
            return self._looking.submit(done)
        except RuntimeError:  # closing, or out of threads
            with self._looks_lock:
                self._looks.discard(key)
            return None

    def _renew(self) -> None:
        identity = Identity.load(self.setup.identity, self.me)
        if identity.fingerprint != self.identity.fingerprint:
            raise IdentityError(
                f"{identity.key_path}: is another key than this peer started with; restart it"
            )
        roster = Roster.load(self.setup.roster)
        if roster.network != self.roster.network:
            raise IdentityError(
                f"{self.setup.roster}: is of another network ({roster.network}); restart the peer"
                " for that"
            )
        if self.me not in roster.members:
            self.stop.wait(LOOK)  # a file that was half written is whole by now
            if self.me not in Roster.load(self.setup.roster).members:
                self.audit("roster", self.me, "removed")
                self.stop.set()
            return
        member_of(roster, identity, self.setup)
        changed = sorted(set(roster.names) ^ set(self.roster.names))
        for name in changed:
            self.audit("roster", name, "added" if name in roster.members else "removed")
        if not changed:
            self.audit(
                *(
                    ("certificate", self.me, "renewed")
                    if roster == self.roster
                    else ("roster", self.me, "changed")
                )
            )
        self.identity, self.roster, self._ends = identity, roster, expires(identity.cert_path)
        self.courier.roster = roster
        self.service.admit(roster)
        try:
            self._graph = self._network(roster)
        except AmityError as error:  # the old graph, less those who left
            self.audit("error", why="topology", message=str(error))
        self._relink()

    # -- called by the link, from its threads ------------------------------------------------------

    def _on_card(self, sender: str, data: bytes) -> None:
        known = sender if sender in self.roster.members else ""
        try:
            self.service.allow_card(sender)
            self.courier.on_card(sender, data)
        except Refused as refused:
            self.audit.refuse(known, refused.reason, str(refused))

    def _on_live(self, name: str, here: bool) -> None:
        if name not in self.roster.members:
            return
        was = self.board.alive(name, grace=0)
        self.board.live(name, here)
        if here and not was:
            self.audit("joined", name)
            self._once("look", name, partial(self._look, name))
        elif was and not here:
            self.audit("left", name)

    def _on_stranger(self, name: str) -> None:
        self.audit("refused", "", "not on the roster", link=name[:63])

    def _look(self, name: PeerId, round: int = -1) -> None:
        """See a member's card that I may have missed."""
        try:
            self.courier.card(name, round)
        except AskFailed:
            return
        except Refused as refused:
            self.audit.refuse(name, refused.reason, str(refused))

    def _guest(self, visitor: PeerId, round: int) -> Any:
        return self.courier.model(visitor, "start", round)[0]

    # -- rounds ------------------------------------------------------------------------------------

    def _near(self, t: int) -> tuple[PeerId, ...]:
        near = self._graph.neighbours(t).get(self.me, ())
        return tuple(j for j in near if j in self.roster.members)

    def _gather(self) -> None:
        """Before the first round of all: give the others time to appear. Whoever comes later, or
        again, finds them on their way, and only waits until it has met them."""
        began, near = time.monotonic(), self._near(self.next_round)
        with self.board.changed:
            while not self.stop.is_set() and not all(self.board.alive(j) for j in near):
                waited, current = time.monotonic() - began, self.board.current(near)
                under_way = current > 0 or (current == 0 and self.next_round > 0)
                if waited > (MEET if under_way else self.net.gather):
                    break
                self.board.changed.wait(0.1)
        self._see([j for j in near if self.board.alive(j)], -1)

    def _catch_up(self) -> None:
        """Go on with the round that the others are in; skipped rounds are reported. A newcomer
        listens for one round. At its own pace nobody skips anything, but a newcomer begins where
        the others are."""
        t, current = self.next_round, self.board.current(self._near(self.next_round))
        ahead = min(current, self.config.rounds - 1) - t
        behind = ahead > (
            0 if self.net.sync == "round" else self.net.staleness if t == 0 else self.config.rounds
        )
        self.service.phase = "joining" if t == 0 and behind else "ready"
        if behind:
            self.audit("caught up", "", "joining" if t == 0 else "behind", was=t, now=t + ahead)
            self.next_round = t + ahead

    def _round(self) -> Report:
        t, clock = self.next_round, Clock()
        near = self._near(t)
        self.teller.progress(t, 0.0)
        moment, trained = self._train(t, len(near))
        clock.lap("train")
        present = self._await(t, near)
        clock.lap("wait")
        desk, decision = self._decide(t, moment, present, len(near))
        clock.lap("select")
        self.shard.absorb(self.me, desk.mixed(decision.row), t)
        self.memory, self.next_round = decision.memory, t + 1
        clock.lap("mix")
        self._tell_use(t, decision, present)
        return self._report(t, decision, desk, trained, len(present), clock)

    def _train(self, t: int, degree: int) -> tuple[Moment, Trained]:
        """Local training; then the card is out, and whoever asks finds what it needs."""
        with self.service.spending if self.config.privacy.instance.budget else nullcontext():
            wanted = self._sketches.wanted
            trained = self.shard.train((self.me,), t, wanted, (self._allowed(),))[0]
            self._spend(t, trained.private)
        examples = len(self.peer.data.train)
        card = self._sketches.card(
            trained.sketch, peer=self.me, round=t, examples=examples, degree=degree
        )
        moment = Moment(
            frozen(self.peer, self._hosting, t),
            self._computing,
            self.stamp,
            self.net.transfer,
            card,
        )
        self.service.degree = degree
        self._announce = partial(moment.announcement, degree, self.service.phase)
        blob = self._announce()
        if card is not None and self.service.phase == "ready":
            self.accounts.spend("card", t)
        self.service.offer(moment)
        self._publish(blob)
        return moment, trained

    def _allowed(self) -> int | None:
        """Private steps that the budget still has room for, over the whole life of this peer."""
        return self._budget.allowed(self.accounts.private)

    def _spend(self, t: int, steps: int) -> None:
        """Private steps are on the disk before anything that follows from them can leave."""
        if steps:
            self.accounts.spend("training", t, again=True, steps=steps, rate=self._budget.rate)

    def _excluded(self, desk: RemoteDesk) -> tuple[str, ...] | None:
        """What ε does not cover: what I asked, and what I answered."""
        if self._budget.account is None:
            return None
        mechanism, method = self.config.privacy.instance, self.config.method.instance
        asked = desk.raw | disclosed_facts(self.accounts.spent, self.spec)
        return tuple(uncovered(mechanism, method, asked))

    def _publish(self, blob: Blob) -> None:
        try:
            self._current_link().publish(blob.message)
        except AskFailed:
            return  # whoever sees me again asks for my card
        self.audit.meters.bytes.labels("out").inc(len(blob.message))

    def _await(self, t: int, near: tuple[PeerId, ...]) -> dict[PeerId, Notice]:
        """The cards of this round: of everyone who is here, but not for longer than the
        deadline."""
        if self.net.sync == "none":
            return self._newest(t, near)
        until, look = time.monotonic() + self.net.deadline, time.monotonic() + LOOK
        passed: list[PeerId] = []
        while not self.stop.is_set():
            with self.board.changed:
                waiting = [
                    j for j in near if self.board.notice(j, t) is None and self._awaited(j, t)
                ]
                passed = [j for j in waiting if self.board.newest(j) > t]
                self._waiting = frozenset(waiting)
                if not [j for j in waiting if j not in passed] or time.monotonic() >= until:
                    break
                self.board.changed.wait(0.1)
            look = self._nudge(waiting, look)
        self._waiting = frozenset()
        self._see(passed, t)
        cards = {j: notice for j in near if (notice := self.board.notice(j, t)) is not None}
        for j in near:
            here = self.board.alive(j)
            self._slow[j] = self._slow[j] + 1 if here and j not in cards else 0
            if j not in cards:
                self.audit(
                    "late", j, "no card before the deadline" if here else "not reachable", round=t
                )
        self.audit.meters.alive.set(sum(self.board.alive(j) for j in near))
        return {j: notice for j, notice in cards.items() if notice.data.phase == "ready"}

    def _awaited(self, j: PeerId, t: int) -> bool:
        """Whoever is here; but who has let two deadlines pass is given another only now and then,
        so that nobody makes every round last as long as it may."""
        return self.board.alive(j) and (self._slow[j] < 2 or t % 5 == 0)

    def _nudge(self, waiting: list[PeerId], due: float) -> float:
        """Now and then, look for the cards that are waited for: they may be lost. Returns when to
        look again."""
        if time.monotonic() < due:
            return due
        for j in waiting:
            self._once("look", j, partial(self._look, j))
        return due + LOOK

    def _see(self, peers: list[PeerId], t: int) -> None:
        """Ask for cards of a round (-1: the newest), and wait for them a little."""
        wait(
            [future for j in peers if (future := self._once("card", j, partial(self._look, j, t)))],
            self.net.lease + LOOK,
        )

    def _newest(self, t: int, near: tuple[PeerId, ...]) -> dict[PeerId, Notice]:
        """At its own pace: the newest card of everyone who is here, unless it is too old."""
        found = {}
        for j in near:
            notice = self.board.notice(j)
            if notice is None or notice.data.phase != "ready" or not self.board.alive(j):
                self.audit(
                    "late", j, "no card yet" if self.board.alive(j) else "not reachable", round=t
                )
            elif notice.round < t - self.net.staleness:
                self.audit("late", j, "stale", round=t, card=notice.round)
            else:
                found[j] = notice
        self.audit.meters.alive.set(sum(self.board.alive(j) for j in near))
        return found

    def _decide(
        self, t: int, moment: Moment, present: dict[PeerId, Notice], degree: int
    ) -> tuple[RemoteDesk, Decision]:
        """The strategy's own decision, with the network carrying its asks."""
        view = view_of(
            self.config,
            me=self.me,
            round=t,
            neighbours=tuple(present),
            examples=len(self.peer.data.train),
            card=moment.card,
            memory=self.memory,
        )
        desk = RemoteDesk(
            self.me,
            t,
            self.shard,
            moment.card,
            self.spec,
            degree,
            present,
            self.courier,
            self._asking,
            self.audit,
        )
        desk.invite = lambda j: self.service.invited.add((t, j))
        desk.allowed, desk.spend = self._allowed, partial(self._spend, t)
        with blaming(self.config, view):
            decision = plain(drive(self.decider.decide(view, {self.me: 1.0}), desk.answer))
        if self.service.phase == "joining":
            decision = replace(decision, row=_of_friends(decision.row, self.me))
        return desk, decision

    def _tell_use(self, t: int, decision: Decision, present: Mapping[PeerId, Notice]) -> None:
        for j, weight in sorted(taken_from(decision.row, self.me).items()):
            self.audit("used", j, round=t, weight=weight, of_round=present[j].round)

    def _report(
        self,
        t: int,
        decision: Decision,
        desk: RemoteDesk,
        trained: Trained,
        available: int,
        clock: Clock,
    ) -> Report:
        """The same record as the simulator's, of this peer alone."""
        ledger = desk.ledger.plus(self.service.take_ledger())
        ledger.forward += trained.forward
        ledger.backward += trained.backward
        due = is_due(t, self.config.rounds, self.config.eval.every)
        scores = self.shard.evaluate((self.me,), t)[0] if due else Scores()
        record = record_of(
            peer=self.me,
            round=t,
            available=available,
            decision=decision,
            train_loss=trained.loss,
            ledger=ledger,
            scores=scores,
            missing=len(desk.missing),
            excluded=self._excluded(desk),
            **self._budget.spent(self.accounts.private),
        )
        network = RoundRecord(
            round=t,
            taken=float(record.taken),
            accuracy=record.accuracy,
            epsilon=record.epsilon,
            excluded=record.excluded,
        )
        clock.lap("evaluate")
        rows = {self.me: decision.row}
        return Report(
            round=t, peers={self.me: record}, rows=rows, network=network, seconds=clock.laps
        )

    def _linger(self) -> None:
        """All rounds are done: say so, and stay until the others have what they need."""
        if self.stop.is_set():
            return
        rounds = self.config.rounds
        data = {
            "examples": len(self.peer.data.train),
            "degree": self.service.degree,
            "phase": "done",
        }
        self._announce = lambda: Blob(self.stamp.seal("card", rounds, data=data), b"")
        self.service.farewell = self._announce()
        self._publish(self.service.farewell)
        until, look = (
            time.monotonic() + self.net.deadline + self.net.patience,
            time.monotonic() + LOOK,
        )
        near = self._near(rounds - 1)
        while time.monotonic() < until and not self.stop.is_set():
            with self.board.changed:
                waiting = [j for j in near if self.board.alive(j) and self.board.newest(j) < rounds]
                if not waiting:
                    break
                self.board.changed.wait(0.2)
            look = self._nudge(waiting, look)

    # -- checkpoints -------------------------------------------------------------------------------

    def snapshots(self) -> Iterator[tuple[PeerId, dict[str, torch.Tensor]]]:
        yield self.me, dict(self.peer.snapshot())

    @property
    def memories(self) -> dict[PeerId, Any]:
        return {self.me: self.memory}

    def restore(
        self,
        round: int,
        tensors: Callable[[PeerId], dict[str, torch.Tensor]],
        memories: Mapping[str, Any],
    ) -> None:
        """Go on after the rounds before `round`."""
        found = tensors(self.me)
        if "start" not in found or self.me not in memories:
            raise RunDirError(f"{self.setup.state}: its checkpoint is not of {self.me}")
        self.peer.resume(round, found)
        self.memory, self.next_round = memories[self.me], round


def stamps(*paths: Path) -> dict[Path, tuple[int, int]]:
    """When files were changed last, to see that they were."""
    found = {}
    for path in paths:
        try:
            found[path] = (path.stat().st_mtime_ns, path.stat().st_size)
        except OSError:
            found[path] = (0, 0)
    return found


def member_of(roster: Roster, identity: Identity, setup: Setup) -> Roster:
    """The roster, if this peer is on it with this key."""
    if identity.name not in roster.members:
        raise IdentityError(
            f"{setup.roster}: {identity.name} is not on the roster; add it with fingerprint"
            f" {identity.fingerprint}"
        )
    if roster.members[identity.name].fingerprint != identity.fingerprint:
        raise IdentityError(
            f"{setup.roster}: lists another key for {identity.name}; the fingerprint of"
            f" {identity.key_path} is {identity.fingerprint}"
        )
    if not setup.who.listen and roster.relay is None:
        raise IdentityError(
            f"{setup.folder / 'peer.toml'}: peer.listen is empty and the roster has no relay; set"
            " one of them"
        )
    return roster


def _of_friends(row: Mapping[PeerId, float], me: PeerId) -> dict[PeerId, float]:
    """A newcomer's row: its friends' models alone, as its own knows nothing yet; itself if nobody
    came."""
    friends = {j: weight for j, weight in row.items() if j not in (me, START)}
    total = sum(friends[j] for j in sorted(friends))
    return {j: friends[j] / total for j in sorted(friends)} if total > 0 else dict(row)
