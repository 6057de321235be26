"""A peer as it was in one round, after its training: what others may ask about while the peer
itself goes on."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from amity.core import Card, Share
from amity.facts import Fact, Losses, Offer
from amity.net.wire import Format, Stamp, encode_share, encode_sketch
from amity.peer.peer import Peer, Rows, World
from amity.peer.proxy import CardSpec
from amity.rng import rng

INLINE = 64 * 1024
"""Cards up to this size travel with their announcement; larger ones are fetched."""


@dataclass(frozen=True)
class Blob:
    """A signed head and its body."""

    head: bytes
    body: bytes

    @property
    def message(self) -> bytes:
        """As it is published or answered in one piece: with its body where that is small."""
        return self.head + (self.body if len(self.body) <= INLINE else b"")


def frozen(peer: Peer, world: World, round: int) -> Peer:
    """The same peer in this round, on copies of its vectors and with a learner of its own (so that
    it can answer while the peer trains)."""
    rows = peer.rows

    def copies(vectors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {key: vector.clone() for key, vector in vectors.items()}

    share, mask = (None if vector is None else vector.clone() for vector in (rows.share, rows.mask))
    copy = Rows(
        rows.start.clone(),
        rows.trained.clone(),
        copies(rows.state),
        copies(rows.next_state),
        share,
        mask,
    )
    still = Peer(peer.name, peer.data, world, copy)
    still.round = round
    return still


class Moment:
    """One round of this peer. Blobs are made when first asked for; whatever computes holds the lock
    of the learner."""

    def __init__(
        self, peer: Peer, computing: threading.Lock, stamp: Stamp, format: Format, card: Card | None
    ) -> None:
        self.peer, self._computing, self._stamp, self._format, self.card = (
            peer,
            computing,
            stamp,
            format,
            card,
        )
        self._lock = threading.Lock()
        self._blobs: dict[str, Blob] = {}
        self._losses: Losses | None = None

    @property
    def round(self) -> int:
        return self.peer.round

    def announcement(self, degree: int, phase: str) -> Blob:
        """The card as it is published; without a body where the strategy has no cards, or while
        joining."""
        sketch = self.card.sketch if self.card is not None and phase == "ready" else None
        body = b"" if sketch is None else encode_sketch(sketch)
        data = {"examples": len(self.peer.data.train), "degree": degree, "phase": phase}
        blob = Blob(self._stamp.seal("card", self.round, body, data=data), body)
        with self._lock:
            self._blobs["card"] = blob
        return blob

    def blob(self, kind: str) -> Blob:
        """`card`, `share` (the model after training) or `start` (the model that goes on visits)."""
        with self._lock:
            if kind not in self._blobs:
                share = self.peer.share if kind == "share" else self.peer.share_start
                body = encode_share(share, self._format, self._draw(kind))
                data = {"examples": len(self.peer.data.train)}
                head = self._stamp.seal(
                    "share" if kind == "share" else "start",
                    self.round,
                    body,
                    format=self._format,
                    data=data,
                )
                self._blobs[kind] = Blob(head, body)
            return self._blobs[kind]

    def _draw(self, *names: str) -> np.random.Generator:
        return rng(self.peer.world.seed, "transfer", self.round, self.peer.name, *names)

    def losses(self) -> Losses:
        if self._losses is None:
            with self._computing:
                self._losses = self._losses or self.peer.own_losses()
        return self._losses

    def host(
        self,
        fact: Fact,
        guest: Share,
        visitor: str,
        spec: CardSpec | None,
        degree: int,
        allowed: int | None,
    ) -> tuple[Offer, int]:
        """Compute on a guest's model, within so many private steps; returns how many it took."""
        with self._computing:
            self.peer.allowed, self.peer.spent = allowed, 0
            offer = fact.serve(self.peer, guest, visitor, spec, degree)
            return offer, self.peer.spent

    def visit_blob(self, offer: Offer, visitor: str, ask: str) -> Blob:
        """What a guest takes home, signed for it alone."""
        if offer.card is None or offer.losses is None:
            raise ValueError("a visit brings back a card and losses")
        data = {
            "examples": offer.examples,
            "degree": offer.card.degree,
            "before": offer.losses.before,
            "after": offer.losses.after,
        }
        if offer.share is None:
            body = encode_sketch(offer.card.sketch)
            return Blob(
                self._stamp.seal("probe", self.round, body, to=visitor, re=ask, data=data), body
            )
        body = encode_share(
            offer.share, self._format, self._draw("visit", visitor), offer.card.sketch
        )
        head = self._stamp.seal(
            "visit", self.round, body, to=visitor, re=ask, format=self._format, data=data
        )
        return Blob(head, body)
