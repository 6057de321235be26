"""How well each class is known: recall by class, of each peer and of all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from amity.core import PeerId

if TYPE_CHECKING:
    from amity.lab.result import Result


@dataclass(frozen=True)
class Recall:
    """Of the test examples of one class, how many are classified right."""

    right: int
    all: int

    @property
    def share(self) -> float:
        return self.right / self.all


ByClass = Mapping[int, Recall]


def read(counts: Mapping[str, Sequence[int]]) -> dict[int, Recall]:
    """From the field `by_class` of a record."""
    return {int(label): Recall(*pair) for label, pair in counts.items()}


def recalls(result: Result) -> dict[PeerId, dict[int, Recall]]:
    """Of every honest peer in the last round; empty for runs that did not record it."""
    found: dict[PeerId, Any] = result.final("by_class")
    return {peer: read(counts) for peer, counts in found.items()}


def pooled(parts: Iterable[ByClass]) -> dict[int, Recall]:
    """All test examples of these peers together."""
    sums: dict[int, list[int]] = {}
    for part in parts:
        for label, recall in part.items():
            right, total = sums.setdefault(label, [0, 0])
            sums[label] = [right + recall.right, total + recall.all]
    return {label: Recall(*sums[label]) for label in sorted(sums)}


def of_runs(results: Sequence[Result]) -> dict[int, Recall]:
    """Over all peers and seeds."""
    return pooled(part for result in results for part in recalls(result).values())


def classes_of(result: Result) -> set[int]:
    """The classes that occur in anybody's test examples."""
    return {label for part in recalls(result).values() for label in part}


def shares(by_class: ByClass) -> dict[int, float]:
    return {label: recall.share for label, recall in by_class.items()}
