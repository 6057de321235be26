"""What a sweep tried, and what it chose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from amity.differences import Difference, paired
from amity.tasks import ACCURACY, Metric

if TYPE_CHECKING:
    from amity.lab.result import Result

ChosenOn = Literal["validation", "test"]
KEYS: Mapping[ChosenOn, str] = {"validation": "lead_validation", "test": "lead"}


def scores(runs: Sequence[Result], chosen_on: ChosenOn) -> dict[int, float]:
    """By seed: the metric that is chosen by, mean over peers in the last round."""
    found = {run.config.seed: list(run.final(KEYS[chosen_on]).values()) for run in runs}
    return {seed: sum(values) / len(values) for seed, values in found.items() if values}


@dataclass(frozen=True)
class Tried:
    """One point of a strategy's grid, and how it did."""

    label: str
    strategy: str
    values: Mapping[str, Any]
    by_seed: Mapping[int, float]
    """Of the metric that is chosen by."""
    metric: Metric = ACCURACY

    @property
    def score(self) -> float:
        """Its mean; the worst that there is if no run has ended."""
        found = self.by_seed.values()
        return sum(found) / len(found) if found else -self.metric.sign * float("inf")

    @property
    def rank(self) -> float:
        """The same, so that more is better."""
        return self.metric.sign * self.score


@dataclass(frozen=True)
class Tries:
    """All points that were tried, and by what the best were chosen."""

    tries: Sequence[Tried]
    chosen_on: ChosenOn
    """`validation` if the partition sets some examples aside, else `test`, which flatters every
    strategy alike."""

    @cached_property
    def by_strategy(self) -> dict[str, list[Tried]]:
        found: dict[str, list[Tried]] = {}
        for one in self.tries:
            found.setdefault(one.strategy, []).append(one)
        return found

    @cached_property
    def best(self) -> dict[str, Tried]:
        """Of each strategy the try with the best score."""
        return {
            name: max(tries, key=lambda one: round(one.rank, 12))  # of equal ones the first
            for name, tries in self.by_strategy.items()
        }

    def ahead(self, strategy: str) -> tuple[Tried, Difference | None] | None:
        """The second best try of a strategy, and by how many points the best is ahead of it, paired
        by seed; None if there is no second."""
        best = self.best[strategy]
        others = [one for one in self.by_strategy[strategy] if one is not best and one.by_seed]
        if not others:
            return None
        second, unit = max(others, key=lambda one: one.rank), best.metric.factor
        ours, theirs = (
            {seed: best.metric.sign * unit * value for seed, value in one.by_seed.items()}
            for one in (best, second)
        )
        found = paired(ours, theirs)
        return second, found and replace(found, fine=best.metric.unit != "%")

    @property
    def warning(self) -> str:
        """What is to be said of the choice; empty: nothing."""
        if self.chosen_on == "validation":
            return ""
        return (
            "chosen on the test set, which flatters; set partition.validation=0.2 to choose on"
            " held-out data"
        )
