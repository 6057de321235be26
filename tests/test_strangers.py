"""Strangers and members who misbehave, against a swarm that is at work: each is refused and logged,
the others never notice, and memory stays bounded.

Peers 0 to 2 run all the time and peer-00 is attacked; peers 3 and 4 are on the roster but have no
process, so that tests can speak with their keys. Zenoh sessions are opened in forked helpers only,
never in the process that forks.
"""

from __future__ import annotations

import base64
import json
import os
import random
import secrets
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import zenoh

from amity.net.link.zenoh_settings import LARGEST_MESSAGE, settings
from amity.net.ops.swarm import NETWORK, Swarm
from amity.net.options import Net
from amity.net.rounds import Done, Rounds
from amity.net.sealed.boxes import Box, seal
from amity.net.sealed.link import ASK
from amity.net.trust import certs
from amity.net.trust.identity import CERT, KEY, Identity, load_certificates, public_of
from amity.net.trust.roster import Roster, split_address
from amity.net.waiting import Next
from amity.net.wire import DOMAIN, Stamp, frame, open_head, unframe
from tests.conftest import tiny

pytestmark = pytest.mark.skipif(os.name != "posix", reason="swarms fork")

VICTIM, FRIEND, MEMBER, OBSERVER = "peer-00", "peer-01", "peer-03", "peer-04"
RUNNING = ("peer-00", "peer-01", "peer-02")
ROOT = f"amity/{NETWORK}"
MB = 1 << 20
NOWHERE = "0" * 64
ROOM = 64
"""MB by which no small attack may push a peer's memory up."""


# -- what the helpers do: everything that speaks Zenoh ---------------------------------------------


@dataclass
class Who:
    """A name, the folder of its key and certificate, and the roster."""

    name: str
    folder: Path
    roster: Path

    def __getstate__(self) -> tuple[str, Path, Path]:
        return self.name, self.folder, self.roster  # keys are read where they are used

    def __setstate__(self, state: tuple[str, Path, Path]) -> None:
        self.name, self.folder, self.roster = state

    @cached_property
    def identity(self) -> Identity:
        return Identity.load(self.folder, self.name)

    def stamp(self, schema: str = NOWHERE) -> Stamp:
        return Stamp(self.identity, NETWORK, schema)


@contextmanager
def session(who: Who, *to: str, wait: float = 8.0, address: str = "") -> Iterator[zenoh.Session]:
    """A session with links to these members, and no access control of its own."""
    roster = Roster.load(who.roster)
    config = (
        settings(who.identity, roster, "127.0.0.1:1", 10.0)
        if who.name in roster.members
        else _settings(who, roster)
    )
    del config["access_control"]
    config["mode"], config["listen"] = "peer", {"endpoints": []}
    config["connect"]["endpoints"] = [
        f"tls/{roster.members[name].address}" for name in to or (VICTIM,)
    ]
    if address:
        config["connect"]["endpoints"] = [f"tls/{address}"]
    config["transport"]["link"]["rx"]["max_message_size"] = 1 << 30
    opened = zenoh.open(zenoh.Config.from_json5(json.dumps(config)))
    try:
        until = time.monotonic() + wait
        while len(opened.info.links()) < len(to or (VICTIM,)):
            assert time.monotonic() < until, "no link"
            time.sleep(0.02)
        time.sleep(0.2)  # what the other side declares comes after the link
        yield opened
    finally:
        opened.close()  # type: ignore[no-untyped-call]


def _settings(who: Who, roster: Roster) -> dict[str, Any]:
    """Of somebody who is not on the roster."""
    member = next(iter(roster.members.values()))
    guests = Roster.of(
        roster.network, [*roster.members.values(), type(member)(who.name, "127.0.0.1:1", "f" * 64)]
    )
    return settings(who.identity, guests, "127.0.0.1:1", 10.0)


def wake(seconds: float) -> None:
    time.sleep(seconds)


Answers = list[tuple[str, bytes]]


def asked(opened: zenoh.Session, key: str, payload: bytes, timeout: float = 1.0) -> Answers:
    """All answers to a query: ("answer", bytes) or ("error", reason)."""
    out: Answers = []
    for reply in opened.get(key, payload=payload, timeout=timeout):
        if reply.ok is not None:
            out.append(("answer", reply.ok.payload.to_bytes()))
        elif reply.err is not None and (why := reply.err.payload.to_bytes()) != b"Timeout":
            out.append(("error", why))
    return out


def ask_key(asker: str, method: str = "hello", owner: str = VICTIM) -> str:
    return f"{ROOT}/{owner}/rpc/{asker}/{method}"


