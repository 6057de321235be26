"""How much worse than the best is a strategy that does not know which world it lives in?

The *gap* of a strategy in a world is the accuracy of the best rival there minus its own, both means
over seeds. The strategy itself is not among the rivals that it is compared with, so that a gap may
be negative: then it is better than all of them. Its *regret* is the gap, and 0 where that is
negative. The best rival of a world is found by its mean on the same seeds. That flatters it a
little, and so overstates every regret.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from amity.differences import Difference, paired
from amity.rng import rng

BySeed = Mapping[int, float]
"""Accuracies in percent."""
Finals = Mapping[int, Sequence[float | None]]
"""By seed: the accuracy of every peer in the end, as a share; none for attackers."""
DRAWS = 2000
"""Of the bootstrap."""
HARM = 0.02
"""A peer is much harmed if it ends by more than this below training alone. In the tables of a
comparison it is harmed wherever it ends below that."""
CLOSE = 1e-9


@dataclass(frozen=True, kw_only=True)
class Gap:
    """How far a strategy is behind the best rival of one world."""

    world: str
    best: str
    """That rival."""
    behind: Difference
    by_seed: BySeed
    """The same in every seed."""

    @property
    def regret(self) -> float:
        return max(0.0, self.behind.mean)


def gap_of(
    world: str, row: str, accuracies: Mapping[str, BySeed], rivals: Sequence[str]
) -> Gap | None:
    """Of one strategy in one world, whose accuracies are given by strategy; over the seeds that all
    of them have. None if there is nothing to compare."""
    others = [name for name in rivals if name != row and accuracies.get(name)]
    if not others or not accuracies.get(row):
        return None
    seeds = set(accuracies[row]).intersection(*(accuracies[name] for name in others))
    if not seeds:
        return None
    best = max(others, key=lambda name: np.mean([accuracies[name][seed] for seed in seeds]))
    by_seed = {seed: accuracies[best][seed] - accuracies[row][seed] for seed in sorted(seeds)}
    behind = paired(by_seed, dict.fromkeys(by_seed, 0.0))
    return None if behind is None else Gap(world=world, best=best, behind=behind, by_seed=by_seed)


@dataclass(frozen=True, kw_only=True)
class Regret:
    """A strategy over all worlds: points."""

    row: str
    gaps: tuple[Gap, ...]

    @property
    def mean(self) -> float:
        return float(np.mean([gap.regret for gap in self.gaps]))

    @property
    def worst(self) -> Gap:
        return max(self.gaps, key=lambda gap: gap.behind.mean)

    @property
    def mean_gap(self) -> float:
        """With the worlds in which it is ahead."""
        return float(np.mean([gap.behind.mean for gap in self.gaps]))

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % of the mean regret, by drawing seeds anew; None where a world has one seed only."""
        if any(len(gap.by_seed) < 2 for gap in self.gaps):
            return None
        draw, total = rng(0, "regret", self.row), np.zeros(DRAWS)
        for gap in self.gaps:
            values = np.array(list(gap.by_seed.values()))
            chosen = draw.integers(len(values), size=(DRAWS, len(values)))
            total += values[chosen].mean(1).clip(0)
        low, high = np.percentile(total / len(self.gaps), (2.5, 97.5))
        return float(low), float(high)


def much_harmed(mine: Finals, alone: Finals) -> float | None:
    """The share of peers, over all seeds, that end more than two points below training alone."""
    lost = [
        before - after > HARM + CLOSE
        for seed in mine.keys() & alone.keys()
        for after, before in zip(mine[seed], alone[seed], strict=True)
        if after is not None and before is not None
    ]
    return float(np.mean(lost)) if lost else None


ALONE, EVERYONE, FRIENDS, ANYONE = "stay alone", "everyone", "friends", "anyone"
UNKNOWN = "open"
"""The intervals do not tell. One seed never does."""


def what_pays(everyone: Difference, friends: Difference, apart: Difference) -> str:
    """Which company pays in a world: from the gain of taking everyone over training alone, that of
    taking true friends, and friends minus everyone. Nothing is claimed unless an interval excludes
    0: friends pay if they are better than alone and than everyone, everyone likewise; `anyone` if
    both are better than alone, whichever is better; alone if both are worse."""
    match everyone.sign, friends.sign, apart.sign:
        case (_, 1, 1):
            return FRIENDS
        case (1, _, -1):
            return EVERYONE
        case (1, 1, _):
            return ANYONE
        case (-1, -1, _):
            return ALONE
        case _:
            return UNKNOWN
