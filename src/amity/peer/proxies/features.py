"""What the body makes of the examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from amity.lazy import torch
from amity.peer.proxies.base import Proxy, Vectors
from amity.peer.proxies.registry import proxies

if TYPE_CHECKING:
    from amity.data.samples import Samples
    from amity.learn.learner import Learner


@proxies.register("feature_mean")
@dataclass(frozen=True)
class FeatureMean(Proxy):
    """Mean input of the head over the local data, at my own model before training."""

    def of(self, at: Vectors, data: Samples, learner: Learner) -> torch.Tensor:
        return learner.mean_feature(at.start, data)


@proxies.register("feature_mean_centered")
@dataclass(frozen=True)
class CenteredFeatureMean(FeatureMean):
    """As `feature_mean`, minus its mean over the cards that the asker knows."""

    centered = True
