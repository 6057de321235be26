"""What a peer's data makes of a model, told twice: so that others can see how far to trust it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from amity.lazy import torch
from amity.peer.proxies.base import Proxy, Vectors
from amity.peer.proxies.registry import proxies

if TYPE_CHECKING:
    from amity.data.samples import Samples
    from amity.learn.learner import Learner


@proxies.register("twins_body")
@dataclass(frozen=True)
class TwinBodies(Proxy):
    """As `twins`, of the body alone. It tells a little less of the labels, not nothing: `amity
    reproduce labels` measures how much, and how well each finds friends."""

    lasting = True
    whole = True
    parts = 2

    def of(self, at: Vectors, data: Samples, learner: Learner) -> torch.Tensor:
        part, solo = self.part(at, learner), at.solo
        pair = (at.initial, at.initial) if solo is None else solo.models()
        return torch.cat([(one - at.initial)[part] for one in pair])

    def part(self, at: Vectors, learner: Learner) -> slice:
        """What of the model is shown."""
        return learner.layout.shown


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
