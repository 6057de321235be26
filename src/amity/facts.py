"""Everything that one peer can learn of another, what it costs, and where it is computed.

This list is the privacy boundary and the cost table. A fact names what must travel (`moves`), whether my model travels
to the neighbour first (`sends`), and whether it tells something of raw data past any noise on the training (`raw`).

| fact | answer | moves | computed |
|---|---|---|---|
| `Pull()` | examples of j; its model may now stand in my row | model | - |
| `Similarity()` | cos(φ_i, φ_j) of the cards | card | me |
| `Loss()` | F_i(ŵ_j): loss of j's model on my data | model | me: a forward pass |
| `Reported()` | j's own losses before and after training | reply | j: two forward passes a round, shared by all |
| `Probe()` | φ_j and F_j at my model | my model there, card and reply back | j: one pass |
| `Visit()` | as Probe, then j trains a scratch copy of my model | my model there, all back | j: local training |
| `Labels()` | j's label distribution: a reference, simulator only | - | - |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

import torch

from amity.core import Answers, Card, PeerId, Share
from amity.proxy import cosines

if TYPE_CHECKING:
    from amity.peer import Peer
    from amity.proxy import CardSpec

Kind = Literal["card", "model", "reply"]


@dataclass(frozen=True)
class Losses:
    """F before and after local training (the paper's F_j(w^t) and F_j(w^{t,K}))."""

    before: float
    after: float


@dataclass(frozen=True)
class Reading:
    """The answer of a `Probe` or a `Visit`; losses are missing where only a card was seen."""

    similarity: float
    losses: Losses | None


class Offer(NamedTuple):
    """What has come from one neighbour: exactly the pieces that the fact moves, and nothing else."""

    examples: int = 0
    card: Card | None = None
    share: Share | None = None
    losses: Losses | None = None
    labels: tuple[float, ...] = ()


class Asker(Protocol):
    """The peer that asks, as far as a fact needs it."""

    @property
    def card(self) -> Card | None: ...

    def loss_of(self, peer: PeerId, share: Share) -> float:
        """F_i of another's model on my data; no loss is computed twice in a round."""


@dataclass(frozen=True)
class Fact:
    """Base of all facts. Facts are frozen values, so they can be compared, logged and sent."""

    moves: ClassVar[frozenset[Kind]] = frozenset()
    sends: ClassVar[bool] = False
    raw: ClassVar[bool] = False
    reference: ClassVar[bool] = False

    def serve(self, host: Peer, guest: Share, visitor: PeerId, spec: CardSpec | None, degree: int) -> Offer:
        """At the neighbour, for facts that send: compute on the guest's model."""
        raise NotImplementedError

    def read(self, me: Asker, offers: Mapping[PeerId, Offer]) -> Answers:
        """At the asker: turn what arrived into answers."""
        raise NotImplementedError


@dataclass(frozen=True)
class Pull(Fact):
    """j's model as published after its training."""

    moves = frozenset({"model"})

    def read(self, me: Asker, offers: Mapping[PeerId, Offer]) -> Answers:
        return {j: offer.examples for j, offer in offers.items()}


@dataclass(frozen=True)
class Similarity(Fact):
    """Cosine of the cards' sketches; `centered` first subtracts the mean over mine and all that arrived."""

    centered: bool = False
    moves = frozenset({"card"})
    raw = True

    def read(self, me: Asker, offers: Mapping[PeerId, Offer]) -> Answers:
        cards = {j: offer.card.sketch for j, offer in offers.items() if offer.card is not None}
        if me.card is None or not cards:
            return {}
        names = sorted(cards)
        mine, others = me.card.sketch, torch.stack([cards[j] for j in names])
        if self.centered and len(names) > 1:  # two vectors about their mean are opposite, whatever they are
            centre = torch.cat([others, mine[None]]).mean(0)
            mine, others = mine - centre, others - centre
        return dict(zip(names, cosines(mine, others).tolist(), strict=True))


@dataclass(frozen=True)
class Loss(Fact):
    """Mean loss of j's model (with my own part where j keeps its own) on my training data."""

    moves = frozenset({"model"})
    raw = True

    def read(self, me: Asker, offers: Mapping[PeerId, Offer]) -> Answers:
        return {j: me.loss_of(j, offer.share) for j, offer in offers.items() if offer.share is not None}


@dataclass(frozen=True)
class Reported(Fact):
    """What j says of its own losses on its own data. j may lie."""

    moves = frozenset({"reply"})
    raw = True

    def read(self, me: Asker, offers: Mapping[PeerId, Offer]) -> Answers:
        return {j: offer.losses for j, offer in offers.items() if offer.losses is not None}


@dataclass(frozen=True)
class Probe(Fact):
    """φ_j and F_j at my model of the round's start, with j's own head."""

    moves = frozenset({"card", "reply"})
    sends = True
    raw = True

    def serve(self, host: Peer, guest: Share, visitor: PeerId, spec: CardSpec | None, degree: int) -> Offer:
        return host.probe(guest, spec, degree)

    def read(self, me: Asker, offers: Mapping[PeerId, Offer]) -> Answers:
        similar = Similarity().read(me, offers)
        return {j: Reading(similar[j], offers[j].losses) for j in similar}


@dataclass(frozen=True)
class Visit(Probe):
    """Algorithm 1 as printed: j probes my model, trains a scratch copy of it on its data, and returns that model."""

    moves = frozenset({"card", "reply", "model"})

    def serve(self, host: Peer, guest: Share, visitor: PeerId, spec: CardSpec | None, degree: int) -> Offer:
        return host.host_visit(guest, visitor, spec, degree)


@dataclass(frozen=True)
class Labels(Fact):
    """The true label distribution of j: only the oracle asks, only the simulator answers."""

    reference = True
    raw = True

    def read(self, me: Asker, offers: Mapping[PeerId, Offer]) -> Answers:
        return {j: offer.labels for j, offer in offers.items()}


REPLY_BYTES = 16
"""Two float64 losses."""


@dataclass
class Ledger:
    """What one peer moved and computed in a round."""

    card_in: int = 0
    card_out: int = 0
    model_in: int = 0
    model_out: int = 0
    reply_in: int = 0
    reply_out: int = 0
    forward: int = 0
    backward: int = 0

    def as_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def transfer(kind: Kind, size: int, source: Ledger, target: Ledger) -> None:
    """Book `size` bytes of a kind as leaving `source` and reaching `target`."""
    setattr(source, f"{kind}_out", getattr(source, f"{kind}_out") + size)
    setattr(target, f"{kind}_in", getattr(target, f"{kind}_in") + size)
