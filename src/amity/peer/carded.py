"""A strategy that publishes no card, in a network that finds neighbours by their cards."""

from __future__ import annotations

from dataclasses import dataclass

from amity.core import Band, Plan, Row, Strategy, Traffic, View
from amity.peer.proxy import CardSpec

FINDING = CardSpec("twins", 256, bits=16, shrink=4, once=True)
"""What cards show if only the search for neighbours reads them."""


@dataclass(frozen=True)
class Carded:
    """The same strategy, beside a card that it does not look at."""

    strategy: Strategy
    card: CardSpec = FINDING

    def decide(self, view: View, row: Row) -> Plan:
        return self.strategy.decide(view, row)

    def pulls(self, neighbours: int) -> Traffic:
        return Traffic(Traffic.of(self.strategy.pulls(neighbours)).models, Band(0, 0))
