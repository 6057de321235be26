"""What the paper says: its numbers, its claims, and what is known to be wrong with both.

The paper is arXiv 2407.04460, "Smart Sampling: Helping from Friendly Neighbors for Decentralized
Federated Learning". Numbers are means and standard deviations of test accuracy in %. Figures
without printed numbers have none here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amity.reproduce.table import RunTable

Judged = tuple[str, str]
"""A status (`verdicts`) and the evidence for it."""


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper (or of ours, where it says so), and what tells from a table whether
    it holds. The check raises LookupError where a run that it needs is not there."""

    id: str
    text: str
    check: Callable[[RunTable], Judged]


@dataclass(frozen=True, kw_only=True)
class Printed:
    """What the paper has on one experiment."""

    where: str = ""
    sizes: str = ""
    numbers: Mapping[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    """Mean and standard deviation in %, by row and column."""
    panel: str = ""
    """The panel that the numbers belong to; empty: all."""
    known: tuple[str, ...] = ()
    """Known inconsistencies."""


def as_printed(columns: Iterable[str], text: str) -> dict[tuple[str, str], tuple[float, float]]:
    """Numbers as the paper prints them: a line per row, `Gossip 59.47±0.09 80.74±0.11 ...`."""
    found: dict[tuple[str, str], tuple[float, float]] = {}
    names = list(columns)
    for line in text.strip().splitlines():
        row, *cells = line.split()
        for column, cell in zip(names, cells, strict=True):
            mean, _, std = cell.partition("±")
            found[row, column] = (float(mean), float(std))
    return found
