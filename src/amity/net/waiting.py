"""Waiting for the others, and never for long: for members to appear, for the cards of a round (at
most until a deadline), and at the end for peers that still need me. A peer that is late is missing
in that round, and the log says so."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import wait
from functools import partial
from typing import NamedTuple

from amity.core import PeerId
from amity.errors import Failure
from amity.net.accord import Accord
from amity.net.asking import Belated
from amity.net.audit import Audit
from amity.net.board import Board, Notice
from amity.net.cards import Cards
from amity.net.courier import Courier
from amity.net.errands import Errands
from amity.net.link.base import AskFailed
from amity.net.membership import LOOK
from amity.net.moment import Phase
from amity.net.options import Net
from amity.net.searching import Searching
from amity.net.status import StatusFile
from amity.net.tally import Near
from amity.net.trust.roster import Roster
from amity.net.wire import Refused
from amity.patience import Purses

MEET = 1.5
"""Seconds to wait for links to peers that are running already."""


class Next(NamedTuple):
    """The round to go on with, and whether this peer takes part in it or listens."""

    round: int
    phase: Phase


class Waiting:
    """What this peer knows about who is present, and how long it waits for whom."""

    def __init__(
        self,
        *,
        me: PeerId,
        net: Net,
        rounds: int,
        board: Board,
        courier: Courier,
        errands: Errands,
        audit: Audit,
        accord: Accord,
        told: Collection[PeerId],
        status: StatusFile,
        alike: Callable[[int, int], bool],
        near: Near,
        searching: Searching | None,
        roster: Callable[[], Roster],
        purses: Purses,
        belated: Belated,
        greet: Callable[[PeerId], None],
        stop: threading.Event,
    ) -> None:
        """`greet` is called with a member that has come, before anything else is asked of it.
        `searching`: None where neighbours are given."""
        self._me, self._net, self._rounds = me, net, rounds
        self._near, self._roster, self._alike = near, roster, alike
        self._board, self._courier, self._errands, self._audit = board, courier, errands, audit
        self._stop, self._accord, self._told, self._status = stop, accord, told, status
        self._greet, self._searching = greet, searching
        self._cards = Cards(
            net=net,
            board=board,
            audit=audit,
            purses=purses,
            belated=belated,
            alike=alike,
            nudge=self._nudge,
            see=self._see,
            stop=stop,
        )

    # -- signs of life -----------------------------------------------------------------------------

    def on_live(self, name: PeerId, here: bool) -> None:
        """Called by the link: a member came, or went."""
        if name not in self._roster().members:
            return
        was = self._board.reachable(name, grace=0)
        if here and not was:
            self._board.doubt(name)
        self._board.live(name, here)
        if here and not was:
            self._audit("joined", name)
            self._meet(name)
        elif was and not here:
            self._audit("left", name)
            self._errands.once("still", name, partial(self._still_here, name))

    def _still_here(self, name: PeerId) -> None:
        """That a member has gone is told by the network, and not signed: who answers is here."""
        try:
            self._courier.hello(name, self._net.lease)
        except (AskFailed, Refused):
            return
        self._board.live(name, True)
        self._board.proved(name)

    def ping(self) -> None:
        """Peers that are waited for and silent are asked whether they are present."""
        for j in self._roster().names:
            wanted = self._courier.owing(j) or j in self._cards.awaited or self._board.unproven(j)
            if wanted and self._board.reachable(j) and self._board.quiet(j) > LOOK:
                work = partial(self._courier.ping, j, 1.5 * self._net.lease)
                self._errands.once("ping", j, work)
            elif not self._board.linked(j) and self._board.quiet(j) < 2 * LOOK:
                self._errands.once("still", j, partial(self._still_here, j))

    def _look(self, name: PeerId, round: int = -1) -> None:
        """See a member's card that I may have missed."""
        try:
            self._courier.card(name, round)
        except AskFailed:
            return
        except Refused as refused:
            self._audit.refuse(name, refused.reason, str(refused))

    def _meet(self, name: PeerId) -> None:
        """Find out whether a member can learn with me, and see its card if so."""

        def met() -> None:
            self._greet(name)
            self._accord.meet(name)
            if not self._accord.difference(name):
                self._look(name)

        self._errands.once("meet", name, met)

    def _look_for(self, name: PeerId) -> None:
        self._errands.once("look", name, partial(self._look, name))

    def _nudge(self, waiting: Sequence[PeerId], due: float) -> float:
        """Now and then, look for the cards that are waited for: they may be lost. Returns when to
        look again."""
        if time.monotonic() < due:
            return due
        for j in waiting:
            self._look_for(j)
        return due + LOOK

    def _see(self, peers: Sequence[PeerId], t: int) -> None:
        """Ask for cards of a round (-1: the newest), and wait for them a little."""
        looks = [self._errands.once("card", j, partial(self._look, j, t)) for j in peers]
        wait([look for look in looks if look is not None], self._net.lease + LOOK)

    # -- before a round ----------------------------------------------------------------------------

    def gather(self, t: int) -> None:
        """Before the very first round: give the others time to appear. A peer that comes later, or
        comes back, finds them running, and only waits until it has met them."""
        began, near, board, said = time.monotonic(), self._near(t), self._board, False
        with board.changed:
            while not self._stop.is_set() and not all(board.alive(j) for j in near):
                waited = time.monotonic() - began
                back = t > 0 and any(board.alive(j) and board.newest(j) >= 0 for j in near)
                under_way = back or board.current(near) > 0
                if waited > (MEET if under_way else self._net.gather):
                    break
                if waited > MEET and not said:
                    said = True
                    missing = [j for j in near if not board.alive(j)]
                    self._audit("waits", why="to begin", seconds=self._net.gather, of=missing)
                board.changed.wait(0.1)
        self._see([j for j in near if board.alive(j)], -1)

    def company(self, t: int) -> None:
        """Wait until as many neighbours are present as `net.least` asks for, so that nobody spends
        its rounds alone. Raises if all other members differ from me: they never will learn with
        me."""
        self._accord.enter(t)
        began, said = time.monotonic(), False
        while not self._stop.is_set():
            if self._searching is not None:
                self._searching.refill()
            near = self._near(t)
            for j in near:
                if self._board.reachable(j) and not self._accord.met(j):
                    self._meet(j)
            lacking = self._lacking(near)
            if not lacking:
                break
            self._audit.meters.alive.set(sum(self._board.alive(j) for j in near))
            self.refuse_solitude()
            if not said and time.monotonic() - began > MEET:
                said = True
                self._audit("waits", why="for others", round=t, least=self._net.least, of=lacking)
                self._status.state("waits", f"for {', '.join(lacking)}")
            with self._board.changed:
                self._board.changed.wait(0.1)
        if said and not self._stop.is_set():
            self._audit("goes on", why="others are here", round=t)
            self._status.state("running")

    def _lacking(self, near: Sequence[PeerId]) -> list[PeerId]:
        """The neighbours of whom too few are present; empty: enough are, or all others are done and
        have gone."""
        here = [j for j in near if self._board.alive(j) and self._accord.difference(j) == ""]
        to_come = [j for j in near if j in here or self._board.newest(j) < self._rounds]
        enough = len(here) >= min(self._net.least, len(to_come))
        if self._net.least and self._roster().any_signed and len(self._roster().names) == 1:
            return ["members"]  # who they are is still to be found
        return [] if enough else [j for j in to_come if j not in here]

    def refuse_solitude(self) -> None:
        """Raise if all other members differ from me."""
        others = [j for j in self._roster().names if j != self._me]
        if self._searching is not None:
            others = list(self._near(0))  # of all others nothing is known
        apart = self._accord.apart(others)
        if others and len(apart) == len(others):
            self._let_ask(others)
            raise Failure(f"all other members differ from this peer: {_told(apart)}")

    def _let_ask(self, others: Sequence[PeerId]) -> None:
        """Before I go, those who are here can find out for themselves in what we differ."""
        until = time.monotonic() + 4 * MEET
        while time.monotonic() < until and not self._stop.wait(0.05):
            if all(j in self._told or not self._board.reachable(j) for j in others):
                return

    def catch_up(self, t: int) -> Next:
        """Go on with the round that the others are in; skipped rounds are reported. A newcomer
        listens for one round. When every peer goes at its own pace, nobody skips a round, but a
        newcomer begins where the others are."""
        self._cards.begin()
        ahead = min(self._board.current(self._near(t)), self._rounds - 1) - t
        if ahead <= self._allowance(t):
            return Next(t, "ready")
        self._audit("caught up", "", "joining" if t == 0 else "behind", was=t, now=t + ahead)
        return Next(t + ahead, "joining" if t == 0 else "ready")

    def _allowance(self, t: int) -> int:
        """How many rounds the others may be ahead."""
        if self._net.sync == "round":
            return 0
        return self._net.staleness if t == 0 else self._rounds

    # -- the cards of a round ----------------------------------------------------------------------

    def cards(self, t: int, near: tuple[PeerId, ...]) -> dict[PeerId, Notice]:
        """Wait for the cards of those who are present and take part, as long as it is usual. Nobody
        waits for those who cannot learn with me."""
        near = tuple(j for j in near if not self._accord.difference(j))
        found = self._newest(t, near) if self._net.sync == "none" else self._cards.of_round(t, near)
        self._audit.meters.alive.set(sum(self._board.alive(j) for j in near))
        return {j: notice for j, notice in found.items() if notice.data.phase == "ready"}

    def _newest(self, t: int, near: tuple[PeerId, ...]) -> dict[PeerId, Notice]:
        """When every peer goes at its own pace: the newest card of everyone who is present, unless
        it is too old, or a change was planned in between."""
        found = {}
        for j in near:
            notice, here = self._board.notice(j), self._board.alive(j)
            if notice is None or notice.data.phase != "ready" or not here:
                self._audit("late", j, "no card yet" if here else "not reachable", round=t)
            elif notice.round < t - self._net.staleness or not self._alike(notice.round, t):
                self._audit("late", j, "stale", round=t, card=notice.round)
            else:
                found[j] = notice
        return found

    # -- after the last round ----------------------------------------------------------------------

    def linger(self) -> None:
        """Stay until the others have what they need."""
        now, near, board = time.monotonic(), self._near(self._rounds - 1), self._board
        until, look = now + self._net.deadline + self._net.patience, now + LOOK
        while time.monotonic() < until and not self._stop.is_set():
            if self._searching is not None and not self._searching.visitors():
                return  # whoever is done has ended its links
            with board.changed:
                here = [j for j in near if board.alive(j) and not self._accord.difference(j)]
                waiting = [j for j in here if board.newest(j) < self._rounds]
                if not waiting and self._searching is None:
                    return
                board.changed.wait(0.2)
            look = self._nudge(waiting, look)


def _told(apart: Mapping[PeerId, str]) -> str:
    """Who differs in what; those who differ in the same are named together."""
    by_words: dict[str, list[PeerId]] = {}
    for name, words in sorted(apart.items()):
        by_words.setdefault(words, []).append(name)
    return "; ".join(f"{', '.join(names)}: {words}" for words, names in by_words.items())
