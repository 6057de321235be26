r"""Proxies φ: what a peer lets others see of its data distribution, and the sketch that makes them
small.

| name | φ_i | needs |
|---|---|---|
| `grad` | ∇ of the mean local loss by the proxy layer, at (w_i, β_i) before training (Alg. 1, line 11) | one pass |
| `grad_asker` | the same at the asker's model with the neighbour's head (line 6): the fact `Probe` | a model transfer |
| `grad_ref` | the same at a fixed common point, the initial model | one pass, once |
| `delta` | proxy layer after local training minus before | nothing |
| `feature_mean` | mean input of the head over the local data | one forward pass |
| `feature_mean_centered` | as above; the asker subtracts the mean over the cards it knows | one forward pass |
| `weight` | the proxy layer itself (almost the same for everyone: for ablations) | nothing |
| `head_drift` | head after training minus the initial head: a strong signal that **tells the labels** | nothing |

CountSketch: coordinate k of φ is added with sign s(k) to bin h(k). It is linear and keeps inner
products in expectation, with a standard deviation of about ‖φ‖‖φ'‖/√d for d bins. The hashes are
the same for all peers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from amity.data.samples import Samples
from amity.lazy import torch
from amity.rng import rng

if TYPE_CHECKING:
    from amity.learn.learner import Learner

ProxyName = Literal[
    "grad",
    "grad_asker",
    "grad_ref",
    "delta",
    "feature_mean",
    "feature_mean_centered",
    "weight",
    "head_drift",
]


@dataclass(frozen=True)
class CardSpec:
    """Which proxy goes onto the card, and in how many numbers (0: whole)."""

    proxy: ProxyName
    sketch: int

    @property
    def lasting(self) -> bool:
        """Whether it never changes: it is computed and paid for once."""
        return self.proxy == "grad_ref"


@dataclass(frozen=True)
class Vectors:
    """One peer's models around its local training, and the common initial model."""

    start: torch.Tensor
    trained: torch.Tensor
    initial: torch.Tensor


def proxy_of(name: ProxyName, at: Vectors, data: Samples, learner: Learner) -> torch.Tensor:
    """φ of one peer, whole."""
    layer, head = learner.layout.proxy, learner.layout.head
    match name:
        case "grad" | "grad_asker":
            return learner.gradient(at.start, data, layer)[0]
        case "grad_ref":
            return learner.gradient(at.initial, data, layer)[0]
        case "delta":
            return at.trained[layer] - at.start[layer]
        case "feature_mean" | "feature_mean_centered":
            return learner.mean_feature(at.start, data)
        case "weight":
            return at.trained[layer].clone()
        case "head_drift":
            return at.trained[head] - at.initial[head]


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
