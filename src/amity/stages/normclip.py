"""Clipping of neighbours' models around my own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from amity.core import Ask, Decision, Plan, Row, View
from amity.facts import Distance
from amity.stages.base import Stage, others
from amity.stages.registry import stages


@stages.register("normclip")
@dataclass(frozen=True)
class NormClip(Stage):
    r"""Nobody moves my model further than a bound: neighbours' models are clipped around mine (He
    et al. 2022).

        w_i^{t+1} = ŵ_i + Σ_j ϖ_ij · c_j · (ŵ_j − ŵ_i),     c_j = min(1, C / ‖ŵ_j − ŵ_i‖)

    which is a row again: j keeps ϖ_ij·c_j, and what is cut off comes to me. C is `clip`, or with 0
    `factor` times the length of my own step ‖ŵ_i − w_i‖ in this round: what I know myself and no
    neighbour can move. A peer that did not move (its privacy budget is spent) goes by its last
    step; one that never did clips nobody.
    """

    clip: Annotated[float, Field(ge=0)] = 0.0
    """How far a neighbour may move my model; 0: `factor` times my own step."""
    factor: Annotated[float, Field(gt=0)] = 1.0
    """With clip=0: the bound in lengths of my own step of this round."""

    def decide(self, view: View, row: Row) -> Plan:
        chosen = others(row, view)
        if not chosen:
            return Decision(row, view.memory, {"clipped": 0.0})
        distances = yield Ask(Distance("trained"), chosen)
        bound = self.clip
        if not bound:
            step = (yield Ask(Distance("start"), (view.me,)))[view.me]
            bound = self.factor * step if step > 0 else float(view.memory.get("bound", math.inf))
        memory = {} if self.clip or math.isinf(bound) else {"bound": bound}
        kept = {j: self._factor(distances.get(j, math.inf), bound) for j in chosen}
        out = {j: weight * kept.get(j, 1.0) for j, weight in row.items()}
        out[view.me] = out.get(view.me, 0.0) + math.fsum(row[j] * (1 - kept[j]) for j in chosen)
        clipped = float(sum(c < 1 for c in kept.values()))
        return Decision(
            {j: out[j] for j in sorted(out) if out[j] > 0}, memory, {"clipped": clipped}
        )

    @staticmethod
    def _factor(distance: float, bound: float) -> float:
        if not math.isfinite(distance):
            return 0.0
        return 1.0 if distance <= bound else bound / distance
