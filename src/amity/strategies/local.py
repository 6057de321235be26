"""Local: nobody talks to anybody."""

from __future__ import annotations

from dataclasses import dataclass

from amity.choosing import Cardless
from amity.core import Decision, Plan, Row, View
from amity.strategies.registry import strategies


@strategies.register("local")
@dataclass(frozen=True)
class Local(Cardless):
    r"""Train alone: w_i^{t+1} = ŵ_i. The floor that collaboration must beat."""

    def decide(self, view: View, row: Row) -> Plan:
        yield from ()
        return Decision({view.me: 1.0})

    def pulls(self, neighbours: int) -> float:
        return 0
