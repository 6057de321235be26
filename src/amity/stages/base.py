"""What several stages share."""

from __future__ import annotations

from collections.abc import Collection

from amity.core import PeerId, Row, View, spread, taken_from
from amity.peer.proxy import CardSpec


class Stage:
    """A strategy that only re-weighs: it publishes no card and pulls nobody who is not in the row
    already."""

    @property
    def card(self) -> CardSpec | None:
        return None

    def pulls(self, neighbours: int) -> float:
        return 0


def others(row: Row, view: View) -> tuple[PeerId, ...]:
    """Whom the row stands on, besides myself."""
    return tuple(sorted(taken_from(row, view.me)))


def without(row: Row, view: View, dropped: Collection[PeerId]) -> dict[PeerId, float]:
    """The row without some neighbours: what they had goes to the rest in proportion, or to me if
    nobody is left."""
    rest = {j: weight for j, weight in row.items() if j not in dropped}
    return spread(rest) if rest else {view.me: 1.0}
