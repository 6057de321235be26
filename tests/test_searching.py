"""Friends of friends on real links: who is dialled, which links end, whose cards are believed, and
what is found."""

from __future__ import annotations

import json
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from amity.errors import ConfigError, IdentityError
from amity.lab.run import run
from amity.net import searching
from amity.net.album import Album
from amity.net.board import KEPT
from amity.net.node import Node
from amity.net.ops.swarm import Swarm
from amity.net.options import Net
from amity.net.searching import CIRCLE, MISSED, Searching
from amity.net.setup import read_setup
from amity.net.trust.certs import ca_init, ca_sign, make_key
from amity.net.trust.identity import CA, CERT, Identity
from amity.net.trust.roster import Member, Roster
from amity.net.wire import Refused, Stamp, WireSchema, encode_sketch, pack, unpack
from amity.records import PeerRecord
from amity.round.build import deal_out
from amity.round.discovery import Handed, hand_out
from amity.store import read_lines, read_records
from amity.topology import Discover
from tests.conftest import tiny
from tests.hub import Exchange
from tests.test_node import log, made, together
from tests.test_parity import same_bits, swarm_of

QUICK = Net(gather=30, deadline=20, patience=20)
RULE: dict[str, Any] = {"name": "discover", "view": 3, "random": 1, "cards": 4, "passed": 1}
GROUPED: dict[str, Any] = {
    "peers": 12,
    "rounds": 7,
    "strategy": {"name": "gossip"},
    "partition": {"name": "iid", "samples": 60, "test": 10},
    "shift": {"name": "permute_labels", "groups": 2},
    "topology": RULE,
    "eval": {"gradients_every": 0},
    "engine": {"workers": 1, "vectorise": "off", "group": 1},
}


def laid_out(out: Path, net: Net = QUICK, **layers: Any) -> Swarm:
    swarm = Swarm(out, tiny(**{**GROUPED, **layers}), net)
    swarm.lay_out()
    return swarm


def circle(swarm: Swarm, name: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = json.loads((swarm.folder(name) / "state" / CIRCLE).read_bytes())
    return found


def books(swarm: Swarm) -> Counter[str]:
    """What all peers have moved, also after their last record."""
    moved: Counter[str] = Counter()
    for name in swarm.names:
        state = swarm.folder(name) / "state"
        lines = [r.__dict__ for r in read_records(state / "metrics.jsonl", PeerRecord)]
        lines += [e for e in read_lines(state / "audit.jsonl") if e["event"] == "stop"]
        for key in ("card_in", "card_out", "model_in", "model_out"):
            moved[key] += sum(int(line.get(key) or 0) for line in lines)
    return moved


# -- whose cards are believed ----------------------------------------------------------------------

SCHEMA = WireSchema(size=4, masked=False, sketch=3, probe=3, digest="0" * 64, handed=5)


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Identity]:
    """Three with certificates of one authority; eve is no member."""
    home, found = tmp_path_factory.mktemp("people"), {}
    ca_init(home / "ca")
    for name in ("anna", "bert", "eve"):
        make_key(home / name, name, ["127.0.0.1"])
        ca_sign(home / "ca", home / name / "request.pem", home / name / CERT, name)
        shutil.copy(home / "ca" / CA, home / name / CA)
        found[name] = Identity.load(home / name, name)
    return found


@pytest.fixture
def album(people: Mapping[str, Identity]) -> Album:
    listed = [
        Member(name, f"127.0.0.1:{port}", people[name].fingerprint)
        for port, name in enumerate(("anna", "bert"), 7000)
    ]
    roster = Roster.of("n", listed)
    return Album(me="me", schema=SCHEMA, rounds=9, max_age=60.0, roster=lambda: roster)


def card_by(identity: Identity, round: int = 3, phase: str = "ready", network: str = "n") -> bytes:
    import torch

    body = encode_sketch(torch.tensor([1.0, 2.0, 3.0]))
    data = {"examples": 1, "degree": 1, "phase": phase}
    return Stamp(identity, network, "0" * 64).seal("card", round, body, data=data) + body


