"""What one round yields."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from amity.core import PeerId, Row


@dataclass(frozen=True)
class Report:
    """What one round yields: a record a peer, the rows, a record of the network, and the seconds of
    each phase."""

    round: int
    peers: dict[PeerId, dict[str, Any]]
    rows: dict[PeerId, Row]
    network: dict[str, Any]
    seconds: dict[str, float]


class Clock:
    """Seconds by phase."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._at = time.perf_counter()

    def lap(self, phase: str) -> None:
        now = time.perf_counter()
        self.laps[phase], self._at = now - self._at, now
