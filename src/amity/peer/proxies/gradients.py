"""Gradients of the loss by the proxy layer: the paper's proxy, and where else it can be taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from amity.lazy import torch
from amity.peer.proxies.base import Proxy, Vectors
from amity.peer.proxies.registry import proxies

if TYPE_CHECKING:
    from amity.data.samples import Samples
    from amity.learn.learner import Learner


@proxies.register("grad")
@dataclass(frozen=True)
class GradientAtStart(Proxy):
    """∇ of the mean local loss by the proxy layer, at my own model before training."""

    probed = True

    def of(self, at: Vectors, data: Samples, learner: Learner) -> torch.Tensor:
        return learner.gradient(at.start, data, learner.layout.proxy)[0]


@proxies.register("grad_asker")
@dataclass(frozen=True)
class GradientAtAsker(GradientAtStart):
    """As `grad` at the asker's model, which travels to be measured (the fact `Probe`)."""

    at_asker = True


@proxies.register("grad_ref")
@dataclass(frozen=True)
class GradientAtInitial(Proxy):
    """As `grad` at the common initial model: computed and paid for once."""

    lasting = True

    def of(self, at: Vectors, data: Samples, learner: Learner) -> torch.Tensor:
        return learner.gradient(at.initial, data, learner.layout.proxy)[0]
