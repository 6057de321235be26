"""The optimiser of one fit, on the parameters of a module; and what it leaves to the next round's.

What an optimiser remembers is kept as vectors over the span of a fit's part, and a number of steps.
They are written in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from amity.core import Moments
from amity.learn.layout import Layout, Slot
from amity.learn.optimisers import Optimiser
from amity.learn.optimisers.registry import Move, Vectors

STEPS = "steps"
"""Beside what an optimiser remembers: how many steps it has done."""


def kept_of(optimiser: Optimiser, layout: Layout, part: slice) -> dict[str, int]:
    """What is kept of a fit: the length of each vector, one number for the steps."""
    span = layout.span(part)
    return {**dict.fromkeys(optimiser.remembers, max(1, span.stop - span.start)), STEPS: 1}


@torch.no_grad()
def forget_outside(moments: Moments, mask: torch.Tensor | None, span: slice) -> None:
    """Coordinates outside of a mask are remembered as zeros, so that one that enters it later
    begins anew."""
    for name, vector in moments.items() if mask is not None else ():
        if mask is not None and name != STEPS:
            vector.mul_(mask[span])


@dataclass(frozen=True)
class Kept:
    """What is kept of one fit, by parameter."""

    moments: Moments
    slots: Mapping[nn.Parameter, Slot]

    def of(self, name: str, parameter: nn.Parameter) -> torch.Tensor:
        return self.slots[parameter].of(self.moments[name])


class Stepper:
    """Steps on parameters in groups, each with its learning rate."""

    def __init__(
        self,
        optimiser: Optimiser,
        groups: Sequence[tuple[list[nn.Parameter], float]],
        kept: Kept | None = None,
    ) -> None:
        self._optimiser, self._groups, self._kept = optimiser, list(groups), kept
        self._vectors: list[Vectors] | None = None
        self._steps = 0 if kept is None else int(kept.moments[STEPS])

    @torch.no_grad()
    def step(self) -> None:
        """Take the gradients in, and let go of them."""
        if self._vectors is None:
            self._vectors = self._begin()
        self._steps += 1
        for (parameters, rate), vectors in zip(self._groups, self._vectors, strict=True):
            gradients = [p.grad for p in parameters if p.grad is not None]
            counts = [self._steps] * len(parameters)
            self._optimiser.step(Move(list(parameters), gradients, vectors, counts, rate))
            for parameter in parameters:
                parameter.grad = None

    def _begin(self) -> list[Vectors]:
        """Parameters that the loss does not depend on are left alone."""
        used = [([p for p in group if p.grad is not None], rate) for group, rate in self._groups]
        self._groups = [(parameters, rate) for parameters, rate in used if parameters]
        names = self._optimiser.remembers
        return [{name: [self._held(name, p) for p in ps] for name in names} for ps, _ in used if ps]

    def _held(self, name: str, parameter: nn.Parameter) -> torch.Tensor | None:
        if self._kept is None:
            return None
        return torch.empty_like(parameter).copy_(self._kept.of(name, parameter))

    @torch.no_grad()
    def keep(self) -> None:
        """Write down what there is to keep."""
        if self._kept is None or self._vectors is None:
            return
        self._kept.moments[STEPS].fill_(self._steps)
        for (parameters, _), vectors in zip(self._groups, self._vectors, strict=True):
            for name, held in vectors.items():
                for parameter, vector in zip(parameters, held, strict=True):
                    if vector is not None:
                        self._kept.of(name, parameter).copy_(vector)
