"""Gossip: average with random neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from amity.choosing import Cardless, sample
from amity.core import Ask, Decision, Plan, Row, View, spread
from amity.facts import Pull
from amity.strategies.registry import strategies


@strategies.register("gossip")
@dataclass(frozen=True)
class Gossip(Cardless):
    r"""Average with k neighbours drawn uniformly, a fresh draw every round.

    With C_i^t drawn without replacement from the reachable neighbours B_i^t, |C_i^t| = min(k,
    |B_i^t|):

        w_i^{t+1} = 1 / (|C_i^t| + 1) · Σ_{j ∈ C_i^t ∪ {i}} ŵ_j

    `k` = 0 is Local; k ≥ |B_i| averages with everyone in reach. The original (Hegedűs et al. 2019)
    is asynchronous and merges one age-weighted model at a time; this is the synchronous pull form
    that PENS and AFIND+ compare with.
    """

    k: Annotated[int, Field(ge=0)] = 10
    """Neighbours drawn at random in a round, uniformly; 0 is training alone."""

    def decide(self, view: View, row: Row) -> Plan:
        arrived = yield Ask(Pull(), sample(view.neighbours, self.k, view.rng))
        return Decision(spread((view.me, *arrived)))

    def pulls(self, neighbours: int) -> float:
        return min(self.k, neighbours)
