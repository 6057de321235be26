"""Membership by certificate (`members = "any-signed"`): who is let in by the authority's signature,
and who is not."""

from __future__ import annotations

import json
import os
import queue
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from amity.errors import IdentityError
from amity.net.admitting import Admitting
from amity.net.audit import Audit
from amity.net.errands import Errands
from amity.net.link.base import AskFailed, Link
from amity.net.membership import Membership, Papers
from amity.net.node import Node
from amity.net.ops.swarm import NETWORK, Swarm
from amity.net.options import Net
from amity.net.sealed.boxes import Box
from amity.net.setup import read_setup
from amity.net.trust.certs import CA_KEY, ca_init, ca_sign, make_key, make_request
from amity.net.trust.identity import CA, CERT, Identity, expires, load_certificates, load_key
from amity.net.trust.passes import (
    BOOK,
    DOMAIN,
    Book,
    Pass,
    admit,
    digest_of,
    dump_book,
    enrolled,
    load_book,
    open_pass,
    sign_pass,
)
from amity.net.trust.revoked import REVOKED, open_revoked, sign_revoked
from amity.net.trust.roster import Member, Roster
from amity.topology import Full, Network
from tests.conftest import Call, tiny
from tests.hub import Hub
from tests.test_node import log, row, untouched
from tests.test_revoked import until
from tests.test_strangers import (
    FRIEND,
    ROOT,
    RUNNING,
    VICTIM,
    Answers,
    Stage,
    Watch,
    Who,
    ask_all,
    ask_key,
    hello,
    outsider,
)

BOX = bytes(32)


def signed_by(ca: Path, folder: Path, name: str) -> Identity:
    """A new key under a name, with a certificate of this authority."""
    make_key(folder, name, ["127.0.0.1"])
    ca_sign(ca, folder / "request.pem", folder / CERT, name)
    shutil.copy(ca / CA, folder / CA)
    return Identity.load(folder, name)


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ca")
    ca_init(folder)
    return folder


