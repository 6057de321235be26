"""What several strategies share."""

from __future__ import annotations

import numpy as np

from amity.core import PeerId
from amity.proxy import CardSpec


class Cardless:
    """A strategy that publishes no card and pays for none."""

    @property
    def card(self) -> CardSpec | None:
        return None


def sample(peers: tuple[PeerId, ...], count: int, rng: np.random.Generator) -> tuple[PeerId, ...]:
    """At most `count` of them without replacement, uniformly, in sorted order."""
    if count >= len(peers):
        return tuple(sorted(peers))
    return tuple(sorted(peers[k] for k in rng.choice(len(peers), count, replace=False)))