def hello(who: Who, **changes: Any) -> bytes:
    """A greeting to the victim, signed; with changes, signed as well."""
    return forged(who, who.stamp().seal("ask", 0, to=VICTIM, data={"method": "hello"}), **changes)


def forged(who: Who, head: bytes, **changes: Any) -> bytes:
    fields = json.loads(unframe(head)[1]) | changes
    manifest = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    return frame(who.identity.sign(DOMAIN + manifest), manifest)


def sealed(opened: zenoh.Session, who: Who, method: str) -> Callable[[bytes], bytes]:
    """Seals asks to the victim, as members do."""
    data = {"method": "hello", "box": base64.b64encode(Box().public).decode()}
    found = asked(opened, ask_key(who.name), hello(who, data=data), 5.0)
    box = base64.b64decode(json.loads(unframe(found[0][1])[1])["data"]["box"])
    about = f"amity ask {NETWORK} {who.name} {VICTIM} {method}"
    return lambda ask: ASK + seal(secrets.token_bytes(32) + ask, box, about)


def schema_of(opened: zenoh.Session, who: Who) -> str:
    found = asked(opened, ask_key(who.name), hello(who), 5.0)
    return str(json.loads(unframe(found[0][1])[1])["schema"])


def outsider(who: Who) -> dict[str, Any]:
    """All that somebody with a certificate but no place on the roster can try."""
    heard: list[str] = []
    with session(who, *RUNNING) as ear, session(who, *RUNNING) as opened:
        note = lambda sample: heard.append(str(sample.key_expr))  # noqa: E731
        subscriber = ear.declare_subscriber("**", note)
        watcher = ear.liveliness().declare_subscriber("**", note, history=True)
        queryable = ear.declare_queryable(f"{ROOT}/**", note)
        tokens = [
            opened.liveliness().declare_token(f"{ROOT}/{name}/live")
            for name in (who.name, FRIEND, MEMBER)
        ]
        for owner in (who.name, FRIEND, "*"):
            opened.put(f"{ROOT}/{owner}/card", hello(who))
        keys = [
            ask_key(who.name),
            ask_key(FRIEND),
            ask_key("*"),
            ask_key(who.name, owner="*"),
            f"{ROOT}/**",
            "**",
        ]
        answers = [asked(opened, key, hello(who), 0.2) for key in keys]
        alive = [
            str(r.ok and r.ok.key_expr) for r in ear.liveliness().get("**", timeout=0.3) if r.ok
        ]
        time.sleep(0.7)
        del subscriber, watcher, queryable, tokens
    return {"heard": heard, "answers": answers, "alive": alive}


def ask_all(
    who: Who, asks: list[tuple[str, bytes]], timeout: float = 0.5, to: tuple[str, ...] = (VICTIM,)
) -> list[Answers]:
    with session(who, *to) as opened:
        return [asked(opened, key, payload, timeout) for key, payload in asks]


def hijack(who: Who, victim: str) -> list[str]:
    """Offer to answer for somebody else, speak in its name, and say that it lives and dies."""
    heard: list[str] = []
    with session(who, *RUNNING) as opened:
        note = lambda query: heard.append(str(query.key_expr))  # noqa: E731
        wide = opened.declare_queryable(f"{ROOT}/{victim}/**", note, complete=True)
        wild = opened.declare_queryable(f"{ROOT}/*/rpc/**", note, complete=True)
        spy = opened.declare_subscriber(f"{ROOT}/*/rpc/**", note)
        token = opened.liveliness().declare_token(f"{ROOT}/{victim}/live")
        opened.put(f"{ROOT}/{victim}/card", hello(who))
        opened.delete(f"{ROOT}/{victim}/card")
        time.sleep(1)
        token.undeclare()  # type: ignore[no-untyped-call]
        time.sleep(0.2)
        del wide, wild, spy
    return heard


def pose(who: Who) -> int:
    """With a second certificate for a member's name: say that it lives and dies, and answer whoever
    asks it."""
    asks = [0]

    def answer(query: zenoh.Query) -> None:
        asks[0] += 1
        query.reply(query.key_expr, b"AMT1 and so on")
        query.drop()  # type: ignore[no-untyped-call]

    with session(who) as opened:
        token = opened.liveliness().declare_token(f"{ROOT}/{who.name}/live")
        queryable = opened.declare_queryable(f"{ROOT}/{who.name}/rpc/**", answer)
        time.sleep(1)
        token.undeclare()  # type: ignore[no-untyped-call]
        time.sleep(1)
        del queryable
    return asks[0]


