"""What a fact is, what it is read from, and who asks it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Protocol

from amity.core import Answers, Card, PeerId, Share

if TYPE_CHECKING:
    from amity.facts.models import ModelFact
    from amity.peer.peer import Peer
    from amity.peer.proxy import CardSpec

Kind = Literal["card", "model", "reply"]


@dataclass(frozen=True)
class Losses:
    """F before and after local training (the paper's F_j(w^t) and F_j(w^{t,K}))."""

    before: float
    after: float


@dataclass(frozen=True)
class Reading:
    """The answer to a `Probe` or a `Visit`. If only a card was seen, it has no losses."""

    similarity: float
    losses: Losses | None


class Offer(NamedTuple):
    """What came from one neighbour: exactly the pieces that the fact moves."""

    examples: int = 0
    card: Card | None = None
    share: Share | None = None
    losses: Losses | None = None
    labels: tuple[float, ...] = ()
    degree: int = 0
    says: Mapping[str, float] | None = None
    group: int | None = None


class Asker(Protocol):
    """The peer that asks, as far as a fact needs it."""

    @property
    def card(self) -> Card | None: ...

    def measured(self, fact: ModelFact, peers: Sequence[PeerId]) -> Answers:
        """What a fact says about these peers' models; nothing is computed twice in a round."""


@dataclass(frozen=True)
class Fact:
    """Base of all facts. Facts are frozen values, so they can be compared, logged and sent."""

    moves: ClassVar[frozenset[Kind]] = frozenset()
    sends: ClassVar[bool] = False
    raw: ClassVar[bool] = False
    reference: ClassVar[bool] = False
    single: ClassVar[bool] = False
    """Whether it looks at models one by one, or lets mine be looked at: not where models are known
    by their masked sum alone."""

    def name_of(self, spec: CardSpec | None) -> str:
        """The name of the fact in reports on privacy. For cards it names the proxy on them."""
        cards = "card" in self.moves and not self.sends and spec is not None
        return f"{type(self).__name__} of {spec.proxy}" if cards and spec else type(self).__name__

    def serve(
        self, host: Peer, guest: Share, visitor: PeerId, spec: CardSpec | None, degree: int
    ) -> Offer:
        """At the neighbour, for facts that send: compute on the guest's model."""
        raise NotImplementedError

    def read(self, me: Asker, offers: Mapping[PeerId, Offer]) -> Answers:
        """At the asker: turn what arrived into answers."""
        raise NotImplementedError
