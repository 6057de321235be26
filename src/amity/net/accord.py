"""Whether the others can learn with me: their terms, as each has told them, and in what they
differ. The messages of a member that differs are refused anyway; here it is found out why."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from amity.core import PeerId
from amity.net.audit import Audit
from amity.net.board import Board
from amity.net.courier import Courier
from amity.net.link.base import AskFailed
from amity.net.wire import Refused, Terms

PLAINLY = (
    "inputs, classes, model, cards, method, seed or changes differ: compare [run] and `classes` of"
    " peer.toml"
)
"""What is said where the terms themselves are too long to be told."""


class Accord:
    """What is known of the others' terms. Methods may be called from any thread."""

    def __init__(self, *, mine: Terms, courier: Courier, board: Board, audit: Audit) -> None:
        self._mine, self._courier, self._board, self._audit = mine, courier, board, audit
        self._lock = threading.Lock()
        self._round = 0
        self._terms: dict[PeerId, Terms] = {}
        self._words: dict[PeerId, str] = {}
        """In what somebody differs whose terms cannot be read; empty: in nothing."""
        self._said: dict[PeerId, tuple[str, str]] = {}

    def enter(self, round: int) -> None:
        """A round begins: a planned change may hold from now on that somebody was not told."""
        self._round = round
        for name in list(self._terms):
            self._tell(name)

    def meet(self, name: PeerId) -> None:
        """Ask a member for its terms."""
        try:
            digest, terms = self._courier.terms(name)
        except AskFailed:
            return
        except Refused as refused:
            self._audit.refuse(name, refused.reason, str(refused))
            if refused.reason == "other protocol":
                self._learn(name, None, str(refused).partition(": ")[2])
            return
        self._learn(name, terms, "" if digest == self._mine.digest else PLAINLY)

    def _learn(self, name: PeerId, terms: Terms | None, words: str) -> None:
        with self._lock:
            for known in (self._terms, self._words):
                known.pop(name, None)
            if terms is None:
                self._words[name] = words
            else:
                self._terms[name] = terms
        self._tell(name)
        with self._board.changed:
            self._board.changed.notify_all()

    def difference(self, name: PeerId) -> str | None:
        """In what a member differs from me in this round; empty: in nothing; None: not known."""
        terms = self._terms.get(name)
        if terms is not None:
            return self._mine.difference(terms, self._round)
        notice = self._board.notice(name) if name not in self._words else None
        if notice is not None and self._digest(notice.round) == self._digest(self._round):
            return ""  # I believed a card of it
        return self._words.get(name)

    def _digest(self, round: int) -> str:
        return self._mine.digest_at(round)

    def met(self, name: PeerId) -> bool:
        """Whether a member has told its terms."""
        return name in self._terms or name in self._words

    def coming(self, name: PeerId) -> str:
        """In what a member that does not differ yet will differ from a later round on."""
        terms = self._terms.get(name)
        if terms is None or self.difference(name):
            return ""
        return self._mine.coming(terms, self._round)

    def apart(self, names: Iterable[PeerId]) -> dict[PeerId, str]:
        """Those of these members that differ, and in what."""
        return {name: words for name in names if (words := self.difference(name))}

    def _tell(self, name: PeerId) -> None:
        """Say in what a member differs now, or will from a later round on; each once."""
        differs, coming = self.difference(name) or "", self.coming(name)
        with self._lock:
            before = self._said.get(name, ("", ""))
            self._said[name] = (differs, coming)
        if differs and differs != before[0]:
            self._audit("differs", name, "now", detail=differs)
        if coming and coming != before[1]:
            self._audit("differs", name, "soon", detail=coming)
