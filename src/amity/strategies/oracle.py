"""The label oracle: what if everyone's label distribution were known?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from amity.choosing import Cardless
from amity.core import Ask, Decision, Plan, Reference, Row, View, spread
from amity.facts import Labels, Pull
from amity.strategies.registry import strategies


@strategies.register("oracle")
@dataclass(frozen=True)
class Oracle(Cardless, Reference):
    r"""Average with those whose labels are distributed like mine (a reference: it reads the labels;
    simulator only).

    With the overlap o_ij = Σ_c min(P_i(c), P_j(c)) of the label distributions, taken are C_i = { j
    : o_ij ≥ `least` }, with weights proportional to o_ij (o_ii = 1). It tells what perfect
    knowledge of the labels is worth, which is not an upper bound: features may profit from peers
    with other labels.
    """

    least: Annotated[float, Field(ge=0, le=1)] = 0.5

    def decide(self, view: View, row: Row) -> Plan:
        labels = yield Ask(Labels(), (view.me, *view.neighbours))
        mine = labels[view.me]
        overlap = {j: sum(map(min, mine, theirs)) for j, theirs in labels.items()}
        friends = tuple(j for j in view.neighbours if overlap.get(j, 0.0) >= max(self.least, 1e-9))
        arrived = yield Ask(Pull(), friends)
        return Decision(spread({view.me: 1.0} | {j: overlap[j] for j in arrived}), scores=overlap)

    def pulls(self, neighbours: int) -> float:
        return neighbours / 3
