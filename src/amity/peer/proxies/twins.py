"""What a peer's data makes of a model, told twice: so that others can see how far to trust it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from amity.data.samples import Samples
from amity.lazy import torch
from amity.peer.proxies.base import Proxy, Vectors
from amity.peer.proxies.registry import proxies
from amity.rng import rng

if TYPE_CHECKING:
    from amity.learn.learner import Learner

LONGEST = 16
"""Epochs of training alone: beyond that, what peers have in common no longer grows."""
SHARE = 0.15
"""In a short run, at most this share of all epochs."""


def solo_epochs(planned: int) -> int:
    """How long a peer trains alone to know itself, given how long it trains in the whole run."""
    return min(LONGEST, max(2, round(SHARE * planned))) if planned else 0


def halves(data: Samples) -> tuple[Samples, Samples]:
    """A peer's examples in two parts of one size."""
    half = len(data) // 2
    one, other = data.index[:half], data.index[half : 2 * half]
    return Samples(data.pixels, one), Samples(data.pixels, other)


def solo(part: Samples, epochs: int, initial: torch.Tensor, learner: Learner) -> torch.Tensor:
    """A model trained alone on these examples, from the initial one. The order of examples is the
    same for all."""
    return learner.fit(initial, part, rng(0, "solo"), epochs).theta


@proxies.register("twins_body")
@dataclass(frozen=True)
class TwinBodies(Proxy):
    """As `twins`, of the body alone. It tells a little less of the labels, not nothing: `amity
    reproduce labels` measures how much, and how well each finds friends."""

    lasting = True
    whole = True
    parts = 2

    def of(self, at: Vectors, data: Samples, learner: Learner) -> torch.Tensor:
        part, epochs = self.part(at, learner), solo_epochs(at.planned)
        drifts = [
            (solo(half, epochs, at.initial, learner) - at.initial)[part] for half in halves(data)
        ]
        return torch.cat(drifts)

    def part(self, at: Vectors, learner: Learner) -> slice:
        """What of the model is shown."""
        return learner.layout.body


@proxies.register("twins")
@dataclass(frozen=True)
class Twins(TwinBodies):
    r"""The model after training alone, minus the initial one, for either half of my examples.

    φ = (solo(A) − w⁰, solo(B) − w⁰), where A and B are the halves and solo trains the initial model
    for some epochs. Two peers with the same distribution do not have equal drifts, because their
    examples differ. But two halves of one peer differ as much. So whoever sees both halves can tell
    how much of a difference is chance: see `Likeness`. It is computed once. Where a method keeps
    the head to itself, the card shows the body alone.
    """

    def part(self, at: Vectors, learner: Learner) -> slice:
        layout, mask = learner.layout, at.shared.mask
        kept = mask is not None and not bool(mask[layout.head].any())
        return layout.body if kept else layout.everything
