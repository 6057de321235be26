"""One peer among others on a network in memory: what it believes, what it leaves out, and what it
says of it."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from amity.errors import NetworkError
from amity.lab.run import run
from amity.net.link.zenoh import AskFailed, Handlers, Link
from amity.net.moment import Moment, frozen
from amity.net.node import Node
from amity.net.ops.swarm import Swarm
from amity.net.options import Net
from amity.net.setup import read_setup
from amity.net.trust.identity import Identity
from amity.net.trust.roster import Roster
from amity.net.wire import encode_sketch
from amity.store import commits, read_lines
from tests.conftest import tiny
from tests.hub import Hub, Touch
from tests.test_parity import CALM, models, rows

QUICK = Net(gather=20, deadline=10, patience=10)


def play(out: Path, touch: Touch, net: Net = QUICK, **layers: Any) -> Swarm:
    """Three peers in threads, with somebody's hand on the wire."""
    base: dict[str, Any] = {"peers": 3, "rounds": 3, "strategy": {"name": "gossip", "k": 2}}
    base["engine"] = {"workers": 1, "vectorise": "off", "group": 1}
    swarm, hub, errors = Swarm(out, tiny(**base | layers), net), Hub(touch), list[BaseException]()
    swarm.lay_out()
    nodes = [Node(read_setup(swarm.folder(name)), connect=hub.connect) for name in swarm.names]

    def live(node: Node) -> None:
        try:
            node.run()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=live, args=(node,)) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert not any(thread.is_alive() for thread in threads)
    return swarm


def log(swarm: Swarm, name: str, event: str) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for e in read_lines(swarm.folder(name) / "state" / "audit.jsonl"):
        if e["event"] == event:
            found[e.get("peer", ""), e.get("why", "")] += e.get("count", 1)
    return found


def row(swarm: Swarm, name: str, t: int = -1) -> dict[str, float]:
    found: dict[str, float] = read_lines(swarm.folder(name) / "state" / "edges.jsonl")[t]["row"]
    return found


def untouched(source: str, target: str, kind: str, data: bytes) -> bytes | None:
    return data


def test_on_a_network_in_memory_the_bits_are_the_simulators_too(tmp_path: Path) -> None:
    layers: dict[str, Any] = {"strategy": {"name": "afind+", "preset": "literal"}, "method": "head"}
    swarm = play(tmp_path / "net", untouched, CALM, **layers)
    base: dict[str, Any] = {
        "peers": 3,
        "rounds": 3,
        "engine": {"workers": 1, "vectorise": "off", "group": 1},
    }
    simulated = run(tiny(**base | layers), tmp_path / "simulated")
    ours = models(tmp_path / "simulated")
    for name in swarm.names:
        state = swarm.folder(name) / "state"
        assert all(torch.equal(tensor, ours[key]) for key, tensor in models(state).items())
        mine = rows(read_lines(state / "edges.jsonl"))
        assert mine == {key: r for key, r in rows(simulated.edges).items() if key[1] == name}


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("head reply", {"bad signature", "malformed", "wrong key", "not on the roster"}),
        ("body reply", {"wrong hash"}),
    ],
)
def test_what_is_altered_on_the_way_is_refused_counted_and_left_out(
    tmp_path: Path, kind: str, why: set[str]
) -> None:
    def flip(source: str, target: str, what: str, data: bytes) -> bytes | None:
        if what != kind or source != "peer-01":
            return data
        at = len(data) // 2
        return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]

    swarm = play(tmp_path / "net", flip)
    for name in ("peer-00", "peer-02"):
        assert set(row(swarm, name)) == {"peer-00", "peer-02"}, "the others mix without it"
        refused = log(swarm, name, "refused")
        assert {peer for peer, _ in refused} == {"peer-01"}, "and the log says whose it was"
        assert {reason for _, reason in refused} <= why
        assert sum(refused.values()) == 3, "once a round"
    assert set(row(swarm, "peer-01")) == {"peer-00", "peer-01", "peer-02"}