@pytest.fixture(scope="module")
def anna(ca: Path, tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return signed_by(ca, tmp_path_factory.mktemp("anna"), "anna")


def opened(ca: Path, signed: bytes, network: str = "n") -> Pass:
    return open_pass(signed, load_certificates(ca / CA), network)


def shown(ca: Path, identity: Identity, address: str = "127.0.0.1:7447") -> Pass:
    return opened(ca, sign_pass(identity, "n", address, BOX))


def test_a_pass_holds_by_the_signatures_of_the_authority_and_of_its_holder(
    ca: Path, anna: Identity, tmp_path: Path
) -> None:
    signed = sign_pass(anna, "n", "127.0.0.1:7447", BOX)
    found = opened(ca, signed)
    assert found.member == Member("anna", "127.0.0.1:7447", anna.fingerprint)
    assert found.valid
    outer = json.loads(signed)
    other = signed_by(ca, tmp_path / "other", "other")
    theirs = json.loads(sign_pass(other, "n", "127.0.0.1:7447", BOX))
    ca_init(tmp_path / "ca2")
    stranger = signed_by(tmp_path / "ca2", tmp_path / "stranger", "anna")
    text = outer["pass"].replace("7447", "7448")
    resigned = {**outer, "pass": text, "signature": other.sign(DOMAIN + text.encode()).hex()}
    refused = {
        "not signed by our authority": sign_pass(stranger, "n", "127.0.0.1:7447", BOX),
        "not signed with the key of its cert": json.dumps({**outer, "pass": text}).encode(),
        "with the key of its certificate": json.dumps(resigned).encode(),
        "the key of its": json.dumps({**outer, "certificate": theirs["certificate"]}).encode(),
        "is for the network 'm'": sign_pass(anna, "m", "127.0.0.1:7447", BOX),
        "does not cover 10.0.0.1:7447": sign_pass(anna, "n", "10.0.0.1:7447", BOX),
        "longer than": signed + b" " * 10_000,
    }
    for why, one in refused.items():
        with pytest.raises(IdentityError, match=why):
            opened(ca, one)
    for garbage in (b"", b"{}", b"[" * 5000, b"\xff", b'{"certificate": 1}', b"null"):
        with pytest.raises(IdentityError, match="not in the form of one"):
            opened(ca, garbage)


def test_an_authority_of_its_own_is_not_signed_by_ours(ca: Path, tmp_path: Path) -> None:
    """A member's key cannot sign further members: its certificate is not one of an authority."""
    member = signed_by(ca, tmp_path / "eve", "eve")
    sub = tmp_path / "sub"
    sub.mkdir()
    shutil.copy(member.key_path, sub / CA_KEY)
    shutil.copy(member.cert_path, sub / CA)
    guest = tmp_path / "guest"
    make_key(guest, "guest", ["127.0.0.1"])
    ca_sign(sub, guest / "request.pem", guest / CERT, "guest", 1)
    shutil.copy(ca / CA, guest / CA)
    with pytest.raises(IdentityError, match="not signed by our authority"):
        opened(ca, sign_pass(Identity("guest", guest, load_key(guest / "key.pem")), "n", "", BOX))


def test_one_name_has_one_key_until_the_authority_revokes_it(
    ca: Path, anna: Identity, tmp_path: Path
) -> None:
    roster = Roster.of("n", [Member("root", "127.0.0.1:1", "0" * 64)], any_signed=True)
    book = admit({}, shown(ca, anna), roster, None)
    second = shown(ca, signed_by(ca, tmp_path / "second", "anna"), "127.0.0.1:7449")
    with pytest.raises(IdentityError, match="anna: shows another key than the one that is known"):
        admit(book, second, roster, None)
    listed = shown(ca, signed_by(ca, tmp_path / "root", "root"), "127.0.0.1:2")
    with pytest.raises(IdentityError, match="root: shows another key"):
        admit(book, listed, roster, None)
    make_request(tmp_path / "second", "bella", ["127.0.0.1"])
    ca_sign(ca, tmp_path / "second" / "request.pem", tmp_path / "bella.pem", "bella")
    shutil.copy(tmp_path / "bella.pem", tmp_path / "second" / CERT)
    renamed = Identity.load(tmp_path / "second", "bella")
    with pytest.raises(IdentityError, match="anna: shows the key of bella"):
        admit(admit({}, shown(ca, renamed), roster, None), second, _with(roster, renamed), None)
    with pytest.raises(IdentityError, match=r"says that it is at .*, as root is"):
        admit(book, shown(ca, renamed, "127.0.0.1:1"), roster, None)

    keys = {anna.fingerprint: "anna"}
    gone = open_revoked(sign_revoked(load_key(ca / CA_KEY), "n", 1, keys), ca / CA, "it")
    with pytest.raises(IdentityError, match="anna: its key was revoked"):
        admit({}, shown(ca, anna), roster, gone)
    after = admit(book, second, roster, gone)
    assert after["anna"].member.fingerprint == second.member.fingerprint
    me = Member("me", "", "1" * 64)
    assert enrolled(roster, book, me, gone).names == ("me", "root")
    assert enrolled(roster, after, me, gone).names == ("anna", "me", "root")


def _with(roster: Roster, identity: Identity) -> Roster:
    return roster.with_member(Member(identity.name, "", identity.fingerprint))


def test_a_later_pass_moves_a_member_and_an_older_one_does_not(
    ca: Path, anna: Identity, tmp_path: Path
) -> None:
    roster = Roster.of("n", [], any_signed=True)
    again = shown(ca, anna)
    first = replace(again, at=again.at - 1000)
    moved = shown(ca, anna, "127.0.0.1:9000")
    book = admit({}, first, roster, None)
    assert admit(book, again, roster, None) is book
    after = admit(book, moved, roster, None)
    assert after["anna"].member.address == "127.0.0.1:9000"
    assert admit(after, first, roster, None) is after
    assert digest_of(book) != digest_of(after)
    assert digest_of(book) == digest_of({"anna": again})
    path = tmp_path / BOOK
    path.write_bytes(dump_book(after))
    assert load_book(path, ca / CA, "n") == after
    ca_init(tmp_path / "ca2")
    assert load_book(path, tmp_path / "ca2" / CA, "n") == {}
    path.write_text("[1]")
    with pytest.raises(IdentityError, match="is no list of passes; delete it"):
        load_book(path, ca / CA, "n")


def test_a_certificate_that_has_ended_makes_nobody_a_member(ca: Path, anna: Identity) -> None:
    found = replace(shown(ca, anna), end=datetime.now(UTC))
    roster = Roster.of("n", [], any_signed=True)
    with pytest.raises(IdentityError, match="anna: its certificate is not valid today"):
        admit({}, found, roster, None)
    book: Book = {"anna": found}
    assert enrolled(roster, book, Member("me", "", "1" * 64), None).names == ("me",)


def test_a_roster_says_who_the_members_are(tmp_path: Path) -> None:
    path = tmp_path / "roster.toml"
    path.write_text('network = "n"\nmembers = "any-signed"\n')
    assert Roster.load(path).any_signed
    path.write_text(Roster.of("n", [Member("a", "", "0" * 64)], any_signed=True).dump())
    assert Roster.load(path) == Roster.of("n", [Member("a", "", "0" * 64)], any_signed=True)
    path.write_text('network = "n"\nmembers = "anyone"\n')
    with pytest.raises(IdentityError, match=r'expected "listed".*or "any-signed".*got .anyone'):
        Roster.load(path)


def test_whoever_moves_to_and_fro_is_followed_once_in_ten_minutes(
    ca: Path, anna: Identity, tmp_path: Path
) -> None:
    """Every move of a member has all others open their links anew."""
    papers = Papers(anna, Roster.of("n", [Member("anna", "", anna.fingerprint)], any_signed=True))
    errands, audit = Errands(), Audit(tmp_path / "audit.jsonl", "anna")
    door = Admitting(
        path=tmp_path / BOOK, papers=lambda: papers, link=Never(), errands=errands, audit=audit
    )
    bella = signed_by(ca, tmp_path / "bella", "bella")
    for port in (7001, 7002, 7003):
        request = Knock(sign_pass(bella, "n", f"127.0.0.1:{port}", Box().public))
        door.on_knock(request)
        assert request.answer.get(timeout=60)[0] == "answer"
    door.close()
    errands.close()
    audit.close()
    found = load_book(tmp_path / BOOK, ca / CA, "n")
    assert found["bella"].member.address == "127.0.0.1:7001"


class Never:
    """No link."""

    def __call__(self) -> Link:
        raise AskFailed("not connected")


class Knock:
    """Somebody at the door."""

    asker, method = "bella", "door"

    def __init__(self, signed: bytes) -> None:
        self.payload = json.dumps({"pass": signed.decode(), "book": ""}).encode()
        self.answer: queue.SimpleQueue[tuple[str, bytes]] = queue.SimpleQueue()

    def reply(self, data: bytes, offset: int = 0) -> None:
        self.answer.put(("answer", data))

    def fail(self, reason: str) -> None:
        self.answer.put(("error", reason.encode()))

    def done(self) -> None:
        pass


# -- peers -----------------------------------------------------------------------------------------


class Company:
    """Peers in threads of this process that were told of peer-00 alone."""

    def __init__(self, swarm: Swarm) -> None:
        self.swarm, self.hub = swarm, Hub(untouched)
        self.nodes, self._threads = dict[str, Node](), list[threading.Thread]()

    def start(self, *names: str) -> None:
        for name in names:
            self.nodes[name] = Node(read_setup(self.swarm.folder(name)), transport=self.hub)
            self._threads.append(threading.Thread(target=self.nodes[name].run))
            self._threads[-1].start()

    def stop(self) -> None:
        for node in self.nodes.values():
            node.stop.set()
        for thread in self._threads:
            thread.join(60)

    def uses(self, name: str, *others: str) -> bool:
        """Whether a peer has taken models of all of these."""
        return all(log(self.swarm, name, "used")[j, ""] for j in others)


@pytest.fixture
def company(tmp_path: Path) -> Iterator[Company]:
    config = tiny(
        peers=4,
        rounds=1000,
        strategy={"name": "gossip", "k": 3},
        engine={"workers": 1, "vectorise": "off", "group": 1},
        eval={"every": 1000, "gradients_every": 0},
    )
    net = Net(gather=20, deadline=10, patience=10)
    swarm = Swarm(tmp_path / "net", config, net, any_signed=True)
    swarm.lay_out()
    found = Company(swarm)
    try:
        yield found
    finally:
        found.stop()


def test_peers_that_know_one_member_find_the_others_and_nobody_edits_a_roster(
    company: Company, call: Call
) -> None:
    """The fourth comes later, is found by all, and is revoked; peer-00 shows the list alone."""
    swarm, (first, *others, last) = company.swarm, company.swarm.names
    before = {n: (swarm.folder(n) / "roster.toml").read_bytes() for n in swarm.names}
    company.start(first, *others)
    until(lambda: company.uses("peer-01", "peer-00", "peer-02"))
    until(lambda: company.uses("peer-02", "peer-00", "peer-01"))
    company.start(last)
    until(lambda: company.uses(last, first, *others))
    until(lambda: all(company.uses(n, last) for n in (first, *others)))
    assert before == {n: (swarm.folder(n) / "roster.toml").read_bytes() for n in swarm.names}
    assert all(log(swarm, n, "roster")[last, "added"] == 1 for n in (first, *others))

    found, ca = Papers.load(read_setup(swarm.folder("peer-01"))), swarm.out / "ca"
    assert found.roster.names == swarm.names
    assert found.lasts == min(expires(swarm.folder(n) / "identity" / CERT) for n in swarm.names)
    assert {n: m.fingerprint for n, m in found.roster.members.items()} == {
        n: Identity.load(swarm.folder(n) / "identity", n).fingerprint for n in swarm.names
    }
    assert call(f"ca revoke {ca} {last} peer={swarm.folder('peer-02')}")[0] == 0
    shutil.copy(ca / REVOKED, swarm.folder(first))
    until(lambda: all(log(swarm, n, "roster")[last, "removed"] for n in (first, *others)))
    rounds = {n: company.nodes[n].next_round for n in others}
    until(lambda: all(company.nodes[n].next_round > rounds[n] + 2 for n in others))
    assert all(last not in row(swarm, n) for n in others)
    assert Papers.load(read_setup(swarm.folder("peer-02"))).roster.names == (first, *others)


def test_when_a_certificate_ends_its_member_is_removed_without_anybody_doing_anything(
    company: Company, tmp_path: Path
) -> None:
    setup, stop = read_setup(company.swarm.folder("peer-01")), threading.Event()
    now, ended = Papers.load(setup), Member("ended", "", "f" * 64)
    papers = replace(now, roster=now.roster.with_member(ended), lasts=datetime.now(UTC))
    audit, line = Audit(tmp_path / "audit.jsonl", "peer-01"), Line()
    membership = Membership(
        setup=setup,
        papers=papers,
        graph=lambda names: Network(Full(), names, 0),
        line=line,  # type: ignore[arg-type]
        audit=audit,
        stop=stop,
    )
    nobody: Any = None
    try:
        membership.go_online(nobody, beat=lambda: None)
        until(lambda: len(line.opened) == 2)
    finally:
        stop.set()
    assert membership.roster().names == ("peer-00", "peer-01")
    assert [ended.name in names for names in line.opened] == [True, False]
    assert audit.counts["roster", "ended", "removed"] == 1
    audit.close()


class Line:
    """For whom a line was opened."""

    is_open = True

    def __init__(self) -> None:
        self.opened: list[tuple[str, ...]] = []

    def open(self, identity: Identity, roster: Roster, handlers: object) -> None:
        self.opened.append(roster.names)


# -- on real links ---------------------------------------------------------------------------------


def knock(who: Who) -> Answers:
    """Show a pass at the victim's door."""
    address = "127.0.0.1:1" if who.name == "mallory" else "127.0.0.1:2"
    signed = sign_pass(who.identity, NETWORK, address, Box().public)
    ask = json.dumps({"pass": signed.decode(), "book": ""}).encode()
    return ask_all(who, [(f"{ROOT}/{VICTIM}/door/{who.name}", ask)], 5.0)[0]


@pytest.mark.skipif(os.name != "posix", reason="swarms fork")
def test_who_shows_no_pass_or_a_false_one_has_a_link_and_nothing_else(tmp_path: Path) -> None:
    """All that a certificate of the authority is worth before its pass was believed: nothing is
    heard, asked or answered. A second certificate for a member's name stays worth nothing."""
    stage = Stage(tmp_path / "swarm", any_signed=True)
    try:
        quiet = stage.issued(tmp_path / "quiet", "quiet")
        tried = stage.call(outsider, quiet)
        assert (tried["heard"], tried["alive"]) == ([], [])
        assert not any(tried["answers"])

        twin = stage.issued(tmp_path / "twin", FRIEND)
        watch = Watch(stage)
        until(lambda: stage.call(knock, twin) == [("error", b"no pass")])
        line = watch.logged("no pass")
        assert "peer-01: shows another key than the one that is known" in line["detail"]
        wrong = [[("error", b"wrong key")]]
        until(lambda: stage.call(ask_all, twin, [(ask_key(FRIEND), hello(twin))]) == wrong)
        # members who get to know each other open their lines anew, so some leave and come back
        seen = stage.rounds()
        until(lambda: all(after > seen[n] + 1 for n, after in stage.rounds().items()))
        assert not any(line["event"] == "error" for n in RUNNING for line in watch.lines(n))
        watch.bounded()

        mallory = stage.issued(tmp_path / "mallory", "mallory")
        assert stage.call(ask_all, mallory, [(ask_key("mallory"), hello(mallory))]) == [[]]
        until(lambda: [kind for kind, _sealed in stage.call(knock, mallory)] == ["answer"])
        until(lambda: all(log(stage.swarm, n, "roster")["mallory", "added"] for n in RUNNING))
        until(lambda: bool(stage.call(ask_all, mallory, [(ask_key("mallory"), hello(mallory))])[0]))
    finally:
        stage.close()
