"""The truth about a world: only references ask for it, only the simulator answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from amity.core import Answers, PeerId
from amity.facts.base import Asker, Fact, Offer


@dataclass(frozen=True)
class Labels(Fact):
    """The true label distribution of j: only the oracle asks, only the simulator answers."""

    reference = True
    raw = True

    def read(self, me: Asker, offers: Mapping[PeerId, Offer]) -> Answers:
        return {j: offer.labels for j, offer in offers.items()}


@dataclass(frozen=True)
class Groups(Fact):
    """The hidden group of j, None where the world has no groups: only the oracle asks, only the
    simulator answers."""

    reference = True
    raw = True

    def read(self, me: Asker, offers: Mapping[PeerId, Offer]) -> Answers:
        return {j: offer.group for j, offer in offers.items()}
