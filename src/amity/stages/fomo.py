"""FedFomo's weights, for any selector's choice."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from amity.core import START, Answers, Ask, Decision, PeerId, Plan, Row, View, spread
from amity.facts import Distance, Loss
from amity.stages.base import Stage, others
from amity.stages.registry import stages

Norm = Literal["l2", "l1"]
HELD_OUT = 0.1
"""The share of the training examples that models are weighed on, and nobody trains on."""


def first_order(
    losses: Mapping[PeerId, float], distances: Mapping[PeerId, float]
) -> dict[PeerId, float]:
    """ω_j of everyone who was measured; a copy of the base gets 0, and so does whatever is not
    finite."""
    base = losses.get(START, math.nan)
    out = {}
    for j in sorted(losses):
        gain, apart = base - losses[j], distances.get(j, 0.0)
        if j != START:
            out[j] = (
                gain / apart if math.isfinite(gain) and math.isfinite(apart) and apart > 0 else 0.0
            )
    return out


def weigh(
    view: View, candidates: tuple[PeerId, ...], norm: Norm
) -> Generator[Ask, Answers, dict[PeerId, float]]:
    """Ask for what ω needs, of these neighbours and of my own freshly trained model."""
    models = (view.me, START, *candidates)
    losses = yield Ask(Loss("validation"), models)
    distances = yield Ask(Distance("start", norm), models)
    return first_order(losses, distances)


def row_of(omega: Mapping[PeerId, float]) -> dict[PeerId, float]:
    """ω⁺ as a row; where nothing helps, the model from the start of the round."""
    useful = {j: w for j, w in omega.items() if w > 0}
    return spread(useful) if useful else {START: 1.0}


@stages.register("fomo")
@dataclass(frozen=True)
class FomoStage(Stage):
    r"""Weigh whoever was chosen by how much their model helps mine, to first order (FedFomo, Zhang
    et al. 2020).

    With the base w_i (my model at the start of the round), L_i the loss on my validation examples,
    and the candidates C_i of the stage before together with my own trained model:

        ω_j = (L_i(w_i) − L_i(ŵ_j)) / ‖ŵ_j − w_i‖,   ω⁺ = max(ω, 0),
        w_i^{t+1} = w_i + Σ_j ω⁺_j (ŵ_j − w_i) / Σ_k ω⁺_k

    A copy of the base and every model that is worse get 0; if all are, w_i^{t+1} = w_i. `multiply`
    keeps the weights of the stage before as factors; otherwise ω takes their place. `norm` = "l1"
    is the official code's default, "l2" the paper's. A tenth of every peer's training examples is
    held out for validation, unless partition.validation says otherwise; a peer that has none uses
    its training examples.
    """

    held_out: ClassVar[float] = HELD_OUT

    norm: Norm = "l2"
    """How far two models are apart: `l2` as in the paper, `l1` as in its code."""
    multiply: bool = False
    """Whether the weights of the stage before are kept as factors."""

    def decide(self, view: View, row: Row) -> Plan:
        omega = yield from weigh(view, others(row, view), self.norm)
        if self.multiply:
            omega = {j: w * row.get(j, 0.0) for j, w in omega.items()}
        return Decision(row_of(omega), notes={"helpful": float(sum(w > 0 for w in omega.values()))})
