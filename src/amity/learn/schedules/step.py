"""Rates that fall in steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from amity.learn.schedules.registry import Schedule, schedules


@schedules.register("step")
@dataclass(frozen=True)
class StepDecay(Schedule):
    r"""The learning rate falls by a factor every so many rounds: s_t = γ^⌊t / k⌋.

    γ is `factor`, k is `every`; `every` = 0 is a third of the run.
    """

    every: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    """k: rounds from one fall to the next; 0: a third of the run."""
    factor: Annotated[float, Field(gt=0, le=1)] = 0.1
    """γ: the factor on the rate at each fall."""

    def at(self, round: int, rounds: int) -> float:
        return float(self.factor ** (round // (self.every or max(1, -(-rounds // 3)))))

    def misfit(self, rounds: int) -> str:
        if self.every < rounds:
            return ""
        return (
            f"train.every: the rate would first fall after {self.every} rounds, and the run has"
            f" {rounds}; use less, or train.schedule=constant"
        )
