"""Rates that fall along half a cosine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from amity.learn.schedules.registry import Schedule, schedules

Floor = Annotated[float, Field(ge=0, le=1)]


def half_cosine(done: float, floor: float) -> float:
    """From 1 at the beginning to `floor` when all is done."""
    return floor + (1 - floor) / 2 * (1 + math.cos(math.pi * done))


@schedules.register("cosine")
@dataclass(frozen=True)
class CosineDecay(Schedule):
    r"""The learning rate falls along half a cosine over the whole run (Loshchilov and Hutter 2017).

        s_t = f + (1 − f)/2 · (1 + cos(π t / T))

    f is `floor`, the factor that round T would have: the last round, T − 1, is a little above it,
    so that it still trains with f = 0. `floor` = 1 is a constant rate.
    """

    floor: Floor = 0.0
    """f: the factor on the rate at the end of the run."""

    def at(self, round: int, rounds: int) -> float:
        return half_cosine(min(1.0, round / rounds), self.floor)
