"""PENS: performance-based neighbour selection, in two phases."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from amity.choosing import Cardless, finite, sample
from amity.core import Ask, Band, Decision, PeerId, Plan, Row, Traffic, View, spread
from amity.facts import Loss, Pull
from amity.strategies.registry import strategies


@strategies.register("pens")
@dataclass(frozen=True)
class Pens(Cardless):
    r"""First learn who has good models for my data, then gossip with them only (Onoszko et al.
    2021).

    Phase 1, the first `first_phase` of all rounds: pull `sampled` random models, measure ℓ_j =
    F_i(ŵ_j) on my own training data, average with the `top` lowest, and count how often each
    neighbour was among them:

        sel_ij += 1[j ∈ top],     exp_ij += |top| / |B_i^t|  for every j in reach

    Phase 2: N_i = { j : sel_ij > exp_ij }, those taken more often than chance would; each round
    average with min(k,
    |N_i ∩ B_i|) random ones of them (of B_i if none is left).

    With a constant neighbourhood of n peers exp_ij is the paper's T1·m/n. `first_phase` = 0 is
    Gossip, 1 never leaves the first phase. The paper ranks received models by loss on own data; its
    code ranks the own model on others' data by accuracy and cuts off at exp − 1. We follow the
    paper.
    """

    sampled: Annotated[int, Field(ge=1)] = 10
    """Neighbours whose models are tried in a round of the first phase."""
    top: Annotated[int, Field(ge=1)] = 2
    """How many of those tried are taken."""
    k: Annotated[int, Field(ge=0)] = 10
    """Neighbours taken in a round of the second phase."""
    first_phase: Annotated[float, Field(ge=0, le=1)] = 0.4
    """Share of all rounds that is the first phase; 0 is Gossip."""

    def decide(self, view: View, row: Row) -> Plan:
        if view.round < math.ceil(self.first_phase * view.rounds):
            return (yield from self._explore(view))
        selected, expected = view.memory.get("selected", {}), view.memory.get("expected", {})
        friends = tuple(j for j in view.neighbours if selected.get(j, 0) > expected.get(j, 0.0))
        arrived = yield Ask(Pull(), sample(friends or view.neighbours, self.k, view.rng))
        scores = {j: selected.get(j, 0) - expected.get(j, 0.0) for j in view.neighbours}
        return Decision(spread((view.me, *arrived)), view.memory, {"friends": len(friends)}, scores)

    def _explore(self, view: View) -> Plan:
        losses = finite((yield Ask(Loss(), sample(view.neighbours, self.sampled, view.rng))))
        best = sorted(losses, key=lambda j: (losses[j], j))[: self.top]
        selected: dict[PeerId, int] = dict(view.memory.get("selected", {}))
        expected: dict[PeerId, float] = dict(view.memory.get("expected", {}))
        for j in best:
            selected[j] = selected.get(j, 0) + 1
        for j in view.neighbours:
            expected[j] = expected.get(j, 0.0) + len(best) / len(view.neighbours)
        scores = {j: -loss for j, loss in losses.items()}
        return Decision(
            spread((view.me, *best)), {"selected": selected, "expected": expected}, {}, scores
        )

    def pulls(self, neighbours: int) -> Traffic:
        """In the second phase at least one, at most k."""
        few, later = min(1, self.k, neighbours), min(self.k, neighbours)
        first = self.first_phase * min(self.sampled, neighbours)
        return Traffic(
            Band(first + (1 - self.first_phase) * few, first + (1 - self.first_phase) * later)
        )
