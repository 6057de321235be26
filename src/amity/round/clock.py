"""Seconds by phase."""

from __future__ import annotations

import time


class Clock:
    """Starts when it is made; `lap` ends a phase."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._at = time.perf_counter()

    def lap(self, phase: str) -> None:
        now = time.perf_counter()
        self.laps[phase], self._at = now - self._at, now
