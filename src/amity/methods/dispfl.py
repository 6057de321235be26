"""Dis-PFL: every peer trains and sends its own sparse part of the model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from amity.core import Context, Fit, Gradient, Share, State, Stats, Training
from amity.lazy import torch
from amity.learn.layout import Slot
from amity.methods.registry import methods


def erk_densities(shapes: Sequence[tuple[int, ...]], density: float) -> list[float]:
    r"""Erdős-Rényi-Kernel: the density of layer l is ε·(Σ shape_l)/(Π shape_l), with ε such that
    the whole has `density`.

    Layers that would get more than 1 are dense, and ε is solved again for the rest. Small ones
    (biases) come out dense.
    """
    sizes = [math.prod(shape) for shape in shapes]
    raw = [sum(shape) / size for shape, size in zip(shapes, sizes, strict=True)]
    dense: set[int] = set()
    while True:
        rest = [at for at in range(len(shapes)) if at not in dense]
        left = density * sum(sizes) - sum(sizes[at] for at in dense)
        eps = left / sum(raw[at] * sizes[at] for at in rest) if rest else 0.0
        over = [at for at in rest if eps * raw[at] > 1]
        if not over:
            return [1.0 if at in dense else max(0.0, eps * raw[at]) for at in range(len(shapes))]
        dense |= set(over)


@methods.register("dispfl")
@dataclass(frozen=True)
class Dispfl:
    r"""Keep a personal mask m_i, train within it, and mix each coordinate over those who have it
    (Dai et al. 2022).

        init:   m_i drawn at random, each layer with its ERK density, `density` of all;
                the same for everyone with `alike`
        train:  ŵ_i = SGD(m_i ⊙ w_i; K_w epochs), m_i ⊙ after every step; then in every layer
                drop the ⌈r_t·nnz⌉ smallest |ŵ_i|, and grow as many elsewhere: where |∇F_i| of one
                batch is largest, or (`regrow` = "random", what the published scripts do) anywhere;
                r_t = `anneal`/2 · (1 + cos(πt/T))
        share:  ŵ_i within the mask, and the mask; what has just grown has no value yet and is not
                offered
        absorb: w_i^{t+1} = m_i ⊙ (Σ_j ϖ_j m_j ŵ_j) / (Σ_j ϖ_j m_j), coordinate by coordinate;
                where nobody offers one, mine
        model:  w_i^{t+1}, fine-tuned within the mask for `tune_epochs` epochs, on a copy

    Every layer keeps its number of weights. `density` = 1 is training with everything shared,
    `anneal` = 0 never changes the masks. A guest is trained within its own mask, which stays as it
    is. Bytes count the numbers sent and a bit a coordinate.
    """

    data_masks: ClassVar[bool] = True
    """Masks follow from the data, so that they tell something of it."""

    density: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Share of the weights that a mask keeps."""
    anneal: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Share of a mask that changes in the first round; it falls to 0 by a cosine. 0: masks never
    change."""
    regrow: Literal["gradient", "random"] = "gradient"
    """Where weights grow: where the gradient is largest, or anywhere."""
    alike: bool = False
    """Whether everyone starts with the same mask."""
    tune_epochs: Annotated[int, Field(ge=0, le=1_000_000)] = 1
    """Epochs by which the model is fine-tuned on a copy before it is measured; 0: not at all."""

    def init(self, theta: torch.Tensor, ctx: Context) -> State:
        slots = ctx.learner.layout.slots
        densities = erk_densities([slot.shape for slot in slots], self.density)
        draw = ctx.common if self.alike else ctx.rng
        mask = torch.zeros_like(theta, dtype=torch.bool)
        mask[: ctx.learner.layout.everything.start] = True  # statistics are no weights
        for slot, density in zip(slots, densities, strict=True):
            chosen = draw.choice(slot.numel, max(1, round(density * slot.numel)), replace=False)
            slot.of(mask).view(-1)[torch.from_numpy(chosen).to(mask.device)] = True
        return {"mask": mask, "fresh": torch.zeros_like(mask)}

    def train(
        self, state: State, theta: torch.Tensor, ctx: Context
    ) -> Training[tuple[State, torch.Tensor, Stats]]:
        mask = state["mask"]
        trained, loss = yield Fit(torch.where(mask, theta, 0.0), ctx.epochs, mask=mask)
        rate = self.anneal / 2 * (1 + math.cos(math.pi * ctx.round / ctx.rounds))
        if ctx.visiting or rate == 0:
            return {"mask": mask, "fresh": torch.zeros_like(mask)}, trained, Stats(loss)
        slots = ctx.learner.layout.slots
        left = _pruned(trained, mask, slots, rate)
        slope = (
            (yield Gradient(torch.where(left, trained, 0.0))).theta
            if self.regrow == "gradient"
            else None
        )
        grown = _grown(left, mask, slots, slope, ctx.rng)
        return {"mask": left | grown, "fresh": grown}, torch.where(left, trained, 0.0), Stats(loss)

    def share(self, state: State, theta: torch.Tensor, ctx: Context) -> Share:
        offered = state["mask"] & ~state["fresh"]
        return Share(torch.where(offered, theta, 0.0), offered)

    def absorb(
        self, state: State, theta: torch.Tensor, mixed: Share, ctx: Context
    ) -> tuple[State, torch.Tensor]:
        covered = torch.ones_like(state["mask"]) if mixed.mask is None else mixed.mask
        if ctx.visiting:  # the guest's model, within the guest's mask
            return {"mask": covered, "fresh": torch.zeros_like(covered)}, torch.where(
                covered, mixed.theta, 0.0
            )
        mask = state["mask"]
        taken = torch.where(covered, mixed.theta, theta)
        return {"mask": mask, "fresh": state["fresh"] & ~covered}, torch.where(mask, taken, 0.0)

    def model(self, state: State, theta: torch.Tensor, ctx: Context) -> Training[torch.Tensor]:
        mask = state["mask"]
        return (
            yield Fit(torch.where(mask, theta, 0.0), self.tune_epochs, mask=mask, kept=True)
        ).theta


def _pruned(
    theta: torch.Tensor, mask: torch.Tensor, slots: Sequence[Slot], rate: float
) -> torch.Tensor:
    """The mask without the smallest weights of every layer that is not dense."""
    left = mask.clone()
    for slot in slots:
        here = slot.of(left).view(-1)
        count = int(here.sum())
        if count < slot.numel:
            size = torch.where(here, slot.of(theta).reshape(-1).abs(), torch.inf)
            here[size.argsort(stable=True)[: math.ceil(rate * count)]] = False
    return left


def _grown(
    left: torch.Tensor,
    mask: torch.Tensor,
    slots: Sequence[Slot],
    slope: torch.Tensor | None,
    draw: np.random.Generator,
) -> torch.Tensor:
    """As many new coordinates in every layer as were dropped, among all that are free now."""
    grown = torch.zeros_like(mask)
    for slot in slots:
        free = ~slot.of(left).view(-1)
        count = int(slot.of(mask).sum()) - int(slot.of(left).sum())
        if count and slope is not None:
            worth = torch.where(free, slot.of(slope).reshape(-1).abs(), -1.0)
            chosen = worth.argsort(descending=True, stable=True)[:count]
        elif count:
            places = free.nonzero().flatten().cpu().numpy()
            chosen = torch.from_numpy(draw.choice(places, count, replace=False)).to(mask.device)
        else:
            continue
        slot.of(grown).view(-1)[chosen] = True
    return grown
