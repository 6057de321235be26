"""DPFL: a double greedy search for collaborators."""

from __future__ import annotations

import math
from collections.abc import Collection, Generator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from amity.choosing import Cardless, finite
from amity.core import Answers, Ask, Band, Decision, PeerId, Plan, Row, Traffic, View, spread
from amity.facts import Distance, MixtureLoss
from amity.stages.fomo import HELD_OUT
from amity.strategies.registry import strategies


def chance(added: float, removed: float) -> float:
    """The probability of taking z: a⁺/(a⁺ + b⁺), and 1 if neither choice is a gain."""
    a, b = max(0.0, added), max(0.0, removed)  # in this order NaN counts as 0
    return a / (a + b) if 0 < a + b < math.inf or a == 0 < b else 1.0


@strategies.register("dpfl")
@dataclass(frozen=True)
class Dpfl(Cardless):
    r"""Go through the neighbours once, and take each with the probability that it helps (Kharrat et
    al. 2025).

    With R(S) = −L_i(mean of the models of S), L_i the loss on my validation examples, X = {i}, Y =
    {i} ∪ B_i and every z ∈ B_i in random order:

        a = R(X ∪ {z}) − R(X),   b = R(Y ∖ {z}) − R(Y),
        X ← X ∪ {z} with probability a⁺ / (a⁺ + b⁺),   else Y ← Y ∖ {z}

    with 1 for 0/0, until X holds `k` neighbours (the budget B). This is the randomised double
    greedy algorithm for submodular functions (Buchbinder et al. 2015). My next model is the mean of
    X.

    The first search goes through everyone in reach; later ones, in every round, only through those
    found then, and every `every` rounds through everyone again (0: never, as in the source, where a
    peer that found nobody stays alone). A search costs two passes a neighbour. Of two versions in
    the released code one takes 0 for 0/0; we follow the algorithm. There the mean may be weighted
    by examples, and training goes on for a while before the first search. A model that has diverged
    is left out, and a mixture without a finite loss is not taken. A tenth of every peer's training
    examples is held out for validation, unless partition.validation says otherwise.
    """

    held_out: ClassVar[float] = HELD_OUT

    k: Annotated[int, Field(ge=1)] = 10
    """At most so many neighbours are taken."""
    every: Annotated[int, Field(ge=0)] = 10
    """Rounds between two searches among everyone; 0: only the first."""

    def decide(self, view: View, row: Row) -> Plan:
        found = view.memory.get("found")
        again = self.every > 0 and view.round - view.memory.get("searched", 0) >= self.every
        whole = found is None or again
        pool = view.neighbours if found is None or again else tuple(found)
        here = finite((yield Ask(Distance(), tuple(j for j in view.neighbours if j in pool))))
        taken = (yield from self._search(view, sorted(here))) if here else ()
        searched = {"found": list(taken), "searched": view.round}
        memory = searched if whole and here else view.memory
        return Decision(spread((view.me, *taken)), memory, {"tried": float(len(here))})

    def _search(
        self, view: View, candidates: list[PeerId]
    ) -> Generator[Ask, Answers, tuple[PeerId, ...]]:
        chosen, left = {view.me}, {view.me, *candidates}
        low, high = yield from _losses(view, chosen, left)
        for at in view.rng.permutation(len(candidates)).tolist():
            z = candidates[at]
            with_z, without = yield from _losses(view, chosen | {z}, left - {z})
            if view.rng.random() < chance(low - with_z, high - without) and with_z < math.inf:
                chosen, low = chosen | {z}, with_z
            else:
                left, high = left - {z}, without
            if len(chosen) > self.k:
                break
        return tuple(sorted(chosen - {view.me}))

    def pulls(self, neighbours: int) -> Traffic:
        """Everyone every few rounds, in between those that were found."""
        few, whole = min(self.k, neighbours), 1 / self.every if self.every else 0.0
        return Traffic(Band(whole * neighbours, whole * neighbours + (1 - whole) * few))


def _losses(
    view: View, chosen: Collection[PeerId], left: Collection[PeerId]
) -> Generator[Ask, Answers, tuple[float, float]]:
    """Of the means of both sets; one that is not finite is as bad as can be."""
    rows = tuple(tuple(spread(tuple(peers)).items()) for peers in (chosen, left))
    answers = yield Ask(MixtureLoss(rows), tuple(sorted({*chosen, *left})))
    low, high = answers[view.me]
    return (low if math.isfinite(low) else math.inf), (high if math.isfinite(high) else math.inf)