def record_cards(who: Who, sender: str, count: int) -> list[bytes]:
    """Cards as anybody on the way could write them down."""
    found: list[bytes] = []
    with session(who, sender) as opened:
        subscriber = opened.declare_subscriber(
            f"{ROOT}/{sender}/card", lambda s: found.append(s.payload.to_bytes())
        )
        until = time.monotonic() + 60
        while len(found) < count and time.monotonic() < until:
            time.sleep(0.02)
        del subscriber
    return found


def put_all(who: Who, key: str, payloads: list[bytes]) -> None:
    with session(who) as opened:
        for payload in payloads:
            opened.put(key, payload, congestion_control=zenoh.CongestionControl.BLOCK)
        time.sleep(0.2)


def put_cards(who: Who, plans: list[tuple[int, dict[str, Any]]]) -> None:
    """Own cards of these rounds, each with changes."""
    with session(who) as opened:
        stamp = who.stamp(schema_of(opened, who))
        for round, changes in plans:
            card = stamp.seal("card", round, data={"examples": 1, "degree": 1, "phase": "joining"})
            opened.put(f"{ROOT}/{who.name}/card", forged(who, card, **changes))
            time.sleep(0.05)
        time.sleep(0.2)


def huge(who: Who, size: int, cards: int) -> tuple[Answers, float]:
    """Cards and one ask of so many bytes each; then an honest ask on a new link, and how long all
    of it took."""
    start = time.monotonic()
    with session(who) as opened:
        data = zenoh.ZBytes(bytes(size))
        for _ in range(cards):
            opened.put(
                f"{ROOT}/{who.name}/card", data, congestion_control=zenoh.CongestionControl.BLOCK
            )
        asked(opened, ask_key(who.name), data, 2.0)  # type: ignore[arg-type]
    seconds = time.monotonic() - start
    with session(who) as opened:
        return asked(opened, ask_key(who.name), hello(who), 3.0), seconds


def flood_asks(who: Who, count: int, garbage: bool) -> tuple[dict[str, int], float]:
    """So many asks as fast as they can be sent: how many answers and errors of each kind, and the
    seconds of sending."""
    tally: dict[str, int] = {}
    ended = threading.Semaphore(0)

    def note(reply: zenoh.Reply) -> None:
        kind = (
            "answer"
            if reply.ok is not None
            else reply.err.payload.to_string()
            if reply.err is not None
            else ""
        )
        tally[kind] = tally.get(kind, 0) + 1

    payloads = [
        secrets.token_bytes(300) if garbage else hello(who) for _ in range(min(count, 2000))
    ]
    with session(who) as opened:
        start = time.monotonic()
        for i in range(count):
            done = zenoh.handlers.Callback(note, ended.release, indirect=False)
            opened.get(ask_key(who.name), done, payload=payloads[i % len(payloads)], timeout=10.0)
        seconds = time.monotonic() - start
        for _ in range(count):
            ended.acquire(timeout=20)
    return tally, seconds


def flood_cards(who: Who, count: int, kind: str) -> float:
    """So many cards as fast as they can be sent."""
    with session(who) as opened:
        stamp = who.stamp(schema_of(opened, who))
        data = {"examples": 1, "degree": 1, "phase": "joining"}
        made: dict[str, Callable[[], bytes]] = {
            "garbage": lambda: secrets.token_bytes(300),
            "signed": lambda: stamp.seal("card", 7, data=data),
            "bulky": lambda: bytes(LARGEST_MESSAGE - 4096),
            "foreign": lambda: bytes(300),
        }
        key = f"{ROOT}/{FRIEND if kind == 'foreign' else who.name}/card"
        payloads = [made[kind]() for _ in range(min(count, 500))]
        start = time.monotonic()
        for i in range(count):
            opened.put(
                key, payloads[i % len(payloads)], congestion_control=zenoh.CongestionControl.BLOCK
            )
        seconds = time.monotonic() - start
        time.sleep(1)  # what is still queued when a session closes is lost
        return seconds


def latencies(who: Who, seconds: float, pause: float = 0.05) -> list[float]:
    """Seconds that greetings of an honest member take to be answered; one that is not answered took
    9."""
    out = []
    with session(who) as opened:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            payload, start = hello(who), time.monotonic()
            found = asked(opened, ask_key(who.name), payload, 5.0)
            good = len(found) == 1 and found[0][0] == "answer"
            if good:
                open_head(found[0][1], Roster.load(who.roster), _expected(who.name))
            out.append(time.monotonic() - start if good else 9.0)
            time.sleep(pause)
    return out


def _expected(me: str) -> Any:
    from amity.net.wire import Expected, WireSchema

    return Expected(
        me=me,
        schema=WireSchema(size=1, masked=False, sketch=0, probe=0, digest=NOWHERE),
        kinds=("answer",),
        sender=VICTIM,
        any_schema=True,
    )


