"""Who this peer is and who the others are: roster and certificate, which are read again while it
runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from amity.core import PeerId
from amity.errors import AmityError, IdentityError
from amity.net.audit import Audit
from amity.net.line import Connection
from amity.net.link.base import Handlers
from amity.net.setup import Setup, read_setup
from amity.net.trust.identity import Identity, expires
from amity.net.trust.passes import Book, enrolled, load_book, my_entry
from amity.net.trust.revoked import Revoked, newest_revoked
from amity.net.trust.roster import Roster
from amity.registry import reading
from amity.topology import Discover, Full, Network

LOOK = 1.0
"""Seconds between looks for a new roster or certificate, and for whoever is silent."""
TURN, LONGEST_TURN = 0.25, 2.0
"""Seconds between two members that open their lines anew, and at most."""
SOON = 14 * 86400.0
"""Seconds before the end of a certificate from which on the log warns."""
NEVER = datetime.max.replace(tzinfo=UTC)
FEW = 16
"""Members who may be too few for a graph, where others are still to be found."""
Graph = Callable[[tuple[PeerId, ...]], Network]
"""Who neighbours whom, among some members."""


@dataclass(frozen=True)
class Papers:
    """A key with its certificate, and the roster that lists it."""

    identity: Identity
    roster: Roster
    """Without those whom the authority has revoked."""
    revoked: Revoked | None = None
    book: Book = field(default_factory=dict)
    """The passes by which others are members, where the authority's signature suffices."""
    lasts: datetime = NEVER
    """Until when all of these are members, if nothing happens: the first certificate that ends."""

    @classmethod
    def load(cls, setup: Setup) -> Papers:
        """The papers of a peer that is a member."""
        papers = cls.read(setup)
        member_of(papers, setup)
        return papers

    @classmethod
    def read(cls, setup: Setup) -> Papers:
        """What is in the files, whether or not it is of a member."""
        identity = Identity.load(setup.identity, setup.who.name)
        roster = Roster.load(setup.roster)
        revoked = newest_revoked(setup.revoked, identity.ca_path, roster.network)
        book: Book = {}
        if roster.any_signed:
            _refuse_relay(identity, roster, setup)
            book = load_book(setup.book, identity.ca_path, roster.network)
            me = my_entry(identity, roster, setup.who.listen)
            roster = enrolled(roster, book, me, revoked)
        roster = roster if revoked is None else revoked.strike(roster)
        ends = (one.end for one in book.values() if one.valid)
        return cls(identity, roster, revoked, book, min(ends, default=NEVER))


