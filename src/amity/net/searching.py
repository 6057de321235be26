"""Friends of friends on real links (`topology=discover`): whom this peer knows, with whom it is
linked, and what it exchanges with one of them in every round. What is decided stands in
`round/discovery.py`, the same as in the simulator.

What others could foresee would help liars, so all that is drawn here is drawn by the operating
system: with whom to exchange, what is passed on, and the secret behind the lots of random members.
The circle and that secret stand in `state/circle.json`.

Nobody is held up by whoever is gone. Those whom I cannot reach for `MISSED` rounds leave the
circle, and are not taken back for `BARRED` rounds; where that leaves places free, names of the
roster are drawn.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from pathlib import Path

import torch

from amity.core import PeerId
from amity.errors import StorageError
from amity.files import dump, write_atomically
from amity.geometry import cosines
from amity.net.album import Album
from amity.net.answers import Answering, Unavailable
from amity.net.audit import Audit
from amity.net.board import KEPT, Board, Notice
from amity.net.courier import Courier
from amity.net.errands import Errands
from amity.net.limits import Allowance
from amity.net.line import Connection
from amity.net.link.base import AskFailed, Request
from amity.net.moment import Blob, Moment
from amity.net.options import Net
from amity.net.trust.roster import Roster
from amity.net.wire import HandData, Manifest, Refused, Stamp, pack, unpack
from amity.round.discovery import (
    Alike,
    Circle,
    Handed,
    at_first,
    hand_out,
    lot_of,
    partner,
    take_in,
)
from amity.topology import Discover

CIRCLE = "circle.json"
MISSED = 2
"""Rounds after which whoever cannot be reached leaves the circle."""
BARRED = 10
"""Rounds for which such a one is not taken back."""
MEET = 1.5
"""Seconds that a round waits for links to those who are new in the circle."""
ALONE = 10.0
"""Seconds after which one who reaches nobody tries others."""
_DRAW = secrets.SystemRandom()


@dataclass(frozen=True, kw_only=True)
class Company:
    """The parts of a peer that the search works with."""

    roster: Callable[[], Roster]
    board: Board
    album: Album
    courier: Callable[[], Courier]
    answers: Callable[[], Answering]
    line: Connection
    errands: Errands
    audit: Audit
    stamp: Stamp
    alike: Callable[[int, int], bool]
    """Whether the same holds in two rounds."""
    stop: threading.Event


class Searching:
    """The circle of one peer. Others may call `near`, `linked`, `heard` and `answer` from any
    thread."""

    def __init__(
        self,
        *,
        me: PeerId,
        rule: Discover,
        net: Net,
        path: Path,
        known: Callable[[], Sequence[PeerId]],
        company: Company,
    ) -> None:
        """`known`: whom a peer without a circle is told of."""
        self._me, self._rule, self._net, self._path = me, rule, net, path
        self._with, self._lock = company, threading.Lock()
        self._secret, self._circle = self._remembered(known)
        self._lot = lot_of(self._secret)
        self._new: frozenset[PeerId] = frozenset()
        self._dialled: frozenset[PeerId] = frozenset()
        self._heard: frozenset[PeerId] = frozenset()
        self._until = 0.0
        self._now: Moment | None = None
        self._handed: list[Handed] = []
        self._answered: Counter[int] = Counter()
        """How many exchanges I answered in this round of mine and in the last."""
        self._asked: dict[PeerId, int] = {}
        """The newest round of each member in which I answered it."""
        self._missed: Counter[PeerId] = Counter()
        self._barred: dict[PeerId, int] = {}
        """Until which round somebody is not taken."""
        self._doing: Future[None] | None = None

    # -- the circle, and links ---------------------------------------------------------------------

    def near(self, _round: int) -> tuple[PeerId, ...]:
        """My neighbours: everyone in my circle who is a member."""
        members = self._with.roster().members
        return tuple(j for j in self._circle.all if j in members)

    @property
    def linked(self) -> frozenset[PeerId]:
        """Those whom I dialled."""
        return self._dialled

    def heard(self, _round: int) -> tuple[PeerId, ...]:
        """Those whom I dialled in this round or the last: their cards came of themselves."""
        return tuple(self._heard)

    def start(self) -> None:
        """On a network: dial those whom I know."""
        self._choose(self._filled(self._circle, 0))

    def refill(self) -> None:
        """While a round waits for company: who knows nobody, or has reached nobody for a while,
        tries others of the roster."""
        near, board = self.near(0), self._with.board
        reached = any(board.alive(j) for j in near)
        if not near or (not reached and time.monotonic() > self._until + ALONE):
            self._barred.clear()
            self._choose(self._filled(Circle((), self._circle.random), 0))

    def visitors(self) -> Collection[PeerId]:
        """Those who dialled me, and need what I have."""
        return self._with.line.visitors()

    def finish(self) -> None:
        """All rounds are done: I need nobody any more, and my links end. Others keep theirs."""
        self._dialled = frozenset()
        self._with.line.choose(())

    def _choose(self, circle: Circle) -> None:
        """Know these from now on. Who has left the circle stays linked for a round, so that what is
        under way can end."""
        before, self._circle = frozenset(self._circle.all), circle
        now = frozenset(circle.all)
        self._new, self._until = now - self._dialled, time.monotonic() + MEET
        for j in sorted(now - before):
            self._with.audit("found", j)
        self._heard = self._dialled | now | before
        self._dialled = now | before
        self._with.line.choose(self._dialled)

    def meet(self) -> None:
        """Give those who are new in the circle time to be here; nobody waits for them twice."""
        board = self._with.board
        with board.changed:
            while not self._with.stop.is_set() and not all(board.alive(j) for j in self._new):
                if time.monotonic() > self._until:
                    break
                board.changed.wait(0.1)
        self._new = frozenset()

    # -- one round ---------------------------------------------------------------------------------

    def begin(self, moment: Moment, present: Mapping[PeerId, Notice]) -> None:
        """The cards of a round are here: exchange some with one whom I know, in another thread."""
        if moment.card is None or moment.phase != "ready":
            return
        self._now = moment
        work = self._with.errands.once("exchange", "", lambda: self._exchange(moment, present))
        self._doing = work or self._doing

    def end(self, t: int) -> None:
        """A round is over: my circle of the next one, by all that was handed to me since the last.
        An exchange that takes long counts a round later."""
        if self._doing is not None:
            wait([self._doing], self._net.lease)
        with self._lock:
            handed, self._handed = self._handed, []
        self._note_missed(t)
        names = {*self._circle.all, *_told(handed)} - {self._me}
        circle, mine = self._circle, self._sketch(self._me, t)
        if mine is not None:
            alike = self._alike(mine, names, t)
            circle = take_in(self._rule, self._me, circle, handed, alike, self._lot)
        self._choose(self._filled(circle, t + 1))
        with self._lock:  # with those who were handed over meanwhile: they count in the next round
            self._with.album.keep_only({*self._circle.all, *_told(self._handed)})
        self._write()

    def _note_missed(self, t: int) -> None:
        """Who is in the circle and could not be reached, round after round, is left out."""
        self._barred = {j: until for j, until in self._barred.items() if until > t}
        here = {j for j in self._circle.all if self._with.board.alive(j)}
        self._missed = Counter({j: self._missed[j] + 1 for j in self._circle.all if j not in here})
        for j, rounds in self._missed.items():
            if rounds >= MISSED:
                self._barred[j] = t + 1 + BARRED
                self._with.audit("dropped", j, "not reachable", round=t)

    def _filled(self, circle: Circle, t: int) -> Circle:
        """A circle without those who are left out or no members, and with names of the roster, by
        lot, where places are free."""
        members = [j for j in self._with.roster().names if j != self._me]
        fit = [j for j in members if self._barred.get(j, t) <= t] or members
        view = [j for j in circle.view if j in fit]
        free = [j for j in fit if j not in view and j not in circle.random]
        _DRAW.shuffle(free)
        view += free[: max(0, min(self._rule.view, len(fit)) - len(view))]
        places = circle.random or ("",) * self._rule.random
        random = [
            now if now in fit or not fit else min(fit, key=lambda j: (self._lot(place, j), j))
            for place, now in enumerate(places)
        ]
        return Circle(tuple(view), tuple(j for j in random if j))

    def _alike(self, to: torch.Tensor, names: Iterable[PeerId], t: int) -> Alike:
        """How similar the cards of some are to one, of those who showed one lately."""
        cards = {j: card for j in sorted(names) if (card := self._sketch(j, t)) is not None}
        cards = {j: c for j, c in cards.items() if (c.shape, c.dtype) == (to.shape, to.dtype)}
        if not cards:
            return {}
        row = cosines(to, torch.stack(list(cards.values())))
        return dict(zip(cards, row.tolist(), strict=True))

    def _sketch(self, j: PeerId, t: int) -> torch.Tensor | None:
        """Of a card that is not too old, nor of a round that is still far away."""
        if j == self._me:
            return None if self._now is None or self._now.card is None else self._now.card.sketch
        card, near = self._with.album.get(j), self._with.roster().members
        if card is None or j not in near or self._barred.get(j, t) > t:
            return None
        fresh = abs(card.round - t) <= self._lately and self._with.alike(card.round, t)
        return card.sketch if fresh else None

    # -- exchanging --------------------------------------------------------------------------------

    def _exchange(self, moment: Moment, present: Mapping[PeerId, Notice]) -> None:
        """Hand cards to one whom I know, and be handed some."""
        self._look_at(present)
        other = partner(self._circle, _DRAW.random())
        if other is None or other not in present or self._sketch(other, moment.round) is None:
            return
        token = secrets.token_hex(16)
        self._hand(moment, other, token, "")
        try:
            self._take(other, *self._with.courier().cards(other, moment.round, token, swap=True))
        except AskFailed as failed:
            self._with.audit("missing", other, "exchange", detail=failed.reason[:100])
        except Refused as refused:
            self._with.audit.refuse(other, refused.reason, str(refused))

    def _look_at(self, present: Mapping[PeerId, Notice]) -> None:
        """Cards that nobody has asked for yet: the search needs them all, each once."""
        for j, notice in present.items():
            try:
                self._with.album.keep(self._with.courier().whole(j, notice))
            except AskFailed:
                continue
            except Refused as refused:
                self._with.audit.refuse(j, refused.reason, str(refused))

    def answer(self, request: Request, manifest: Manifest, _allowance: Allowance) -> None:
        """Somebody wants to exchange cards with me: a few in a round may."""
        moment, asker = self._now, request.asker
        if moment is None:
            raise Unavailable("no card yet")
        self._count(asker, manifest.round, moment.round)
        try:
            visit = str(manifest.data.get("visit"))
            self._take(asker, *self._with.courier().cards(asker, manifest.round, visit))
        except AskFailed as failed:
            raise Unavailable(f"your cards did not come ({failed.reason[:40]})") from None
        request.reply(self._hand(moment, asker, manifest.nonce, manifest.nonce).head)

    def _count(self, asker: PeerId, theirs: int, mine: int) -> None:
        """Each asks once in a round of its own, which is about mine; and I answer a few in mine,
        with those that I did not answer in the last: others are not in step with me."""
        with self._lock:
            lately = Counter({t: self._answered[t] for t in (mine - 1, mine)})
            again = theirs <= self._asked.get(asker, -1) or abs(theirs - mine) > self._lately
            if again or lately.total() >= 2 * self._rule.answers:
                raise Unavailable(f"enough exchanges in round {mine}")
            self._asked[asker], self._answered = theirs, lately + Counter([mine])

    @property
    def _lately(self) -> int:
        """By how many rounds others may be before or after me."""
        return KEPT if self._net.sync == "round" else KEPT + self._net.staleness

    def _hand(self, moment: Moment, taker: PeerId, visit: str, re: str) -> Blob:
        """What I hand to another, ready to be fetched by it alone."""
        to, t = self._with.album.get(taker), moment.round
        if to is None or to.sketch is None:
            raise Refused("malformed", "who exchanges cards shows its own")
        circle = self._circle
        alike = self._alike(to.sketch, {*circle.all, self._me} - {taker}, t)
        given = hand_out(self._rule, self._me, circle, taker, alike, _DRAW.random())
        mine = () if self._me in (*given.best, *given.random) else (self._me,)
        parts = {"mine": mine, "best": given.best, "random": given.random}
        # a round may end meanwhile, and with it some cards
        cards = {
            part: [one for j in names if (one := self._signed(j, moment))]
            for part, names in parts.items()
        }
        body = pack([one for part in cards.values() for one in part])
        data = {part: len(some) for part, some in cards.items()}
        head = self._with.stamp.seal("cards", t, body, to=taker, re=re, data=data)
        blob = Blob(head, body)
        self._with.answers().keep(taker, visit, t, blob)
        return blob

    def _signed(self, j: PeerId, moment: Moment) -> bytes:
        if j == self._me:
            own = moment.blob("card")
            return own.head + own.body
        card = self._with.album.get(j)
        return b"" if card is None else card.head + card.body

    def _take(self, giver: PeerId, told: HandData, body: bytes) -> None:
        """Believe what was handed over: signed by its author, and no more than the rule allows."""
        most = (1, self._rule.cards - self._rule.passed, self._rule.passed)
        if any(n > m for n, m in zip((told.mine, told.best, told.random), most, strict=True)):
            raise Refused("malformed", "more cards than are handed over in an exchange")
        count = told.mine + told.best + told.random
        cards = [self._with.album.opened(one) for one in unpack(body, count)]
        names = [None if card is None else card.manifest.sender for card in cards]
        best, random = names[told.mine : told.mine + told.best], names[told.mine + told.best :]
        if told.mine and names[0] != giver:
            raise Refused("wrong sender", f"{giver} shows another's card as its own")
        with self._lock:
            for card in cards:
                if card is not None and card.manifest.sender != self._me:
                    self._with.album.keep(card)
            self._handed.append(Handed(giver, _known(best), _known(random)))

    # -- the file ----------------------------------------------------------------------------------

    def _remembered(self, known: Callable[[], Sequence[PeerId]]) -> tuple[str, Circle]:
        """From before a restart; else whom I am told of."""
        try:
            found = json.loads(self._path.read_bytes())
            view, random = (tuple(map(str, found[part])) for part in ("view", "random"))
            return str(found["secret"]), Circle(view, random)
        except (OSError, ValueError, TypeError, KeyError):
            secret = secrets.token_hex(16)
            return secret, at_first(self._rule, known(), lot_of(secret))

    def _write(self) -> None:
        try:
            write_atomically(self._path, dump({**self._circle._asdict(), "secret": self._secret}))
        except StorageError as error:
            self._with.audit("error", "", "storage", detail=str(error))


def _known(names: Collection[PeerId | None]) -> tuple[PeerId, ...]:
    return tuple(j for j in names if j is not None)


def _told(handed: Iterable[Handed]) -> set[PeerId]:
    return {j for one in handed for j in (one.giver, *one.best, *one.random)}
