"""A gate by similarity."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from amity.core import Ask, Decision, Plan, Row, View
from amity.facts import Similarity
from amity.peer.proxy import Bits, CardSpec, ProxyName
from amity.registry import QUIET
from amity.stages.base import Stage, others, without
from amity.stages.registry import stages


@stages.register("simgate")
@dataclass(frozen=True)
class SimilarityGate(Stage):
    r"""Drop whoever's data look unlike mine: keep j with cos(φ_i, φ_j) ≥ `least`.

    φ is what the strategy puts onto its cards; for a strategy without cards it is `proxy`, in
    `sketch` numbers (0: whole) of `bits` bits (1: their signs). `least` = −1 keeps everyone who
    answers. It trusts what cards say, so a liar who copies my card passes it.
    """

    least: Annotated[float, Field(ge=-1, le=1)] = 0.0
    """Who is less similar is dropped; −1 keeps everyone."""
    proxy: ProxyName = "grad"
    """What cards show, if the strategy has none: `amity list proxies`."""
    sketch: Annotated[int, Field(ge=0)] = 256
    """Numbers on such a card; 0: all."""
    bits: Bits = field(default=32, metadata=QUIET)
    """Bits of a number on such a card: 1 shows the sign alone."""

    @property
    def card(self) -> CardSpec:
        return CardSpec(self.proxy, self.sketch, self.bits)

    def decide(self, view: View, row: Row) -> Plan:
        chosen = others(row, view)
        similar = yield Ask(Similarity(centered=self.card.kind.centered), chosen)
        dropped = [j for j in chosen if not similar.get(j, -2.0) >= self.least]
        return Decision(without(row, view, dropped), notes={"dropped": float(len(dropped))})
