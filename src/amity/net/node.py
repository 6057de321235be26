"""One peer on a real network, without a server. It does all rounds that are left, with a checkpoint
after each.

Three things are new, compared with the simulator: waiting (`waiting.py`), who is a member
(`membership.py`) and what may leave (`spending.py`). The round itself is in `rounds.py`.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from amity.core import Memory, PeerId
from amity.data import Dataset
from amity.errors import RunDirError
from amity.events import CellId, Event, Tell, Teller, nobody
from amity.net.accounts import Accounts
from amity.net.audit import Audit
from amity.net.link import transport_of
from amity.net.link.base import Transport
from amity.net.membership import Papers
from amity.net.online import Online
from amity.net.rounds import Rounds
from amity.net.setup import Setup
from amity.net.spending import Spending
from amity.net.workshop import Workshop
from amity.round.deciding import carried
from amity.store import RunDir, note_command


class Node:
    """One peer. `run` does all rounds; it may be killed at any moment and started again."""

    def __init__(
        self,
        setup: Setup,
        *,
        transport: Transport | None = None,
        dataset: Dataset | None = None,
        listen_in: Callable[[Audit], None] | None = None,
        tell: Tell = nobody,
    ) -> None:
        """`transport`: by default the one that `net.link` names. `tell` is called with every event;
        for a round, once it is on disk."""
        torch.set_num_threads(1)
        self._setup, self._listen_in, self._listeners = setup, listen_in, [tell]
        self._transport = transport or transport_of(setup.net.link)
        self._papers = Papers.load(setup)
        self.workshop = Workshop.of(setup, dataset)
        self.stop = threading.Event()
        self.next_round = 0
        self.memory: Memory = {}
        config = self.workshop.config
        cell = CellId(label=self.me, seed=config.seed, path=str(setup.state))
        self._teller = Teller(cell, self._told, config=config.to_dict(), rounds=config.rounds)

    def _told(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)

    @property
    def me(self) -> PeerId:
        return self.workshop.me

    # -- a life ------------------------------------------------------------------------------------

    def run(self) -> None:
        """All rounds that are left."""
        # of this thread: it may be another than the one that made the node
        torch.set_num_threads(1)
        config = self.workshop.config
        with self._teller, self._directory() as directory:
            if self.workshop.meaning is not None:
                directory.same_data(self.workshop.meaning)
            note_command(directory.path)
            if directory.recover(self) >= config.rounds:
                self._teller.started(config.rounds)
                return  # all is done, and those who needed it have gone
            online = self._online(self._setup)
            self._listeners.append(online.audit.meters.take)
            self._teller.started(self.next_round)
            try:
                online.start(self.next_round, self._listen_in)
                self._live(online, directory)
                done = self.next_round >= config.rounds
                online.status.state("done" if done else "stopped")
            except Exception as error:
                why = type(error).__name__
                online.audit("error", why=why, message=str(error)[:500], ended=True)
                online.status.state("failed", str(error)[:500])
                raise
            except BaseException:
                online.status.state("stopped", "by a signal")
                raise
            finally:
                online.close(self.next_round)

    def _directory(self) -> RunDir:
        return RunDir.create(self._setup.state, self.workshop.config, "peer", extend=True)

    def _online(self, setup: Setup) -> Online:
        shop, accounts = self.workshop, Accounts(setup.state / "disclosed.jsonl")
        return Online(
            setup=setup,
            workshop=shop,
            papers=self._papers,
            transport=self._transport,
            audit=Audit(setup.state / "audit.jsonl", shop.me, self._teller.happened),
            spending=Spending(accounts=accounts, budget=shop.budget, config=shop.config),
            stop=self.stop,
        )

    def _live(self, online: Online, directory: RunDir) -> None:
        rounds = Rounds(workshop=self.workshop, online=online)
        online.waiting.gather(self.next_round)
        while self.next_round < self.workshop.config.rounds and not self.stop.is_set():
            online.waiting.company(self.next_round)
            if self.stop.is_set():
                break
            now = online.waiting.catch_up(self.next_round)
            self._teller.progress(now.round, 0.0)
            memory = carried(self.workshop.config, self.memory, self.next_round - 1, now.round)
            done = rounds.play(now, memory)
            self.memory, self.next_round = done.memory, now.round + 1
            directory.append(done.report)
            directory.keep_best(done.report, self)
            directory.checkpoint(self)
            online.audit.flush()
            online.seen.keep(online.board.floors())
            online.status.note(round=self.next_round)
            self._teller.round(done.report)
            if online.showing is not None:
                online.showing.done(done.report)
        if not self.stop.is_set():
            rounds.finish()
            online.waiting.refuse_solitude()

    @contextmanager
    def connected(self) -> Iterator[Online]:
        """The network without any rounds, to look around. Logs go to a folder that is deleted."""
        with tempfile.TemporaryDirectory() as scratch:
            who = replace(self._setup.who, state=scratch, metrics=0)
            online = self._online(replace(self._setup, who=who))
            try:
                online.start(self.next_round)
                yield online
            finally:
                online.close(self.next_round)

    # -- checkpoints -------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[PeerId, ...]:
        return (self.me,)

    def snapshots(
        self, names: Collection[PeerId] | None = None
    ) -> Iterator[tuple[PeerId, dict[str, torch.Tensor]]]:
        if names is None or self.me in names:
            yield self.me, dict(self.workshop.peer.snapshot())

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
            raise RunDirError(f"{self._setup.state}: its checkpoint is not of {self.me}")
        self.workshop.peer.resume(round, found)
        self.memory, self.next_round = memories[self.me], round