def test_a_card_that_is_lost_is_asked_for_and_one_that_never_comes_is_late(tmp_path: Path) -> None:
    def lose(source: str, target: str, what: str, data: bytes) -> bytes | None:
        lost = what == "put" or (
            what == "card reply" and (source, target) == ("peer-02", "peer-00")
        )
        return None if lost else data

    swarm = play(tmp_path / "net", lose, Net(gather=5, deadline=6, patience=5), rounds=1)
    assert set(row(swarm, "peer-01")) == {"peer-00", "peer-01", "peer-02"}, "asked for"
    assert set(row(swarm, "peer-00")) == {"peer-00", "peer-01"}
    assert log(swarm, "peer-00", "late") == {("peer-02", "no card before the deadline"): 1}
    assert not log(swarm, "peer-01", "late")


def test_a_transfer_that_breaks_off_is_taken_up_where_it_was(tmp_path: Path) -> None:
    broken: set[tuple[str, str]] = set()
    sent: Counter[tuple[str, str]] = Counter()

    def cut(source: str, target: str, what: str, data: bytes) -> bytes | None:
        if what == "body reply":
            sent[source, target] += len(data)
            if sent[source, target] > 3000 and (source, target) not in broken:
                broken.add((source, target))
                return None  # one chunk is lost
        return data

    swarm = play(
        tmp_path / "net",
        cut,
        Net(gather=5, deadline=5, patience=5, chunk=1024),
        model={"name": "mlp", "hidden": 40},
    )
    assert len(broken) == 6
    for name in swarm.names:
        assert set(row(swarm, name, 0)) == set(swarm.names)
        assert sum(log(swarm, name, "resumed").values()) == 2
        assert not log(swarm, name, "missing")


def test_old_messages_are_known_again_whoever_sends_them(tmp_path: Path) -> None:
    recorded: dict[tuple[str, str], bytes] = {}

    def repeat(source: str, target: str, what: str, data: bytes) -> bytes | None:
        if what == "put" and source == "peer-01":
            return recorded.setdefault((target, what), data)  # always the first
        if what == "head" and source == "peer-01":
            return recorded.setdefault((target, what), data)
        return data

    swarm = play(tmp_path / "net", repeat)
    refused = log(swarm, "peer-00", "refused")
    assert refused["peer-01", "replay"] >= 2
    assert set(row(swarm, "peer-01")) == {"peer-01"}, (
        "its own asks were replaced by an old one, and not answered again"
    )


