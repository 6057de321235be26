"""What a number is that peers are judged by: its name, which way is better, its unit.

It loads nothing else, so that who only reads records need not load what trains.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Metric:
    """How good answers are, as one number."""

    name: str
    title: str = ""
    """What people call it; empty: its name."""
    more: bool = True
    """Whether more is better."""
    unit: str = "%"
    """`%`: a share, which is shown in percent and its differences in points; else that of the
    number itself (empty: none)."""
    field: str = "score"
    """Under which name records have it."""

    @property
    def called(self) -> str:
        return self.title or self.name

    @property
    def factor(self) -> int:
        """What a value is multiplied by to be shown."""
        return 100 if self.unit == "%" else 1

    @property
    def head(self) -> str:
        """As the head of a column or the name of an axis: `accuracy (%)`."""
        return f"{self.called} ({self.unit})" if self.unit else self.called

    @property
    def apart(self) -> str:
        """The unit of a difference: `points`, or that of the number itself."""
        return "points" if self.unit == "%" else self.unit

    @property
    def sign(self) -> int:
        """1 if more is better, else -1."""
        return 1 if self.more else -1

    def number(self, value: float, sign: str = "") -> str:
        """A value as people read it, without its unit: `81.2`; `sign` is `+` for a difference."""
        if self.unit == "%":
            return f"{self.factor * value:{sign}.1f}"
        return f"{value:{sign}.4g}"

    def text(self, value: float) -> str:
        """With its unit: `81.2 %`, `3.421 °C`."""
        return f"{self.number(value)} {self.unit}".strip()

    def gain(self, mine: float, other: float) -> float:
        """By how much a value is better than another; below 0: worse."""
        return self.sign * (mine - other)

    def best(self, values: Any) -> float:
        """The best of several; those that are no numbers do not count."""
        sound = [float(value) for value in values if math.isfinite(value)]
        return self.sign * max(self.sign * value for value in sound) if sound else math.nan


ACCURACY = Metric("accuracy", field="accuracy")
"""The metric of the default task."""
