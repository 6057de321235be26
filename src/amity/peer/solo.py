"""What a peer learns alone: it tells others who the peer is, and the peer whether it needs them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from amity.data.samples import Samples
from amity.lazy import torch
from amity.rng import rng
from amity.tasks import Rightness

if TYPE_CHECKING:
    from amity.learn.learner import Learner

LONGEST = 16
"""Epochs of training alone: beyond that, what peers have in common no longer grows."""
SHARE = 0.15
"""In a short run, at most this share of all epochs."""
LARGEST_BATCH = 512
"""What fits into memory with any net."""
STEPS = 64
"""Steps after which a model shows what can be learnt from few examples."""
LARGEST_SHARE = 0.4
"""But never more than this share of all epochs."""


def halves(data: Samples) -> tuple[Samples, Samples]:
    """A peer's examples in two parts of one size."""
    half = len(data) // 2
    one, other = data.index[:half], data.index[half : 2 * half]
    return Samples(data.pixels, one), Samples(data.pixels, other)


def nothing_known() -> torch.Tensor:
    """Where it is written down how often a peer alone is right, and how often chance is, before
    anybody knows."""
    return torch.full((2,), math.nan, dtype=torch.float64)


@dataclass(frozen=True)
class Solo:
    """Two models, each trained from the initial one on one half of a peer's examples. How right
    each is on the other half is found at the same time, and written down."""

    data: Samples
    initial: torch.Tensor
    learner: Learner
    planned: int
    """Epochs that a peer trains in the whole run: what may be spent is measured by it. 0 spends
    nothing."""
    found: torch.Tensor = field(default_factory=nothing_known)
    """How often it is right, in memory that all processes of a run share."""

    @property
    def epochs(self) -> int:
        """How long each trains before it is shown."""
        return min(LONGEST, max(2, round(SHARE * self.planned))) if self.planned else 0

    @property
    def further_epochs(self) -> int:
        """How much longer each trains before it is tried, with batches of half the usual size:
        where examples are few, an epoch is a step or two, and models know nothing yet."""
        half, batch = len(self.data) // 2, self._batch
        if not self.planned or not half:
            return 0
        done = self.epochs * math.ceil(half / batch)
        needed = math.ceil((STEPS - done) / math.ceil(half / self._small))
        return max(0, min(needed, round(LARGEST_SHARE * self.planned) - self.epochs))

    def models(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The model of each half. It trains them."""
        one, other = halves(self.data)
        first = self._fit(self.initial, one, self.epochs, self._batch)
        second = self._fit(self.initial, other, self.epochs, self._batch)
        if len(one):
            tried = (self._try(first, one, other), self._try(second, other, one))
            self.found[0] = sum(one.right for one in tried) / 2
            self.found[1] = sum(one.chance for one in tried) / 2
        return first, second

    def right(self) -> Rightness:
        """How right the model of one half, trained further, is on the other half."""
        if not bool(self.found.isfinite().all()) and len(self.data) > 1:
            self.models()
        share, chance = self.found.tolist()
        return Rightness(share, 1, chance)

    @property
    def _batch(self) -> int:
        """Two equal steps an epoch, whatever the usual batch is: the larger batches are, the less
        of what is shown is the chance of their order."""
        return max(1, min(LARGEST_BATCH, math.ceil(len(self.data) // 2 / 2)))

    @property
    def _small(self) -> int:
        return max(1, min(self._batch, self.learner.recipe.batch // 2))

    def _fit(self, theta: torch.Tensor, part: Samples, epochs: int, batch: int) -> torch.Tensor:
        """The order of examples is the same for all."""
        return self.learner.fit(theta, part, rng(0, "solo"), epochs, batch=batch).theta

    def _try(self, theta: torch.Tensor, part: Samples, rest: Samples) -> Rightness:
        theta = self._fit(theta, part, self.further_epochs, self._small)
        (x, y), learner = rest.pixels.batch(rest.index), self.learner
        learner.forward_examples += len(rest)
        return learner.task.right(learner.outputs(theta, x), y, learner.target)
