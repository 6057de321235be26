"""One process = one peer: signals, the log, and the way out."""

from __future__ import annotations

import signal
import threading
from types import FrameType

from amity.data import Dataset
from amity.errors import AmityError, IdentityError, NetworkError
from amity.forward import Outbox
from amity.net.audit import Audit, Handshakes
from amity.net.link.zenoh import Relay
from amity.net.node import LOOK, Node, stamps
from amity.net.setup import Setup
from amity.net.trust.identity import Identity
from amity.net.trust.roster import Roster
from amity.sinks.stream import Stream, Wanted

STRANGER = "not on the roster"


class Stopped(SystemExit):
    """The operator asked this process to end; what was done is kept."""

    def __str__(self) -> str:
        return "by a signal"


def serve(setup: Setup, sinks: Wanted = None, dataset: Dataset | None = None) -> None:
    """Run a peer to its end. SIGTERM ends it at once and cleanly: a round that was not finished is
    done again. Sinks take events in a thread of their own, so that a slow one delays no round."""
    stream = Stream(sinks)
    outbox = Outbox(stream)
    try:
        node = Node(setup, dataset=dataset, listen_in=Handshakes, tell=outbox.take)

        def stop(_signal: int, _frame: FrameType | None) -> None:
            node.stop.set()
            raise Stopped(0)

        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, stop)
        stream.open()
        node.run()
    finally:
        outbox.close()


def serve_relay(setup: Setup) -> None:
    """Pass on until told to stop. A new roster or certificate is taken up when its file changes."""
    if not setup.who.listen:
        raise IdentityError(f"{setup.folder / 'peer.toml'}: a relay must listen; set peer.listen")
    identity, roster = _relay_files(setup)
    setup.state.mkdir(parents=True, exist_ok=True)
    audit, ended = Audit(setup.state / "audit.jsonl", identity.name), threading.Event()
    Handshakes(audit)
    signal.signal(signal.SIGTERM, lambda _signal, _frame: ended.set())
    audit("start", network=roster.network, members=len(roster.names))
    opened = False

    def on_stranger(name: str) -> None:
        audit("refused", "", STRANGER, link=name[:63])

    while not ended.is_set():
        files = stamps(setup.roster, identity.cert_path, identity.ca_path)
        try:
            relay = Relay(
                identity,
                roster,
                setup.who.listen,
                setup.net.lease,
                lambda n: audit("refused", "", STRANGER, link=n),
            )
        except NetworkError as error:
            if not opened:
                raise
            audit("error", why="network", message=str(error))
            ended.wait(LOOK)
            continue
        opened = True
        try:
            while not ended.wait(LOOK):
                if stamps(*files) != files:
                    files = stamps(*files)
                    try:
                        identity, roster = _relay_files(setup)
                    except AmityError as error:
                        audit("error", why="roster or certificate", message=str(error))
                        continue
                    audit("roster", identity.name, "read again")
                    break
        finally:
            relay.close()
    audit("stop")
    audit.close()


def _relay_files(setup: Setup) -> tuple[Identity, Roster]:
    identity, roster = Identity.load(setup.identity, setup.who.name), Roster.load(setup.roster)
    if (
        roster.relay is None
        or roster.relay.name != identity.name
        or roster.relay.fingerprint != identity.fingerprint
    ):
        raise IdentityError(
            f"{setup.roster}: [relay] must be name {identity.name!r} with fingerprint"
            f" {identity.fingerprint}"
        )
    return identity, roster
