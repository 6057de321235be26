"""Facade: one body for all, and a few heads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from amity.choosing import Cardless, sample
from amity.core import Ask, Plan, Row, View, spread
from amity.facts import MixtureLoss, Pull, Said
from amity.strategies.ifca import indices, losses_by, lowest, means, settled_on
from amity.strategies.registry import strategies


@strategies.register("facade")
@dataclass(frozen=True)
class Facade(Cardless):
    r"""Average the body with everyone, the head only with those of my cluster (Biswas et al. 2024:
    IFCA with K heads and one body, without a server).

    With C_i^t a sample of `k` neighbours and c_j the cluster that j said at the end of its last
    round (`Said`):

        body:  w̄ = mean of ŵ_j over C_i^t ∪ {i}
        heads: β_c = mean of β̂_j over j ∈ C_i^t ∪ {i} with c_j = c
        c_i ← argmin_c F_i(w̄, β_c)  on my own training data,     w_i^{t+1} = (w̄, β_{c_i})

    The body has the row of the records; the head has a row of its own, which only mixing sees. K is
    `clusters`. In its first round a peer draws its cluster by lot, and keeps its head if nobody
    else has one. From the second on, `clusters` = 1 is Gossip; `k` = 0 is Local. With a method that
    does not share the head (`method=head`) all clusters are alike, and what is left is Gossip on
    the body.

    The original draws a new random graph of a small degree in every round, which `k` does here.
    There every peer keeps a copy of all K heads, and may take up one that it has not received for a
    while; here it chooses among the heads that came in this round and its own. On equal losses it
    stays. A cluster that is no whole number from 0 to K − 1 is not heard: such a neighbour counts
    for the body alone. Where no head has a finite loss, the peer keeps its own model.
    """

    clusters: Annotated[int, Field(ge=1, le=1000)] = 4
    """K, heads that the network has."""
    k: Annotated[int, Field(ge=0)] = 10
    """Neighbours drawn at random in a round, uniformly; 0 is training alone."""

    def decide(self, view: View, row: Row) -> Plan:
        mine: int | None = view.memory.get("index")
        chosen = sample(view.neighbours, self.k, view.rng)
        told = indices((yield Ask(Said(), chosen)), self.clusters)
        arrived = yield Ask(Pull(), chosen)
        body, alone = spread((view.me, *arrived)), {view.me: 1.0}
        index = {j: told[j] for j in arrived if j in told}
        index |= {} if mine is None else {view.me: mine}
        if not index:
            lot = int(view.rng.integers(self.clusters))
            return settled_on(lot, mine, body, head=alone)
        heads = means(index)
        losses = {}
        if len(heads) > 1:
            rows = (tuple(body.items()),) * len(heads)
            tails = tuple(tuple(head.items()) for head in heads.values())
            found = yield Ask(MixtureLoss(rows, "train", tails), tuple(body))
            losses = losses_by(heads, found)
        best = lowest(heads, losses, mine)
        if len(heads) > 1 and not losses:
            return settled_on(best, mine, alone)
        return settled_on(best, mine, body, losses, index, heads[best])

    def pulls(self, neighbours: int) -> float:
        return min(self.k, neighbours)
