"""One process = one peer: signals, the log, and the way out."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from amity.data import Dataset
from amity.errors import AmityError, IdentityError, NetworkError
from amity.forward import Outbox
from amity.net.audit import Audit
from amity.net.link import transport_of
from amity.net.link.base import Relay
from amity.net.membership import LOOK, Papers, stamps
from amity.net.node import Node
from amity.net.setup import Setup
from amity.sinks.stream import Stream, Wanted


class Stopped(BaseException):
    """The operator asked this process to end; what was done is kept. No SystemExit: that would be
    blamed on the strategy whose turn it is."""

    def __str__(self) -> str:
        return "by a signal"


def serve(setup: Setup, sinks: Wanted = None, dataset: Dataset | None = None) -> None:
    """Run a peer to its end. SIGTERM ends it at once and cleanly: a round that was not finished is
    done again. Sinks take events in a thread of their own, so that a slow one delays no round."""
    stream, transport = Stream(sinks), transport_of(setup.net.link)
    outbox = Outbox(stream)
    try:
        node = Node(
            setup,
            transport=transport,
            dataset=dataset,
            listen_in=transport.overhear,
            tell=outbox.take,
        )
        with suppress(Stopped), _until_told(node):
            stream.open()
            node.run()
    finally:
        outbox.close()


@contextmanager
def _until_told(node: Node) -> Iterator[None]:
    """Inside, SIGTERM ends the peer; after that it has ended, whatever is asked."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_signal: int, _frame: FrameType | None) -> None:
        node.stop.set()
        raise Stopped

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def serve_relay(setup: Setup) -> None:
    """Pass on until told to stop. A new roster or certificate is taken up when its file changes."""
    if not setup.who.listen:
        raise IdentityError(f"{setup.folder / 'peer.toml'}: a relay must listen; set peer.listen")
    papers = _relay_papers(setup)
    setup.state.mkdir(parents=True, exist_ok=True)
    audit, ended = Audit(setup.state / "audit.jsonl", papers.identity.name), threading.Event()
    relaying = _Relaying(setup, audit, ended)
    signal.signal(signal.SIGTERM, lambda _signal, _frame: ended.set())
    audit("start", network=papers.roster.network, members=len(papers.roster.names))
    while not ended.is_set():
        papers = relaying.until_new(papers)
    audit("stop")
    audit.close()


class _Relaying:
    """A relay that is opened anew whenever its papers have changed."""

    def __init__(self, setup: Setup, audit: Audit, ended: threading.Event) -> None:
        self._setup, self._audit, self._ended = setup, audit, ended
        self._transport = transport_of(setup.net.link)
        self._transport.overhear(audit)
        self._opened = False

    def until_new(self, papers: Papers) -> Papers:
        """Pass on until there are new papers, or the end."""
        identity = papers.identity
        files = stamps(
            self._setup.roster, identity.cert_path, identity.ca_path, *self._setup.revoked
        )
        try:
            relay = self._open(papers)
        except NetworkError as error:
            if not self._opened:
                raise
            self._audit("error", why="network", message=str(error))
            self._ended.wait(LOOK)
            return papers
        self._opened = True
        try:
            while not self._ended.wait(LOOK):
                if stamps(*files) != files:
                    files = stamps(*files)
                    if (found := self._read()) is not None:
                        return found
        finally:
            relay.close()
        return papers

    def _open(self, papers: Papers) -> Relay:
        return self._transport.relay(
            identity=papers.identity,
            roster=papers.roster,
            listen=self._setup.who.listen,
            lease=self._setup.net.lease,
            on_stranger=lambda name: self._audit("refused", "", "not on the roster", link=name),
        )

    def _read(self) -> Papers | None:
        """New papers, if they are in order; if not, the old ones stay."""
        try:
            papers = _relay_papers(self._setup)
        except AmityError as error:
            self._audit("error", why="roster or certificate", message=str(error))
            return None
        self._audit("roster", papers.identity.name, "read again")
        return papers


def _relay_papers(setup: Setup) -> Papers:
    papers = Papers.read(setup)
    identity, roster = papers.identity, papers.roster
    if (
        roster.relay is None
        or roster.relay.name != identity.name
        or roster.relay.fingerprint != identity.fingerprint
    ):
        raise IdentityError(
            f"{setup.roster}: [relay] must be name {identity.name!r} with fingerprint"
            f" {identity.fingerprint}"
        )
    return papers