def test_a_card_that_is_handed_on_is_its_authors_or_refused(
    people: dict[str, Identity], album: Album
) -> None:
    signed = card_by(people["anna"])
    found = album.opened(signed)
    assert found is not None
    assert (found.manifest.sender, found.head + found.body) == ("anna", signed)
    named = Identity("anna", people["bert"].folder, people["bert"].key)
    refused = {
        "wrong key": card_by(named),
        "wrong hash": signed[:-1] + bytes([signed[-1] ^ 1]),
        "bad signature": signed.replace(b'"round":3', b'"round":4'),
        "wrong network": card_by(people["anna"], network="m"),
        "malformed": signed[: -len(found.body)],
    }
    for why, one in refused.items():
        with pytest.raises(Refused) as caught:
            album.opened(one)
        assert caught.value.reason == why
    assert album.opened(card_by(people["eve"])) is None, "no member here, maybe one there"
    assert album.opened(card_by(people["anna"], round=9)) is None, "past the last round"
    assert album.get("anna") is None, "nothing is kept by being looked at"


def test_the_newest_card_of_an_author_stays_and_its_body_is_not_sent_again(
    people: dict[str, Identity], album: Album
) -> None:
    cards = [album.opened(card_by(people["anna"], round)) for round in (4, 5, 3)]
    for card in cards:
        assert card is not None
        album.keep(card)
    kept = album.get("anna")
    assert kept is not None
    assert kept.round == 5
    assert album.body("anna", kept.manifest.sha256) == kept.body
    assert album.body("anna", "1" * 64) is None
    album.keep_only({"bert"})
    assert album.get("anna") is None


def test_cards_are_packed_whole_and_nothing_else_is_taken_for_some() -> None:
    assert unpack(pack([b"one", b"three"]), 2) == [b"one", b"three"]
    assert unpack(b"", 0) == []
    for body, count in ((b"", 1), (pack([b"a"]), 2), (pack([b"a"]) + b"b", 1), (b"\xff" * 9, 1)):
        with pytest.raises(Refused, match="cards"):
            unpack(body, count)


# -- in memory -------------------------------------------------------------------------------------


def test_peers_dial_their_circle_alone_find_their_group_and_book_the_same_at_both_ends(
    tmp_path: Path,
) -> None:
    swarm, hub = laid_out(tmp_path / "net"), Exchange()
    assert set(together(made(swarm, hub)).values()) == {None}
    dealt = deal_out(swarm.config, swarm.dataset, swarm.names)
    groups = {name: data.group for name, data in dealt.items()}
    found = []
    for name in swarm.names:
        known = circle(swarm, name)
        assert len(known["view"]) == 3
        assert len(known["random"]) == 1
        assert name not in (*known["view"], *known["random"])
        found += [groups[name] == groups[j] for j in known["view"]]
        assert not log(swarm, name, "error")
    assert sum(found) / len(found) > 0.7, "5 of 11 by chance"
    assert hub.calls == {}, "all links have ended"
    moved = books(swarm)
    assert moved["card_in"] == moved["card_out"] > 0
    assert moved["model_in"] == moved["model_out"] > 0


def test_links_from_others_are_bounded_and_who_finds_none_free_looks_for_others(
    tmp_path: Path,
) -> None:
    swarm = laid_out(tmp_path / "net", replace(QUICK, links=3, gather=2), peers=8, rounds=6)
    hub = Exchange()
    assert set(together(made(swarm, hub)).values()) == {None}
    assert 1 <= max(hub.most.values()) <= 3
    for name in swarm.names:
        assert len(read_lines(swarm.folder(name) / "state" / "metrics.jsonl")) == 6


