"""Ditto: a personal model beside the shared one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from amity.core import Context, Fit, Share, State, Stats, Training
from amity.lazy import torch
from amity.methods.registry import methods


@methods.register("ditto")
@dataclass(frozen=True)
class Ditto:
    r"""Train the shared model as ever, and a personal one that is drawn to it (Li et al. 2021).

        train:  ŵ_i = SGD(w_i; K_w epochs);   v_i ← v_i − η (∇F_i(v_i) + λ (v_i − w_i)),  K_v epochs
        share:  ŵ_i;   the personal v_i never leaves, and nobody's mixing touches it
        absorb: w_i^{t+1} = the mixed model
        model:  v_i

    w_i is the model received at the start of the round (as in the official code). λ is `lam`: 0 is
    training alone, a large λ holds v_i at w_i, as long as η·λ stays well below 1 (steps overshoot
    beyond, and diverge past 2). The proximal term joins the gradient before momentum. K_v is
    `epochs`, and K_w is `train.epochs`; with `epochs` = 0 the two share `train.epochs`, three
    fifths for v_i (2 + 3 of 5, as DisPFL does), at least one each.
    """

    lam: Annotated[float, Field(ge=0, le=1e6)] = 0.5
    """λ, how strongly the personal model is drawn to the shared one; 0 is training alone. lr times
    λ should stay well below 1."""
    epochs: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Epochs of the personal model; 0: three fifths of train.epochs, which the two then share."""

    def init(self, theta: torch.Tensor, ctx: Context) -> State:
        return {"personal": theta}

    def _epochs(self, total: int) -> tuple[int, int]:
        """K_w and K_v."""
        if self.epochs or not total:
            return total, self.epochs
        personal = max(1, round(0.6 * total))
        return max(1, total - personal), personal

    def train(
        self, state: State, theta: torch.Tensor, ctx: Context
    ) -> Training[tuple[State, torch.Tensor, Stats]]:
        shared, personal = self._epochs(ctx.epochs)
        trained, loss = yield Fit(theta, shared)
        if ctx.visiting:
            return state, trained, Stats(loss)
        mine, _ = yield Fit(state["personal"], personal, anchor=theta, pull=self.lam, kept=True)
        return {"personal": mine}, trained, Stats(loss)

    def share(self, state: State, theta: torch.Tensor, ctx: Context) -> Share:
        return Share(theta)

    def absorb(
        self, state: State, theta: torch.Tensor, mixed: Share, ctx: Context
    ) -> tuple[State, torch.Tensor]:
        return state, mixed.theta

    def model(self, state: State, theta: torch.Tensor, ctx: Context) -> Training[torch.Tensor]:
        yield from ()
        return state["personal"]
