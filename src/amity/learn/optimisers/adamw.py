"""AdamW."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from amity.lazy import torch
from amity.learn.optimisers.adam import MOMENTS, Beta, adaptive_step
from amity.learn.optimisers.registry import Optimiser, Tensors, Vectors, optimisers


@optimisers.register("adamw")
@dataclass(frozen=True)
class AdamW(Optimiser):
    r"""Adam whose weight decay does not pass through its scales (Loshchilov and Hutter 2019; as
    torch.optim.AdamW).

        θ ← (1 − η λ) θ;    m ← β₁ m + (1 − β₁) g;    v ← β₂ v + (1 − β₂) g²
        θ ← θ − η · m / (1 − β₁ᵗ) / (√(v / (1 − β₂ᵗ)) + ε)

    λ is `weight_decay`; the other symbols are those of `adam`. `weight_decay` = 0 is `adam`.
    """

    rate: ClassVar[float] = 0.001

    beta1: Beta = 0.9
    """β₁: how much of the mean gradient is kept from step to step."""
    beta2: Beta = 0.999
    """β₂: how much of the mean squared gradient is kept from step to step."""
    eps: Annotated[float, Field(gt=0)] = 1e-8
    """ε: added to each scale, so that none is zero."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """λ: pull towards zero, past the scales."""

    @property
    def remembers(self) -> tuple[str, ...]:
        return MOMENTS

    def step(
        self,
        parameters: Tensors,
        gradients: Tensors,
        vectors: Vectors,
        steps: Sequence[int],
        rate: float,
    ) -> None:
        adaptive_step(
            torch._fused_adamw_,
            parameters,
            gradients,
            vectors,
            steps,
            lr=rate,
            beta1=self.beta1,
            beta2=self.beta2,
            eps=self.eps,
            weight_decay=self.weight_decay,
        )
