"""Differences paired by seed, with Student's interval."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Difference:
    """In points: mean over seeds, and half of the 95 % confidence interval (None for a single
    seed)."""

    mean: float
    half: float | None
    seeds: int
    fine: bool = False
    """Whether these are no points but numbers of any size, shown with three figures."""

    @property
    def sign(self) -> int:
        """+1 or -1 where the interval excludes 0; else 0."""
        return (
            0
            if self.half is None or abs(self.mean) <= self.half
            else int(math.copysign(1, self.mean))
        )

    def __neg__(self) -> Difference:
        return replace(self, mean=-self.mean)

    def __str__(self) -> str:
        form = ".3g" if self.fine else ".1f"
        half = "" if self.half is None else f" ± {self.half:{form}}"
        return f"{self.mean:+{form}}{half}"


def paired(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Difference | None:
    """Ours minus theirs over the seeds that both have; None if there is none."""
    both = sorted(ours.keys() & theirs.keys())
    if not both:
        return None
    apart = np.array([ours[seed] - theirs[seed] for seed in both])
    if len(both) == 1:
        return Difference(float(apart[0]), None, 1)
    from scipy.special import stdtrit  # Student's t by its probability; late: it is slow to load

    half = stdtrit(len(both) - 1, 0.975) * apart.std(ddof=1) / math.sqrt(len(both))
    return Difference(float(apart.mean()), float(half), len(both))


def leads(first: str, scores: Mapping[str, Mapping[int, float]]) -> bool:
    """Whether one is above each of the others by an interval that excludes 0; scores are by name
    and seed."""
    gaps = [paired(scores[first], other) for name, other in scores.items() if name != first]
    return bool(gaps) and all(gap is not None and gap.sign > 0 for gap in gaps)
