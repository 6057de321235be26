"""What a peer has measured of others' models in this round: nothing is computed twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from amity.core import Answers, PeerId
from amity.facts import ModelFact


class Known:
    """Answers to facts about models, by fact and peer."""

    def __init__(self) -> None:
        self._values: dict[tuple[ModelFact, PeerId], Any] = {}

    def missing(self, fact: ModelFact, peers: Iterable[PeerId]) -> tuple[PeerId, ...]:
        """Those of whom the fact is still to be computed: all, if an answer depends on who else is
        asked about."""
        return tuple(j for j in peers if fact.together or (fact, j) not in self._values)

    def learn(self, fact: ModelFact, peers: Sequence[PeerId], values: Sequence[Any]) -> None:
        """Remember what was computed."""
        self._values |= {(fact, j): value for j, value in zip(peers, values, strict=True)}

    def of(self, fact: ModelFact, peers: Iterable[PeerId]) -> Answers:
        """The answers about these peers."""
        return {j: self._values[fact, j] for j in peers}
