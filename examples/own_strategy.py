"""A strategy of one's own: take the k neighbours whose models do best on my data, and compare it.

`python examples/own_strategy.py`, or from the command line:
`amity compare strategies=local,gossip,examples/own_strategy.py:Nearest:k=3`
"""

from dataclasses import dataclass

import amity


@dataclass(frozen=True)
class Nearest(amity.Cardless):
    """Average with the k neighbours of lowest loss on my data."""

    k: int = 3

    def decide(self, view: amity.View, row: amity.Row) -> amity.Plan:
        losses = yield amity.Ask(amity.Loss(), view.neighbours)
        best = sorted(losses, key=losses.__getitem__)[: self.k]
        return amity.Decision(amity.spread((view.me, *best)))


if __name__ == "__main__":
    table = amity.compare(["local", "gossip", Nearest(k=2)], seeds=[0], peers=8, rounds=8)
    for line in table.lines:
        print(f"{line.label:12} {line.accuracy:.3f}")
