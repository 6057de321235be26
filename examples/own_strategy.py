"""A strategy of one's own: take the k neighbours whose models do best on my data, and compare it
with others.

Run it with `python examples/own_strategy.py`, or from the command line:
`amity compare strategies=local,gossip,examples/own_strategy.py:Nearest:k=3`
"""

from dataclasses import dataclass

import amity
from amity.facts import Loss
from amity.strategies.base import Cardless


@dataclass(frozen=True)
class Nearest(Cardless):
    """Average with the k neighbours of lowest loss on my data."""

    k: int = 3

    def decide(self, view: amity.View, row: amity.Row) -> amity.Plan:
        losses = yield amity.Ask(Loss(), view.neighbours)
        best = sorted(losses, key=losses.__getitem__)[: self.k]
        return amity.Decision(amity.spread((view.me, *best)))


if __name__ == "__main__":
    for line in amity.compare(
        ["local", "gossip", Nearest(k=2)], seeds=[0], peers=8, rounds=8
    ).lines:
        print(f"{line.label:12} {line.accuracy:.3f}")
