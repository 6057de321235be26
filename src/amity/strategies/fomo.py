"""FedFomo as a strategy of its own: it also chooses its candidates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from amity.choosing import Cardless, sample, ties
from amity.core import Ask, Decision, PeerId, Plan, Row, View
from amity.facts import Pull
from amity.stages.fomo import HELD_OUT, Norm, row_of, weigh
from amity.strategies.registry import strategies


@strategies.register("fomo")
@dataclass(frozen=True)
class Fomo(Cardless):
    r"""Ask those for their models whose models helped before, try a few at random, weigh by
    first-order help (FedFomo).

    An affinity P_ij, 0 at first, sums up what every neighbour's models were worth when they were
    measured,

        P_ij ← P_ij + ω_ij      for the candidates of this round only,

    and M = `k` candidates are chosen: ⌊ε_t·M⌉ at random, the rest by the largest P_ij (ties by
    lot), with ε_t = max(0, `eps` − `decay`·t) in round t. ω and the mixture: see the stage `fomo`,
    which weighs any other selector's choice.

    `eps` = 1 with `decay` = 0 is Gossip's choice, 0 is greedy. The official code lowers ε for every
    training epoch, we do for every round; DisPFL's copy adds stale ω of those not asked again each
    round, which we do not.
    """

    held_out: ClassVar[float] = HELD_OUT

    k: Annotated[int, Field(ge=0)] = 10
    """Neighbours whose models are pulled in a round; 0 is training alone."""
    eps: Annotated[float, Field(ge=0, le=1)] = 0.3
    """ε, share of the neighbours that is drawn at random in the first round; the rest are those who
    helped most."""
    decay: Annotated[float, Field(ge=0, le=1)] = 0.05
    """By how much ε falls in every round."""
    norm: Norm = "l2"
    """How far two models are apart: `l2` as in the paper, `l1` as in its code."""

    def decide(self, view: View, row: Row) -> Plan:
        affinity: dict[PeerId, float] = dict(view.memory.get("affinity", {}))
        count, lot = min(self.k, len(view.neighbours)), ties(view)
        ranked = sorted(view.neighbours, key=lambda j: (-affinity.get(j, 0.0), lot[j]))
        eps = max(0.0, self.eps - self.decay * view.round)
        greedy = ranked[: count - round(eps * count)]
        rest = tuple(sorted(set(view.neighbours) - set(greedy)))
        arrived = yield Ask(
            Pull(), tuple(sorted((*greedy, *sample(rest, count - len(greedy), view.rng))))
        )
        omega = yield from weigh(view, tuple(sorted(arrived)), self.norm)
        for j, w in omega.items():
            if j != view.me:
                affinity[j] = affinity.get(j, 0.0) + w
        notes = {"helpful": float(sum(w > 0 for w in omega.values()))}
        return Decision(
            row_of(omega),
            {"affinity": affinity},
            notes,
            {j: affinity.get(j, 0.0) for j in view.neighbours},
        )

    def pulls(self, neighbours: int) -> float:
        return min(self.k, neighbours)
