r"""Proxies φ: what a peer lets others see of its data distribution, and the sketch that makes them
small.

| name | φ_i | needs |
|---|---|---|
| `grad` | ∇ of the mean local loss by the proxy layer, at (w_i, β_i) before training | one pass |
| `grad_asker` | the same at the asker's model, by the fact `Probe` | a model transfer |
| `grad_ref` | the same at a fixed common point, the initial model | one pass, once |
| `delta` | proxy layer after local training minus before | nothing |
| `feature_mean` | mean input of the head over the local data | one forward pass |
| `feature_mean_centered` | as above, minus its mean over the cards known | one forward pass |
| `weight` | the proxy layer itself (almost the same for everyone) | nothing |
| `head_drift` | head after training minus the initial head; **tells the labels** | nothing |
| `body_drift` | all but the head, as published, minus the initial one | nothing |
| `model_drift` | the model as published minus the initial one | nothing |
| `update` | the model as published minus that of the round's start | nothing |
| `head_update` | the head of `update`: what this round taught it | nothing |

`grad` is line 11 of Algorithm 1; `grad_asker` is its line 6, with the neighbour's own head.
`weight` is for ablations, `head_drift` a strong signal.

A proxy is one entry of `PROXIES`: a function, and what the rest of the program must know of it.

CountSketch: coordinate k of φ is added with sign s(k) to bin h(k). It is linear and keeps inner
products in expectation, with a standard deviation of about ‖φ‖‖φ'‖/√d for d bins. The hashes are
the same for all peers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from amity.core import Share
from amity.data.samples import Samples
from amity.lazy import torch
from amity.rng import rng

if TYPE_CHECKING:
    from amity.learn.learner import Learner


@dataclass(frozen=True)
class Vectors:
    """One peer's models around its local training, and the common initial model."""

    start: torch.Tensor
    trained: torch.Tensor
    initial: torch.Tensor
    shared: Share
    """The trained model as others may have it: without what the method keeps, with the noise of
    private uploads."""
    shared_start: Share
    """The same of `start`."""


@dataclass(frozen=True, kw_only=True)
class Proxy:
    """How φ is computed, and what follows from that for those who use it."""

    of: Callable[[Vectors, Samples, Learner], torch.Tensor]
    """φ of one peer, whole."""
    needs_examples: bool = True
    """Whether it looks at examples. If not, it follows from models alone, and private training
    covers it."""
    of_published: bool = False
    """Whether it follows from what is published anyway, so that private uploads cover it too."""
    lasting: bool = False
    """Whether it is the same in all rounds, so that it is computed and paid for once."""
    centered: bool = False
    """Whether the asker subtracts the mean over the cards that it knows."""
    probed: bool = False
    """Whether a `Probe` or a `Visit` tells the same, at a guest's model."""
    at_asker: bool = False
    """Whether it is meant at the asker's model, so that only a `Probe` tells it."""


def _gradient(at: Vectors, data: Samples, learner: Learner) -> torch.Tensor:
    return learner.gradient(at.start, data, learner.layout.proxy)[0]


def _gradient_at_initial(at: Vectors, data: Samples, learner: Learner) -> torch.Tensor:
    return learner.gradient(at.initial, data, learner.layout.proxy)[0]


def _delta(at: Vectors, _data: Samples, learner: Learner) -> torch.Tensor:
    return at.trained[learner.layout.proxy] - at.start[learner.layout.proxy]


def _mean_feature(at: Vectors, data: Samples, learner: Learner) -> torch.Tensor:
    return learner.mean_feature(at.start, data)


def _weight(at: Vectors, _data: Samples, learner: Learner) -> torch.Tensor:
    return at.trained[learner.layout.proxy].clone()


def _head_drift(at: Vectors, _data: Samples, learner: Learner) -> torch.Tensor:
    return at.trained[learner.layout.head] - at.initial[learner.layout.head]


def _moved(after: Share, before: Share, part: slice) -> torch.Tensor:
    """What has changed in a part, and 0 wherever one of the two is not offered to others."""
    change = after.theta[part] - before.theta[part]
    for mask in (after.mask, before.mask):
        if mask is not None:
            change = torch.where(mask[part], change, 0.0)
    return change


def _body_drift(at: Vectors, _data: Samples, learner: Learner) -> torch.Tensor:
    return _moved(at.shared, Share(at.initial), learner.layout.body)


def _model_drift(at: Vectors, _data: Samples, learner: Learner) -> torch.Tensor:
    return _moved(at.shared, Share(at.initial), learner.layout.everything)


def _update(at: Vectors, _data: Samples, learner: Learner) -> torch.Tensor:
    return _moved(at.shared, at.shared_start, learner.layout.everything)


def _head_update(at: Vectors, _data: Samples, learner: Learner) -> torch.Tensor:
    return _moved(at.shared, at.shared_start, learner.layout.head)


PROXIES: Mapping[str, Proxy] = {
    "grad": Proxy(of=_gradient, probed=True),
    "grad_asker": Proxy(of=_gradient, probed=True, at_asker=True),
    "grad_ref": Proxy(of=_gradient_at_initial, lasting=True),
    "delta": Proxy(of=_delta, needs_examples=False),
    "feature_mean": Proxy(of=_mean_feature),
    "feature_mean_centered": Proxy(of=_mean_feature, centered=True),
    "weight": Proxy(of=_weight, needs_examples=False),
    "head_drift": Proxy(of=_head_drift, needs_examples=False),
    "body_drift": Proxy(of=_body_drift, needs_examples=False, of_published=True),
    "model_drift": Proxy(of=_model_drift, needs_examples=False, of_published=True),
    "update": Proxy(of=_update, needs_examples=False, of_published=True),
    "head_update": Proxy(of=_head_update, needs_examples=False, of_published=True),
}

if TYPE_CHECKING:
    ProxyName = str
else:
    ProxyName = Literal[tuple(PROXIES)]
    """An option that names a proxy is checked against the table, and `amity list` shows it."""


@dataclass(frozen=True)
class CardSpec:
    """Which proxy goes onto the card, and in how many numbers (0: whole)."""

    proxy: ProxyName
    sketch: int

    @property
    def kind(self) -> Proxy:
        """The proxy's entry."""
        return PROXIES[self.proxy]

    @property
    def lasting(self) -> bool:
        """Whether a peer's card is the same in all rounds."""
        return self.kind.lasting

    def numbers(self, length: int) -> int:
        """How many numbers a card has for a φ of this length."""
        return self.sketch if 0 < self.sketch < length else length


class Sketcher:
    """CountSketch with hashes that depend on nothing but (seed, length of φ, number of bins)."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._hashes: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}

    def __call__(self, phi: torch.Tensor, bins: int) -> torch.Tensor:
        if not bins or bins >= len(phi):
            return phi.clone()
        key = (len(phi), bins)
        if key not in self._hashes:
            draw = rng(self._seed, "sketch", *key)
            where = draw.integers(bins, size=len(phi))
            sign = draw.integers(2, size=len(phi)) * 2 - 1
            self._hashes[key] = (
                torch.from_numpy(where).to(phi.device),
                torch.from_numpy(sign.astype(np.float32)).to(phi.device),
            )
        where_bins, signs = self._hashes[key]
        return torch.zeros(bins, device=phi.device).index_add_(0, where_bins, phi * signs)
