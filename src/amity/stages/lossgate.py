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
    r"""Drop whoever's model does badly on my data: keep j with F_i(ŵ_j) ≤ `factor` · F_i(w_i).

    w_i is my own model at the start of the round, so that the bar falls as I learn, and no neighbour can move it. Measured
    on my training examples, or with `split` = "validation" on those held out. A loss that is not finite never passes.
    `factor` = 1 takes only models that are no worse than mine was. What it costs is a forward pass for each who was taken.
    """

    factor: Annotated[float, Field(gt=0)] = 1.5
    split: Literal["train", "validation"] = "train"

    def decide(self, view: View, row: Row) -> Plan:
        chosen = others(row, view)
        if not chosen:
            return Decision(row, notes={"dropped": 0.0})
        losses = yield Ask(Loss(self.split), (START, *chosen))
        bar = self.factor * losses[START]
        dropped = [j for j in chosen if not losses.get(j, float("inf")) <= bar]
        return Decision(without(row, view, dropped), notes={"dropped": float(len(dropped))})
