"""What members say to each other is sealed to its receiver: whoever passes it on, a relay above
all, sees sizes and times, and who asks whom."""

from __future__ import annotations

import secrets
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from amity.net import moment
from amity.net.link.base import AskFailed
from amity.net.node import Node
from amity.net.ops.swarm import Swarm, free_ports
from amity.net.sealed.boxes import OVERHEAD, Box, lock, seal, unlock
from amity.net.sealed.keys import _text
from amity.net.setup import read_setup
from amity.net.trust.roster import Roster
from amity.net.wire import Refused
from tests.conftest import tiny
from tests.hub import Hub, seal_nothing
from tests.test_node import QUICK, log, play, row
from tests.test_relay import CALM, of_four, relay_folder, relaying, running

AFIND = {"name": "afind+", "preset": "tuned", "ablation": "i+ii"}


class Tap:
    """The relay's operator: ends TLS with the relay's own key, writes every byte down, and passes
    it on to the relay."""

    def __init__(self, identity: Path, port: int, to: int) -> None:
        self.heard = bytearray()
        self._to = to
        self._server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        for context in (self._server, self._client):
            context.load_cert_chain(identity / "cert.pem", identity / "key.pem")
            context.load_verify_locations(identity / "ca.pem")
        self._server.verify_mode = ssl.CERT_REQUIRED
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                raw, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(raw,), daemon=True).start()

    def _serve(self, raw: socket.socket) -> None:
        try:
            near = self._server.wrap_socket(raw, server_side=True)
            far = self._client.wrap_socket(
                socket.create_connection(("127.0.0.1", self._to)), server_hostname="127.0.0.1"
            )
        except OSError:
            raw.close()
            return
        for source, target in ((near, far), (far, near)):
            threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def _pump(self, source: ssl.SSLSocket, target: ssl.SSLSocket) -> None:
        try:
            while data := source.recv(1 << 16):
                with self._lock:
                    self.heard += data
                target.sendall(data)
        except OSError:
            pass
        for one in (source, target):
            one.close()

    def close(self) -> None:
        self._listener.close()


def noting(path: Path, clear: bool, name: str) -> None:
    """In a peer's process: write down all models and sketches before they are sealed; and if
    `clear`, by seals that hide nothing."""
    share, sketch = moment.encode_share, moment.encode_sketch

    def kept(encode: Any) -> Any:
        def encoded(*of: Any) -> bytes:
            body: bytes = encode(*of)
            (path / f"{name}-{secrets.token_hex(4)}").write_bytes(body)
            return body

        return encoded

    moment.encode_share, moment.encode_sketch = kept(share), kept(sketch)  # type: ignore[attr-defined]
    if clear:
        seal_nothing(pytest.MonkeyPatch())


def tapped_swarm(out: Path, **more: Any) -> Swarm:
    """Four peers that reach each other by a relay alone, and the folder of that relay."""
    swarm = Swarm(out, tiny(**of_four(rounds=2, strategy=AFIND)), CALM, **more)
    swarm.lay_out()
    port, behind = free_ports(2)
    relay = relay_folder(swarm, "relay", port)
    members = [replace(member, address="") for member in swarm.roster.members.values()]
    for name in swarm.names:
        swarm.write_peer(name, "")
    swarm.write_roster(Roster.of(swarm.roster.network, members, relay))
    hidden = replace(relay, address=f"127.0.0.1:{behind}")
    folder = swarm.out / "relay"
    (folder / "roster.toml").write_text(replace(swarm.roster, relay=hidden).dump())
    toml = (folder / "peer.toml").read_text()
    (folder / "peer.toml").write_text(toml.replace(str(port), str(behind)))
    return swarm


@contextmanager
def tapping(swarm: Swarm) -> Iterator[Tap]:
    assert swarm.roster.relay is not None
    folder = swarm.out / "relay"
    port = int(swarm.roster.relay.address.rpartition(":")[2])
    behind = Roster.load(folder / "roster.toml").relay
    assert behind is not None
    tap = Tap(folder / "identity", port, int(behind.address.rpartition(":")[2]))
    try:
        with relaying(folder):
            yield tap
    finally:
        tap.close()


