"""Facts that a neighbour tells, or computes for me."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from amity.core import Answers, PeerId, Share
from amity.facts.base import Asker, Fact, Offer, Reading
from amity.facts.cards import Similarity

if TYPE_CHECKING:
    from amity.peer.peer import Peer
    from amity.peer.proxy import CardSpec

MOST_SAID = 1024
"""Numbers that a strategy may say in a round."""


@dataclass(frozen=True)
class Degree(Fact):
    """How many neighbours j reaches in this round, as j says. It travels with the sign of life that
    every peer gives anyway, so it costs nothing."""

    def read(self, me: Asker, offers: Mapping[PeerId, Offer]) -> Answers:
        return {j: offer.degree for j, offer in offers.items()}


@dataclass(frozen=True)
class Reported(Fact):
    """What j says about its own losses on its own data. j may lie."""

    moves = frozenset({"reply"})
    raw = True

    def read(self, me: Asker, offers: Mapping[PeerId, Offer]) -> Answers:
        return {j: offer.losses for j, offer in offers.items() if offer.losses is not None}


@dataclass(frozen=True)
class Said(Fact):
    """What j's strategy said at the end of its last round: small numbers by name (`Decision.says`),
    none before its first. They may follow from raw data, and j may say anything."""

    moves = frozenset({"reply"})
    raw = True

    def read(self, me: Asker, offers: Mapping[PeerId, Offer]) -> Answers:
        return {j: offer.says for j, offer in offers.items() if offer.says is not None}


@dataclass(frozen=True)
class Probe(Fact):
    """φ_j and F_j at my model of the round's start, with j's own head."""

    moves = frozenset({"card", "reply"})
    sends = True
    raw = True
    single = True

    def serve(
        self, host: Peer, guest: Share, visitor: PeerId, spec: CardSpec | None, degree: int
    ) -> Offer:
        return host.probe(guest, visitor, spec, degree)

    def read(self, me: Asker, offers: Mapping[PeerId, Offer]) -> Answers:
        similar = Similarity().read(me, offers)
        return {j: Reading(similar[j], offers[j].losses) for j in similar}


@dataclass(frozen=True)
class Visit(Probe):
    """Algorithm 1 as printed: j probes my model, trains a scratch copy of it on its data, and
    returns that model."""

    moves = frozenset({"card", "reply", "model"})

    def serve(
        self, host: Peer, guest: Share, visitor: PeerId, spec: CardSpec | None, degree: int
    ) -> Offer:
        return host.host_visit(guest, visitor, spec, degree)