def test_who_never_comes_holds_up_nobody_and_who_comes_late_takes_part(tmp_path: Path) -> None:
    layers: dict[str, Any] = {"peers": 8, "rounds": 12}
    swarm, hub = (
        laid_out(tmp_path / "net", replace(QUICK, gather=1, deadline=5), **layers),
        Exchange(),
    )
    nodes = made(swarm, hub)
    late, dead = nodes.pop("peer-06"), nodes.pop("peer-07")
    assert dead.me == "peer-07"
    begun, arrived = threading.Event(), threading.Event()

    def gated(node: Node, gate: Callable[[int], object]) -> None:
        plain = node.workshop.shard.train

        def train(names: Any, t: int, *more: Any) -> Any:
            gate(t)
            return plain(names, t, *more)

        node.workshop.shard.train = train  # type: ignore[method-assign]

    def hold(t: int) -> None:
        """Nobody goes on with round 4 before the late one is here."""
        if t >= 4:
            begun.set()
            arrived.wait(60)

    for node in nodes.values():
        gated(node, hold)
    gated(late, lambda _t: arrived.set())
    ended: dict[str, BaseException | None] = {}
    others = threading.Thread(target=lambda: ended.update(together(nodes)))
    others.start()
    assert begun.wait(60)
    ended |= together({"peer-06": late})
    others.join(60)
    assert set(ended.values()) == {None}
    for name in nodes:
        assert read_lines(swarm.folder(name) / "state" / "metrics.jsonl")[-1]["round"] == 11
    rows = read_lines(swarm.folder("peer-06") / "state" / "edges.jsonl")
    assert any(len(one["row"]) > 1 for one in rows), "and it learns from those whom it knows"


def test_a_liars_cards_are_refused_and_hold_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hands out its own card under another's name: resigned, and in the first place."""
    plain = Searching._signed

    def lie(self: Searching, j: str, moment: Any) -> bytes:
        if self._me != "peer-00":
            return plain(self, j, moment)
        return plain(self, self._me, moment).replace(b"peer-00", b"peer-01")

    monkeypatch.setattr(Searching, "_signed", lie)
    swarm, hub = laid_out(tmp_path / "net", peers=6, rounds=5), Exchange()
    assert set(together(made(swarm, hub)).values()) == {None}
    refused = sum((log(swarm, name, "refused") for name in swarm.names[1:]), Counter())
    forged = {who for who, why in refused if why in ("wrong key", "bad signature")}
    assert forged == {"peer-00"}, "the log says who handed them over"


