"""Does collaboration help? Each peer's accuracy beside that of its shadow, which learns from nobody
(`eval.shadow`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from amity.core import PeerId
from amity.records import PeerRecord
from amity.tasks import ACCURACY, Metric

RECENT = 10


class Worth(NamedTuple):
    """What collaboration is worth to one peer: fractions, means over its last measurements."""

    together: float
    alone: float
    least: float
    """Less is no difference: of classes one test example, else a hundredth."""
    metric: Metric = ACCURACY

    @property
    def gain(self) -> float:
        """By how much it is better; below 0: worse."""
        return self.metric.gain(self.together, self.alone)

    @property
    def helps(self) -> bool:
        return self.gain >= self.least

    @property
    def harms(self) -> bool:
        return self.gain <= -self.least

    def __str__(self) -> str:
        verdict = "helps" if self.helps else "harms" if self.harms else "makes no difference"
        metric = self.metric
        return (
            f"{metric.number(self.gain, '+')} {metric.apart or metric.called} over training alone"
            f" ({metric.text(self.together)} instead of {metric.text(self.alone)}, means of the"
            f" last rounds): collaboration {verdict}"
        )


def worth_of(metrics: Iterable[PeerRecord], metric: Metric = ACCURACY) -> dict[PeerId, Worth]:
    """By honest peer, where there is a shadow."""
    measured: dict[PeerId, list[PeerRecord]] = {}
    for r in metrics:
        if r.lead("alone") is not None and not r.attacker:
            measured.setdefault(r.peer, []).append(r)
    return {peer: _worth(measured[peer], metric) for peer in sorted(measured)}


def _worth(records: Sequence[PeerRecord], metric: Metric) -> Worth:
    """Over at most ten measurements, and at most half of all: the first ones say little."""
    last = records[-max(1, min(RECENT, len(records) // 2)) :]
    together, alone = (
        sum(found) / len(last)
        for found in ([r.lead() or 0.0 for r in last], [r.lead("alone") or 0.0 for r in last])
    )
    tests = sum(all for _, all in (last[-1].by_class or {}).values())
    return Worth(together, alone, 1 / tests if tests else abs(alone) / 100, metric)


def worth_said(found: Mapping[PeerId, Worth]) -> str:
    """Of all peers in a sentence; empty if there are no shadows."""
    if not found:
        return ""
    gains = {peer: worth.gain for peer, worth in found.items()}
    least, most = min(gains, key=gains.__getitem__), max(gains, key=gains.__getitem__)
    helped, harmed = (
        sum(w) for w in zip(*((w.helps, w.harms) for w in found.values()), strict=True)
    )
    metric = next(iter(found.values())).metric
    mean, low, high = (
        metric.number(value, "+")
        for value in (sum(gains.values()) / len(gains), gains[least], gains[most])
    )
    return (
        f"collaboration helps {helped} of {len(gains)} peers and harms {harmed}: {mean}"
        f" {metric.apart or metric.called} over training alone on average, from {low} ({least}) to"
        f" {high} ({most})"
    )
