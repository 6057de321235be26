"""IFCA: a few models for the whole network, each peer with the one that fits its data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from amity.choosing import Cardless, sample
from amity.core import Answers, Ask, Decision, PeerId, Plan, Row, View, spread
from amity.facts import MixtureLoss, Pull, Said
from amity.strategies.registry import strategies

INDEX = "cluster"
"""Under this name a peer says which cluster it is in."""


@strategies.register("ifca")
@dataclass(frozen=True)
class Ifca(Cardless):
    r"""Everyone says which of K clusters it is in; take the mean model of the cluster that fits my
    data best (Ghosh et al. 2020, without a server).

    With c_j the cluster that j said at the end of its last round (`Said`), C_i^t the sampled
    neighbours that said one, and me:

        θ_c = mean of ŵ_j over j ∈ C_i^t ∪ {i} with c_j = c
        c_i ← argmin_c F_i(θ_c)  on my own training data,     w_i^{t+1} = θ_{c_i}

    so that the next round trains, and counts towards, the new cluster. K is `clusters`; `fraction`
    of the neighbours is sampled in every round, 1 is everyone in reach. In its first round a peer
    draws its cluster by lot, and stays alone if nobody else has one. From the second on,
    `clusters` = 1 is Gossip with everyone.

    The original has a server, which keeps all K models and sends them to everyone. Here a cluster
    is what its members in reach have: one that nobody says any more is gone, and peers with
    different neighbours see different means. There the K models start from different random
    weights; here all peers start from the same, and the lots make the clusters differ. Of its two
    forms, averaging gradients and averaging models, this is the second, with equal weights. On
    equal losses a peer stays. A cluster that is no whole number from 0 to K − 1 is not heard; where
    no mean has a finite loss, the peer keeps its own model.
    """

    clusters: Annotated[int, Field(ge=1, le=1000)] = 4
    """K, models that the network has."""
    fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of the neighbours that is asked in a round."""

    def decide(self, view: View, row: Row) -> Plan:
        mine: int | None = view.memory.get("index")
        count = math.ceil(self.fraction * len(view.neighbours))
        said = yield Ask(Said(), sample(view.neighbours, count, view.rng))
        told = indices(said, self.clusters)
        arrived = yield Ask(Pull(), tuple(sorted(told)))
        index = {j: told[j] for j in arrived} | ({} if mine is None else {view.me: mine})
        if not index:
            return settled_on(int(view.rng.integers(self.clusters)), mine, {view.me: 1.0})
        rows = means(index)
        losses = {}
        if len(rows) > 1:
            mixtures = tuple(tuple(sorted(row.items())) for row in rows.values())
            found = yield Ask(MixtureLoss(mixtures, "train"), tuple(sorted(index)))
            losses = losses_by(rows, found)
        best = lowest(rows, losses, mine)
        failed = len(rows) > 1 and not losses
        return settled_on(best, mine, {view.me: 1.0} if failed else rows[best], losses, index)

    def pulls(self, neighbours: int) -> float:
        return math.ceil(self.fraction * neighbours)


# -- what Facade uses too --------------------------------------------------------------------------


def indices(said: Answers, clusters: int) -> dict[PeerId, int]:
    """Who said which cluster; whatever is no cluster is not heard."""
    found = {j: says.get(INDEX) for j, says in said.items()}
    return {j: int(c) for j, c in found.items() if c in range(clusters)}


def means(index: Mapping[PeerId, int]) -> dict[int, dict[PeerId, float]]:
    """The mean over each cluster's members, as a row."""
    groups: dict[int, list[PeerId]] = {}
    for j in sorted(index):
        groups.setdefault(index[j], []).append(j)
    return {c: spread(tuple(groups[c])) for c in sorted(groups)}


def losses_by(rows: Mapping[int, Row], found: Answers) -> dict[int, float]:
    """The finite losses of the clusters, from an answer that is the same for everyone asked."""
    losses = next(iter(found.values()), ())
    return {c: loss for c, loss in zip(rows, losses, strict=False) if math.isfinite(loss)}


def lowest(rows: Mapping[int, Row], losses: Mapping[int, float], mine: int | None) -> int:
    """The cluster of the lowest loss; on equal losses mine, then the first."""
    return min(rows, key=lambda c: (losses.get(c, math.inf), c != mine, c))


def settled_on(
    best: int,
    mine: int | None,
    row: Row,
    losses: Mapping[int, float] | None = None,
    index: Mapping[PeerId, int] | None = None,
    head: Row | None = None,
) -> Decision:
    """The decision for a cluster. A neighbour ranks as high as its cluster."""
    found = losses or {}
    scores = {j: -found[c] for j, c in (index or {}).items() if c in found}
    notes = {"cluster": float(best), "moved": float(mine is not None and best != mine)}
    return Decision(row, {"index": best}, notes, scores, {INDEX: float(best)}, head)
