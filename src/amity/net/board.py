"""What a peer knows of the others: who is there, and the newest cards of each. Written by the
network's threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from amity.net.wire import CardData, Manifest, Refused, WireSchema, check_body, decode_sketch, said

KEPT = 2
"""Rounds of which cards and models are kept."""
GRACE = 1.0
"""Seconds after which a member whose link broke counts as gone: a new session takes less."""

RETURN = 3.0
"""Seconds more for those who were here when I opened my session anew: they must find me again."""


@dataclass(frozen=True)
class Notice:
    """A card that was believed."""

    manifest: Manifest
    data: CardData
    sketch: torch.Tensor | None
    """None: the card has none, or must be fetched (`fetch`)."""
    fetch: bool = False
    head: bytes = field(default=b"", repr=False)
    """As its author signed it, to be handed on."""
    body: bytes = field(default=b"", repr=False)

    @property
    def round(self) -> int:
        return self.manifest.round


def read_notice(manifest: Manifest, body: bytes, schema: WireSchema, head: bytes = b"") -> Notice:
    """A card's content; the body may be missing, to be fetched later."""
    data: CardData = said(CardData, manifest)
    schema = schema.at(manifest.round)
    needed = schema.sketch > 0 and data.phase == "ready"
    if needed != (manifest.length > 0):
        raise Refused(
            "wrong shape",
            "a card with a sketch was expected"
            if needed
            else "a card without a sketch was expected",
        )
    if not body:
        return Notice(manifest, data, None, fetch=needed, head=head)
    check_body(manifest, body)
    sketch = decode_sketch(body, schema.sketch, schema.bits)
    return Notice(manifest, data, sketch, head=head, body=body)


class Floor(NamedTuple):
    """The newest card that was believed of a member."""

    round: int
    at: int
    """When it was signed."""


