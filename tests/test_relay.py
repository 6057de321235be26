"""Members that nobody can dial, by way of a relay: real processes, a real router, the simulator's
bits."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import torch

from amity.lab.result import Result
from amity.lab.run import run
from amity.net.link.zenoh_settings import settings
from amity.net.ops.swarm import Swarm, free_ports
from amity.net.options import Net
from amity.net.trust.certs import ca_init, ca_sign, make_key
from amity.net.trust.identity import Identity
from amity.net.trust.roster import Member, Roster
from amity.net.wire import Expected, Refused, Stamp, WireSchema, check_body, open_head
from tests.conftest import Call, spec_id, tiny
from tests.test_parity import models, rows

SPECS: list[dict[str, Any]] = [
    {"name": "afind+", "preset": "paper"},
    {"name": "afind+", "protocol": "visit"},
]
HIDDEN, OPEN = ("peer-01", "peer-02"), ("peer-00", "peer-03")
CALM = Net(gather=30, deadline=30, patience=30)
HASTY = Net(gather=2, deadline=2, patience=2, lease=20)
EAR = """
import os, sys, zenoh
session = zenoh.open(zenoh.Config.from_json5(open(sys.argv[1]).read()))
hear = lambda sample: print(sample.key_expr, flush=True)
life = session.liveliness().declare_subscriber("**", hear, history=True)
kept = session.declare_subscriber("**", hear), life
print("open", flush=True)
sys.stdin.read()
os._exit(0)
"""
"""A router with no rules of its own that says what it hears."""


def of_four(**more: Any) -> dict[str, Any]:
    train = {"epochs": 1, "batch": 8, "lr": 0.05, "precision": "fp32"}
    return {
        "peers": 4,
        "rounds": 5,
        "train": train,
        "engine": {"workers": 1, "vectorise": "off", "group": 1},
    } | more


def relay_folder(swarm: Swarm, name: str, port: int) -> Member:
    """A relay's key and files, with a certificate of the swarm's authority."""
    folder, address = swarm.out / name, f"127.0.0.1:{port}"
    identity = folder / "identity"
    make_key(identity, name, ["127.0.0.1"])
    (identity / "ca.pem").write_bytes((swarm.out / "ca" / "ca.pem").read_bytes())
    ca_sign(swarm.out / "ca", identity / "request.pem", identity / "cert.pem", name)
    (folder / "peer.toml").write_text(tomli_w.dumps({"peer": {"name": name, "listen": address}}))
    return Member(name, address, Identity.load(identity, name).fingerprint)


def relayed(out: Path, net: Net = CALM, **more: Any) -> Swarm:
    """Four peers, two of them behind NAT, and the folder of their relay, `out / "relay"`."""
    swarm = Swarm(out, tiny(**of_four(**more)), net)
    swarm.lay_out()
    relay = relay_folder(swarm, "relay", free_ports(1)[0])
    members = [
        replace(m, address="" if m.name in HIDDEN else m.address)
        for m in swarm.roster.members.values()
    ]
    for name in HIDDEN:
        swarm.write_peer(name, "")
    swarm.write_roster(Roster.of(swarm.roster.network, members, relay))
    (out / "relay" / "roster.toml").write_text(swarm.roster.dump())
    return swarm


@contextmanager
def relaying(folder: Path) -> Iterator[None]:
    """`amity relay` as a process, from when it is at work until an operator ends it."""
    log = folder / "state" / "audit.jsonl"
    before = len(lines(log))
    process = subprocess.Popen(
        [sys.executable, "-m", "amity", "relay", str(folder)], stdout=subprocess.DEVNULL
    )
    try:
        until(lambda: len(lines(log)) > before)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(15)
    assert code == 0


@contextmanager
def running(swarm: Swarm) -> Iterator[Swarm]:
    swarm.start()
    try:
        yield swarm
    finally:
        swarm.stop()
    assert swarm.failed == {}


def lines(path: Path) -> list[dict[str, Any]]:
    whole = path.read_bytes().rpartition(b"\n")[0] if path.exists() else b""
    return [json.loads(line) for line in whole.splitlines()]


def told(swarm: Swarm, name: str, *events: str) -> list[dict[str, Any]]:
    """What a peer's log says about some events."""
    return [
        record
        for record in lines(swarm.folder(name) / "state" / "audit.jsonl")
        if record["event"] in events
    ]


