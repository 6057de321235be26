"""SGD on the parameters of G peers at once, each for its own number of steps."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from amity.learn.layout import Layout
from amity.learn.learner import Bounds, Recipe


class Descent:
    """Rows of theta_GP on their way down. Peers stand in falling order of their steps, so those who
    still go on are always the first rows; what is trained of them lies in `leaves`, slot by slot.
    """

    def __init__(
        self,
        theta_GP: torch.Tensor,
        layout: Layout,
        recipe: Recipe,
        *,
        part: slice,
        scale: float,
        bounds: Sequence[Bounds],
        tracked: bool,
    ) -> None:
        """`scale` is a factor on the learning rates; `tracked`: autograd shall see the leaves."""
        self._theta, self._recipe, self._tracked = theta_GP, recipe, tracked
        self._slots = layout.slots
        self._on = [part.start <= slot.start < part.stop for slot in self._slots]
        self._part = [slot for slot, on in zip(self._slots, self._on, strict=True) if on]
        at_head = [slot.start >= layout.head.start for slot in self._part]
        self._rates = [(recipe.lr_head if head else recipe.lr) * scale for head in at_head]
        self._anchor = _stacked([bound.anchor for bound in bounds]) if bounds[0].pull else None
        self._mask, self._pull = _stacked([bound.mask for bound in bounds]), bounds[0].pull
        self._going = 0
        self._leaves: list[torch.Tensor] = []
        self._momenta: list[torch.Tensor] = []

    def go_on(self, going: int) -> None:
        """From now on only the first `going` peers step."""
        if going == self._going:
            return
        self.put_back()
        self._leaves = [
            slot.of(self._theta[:going]).clone().requires_grad_(on and self._tracked)
            for slot, on in zip(self._slots, self._on, strict=True)
        ]
        if self._momenta:
            self._momenta = [momentum[:going].clone() for momentum in self._momenta]
        else:
            self._momenta = [torch.zeros_like(leaf) for leaf in self.trained]
        self._going = going

    @property
    def parameters(self) -> dict[str, torch.Tensor]:
        """All parameters of those who go on, by name."""
        return {slot.name: leaf for slot, leaf in zip(self._slots, self._leaves, strict=True)}

    @property
    def trained(self) -> list[torch.Tensor]:
        """Those that are trained."""
        return [leaf for leaf, on in zip(self._leaves, self._on, strict=True) if on]

    @property
    def names(self) -> list[str]:
        """Names of those that are trained."""
        return [slot.name for slot in self._part]

    def put_back(self) -> None:
        """The leaves into their rows of theta."""
        for slot, leaf in zip(self._slots, self._leaves, strict=bool(self._leaves)):
            slot.of(self._theta)[: len(leaf)].copy_(leaf.detach())

    @torch.no_grad()
    def step(self, gradients: list[torch.Tensor]) -> None:
        """One step of all who go on: clipping, pull, weight decay, momentum, and the mask."""
        recipe, leaves = self._recipe, self.trained
        if recipe.clip:
            _clip(gradients, recipe.clip)
        if self._anchor is not None:
            near = [slot.of(self._anchor[: self._going]) for slot in self._part]
            torch._foreach_add_(gradients, torch._foreach_sub(leaves, near), alpha=self._pull)
        if recipe.weight_decay:
            torch._foreach_add_(gradients, leaves, alpha=recipe.weight_decay)
        if recipe.momentum:
            torch._foreach_mul_(self._momenta, recipe.momentum)
            torch._foreach_add_(self._momenta, gradients)
            gradients = self._momenta
        for rate in sorted(set(self._rates)):
            mine = [k for k, other in enumerate(self._rates) if other == rate]
            down = [gradients[k] for k in mine]
            torch._foreach_add_([leaves[k] for k in mine], down, alpha=-rate)
        if self._mask is not None:
            kept = [slot.of(self._mask[: self._going]).to(self._theta.dtype) for slot in self._part]
            torch._foreach_mul_(leaves, kept)


def _clip(gradients: list[torch.Tensor], bound: float) -> None:
    """Every peer's gradient to a norm of at most `bound`, in place."""
    norms = torch.stack([g.flatten(1).square().sum(1) for g in gradients]).sum(0).sqrt()
    factor = (bound / (norms + 1e-6)).clamp_max(1)
    for g in gradients:
        g.mul_(factor.view(-1, *[1] * (g.dim() - 1)))


def _stacked(vectors: Sequence[torch.Tensor | None]) -> torch.Tensor | None:
    """Vectors of all peers as one matrix, where they have any."""
    there = [vector for vector in vectors if vector is not None]
    return torch.stack(there) if len(there) == len(vectors) else None
