"""L2C: learning to collaborate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from amity.choosing import Cardless, finite, ties
from amity.core import Ask, Decision, Memory, PeerId, Plan, Row, View, spread
from amity.facts import Distance, Slope
from amity.stages.fomo import HELD_OUT
from amity.strategies.confidence import softmax
from amity.strategies.registry import strategies

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
"""Adam's usual constants."""


def adam(
    memory: Memory, gradient: Mapping[PeerId, float], rate: float, decay: float
) -> dict[str, Any]:
    """One step of Adam on α, for those who have a gradient; everyone counts its own steps."""
    now: dict[str, dict[PeerId, Any]] = {
        key: dict(memory.get(key, {})) for key in ("alpha", "mean", "square", "steps")
    }
    for j, slope in gradient.items():
        alpha, steps = now["alpha"].get(j, 0.0), now["steps"].get(j, 0) + 1
        slope += decay * alpha
        mean = BETA1 * now["mean"].get(j, 0.0) + (1 - BETA1) * slope
        square = BETA2 * now["square"].get(j, 0.0) + (1 - BETA2) * slope**2
        root = math.sqrt(square / (1 - BETA2**steps))
        now["mean"][j], now["square"][j], now["steps"][j] = mean, square, steps
        now["alpha"][j] = alpha - rate * mean / (1 - BETA1**steps) / (root + EPSILON)
    return now


@strategies.register("l2c")
@dataclass(frozen=True)
class L2c(Cardless):
    r"""Learn the mixing weights by gradient descent on validation examples (Li et al. 2022).

    Every neighbour and I have a number α_ij, 0 at first. With L_i the loss on my validation
    examples and C_i^t those who are asked in this round:

        ϖ_i = softmax(α_i) over C_i ∪ {i},     w_i^{t+1} = Σ_j ϖ_ij ŵ_j,
        ∂L_i/∂ϖ_ij = ⟨∇L_i(w_i^{t+1}), ŵ_j⟩,
        ∂L_i/∂α_ij = ϖ_ij · (∂L_i/∂ϖ_ij − Σ_l ϖ_il ∂L_i/∂ϖ_il),

    and α takes one step of Adam with learning rate `lr` and weight decay `decay`, for the next
    round. In the first `first_phase` of all rounds everyone in reach is asked, then the `k` with
    the largest α (ties by lot).

    `lr` = 0 is Gossip with everyone, then with k. `first_phase` = 1 never drops anybody. The paper
    mixes updates Δ_j, for which the slope is −⟨∇L_i, Δ_j⟩; as ϖ sums to 1, models serve as well
    (the option `weights` of the code of SONAR, which we follow for `lr`, `decay` and Adam). There α
    starts at 1, which is the same but for the decay; it steps after every batch, we once a round.
    The code drops neighbours for good; here α of those who are not asked is kept, so that they are
    back when others are away. Models that have diverged are left out. The variant in which a
    network tells α (meta-L2C) is not offered. A tenth of every peer's training examples is held out
    for validation, unless partition.validation says otherwise.
    """

    held_out: ClassVar[float] = HELD_OUT

    k: Annotated[int, Field(ge=0)] = 10
    """Neighbours that are asked after the first phase, those of the largest α; 0 is training
    alone."""
    lr: Annotated[float, Field(ge=0)] = 0.1
    """Learning rate of the mixing weights; 0 leaves them equal."""
    decay: Annotated[float, Field(ge=0)] = 0.01
    """Weight decay of the mixing weights."""
    first_phase: Annotated[float, Field(ge=0, le=1)] = 0.2
    """Share of all rounds in which everyone is asked."""

    def decide(self, view: View, row: Row) -> Plan:
        alpha: dict[PeerId, float] = dict(view.memory.get("alpha", {}))
        here = finite((yield Ask(Distance(), self._candidates(view, alpha))))
        scores = {j: alpha[j] for j in view.neighbours if j in alpha}
        if not here:
            return Decision({view.me: 1.0}, view.memory, {}, scores)
        weights = softmax({j: alpha.get(j, 0.0) for j in (view.me, *here)}, 1.0)
        slopes = finite((yield Ask(Slope(tuple(weights.items())), tuple(weights))))
        if slopes.keys() != weights.keys():
            return Decision(spread(weights), view.memory, {}, scores)
        mean = math.fsum(weights[j] * slopes[j] for j in weights)
        gradient = {j: weights[j] * (slopes[j] - mean) for j in weights}
        memory = adam(view.memory, gradient, self.lr, self.decay)
        return Decision(spread(weights), memory, {"own": weights[view.me]}, scores)

    def _candidates(self, view: View, alpha: Mapping[PeerId, float]) -> tuple[PeerId, ...]:
        if view.round < math.ceil(self.first_phase * view.rounds):
            return view.neighbours
        lot = ties(view)
        ranked = sorted(view.neighbours, key=lambda j: (-alpha.get(j, 0.0), lot[j]))
        return tuple(sorted(ranked[: self.k]))

    def pulls(self, neighbours: int) -> float:
        return self.first_phase * neighbours + (1 - self.first_phase) * min(self.k, neighbours)
