"""Steps on the parameters of G peers at once, each for its own number of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from amity.core import Moments
from amity.learn.layout import Layout
from amity.learn.learner import Bounds, Recipe
from amity.learn.optimisers.registry import Move, Vectors
from amity.learn.stepping import STEPS, forget_outside


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
        moments: Sequence[Moments] = (),
    ) -> None:
        """`scale` is a factor on the learning rates; `tracked`: autograd shall see the leaves;
        `moments` are every peer's, where the optimiser goes on from them."""
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
        self._vectors: Vectors = {}
        self._moments, self._span = moments, layout.span(part)
        self._spread = layout.spread(part)
        self._kept = {
            name: torch.stack([mine[name] for mine in moments])
            for name in (recipe.optimiser.remembers if moments else ())
        }
        self._steps = [int(mine[STEPS]) for mine in moments] or [0] * len(theta_GP)
        """Of every peer, until its group last became smaller."""
        self._since = 0

    def go_on(self, going: int) -> None:
        """From now on only the first `going` peers step."""
        if going == self._going:
            return
        self.put_back()
        self._steps[: self._going] = self._counts()
        self._since = 0
        self._leaves = [
            slot.of(self._theta[:going]).clone().requires_grad_(on and self._tracked)
            for slot, on in zip(self._slots, self._on, strict=True)
        ]
        self._vectors = {name: self._held(name, going) for name in self._recipe.optimiser.remembers}
        self._going = going

    def _counts(self) -> list[int]:
        """Steps of those who go on."""
        return [count + self._since for count in self._steps[: self._going]]

    def _held(self, name: str, going: int) -> list[torch.Tensor | None]:
        """What the optimiser remembers of those who go on."""
        if name in self._kept:
            return [slot.of(self._kept[name][:going]).clone() for slot in self._spread]
        if name in self._vectors:
            return [None if v is None else v[:going].clone() for v in self._vectors[name]]
        return [torch.zeros_like(leaf) for leaf in self.trained]

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
        for name, matrix in self._kept.items():
            for slot, vector in zip(self._spread, self._vectors.get(name, ()), strict=False):
                if vector is not None:
                    slot.of(matrix)[: len(vector)].copy_(vector)

    def keep(self) -> None:
        """All steps are done: what is remembered goes back to where it came from."""
        self._steps[: self._going] = self._counts()
        self._since = 0
        for g, mine in enumerate(self._moments):
            mine[STEPS].fill_(self._steps[g])
            for name, matrix in self._kept.items():
                mine[name].copy_(matrix[g])
            forget_outside(mine, None if self._mask is None else self._mask[g], self._span)

    @torch.no_grad()
    def step(self, gradients: list[torch.Tensor]) -> None:
        """One step of all who go on: clipping, pull, the optimiser, and the mask."""
        recipe, leaves = self._recipe, self.trained
        if recipe.clip:
            _clip(gradients, recipe.clip)
        if self._anchor is not None:
            near = [slot.of(self._anchor[: self._going]) for slot in self._part]
            torch._foreach_add_(gradients, torch._foreach_sub(leaves, near), alpha=self._pull)
        self._since += 1
        counts = self._counts()
        for rate in sorted(set(self._rates)):
            mine = [k for k, other in enumerate(self._rates) if other == rate]
            vectors = {name: [held[k] for k in mine] for name, held in self._vectors.items()}
            moved, by = [leaves[k] for k in mine], [gradients[k] for k in mine]
            recipe.optimiser.step_rows(Move(moved, by, vectors, counts, rate))
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