@pytest.mark.parametrize("clear", [False, True], ids=["sealed", "in the clear"])
def test_a_relay_that_reads_every_byte_finds_no_model_and_no_card(
    tmp_path: Path, clear: bool
) -> None:
    (tmp_path / "bodies").mkdir()
    swarm = tapped_swarm(tmp_path / "s", enter=partial(noting, tmp_path / "bodies", clear))
    with tapping(swarm) as tap, running(swarm):
        swarm.wait(90)
    heard = bytes(tap.heard)
    assert heard.count(b"/rpc/") > 20, "it does see who asks whom"
    bodies = [path.read_bytes() for path in (tmp_path / "bodies").iterdir()]
    assert len(bodies) >= 2 * 2 * len(swarm.names) - 1, "cards and models of two rounds"
    pieces = [body[at : at + 8] for body in bodies for at in range(len(body) // 2, len(body), 97)]
    found = sum(piece in heard for piece in pieces if len(set(piece)) > 4)
    words = [b'"examples"', b'"phase"', b"theta", b"sketch"]
    if not clear:
        assert found == 0
        assert not [word for word in words if word in heard]
        assert len(heard) > sum(map(len, bodies)), "though all of it passed"
    else:
        assert found > 50, "the search does find what is not sealed"
        assert [word for word in words if word in heard] == words


# -- seals -----------------------------------------------------------------------------------------


def test_a_seal_opens_for_its_receiver_about_the_same_thing_and_unaltered() -> None:
    mine, other, key = Box(), Box(), secrets.token_bytes(32)
    sealed, locked = seal(b"words", mine.public, "a"), lock(key, b"words", "a")
    assert mine.open(sealed, "a") == unlock(key, locked, "a") == b"words"
    assert len(locked) == len(b"words") + OVERHEAD
    assert seal(b"words", mine.public, "a") != sealed, "never the same twice"
    assert lock(key, b"words", "a") != locked
    for opens in (
        lambda: other.open(sealed, "a"),
        lambda: mine.open(sealed, "b"),
        lambda: unlock(key, locked, "b"),
        lambda: unlock(secrets.token_bytes(32), locked, "a"),
        lambda: seal(b"words", bytes(32), "a"),
        lambda: seal(b"words", b"short", "a"),
    ):
        with pytest.raises(Refused):
            opens()
    for at in range(len(sealed)):
        with pytest.raises(Refused):
            mine.open(sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :], "a")
    for at in range(len(locked)):
        with pytest.raises(Refused):
            unlock(key, locked[:at], "a")
    assert mine.shared(other.public) == other.shared(mine.public)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Any, Any, Hub]]:
    """Two peers on a network in memory that trains nothing."""
    hub = Hub()
    swarm = Swarm(tmp_path / "net", tiny(peers=2, rounds=1), QUICK)
    swarm.lay_out()
    one, two = (Node(read_setup(swarm.folder(name)), transport=hub) for name in swarm.names)
    with one.connected() as mine, two.connected() as other:
        yield mine, other, hub


def test_keys_that_are_new_are_asked_for_anew_and_nothing_is_answered_in_the_clear(
    pair: tuple[Any, Any, Hub],
) -> None:
    mine, other, hub = pair
    assert mine.courier.hello("peer-01").data["phase"] == "joining"
    before = other.keys.mine.public
    other.keys.renew()
    assert other.keys.mine.public != before
    assert mine.courier.hello("peer-01").sender == "peer-01", "it found the new key"
    inner = hub.links["peer-00"]

    def plainly(method: str, **data: Any) -> bytes:
        ask = mine.stamp.seal("ask", 0, to="peer-01", data={"method": method, **data})
        parts = inner.ask("peer-01", method, ask, timeout=3, limit=9999, alive=lambda: True)
        return b"".join(part for _, part in parts)

    for method in ("terms", "card", "losses", "says", "head", "body", "host"):
        with pytest.raises(AskFailed, match="malformed"):
            plainly(method, kind="share")
    assert b'"version"' in plainly("hello"), "but a greeting, so that other versions are told"
    assert b'"round":0' in plainly("hello", box=_text(mine.keys.mine.public))
    with pytest.raises(AskFailed, match="malformed"):
        plainly("hello", box="bm8ga2V5")


def test_what_is_on_the_wire_in_memory_is_sealed_too_and_an_altered_card_is_refused(
    tmp_path: Path,
) -> None:
    heard: list[bytes] = []

    def flip(source: str, target: str, kind: str, data: bytes) -> bytes | None:
        heard.append(data)
        if kind == "put" and source == "peer-01" and target == "peer-00":
            return data[:-1] + bytes([data[-1] ^ 1])
        return data

    swarm = play(tmp_path / "net", flip)
    refused = log(swarm, "peer-00", "refused")
    assert set(refused) == {("peer-01", "malformed")}
    assert set(row(swarm, "peer-00")) >= {"peer-01"}, "its card was asked for, and is used"
    greetings = [data for data in heard if data[:4] == b"AMT1"]
    assert all(b'"box"' in data for data in greetings)
    assert len(greetings) < len(heard) / 3
