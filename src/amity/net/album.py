"""The newest card of everyone whom a peer has heard of, as its author signed it.

A card that somebody else hands over counts as much as one that came from its author: it is opened
with the author's key, and whoever hands it over has no say in it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

from amity.core import PeerId
from amity.net.board import Notice, read_notice
from amity.net.trust.roster import Roster
from amity.net.wire import Expected, Refused, WireSchema, open_head


class Album:
    """Whole cards, by author. Methods may be called from any thread."""

    def __init__(
        self,
        *,
        me: PeerId,
        schema: WireSchema,
        rounds: int,
        max_age: float,
        roster: Callable[[], Roster],
    ) -> None:
        self._schema, self._rounds, self._roster = schema, rounds, roster
        self._want = Expected(me=me, schema=schema, kinds=("card",), max_age=max_age)
        self._lock, self._cards = threading.Lock(), dict[PeerId, Notice]()

    def get(self, author: PeerId) -> Notice | None:
        with self._lock:
            return self._cards.get(author)

    def body(self, author: PeerId, sha256: str) -> bytes | None:
        """The body of a card that need not be sent again: many cards stay the same."""
        kept = self.get(author)
        return kept.body if kept is not None and kept.manifest.sha256 == sha256 else None

    def keep(self, card: Notice) -> None:
        """A whole card that is believed; the newest of each author stays."""
        name = card.manifest.sender
        with self._lock:
            kept = self._cards.get(name)
            if kept is None or _age(kept) < _age(card):
                self._cards[name] = card

    def keep_only(self, authors: Collection[PeerId]) -> None:
        """Whoever is handed many cards does not keep them for ever."""
        with self._lock:
            self._cards = {name: card for name, card in self._cards.items() if name in authors}

    def opened(self, message: bytes) -> Notice | None:
        """A card that was handed over, if its author signed it; Refused if not. None: its author is
        no member here, or takes no part in its round."""
        try:
            manifest, body = open_head(message, self._roster(), self._want)
        except Refused as refused:
            if refused.reason == "not on the roster":
                return None  # he may well be one there
            raise
        if manifest.round >= self._rounds or manifest.data.get("phase") != "ready":
            return None
        card = read_notice(manifest, body, self._schema, message[: len(message) - len(body)])
        if card.sketch is None:
            raise Refused("malformed", "a card is handed over whole")
        return card


def _age(card: Notice) -> tuple[int, int]:
    return card.round, card.manifest.at
