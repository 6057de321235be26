"""A whole network on one machine, for trying it: an authority, certificates, one process per peer,
and what came of it.

    OUT/config.toml, metrics.jsonl, edges.jsonl, rounds.jsonl, report.html
                                             as of `amity run`, put together at the end
    OUT/ca, roster.toml                      the authority, and who is a member
    OUT/peers/NAME/peer.toml, identity/, state/, peer.log
                                             each peer as it would lie on its own machine
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import tomli_w

from amity.config import Config
from amity.core import PeerId
from amity.data import Dataset
from amity.errors import ConfigError, Failure, IdentityError
from amity.events import Event, PeerEvent, Progress, RoundDone, Tell, nobody
from amity.files import write_atomically
from amity.net.link import transport_of
from amity.net.ops.life import Life
from amity.net.ops.listen import Ears
from amity.net.options import Net
from amity.net.setup import for_network
from amity.net.trust.certs import ca_init, ca_sign, make_key, make_request
from amity.net.trust.identity import Identity, expires
from amity.net.trust.roster import Member, Roster
from amity.peer.privacy import needs_opacus
from amity.round.build import deal_out, load_data, settled
from amity.round.truth import Friendship
from amity.store import RunDir, write_world
from amity.topology import peer_names

NETWORK = "swarm"
DAYS = 30.0


@dataclass
class Swarm:
    """Peers of one machine. `hosts` may place them elsewhere than on loopback (network namespaces,
    in tests)."""

    out: Path
    config: Config
    net: Net = field(default_factory=Net)
    _: KW_ONLY
    hosts: Mapping[PeerId, str] = field(default_factory=dict)
    enter: Callable[[PeerId], None] | None = None
    """Called first thing in a peer's process."""
    days: float = DAYS
    any_signed: bool = False
    """Whether each peer is told of the first one alone, and finds the others by their passes."""
    tell: Tell = nobody
    """Told what happens to the peers, each of which is a cell."""

    def __post_init__(self) -> None:
        if sys.platform == "win32":
            raise ConfigError(
                "amity swarm forks its peers, which this system cannot; start each with `amity peer"
                " run`"
            )
        needs_opacus(self.config.privacy.instance)
        self.transport = transport_of(self.net.link)
        self.names = peer_names(self.config.peers)
        self.processes: dict[PeerId, Any] = {}
        self.dataset: Dataset = load_data(self.config)
        # a world that cannot be dealt out is found here, not by every peer
        dealt = deal_out(self.config, self.dataset, self.names)
        self._friendship = Friendship.of(dealt, self.config.eval.friend)
        self.config = settled(
            for_network(RunDir.check(self.out, for_network(self.config), "swarm", extend=True)),
            self.dataset,
        )
        self._ears = Ears(self._told, self.out, self.config)
        self._idle: dict[PeerId, str] = {}
        """Who waits for others, and what was said of it when that was in vain."""

    def folder(self, name: PeerId) -> Path:
        return self.out / "peers" / name

    # -- files -------------------------------------------------------------------------------------

    def lay_out(self, say: Callable[[str], None] = lambda _text: None) -> None:
        """Authority, keys, certificates, roster and one folder per peer; what is there already and
        still good is kept."""
        RunDir.create(self.out, self.config, "swarm", extend=True)
        write_world(self.out, self._friendship, self.dataset.names)
        if not (self.out / "ca" / "ca.pem").exists():
            ca_init(self.out / "ca", "Amity swarm")
        members = []
        ports = free_ports(len(self.names))
        for name, port in zip(self.names, ports, strict=True):
            say(f"keys and certificates: {name}")
            host = self.hosts.get(name, "127.0.0.1")
            self.certify(name, host)
            identity = Identity.load(self.folder(name) / "identity", name)
            members.append(Member(name, f"{host}:{port}", identity.fingerprint))
            own = {"roster": "roster.toml"} if self.any_signed else {}
            self.write_peer(name, f"{host}:{port}", **own)
            if self.any_signed:
                told = Roster.of(NETWORK, {members[0], members[-1]}, any_signed=True)
                write_atomically(self.folder(name) / "roster.toml", told.dump().encode())
        self.write_roster(Roster.of(NETWORK, members))

    def certify(self, name: PeerId, host: str, days: float | None = None) -> None:
        """A key and a certificate; a new certificate for the old key where there is one that ends
        within a day."""
        folder = self.folder(name) / "identity"
        if not (folder / "key.pem").exists():
            make_key(folder, name, [host])
        elif days is None and self._good(folder, name):
            return
        else:
            make_request(folder, name, [host])
        authority = (self.out / "ca" / "ca.pem").read_bytes()
        if not (folder / "ca.pem").exists() or (folder / "ca.pem").read_bytes() != authority:
            # a running peer would take a new file for a renewal
            write_atomically(folder / "ca.pem", authority)
        ca_sign(
            self.out / "ca",
            folder / "request.pem",
            folder / "cert.pem",
            name,
            days or self.days,
            [host],
        )

    @staticmethod
    def _good(folder: Path, name: PeerId) -> bool:
        try:
            Identity.load(folder, name)
        except IdentityError:
            return False
        return expires(folder / "cert.pem") > datetime.now(UTC) + timedelta(days=1)

    def write_peer(self, name: PeerId, listen: str, **more: Any) -> None:
        who = {
            "name": name,
            "listen": listen,
            "roster": str((self.out / "roster.toml").resolve()),
            "data": "dealt",
            **more,
        }
        # where a run was extended is found by each peer in its own state
        run = {key: value for key, value in self.config.to_dict().items() if key != "extended"}
        text = tomli_w.dumps({"peer": who, "net": asdict(self.net), "run": run})
        write_atomically(self.folder(name) / "peer.toml", text.encode())

    def write_roster(self, roster: Roster) -> None:
        write_atomically(self.out / "roster.toml", roster.dump().encode())

    @property
    def roster(self) -> Roster:
        return Roster.load(self.out / "roster.toml")

    # -- processes ---------------------------------------------------------------------------------

    def start(self, names: Sequence[PeerId] | None = None) -> None:
        """Fork one process per peer; each opens its own folder, as `amity peer run` would."""
        if not self.transport.may_fork:
            raise Failure(
                "this process has opened a network itself and cannot fork peers; start the swarm in"
                " one of its own"
            )
        self.hear()
        gc.freeze()  # a collection would write to all that peers share with this process
        try:
            for name in names or self.names:
                self._fork(name)
        finally:
            gc.unfreeze()
        self._ears.queue(names or self.names)

    def _fork(self, name: PeerId) -> None:
        sink = self._ears.open(name)
        life = Life(name=name, folder=self.folder(name), dataset=self.dataset, enter=self.enter)
        process = multiprocessing.get_context("fork").Process(
            target=life.live, args=(os.getpid(), sink)
        )
        process.start()
        self.processes[name] = process
        sink.close()  # the peer has its own: with it the pipe ends

    def kill(self, name: PeerId, with_signal: signal.Signals = signal.SIGKILL) -> None:
        process = self.processes[name]
        if process.is_alive():
            os.kill(process.pid, with_signal)

    @property
    def running(self) -> list[PeerId]:
        return [name for name, process in self.processes.items() if process.is_alive()]

    def wait(self, timeout: float | None = None) -> None:
        """Until all peers have ended. What they tell is told on as it comes."""
        until = None if timeout is None else time.monotonic() + timeout
        while self.running:
            if until is not None and time.monotonic() > until:
                raise TimeoutError(f"still running: {', '.join(self.running)}")
            self.hear()
            self._end_hopeless()
            wait(self._ears.waiting_for, timeout=0.1)
        for process in self.processes.values():
            process.join()
        self.hear()

    def _told(self, event: Event) -> None:
        """Take down who waits, and tell on."""
        name = event.cell.label
        if isinstance(event, PeerEvent) and (event.what, event.why) == ("waits", "for others"):
            self._idle.setdefault(name, "")
        elif isinstance(event, Progress | RoundDone):
            self._idle.pop(name, None)
        self.tell(event)

    def _end_hopeless(self) -> None:
        """End those that wait for others when too few are left to come: nobody starts them
        again."""
        running = self.running
        for name, said in self._idle.items():
            if name in running and not said and len(running) - 1 < self.net.least:
                self._idle[name] = (
                    "waits for others, which have ended; net.least=0 lets it go on alone"
                )
                self.kill(name, signal.SIGTERM)

    def stop(self) -> None:
        """End all peers; they keep what they have done."""
        for name in self.running:
            self.kill(name, signal.SIGCONT)
            self.kill(name, signal.SIGTERM)
        until = time.monotonic() + 5
        while self.running and time.monotonic() < until:
            self.hear()
            time.sleep(0.05)
        for name in self.running:
            self.kill(name)
        for process in self.processes.values():
            process.join()
        self.hear()

    def hear(self) -> None:
        """Tell on what the peers have told since the last time."""
        self._ears.hear(self._cause)

    def _cause(self, name: PeerId) -> str | None:
        """Why a peer's process has ended; None: it has not."""
        process = self.processes[name]
        if process.is_alive():
            return None
        if self._idle.get(name):
            return self._idle[name]
        if process.exitcode < 0:
            return f"killed by {signal.Signals(-process.exitcode).name}"
        return self._last_words(name) if process.exitcode else "ended before its last round"

    def _last_words(self, name: PeerId) -> str:
        log = (self.folder(name) / "peer.log").read_text(errors="replace")
        lines = log.strip().splitlines()
        return lines[-1] if lines else f"exit code {self.processes[name].exitcode}"

    @property
    def failed(self) -> dict[PeerId, str]:
        """Those whose process ended with an error, and its last line."""
        ended = {name: p.exitcode for name, p in self.processes.items() if not p.is_alive()}
        failed = {name: self._last_words(name) for name, code in ended.items() if code}
        return failed | {name: said for name, said in self._idle.items() if said and name in ended}


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
