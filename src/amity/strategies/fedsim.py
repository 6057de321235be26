"""FedSim: cosine mixing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from amity.choosing import Cardless, finite, sample
from amity.core import Ask, Decision, Plan, Row, View, spread
from amity.facts import Cosine
from amity.strategies.registry import strategies


@strategies.register("fedsim")
@dataclass(frozen=True)
class FedSim(Cardless):
    r"""Weigh each neighbour by the cosine of what it has learned with what I have (Listo Zec et al.
    2024, arXiv 2409.10720).

    With C_i^t of `k` neighbours drawn uniformly, w⁰ the initial model that all peers have in
    common, and s_ii = 1:

        s_ij = cos(ŵ_j − w⁰, w_i − w⁰),     ϖ_ij = s⁺_ij / Σ_{l ∈ C_i ∪ {i}} s⁺_il,   s⁺ = max(s, 0)

    `of` = "model" takes cos(ŵ_j, w_i) instead: models that began as one have cosines near 1, so
    that this is close to Gossip. `k` = 0 is Local; where all cosines are equal to 1 it is Gossip,
    where none is above 0 it is Local.

    The source compares cosines of weights and of gradients with inverse losses and distances, and
    finds the cosines robust. A gradient of mine at my neighbours' models is not to be had without
    a visit; we take the sum of all gradients, which is `update`. The source leaves open what a
    negative cosine is worth: nothing, here. No official code exists for its weights.
    """

    k: Annotated[int, Field(ge=0)] = 10
    """Neighbours drawn at random in a round, uniformly; 0 is training alone."""
    of: Literal["update", "model"] = "update"
    """What is compared: `update`, what was learned since the initial model that all have in common,
    or the whole `model`."""

    def decide(self, view: View, row: Row) -> Plan:
        near = finite((yield Ask(Cosine(self.of), sample(view.neighbours, self.k, view.rng))))
        weights = {view.me: 1.0} | {j: max(cosine, 0.0) for j, cosine in near.items()}
        return Decision(spread(weights), scores=near)

    def pulls(self, neighbours: int) -> float:
        return min(self.k, neighbours)
