"""How a peer is doing, for its operator: `state/status.json`, which a running peer keeps up to date
and `amity peer status` and `amity peer check` read. Nothing is decided by it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from amity._version import __version__
from amity.errors import StorageError
from amity.files import dump, write_atomically
from amity.net.wire import PROTOCOL

STATUS = "status.json"
State = Literal["running", "waits", "done", "stopped", "failed"]
Around = Callable[[], Mapping[str, Any]]
"""Looks around: who is present, who differs in what."""


class StatusFile:
    """Written when something has changed, at most once a second; a full disk must not stop a peer.
    Methods may be called from any thread."""

    def __init__(self, path: Path, peer: str, rounds: int, around: Around) -> None:
        self._path, self._around, self._lock = path, around, threading.Lock()
        self._facts: dict[str, Any] = {
            "peer": peer,
            "state": "running",
            "why": "",
            "round": 0,
            "rounds": rounds,
            "amity": __version__,
            "protocol": PROTOCOL,
        }
        self._written: dict[str, Any] = {}

    def note(self, **facts: Any) -> None:
        """Take facts down; the next `beat` writes them."""
        with self._lock:
            self._facts |= facts

    def state(self, state: State, why: str = "") -> None:
        """What the peer is about; written at once."""
        self.note(state=state, why=why)
        self.beat()

    def beat(self) -> None:
        """Write what has changed."""
        with self._lock:
            now = {**self._facts, **self._around()}
            if now == self._written:
                return
            try:
                write_atomically(self._path, dump({**now, "at": round(time.time(), 3)}))
                self._written = now
            except StorageError:
                return  # the run itself says so


def read_status(state: Path) -> dict[str, Any]:
    """What a peer wrote of itself last; empty if it never did (Amity 0.1.0 did not)."""
    try:
        found = json.loads((state / STATUS).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
