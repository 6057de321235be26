"""pFedGraph: a row of the collaboration graph in closed form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from amity.choosing import Cardless, finite, sample
from amity.core import Ask, Decision, PeerId, Plan, Row, View, spread
from amity.facts import Cosine, Pull
from amity.strategies.registry import strategies


def onto_simplex(values: Mapping[PeerId, float]) -> dict[PeerId, float]:
    r"""The nearest row to these numbers: non-negative, and 1 in sum (Duchi et al. 2008).

        max(v_j − θ, 0)   with θ such that the sum is 1:  θ = (Σ_{l ≤ r} v_(l) − 1) / r

    where v_(1) ≥ v_(2) ≥ … and r is the largest number for which v_(r) > θ.
    """
    highest = max(values.values())  # subtracted first: it changes nothing but rounding
    below = {j: value - highest for j, value in values.items()}
    theta, total = -1.0, 0.0
    for r, value in enumerate(sorted(below.values(), reverse=True), 1):
        total += value
        if value <= (total - 1) / r:
            break
        theta = (total - 1) / r
    return {j: max(value - theta, 0.0) for j, value in below.items()}


@strategies.register("pfedgraph")
@dataclass(frozen=True)
class PFedGraph(Cardless):
    r"""Weights near the shares of examples, and higher the more alike two peers have learned (Ye et
    al. 2023).

    With C_i^t of `k` neighbours drawn uniformly, n_j examples at j, p_j = n_j / Σ_{l ∈ C_i ∪ {i}}
    n_l, and c_ij = cos(ŵ_j − w⁰, w_i − w⁰), where w⁰ is the initial model that all peers have in
    common:

        min_ϖ  λ‖ϖ − p‖² − Σ_j ϖ_j c_ij   over all rows ϖ:    ϖ_i = Π_Δ(p + c_i / (2λ))

    Π_Δ is the projection on the simplex, for which the released code calls a solver. As in that
    code, a cosine above `same` counts as 1; so does mine, c_ii = 1.

    `lam` (λ): towards ∞ everyone in reach by shares of examples, as FedAvg does; towards 0 only I
    and those who count as the same. `same` = 1 rounds nothing up. `k` = 0 is Local. The source has
    a server that sees all pairs: k ≥ |B_i|. It also adds the cosine with the mixture to the loss of
    local training, which would be a method, and is not offered; nor is the option of its code to
    compare fully connected layers only.
    """

    k: Annotated[int, Field(ge=0)] = 10
    """Neighbours drawn at random in a round, uniformly; 0 is training alone."""
    lam: Annotated[float, Field(gt=0)] = 0.8
    """λ: towards ∞ weights are shares of examples, towards 0 only the same count."""
    same: Annotated[float, Field(ge=0, le=1)] = 0.9
    """A cosine above this counts as 1."""

    def decide(self, view: View, row: Row) -> Plan:
        examples = yield Ask(Pull(), sample(view.neighbours, self.k, view.rng))
        near = finite((yield Ask(Cosine("update"), tuple(sorted(examples)))))
        share = spread({view.me: view.examples or 1} | {j: examples[j] for j in near})
        cosines = {view.me: 1.0} | {j: 1.0 if c > self.same else c for j, c in near.items()}
        weights = {j: share.get(j, 0.0) + c / (2 * self.lam) for j, c in cosines.items()}
        return Decision(spread(onto_simplex(weights)), scores=near)

    def pulls(self, neighbours: int) -> float:
        return min(self.k, neighbours)
