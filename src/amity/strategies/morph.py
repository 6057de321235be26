"""Morph: learn from those who differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from amity.choosing import Cardless, finite, sample, ties
from amity.core import Ask, Decision, PeerId, Plan, Row, View, spread
from amity.facts import Cosine
from amity.strategies.registry import strategies


@strategies.register("morph")
@dataclass(frozen=True)
class Morph(Cardless):
    r"""Average with the k neighbours whose models are *least* like mine (Cox et al. 2026, arXiv
    2602.03383).

    Whenever a model of j arrives, I note c_ij = cos(ŵ_j − w⁰, w_i − w⁰), where w⁰ is the initial
    model that all peers have in common. Each round I pull exactly min(k, |B_i|) models: ⌊εk⌉ at
    random, the rest by the smallest c_ij (those never seen count as −1, so that everyone is tried;
    ties are broken by lot), and

        w_i^{t+1} = 1 / (|C_i^t| + 1) · Σ_{j ∈ C_i^t ∪ {i}} ŵ_j

    `eps` = 1 or k ≥ |B_i| is Gossip, `k` = 0 is Local. `of` = "model" compares whole models.

    It is the opposite of choosing friends: under label skew, peers with other classes bring what I
    lack; in groups that contradict each other they bring what harms me. The source keeps the
    in-degree fixed, finds peers by gossip and asks for the most dissimilar models; how it measures
    them, and how it guesses at those it has not seen, we have not read. We ask nobody about third
    peers: a view is what I have measured myself, and `eps` keeps it fresh.
    """

    k: Annotated[int, Field(ge=0)] = 10
    """Neighbours whose models are pulled in a round; 0 is training alone."""
    eps: Annotated[float, Field(ge=0, le=1)] = 0.3
    """ε, share of the neighbours that is drawn at random; the rest are those least like me."""
    of: Literal["update", "model"] = "update"
    """What is compared: `update`, what was learned since the initial model that all have in common,
    or the whole `model`."""

    def decide(self, view: View, row: Row) -> Plan:
        known: dict[PeerId, float] = dict(view.memory.get("cosine", {}))
        count, lot = min(self.k, len(view.neighbours)), ties(view)
        ranked = sorted(view.neighbours, key=lambda j: (known.get(j, -1.0), lot[j]))
        unlike = ranked[: count - round(self.eps * count)]
        rest = tuple(sorted(set(view.neighbours) - set(unlike)))
        chosen = (*unlike, *sample(rest, count - len(unlike), view.rng))
        near = finite((yield Ask(Cosine(self.of), tuple(sorted(chosen)))))
        known |= near
        scores = {j: -known[j] for j in view.neighbours if j in known}
        return Decision(spread((view.me, *near)), {"cosine": known}, {}, scores)

    def pulls(self, neighbours: int) -> float:
        return min(self.k, neighbours)