class Membership:
    """Looks after the line, the connection to the network. It opens the line, and opens it again
    when roster or certificate have changed. A wrong file is reported, and the old one stays in
    use."""

    def __init__(
        self,
        *,
        setup: Setup,
        papers: Papers,
        graph: Graph,
        line: Connection,
        audit: Audit,
        stop: threading.Event,
    ) -> None:
        self._setup, self._papers, self._make_graph = setup, papers, graph
        self._line, self._audit, self._stop = line, audit, stop
        self._me = papers.identity.name
        self._graph = self._graph_of(papers.roster)
        self._ends = expires(papers.identity.cert_path)
        self._warned = float("-inf")
        self._told = ""

    def papers(self) -> Papers:
        """The current ones."""
        return self._papers

    def roster(self) -> Roster:
        """The current one."""
        return self._papers.roster

    def revoked(self) -> Revoked | None:
        """The newest list of those who are no members any more."""
        return self._papers.revoked

    def near(self, t: int) -> tuple[PeerId, ...]:
        """My neighbours of a round."""
        near = self._graph.neighbours(t).get(self._me, ())
        return tuple(j for j in near if j in self.roster().members)

    def known(self) -> tuple[PeerId, ...]:
        """Whom I am told of, where neighbours are found: those whom a common lot gives me."""
        at = self._graph.names.index(self._me)
        return tuple(sorted(self._graph.names[j] for j in self._graph.graph(0).neighbors(at)))

    # -- a thread of its own -----------------------------------------------------------------------

    def go_online(self, handlers: Handlers, beat: Callable[[], None]) -> None:
        """Open the line and look after it until the peer stops. `beat` is called about once per
        second."""
        files = self._files()
        self._open(handlers)
        threading.Thread(
            target=self._tend, args=(handlers, beat, files), name="tend", daemon=True
        ).start()

    def _open(self, handlers: Handlers) -> None:
        self._line.open(self._papers.identity, self.roster(), handlers)

    def _files(self) -> dict[Path, tuple[int, int]]:
        identity = self._papers.identity
        return stamps(
            self._setup.roster,
            identity.cert_path,
            identity.ca_path,
            *self._setup.revoked,
            self._setup.book,
        )

    def _tend(
        self, handlers: Handlers, beat: Callable[[], None], files: dict[Path, tuple[int, int]]
    ) -> None:
        while not self._stop.wait(LOOK):
            beat()
            self._audit.meters.certificate.set(self._validity())
            now = self._files()
            try:
                if now != files or datetime.now(UTC) >= self._papers.lasts:
                    if self._renew({path for path in now if now[path] != files[path]}):
                        self._stop.wait(self._turn)
                        self._open(handlers)
                    files = now
                elif not self._line.is_open:
                    # the last attempt failed: an address that is away, a port that is taken
                    self._open(handlers)
                self._told = ""
            except Exception as error:
                # an operator's mistake must not stop a running peer; it is tried again
                self._complain(error)

    @property
    def _turn(self) -> float:
        """Seconds before I open my line anew: members who read a new roster at the same moment do
        not all go away at once, so that each finds the others again."""
        return min(LONGEST_TURN, TURN * sorted(self.roster().names).index(self._me))

    def _complain(self, error: Exception) -> None:
        """Report a mistake, once."""
        if str(error) != self._told:
            self._audit("error", why="roster, certificate or network", message=str(error))
        self._told = str(error)

    @property
    def ends(self) -> datetime:
        """When my certificate does."""
        return self._ends

    def _validity(self) -> float:
        """Seconds until my certificate ends. If that is soon, the log says so twice a day."""
        left = (self._ends - datetime.now(UTC)).total_seconds()
        if left < SOON and time.monotonic() - self._warned > SOON / 28:
            self._warned = time.monotonic()
            self._audit("certificate", self._me, "ends soon", seconds=round(left))
        return left

    # -- new files ---------------------------------------------------------------------------------

    def _renew(self, changed: Set[Path]) -> bool:
        """Read what has changed. Returns whether the line must be opened again."""
        papers = Papers.read(self._setup)
        identity, roster = self._same_key(papers.identity), self._same_network(papers.roster)
        if changed <= {self._setup.book} and roster == self.roster():
            self._papers = papers  # a member has renewed its certificate
            return False
        if self._me not in roster.members:
            self._leave_if_removed()
            return False
        member_of(papers, self._setup)
        self._tell_changes(roster)
        self._papers, self._ends = papers, expires(identity.cert_path)
        try:
            self._graph = self._graph_of(roster)
        except AmityError as error:  # the old graph, less those who left
            self._audit("error", why="topology", message=str(error))
        return True

    def _graph_of(self, roster: Roster) -> Network:
        """Who neighbours whom. Where members are found while this peer runs, all do until there are
        enough for the graph that was planned."""
        try:
            return self._make_graph(roster.names)
        except AmityError:
            if not roster.any_signed or len(roster.names) > FEW:
                raise
            return Network(Full(), roster.names, 0, 0)

    def _same_key(self, identity: Identity) -> Identity:
        if identity.fingerprint != self._papers.identity.fingerprint:
            raise IdentityError(
                f"{identity.key_path}: is another key than this peer started with; restart it"
            )
        return identity

    def _same_network(self, roster: Roster) -> Roster:
        if roster.network != self.roster().network:
            raise IdentityError(
                f"{self._setup.roster}: is of another network ({roster.network}); restart the peer"
                " for that"
            )
        return roster

    def _leave_if_removed(self) -> None:
        self._stop.wait(LOOK)  # a file that was half written is whole by now
        if self._me not in Papers.read(self._setup).roster.members:
            self._audit("roster", self._me, "removed")
            self._stop.set()

    def _tell_changes(self, roster: Roster) -> None:
        changed = sorted(set(roster.names) ^ set(self.roster().names))
        for name in changed:
            self._audit("roster", name, "added" if name in roster.members else "removed")
        if not changed and roster == self.roster():
            self._audit("certificate", self._me, "renewed")
        elif not changed:
            self._audit("roster", self._me, "changed")


def stamps(*paths: Path) -> dict[Path, tuple[int, int]]:
    """When files were last changed, to notice changes."""
    found = {}
    for path in paths:
        try:
            found[path] = (path.stat().st_mtime_ns, path.stat().st_size)
        except OSError:
            found[path] = (0, 0)
    return found


def member_of(papers: Papers, setup: Setup) -> None:
    """Raises unless this peer is on the roster with this key."""
    identity, roster, revoked = papers.identity, papers.roster, papers.revoked
    if revoked is not None and identity.fingerprint in revoked.keys:
        raise IdentityError(
            f"{identity.key_path}: the authority has revoked this key (list {revoked.number});"
            " ask it for a certificate of a new one"
        )
    if identity.name not in roster.members:
        raise IdentityError(
            f"{setup.roster}: {identity.name} is not on the roster; add it with fingerprint"
            f" {identity.fingerprint}"
        )
    if roster.members[identity.name].fingerprint != identity.fingerprint:
        raise IdentityError(
            f"{setup.roster}: lists another key for {identity.name}; the fingerprint of"
            f" {identity.key_path} is {identity.fingerprint}"
        )
    if isinstance(setup.config.topology.instance, Discover) and roster.relay is not None:
        raise IdentityError(
            f"{setup.roster}: has a relay, and with topology=discover members dial each other"
            " themselves; leave one of them out"
        )
    if not setup.who.listen and roster.relay is None:
        raise IdentityError(
            f"{setup.folder / 'peer.toml'}: peer.listen is empty and the roster has no relay; set"
            " one of them"
        )


def _refuse_relay(identity: Identity, roster: Roster, setup: Setup) -> None:
    if roster.relay is not None and roster.relay.name == identity.name:
        raise IdentityError(
            f"{setup.roster}: a relay passes on for those whom its roster lists; say members ="
            ' "listed" there, with a [[peer]] entry for each'
        )


def known_to(folder: Path) -> Roster:
    """All members whom the peer of a folder knows, whether it runs or not."""
    with reading():  # nothing is run
        return Papers.read(read_setup(folder)).roster
