"""From the peer's own models: these look at `trained`, so they show it even where the method keeps
it back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from amity.lazy import torch
from amity.peer.proxies.base import Proxy, Vectors
from amity.peer.proxies.registry import proxies

if TYPE_CHECKING:
    from amity.data.samples import Samples
    from amity.learn.learner import Learner


@proxies.register("delta")
@dataclass(frozen=True)
class LayerUpdate(Proxy):
    """The proxy layer after local training minus before."""

    needs_examples = False

    def of(self, at: Vectors, data: Samples, learner: Learner) -> torch.Tensor:
        return at.trained[learner.layout.proxy] - at.start[learner.layout.proxy]


@proxies.register("weight")
@dataclass(frozen=True)
class LayerWeight(Proxy):
    """The proxy layer itself, almost the same for everyone: for ablations."""

    needs_examples = False

    def of(self, at: Vectors, data: Samples, learner: Learner) -> torch.Tensor:
        return at.trained[learner.layout.proxy].clone()


@proxies.register("head_drift")
@dataclass(frozen=True)
class HeadDrift(Proxy):
    """The head after training minus the initial head: a strong signal that tells the labels, also
    where the method keeps the head."""

    needs_examples = False
    of_head = True

    def of(self, at: Vectors, data: Samples, learner: Learner) -> torch.Tensor:
        return at.trained[learner.layout.head] - at.initial[learner.layout.head]
