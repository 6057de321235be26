"""A gate by loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from amity.core import START, Ask, Decision, Plan, Row, View
from amity.facts import Loss
from amity.stages.base import Stage, others, without
from amity.stages.registry import stages


@stages.register("lossgate")
@dataclass(frozen=True)
class LossGate(Stage):
    r"""Drop whoever's model does badly on my data: keep j whose loss is below a bar that my own
    models set.

        F_i(ŵ_j) ≤ `factor` · ( (1 − a)·F_i(w_i) + a·F_i(ŵ_i) ),     a = `own`

    w_i is my model at the start of the round and ŵ_i after training, so that the bar falls as I
    learn, and no neighbour can move it. With `own` = 0 a model that knows nothing passes in the
    first rounds, when mine knows nothing either; with 1 a peer that has overfitted its few examples
    lets nobody in. Measured on my training examples, or with `split` = "validation" on those held
    out. A loss that is not finite never passes.
    """

    factor: Annotated[float, Field(gt=0)] = 1.0
    """Factor on the bar: above 1 lets more in."""
    own: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Share of my trained model's loss in the bar; the rest is the loss at the round's start."""
    split: Literal["train", "validation"] = "train"
    """On which of my examples it is measured."""

    def decide(self, view: View, row: Row) -> Plan:
        chosen = others(row, view)
        if not chosen:
            return Decision(row, notes={"dropped": 0.0})
        losses = yield Ask(Loss(self.split), (view.me, START, *chosen))
        bar = self.factor * ((1 - self.own) * losses[START] + self.own * losses[view.me])
        dropped = [j for j in chosen if not losses.get(j, float("inf")) <= bar]
        return Decision(without(row, view, dropped), notes={"dropped": float(len(dropped))})
