"""Everything that a peer has only while it is on the network. The parts are made and connected
here, and nowhere else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from amity.core import Card, PeerId
from amity.errors import ConfigError
from amity.net.accord import Accord
from amity.net.admitting import Admitting
from amity.net.album import Album
from amity.net.answers import Answering
from amity.net.asking import Asking
from amity.net.audit import Audit
from amity.net.board import Board, Notice
from amity.net.calls import Calls
from amity.net.courier import Courier
from amity.net.desk import RemoteDesk
from amity.net.errands import Errands
from amity.net.limits import Allowances
from amity.net.line import Connection
from amity.net.link.base import Handlers, Transport
from amity.net.membership import Membership, Papers
from amity.net.moment import Moment, Phase
from amity.net.revoking import Revoking
from amity.net.sealed import Keys, Sealed
from amity.net.searching import CIRCLE, Company, Searching
from amity.net.seen import Seen
from amity.net.service import REMEMBERED, Service
from amity.net.setup import Setup
from amity.net.showing import Showing
from amity.net.spending import Spending
from amity.net.status import STATUS, StatusFile
from amity.net.sums.desk import Barred, MaskedDesk
from amity.net.sums.giving import Giving
from amity.net.tally import Tally
from amity.net.waiting import Waiting
from amity.net.wire import Refused, Stamp
from amity.net.workshop import Workshop
from amity.patience import Purses
from amity.peer.peer import Peer
from amity.topology import Discover


@dataclass(frozen=True, kw_only=True)
class Online:
    """One life of a peer on the network, from `start` to `close`."""

    setup: Setup
    workshop: Workshop
    papers: Papers
    transport: Transport
    stop: threading.Event
    audit: Audit
    spending: Spending

    def start(self, round: int, listen_in: Callable[[Audit], None] | None = None) -> None:
        """Open the line, and answer from now on."""
        if listen_in is not None:
            listen_in(self.audit)
        roster = self.papers.roster
        self.audit("start", round=round, network=roster.network, members=len(roster.names))
        self._meters.start(self.setup.who.metrics)
        handlers = Handlers(
            on_card=self._on_card,
            on_ask=self.service.on_ask,
            on_live=self._on_live,
            on_stranger=self._on_stranger,
            on_knock=None if self.admitting is None else self.admitting.on_knock,
        )
        self.status.note(round=round)
        self.board.remember(self.seen.floors())
        self.membership.go_online(handlers, beat=self._beat)
        if self.searching is not None:
            self.searching.start()
        self.status.beat()

    def _beat(self) -> None:
        self.waiting.ping()
        self.revoking.beat()
        if self.admitting is not None:
            self.admitting.beat()
        self.status.beat()

    def _on_live(self, name: PeerId, here: bool) -> None:
        if here and self.admitting is not None:
            self.admitting.met()
        if not here and self.searching is not None and name not in self.searching.linked:
            self.board.live(name, False)  # its link has ended, or mine: nobody is missing
            return
        self.waiting.on_live(name, here)

    def _on_stranger(self, name: str) -> None:
        if self.admitting is not None:
            self.admitting.stranger(name)
        else:
            self.audit("refused", "", "not on the roster", link=name[:63])

    def close(self, round: int) -> None:
        """What moved since the last record stands in the last line of the log."""
        self.stop.set()
        self.line.close()
        self.service.close()
        if self.admitting is not None:
            self.admitting.close()
        self._errands.close()
        self._asking.close()
        self._meters.close()
        self.seen.keep(self.board.floors())
        self.seen.close()
        self.spending.close()
        moved = {key: value for key, value in self.tally.take().as_dict().items() if value}
        self.audit("stop", round=round, **moved)
        self.audit.close()

    def _on_card(self, sender: PeerId, data: bytes) -> None:
        """Called by the link, from a thread of its own."""
        if self.searching is not None and sender not in self.searching.linked:
            return  # it came while that link ended
        try:
            self._allowances.of(sender).card()
            self.courier.on_card(sender, data)
        except Refused as refused:
            known = sender if sender in self.membership.roster().members else ""
            self.audit.refuse(known, refused.reason, str(refused))

    # -- made once ---------------------------------------------------------------------------------

    @cached_property
    def stamp(self) -> Stamp:
        papers = self.papers
        schema = self.workshop.schema
        later = tuple((start, one.digest) for start, one in schema.later)
        return Stamp(papers.identity, papers.roster.network, schema.digest, later)

    @cached_property
    def keys(self) -> Keys:
        return Keys(
            stamp=self.stamp,
            schema=self.workshop.schema,
            roster=lambda: self.membership.roster(),
            me=self.workshop.me,
        )

    @cached_property
    def board(self) -> Board:
        return Board(self.papers.roster.names)

    @cached_property
    def line(self) -> Connection:
        return Connection(
            transport=Sealed(self.transport, self.keys, self._most_links),
            listen=self.setup.who.listen,
            lease=self.setup.net.lease,
            audit=self.audit,
            board=self.board,
            stop=self.stop,
        )

    @property
    def _rule(self) -> Discover | None:
        """How neighbours are found; None: they are given."""
        rule = self.workshop.config.topology.instance
        return rule if isinstance(rule, Discover) else None

    @property
    def _most_links(self) -> int:
        return 0 if self._rule is None else self.setup.net.links

    @cached_property
    def membership(self) -> Membership:
        return Membership(
            setup=self.setup,
            papers=self.papers,
            graph=self.workshop.network,
            line=self.line,
            audit=self.audit,
            stop=self.stop,
        )

    @cached_property
    def tally(self) -> Tally:
        return Tally(self.membership.near if self.searching is None else self.searching.heard)

    def near(self, t: int) -> tuple[PeerId, ...]:
        """My neighbours of a round: as the graph says, or as they were found."""
        return (self.searching or self.membership).near(t)

    def reached(self, t: int) -> list[PeerId]:
        """Whom a card of mine reaches when it is shown."""
        if self.searching is not None:
            return sorted(self.searching.visitors())
        return [j for j in self.near(t) if self.board.linked(j)]

    @cached_property
    def searching(self) -> Searching | None:
        """None where neighbours are given."""
        if self._rule is None:
            return None
        return Searching(
            me=self.workshop.me,
            rule=self._rule,
            net=self.setup.net,
            path=self.setup.state / CIRCLE,
            known=self.membership.known,
            company=self._company,
        )

    @property
    def _company(self) -> Company:
        return Company(
            roster=self.membership.roster,
            board=self.board,
            album=self._album,
            courier=lambda: self.courier,
            answers=lambda: self.answers,
            line=self.line,
            errands=self._errands,
            audit=self.audit,
            stamp=self.stamp,
            alike=self._alike,
            stop=self.stop,
        )

    @cached_property
    def _album(self) -> Album:
        return Album(
            me=self.workshop.me,
            schema=self.workshop.schema,
            rounds=self.workshop.config.rounds,
            max_age=self.setup.net.max_age,
            roster=self.membership.roster,
        )

    def _alike(self, one: int, other: int) -> bool:
        """Whether the same holds in two rounds."""
        config = self.workshop.config
        return config.at(one) is config.at(other)

    @cached_property
    def courier(self) -> Courier:
        calls = Calls(
            stamp=self.stamp,
            audit=self.audit,
            board=self.board,
            tally=self.tally,
            link=self.line.link,
        )
        return Courier(
            me=self.workshop.me,
            schema=self.workshop.schema,
            net=self.setup.net,
            rounds=self.workshop.config.rounds,
            calls=calls,
            board=self.board,
            audit=self.audit,
            tally=self.tally,
            roster=self.membership.roster,
            norm=lambda: self.workshop.norm,
            album=None if self._rule is None else self._album,
        )

    @cached_property
    def answers(self) -> Answering:
        courier = self.courier
        return Answering(
            stamp=self.stamp,
            net=self.setup.net,
            audit=self.audit,
            spending=self.spending,
            tally=self.tally,
            guest=lambda visitor, round: courier.model(visitor, "start", round)[0],
            terms=self.workshop.terms.encode(),
            keys=self.keys.answer,
            revoked=lambda asker, number: self.revoking.newer_for(asker, number),
        )

    @cached_property
    def revoking(self) -> Revoking:
        return Revoking(
            path=self.setup.revoked[1],
            ca_path=self.papers.identity.ca_path,
            network=self.papers.roster.network,
            now=self.membership.revoked,
            present=lambda: [j for j in self.membership.roster().names if self.board.reachable(j)],
            courier=self.courier,
            errands=self._errands,
            audit=self.audit,
        )

    @cached_property
    def admitting(self) -> Admitting | None:
        """None where all members are listed."""
        if not self.papers.roster.any_signed:
            return None
        return Admitting(
            path=self.setup.book,
            papers=self.membership.papers,
            link=self.line.link,
            errands=self._errands,
            audit=self.audit,
        )

    @cached_property
    def giving(self) -> Giving:
        return Giving(
            me=self.workshop.me,
            net=self.setup.net,
            stamp=self.stamp,
            keys=self.keys,
            answers=self.answers,
            spending=self.spending,
            roster=self.membership.roster,
        )

    @cached_property
    def _barred(self) -> Barred:
        return Barred()

    @cached_property
    def service(self) -> Service:
        if self.setup.net.masked:
            self.answers.methods["sum"] = self.giving.answer
        if self.searching is not None:
            self.answers.methods["exchange"] = self.searching.answer
        return Service(
            me=self.workshop.me,
            schema=self.workshop.schema,
            net=self.setup.net,
            answers=self.answers,
            allowances=self._allowances,
            audit=self.audit,
            roster=self.membership.roster,
            seen=self.seen,
        )

    @cached_property
    def seen(self) -> Seen:
        return Seen(self.setup.state, REMEMBERED, self.audit)

    @cached_property
    def waiting(self) -> Waiting:
        return Waiting(
            me=self.workshop.me,
            net=self.setup.net,
            rounds=self.workshop.config.rounds,
            board=self.board,
            courier=self.courier,
            errands=self._errands,
            audit=self.audit,
            accord=self.accord,
            told=self.answers.told,
            status=self.status,
            alike=self._alike,
            near=self.near,
            searching=self.searching,
            roster=self.membership.roster,
            purses=self.purses,
            belated=self._asking.belated,
            greet=self.revoking.compare,
            stop=self.stop,
        )

    @cached_property
    def purses(self) -> Purses:
        return Purses(self.setup.net.deadline)

    @cached_property
    def accord(self) -> Accord:
        return Accord(
            mine=self.workshop.terms, courier=self.courier, board=self.board, audit=self.audit
        )

    @cached_property
    def status(self) -> StatusFile:
        path, config = self.setup.state / STATUS, self.workshop.config
        return StatusFile(path, self.workshop.me, config.rounds, self._around)

    def _around(self) -> dict[str, Any]:
        """Who is here, who is not, and who cannot learn with me."""
        others = [j for j in self.membership.roster().names if j != self.workshop.me]
        links: dict[str, Any] = {}
        if self.searching is not None:  # of all others nothing is known
            visitors = self.searching.visitors()
            links["links"] = [len(visitors), len(self.searching.linked)]
            others = [j for j in others if j in visitors or j in self.searching.linked]
        differs = self.accord.apart(others)
        alive = [j for j in others if self.board.reachable(j) and j not in differs]
        return {
            "present": [j for j in alive if self.accord.difference(j) == ""],
            "mute": [j for j in alive if self.accord.difference(j) is None],
            "away": [j for j in others if j not in alive and j not in differs],
            "differs": differs,
            "soon": {j: words for j in alive if (words := self.accord.coming(j))},
            "least": self.setup.net.least,
            "certificate": round(self.membership.ends.timestamp()),
            "costs": {
                j: [round(standing, 2), round(seconds, 1)]
                for j, (standing, seconds) in self.purses.standing().items()
            },
        } | links

    @cached_property
    def showing(self) -> Showing | None:
        """None where nothing is shown."""
        if self.setup.net.show == "nothing":
            return None
        return Showing(
            folder=self.setup.state,
            me=self.workshop.me,
            answers=self.answers,
            courier=self.courier,
            errands=self._errands,
            present=lambda: self._around()["present"],
            audit=self.audit,
        )

    @cached_property
    def _allowances(self) -> Allowances:
        return Allowances(
            self.setup.net, self.workshop.me, self.membership.roster, self.seen.asks()
        )

    @cached_property
    def _errands(self) -> Errands:
        return Errands()

    @cached_property
    def _asking(self) -> Asking:
        return Asking(self.setup.net, self.purses, self.audit, len(self.papers.roster.names))

    @cached_property
    def _computing(self) -> threading.Lock:
        return threading.Lock()

    @cached_property
    def _meters(self) -> MetersPort:
        return MetersPort(self.audit)

    # -- made for a round --------------------------------------------------------------------------

    def moment(
        self,
        peer: Peer,
        card: Card | None,
        degree: int,
        phase: Phase,
        says: Mapping[str, float] | None = None,
    ) -> Moment:
        """What can be asked about a round."""
        return Moment(
            peer=peer,
            computing=self._computing,
            stamp=self.stamp,
            format=self.setup.net.transfer,
            tally=self.tally,
            card=card,
            spec=self.workshop.spec(peer.round),
            degree=degree,
            phase=phase,
            says=says or {},
        )

    def desk(self, moment: Moment, present: Mapping[PeerId, Notice]) -> RemoteDesk:
        """What carries the asks of a round."""
        net = self.setup.net
        masked = partial(MaskedDesk, net=net, keys=self.keys, barred=self._barred)
        return (masked if net.masked else RemoteDesk)(
            me=self.workshop.me,
            moment=moment,
            present=present,
            shard=self.workshop.shard,
            courier=self.courier,
            invite=self.answers.invite,
            spending=self.spending,
            tally=self.tally,
            asking=self._asking,
            audit=self.audit,
        )


class MetersPort:
    """The port for Prometheus, where there is one."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._server: Any = None

    def start(self, port: int) -> None:
        try:
            self._server = self._audit.meters.serve(port) if port else None
        except OSError as error:
            raise ConfigError(
                f"peer.metrics: port {port} cannot be used ({error.strerror}); choose another, or 0"
            ) from None

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
