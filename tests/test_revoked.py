"""Members that the authority revoked: the list, who passes it on, and who is refused."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from amity.errors import IdentityError
from amity.net.membership import Papers
from amity.net.node import Node
from amity.net.ops.swarm import Swarm
from amity.net.options import Net
from amity.net.setup import read_setup
from amity.net.trust.certs import CA_KEY, ca_init
from amity.net.trust.identity import CA, load_key
from amity.net.trust.revoked import (
    REVOKED,
    newest_revoked,
    open_revoked,
    revoke,
    sign_revoked,
)
from amity.net.trust.roster import Roster
from tests.conftest import Call, tiny
from tests.hub import Hub
from tests.test_node import log, row, untouched

KEYS = [f"{at:064x}" for at in range(4)]


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ca")
    ca_init(folder)
    return folder


def test_a_list_grows_and_an_older_one_never_takes_the_place_of_a_newer(
    ca: Path, tmp_path: Path
) -> None:
    old, new, key = tmp_path / "old", tmp_path / "new", load_key(ca / CA_KEY)
    first = revoke(old, key, ca / CA, network="n", name="a", fingerprint=KEYS[0])
    new.write_bytes(old.read_bytes())
    second = revoke(new, key, ca / CA, network="n", name="b", fingerprint=KEYS[1])
    assert (first.number, second.number) == (1, 2)
    assert second.keys == {KEYS[0]: "a", KEYS[1]: "b"}
    for paths in ([old, new], [new, old], [tmp_path / "none", new]):
        found = newest_revoked(paths, ca / CA, "n")
        assert found is not None
        assert found.number == 2
    assert newest_revoked([tmp_path / "none"], ca / CA, "n") is None
    with pytest.raises(IdentityError, match="is of the network n, not m"):
        newest_revoked([old], ca / CA, "m")
    with pytest.raises(IdentityError, match="a is revoked already"):
        revoke(new, key, ca / CA, network="n", name="a", fingerprint=KEYS[0])


def test_only_what_the_authority_signed_is_a_list(ca: Path) -> None:
    signed = sign_revoked(load_key(ca / CA_KEY), "n", 3, {KEYS[0]: "a"})
    assert open_revoked(signed, ca / CA, "it").number == 3
    outer = json.loads(signed)
    stranger = sign_revoked(ec.generate_private_key(ec.SECP256R1()), "n", 9, {KEYS[0]: "a"})
    forged = [
        json.dumps({**outer, "list": outer["list"].replace('"number":3', '"number":4')}).encode(),
        json.dumps({**outer, "list": outer["list"].replace(KEYS[0], KEYS[1])}).encode(),
        stranger,
    ]
    for one in forged:
        with pytest.raises(IdentityError, match="is not signed by the authority"):
            open_revoked(one, ca / CA, "it")
    for garbage in (b"", b"[]", b"{}", b'{"list": 1, "signature": "00"}', b"\xff", b"[" * 10_000):
        with pytest.raises(IdentityError, match="is no list of revoked members"):
            open_revoked(garbage, ca / CA, "it")
    with pytest.raises(IdentityError, match="longer than"):
        open_revoked(b" " * 100_000, ca / CA, "it")


def test_the_command_takes_the_key_from_a_roster_and_says_what_to_do(
    ca: Path, call: Call, tmp_path: Path
) -> None:
    entry = f'[[peer]]\nname = "a"\naddress = ""\nfingerprint = "{KEYS[3]}"\n'
    (tmp_path / "roster.toml").write_text(f'network = "n"\n{entry}')
    assert call(f"ca revoke {ca} a")[0] == 2
    assert call(f"ca revoke {ca} b roster=roster.toml")[0] == 2
    code, out, _ = call(f"ca revoke {ca} a roster=roster.toml")
    assert code == 0
    assert "number 1: a" in out
    found = newest_revoked([ca / REVOKED], ca / CA, "n")
    assert found is not None
    assert found.keys == {KEYS[3]: "a"}


def test_one_member_that_has_the_list_is_enough_and_the_revoked_stays_out_after_a_restart(
    tmp_path: Path,
) -> None:
    """peer-00 is given the list while all run. The others refuse peer-02 too, and go on."""
    config = tiny(
        peers=4,
        rounds=1000,
        strategy={"name": "gossip", "k": 3},
        engine={"workers": 1, "vectorise": "off", "group": 1},
        eval={"every": 1000, "gradients_every": 0},
    )
    swarm = Swarm(tmp_path / "net", config, Net(gather=20, deadline=10, patience=10))
    swarm.lay_out()
    hub = Hub(untouched)
    nodes = {n: Node(read_setup(swarm.folder(n)), transport=hub) for n in swarm.names}
    threads = {n: threading.Thread(target=node.run) for n, node in nodes.items()}
    for thread in threads.values():
        thread.start()
    try:
        until(lambda: all(node.next_round >= 1 for node in nodes.values()))
        roster = Roster.load(read_setup(swarm.folder("peer-00")).roster)
        ca, at = swarm.out / "ca", swarm.folder("peer-00") / REVOKED
        revoke(
            at,
            load_key(ca / CA_KEY),
            ca / CA,
            network=roster.network,
            name="peer-02",
            fingerprint=roster.find("peer-02").fingerprint,
        )
        others = ("peer-01", "peer-03")
        until(lambda: all((swarm.folder(n) / "state" / REVOKED).exists() for n in others))
        until(lambda: all(log(swarm, n, "roster")["peer-02", "removed"] for n in others))
        rounds = {n: nodes[n].next_round for n in others}
        until(lambda: all(nodes[n].next_round > rounds[n] + 2 for n in others))
        assert all("peer-02" not in row(swarm, n) for n in others)
        until(lambda: sum(log(swarm, "peer-01", "refused").values()) > 0)
    finally:
        for node in nodes.values():
            node.stop.set()
        for thread in threads.values():
            thread.join(60)
    again = Papers.load(read_setup(swarm.folder("peer-01")))
    assert again.roster.names == ("peer-00", "peer-01", "peer-03")
    (swarm.folder("peer-02") / REVOKED).write_bytes(at.read_bytes())
    with pytest.raises(IdentityError, match="the authority has revoked this key"):
        Papers.load(read_setup(swarm.folder("peer-02")))


def until(so: Callable[[], bool]) -> None:
    """Wait for something, for as long as it takes on a slow machine."""
    end = time.monotonic() + 300
    while not so():
        assert time.monotonic() < end
        time.sleep(0.05)
