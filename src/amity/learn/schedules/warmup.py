"""Rates that rise first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from amity.learn.schedules.cosine import Floor, half_cosine
from amity.learn.schedules.registry import Schedule, schedules


@schedules.register("warmup")
@dataclass(frozen=True)
class WarmUp(Schedule):
    r"""The learning rate rises in equal steps over the first rounds, then stays, or falls along
    half a cosine.

        s_t = (t + 1) / (w + 1)                                     for t < w
        s_t = 1,  or  f + (1 − f)/2 · (1 + cos(π (t − w) / (T − w)))   from round w on

    w is `warmup`; 0 is a tenth of the run, at least one round. `then` says what follows, f is
    `floor`, for the cosine alone.
    """

    warmup: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    """w: rounds over which the rate rises; 0: a tenth of the run, at least one."""
    then: Literal["constant", "cosine"] = "constant"
    """What the rate does after that."""
    floor: Floor = 0.0
    """f: the factor at the end of the run, with `then=cosine`."""

    def at(self, round: int, rounds: int) -> float:
        rising = self.warmup or max(1, -(-rounds // 10))
        if round < rising:
            return (round + 1) / (rising + 1)
        if self.then == "constant":
            return 1.0
        return half_cosine(min(1.0, (round - rising) / max(1, rounds - rising)), self.floor)

    def misfit(self, rounds: int) -> str:
        if self.warmup >= rounds:
            return (
                f"train.warmup: the rate would rise for {self.warmup} rounds, and the run has"
                f" {rounds}; use less"
            )
        if self.floor and self.then != "cosine":
            return (
                f"train.floor: {self.floor:g} is where a cosine ends; add train.then=cosine, or"
                " leave it out"
            )
        return ""
