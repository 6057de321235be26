"""Does collaboration help? Each peer's accuracy beside that of its shadow, which learns from nobody
(`eval.shadow`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from amity.core import PeerId
from amity.records import PeerRecord


class Worth(NamedTuple):
    """What collaboration is worth to one peer: fractions."""

    together: float
    alone: float

    @property
    def gain(self) -> float:
        return self.together - self.alone

    def __str__(self) -> str:
        helps = "helps" if self.gain > 0 else "does not help"
        return (
            f"{100 * self.gain:+.1f} points over training alone ({100 * self.together:.1f} %"
            f" instead of {100 * self.alone:.1f} %): collaboration {helps}"
        )


def worth_of(metrics: Iterable[PeerRecord]) -> dict[PeerId, Worth]:
    """By honest peer, in the last round that was measured, where there is a shadow."""
    found: dict[PeerId, Worth] = {}
    for r in metrics:
        if r.accuracy is not None and r.accuracy_alone is not None and not r.attacker:
            found[r.peer] = Worth(r.accuracy, r.accuracy_alone)
    return {peer: found[peer] for peer in sorted(found)}


def worth_said(found: Mapping[PeerId, Worth]) -> str:
    """Of all peers in a sentence; empty if there are no shadows."""
    if not found:
        return ""
    gains = {peer: worth.gain for peer, worth in found.items()}
    least, most = min(gains, key=gains.__getitem__), max(gains, key=gains.__getitem__)
    helped = sum(gain > 0 for gain in gains.values())
    mean = sum(gains.values()) / len(gains)
    return (
        f"collaboration helps {helped} of {len(gains)} peers: {100 * mean:+.1f} points over"
        f" training alone on average, from {100 * gains[least]:+.1f} ({least}) to"
        f" {100 * gains[most]:+.1f} ({most})"
    )
