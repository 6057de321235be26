"""All peers of a run find their neighbours (`topology=discover`), in lockstep: what
`round/discovery.py` decides for one, with the cards of the round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amity.config import Config
from amity.core import PeerId
from amity.errors import TopologyError
from amity.facts import transfer
from amity.rng import rng
from amity.round.discovery import (
    HEAD_BYTES,
    Alike,
    Circle,
    Handed,
    Lot,
    at_first,
    hand_out,
    let_in,
    lot_of,
    partner,
    take_in,
)
from amity.simulate.seat import Gallery, Seat
from amity.topology import Discover, Network


class Circles:
    """The circles of all peers. In a round everyone sees the circles with which it began.

    A liar's card is the one that it signed: what is passed on cannot differ from asker to asker.
    """

    def __init__(self, rule: Discover, network: Network) -> None:
        self._rule, self._network = rule, network
        self.begin()

    @classmethod
    def of(cls, config: Config, network: Network) -> Circles | None:
        """None where the graph is given."""
        rule = config.topology.instance
        if not isinstance(rule, Discover):
            return None
        if network.redraw:
            raise TopologyError(
                "topology.redraw: has no meaning with topology=discover, where neighbours change as"
                " they are found; leave it out"
            )
        return cls(rule, network)

    def begin(self) -> None:
        """As before the first round: everyone knows a few at random."""
        graph, names = self._network.graph(0), self._network.names
        self._circles = {}
        for at, me in enumerate(names):
            known = sorted(names[j] for j in graph.neighbors(at))
            self._circles[me] = at_first(self._rule, known, self._lot(me))

    def _lot(self, me: PeerId) -> Lot:
        return lot_of(f"{self._network.seed} {me}")

    def _here(self, t: int) -> dict[PeerId, bool]:
        """Who is online, and done with its training."""
        ready = frozenset(self._network.ready(t))
        return {me: on and me in ready for me, on in self._network.is_online(t).items()}

    def near(self, t: int) -> dict[PeerId, tuple[PeerId, ...]]:
        """Everyone's neighbours of a round: its circle, less those who are not here."""
        here = self._here(t)
        return {
            me: tuple(j for j in circle.all if here[j]) if here[me] else ()
            for me, circle in self._circles.items()
        }

    # -- one round ---------------------------------------------------------------------------------

    def exchange(self, t: int, seats: Mapping[PeerId, Seat]) -> None:
        """Everyone's exchanges of a round, after its cards are there."""
        here = self._here(t)
        shown = {me: seats[me] for me in seats if here[me] and seats[me].card is not None}
        gallery, draws = Gallery(shown, 0), {}
        asked: dict[PeerId, dict[PeerId, float]] = {}
        for me in shown:
            draw = draws[me] = rng(self._network.seed, "discover", t, me).random(4)
            other = partner(self._circles[me], float(draw[0]))
            if other in shown and self._network.delivered(t, me, other, "Exchange"):
                asked.setdefault(other, {})[me] = float(draw[1])
        handed: dict[PeerId, list[Handed]] = {me: [] for me in shown}
        for other in sorted(asked):
            for me in let_in(self._rule, asked[other]):
                for giver, taker, which in ((other, me, 2), (me, other, 3)):
                    given = self._give(gallery, shown, giver, taker, float(draws[me][which]))
                    handed[taker].append(given)
        self._circles |= {me: self._taken(gallery, shown, me, handed[me]) for me in shown}

    def _give(
        self,
        gallery: Gallery,
        seats: Mapping[PeerId, Seat],
        giver: PeerId,
        taker: PeerId,
        at: float,
    ) -> Handed:
        """What one hands to another, booked."""
        circle = self._circles[giver]
        alike = _alike(gallery, seats, taker, {*circle.all, giver} - {taker})
        given = hand_out(self._rule, giver, circle, taker, alike, at)
        for j in (*given.best, *given.random):
            card = seats[j].card
            size = HEAD_BYTES + (card.nbytes if card is not None else 0)
            transfer("card", size, seats[giver].ledger, seats[taker].ledger)
        return given

    def _taken(
        self, gallery: Gallery, seats: Mapping[PeerId, Seat], me: PeerId, handed: list[Handed]
    ) -> Circle:
        told = {j for one in handed for j in (one.giver, *one.best, *one.random)}
        alike = _alike(gallery, seats, me, {*self._circles[me].all, *told} - {me})
        return take_in(self._rule, me, self._circles[me], handed, alike, self._lot(me))

    # -- checkpoints -------------------------------------------------------------------------------

    def remembered(self, me: PeerId) -> list[list[PeerId]]:
        """A circle as JSON."""
        return [list(part) for part in self._circles[me]]

    def remember(self, me: PeerId, found: Any) -> None:
        view, random = found
        self._circles[me] = Circle(tuple(view), tuple(random))


def _alike(
    gallery: Gallery, seats: Mapping[PeerId, Seat], me: PeerId, others: set[PeerId]
) -> Alike:
    """How similar the cards of others are to mine, of those who showed one."""
    return gallery.cosines(me, sorted(j for j in others if j in seats))
