"""AdamW."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from amity.lazy import torch
from amity.learn.optimisers.adam import Adam
from amity.learn.optimisers.registry import optimisers


@optimisers.register("adamw")
@dataclass(frozen=True)
class AdamW(Adam):
    r"""Adam whose weight decay does not pass through its scales (Loshchilov and Hutter 2019; as
    torch.optim.AdamW).

        θ ← (1 − η λ) θ;    m ← β₁ m + (1 − β₁) g;    v ← β₂ v + (1 − β₂) g²
        θ ← θ − η · m / (1 − β₁ᵗ) / (√(v / (1 − β₂ᵗ)) + ε)

    λ is `weight_decay`; the other symbols are those of `adam`. `weight_decay` = 0 is `adam`.
    """

    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """λ: pull towards zero, past the scales."""

    @property
    def kernel(self) -> Callable[..., Any]:
        return torch._fused_adamw_
