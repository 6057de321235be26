"""One peer among others on a network in memory: what it believes, what it leaves out, and what it
says of it."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from amity.errors import ConfigError, Failure, NetworkError, StrategyError
from amity.lab.run import run
from amity.net.link.base import AskFailed, Link, Transport
from amity.net.moment import Moment, frozen
from amity.net.node import Node
from amity.net.online import Online
from amity.net.ops.serve import Stopped
from amity.net.ops.swarm import Swarm
from amity.net.options import Net
from amity.net.setup import read_setup
from amity.net.trust.roster import Roster
from amity.net.wire import encode_sketch
from amity.records import EdgeRecord
from amity.registry import take_over
from amity.round.deciding import blaming, view_of
from amity.store import commits, read_lines, read_records
from tests.conftest import tiny
from tests.hub import Hub, Memory, Touch, seal_nothing
from tests.test_parity import CALM, models, rows

QUICK = Net(gather=20, deadline=10, patience=10)


def play(out: Path, touch: Touch, net: Net = QUICK, **layers: Any) -> Swarm:
    """Three peers in threads, with somebody's hand on the wire."""
    base: dict[str, Any] = {"peers": 3, "rounds": 3, "strategy": {"name": "gossip", "k": 2}}
    base["engine"] = {"workers": 1, "vectorise": "off", "group": 1}
    swarm = Swarm(out, tiny(**base | layers), net)
    swarm.lay_out()
    assert set(lives(swarm, Hub(touch)).values()) == {None}
    return swarm


def lives(swarm: Swarm, transport: Transport | None = None) -> dict[str, BaseException | None]:
    """All peers of a swarm in threads of this process, to their end: what each of them raised."""
    return together(made(swarm, transport))


def made(swarm: Swarm, transport: Transport | None = None) -> dict[str, Node]:
    return {n: Node(read_setup(swarm.folder(n)), transport=transport) for n in swarm.names}


