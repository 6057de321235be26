"""Epidemic Learning: everyone sends to a few at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from amity.choosing import Cardless
from amity.core import Ask, Decision, PeerId, Plan, Row, View, spread
from amity.facts import Pull
from amity.strategies.registry import strategies


def senders(
    me: PeerId, everyone: tuple[PeerId, ...], s: int, rng: np.random.Generator
) -> tuple[PeerId, ...]:
    """Who sends to me, if each of everyone sends to s of the others."""
    place, others = everyone.index(me), len(everyone) - 1
    if s >= others:
        return tuple(j for j in everyone if j != me)
    found = []
    for at, j in enumerate(everyone):
        targets = rng.choice(others, s, replace=False)  # places among all but j
        if j != me and place - (at < place) in targets:
            found.append(j)
    return tuple(found)


@strategies.register("epidemic")
@dataclass(frozen=True)
class Epidemic(Cardless):
    r"""Every peer sends its model to s others drawn uniformly, and averages whatever it gets (De
    Vos et al. 2023, EL-Local).

    With T_j^t the s targets of j in round t, drawn without replacement, and S_i^t = { j : i ∈
    T_j^t }:

        w_i^{t+1} = 1 / (|S_i^t| + 1) · Σ_{j ∈ S_i^t ∪ {i}} ŵ_j

    The difference from Gossip: every peer's *out*-degree is `s`, and |S_i| varies from round to
    round around it; with probability near e^(−s) nobody sends to me and I keep my model. `s` = 0 is
    Local, s ≥ |B_i| averages with everyone in reach.

    Here receivers pull. All peers draw everybody's targets from the randomness that they have in
    common, so each knows without a message who would send to it. This is exact where everyone
    reaches everyone who is online. On other graphs I know my own neighbours only: I draw as if they
    and I were all there is, so that each of them sends to me with probability s/|B_i|. My in-degree
    is then distributed as in the source, but a neighbour's out-degree is s only on average.
    EL-Oracle, where a server gives everyone the same degree, is Gossip on the topology `regular`,
    redrawn every round, with k at least its degree.
    """

    s: Annotated[int, Field(ge=0)] = 10
    """Peers to which a peer sends its model in a round; 0 is training alone."""

    def decide(self, view: View, row: Row) -> Plan:
        everyone = tuple(sorted((view.me, *view.neighbours)))
        arrived = yield Ask(Pull(), senders(view.me, everyone, self.s, view.common_rng))
        return Decision(spread((view.me, *arrived)))

    def pulls(self, neighbours: int) -> float:
        return min(self.s, neighbours)
