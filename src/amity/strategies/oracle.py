"""The oracle: what if everyone's group, or label distribution, were known?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from amity.choosing import Cardless
from amity.core import Ask, Band, Decision, PeerId, Plan, Reference, Row, Traffic, View, spread
from amity.facts import Groups, Labels, Pull
from amity.strategies.registry import strategies


@strategies.register("oracle")
@dataclass(frozen=True)
class Oracle(Cardless, Reference):
    r"""Average with true friends: all of my group, or, in a world without groups, those whose
    labels are distributed like mine (a reference: it is told the truth; simulator only).

    In a world with groups, taken are C_i = { j : g_j = g_i }, all with the same weight. Otherwise,
    or with `by=labels`, it goes by the overlap o_ij = Σ_c min(P_i(c), P_j(c)) of the label
    distributions: C_i = { j : o_ij ≥ `least` }, with weights proportional to o_ij (o_ii = 1). It
    tells what perfect knowledge is worth, which is not an upper bound: features may profit from
    peers with other labels, or of other groups.
    """

    least: Annotated[float, Field(ge=0, le=1)] = 0.5
    """In a world without groups: who overlaps with my labels by less is no friend."""
    by: Literal["labels"] | None = None
    """`labels`: goes by labels in worlds with groups too."""

    def decide(self, view: View, row: Row) -> Plan:
        everyone = (view.me, *view.neighbours)
        groups = {} if self.by else (yield Ask(Groups(), everyone))
        if groups.get(view.me) is not None:
            same = {j: float(group == groups[view.me]) for j, group in groups.items()}
            return (yield from self._with(view, same, 1.0))
        labels = yield Ask(Labels(), everyone)
        mine = labels[view.me]
        overlap = {j: sum(map(min, mine, theirs)) for j, theirs in labels.items()}
        return (yield from self._with(view, overlap, self.least))

    def _with(self, view: View, alike: Mapping[PeerId, float], least: float) -> Plan:
        """Those that are alike enough, by how much they are."""
        friends = tuple(j for j in view.neighbours if alike.get(j, 0.0) >= max(least, 1e-9))
        arrived = yield Ask(Pull(), friends)
        return Decision(spread({view.me: 1.0} | {j: alike[j] for j in arrived}), scores=alike)

    def pulls(self, neighbours: int) -> Traffic:
        return Traffic(Band(0, neighbours))
