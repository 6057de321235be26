"""From what is published: 0 wherever a method offers nothing, so that a card tells nothing that the
model of the same round does not.

With `method=head` the head is 0 in all of them (and `head_update` says nothing at all), with Ditto
they follow the shared model and never the personal one, with Dis-PFL a coordinate counts where it
is offered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from amity.core import Share
from amity.lazy import torch
from amity.peer.proxies.base import Proxy, Vectors
from amity.peer.proxies.registry import proxies

if TYPE_CHECKING:
    from amity.data.samples import Samples
    from amity.learn.learner import Learner


def moved(after: Share, before: Share, part: slice) -> torch.Tensor:
    """What has changed in a part, and 0 wherever one of the two is not offered to others."""
    change = after.theta[part] - before.theta[part]
    for mask in (after.mask, before.mask):
        if mask is not None:
            change = torch.where(mask[part], change, 0.0)
    return change


class _Published(Proxy):
    needs_examples = False
    of_published = True


@proxies.register("body_drift")
@dataclass(frozen=True)
class BodyDrift(_Published):
    """All but the head, as published, minus the initial one: how the features have changed."""

    def of(self, at: Vectors, data: Samples, learner: Learner) -> torch.Tensor:
        return moved(at.shared, Share(at.initial), learner.layout.shown)


@proxies.register("model_drift")
@dataclass(frozen=True)
class ModelDrift(_Published):
    """The whole model, as published, minus the initial one."""

    def of(self, at: Vectors, data: Samples, learner: Learner) -> torch.Tensor:
        return moved(at.shared, Share(at.initial), learner.layout.everything)


@proxies.register("update")
@dataclass(frozen=True)
class ModelUpdate(_Published):
    """The whole model, as published, minus that of the round's start."""

    def of(self, at: Vectors, data: Samples, learner: Learner) -> torch.Tensor:
        return moved(at.shared, at.shared_start, learner.layout.everything)


@proxies.register("head_update")
@dataclass(frozen=True)
class HeadUpdate(_Published):
    """The head, as published, minus that of the round's start; tells the labels."""

    of_head = True

    def of(self, at: Vectors, data: Samples, learner: Learner) -> torch.Tensor:
        return moved(at.shared, at.shared_start, learner.layout.head)
