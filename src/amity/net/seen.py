"""What a peer must not forget when it is started again: which asks it has answered, and the newest
card that it believed of each member. So what somebody recorded is a replay after a restart too.

`state/asks.log` has a line for every ask, as it is answered; `state/cards.json` is written after
every round. A disk that is full costs this memory, and nothing else: the log says so.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from amity.core import PeerId
from amity.errors import StorageError
from amity.files import dump, write_atomically
from amity.net.audit import Audit
from amity.net.board import Floor

ASKS, CARDS = "asks.log", "cards.json"
LARGEST = 1 << 20
"""Bytes after which the log of asks is written anew, without those that are too old to matter."""


class Seen:
    """The memory of one peer. Methods may be called from any thread, and never raise."""

    def __init__(self, state: Path, max_age: float, audit: Audit) -> None:
        """Asks that are older than `max_age` seconds are refused for their age."""
        self._state, self._max_age, self._audit = state, max_age, audit
        self._lock = threading.Lock()
        self._stream: IO[bytes] | None = None
        self._size = 0

    # -- asks --------------------------------------------------------------------------------------

    def asks(self) -> dict[PeerId, dict[str, float]]:
        """By asker, the numbers of asks that were answered, and how many seconds ago. A clock that
        was set back makes them young, never old."""
        found: dict[PeerId, dict[str, float]] = {}
        now = time.time()
        try:
            lines = (self._state / ASKS).read_text(errors="replace").splitlines()
        except OSError:
            return {}
        for line in lines:
            at, _, rest = line.partition(" ")
            nonce, _, asker = rest.partition(" ")
            try:
                age = max(0.0, now - float(at))
            except ValueError:
                continue  # torn
            if asker and age < self._max_age:
                found.setdefault(asker, {})[nonce] = age
        return found

    def answered(self, asker: PeerId, nonce: str) -> None:
        """Before an ask is answered."""
        line = f"{time.time():.1f} {nonce} {asker}\n".encode()
        with self._lock:
            try:
                if self._stream is None or self._size > LARGEST:
                    self._begin()
                if self._stream is not None:
                    self._stream.write(line)
                    self._size += len(line)
            except (OSError, StorageError) as error:
                self._audit("error", "", "storage", detail=f"{ASKS}: {error}")

    def _begin(self) -> None:
        """Keep what still matters, and go on after it."""
        now = time.time()
        kept = [
            f"{now - age:.1f} {nonce} {asker}\n"
            for asker, found in self.asks().items()
            for nonce, age in found.items()
        ]
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        write_atomically(self._state / ASKS, "".join(kept).encode())
        self._stream = open(self._state / ASKS, "ab", buffering=0)  # noqa: SIM115  held
        self._size = 0

    # -- cards -------------------------------------------------------------------------------------

    def floors(self) -> dict[PeerId, Floor]:
        """The newest card of each member that was believed before."""
        try:
            found = json.loads((self._state / CARDS).read_bytes())
            return {str(j): Floor(int(round), int(at)) for j, (round, at) in found.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    def keep(self, floors: Mapping[PeerId, Floor]) -> None:
        """After a round."""
        try:
            write_atomically(self._state / CARDS, dump({j: [*one] for j, one in floors.items()}))
        except StorageError as error:
            self._audit("error", "", "storage", detail=str(error))

    def close(self) -> None:
        with self._lock:
            if self._stream is not None:
                self._stream.close()
                self._stream = None
