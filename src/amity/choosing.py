"""What strategies and stages share: publishing no card, drawing, breaking ties."""

from __future__ import annotations

import math

import numpy as np

from amity.core import Answers, Band, PeerId, Traffic, View
from amity.peer.proxy import CardSpec


class Cardless:
    """A strategy that publishes no card and pays for none."""

    @property
    def card(self) -> CardSpec | None:
        return None

    def pulls(self, neighbours: int) -> float | Traffic:
        """At most everyone's model."""
        return Traffic(Band(0, neighbours))


def sample(peers: tuple[PeerId, ...], count: int, rng: np.random.Generator) -> tuple[PeerId, ...]:
    """At most `count` of them without replacement, uniformly, in sorted order."""
    if count >= len(peers):
        return tuple(sorted(peers))
    return tuple(sorted(peers[k] for k in rng.choice(len(peers), count, replace=False)))


def ties(view: View) -> dict[PeerId, int]:
    """A lot for each neighbour, to break ties without favouring a name."""
    return dict(
        zip(view.neighbours, view.rng.permutation(len(view.neighbours)).tolist(), strict=True)
    )


def finite(losses: Answers) -> dict[PeerId, float]:
    """Without those whose model has diverged."""
    return {j: loss for j, loss in losses.items() if math.isfinite(loss)}
