"""FedAMP in its cosine form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from amity.choosing import Cardless, finite, sample
from amity.core import Ask, Decision, Plan, Row, View, spread
from amity.facts import Cosine
from amity.strategies.confidence import softmax
from amity.strategies.registry import strategies


@strategies.register("fedamp")
@dataclass(frozen=True)
class FedAmp(Cardless):
    r"""A fixed weight for me, the rest by a softmax of cosines (Huang et al. 2021, the heuristic
    form).

    With C_i^t of `k` neighbours drawn uniformly, w⁰ the initial model that all peers have in
    common, and c_ij = cos(ŵ_j − w⁰, w_i − w⁰):

        ϖ_ii = `own`,      ϖ_ij = (1 − `own`) · exp(σ c_ij) / Σ_{l ∈ C_i} exp(σ c_il)

    `sigma` (σ) = 0 weighs all neighbours equally, towards ∞ only the most similar one counts; `own`
    = 1 or `k` = 0 is Local, `own` = 0 leaves my own model out. If nobody answers, I keep my model.

    The paper takes the cosine of the models (`of` = "model") and tunes σ and ϖ_ii; the values here,
    and the cosine of updates, are those of pFedGraph's code for it. FedAMP proper derives weights
    from squared distances. In both, training is drawn to the mixture by a proximal term and starts
    from the own model; here it starts from the mixture, as with every other strategy.
    """

    k: Annotated[int, Field(ge=0)] = 10
    """Neighbours drawn at random in a round, uniformly; 0 is training alone."""
    sigma: Annotated[float, Field(ge=0)] = 10.0
    """σ: 0 weighs all neighbours equally, towards ∞ only the most similar counts."""
    own: Annotated[float, Field(ge=0, le=1)] = 0.3
    """Weight of my own model."""
    of: Literal["update", "model"] = "update"
    """What is compared: `update`, what was learned since the initial model that all have in common,
    or the whole `model`."""

    def decide(self, view: View, row: Row) -> Plan:
        near = finite((yield Ask(Cosine(self.of), sample(view.neighbours, self.k, view.rng))))
        if not near:
            return Decision({view.me: 1.0})
        weights = softmax({j: self.sigma * cosine for j, cosine in near.items()}, 1.0)
        others = {j: (1 - self.own) * weight for j, weight in weights.items()}
        return Decision(spread({view.me: self.own} | others), scores=near)

    def pulls(self, neighbours: int) -> float:
        return min(self.k, neighbours)