def many_links(who: Who, count: int) -> int:
    """So many sessions at a time with one certificate: how many have a link."""
    opened = []
    try:
        for _ in range(count):
            one = session(who, wait=15)
            one.__enter__()
            opened.append(one)
        return len(opened)
    finally:
        for one in opened:
            one.__exit__(None, None, None)


def deaf(who: Who, address: str, count: int, pause: float) -> int:
    """Ask for as many bytes as are to be had, over a wire on which nothing comes back; then wait
    and see."""
    with session(who, address=address) as opened:
        schema = schema_of(opened, who)
        stamp = who.stamp(schema)
        seals = {method: sealed(opened, who, method) for method in ("card", "body")}
        ended = [0]

        def end() -> None:
            ended[0] += 1

        for method, data in [("card", {}), ("body", {"kind": "share", "offset": 0})] * (count // 2):
            ask = stamp.seal("ask", -1, to=VICTIM, data={"method": method, **data})
            payload = seals[method](ask)
            done: Any = zenoh.handlers.Callback(lambda _reply: None, end, indirect=False)
            opened.get(ask_key(who.name, method), done, payload=payload, timeout=2.0)
            time.sleep(pause)
        time.sleep(2)
        return ended[0]


# -- the swarm and what is watched -----------------------------------------------------------------


def leisurely(_name: str) -> None:
    """In a peer's own process: no more than some rounds a second, as of a model that is worth
    training."""
    at_once = Rounds.play

    def slowly(rounds: Rounds, now: Next, memory: Any) -> Done:
        time.sleep(0.15)
        return at_once(rounds, now, memory)

    Rounds.play = slowly  # type: ignore[method-assign]


class Stage:
    """A swarm at work, and helpers that speak Zenoh for the tests."""

    def __init__(self, out: Path, any_signed: bool = False) -> None:
        net = Net(gather=1, deadline=10, patience=10)
        self.swarm = Swarm(
            out,
            tiny(peers=5, rounds=1_000_000, eval={"every": 50}),
            net,
            enter=leisurely,
            any_signed=any_signed,
        )
        self.swarm.lay_out()
        self.swarm.start(RUNNING)
        self.helpers = ProcessPoolExecutor(2, get_context("fork"))
        self.warm = [self.helpers.submit(wake, 0.5) for _ in range(2)]  # importing takes seconds
        until = time.monotonic() + 300
        while min(self.rounds().values()) < 3:
            assert time.monotonic() < until, (self.rounds(), self.swarm.failed)
            time.sleep(0.1)
        for one in self.warm:
            one.result(60)

    def close(self) -> None:
        processes = list((self.helpers._processes or {}).values())
        self.helpers.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()
            process.join()
        self.swarm.stop()

    @property
    def port(self) -> int:
        return split_address(self.swarm.roster.members[VICTIM].address)[1]

    @property
    def pid(self) -> int:
        return int(self.swarm.processes[VICTIM].pid)

    def who(self, name: str, folder: Path | None = None) -> Who:
        return Who(
            name, folder or self.swarm.folder(name) / "identity", self.swarm.out / "roster.toml"
        )

    def issued(self, folder: Path, name: str, ca: Path | None = None) -> Who:
        """A new key with a certificate of the swarm's authority, or of another."""
        certs.make_key(folder, name, ["127.0.0.1"])
        certs.ca_sign(ca or self.swarm.out / "ca", folder / certs.REQUEST, folder / CERT, name)
        shutil.copy(self.swarm.out / "ca" / "ca.pem", folder)
        return self.who(name, folder)

    def call(self, what: Callable[..., Any], *args: Any, timeout: float = 40.0) -> Any:
        return self.helpers.submit(what, *args).result(timeout)

    def later(self, what: Callable[..., Any], *args: Any) -> Future[Any]:
        return self.helpers.submit(what, *args)

    def rounds(self) -> dict[str, int]:
        out = {}
        for name in RUNNING:
            path = self.swarm.folder(name) / "state" / "metrics.jsonl"
            out[name] = path.read_bytes().count(b"\n") if path.exists() else 0
        return out

    def log(self, name: str = VICTIM) -> Path:
        return self.swarm.folder(name) / "state" / "audit.jsonl"

    def memory(self, field: str = "VmRSS") -> float:
        """MB of the attacked process; VmHWM: the most it had since the watch began."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) / 1024
        raise AssertionError(field)

    @contextmanager
    def unharmed(self, room: float = ROOM, but: str = "") -> Iterator[Watch]:
        """During and after what happens inside, all peers go on, nobody (but one) is late or gone,
        and memory stays bounded."""
        watch = Watch(self)
        yield watch
        watch.check(room, but)


class Watch:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._from = {name: stage.log(name).stat().st_size for name in RUNNING}
        self._rounds, self._at = stage.rounds(), time.monotonic()
        Path(f"/proc/{stage.pid}/clear_refs").write_text("5")  # forget the peak so far
        self._before = stage.memory()

    def lines(self, name: str = VICTIM) -> list[dict[str, Any]]:
        with open(self._stage.log(name), "rb") as stream:
            stream.seek(self._from[name])
            return [
                json.loads(line)
                for line in stream.read().splitlines(keepends=True)
                if line.endswith(b"\n")
            ]

    def refused(self) -> set[tuple[str, str]]:
        """Peer and reason of all refusals."""
        return {
            (line.get("peer", ""), line.get("why", ""))
            for line in self.lines()
            if line["event"] == "refused"
        }

    def logged(
        self, why: str, peer: str = "", within: float = 6.0, *, or_else: str = ""
    ) -> dict[str, Any]:
        """Waits for the line about a refusal; `or_else` is another reason that is as good."""
        until = time.monotonic() + within
        while True:
            for line in self.lines():
                refused = line["event"] == "refused" and line.get("peer", "") == peer
                if refused and line.get("why") in (why, or_else or why):
                    return line
            assert time.monotonic() < until, (
                f"no line about {why!r} of {peer!r}, only {sorted(self.refused())}"
            )
            time.sleep(0.05)

    def counted(self, peer: str, enough: int, within: float = 8.0) -> int:
        """How many refusals of a peer the lines tell of; waits until there are enough."""
        until = time.monotonic() + within
        while True:
            found = [
                line
                for line in self.lines()
                if (line["event"], line.get("peer")) == ("refused", peer)
            ]
            count = sum(int(line.get("count", 1)) for line in found)
            if count >= enough or time.monotonic() > until:
                return count
            time.sleep(0.1)

    def check(self, room: float, but: str) -> None:
        stage = self._stage
        now, until = stage.rounds(), time.monotonic() + 120
        during = min(now[name] - self._rounds[name] for name in RUNNING)
        assert during > 0 or time.monotonic() - self._at < 1, (
            f"no round during {time.monotonic() - self._at:.1f} s"
        )
        while min(after - now[name] for name, after in stage.rounds().items()) < 2:
            assert time.monotonic() < until, (
                f"the swarm stopped: {stage.rounds()}, {stage.swarm.failed}"
            )
            time.sleep(0.05)
        for name in RUNNING:
            events = [
                line
                for line in self.lines(name)
                # who is late is not waited for: that holds nobody up, and rounds go on (above)
                if line["event"] in ("left", "error", "caught up")
            ]
            assert [
                line for line in events if line.get("peer", VICTIM) in set(RUNNING) - {but}
            ] == []
        grown = self.bounded(room)
        print(f"{during} rounds during it, {grown:.1f} MB more at most")  # noqa: T201  shown with -rP

    def bounded(self, room: float = ROOM) -> float:
        """The attacked process has not grown beyond this; returns by how many MB it has."""
        grown = self._stage.memory("VmHWM") - self._before
        assert grown < room, f"{grown:.0f} MB more"
        return grown


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("strangers") / "swarm")
    try:
        yield made
    finally:
        made.close()


# -- without a certificate, or with a wrong one ----------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [random.Random(0).randbytes(2000), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"],
    ids=["noise", "http"],
)
def test_plain_tcp_gets_nothing_but_an_alert(stage: Stage, data: bytes) -> None:
    with stage.unharmed() as watch:
        with socket.create_connection(("127.0.0.1", stage.port), 5) as raw:
            raw.sendall(data)
            answer = b"".join(iter(lambda: _read(raw), b""))
        assert answer[:1] in (b"", b"\x15")
        assert len(answer) < 16
        watch.logged("no TLS")


def _read(stream: socket.socket) -> bytes:
    try:
        return stream.recv(4096)
    except (ConnectionError, ssl.SSLError):
        return b""


def tls(port: int, folder: Path | None) -> bytes:
    """What a client hears after a TLS handshake with a certificate, or with none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if folder is not None:
        context.load_cert_chain(folder / CERT, folder / KEY)
    try:
        with (
            socket.create_connection(("127.0.0.1", port), 5) as raw,
            context.wrap_socket(raw) as wrapped,
        ):
            wrapped.sendall(bytes(64))
            return _read(wrapped)
    except (ConnectionError, ssl.SSLError):
        return b""


def test_tls_without_a_certificate_is_refused(stage: Stage) -> None:
    with stage.unharmed() as watch:
        assert tls(stage.port, None) == b""
        watch.logged("no certificate")


@pytest.mark.parametrize(
    ("authority", "why"),
    [("Elsewhere", "certificate of another authority"), ("Amity swarm", "bad certificate")],
)
def test_a_certificate_of_another_authority_is_refused_whatever_its_names(
    stage: Stage, tmp_path: Path, authority: str, why: str
) -> None:
    certs.ca_init(tmp_path / "ca", authority)
    stage.issued(tmp_path / "id", FRIEND, tmp_path / "ca")
    with stage.unharmed() as watch:
        assert tls(stage.port, tmp_path / "id") == b""
        watch.logged(why)


def test_an_expired_certificate_is_refused(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC)
    monkeypatch.setattr(
        certs, "_dates", lambda _days: (now - timedelta(days=2), now - timedelta(days=1))
    )
    stage.issued(tmp_path / "id", FRIEND)
    with stage.unharmed() as watch:
        assert tls(stage.port, tmp_path / "id") == b""
        watch.logged("certificate expired")


# -- with a certificate of the right authority -----------------------------------------------------


def test_a_name_that_is_not_on_the_roster_hears_nothing_and_gets_nothing(
    stage: Stage, tmp_path: Path
) -> None:
    mallory = stage.issued(tmp_path / "id", "mallory")
    with stage.unharmed() as watch:
        found = stage.call(outsider, mallory)
        assert found == {"heard": [], "answers": [[]] * 6, "alive": []}
        assert watch.logged("not on the roster")["link"] == "mallory"
        assert {peer for peer, _ in watch.refused()} == {""}


def test_a_second_certificate_for_a_members_name_does_not_speak_for_its_key(
    stage: Stage, tmp_path: Path
) -> None:
    twin = stage.issued(tmp_path / "id", FRIEND)
    with stage.unharmed() as watch:
        answers = stage.call(ask_all, twin, [(ask_key(FRIEND), hello(twin))])
        assert answers == [[("error", b"wrong key")]]
        watch.logged("wrong key", FRIEND)
    with stage.unharmed(
        but=FRIEND
    ) as watch:  # while it answers as well, the member itself may be missing in a round
        if stage.call(pose, twin):  # it caught an ask for a head, or one for a part of a body
            watch.logged("malformed", FRIEND, or_else="bad seal")


def test_a_member_cannot_ask_in_anothers_name(stage: Stage) -> None:
    member = stage.who(MEMBER)
    friend = public_of(load_certificates(stage.swarm.folder(FRIEND) / "identity" / CERT)[0])
    asks = [
        (ask_key(FRIEND), hello(member)),
        (ask_key(FRIEND), hello(member, sender=FRIEND)),
        (ask_key("*"), hello(member)),
        (ask_key("**"), hello(member)),
        (ask_key("peer-0$*"), hello(member)),
        (f"{ROOT}/**", hello(member)),
        (ask_key("x" * 60_000), hello(member)),
        (ask_key(MEMBER), hello(member, sender=FRIEND)),
        (ask_key(MEMBER), hello(member, sender=FRIEND, key=base64.b64encode(friend).decode())),
        (ask_key(MEMBER), hello(member, to=FRIEND)),
        (ask_key(MEMBER), hello(member, network="elsewhere")),
        (ask_key(MEMBER, "losses"), hello(member)),
        (ask_key(MEMBER, "x" * 60_000), hello(member)),
        (ask_key(MEMBER), b""),
    ]
    with stage.unharmed() as watch:
        answers = stage.call(ask_all, member, asks)
        assert answers[:7] == [[]] * 7
        expected = [
            "wrong key",
            "bad signature",
            "wrong addressee",
            "wrong network",
            "malformed",  # only greetings may come unsealed
            "malformed",
            "malformed",
        ]
        assert answers[7:] == [[("error", why.encode())] for why in expected]
        for why in ("not allowed", *expected):
            watch.logged(why, MEMBER)
        assert {peer for peer, why in watch.refused() if why == "not allowed"} == {MEMBER}


def test_one_greeting_to_all_is_answered_by_the_one_for_whom_it_is_signed(stage: Stage) -> None:
    """A wildcard for the owner is allowed, and of no use."""
    member = stage.who(MEMBER)
    with stage.unharmed():
        answers = stage.call(
            ask_all, member, [(ask_key(MEMBER, owner="*"), hello(member))], 0.5, RUNNING
        )
        assert sorted(kind for kind, _ in answers[0]) == ["answer", "error", "error"]
        assert {why for kind, why in answers[0] if kind == "error"} == {b"wrong addressee"}


def test_a_hijacked_key_brings_no_asks_and_nobody_believes_it(stage: Stage) -> None:
    with stage.unharmed() as watch:
        assert stage.call(hijack, stage.who(MEMBER), FRIEND) == []
        watch.logged("not allowed", MEMBER)
        assert {peer for peer, why in watch.refused() if why == "not allowed"} == {MEMBER}


# -- replays ---------------------------------------------------------------------------------------


def test_an_ask_is_answered_once_and_only_in_its_time(stage: Stage) -> None:
    member = stage.who(MEMBER)
    once, now = hello(member), int(time.time() * 1000)
    late, early = hello(member, at=now - 3_600_000), hello(member, at=now + 3_600_000)
    with stage.unharmed() as watch:
        answers = stage.call(
            ask_all, member, [(ask_key(MEMBER), payload) for payload in (once, once, late, early)]
        )
        assert [kind for kind, _ in answers[0]] == ["answer"]
        assert answers[1:] == [
            [("error", b"replay")],
            [("error", b"too old")],
            [("error", b"clock")],
        ]
        for why in ("replay", "too old", "clock"):
            watch.logged(why, MEMBER)


def test_recorded_cards_are_refused_when_they_come_again(stage: Stage, tmp_path: Path) -> None:
    cards = stage.call(record_cards, stage.who(MEMBER), FRIEND, 3)
    twin = stage.issued(tmp_path / "id", FRIEND)  # whoever carries the card, its signature is good
    with stage.unharmed() as watch:
        stage.call(put_all, twin, f"{ROOT}/{FRIEND}/card", cards)
        watch.logged("replay", FRIEND)
    with stage.unharmed() as watch:
        stage.call(put_all, stage.who(MEMBER), f"{ROOT}/{MEMBER}/card", cards[-1:])
        watch.logged("malformed", MEMBER)  # sealed by another's key


def test_a_members_own_cards_are_refused_when_old_or_not_to_be_believed(stage: Stage) -> None:
    day = 86_400_000
    now = int(time.time() * 1000)
    plans: list[tuple[int, dict[str, Any]]] = [
        (5, {}), (5, {"at": now - day}), (3, {}),
        (6, {"at": now - 365 * day}), (6, {"length": 10 << 30}), (6, {"to": FRIEND}),
    ]  # fmt: skip
    with stage.unharmed() as watch:
        stage.call(put_cards, stage.who(MEMBER), plans)
        for why in ("replay", "too old", "too long", "wrong addressee"):
            watch.logged(why, MEMBER)


# -- too large, too many ---------------------------------------------------------------------------


def test_a_huge_message_ends_at_the_limit(stage: Stage, full: bool) -> None:
    """A card and an ask of 256 MB each in the short form; in the long one three of 3.5 GB, as
    Zenoh's own sender panics on one of 10 GB. Zenoh drops them while they come in, and says so to
    nobody; of what is below its limit and too long for us, there is a line."""
    size, cards = (3584 * MB, 2) if full else (256 * MB, 1)
    if os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") < 2.5 * size:
        pytest.skip(f"too little free memory to send {size // MB} MB")
    with stage.unharmed(200):
        answers, seconds = stage.call(huge, stage.who(MEMBER), size, cards, timeout=900)
        assert [kind for kind, _ in answers] == ["answer"]
    with stage.unharmed() as watch:
        answers = stage.call(
            ask_all, stage.who(MEMBER), [(ask_key(MEMBER), bytes(LARGEST_MESSAGE - 4096))], 5.0
        )
        assert answers == [[("error", b"malformed")]]
        watch.logged("malformed", MEMBER)
    print(f"{cards + 1} times {size // MB} MB, {seconds:.1f} s")  # noqa: T201


@pytest.mark.parametrize("garbage", [False, True], ids=["greetings", "garbage"])
def test_ten_thousand_asks_do_not_keep_others_waiting(stage: Stage, garbage: bool) -> None:
    member, observer = stage.who(MEMBER), stage.who(OBSERVER)
    with stage.unharmed() as watch:
        measured = stage.later(latencies, observer, 3.0)
        start = time.monotonic()
        tally, sending = stage.call(flood_asks, member, 10_000, garbage, timeout=60)
        taken = sorted(measured.result(60))
        watch.logged("too many asks", MEMBER)
        lines = [
            line for line in watch.lines() if line.get("peer") == MEMBER and line["event"] != "late"
        ]
        assert len(lines) <= 5 * (time.monotonic() - start + 1)
    assert tally.get("too many asks", 0) > 8000
    assert taken[int(0.95 * len(taken))] < 1.0
    print(f"{tally}, sent in {sending:.1f} s; greetings: {_quantiles(taken)}")  # noqa: T201


def _quantiles(taken: list[float]) -> str:
    half, most = taken[len(taken) // 2], taken[int(0.95 * len(taken))]
    return (
        f"{len(taken)}, median {1000 * half:.1f} ms, 95 %: {1000 * most:.1f} ms, all:"
        f" {1000 * taken[-1]:.1f} ms"
    )


FLOODS = [
    ("garbage", 10_000, "malformed"), ("signed", 10_000, "replay"),
    ("bulky", 100, "malformed"), ("foreign", 10_000, "not allowed"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "count", "why"), FLOODS, ids=[flood[0] for flood in FLOODS])
def test_a_flood_of_cards_does_not_keep_others_waiting(
    stage: Stage, kind: str, count: int, why: str
) -> None:
    member, observer = stage.who(MEMBER), stage.who(OBSERVER)
    with stage.unharmed(200) as watch:
        measured = stage.later(latencies, observer, 2.0)
        start = time.monotonic()
        sending = stage.call(flood_cards, member, count, kind, timeout=60)
        taken = sorted(measured.result(60))
        watch.logged(why, MEMBER)
        # else they never came, and nothing was tried
        assert watch.counted(MEMBER, enough := int(0.99 * count)) >= enough
        lines = [
            line for line in watch.lines() if line.get("peer") == MEMBER and line["event"] != "late"
        ]
        assert len(lines) <= 5 * (time.monotonic() - start + 1)
    assert taken[int(0.95 * len(taken))] < 1.0
    print(f"{count} sent in {sending:.1f} s; greetings: {_quantiles(taken)}")  # noqa: T201


class OneWay:
    """A wire to a port that carries, after a while, nothing back."""

    def __init__(self, port: int, after: float) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._port, self._after, self._ends = port, after, [self._listener]
        threading.Thread(target=self._carry, daemon=True).start()

    def _carry(self) -> None:
        near = self._listener.accept()[0]
        far = socket.create_connection(("127.0.0.1", self._port))
        far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._ends += [near, far]
        threading.Thread(target=self._pump, args=(near, far, 1e9), daemon=True).start()
        self._pump(far, near, time.monotonic() + self._after)

    @staticmethod
    def _pump(source: socket.socket, sink: socket.socket, until: float) -> None:
        with suppress(OSError):
            while time.monotonic() < until and (data := source.recv(65536)):
                sink.sendall(data)

    def close(self) -> None:
        for one in self._ends:
            one.close()


def test_a_member_that_does_not_read_its_answers_keeps_nobody_waiting(
    stage: Stage, full: bool
) -> None:
    """Zenoh's lease ends such a link before its buffers are full, unless the other side is no
    Zenoh: not tried here."""
    if not full:
        pytest.skip("takes 13 s; in the long form")
    wire = OneWay(stage.port, after=1.5)
    try:
        with stage.unharmed():
            measured = stage.later(latencies, stage.who(OBSERVER), 4.0)
            stage.call(deaf, stage.who(MEMBER), wire.address, 600, 0.002)
            taken = sorted(measured.result(60))
    finally:
        wire.close()
    print(f"greetings: {_quantiles(taken)}")  # noqa: T201
    assert taken[int(0.95 * len(taken))] < 1.0


def test_many_links_of_one_certificate_leave_room_for_others(
    stage: Stage, full: bool, tmp_path: Path
) -> None:
    mallory = stage.issued(tmp_path / "id", "mallory")
    with stage.unharmed() as watch:
        busy = stage.later(many_links, mallory, 200 if full else 8)
        watch.logged("not on the roster", within=20)
        answers = stage.call(
            ask_all, stage.who(MEMBER), [(ask_key(MEMBER), hello(stage.who(MEMBER)))]
        )
        assert [kind for kind, _ in answers[0]] == ["answer"]
        assert busy.result(120) > 0


def test_silent_connections_do_not_keep_members_out(stage: Stage, full: bool) -> None:
    """A handshake that never comes costs a socket for ten seconds. Last, because of what follows
    then: Zenoh pauses for 0.1 s after every failed handshake, so new links wait
    (eclipse-zenoh/zenoh#2685); those that stand do not."""
    count = 2000 if full else 200
    idle = []
    try:
        with stage.unharmed() as watch:
            idle = [socket.create_connection(("127.0.0.1", stage.port), 5) for _ in range(count)]
            answers = stage.call(
                ask_all, stage.who(MEMBER), [(ask_key(MEMBER), hello(stage.who(MEMBER)))]
            )
            assert [kind for kind, _ in answers[0]] == ["answer"]
            for one in idle:
                one.close()
            watch.logged("broken handshake")
            time.sleep(1)
    finally:
        for one in idle:
            one.close()
