"""Why a peer took whom it took: the numbers that it learnt about others while it decided.

Every strategy learns about others by asks alone, so what came back is written down here in one
place, whatever the strategy is. Nothing is decided by it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from amity.core import Answers, Decision, PeerId
from amity.facts import Degree, Fact, Pull

Why = Mapping[str, Mapping[PeerId, float]]
"""By fact and peer."""
MOST_PEERS = 300
"""Networks with more peers do not write it down: it would be longer than all other records."""
OTHERS = 5
"""How many of those that were not taken are written down: those with the highest numbers."""
SILENT = (Pull, Degree)
"""Facts that say nothing about whether somebody is worth taking."""


class Evidence:
    """Of one peer in one round."""

    def __init__(self, me: PeerId, peers: int) -> None:
        self._me, self._wanted = me, peers <= MOST_PEERS
        self._heard: dict[str, Answers] = {}

    def heard(self, fact: Fact, answers: Answers) -> Answers:
        """Keep what came back; asked again, the newer answers count."""
        if self._wanted and answers and not isinstance(fact, SILENT):
            name = type(fact).__name__.lower()
            self._heard[name] = {**self._heard.get(name, {}), **answers}
        return answers

    def why(self, decision: Decision) -> Why:
        """About those who were taken, and a few others."""
        found: dict[str, dict[PeerId, float]] = {}
        for name, answers in self._heard.items():
            values = {j: value for j in answers if (value := self._of(answers, j)) is not None}
            others = sorted((j for j in values if j not in decision.row), key=values.__getitem__)
            kept = {*decision.row, *others[-OTHERS:]}
            if about := {j: values[j] for j in sorted(values.keys() & kept)}:
                found[name] = about
        return found

    def _of(self, answers: Answers, other: PeerId) -> float | None:
        """The answer about another peer as a number; None: it is none."""
        value: Any = answers[other]
        if other == self._me:
            return None
        if isinstance(value, Mapping):  # how alike any two are: what counts is how like me
            value = value.get(self._me)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return float(f"{value:.6g}") if math.isfinite(value) else None
