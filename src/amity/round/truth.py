"""Who is a friend of whom: a property of the world, which no peer is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from amity.core import PeerId
from amity.data import PeerData

Matrix = np.ndarray[Any, np.dtype[np.float64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]


def overlaps(mine: Sequence[float], others: Sequence[Sequence[float]] | Matrix) -> Matrix:
    """Similarity of label distributions: Σ_c min(P_i(c), P_j(c)), 1 for equal ones, 0 for
    disjoint."""
    return np.asarray(np.minimum(np.asarray(mine), np.asarray(others)).sum(1))


@dataclass(frozen=True, kw_only=True)
class Friendship:
    """By group where the world has groups, else by labels: peers whose label distributions overlap
    by `least` or more. Everyone stands in sorted order of names."""

    labels: Mapping[PeerId, tuple[float, ...]]
    groups: Mapping[PeerId, int]
    """Empty where the world has none."""
    least: float

    @classmethod
    def of(cls, data: Mapping[PeerId, PeerData], friend: float) -> Friendship:
        """In a world that was dealt out; `friend` is `eval.friend`."""
        groups = {name: mine.group for name, mine in data.items() if mine.group is not None}
        labels = {name: mine.labels for name, mine in data.items()}
        return cls(labels=labels, groups=groups, least=friend)

    @property
    def kind(self) -> Literal["group", "labels"]:
        return "group" if self.groups else "labels"

    @cached_property
    def names(self) -> tuple[PeerId, ...]:
        return tuple(sorted(self.labels))

    @cached_property
    def shares(self) -> Matrix:
        """Label distributions, peers x classes."""
        return np.array([self.labels[name] for name in self.names])

    @cached_property
    def group_numbers(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Everyone's group; all the same where there are none."""
        return np.array([self.groups.get(name, 0) for name in self.names], dtype=np.int64)

    @cached_property
    def _at(self) -> dict[PeerId, int]:
        return {name: i for i, name in enumerate(self.names)}

    def friends(self, me: PeerId, near: Sequence[PeerId]) -> Mask:
        """Which of these peers are my friends."""
        at = np.array([self._at[j] for j in near], dtype=int)
        if self.groups:
            return np.asarray(self.group_numbers[at] == self.groups[me])
        return np.asarray(overlaps(self.labels[me], self.shares[at]) >= self.least)

    @cached_property
    def pairs(self) -> Mask:
        """Who is a friend of whom: m x m."""
        return np.array([self.friends(me, self.names) for me in self.names])

    @cached_property
    def overlap(self) -> Matrix:
        """The overlap of the labels of every two peers: m x m."""
        return np.array([overlaps(row, self.shares) for row in self.shares])

    @property
    def matrix(self) -> Matrix:
        """How close every two peers truly are, for pictures: 1 or 0 by group, else the overlap of
        their labels."""
        return self.pairs.astype(float) if self.groups else self.overlap

    @property
    def said(self) -> str:
        """What a friend is in this world."""
        if not self.groups:
            return f"a peer whose labels overlap with one's own by {100 * self.least:g} % or more"
        sizes = np.unique(self.group_numbers, return_counts=True)[1].tolist()
        listed = ", ".join(map(str, sizes)) if len(sizes) <= 12 else f"{min(sizes)} to {max(sizes)}"
        loners = "; a group of 1 is a loner, who has no friends" if 1 in sizes else ""
        groups = "1 group" if len(sizes) == 1 else f"{len(sizes)} groups"
        return f"a peer of one's own group ({groups} of {listed}{loners})"
