"""Everything that a peer has only while it is on the network. The parts are made and connected
here, and nowhere else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from amity.core import Card, PeerId
from amity.errors import ConfigError
from amity.net.accord import Accord
from amity.net.answers import Answering
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
from amity.net.service import Service
from amity.net.setup import Setup
from amity.net.spending import Spending
from amity.net.status import STATUS, StatusFile
from amity.net.tally import Tally
from amity.net.waiting import Waiting
from amity.net.wire import Refused, Stamp
from amity.net.workshop import Workshop
from amity.peer.peer import Peer


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
            on_live=self.waiting.on_live,
            on_stranger=lambda name: self.audit("refused", "", "not on the roster", link=name[:63]),
        )
        self.status.note(round=round)
        self.membership.go_online(handlers, beat=self._beat)
        self.status.beat()

    def _beat(self) -> None:
        self.waiting.ping()
        self.status.beat()

    def close(self, round: int) -> None:
        """What moved since the last record stands in the last line of the log."""
        self.stop.set()
        self.line.close()
        self.service.close()
        self._errands.close()
        self._asking.shutdown(wait=False, cancel_futures=True)
        self._meters.close()
        self.spending.close()
        moved = {key: value for key, value in self.tally.take().as_dict().items() if value}
        self.audit("stop", round=round, **moved)
        self.audit.close()

    def _on_card(self, sender: PeerId, data: bytes) -> None:
        """Called by the link, from a thread of its own."""
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
    def board(self) -> Board:
        return Board(self.papers.roster.names)

    @cached_property
    def line(self) -> Connection:
        return Connection(
            transport=self.transport,
            listen=self.setup.who.listen,
            lease=self.setup.net.lease,
            audit=self.audit,
            board=self.board,
            stop=self.stop,
        )

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
        return Tally(self.membership.near)

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
        )

    @cached_property
    def service(self) -> Service:
        return Service(
            me=self.workshop.me,
            schema=self.workshop.schema,
            net=self.setup.net,
            answers=self.answers,
            allowances=self._allowances,
            audit=self.audit,
            roster=self.membership.roster,
        )

    @cached_property
    def waiting(self) -> Waiting:
        config = self.workshop.config
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
            alike=lambda one, other: config.at(one) is config.at(other),
            near=self.membership.near,
            roster=self.membership.roster,
            stop=self.stop,
        )

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
        differs = self.accord.apart(others)
        alive = [j for j in others if self.board.alive(j) and j not in differs]
        return {
            "present": [j for j in alive if self.accord.difference(j) == ""],
            "mute": [j for j in alive if self.accord.difference(j) is None],
            "away": [j for j in others if j not in alive and j not in differs],
            "differs": differs,
            "soon": {j: words for j in alive if (words := self.accord.coming(j))},
            "least": self.setup.net.least,
        }

    @cached_property
    def _allowances(self) -> Allowances:
        return Allowances(self.setup.net, self.workshop.me, self.membership.roster)

    @cached_property
    def _errands(self) -> Errands:
        return Errands()

    @cached_property
    def _asking(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(16, "asking")

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
        return RemoteDesk(
            me=self.workshop.me,
            moment=moment,
            present=present,
            shard=self.workshop.shard,
            courier=self.courier,
            invite=self.answers.invite,
            spending=self.spending,
            tally=self.tally,
            pool=self._asking,
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