def test_more_cards_than_an_exchange_has_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A liar always hands over one more than the rule has, however many it knows."""
    swarm, hub = laid_out(tmp_path / "net", peers=6, rounds=6), Exchange()
    most = RULE["cards"] - RULE["passed"]

    def hand(rule: Discover, me: str, *args: Any) -> Handed:
        plain = hand_out(rule, me, *args)
        return plain._replace(best=(me,) * (most + 1)) if me == "peer-00" else plain

    monkeypatch.setattr(searching, "hand_out", hand)
    assert set(together(made(swarm, hub)).values()) == {None}
    refused = sum((log(swarm, name, "refused") for name in swarm.names[1:]), Counter())
    assert refused["peer-00", "malformed"] >= 1
    for name in swarm.names[1:]:
        assert len(circle(swarm, name)["random"]) == 1


def test_a_circle_survives_a_restart_and_a_torn_file_begins_anew(tmp_path: Path) -> None:
    swarm = laid_out(tmp_path / "net", peers=6, rounds=2)
    node = Node(read_setup(swarm.folder("peer-00")), transport=Exchange())
    path = swarm.folder("peer-00") / "state" / CIRCLE
    with node.connected() as online:
        assert online.searching is not None
        company = online._company
        written = {"view": ["peer-05", "gone"], "random": ["peer-04"], "secret": "s"}

        def search() -> Searching:
            return Searching(
                me="peer-00",
                rule=Discover(view=2, random=1, cards=3, passed=1),
                net=QUICK,
                path=path,
                known=lambda: ("peer-01", "peer-02"),
                company=company,
            )

        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(written))
        again = search()
        assert again.near(0) == ("peer-04", "peer-05"), "and nobody who is no member"
        again.start()
        assert len(again.near(0)) == 3, "a free place goes to somebody of the roster"
        path.write_text("{")
        assert search().near(0) == ("peer-01", "peer-02")


def test_whom_a_peer_cannot_reach_leaves_its_circle_for_a_while(tmp_path: Path) -> None:
    swarm = laid_out(tmp_path / "net", peers=8, rounds=2)
    node = Node(read_setup(swarm.folder("peer-00")), transport=Exchange())
    with node.connected() as online:
        search = online.searching
        assert search is not None
        first = set(search.near(0))
        for t in range(MISSED):
            assert set(search.near(t)) == first
            search.end(t)
        assert not first & set(search.near(MISSED)), "others of the roster have their places"
        assert {j for event, j, _ in online.audit.counts if event == "dropped"} == first
        for t in range(MISSED, 4 * MISSED):
            search.end(t)
        assert len(search.near(0)) >= 3, "who reaches nobody at all tries everyone again"
        before = search.near(0)
        search.refill()
        assert search.near(0) == before, "those who were just dialled have time"
        search._until = float("-inf")
        tried = set[str]()
        for _ in range(50):
            search.refill()
            search._until = float("-inf")
            tried |= set(search.near(0))
        assert len(tried) == 7, "after a while, others of the roster"


@pytest.mark.parametrize("sync", ["round", "none"])
def test_who_asks_too_often_or_from_another_time_is_not_answered(tmp_path: Path, sync: Any) -> None:
    from amity.net.answers import Unavailable

    swarm = laid_out(tmp_path / "net", replace(QUICK, sync=sync, staleness=3), peers=6, rounds=2)
    node = Node(read_setup(swarm.folder("peer-00")), transport=Exchange())
    with node.connected() as online:
        search = online.searching
        assert search is not None
        apart = KEPT + (3 if sync == "none" else 0)
        search._count("a", 5, 5)
        search._count("b", 5 + apart, 5)
        for who, round in (("a", 5), ("a", 4), ("c", 6 + apart), ("c", 4 - apart)):
            with pytest.raises(Unavailable, match="enough exchanges in round 5"):
                search._count(who, round, 5)
        for at, who in enumerate("defg"):
            search._count(who, 5, 5 + at // 3)
        with pytest.raises(Unavailable):
            search._count("h", 6, 6)
        search._count("h", 6, 7)


def test_what_neighbours_that_are_found_cannot_do_is_refused_with_a_line(tmp_path: Path) -> None:
    swarm = laid_out(tmp_path / "net", peers=4, rounds=1)
    folder = swarm.folder("peer-00")
    with pytest.raises(ConfigError, match=r"net\.masked: needs links between all members"):
        read_setup(folder, {"net.masked": True})
    relay = Member("relay", "127.0.0.1:9", "f" * 64)
    swarm.write_roster(replace(swarm.roster, relay=relay))
    with pytest.raises(IdentityError, match="with topology=discover members dial each other"):
        Node(read_setup(folder), transport=Exchange())


# -- with Zenoh ------------------------------------------------------------------------------------


def test_a_swarm_whose_circles_hold_everyone_has_the_simulators_bits(tmp_path: Path) -> None:
    topology = {"name": "discover", "view": 4, "random": 2, "cards": 4, "passed": 1}
    same_bits(tmp_path, {"peers": 5, "rounds": 4, "strategy": "friends", "topology": topology})


def test_real_peers_find_their_group_with_few_links_and_about_the_simulators_bytes(
    tmp_path: Path,
) -> None:
    layers = {**GROUPED, "peers": 8, "rounds": 6}
    swarm = swarm_of(tmp_path / "swarm", **layers)
    simulated = run(tiny(**layers), tmp_path / "simulated")
    for name in swarm.names:
        known = circle(swarm, name)
        assert len(known["view"]) == 3
        assert not log(swarm, name, "error")
        lines = read_lines(swarm.folder(name) / "state" / "edges.jsonl")
        assert all(len(line["row"]) <= 5 for line in lines)
    moved = books(swarm)
    cards, models = (
        sum(getattr(r, key) for r in simulated.metrics) for key in ("card_in", "model_in")
    )
    assert moved["card_in"] == moved["card_out"]
    assert 0.5 * cards < moved["card_in"] < 1.2 * cards
    assert 0.7 * models < moved["model_in"] < 1.2 * models
