"""Metropolis weights: the mixing of DePRL and of decentralised SGD."""

from __future__ import annotations

import math
from dataclasses import dataclass

from amity.choosing import Cardless
from amity.core import Ask, Decision, Plan, Row, View, spread
from amity.facts import Degree, Pull
from amity.strategies.registry import strategies


@strategies.register("metropolis")
@dataclass(frozen=True)
class Metropolis(Cardless):
    r"""Mix with everyone in reach, less with those who have many neighbours; with `method=head` it
    is DePRL (Xiong et al. 2024).

    With d_i = |B_i| the number of neighbours that i reaches in this round:

        ϖ_ij = 1 / (1 + max(d_i, d_j))  for j ∈ B_i,     ϖ_ii = 1 − Σ_j ϖ_ij

    On an undirected graph the weights of a pair are equal, so rows and columns sum to 1 and all
    models drift to their common mean (Xiao and Boyd 2004). Where everyone has d neighbours all
    weights are 1/(d + 1); on a full graph that is the mean of all. Whoever does not answer leaves
    its weight with me. A neighbour that lies about its degree obtains at most 1/(1 + d_i).

    d_j comes with the sign of life that every peer gives. DePRL mixes its bodies so and keeps its
    heads; in its analysis a round mixes first and takes gradient steps then, here it trains first,
    as all strategies do.
    """

    def decide(self, view: View, row: Row) -> Plan:
        degrees = yield Ask(Degree(), view.neighbours)
        arrived = yield Ask(Pull(), tuple(sorted(degrees)))
        mine = len(view.neighbours)
        weights = {j: 1 / (1 + max(mine, degrees[j])) for j in sorted(arrived)}
        return Decision(spread(weights | {view.me: 1 - math.fsum(weights.values())}))
