"""FedeRiCo, as a sampler of neighbours."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from amity.choosing import Cardless, finite, sample, ties
from amity.core import Ask, Decision, PeerId, Plan, Row, View, spread
from amity.facts import Loss
from amity.strategies.registry import strategies


@strategies.register("federico")
@dataclass(frozen=True)
class Federico(Cardless):
    r"""Remember every neighbour's loss on my data, prefer the best, try a few at random (Sui et al.
    2022).

    E-step, for the pulled j and for myself, on my own training data:

        L̂_ij ← (1 − b) · L̂_ij + b · F_i(ŵ_j),     w_ij = exp(−L̂_ij) / Σ_k exp(−L̂_ik)

    Sampling: M = `k` neighbours, ⌊εM⌉ at random and the rest by the largest w_ij (unknown ones
    count as L̂ = 0, so that everyone is tried; ties are broken by lot). A loss that is not finite
    is neither used nor remembered. Mixing: w_ij renormalised over the pulled and myself, or equal
    weights.

    `eps` = 1 is Gossip's choice, 0 is greedy; `b` = 1 forgets everything but this round. No
    official code exists; the ensemble mode of the paper, which sends gradients back, is not
    offered. L̂_ii is updated by my own loss.
    """

    k: Annotated[int, Field(ge=0)] = 10
    """Neighbours whose models are pulled in a round; 0 is training alone."""
    b: Annotated[float, Field(gt=0, le=1)] = 0.6
    """How much a new loss counts against what is remembered; 1 remembers nothing."""
    eps: Annotated[float, Field(ge=0, le=1)] = 0.3
    """ε, share of the neighbours that is drawn at random; the rest are the best."""
    weights: Literal["softmax", "uniform"] = "softmax"
    """By a softmax of the losses, or equal."""

    def decide(self, view: View, row: Row) -> Plan:
        known: dict[PeerId, float] = dict(view.memory.get("loss", {}))
        count = min(self.k, len(view.neighbours))
        lot = ties(view)
        ranked = sorted(view.neighbours, key=lambda j: (known.get(j, 0.0), lot[j]))
        greedy = ranked[: count - round(self.eps * count)]
        others = tuple(sorted(set(view.neighbours) - set(greedy)))
        chosen = tuple(sorted((*greedy, *sample(others, count - len(greedy), view.rng))))
        losses = finite((yield Ask(Loss(), (view.me, *chosen))))
        for j, loss in losses.items():
            known[j] = (1 - self.b) * known[j] + self.b * loss if j in known else loss
        lowest = min((known[j] for j in losses), default=0.0)
        belief = {
            j: math.exp(lowest - known[j]) if self.weights == "softmax" else 1.0 for j in losses
        }
        scores = {j: -known[j] for j in view.neighbours if j in known}
        return Decision(spread(belief or {view.me: 1.0}), {"loss": known}, {}, scores)

    def pulls(self, neighbours: int) -> float:
        return min(self.k, neighbours)
