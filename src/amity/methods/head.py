"""A personal head: share the featurizer w, keep the classifier β."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from amity.core import Context, Fit, Share, State, Stats, Training
from amity.lazy import torch
from amity.methods.registry import methods


@methods.register("head")
@dataclass(frozen=True)
class Head:
    r"""Keep the last layer β_i, share the body w_i; train them in turn (the paper, FedRep) or
    together (FedPer).

        train:  β_i ← SGD(β_i; K_β epochs, η_β) with w_i frozen,
                then w_i ← SGD(w_i; K_w epochs, η_w) with β_i frozen;
                with `phases` = "joint" both at once, for K_w epochs
        share:  w_i only; the head is masked and never sent
        absorb: w_i^{t+1} = the mixed body, β_i stays
        model:  β_i adapts to the mixed body for `tune_epochs` epochs, on a copy

    K_w, η_w are `train.epochs`, `train.lr`; K_β, η_β are `train.epochs_head`, `train.lr_head`.
    Algorithm 1 prints K_w where the head's result is stored; it must be K_β.
    """

    splits: ClassVar[bool] = True
    tune_epochs: Annotated[int, Field(ge=0, le=1_000_000)] = 1
    """Epochs by which the head is fine-tuned on a copy before it is measured; 0: not at all."""
    phases: Literal["alternate", "joint"] = "alternate"
    """Head and body in turn (FedRep), or together (FedPer)."""

    def init(self, theta: torch.Tensor, ctx: Context) -> State:
        return {}

    def train(
        self, state: State, theta: torch.Tensor, ctx: Context
    ) -> Training[tuple[State, torch.Tensor, Stats]]:
        layout = ctx.learner.layout
        if self.phases == "joint":
            trained, loss = yield Fit(theta, ctx.epochs)
            return state, trained, Stats(loss)
        theta, _ = yield Fit(theta, ctx.epochs_head, layout.head)
        trained, loss = yield Fit(theta, ctx.epochs, layout.body)
        return state, trained, Stats(loss)

    def share(self, state: State, theta: torch.Tensor, ctx: Context) -> Share:
        mask = torch.ones_like(theta, dtype=torch.bool)
        mask[ctx.learner.layout.head] = False
        return Share(torch.where(mask, theta, torch.zeros_like(theta)), mask)

    def absorb(
        self, state: State, theta: torch.Tensor, mixed: Share, ctx: Context
    ) -> tuple[State, torch.Tensor]:
        return state, (
            mixed.theta if mixed.mask is None else torch.where(mixed.mask, mixed.theta, theta)
        )

    def model(self, state: State, theta: torch.Tensor, ctx: Context) -> Training[torch.Tensor]:
        return (yield Fit(theta, self.tune_epochs, ctx.learner.layout.head, kept=True)).theta