def until(what: Callable[[], object], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


@pytest.mark.parametrize("spec", SPECS, ids=spec_id)
def test_behind_a_relay_a_swarm_chooses_and_learns_what_the_simulator_does(
    tmp_path: Path, spec: Mapping[str, Any]
) -> None:
    swarm = relayed(tmp_path / "swarm", strategy=spec)
    with relaying(tmp_path / "swarm" / "relay"), running(swarm):
        simulated = run(tiny(**of_four(strategy=spec)), tmp_path / "simulated")
        swarm.wait(60)
    ours = models(tmp_path / "simulated")
    for name in swarm.names:
        assert told(swarm, name, "late", "missing", "refused", "error", "resumed") == []
        result = Result(swarm.folder(name) / "state", swarm.config)
        assert rows(result.edges) == {
            key: row for key, row in rows(simulated.edges).items() if key[1] == name
        }
        for key, tensor in models(result.path).items():
            assert torch.equal(tensor, ours[key]), key


def test_a_relay_may_go_and_come_back_those_who_do_not_need_it_go_on(tmp_path: Path) -> None:
    swarm = relayed(
        tmp_path / "swarm",
        replace(HASTY, gather=30),
        rounds=100_000,
        strategy={"name": "gossip", "k": 3},
    )
    folder = tmp_path / "swarm" / "relay"

    def uses() -> Counter[tuple[str, str]]:
        found = Counter({(i, j): 0 for i in swarm.names for j in swarm.names if i != j})
        found.update(
            (name, record["peer"]) for name in swarm.names for record in told(swarm, name, "used")
        )
        return found

    def everybody_uses_everybody() -> bool:
        return all(count > before.get(pair, 0) for pair, count in uses().items())

    before: dict[tuple[str, str], int] = {}
    with ExitStack() as first:
        first.enter_context(relaying(folder))
        with running(swarm):
            until(everybody_uses_everybody)
            first.close()
            until(lambda: {r["peer"] for r in told(swarm, "peer-00", "left")} == set(HIDDEN))
            alone = uses()[OPEN]
            until(lambda: uses()[OPEN] > alone + 3)
            before |= uses()
            with relaying(folder):
                until(everybody_uses_everybody)
            assert not [
                r for i in OPEN for r in told(swarm, i, "left") if r["peer"] in OPEN
            ]  # these two need no relay


def test_a_relay_that_is_not_on_the_roster_hears_nothing_and_passes_nothing(
    tmp_path: Path, call: Call
) -> None:
    swarm = relayed(tmp_path / "swarm", replace(HASTY, least=0), rounds=2)
    real = swarm.roster.relay
    assert real is not None
    rogue = relay_folder(swarm, "rogue", int(real.address.rpartition(":")[2]))
    identity = Identity.load(swarm.out / "rogue" / "identity", "rogue")
    config = settings(identity, replace(swarm.roster, relay=rogue), rogue.address, 2.0)
    del config["access_control"]
    config |= {"mode": "router", "connect": {"endpoints": []}}
    (tmp_path / "ear.json").write_text(json.dumps(config))
    ear = [sys.executable, "-c", EAR, str(tmp_path / "ear.json")]
    with subprocess.Popen(
        ear, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as listening:
        with running(swarm):
            swarm.wait(30)
        heard, _ = listening.communicate("")
    assert heard.split() == ["open"]
    for name in swarm.names:
        others = {record["peer"] for record in told(swarm, name, "joined", "used")}
        assert others == (set(OPEN) - {name} if name in OPEN else set())
        assert {record["link"] for record in told(swarm, name, "refused") if "link" in record} == {
            "rogue"
        }
    (swarm.out / "rogue" / "roster.toml").write_text(swarm.roster.dump())
    code, _, error = call(f"relay {swarm.out / 'rogue'}")
    assert code == 2
    assert "[relay] must be name 'rogue'" in error


def test_whatever_a_relay_alters_is_refused(tmp_path: Path) -> None:
    """Nothing that a relay could change in a message survives: every byte of the head is signed, or
    is the signature, and the head holds the length and the SHA-256 of the body."""
    ca_init(tmp_path / "ca")
    make_key(tmp_path / "a", "a", ["127.0.0.1"])
    (tmp_path / "a" / "ca.pem").write_bytes((tmp_path / "ca" / "ca.pem").read_bytes())
    ca_sign(tmp_path / "ca", tmp_path / "a" / "request.pem", tmp_path / "a" / "cert.pem", "a")
    identity = Identity.load(tmp_path / "a", "a")
    roster = Roster.of("trial", [Member("a", "", identity.fingerprint), Member("b", "", "0" * 64)])
    schema = WireSchema(size=4, masked=False, sketch=4, probe=4, digest="0" * 64)
    stamp, body = Stamp(identity, "trial", schema.digest), bytes(range(32))
    head = stamp.seal("share", 3, body, to="b", data={"examples": 7})
    want = Expected(me="b", schema=schema, kinds=("share",), sender="a", round=3)

    def believed(message: bytes) -> bytes:
        manifest, rest = open_head(message, roster, want)
        check_body(manifest, rest)
        return rest

    assert believed(head + body) == body
    message = head + body
    for at in range(len(message)):
        with pytest.raises(Refused):
            believed(message[:at] + bytes([message[at] ^ 1]) + message[at + 1 :])
    for cut in (
        message[:-1],
        message + b"\0",
        head + body[::-1],
        stamp.seal("share", 4, body, to="b") + body,
    ):
        with pytest.raises(Refused):
            believed(cut)
