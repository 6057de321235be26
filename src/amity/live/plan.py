"""Order and places of peers: for the matrix, and for drawings of large networks.

Where the world is known (world.json of a simulation), peers of a group stand together; else those
with the same most frequent label; else they stand by name.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from amity.live.measure import number

GOLDEN = math.pi * (3 - math.sqrt(5))
"""The angle by which seeds of a sunflower follow each other."""


@dataclass(frozen=True)
class WorldSeen:
    """What is known of who is like whom."""

    groups: Mapping[str, int]
    labels: Mapping[str, Sequence[float]]
    classes: Sequence[str]
    friend: str

    @classmethod
    def read(cls, folder: Path) -> WorldSeen:
        """From world.json; what was read is kept until the file changes."""
        try:
            stamp = (folder / "world.json").stat().st_mtime_ns
        except OSError:
            stamp = 0
        return _read(folder, stamp)

    @classmethod
    def _parsed(cls, folder: Path) -> WorldSeen:
        try:
            found = json.loads((folder / "world.json").read_bytes())
            groups = {str(j): int(g) for j, g in found["groups"].items() if number(g) is not None}
            labels = {str(j): _numbers(held) for j, held in found["labels"].items()}
            return cls(groups, labels, list(map(str, found["classes"])), str(found["friend"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return cls({}, {}, [], "")

    def colour(self, peer: str) -> int:
        """The group of a peer, or its most frequent label; -1: nothing is known."""
        if peer in self.groups:
            return int(self.groups[peer])
        shares = self.labels.get(peer, ())
        return max(range(len(shares)), key=shares.__getitem__) if shares else -1

    def legend(self, peers: Sequence[str]) -> dict[str, str]:
        """What the colours of these peers mean."""
        seen = sorted({self.colour(peer) for peer in peers} - {-1})
        if self.groups:
            return {str(c): f"group {c + 1}" for c in seen}
        named = {c: self.classes[c] if c < len(self.classes) else str(c) for c in seen}
        return {str(c): f"mostly {name}" for c, name in named.items()}

    def order(self, peers: Sequence[str]) -> list[str]:
        """Those who are alike, side by side."""
        return sorted(peers, key=lambda j: (self.colour(j), [-s for s in self._rest(j)], j))

    def _rest(self, peer: str) -> Sequence[float]:
        return () if self.groups else self.labels.get(peer, ())

    def places(self, peers: Sequence[str]) -> list[tuple[float, float]]:
        """Where to draw each peer, within the unit circle: each colour is a disc of its own, in
        which peers stand like the seeds of a sunflower."""
        members: dict[int, list[str]] = {}
        for peer in self.order(peers):
            members.setdefault(self.colour(peer), []).append(peer)
        centres = _centres([len(names) for names in members.values()])
        found: dict[str, tuple[float, float]] = {}
        for (x, y, radius), names in zip(centres, members.values(), strict=True):
            for at, name in enumerate(names):
                reach = radius * math.sqrt((at + 0.5) / len(names))
                turn = at * GOLDEN
                found[name] = (x + reach * math.cos(turn), y + reach * math.sin(turn))
        return [(round(found[j][0], 4), round(found[j][1], 4)) for j in peers]


@lru_cache(maxsize=64)
def _read(folder: Path, _stamp: int) -> WorldSeen:
    return WorldSeen._parsed(folder)


def _numbers(held: Any) -> list[float]:
    return [number(share) or 0.0 for share in held] if isinstance(held, list) else []


def _centres(sizes: Sequence[int]) -> list[tuple[float, float, float]]:
    """Discs of these sizes around a circle, none of which covers another: x, y and radius."""
    if len(sizes) == 1:
        return [(0.0, 0.0, 0.95)]
    roots = [math.sqrt(size) for size in sizes]
    total, turn, found = sum(roots), 0.0, []
    for root in roots:
        angle = 2 * math.pi * root / total
        radius = min(0.4, 0.62 * math.sin(min(angle, math.pi) / 2)) * 0.92
        middle = turn + angle / 2
        found.append((0.6 * math.cos(middle), 0.6 * math.sin(middle), radius))
        turn += angle
    return found


def bins_of(peers: Sequence[str], most: int) -> list[int]:
    """Which of at most `most` bins each peer falls into, in the order given."""
    count = min(most, len(peers))
    return [at * count // len(peers) for at in range(len(peers))]


def binned(
    edges: Sequence[tuple[int, int, float]], bins: Sequence[int]
) -> tuple[list[list[float]], list[int]]:
    """Mean weight that a peer of one bin takes from all peers of another; and how many peers each
    bin has."""
    count = max(bins) + 1 if bins else 0
    sizes = [0] * count
    for at in bins:
        sizes[at] += 1
    cells = [[0.0] * count for _ in range(count)]
    for taker, giver, weight in edges:
        cells[bins[taker]][bins[giver]] += weight
    return [
        [round(value / sizes[row], 5) for value in values] for row, values in enumerate(cells)
    ], sizes


def as_data(world: WorldSeen, peers: Sequence[str]) -> dict[str, Any]:
    return {
        "colours": [world.colour(j) for j in peers],
        "legend": world.legend(peers),
        "friend": world.friend,
    }
