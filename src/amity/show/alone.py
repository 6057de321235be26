"""Does collaboration help? Each peer's accuracy beside that of its shadow, which learns from nobody
(`eval.shadow`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from amity.core import PeerId
from amity.records import PeerRecord

RECENT = 10


class Worth(NamedTuple):
    """What collaboration is worth to one peer: fractions, means over its last measurements."""

    together: float
    alone: float
    tests: int
    """Its test examples: less than one of them is no difference."""

    @property
    def gain(self) -> float:
        return self.together - self.alone

    @property
    def helps(self) -> bool:
        return self.gain * self.tests >= 1

    @property
    def harms(self) -> bool:
        return self.gain * self.tests <= -1

    def __str__(self) -> str:
        verdict = "helps" if self.helps else "harms" if self.harms else "makes no difference"
        return (
            f"{100 * self.gain:+.1f} points over training alone ({100 * self.together:.1f} %"
            f" instead of {100 * self.alone:.1f} %, means of the last rounds): collaboration"
            f" {verdict}"
        )


def worth_of(metrics: Iterable[PeerRecord]) -> dict[PeerId, Worth]:
    """By honest peer, where there is a shadow."""
    measured: dict[PeerId, list[PeerRecord]] = {}
    for r in metrics:
        if r.accuracy_alone is not None and not r.attacker:
            measured.setdefault(r.peer, []).append(r)
    return {peer: _worth(measured[peer]) for peer in sorted(measured)}


def _worth(records: Sequence[PeerRecord]) -> Worth:
    """Over at most ten measurements, and at most half of all: the first ones say little."""
    last = records[-max(1, min(RECENT, len(records) // 2)) :]
    together, alone = (
        sum(found) / len(last)
        for found in ([r.accuracy or 0.0 for r in last], [r.accuracy_alone or 0.0 for r in last])
    )
    tests = sum(all for _, all in (last[-1].by_class or {}).values())
    return Worth(together, alone, max(tests, 1))


def worth_said(found: Mapping[PeerId, Worth]) -> str:
    """Of all peers in a sentence; empty if there are no shadows."""
    if not found:
        return ""
    gains = {peer: worth.gain for peer, worth in found.items()}
    least, most = min(gains, key=gains.__getitem__), max(gains, key=gains.__getitem__)
    helped, harmed = (
        sum(w) for w in zip(*((w.helps, w.harms) for w in found.values()), strict=True)
    )
    mean = sum(gains.values()) / len(gains)
    return (
        f"collaboration helps {helped} of {len(gains)} peers and harms {harmed}: {100 * mean:+.1f}"
        f" points over training alone on average, from {100 * gains[least]:+.1f} ({least}) to"
        f" {100 * gains[most]:+.1f} ({most})"
    )
