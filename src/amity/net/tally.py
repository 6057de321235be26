"""What this peer moved and computed. Both ends of a transfer book by one rule, so that in a network
in which nothing is lost, what all have sent is what all have received, to the byte:

* **Bodies as they travel.** A model or a sketch is as many bytes as its body, in the format that
  `net.transfer` says. Heads are not booked (the meter `amity_bytes` counts everything).
* **Part by part.** The sender books a part of a body when it hands it to the network, the receiver
  when it takes it in. So after an interruption, when the rest is sent again, the sender has booked
  more: what was lost on the way, or came out of order.
* **A card once for each neighbour**, as in the simulator: by its sender when it is published, for
  every neighbour that is there; by a neighbour when it first believes it. A card that is shown or
  asked for again is not booked again. One that is too large to be published is a body like others.
  Where neighbours are found, whoever dialled the sender is such a neighbour, also in the one round
  for which a link outlives its place in the circle. Cards that are handed on are a body, and their
  heads are in it.
* **Losses** travel in a head and count as two numbers (`REPLY_BYTES`), also those of a visit.
* **What a strategy says** counts as many bytes as its text, in both runtimes.
* **One kind for a body**: what a visit brings home is booked as a model, though a sketch is in it.

What moves after the last record (a peer that is done still answers) stands in the line `stop` of
its log; `amity swarm` adds it to the peer's last round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock

from amity.core import PeerId
from amity.facts import Kind, Ledger, transfer

BOOKED: Mapping[str, Kind] = {
    "card": "card",
    "probe": "card",
    "share": "model",
    "start": "model",
    "visit": "model",
    "sum": "model",
    "cards": "card",
}
"""Under what the bodies of each kind of message are booked."""
Near = Callable[[int], tuple[PeerId, ...]]
"""My neighbours of a round."""


class Tally:
    """The books of one peer, until somebody takes them. All methods but `take` may be called from
    any thread."""

    def __init__(self, near: Near) -> None:
        self._near, self._lock = near, Lock()
        self._ledger = Ledger()
        self._cards: list[tuple[PeerId, int, int]] = []

    def sent(self, kind: Kind, size: int) -> None:
        with self._lock:
            transfer(kind, size, self._ledger, Ledger())

    def received(self, kind: Kind, size: int) -> None:
        with self._lock:
            transfer(kind, size, Ledger(), self._ledger)

    def card_came(self, sender: PeerId, round: int, size: int) -> None:
        """A card of a round was believed for the first time."""
        with self._lock:
            self._cards.append((sender, round, size))

    def pay(self, forward: int, backward: int) -> None:
        """Passes over examples."""
        with self._lock:
            self._ledger.forward += forward
            self._ledger.backward += backward

    def take(self) -> Ledger:
        """What was booked since the last time. Graphs are looked at here, and not in the threads of
        the network: cards of those who were not my neighbours are not mine to book."""
        with self._lock:
            ledger, self._ledger = self._ledger, Ledger()
            cards, self._cards = self._cards, []
        ledger.card_in += sum(size for j, round, size in cards if j in self._near(round))
        return ledger