def test_members_with_another_model_are_refused_by_their_schema(tmp_path: Path) -> None:
    hub, net = Hub(), Net(gather=2, deadline=1, patience=1)
    swarm = Swarm(
        tmp_path / "net", tiny(peers=2, rounds=2, strategy={"name": "gossip", "k": 1}), net
    )
    swarm.lay_out()
    path = swarm.folder("peer-01") / "peer.toml"
    path.write_text(path.read_text().replace("hidden = 12", "hidden = 13"))
    nodes = [Node(read_setup(swarm.folder(name)), connect=hub.connect) for name in swarm.names]
    threads = [threading.Thread(target=node.run) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [node.next_round for node in nodes] == [2, 2]
    for name, other in (("peer-00", "peer-01"), ("peer-01", "peer-00")):
        assert row(swarm, name) == {name: 1.0}
        assert log(swarm, name, "refused")[other, "wrong schema"] >= 1


def test_a_guest_may_only_come_so_often(tmp_path: Path) -> None:
    layers = {"strategy": {"name": "afind+", "protocol": "visit"}}
    swarm = play(
        tmp_path / "net", untouched, Net(gather=20, deadline=10, patience=10, visits=1), **layers
    )
    limits = [log(swarm, name, "refused") for name in swarm.names]
    assert {why for found in limits for _, why in found} == {"too many visits"}, (
        "a probe and a visit are two"
    )


def test_a_start_model_is_for_those_who_were_asked_to_host_it(tmp_path: Path) -> None:
    hub = Hub()
    swarm = Swarm(tmp_path / "net", tiny(peers=2, rounds=2), QUICK)
    swarm.lay_out()
    mine, other = (
        Node(read_setup(swarm.folder(name)), connect=hub.connect) for name in swarm.names
    )
    with mine.connected(), other.connected():
        for node in (mine, other):
            moment = Moment(
                frozen(node.peer, node.shard.world, 0), threading.Lock(), node.stamp, "fp32", None
            )
            node.service.phase = "ready"
            node.service.offer(moment)
        assert torch.equal(
            mine.courier.model("peer-01", "share", 0)[0].theta, other.peer.share.theta
        )
        with pytest.raises(AskFailed, match="not invited"):
            mine.courier.model("peer-01", "start", 0)
        other.service.invited.add((0, "peer-00"))
        assert torch.equal(mine.courier.model("peer-01", "start", 0)[0].theta, other.peer.start)
        with pytest.raises(AskFailed, match="not here"):
            mine.courier.model("peer-01", "share", 7)


def two(tmp_path: Path) -> tuple[Swarm, Node, Node, Hub]:
    """Two peers that are about to be connected, with their models of round 0 on offer."""
    hub = Hub()
    swarm = Swarm(
        tmp_path / "net", tiny(peers=2, rounds=50, strategy={"name": "gossip", "k": 1}), QUICK
    )
    swarm.lay_out()
    mine, other = (
        Node(read_setup(swarm.folder(name)), connect=hub.connect) for name in swarm.names
    )
    return swarm, mine, other, hub


def offer(node: Node, round: int = 0) -> Moment:
    moment = Moment(
        frozen(node.peer, node.shard.world, round), threading.Lock(), node.stamp, "fp32", None
    )
    node.service.phase = "ready"
    node.service.offer(moment)
    return moment


def test_no_model_leaves_without_a_line_whichever_way_it_is_asked_for(tmp_path: Path) -> None:
    _, mine, other, _ = two(tmp_path)
    with mine.connected(), other.connected():
        offer(other)
        told = other.setup.state / "disclosed.jsonl"
        want = {"method": "body", "kind": "share", "offset": 0}
        payload = mine.stamp.seal("ask", 0, to="peer-01", data=want)
        assert list(mine.courier.link().ask("peer-01", "body", payload, 5, 10**6, lambda: True))
        assert [(r["kind"], r["round"]) for r in read_lines(told)] == [("share", 0)], (
            "the body alone, without its head"
        )
        for method in ("head", "body"):
            payload = mine.stamp.seal(
                "ask", -1, to="peer-01", data={"method": method, "kind": "share"}
            )
            with pytest.raises(AskFailed, match="malformed"):
                list(mine.courier.link().ask("peer-01", method, payload, 5, 10**6, lambda: True))
        for _ in range(3):
            mine.courier.losses("peer-01", 0)
        assert [r["kind"] for r in read_lines(told)] == ["share", "losses"], (
            "the same numbers again are no new disclosure"
        )


def test_greetings_are_answered_while_others_wait_for_the_learner(tmp_path: Path) -> None:
    _, mine, other, _ = two(tmp_path)
    with mine.connected(), other.connected():
        moment = offer(other)
        with moment._computing, ThreadPoolExecutor(12) as pool:
            waiting = [pool.submit(mine.courier.losses, "peer-01", 0) for _ in range(12)]
            assert mine.courier.hello("peer-01", 5).sender == "peer-01"
            assert not any(future.done() for future in waiting)
            moment._computing.release()
            assert len({future.result() for future in waiting}) == 1
            moment._computing.acquire()


def test_who_comes_and_goes_a_thousand_times_makes_no_more_work_than_others(tmp_path: Path) -> None:
    _, mine, _, _ = two(tmp_path)
    with mine.connected():
        for _ in range(1000):
            mine._on_live("peer-01", True)
            mine._on_live("peer-01", False)
        assert mine._looking._work_queue.qsize() <= 1
        lines = read_lines(mine.setup.state / "audit.jsonl")
        assert len([e for e in lines if e["event"] in ("joined", "left")]) < 10


def test_a_link_that_could_not_be_opened_anew_is_tried_again_and_the_card_is_shown_again(
    tmp_path: Path,
) -> None:
    swarm, mine, other, hub = two(tmp_path)
    fails = [2]

    def connect(identity: Identity, roster: Roster, handlers: Handlers) -> Link:
        if fails[0] and (tmp_path / "again").exists():
            fails[0] -= 1
            raise NetworkError("the port is taken")
        return hub.connect(identity, roster, handlers)

    other._connect = connect
    with mine.connected(), other.connected():
        moment = offer(other, 3)
        other._announce = partial(moment.announcement, 1, "ready")
        (tmp_path / "again").touch()
        swarm.write_roster(Roster.of(swarm.roster.network, swarm.roster.members.values()))
        os.utime(swarm.out / "roster.toml", (1, 1))
        until = time.monotonic() + 20
        while (fails[0] or other._link is None) and time.monotonic() < until:
            time.sleep(0.05)
        assert other._link is not None
        assert fails[0] == 0
        assert log_of(other)["error"] == 1, "said once, tried twice"
        while mine.board.newest("peer-01") != 3 and time.monotonic() < until:
            time.sleep(0.05)
        assert mine.board.newest("peer-01") == 3


def log_of(node: Node) -> Counter[str]:
    return Counter(str(e["event"]) for e in read_lines(node.setup.state / "audit.jsonl"))


def test_one_liar_alone_does_not_end_a_newcomers_run(tmp_path: Path) -> None:
    hub = Hub()
    swarm = Swarm(tmp_path / "net", tiny(peers=4, rounds=50), Net(gather=1, deadline=1, patience=1))
    swarm.lay_out()
    victim, liar = (
        Node(read_setup(swarm.folder(name)), connect=hub.connect) for name in swarm.names[:2]
    )
    with victim.connected(), liar.connected():
        for round, phase in ((2**31 - 1, "ready"), (51, "done"), (50, "ready"), (49, "ready")):
            data = {"examples": 1, "degree": 3, "phase": phase}
            body = encode_sketch(torch.zeros(victim.schema.sketch)) if phase == "ready" else b""
            liar._current_link().publish(liar.stamp.seal("card", round, body, data=data) + body)
        assert victim.board.newest("peer-01") == 49, "nobody is past the last round"
        victim._gather()
        victim._catch_up()
        assert victim.next_round == 0


@pytest.mark.parametrize("method", ["head", "ditto"])
def test_no_message_has_a_byte_of_what_must_stay(tmp_path: Path, method: str) -> None:
    """Every message of a run with visits is kept, and searched for the personal numbers of every
    peer and round."""
    kept: list[bytes] = []

    def listen(source: str, target: str, kind: str, data: bytes) -> bytes:
        kept.append(bytes(data))
        return data

    layers: dict[str, Any] = {
        "strategy": {"name": "afind+", "preset": "literal", "include_self": True},
        "method": method,
    }
    swarm = play(tmp_path / "net", listen, CALM, **layers)
    heard = b"".join(kept)
    found = 0
    for name in swarm.names:
        states = [
            commit.tensors.of(name)
            for commit in commits(swarm.folder(name) / "state")
            if commit.tensors
        ]
        assert len(states) == 2  # after the second round and after the last
        layout = Node(read_setup(swarm.folder(name))).shard.world.learner.layout
        for state in states:
            personal = state["start"][layout.head] if method == "head" else state["state.personal"]
            for at in range(0, len(personal) - 1, 7):
                pair = personal[at : at + 2].numpy().tobytes()
                assert pair not in heard or not personal[at : at + 2].any()
        shared = states[1]["start"][layout.body]  # the model that went on visits in the last round
        found += sum(
            shared[at : at + 2].numpy().tobytes() in heard for at in range(0, len(shared) - 1, 7)
        )
    assert found > 100  # the search does find what was sent
