"""The same rate in all rounds: the default."""

from __future__ import annotations

from dataclasses import dataclass

from amity.learn.schedules.registry import Schedule, schedules


@schedules.register("constant")
@dataclass(frozen=True)
class ConstantRate(Schedule):
    """The same learning rate in all rounds: s_t = 1."""

    def at(self, round: int, rounds: int) -> float:
        return 1.0
