"""The authority's list of revoked members goes from hand to hand: whoever meets a member compares
numbers, and the newer list goes to the other. What is believed is the authority's signature alone,
so it does not matter who passes it on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from amity.core import PeerId
from amity.errors import IdentityError, StorageError
from amity.files import write_atomically
from amity.net.audit import Audit
from amity.net.courier import Courier
from amity.net.errands import Errands
from amity.net.link.base import AskFailed
from amity.net.trust.revoked import Revoked, open_revoked
from amity.net.wire import Refused


class Revoking:
    """Takes newer lists in, and tells others of mine. A list that is taken in is a file in the
    state directory, where membership finds it. Methods may be called from any thread."""

    def __init__(
        self,
        *,
        path: Path,
        ca_path: Path,
        network: str,
        now: Callable[[], Revoked | None],
        present: Callable[[], Sequence[PeerId]],
        courier: Courier,
        errands: Errands,
        audit: Audit,
    ) -> None:
        self._path, self._ca_path, self._network = path, ca_path, network
        self._now, self._present = now, present
        self._courier, self._errands, self._audit = courier, errands, audit
        self._lock = threading.Lock()
        self._taken: Revoked | None = None
        """The newest that I wrote, until membership has read it."""
        self._told = 0

    @property
    def _newest(self) -> Revoked | None:
        known = [one for one in (self._now(), self._taken) if one is not None]
        return max(known, key=lambda one: one.number, default=None)

    @property
    def number(self) -> int:
        """Of my list; 0: I have none."""
        newest = self._newest
        return 0 if newest is None else newest.number

    def newer_for(self, asker: PeerId, number: int) -> bytes:
        """What a member gets that has a list of this number. If its own is newer, I ask for it."""
        newest = self._newest
        if number > self.number:
            self._errands.once("revoked", asker, partial(self.compare, asker))
        return newest.signed if newest is not None and newest.number > number else b""

    def compare(self, name: PeerId) -> None:
        """Ask a member for its list, if it is newer than mine."""
        try:
            signed = self._courier.revoked(name, self.number)
        except AskFailed:
            return
        except Refused as refused:
            self._audit.refuse(name, refused.reason, str(refused))
            return
        if signed:
            self._take(name, signed)

    def _take(self, name: PeerId, signed: bytes) -> None:
        try:
            found = open_revoked(signed, self._ca_path, f"the list of {name}")
            with self._lock:
                if found.network != self._network or found.number <= self.number:
                    return
                write_atomically(self._path, signed)
                self._taken = found
        except IdentityError as error:
            self._audit.refuse(name, "bad list", str(error))
        except StorageError as error:
            self._audit("error", why="storage", message=str(error))

    def beat(self) -> None:
        """About once a second: whoever is here is told of a list that is new to me. A list that an
        operator put beside peer.toml is kept in the state directory too: an older one in its place
        changes nothing."""
        newest = self._now()
        if newest is None or newest.number <= self._told:
            return
        self._told = newest.number
        self._audit(
            "roster", "", "revoked", number=newest.number, names=sorted(newest.keys.values())
        )
        try:
            write_atomically(self._path, newest.signed)
        except StorageError as error:
            self._audit("error", why="storage", message=str(error))
        for name in self._present():
            self._errands.once("revoked", name, partial(self.compare, name))
