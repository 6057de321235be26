"""When a run ends before its last round: no better on validation examples for too long.

What ends it is a function of the records of its rounds and of nothing else. So a run that was
killed and continued ends in the same round, and so does one with any number of workers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from amity.config import Stop
from amity.core import PeerId
from amity.data.samples import PeerData
from amity.errors import ConfigError
from amity.records import PeerRecord, RoundRecord

FIELDS: Mapping[str, Callable[[PeerRecord], float | None]] = {
    "accuracy": lambda record: record.lead("validation"),
    "loss": lambda record: record.loss_validation,
}


def refuse_blind(stop: Stop, data: Mapping[PeerId, PeerData]) -> None:
    """Refuse to judge where no peer has a validation example, however large their share."""
    if stop.patience and not any(len(mine.validation) for mine in data.values()):
        raise ConfigError(
            "stop.patience: nobody has enough examples to set one aside for validation; raise"
            " partition.validation or partition.samples"
        )


def judged_by(stop: Stop, honest: Iterable[PeerRecord]) -> float | None:
    """What is judged in a round, mean over peers; None: nothing was measured."""
    if not stop.patience:
        return None
    values = [value for r in honest if (value := FIELDS[stop.metric](r)) is not None]
    return math.fsum(values) / len(values) if values else None


@dataclass
class Stopping:
    """Looks at one round after the other."""

    stop: Stop
    more: bool = True
    """Whether more is better of the metric that leads, for which `accuracy` stands."""
    best: float = math.nan
    at: int = -1
    """The round of the best value; −1: before the first."""

    def recall(self, rounds: Iterable[RoundRecord]) -> None:
        """Know what the rounds so far have brought, and nothing else."""
        self.best, self.at = math.nan, -1
        for record in rounds:
            self.verdict(record)

    def verdict(self, record: RoundRecord) -> str | None:
        """Why the run ends with this round; None: it goes on."""
        value = record.validation
        if value is None:
            return None
        if self._better(value):
            self.best, self.at = value, record.round
        waited = record.round - self.at
        if waited < self.stop.patience or record.round + 1 < self.stop.after:
            return None
        best = f"in round {self.at + 1} ({self.best:.4g})" if self.at >= 0 else "before the first"
        return (
            f"{self.stop.metric} on validation examples is no better than {best},"
            f" stop.patience={self.stop.patience}"
        )

    def _better(self, value: float) -> bool:
        if not math.isfinite(value):
            return False
        sign = 1 if self.stop.metric == "accuracy" and self.more else -1
        return math.isnan(self.best) or sign * (value - self.best) > self.stop.margin
