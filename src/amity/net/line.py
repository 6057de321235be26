"""The line to the others: a link that is opened, lost and opened anew, and what is shown on it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

from amity.net.audit import Audit
from amity.net.board import Board
from amity.net.link.base import AskFailed, Handlers, Link, Transport
from amity.net.moment import Blob
from amity.net.trust.identity import Identity
from amity.net.trust.roster import Roster


class Connection:
    """One link at a time. All methods may be called from any thread."""

    def __init__(
        self,
        *,
        transport: Transport,
        listen: str,
        lease: float,
        audit: Audit,
        board: Board,
        stop: threading.Event,
    ) -> None:
        self._transport, self._listen, self._lease = transport, listen, lease
        self._audit, self._board, self._stop = audit, board, stop
        self._lock = threading.Lock()
        self._link: Link | None = None
        self._again: Callable[[], Blob] | None = None
        """Makes the card that was shown last, signed anew: whoever comes back shows it again."""
        self._chosen: Collection[str] = ()

    @property
    def is_open(self) -> bool:
        return self._link is not None

    def link(self) -> Link:
        link = self._link
        if link is None:
            raise AskFailed("not connected")
        return link

    def open(self, identity: Identity, roster: Roster, handlers: Handlers) -> None:
        """Open the link, or open it anew: for a moment this peer is away, all others stay as they
        are."""
        with self._lock:
            old, self._link = self._link, None
            if old is not None:
                old.close()
            self._board.reset(roster.names)
            if not self._stop.is_set():
                self._link = self._transport.open(
                    identity=identity,
                    roster=roster,
                    listen=self._listen,
                    handlers=handlers,
                    lease=self._lease,
                )
                if self._chosen:
                    self._link.choose(self._chosen)
        if self._again is not None:
            self._publish(self._again())

    def choose(self, members: Collection[str]) -> None:
        """Be linked to these members, also when the link is opened anew."""
        with self._lock:
            self._chosen = members
            if self._link is not None:
                self._link.choose(members)

    def visitors(self) -> Collection[str]:
        """Those who dialled me, where members are chosen."""
        link = self._link
        return () if link is None else link.visitors()

    def show(self, card: Blob, again: Callable[[], Blob]) -> bool:
        """Publish a card, and `again` whenever the link is opened anew. Whether it left: if not,
        whoever sees me again asks for it."""
        self._again = again
        return self._publish(card)

    def _publish(self, card: Blob) -> bool:
        try:
            self.link().publish(card.message)
        except AskFailed:
            return False
        self._audit.meters.bytes.labels("out").inc(len(card.message))
        return True

    def close(self) -> None:
        with self._lock:
            if self._link is not None:
                self._link.close()
                self._link = None
