"""Fine-tuning: share everything, adapt a copy before use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from amity.core import Context, Fit, Share, State, Stats, Training
from amity.lazy import torch
from amity.methods.registry import methods


@methods.register("finetune")
@dataclass(frozen=True)
class Finetune:
    r"""Share the whole model and fine-tune a throw-away copy before evaluation (FedAvg-FT, the
    paper's backbone).

        train:  ŵ_i = SGD(w_i; K_w epochs, η_w on the body, η_β on the head)
        absorb: w_i^{t+1} = the mixed model
        model:  SGD(w_i^{t+1}; `tune_epochs` epochs) on a copy

    `tune_epochs` = 0 evaluates the mixed model as it is (plain FedAvg or gossip).
    """

    tune_epochs: Annotated[int, Field(ge=0, le=1_000_000)] = 1
    """Epochs by which the model is fine-tuned on a copy before it is measured; 0: not at all."""

    def init(self, theta: torch.Tensor, ctx: Context) -> State:
        return {}

    def train(
        self, state: State, theta: torch.Tensor, ctx: Context
    ) -> Training[tuple[State, torch.Tensor, Stats]]:
        trained, loss = yield Fit(theta, ctx.epochs)
        return state, trained, Stats(loss)

    def share(self, state: State, theta: torch.Tensor, ctx: Context) -> Share:
        return Share(theta)

    def absorb(
        self, state: State, theta: torch.Tensor, mixed: Share, ctx: Context
    ) -> tuple[State, torch.Tensor]:
        return state, mixed.theta

    def model(self, state: State, theta: torch.Tensor, ctx: Context) -> Training[torch.Tensor]:
        return (yield Fit(theta, self.tune_epochs, kept=True)).theta
