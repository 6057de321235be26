"""FedAvg: the central reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from amity.choosing import Cardless, sample
from amity.core import Ask, Decision, Plan, Reference, Row, View, spread
from amity.facts import Pull
from amity.strategies.registry import strategies


@strategies.register("fedavg")
@dataclass(frozen=True)
class FedAvg(Cardless, Reference):
    r"""One model for all, averaged by a server (a reference: it ignores the graph; simulator only).

    Each round a sample K^t of `fraction`·m peers (rounded, at least one), the same for everybody,
    gives

        w^{t+1} = Σ_{k ∈ K^t} n_k ŵ_k / Σ_{k ∈ K^t} n_k

    with n_k training examples at k. `fraction` = 1 is full participation, the paper's tables use
    0.1. As with a server, a peer receives one model a round and a sampled one sends one; that is
    what is counted. Peers outside the sample train too, so that their accuracy can be measured;
    their passes are counted, which overstates FedAvg's.
    """

    ignores_graph = True
    fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of the peers that takes part in a round."""

    def decide(self, view: View, row: Row) -> Plan:
        everyone = tuple(sorted((view.me, *view.neighbours)))
        chosen = sample(everyone, max(1, round(self.fraction * len(everyone))), view.common_rng)
        examples = yield Ask(Pull(), chosen)
        return Decision(spread(dict(examples) or {view.me: 1.0}))

    def pulls(self, neighbours: int) -> float:
        """The server's one model."""
        return min(1, neighbours)
