"""Adam."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from amity.lazy import torch
from amity.learn.optimisers.registry import Move, Optimiser, Tensors, optimisers

Beta = Annotated[float, Field(ge=0, lt=1)]
MOMENTS = ("m", "v")


def _laid_as(parameter: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """A gradient in the order in memory of its parameter, which is how a kernel reads it."""
    if gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)


def _begun(held: list[torch.Tensor | None], parameters: Tensors) -> Tensors:
    """Moments, with zeros where there are none yet."""
    out: Tensors = []
    for at, (one, parameter) in enumerate(zip(held, parameters, strict=True)):
        found = torch.zeros_like(parameter) if one is None else one
        held[at] = found
        out.append(found)
    return out


@optimisers.register("adam")
@dataclass(frozen=True)
class Adam(Optimiser):
    r"""A step for each coordinate by its own scale (Kingma and Ba 2015; as torch.optim.Adam).

        g ← g + λ θ;    m ← β₁ m + (1 − β₁) g;    v ← β₂ v + (1 − β₂) g²
        θ ← θ − η · m / (1 − β₁ᵗ) / (√(v / (1 − β₂ᵗ)) + ε)

    β₁, β₂, ε are `beta1`, `beta2`, `eps`, λ is `weight_decay`, η is `train.lr` (0.001 if nobody
    says it), t counts steps: of this round's training, or with `train.keep=true` of all rounds.
    `beta1` = 0 is RMSprop with a corrected start. With DP-SGD, g is the private gradient; its noise
    is part of v, so steps are smaller than without.
    """

    rate: ClassVar[float] = 0.001

    beta1: Beta = 0.9
    """β₁: how much of the mean gradient is kept from step to step."""
    beta2: Beta = 0.999
    """β₂: how much of the mean squared gradient is kept from step to step."""
    eps: Annotated[float, Field(gt=0)] = 1e-8
    """ε: added to each scale, so that none is zero."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """λ: pull towards zero, through the scales (L2)."""

    @property
    def remembers(self) -> tuple[str, ...]:
        return MOMENTS

    @property
    def kernel(self) -> Callable[..., Any]:
        """torch's own fused step, without the bookkeeping of torch.optim."""
        return torch._fused_adam_

    def step(self, move: Move) -> None:
        parameters, gradients, vectors, steps, rate = move
        m, v = (_begun(vectors[name], parameters) for name in MOMENTS)
        counts = {t: torch.full((), float(t), device=parameters[0].device) for t in set(steps)}
        self.kernel(
            parameters,
            [_laid_as(p, g) for p, g in zip(parameters, gradients, strict=True)],
            m,
            v,
            [],
            [counts[t] for t in steps],
            lr=rate,
            beta1=self.beta1,
            beta2=self.beta2,
            weight_decay=self.weight_decay,
            eps=self.eps,
            amsgrad=False,
            maximize=False,
        )
