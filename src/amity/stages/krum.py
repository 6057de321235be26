"""Krum and multi-Krum."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from amity.choosing import ties
from amity.core import Ask, Decision, PeerId, Plan, Row, View
from amity.facts import Distances
from amity.stages.base import Stage, others, without
from amity.stages.registry import stages


def krum_scores(
    distances: Mapping[PeerId, Mapping[PeerId, float]], bad: int
) -> dict[PeerId, float]:
    """Sum of the squared distances to the n − f − 2 closest others (at least one)."""
    near = max(1, len(distances) - bad - 2)
    return {
        j: math.fsum(
            sorted(d * d if math.isfinite(d) else math.inf for k, d in row.items() if k != j)[:near]
        )
        for j, row in distances.items()
    }


@stages.register("krum")
@dataclass(frozen=True)
class Krum(Stage):
    r"""Keep those whose models lie closest to most others (Krum and multi-Krum, Blanchard et al.
    2017).

    Among the n models of the row and my own, with f = ⌈`attackers`·(n − 1)⌉ of them expected to be
    bad:

        s(j) = Σ over the n − f − 2 closest k of ‖ŵ_j − ŵ_k‖²

    and the n − f of lowest s stay (multi-Krum), or with `keep` > 0 so many: `keep` = 1 is Krum. My
    own model is trusted and stays in any case. Weights of those who stay keep their proportions.
    `attackers` = 0 drops nobody, unless `keep` does. Of two models neither can be told to be bad,
    and where most of those taken are bad and alike it is the others that go.
    """

    attackers: Annotated[float, Field(ge=0, lt=1)] = 0.3
    """Share of the neighbours that is expected to be bad."""
    keep: Annotated[int, Field(ge=0)] = 0
    """Models that stay; 0: all but those expected to be bad."""

    def decide(self, view: View, row: Row) -> Plan:
        chosen = others(row, view)
        if not chosen:
            return Decision(row, notes={"dropped": 0.0})
        distances = yield Ask(Distances(), (view.me, *chosen))
        if len(distances) < 3:
            return Decision(
                without(row, view, [j for j in chosen if j not in distances]),
                notes={"dropped": 0.0},
            )
        bad = math.ceil(self.attackers * (len(distances) - 1) - 1e-9)
        scores = krum_scores(distances, bad)
        lot = ties(view)
        ranked = sorted(scores, key=lambda j: (scores[j], lot.get(j, -1)))
        kept = {*ranked[: self.keep or max(1, len(scores) - bad)], view.me}
        dropped = [j for j in chosen if j not in kept]
        return Decision(without(row, view, dropped), notes={"dropped": float(len(dropped))})