def together(nodes: Mapping[str, Node]) -> dict[str, BaseException | None]:
    """Peers in threads of this process, to their end: what each of them raised."""
    ended: dict[str, BaseException | None] = {}

    def live(name: str) -> None:
        try:
            nodes[name].run()
            ended[name] = None
        except BaseException as error:
            ended[name] = error

    threads = [threading.Thread(target=live, args=(name,)) for name in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return ended


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


@pytest.mark.parametrize(
    "card",
    [
        {"preset": "literal"},
        {"preset": "literal", "sketch": 50, "bits": 1},
        {"proxy": "update", "sketch": 50, "bits": 1},
        {"proxy": "model_drift"},
    ],
    ids=str,
)
def test_on_a_network_in_memory_the_bits_are_the_simulators_too(
    tmp_path: Path, card: dict[str, Any]
) -> None:
    layers: dict[str, Any] = {"strategy": {"name": "afind+", **card}, "method": "head"}
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
        mine = rows(read_records(state / "edges.jsonl", EdgeRecord))
        assert mine == {key: r for key, r in rows(simulated.edges).items() if key[1] == name}


@pytest.mark.parametrize("kind", ["head reply", "body reply"])
def test_what_is_altered_on_the_way_is_refused_counted_and_left_out(
    tmp_path: Path, kind: str
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
        assert {reason for _, reason in refused} == {"bad seal"}
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


@pytest.mark.parametrize(("least", "rounds"), [(1, 0), (0, 2)])
def test_members_with_another_model_are_refused_and_say_in_what_they_differ(
    tmp_path: Path, least: int, rounds: int
) -> None:
    hub, net = Hub(), Net(gather=2, deadline=1, patience=1, least=least)
    swarm = Swarm(
        tmp_path / "net", tiny(peers=2, rounds=2, strategy={"name": "gossip", "k": 1}), net
    )
    swarm.lay_out()
    path = swarm.folder("peer-01") / "peer.toml"
    path.write_text(path.read_text().replace("hidden = 12", "hidden = 13"))
    ended = lives(swarm, hub)
    for name, other in (("peer-00", "peer-01"), ("peer-01", "peer-00")):
        assert isinstance(ended[name], Failure)
        assert f"all other members differ from this peer: {other}: parameter" in str(ended[name])
        assert log(swarm, name, "differs") == {(other, "now"): 1}, "said once"
        assert not rounds or log(swarm, name, "refused")[other, "wrong schema"] >= 1
        rows = read_lines(swarm.folder(name) / "state" / "edges.jsonl")
        assert [r["row"] for r in rows] == [{name: 1.0}] * rounds, "nobody took from the other"


FROZEN = """
import torch
from torch import nn

def net(shape, classes):
    body = nn.Linear(64, 6).requires_grad_(False)
    nn.init.constant_(body.weight, VALUE), nn.init.zeros_(body.bias)
    return nn.Sequential(nn.Flatten(), body, nn.ReLU(), nn.Linear(6, classes))
"""


def test_a_member_with_other_frozen_values_is_refused_with_a_line(tmp_path: Path) -> None:
    for name, value in (("a.py", "0.1"), ("b.py", "0.2")):
        (tmp_path / name).write_text(FROZEN.replace("VALUE", value))
    hub, net = Hub(), Net(gather=2, deadline=1, patience=1, least=1)
    model = {"name": f"{tmp_path / 'a.py'}:net", "proxy_layer": "1"}
    layers = {"peers": 2, "rounds": 2, "strategy": {"name": "gossip", "k": 1}}
    swarm = Swarm(tmp_path / "net", tiny(**layers, model=model), net)
    swarm.lay_out()
    path = swarm.folder("peer-01") / "peer.toml"
    path.write_text(path.read_text().replace("a.py:net", "b.py:net"))
    take_over(f"{tmp_path / 'b.py'}:net")
    ended = lives(swarm, hub)
    for name, other in (("peer-00", "peer-01"), ("peer-01", "peer-00")):
        assert isinstance(ended[name], Failure)
        assert f"{other}: the frozen part of the model has" in str(ended[name])
        assert "\n" not in str(ended[name])
        assert not read_lines(swarm.folder(name) / "state" / "edges.jsonl"), "no round was run"


TUPLES = """
from dataclasses import dataclass
from amity import Decision
from amity.strategies.gossip import Gossip

@dataclass(frozen=True)
class Tuples(Gossip):
    def decide(self, view, row):
        decision = yield from super().decide(view, row)
        return Decision(decision.row, {"n": (1, 2) if view.round == 3 else [1, 2]})
"""


def test_a_real_peer_refuses_a_notebook_that_is_not_plain_in_whichever_round(
    tmp_path: Path,
) -> None:
    (tmp_path / "own.py").write_text(TUPLES)
    config = tiny(peers=2, rounds=5, strategy={"name": f"{tmp_path / 'own.py'}:Tuples", "k": 1})
    swarm, hub = Swarm(tmp_path / "net", config, QUICK), Hub()
    swarm.lay_out()
    errors = list(lives(swarm, hub).values())
    for error in errors:
        assert isinstance(error, StrategyError)
        assert "round 3: TypeError: memory must be plain JSON data" in str(error)
    for name in swarm.names:
        state = swarm.folder(name) / "state"
        assert [r["round"] for r in read_lines(state / "metrics.jsonl")] == [0, 1, 2]


def test_whoever_ends_a_peer_by_a_signal_is_not_taken_for_its_strategy() -> None:
    config = tiny(peers=2)
    view = view_of(config, me="a", round=0, neighbours=("b",), examples=1, card=None, memory={})
    with pytest.raises(Stopped), blaming(config, view):
        raise Stopped
    with pytest.raises(StrategyError, match="a, round 0: SystemExit: 0"), blaming(config, view):
        raise SystemExit(0)


def test_another_transport_is_one_file_and_a_key(tmp_path: Path) -> None:
    net = replace(QUICK, link="memory")
    config = tiny(peers=2, rounds=2, strategy={"name": "gossip", "k": 1})
    swarm = Swarm(tmp_path / "net", config, net)
    swarm.lay_out()
    assert 'link = "memory"' in (swarm.folder("peer-00") / "peer.toml").read_text()
    assert set(lives(swarm).values()) == {None}
    for name in swarm.names:
        assert row(swarm, name) == {"peer-00": 0.5, "peer-01": 0.5}
    assert Memory.hub.links == {}, "closed at the end"


def test_a_link_that_nobody_knows_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown link 'zenho'; did you mean 'zenoh'\?"):
        Swarm(tmp_path / "net", tiny(peers=2), Net(link="zenho"))


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
    mine, other = (Node(read_setup(swarm.folder(name)), transport=hub) for name in swarm.names)
    peer = other.workshop.peer
    with mine.connected() as asking, other.connected() as asked:
        for online in (asking, asked):
            offer(online)
        assert torch.equal(asking.courier.model("peer-01", "share", 0)[0].theta, peer.share.theta)
        with pytest.raises(AskFailed, match="not invited"):
            asking.courier.model("peer-01", "start", 0)
        asked.answers.invite("peer-00", 0)
        assert torch.equal(asking.courier.model("peer-01", "start", 0)[0].theta, peer.start)
        with pytest.raises(AskFailed, match="not here"):
            asking.courier.model("peer-01", "share", 7)


def two(tmp_path: Path) -> tuple[Swarm, Node, Node, Hub]:
    """Two peers that are about to be connected, with their models of round 0 on offer."""
    hub = Hub()
    swarm = Swarm(
        tmp_path / "net", tiny(peers=2, rounds=50, strategy={"name": "gossip", "k": 1}), QUICK
    )
    swarm.lay_out()
    mine, other = (Node(read_setup(swarm.folder(name)), transport=hub) for name in swarm.names)
    return swarm, mine, other, hub


def offer(online: Online, round: int = 0) -> Moment:
    peer, world = online.workshop.peer, online.workshop.shard.world
    moment = online.moment(frozen(peer, world, round), None, 1, "ready")
    online.answers.offer(moment)
    return moment


def test_no_model_leaves_without_a_line_whichever_way_it_is_asked_for(tmp_path: Path) -> None:
    _, mine, other, _ = two(tmp_path)
    with mine.connected() as asking, other.connected() as asked:
        offer(asked)
        told = asked.setup.state / "disclosed.jsonl"
        want = {"method": "body", "kind": "share", "offset": 0}
        payload = asking.stamp.seal("ask", 0, to="peer-01", data=want)
        ask = partial(asking.line.link().ask, timeout=5, limit=10**6, alive=lambda: True)
        assert list(ask("peer-01", "body", payload))
        assert [(r["kind"], r["round"]) for r in read_lines(told)] == [("share", 0)], (
            "the body alone, without its head"
        )
        for method in ("head", "body"):
            payload = asking.stamp.seal(
                "ask", -1, to="peer-01", data={"method": method, "kind": "share"}
            )
            with pytest.raises(AskFailed, match="malformed"):
                list(ask("peer-01", method, payload))
        for _ in range(3):
            asking.courier.losses("peer-01", 0)
        assert [r["kind"] for r in read_lines(told)] == ["share", "losses"], (
            "the same numbers again are no new disclosure"
        )


def test_greetings_are_answered_while_others_wait_for_the_learner(tmp_path: Path) -> None:
    _, mine, other, _ = two(tmp_path)
    with mine.connected() as asking, other.connected() as asked:
        moment = offer(asked)
        with moment.computing, ThreadPoolExecutor(12) as pool:
            waiting = [pool.submit(asking.courier.losses, "peer-01", 0) for _ in range(12)]
            assert asking.courier.hello("peer-01", 5).sender == "peer-01"
            assert not any(future.done() for future in waiting)
            moment.computing.release()
            assert len({future.result() for future in waiting}) == 1
            moment.computing.acquire()


def test_who_comes_and_goes_a_thousand_times_makes_no_more_work_than_others(tmp_path: Path) -> None:
    _, mine, _, _ = two(tmp_path)
    with mine.connected() as online:
        for _ in range(1000):
            online.waiting.on_live("peer-01", True)
            online.waiting.on_live("peer-01", False)
        assert online._errands._pool._work_queue.qsize() <= 2  # come? gone?
        lines = read_lines(online.setup.state / "audit.jsonl")
        assert len([e for e in lines if e["event"] in ("joined", "left")]) < 10


def test_a_link_that_could_not_be_opened_anew_is_tried_again_and_the_card_is_shown_again(
    tmp_path: Path,
) -> None:
    swarm, mine, _, hub = two(tmp_path)
    fails = [2]

    class Moody(Transport):
        def open(self, **more: Any) -> Link:
            if fails[0] and (tmp_path / "again").exists():
                fails[0] -= 1
                raise NetworkError("the port is taken")
            return hub.open(**more)

    other = Node(read_setup(swarm.folder("peer-01")), transport=Moody())
    with mine.connected() as watching, other.connected() as online:
        moment = offer(online, 3)
        watching.courier.hello("peer-01")  # by which its cards can be read
        online.line.show(moment.announcement(), again=moment.announcement)
        first = shown(watching)
        assert first
        (tmp_path / "again").touch()
        swarm.write_roster(Roster.of(swarm.roster.network, swarm.roster.members.values()))
        os.utime(swarm.out / "roster.toml", (1, 1))
        until = time.monotonic() + 300
        while (fails[0] or not online.line.is_open) and time.monotonic() < until:
            time.sleep(0.05)
        assert online.line.is_open
        assert fails[0] == 0
        assert log_of(online)["error"] == 1, "said once, tried twice"
        while shown(watching) == first and time.monotonic() < until:
            time.sleep(0.05)
        assert shown(watching) not in ("", first), "signed anew"


def shown(online: Online) -> str:
    """The number of the card of round 3 that peer-01 showed last."""
    notice = online.board.notice("peer-01", 3)
    return notice.manifest.nonce if notice else ""


def log_of(online: Online) -> Counter[str]:
    return Counter(str(e["event"]) for e in read_lines(online.setup.state / "audit.jsonl"))


def test_one_liar_alone_does_not_end_a_newcomers_run(tmp_path: Path) -> None:
    hub = Hub()
    swarm = Swarm(tmp_path / "net", tiny(peers=4, rounds=50), Net(gather=1, deadline=1, patience=1))
    swarm.lay_out()
    victim, liar = (Node(read_setup(swarm.folder(name)), transport=hub) for name in swarm.names[:2])
    with victim.connected() as online, liar.connected() as lying:
        online.courier.hello("peer-01")  # by which its cards can be read
        for round, phase in ((2**31 - 1, "ready"), (51, "done"), (50, "ready"), (49, "ready")):
            data = {"examples": 1, "degree": 3, "phase": phase}
            numbers = torch.zeros(victim.workshop.schema.sketch, dtype=torch.float16)
            body = encode_sketch(numbers) if phase == "ready" else b""
            lying.line.link().publish(lying.stamp.seal("card", round, body, data=data) + body)
        assert online.board.newest("peer-01") == 49, "nobody is past the last round"
        online.waiting.gather(0)
        assert online.waiting.catch_up(0) == (0, "ready")


@pytest.mark.parametrize("method", ["head", "ditto"])
def test_no_message_has_a_byte_of_what_must_stay(
    tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every message of a run with visits is kept, and searched for the personal numbers of every
    peer and round."""
    seal_nothing(monkeypatch)
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
        layout = Node(read_setup(swarm.folder(name))).workshop.shard.world.learner.layout
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
