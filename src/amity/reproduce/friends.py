"""Do those whom a strategy takes hold data like one's own? Friends are peers of one's group, or (in
a world without groups) peers half of whose labels are in common; how many of those taken are
friends is compared with how many are in reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from amity.reproduce.paper import Judged
from amity.reproduce.verdicts import OPEN, graded

if TYPE_CHECKING:
    from amity.reproduce.table import RunTable

RARE = 0.02
"""Where a smaller share of those in reach are friends, nobody is asked to find them."""


@dataclass(frozen=True, kw_only=True)
class FriendsFound:
    """How many friends a row takes in one column, and how many are in reach: shares, by seed."""

    column: str
    pairs: list[tuple[float, float]]

    @property
    def means(self) -> tuple[float, float]:
        taken, reach = (float(np.mean(shares)) for shares in zip(*self.pairs, strict=True))
        return taken, reach

    @property
    def better(self) -> bool:
        """Whether in every seed there are more than chance would take."""
        return all(taken > reach for taken, reach in self.pairs)

    @property
    def twice(self) -> bool | None:
        """Whether in every seed there are twice as many; None where that is not possible."""
        return None if self.means[1] > 0.5 else all(p >= 2 * base for p, base in self.pairs)

    def __str__(self) -> str:
        taken, reach = self.means
        return f"{self.column} {100 * taken:.0f} % of {100 * reach:.0f} %"


def friends_found(table: RunTable, panel: str, row: str) -> list[FriendsFound]:
    """Of every column where friends are not too rare to be found."""
    out = []
    for column in table.columns(panel):
        pairs = [
            (record.precision, record.base_rate)
            for record in table.of(panel, row, column).values()
            if record.precision is not None and record.base_rate
        ]
        found = FriendsFound(column=column, pairs=pairs)
        if pairs and found.means[1] >= RARE:
            out.append(found)
    return out


def finds(found: Sequence[FriendsFound]) -> Judged:
    """Whether a row takes twice as many friends as chance would, in every seed of every column
    where that is possible."""
    if not found:
        return OPEN, ""
    twice = [one.twice for one in found if one.twice is not None]
    better = [one.better for one in found]
    status = graded(bool(twice) and all(twice), all(better))
    return status if max(len(one.pairs) for one in found) > 1 else OPEN, (
        f"Friends among those taken, of friends in reach: {'; '.join(map(str, found))}."
        f" In every seed at least twice as many in {sum(twice)} of {len(twice)} columns where that"
        f" is possible, more in {sum(better)} of {len(better)}."
    )
