"""SGD with momentum: the default."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

from pydantic import Field

from amity.lazy import torch
from amity.learn.optimisers.registry import Move, Optimiser, optimisers


@cache
def _fused() -> Callable[..., Any]:
    """torch's own step. torch.optim.SGD does the same with half a millisecond of bookkeeping around
    it."""
    from torch.optim.sgd import sgd

    return sgd


@optimisers.register("sgd")
@dataclass(frozen=True)
class Sgd(Optimiser):
    r"""Down the gradient, with momentum (as torch.optim.SGD).

        g ← g + λ θ;    m ← μ m + g;    θ ← θ − η m

    μ is `momentum` (0: plain SGD, nothing is remembered), λ is `weight_decay`, η is `train.lr`.
    """

    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """μ: how much of the last step is kept; 0: none."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """λ: pull towards zero (L2), on all parameters that are trained."""

    @property
    def remembers(self) -> tuple[str, ...]:
        return ("momentum",) if self.momentum else ()

    def step(self, move: Move) -> None:
        _fused()(
            move.parameters,
            move.gradients,
            move.vectors["momentum"] if self.momentum else [None] * len(move.parameters),
            fused=True,
            weight_decay=self.weight_decay,
            momentum=self.momentum,
            lr=move.rate,
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )

    def step_rows(self, move: Move) -> None:
        """Counts do not matter here, so all rows step as one."""
        parameters, gradients = move.parameters, move.gradients
        if self.weight_decay:
            torch._foreach_add_(gradients, parameters, alpha=self.weight_decay)
        if self.momentum:
            momenta = [m for m in move.vectors["momentum"] if m is not None]
            torch._foreach_mul_(momenta, self.momentum)
            torch._foreach_add_(momenta, gradients)
            gradients = momenta
        torch._foreach_add_(parameters, gradients, alpha=-move.rate)
