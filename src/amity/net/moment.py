"""A peer as it was in one round, after its training: what others may ask about while the peer
itself goes on."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch

from amity.core import Card, Share
from amity.facts import Fact, Ledger, Losses, Offer
from amity.net.tally import Tally
from amity.net.wire import Format, Stamp, encode_share, encode_sketch
from amity.peer.peer import Peer, Rows, World
from amity.peer.proxy import CardSpec
from amity.rng import rng
from amity.round.shard import Hosted

Phase = Literal["joining", "ready", "done"]
"""Of a peer: it listens for a round, takes part, or has done all rounds."""

INLINE = 64 * 1024
"""Cards up to this size travel with their announcement; larger ones are fetched."""


@dataclass(frozen=True)
class Blob:
    """A signed head and its body."""

    head: bytes
    body: bytes
    inline: int = INLINE
    """Up to so many bytes of body travel with the head; a longer one is fetched."""

    @property
    def message(self) -> bytes:
        """As it is published or answered in one piece: with its body where that is small."""
        return self.head + self.carried

    @property
    def carried(self) -> bytes:
        """What of the body travels with the head."""
        return self.body if len(self.body) <= self.inline else b""


def frozen(peer: Peer, world: World, round: int) -> Peer:
    """The same peer in this round, on copies of its vectors and with a learner of its own (so that
    it can answer while the peer trains)."""
    rows = peer.rows

    def copies(vectors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {key: vector.clone() for key, vector in vectors.items()}

    share, mask = (None if vector is None else vector.clone() for vector in (rows.share, rows.mask))
    copy = Rows(
        start=rows.start.clone(),
        trained=rows.trained.clone(),
        state=copies(rows.state),
        next_state=copies(rows.next_state),
        share=share,
        mask=mask,
        alone=rows.alone,
    )
    still = Peer(peer.name, peer.data, world, copy)
    still.round = round
    return still


@dataclass(kw_only=True)
class Moment:
    """One round of this peer. Blobs are made when first asked for; whatever computes holds the lock
    of the learner."""

    peer: Peer
    computing: threading.Lock
    stamp: Stamp
    format: Format
    tally: Tally
    card: Card | None = None
    spec: CardSpec | None = None
    degree: int = 0
    """How many neighbours the peer has in this round."""
    says: Mapping[str, float] = field(default_factory=dict)
    """What its strategy said at the end of the round before."""
    phase: Phase = "ready"
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)
    _blobs: dict[str, Blob] = field(default_factory=dict, init=False, repr=False)
    _losses: Losses | None = field(default=None, init=False)

    @property
    def round(self) -> int:
        return self.peer.round

    @property
    def examples(self) -> int:
        return len(self.peer.data.train)

    def announcement(self) -> Blob:
        """The card as it is published; without a body where the strategy has no cards, or while
        joining."""
        sketch = self.card.sketch if self.card is not None and self.phase == "ready" else None
        body = b"" if sketch is None else encode_sketch(sketch)
        data = {"examples": self.examples, "degree": self.degree, "phase": self.phase}
        # whoever needs a card only once fetches it then
        inline = 0 if self.spec is not None and self.spec.once else INLINE
        blob = Blob(self.stamp.seal("card", self.round, body, data=data), body, inline)
        with self._lock:
            self._blobs["card"] = blob
        return blob

    def blob(self, kind: str) -> Blob:
        """`card` (as it was announced), `share` (the model after training) or `start` (the one that
        goes on visits)."""
        with self._lock:
            if kind == "share" and kind not in self._blobs:
                self._blobs[kind] = self._model("share", self.peer.share)
            elif kind == "start" and kind not in self._blobs:
                self._blobs[kind] = self._model("start", self.peer.share_start)
            return self._blobs[kind]

    def _model(self, kind: Literal["share", "start"], share: Share) -> Blob:
        body = encode_share(share, self.format, self._draw(kind))
        data = {"examples": self.examples}
        head = self.stamp.seal(kind, self.round, body, format=self.format, data=data)
        return Blob(head, body)

    def _draw(self, *names: str) -> np.random.Generator:
        return rng(self.peer.world.seed, "transfer", self.round, self.peer.name, *names)

    @contextmanager
    def _computing(self) -> Iterator[Ledger]:
        """Alone with the learner; the passes are booked, whatever comes of them."""
        with self.computing:
            self.peer.ledger = books = Ledger()
            try:
                yield books
            finally:
                self.tally.pay(books.forward, books.backward)

    def losses(self) -> Losses:
        if self._losses is None:
            with self._computing():
                self._losses = self._losses or self.peer.own_losses()
        return self._losses

    def host(self, fact: Fact, guest: Share, visitor: str, allowed: int | None) -> Hosted:
        """Compute on a guest's model, within so many private steps."""
        with self._computing() as books:
            self.peer.allowed, self.peer.spent = allowed, 0
            offer = fact.serve(self.peer, guest, visitor, self.spec, self.degree)
            return Hosted(offer, books.forward, books.backward, self.peer.spent)

    def visit_blob(self, offer: Offer, visitor: str, ask: str) -> Blob:
        """What a guest takes home, signed for it alone."""
        if offer.card is None or offer.losses is None:
            raise ValueError("a visit brings back a card and losses")
        losses, sketch = offer.losses, offer.card.sketch
        data: dict[str, float] = {"examples": offer.examples, "degree": offer.card.degree}
        data |= {"before": losses.before, "after": losses.after}
        if offer.share is None:
            body = encode_sketch(sketch)
            head = self.stamp.seal("probe", self.round, body, to=visitor, re=ask, data=data)
            return Blob(head, body)
        body = encode_share(offer.share, self.format, self._draw("visit", visitor), sketch)
        head = self.stamp.seal(
            "visit", self.round, body, to=visitor, re=ask, format=self.format, data=data
        )
        return Blob(head, body)