class Board:
    """All notices and who is alive. `changed` is notified whenever something is new."""

    def __init__(self, names: Iterable[str]) -> None:
        self.changed = threading.Condition()
        self._notices: dict[str, dict[int, Notice]] = {}
        self._gone: dict[str, float] = {}
        """When a member was last seen to go; 0.0: it is here."""
        self._fetched: dict[str, str] = {}
        """The nonce of the last card that I asked for: it may still come by itself."""
        self._done: dict[str, int] = {}
        """Who has done all rounds, and how many those were."""
        self._heard: dict[str, float] = {}
        """When a member last said anything."""
        self._silent: set[str] = set()
        """Linked, but they do not answer: hung, or behind a line that is cut and not yet known to
        be."""
        self._unproven: set[str] = set()
        """Whose presence somebody told, and who has not said so himself since."""
        self._floor: dict[str, Floor] = {}
        """The newest card of each member that I believed before I was started again."""
        self._names = set(names)

    def reset(self, names: Iterable[str]) -> None:
        """A new roster: those who are not on it are forgotten, and who is alive will be told
        anew."""
        with self.changed:
            self._names = set(names)
            self._notices = {
                name: found for name, found in self._notices.items() if name in self._names
            }
            now = time.monotonic()
            self._gone = {
                name: self._gone[name] or now + RETURN for name in self._gone if name in self._names
            }
            self.changed.notify_all()

    def post(self, notice: Notice, again: bool = False) -> bool:
        """Take a card in; older ones, and second ones for a round that are not newer, are replays.
        `again`: I asked for it, so it may well be the one that I have. Returns whether it is the
        first that I see of its round."""
        name = notice.manifest.sender
        with self.changed:
            if notice.data.phase == "done":
                self._done[name] = notice.round
                self.changed.notify_all()
                return False
            mine = self._notices.setdefault(name, {})
            self._above_floor(notice, again)
            known = mine.get(notice.round)
            if known is not None and known.manifest.at >= notice.manifest.at:
                self._same(known, notice, again)
                return False
            if mine and notice.round < max(mine) - (KEPT - 1):
                if again:
                    return False
                raise Refused("replay", f"card of round {notice.round}, after one of {max(mine)}")
            mine[notice.round] = notice
            if again:
                self._fetched[name] = notice.manifest.nonce
            for old in sorted(mine)[:-KEPT]:
                del mine[old]
            self.changed.notify_all()
            return known is None

    def _above_floor(self, notice: Notice, again: bool) -> None:
        """What I believed before a restart is a replay after it too."""
        floor = self._floor.get(notice.manifest.sender)
        if floor is None or again:
            return
        old = notice.round < floor.round - (KEPT - 1)
        if old or (notice.round == floor.round and notice.manifest.at <= floor.at):
            raise Refused("replay", f"card of round {notice.round}, after one of {floor.round}")

    def floors(self) -> dict[str, Floor]:
        """The newest card of each member, for after a restart."""
        with self.changed:
            newest = {name: found[max(found)] for name, found in self._notices.items() if found}
            seen = {name: Floor(one.round, one.manifest.at) for name, one in newest.items()}
            return {**self._floor, **seen}

    def remember(self, floors: Mapping[str, Floor]) -> None:
        """What was believed before I was started again."""
        self._floor = dict(floors)

    def _same(self, known: Notice, notice: Notice, again: bool) -> None:
        """A card that I asked for may come by itself too, once; any other that I know is a
        replay."""
        name, nonce = known.manifest.sender, known.manifest.nonce
        fetched = nonce == notice.manifest.nonce and self._fetched.get(name) == nonce
        if fetched and not again:
            del self._fetched[name]
        if not (again or fetched):
            raise Refused("replay", f"card of round {notice.round}")

    def live(self, name: str, here: bool) -> None:
        with self.changed:
            if name not in self._names:
                return
            if here:
                self._gone[name] = 0.0
            elif self._gone.get(name) == 0.0:
                # who was never here, or has gone already, does not go again
                self._gone[name] = time.monotonic()
            self._silent.discard(name)
            self.changed.notify_all()

    def heard(self, name: str) -> None:
        """A sign of life, whatever it was."""
        self._heard[name] = time.monotonic()
        if name in self._silent:
            with self.changed:
                self._silent.discard(name)
                self.changed.notify_all()

    def doubt(self, name: str) -> None:
        """The network says that a member has come: it counts once it has said so itself."""
        self._unproven.add(name)

    def proved(self, name: str) -> None:
        """It signed an answer to an ask of mine, or a card that is new: it is here."""
        if name in self._unproven:
            with self.changed:
                self._unproven.discard(name)
                self.changed.notify_all()

    def unproven(self, name: str) -> bool:
        """Whether only the network says that a member is here: a relay could say it of anybody."""
        return name in self._unproven

    def silent(self, name: str) -> None:
        """It did not answer, though it is linked: nobody waits for it until it says something."""
        with self.changed:
            self._silent.add(name)
            self.changed.notify_all()

    def quiet(self, name: str) -> float:
        """Seconds since its last sign of life."""
        return time.monotonic() - self._heard.get(name, 0.0)

    def linked(self, name: str) -> bool:
        """Whether what I publish now reaches a member, also one that is too busy to answer."""
        return self._gone.get(name) == 0.0

    def alive(self, name: str, grace: float = GRACE) -> bool:
        """Whether a member is here and answers, or did a moment ago. That it is here it has said
        itself, signed."""
        return name not in self._unproven and self.reachable(name, grace)

    def reachable(self, name: str, grace: float = GRACE) -> bool:
        """Whether the network says that a member is here, and it is not known to be silent."""
        if name in self._silent:
            return False
        gone = self._gone.get(name)
        return gone is not None and (gone == 0.0 or time.monotonic() - gone < grace)

    def notice(self, name: str, round: int | None = None) -> Notice | None:
        """The card of a round, or the newest."""
        with self.changed:
            mine = self._notices.get(name, {})
            return mine.get(max(mine, default=-1) if round is None else round)

    def newest(self, name: str) -> int:
        """The newest round of which a member has shown a card; -1: none."""
        with self.changed:
            return max(*self._notices.get(name, {}), self._done.get(name, -1), -1)

    def current(self, names: Iterable[str]) -> int:
        """The round that more than half of these members have reached; who is not here, or has
        shown no card, has reached none. So fewer than half cannot push anybody on, whoever else is
        there. -1 where there is no such round."""
        rounds = sorted(
            (self.newest(name) if self.alive(name) else -1 for name in names), reverse=True
        )
        return rounds[len(rounds) // 2] if rounds else -1
