"""Started again, started twice, on a disk that takes nothing, with a clock that jumps: what a peer
remembers, and what it says."""

from __future__ import annotations

import json
import os
import queue
import time
from pathlib import Path
from typing import Any

import pytest

from amity.errors import AmityError, RunDirError
from amity.net.audit import Audit
from amity.net.board import Board
from amity.net.limits import Allowance, Allowances
from amity.net.link.base import Link, Request
from amity.net.node import Node
from amity.net.ops.swarm import Swarm
from amity.net.options import Net
from amity.net.seen import ASKS, LARGEST, Seen
from amity.net.service import Service
from amity.net.setup import read_setup
from amity.net.wire import Refused
from amity.store import read_lines
from tests.conftest import tiny
from tests.hub import Hub, MemoryRequest
from tests.test_node import QUICK, log, made, play, together, untouched
from tests.test_wire import notice, refusal


def seen_in(folder: Path, max_age: float = 660.0) -> Seen:
    return Seen(folder, max_age, Audit(folder / "audit.jsonl", "ann"))


def test_an_ask_that_was_answered_before_a_restart_is_a_replay_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks: list[tuple[str, str, bytes]] = []
    serve = Service._serve

    def record(self: Service, request: Request, allowance: Allowance) -> None:
        if request.method == "body":
            asks.append((request.asker, self._me, request.payload))
        serve(self, request, allowance)

    monkeypatch.setattr(Service, "_serve", record)
    swarm = play(tmp_path / "net", untouched, rounds=2)
    asker, owner, payload = asks[-1]
    node = Node(read_setup(swarm.folder(owner)), transport=Hub())
    online = node._online(node._setup)
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
    online.service.on_ask(MemoryRequest(Hub(), owner, asker, "body", payload, answers))
    assert answers.get(timeout=20) == "replay"
    assert online.board.floors() == {}
    floors = online.seen.floors()
    assert {j: floor.round for j, floor in floors.items()} == dict.fromkeys(
        sorted({*swarm.names} - {owner}), 1
    )
    online.service.close()
    online.seen.close()
    online.audit.close()


def test_asks_are_remembered_as_long_as_they_could_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = seen_in(tmp_path)
    for k in range(3):
        seen.answered("ben", f"n{k}")
    seen.close()
    with open(tmp_path / ASKS, "ab") as file:
        file.write(b"179")  # torn by a crash
    allowances = Allowances(Net(), "ann", _roster(tmp_path), seen_in(tmp_path).asks())
    with pytest.raises(Refused, match="answered already"):
        allowances.of("ben").fresh("n1", 660.0)
    allowances.of("ben").fresh("n3", 660.0)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 3600.0)  # a clock that was set back
    assert set(seen_in(tmp_path).asks()["ben"]) == {"n0", "n1", "n2"}
    monkeypatch.setattr(time, "time", lambda: now + 700.0)
    assert seen_in(tmp_path).asks() == {}
    later = seen_in(tmp_path)
    later._size = LARGEST + 1
    later.answered("ben", "new")
    later.close()
    assert (tmp_path / ASKS).read_text().split()[1:] == ["new", "ben"], "old ones are not kept"


def _roster(folder: Path) -> Any:
    swarm = Swarm(folder / "s", tiny(peers=2, rounds=1))
    swarm.lay_out()
    roster = swarm.roster
    member = next(iter(roster.members.values()))
    return lambda: type("R", (), {"members": {**roster.members, "ben": member}})()


def test_a_card_that_was_believed_before_a_restart_is_a_replay_after_it() -> None:
    before, again = Board(["ben"]), Board(["ben"])
    card = notice("ben", 4)
    before.post(notice("ben", 3))
    before.post(card)
    again.remember(before.floors())
    for old in (notice("ben", 1), notice("ben", 2), card):
        assert refusal(again.post, old).reason == "replay"
    assert again.floors() == before.floors(), "a second restart knows it too"
    again.post(card, again=True)  # I asked for it
    again.post(notice("ben", 5))
    assert again.floors()["ben"].round == 5


class Lying(Hub):
    """A network that says of somebody that it is here, and of all who show a card that they have
    gone."""

    def open(self, **more: Any) -> Link:
        link = super().open(**more)
        more["handlers"].on_live("peer-02", True)
        return link


def lying() -> Hub:
    hub = Lying()

    def touch(source: str, target: str, kind: str, data: bytes) -> bytes | None:
        if kind == "put":
            hub.links[target].handlers.on_live(source, False)
        return data

    hub.touch = touch
    return hub


def test_presence_is_what_a_member_signs_and_not_what_the_network_says(tmp_path: Path) -> None:
    swarm = Swarm(tmp_path / "net", tiny(peers=3, rounds=3, strategy={"name": "gossip", "k": 2}))
    swarm.net = Net(gather=4, deadline=30, patience=10)
    swarm.lay_out()
    nodes = {name: node for name, node in made(swarm, lying()).items() if name != "peer-02"}
    assert set(together(nodes).values()) == {None}
    for me, other in (("peer-00", "peer-01"), ("peer-01", "peer-00")):
        late = log(swarm, me, "late")
        assert set(late) == {("peer-02", "not reachable")}, "it never said that it is here"
        lines = read_lines(swarm.folder(me) / "state" / "edges.jsonl")
        assert all(other in line["row"] for line in lines), "it answers, whoever says it has gone"


def test_the_same_peer_started_twice_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    swarm = Swarm(tmp_path / "net", tiny(peers=2, rounds=2), QUICK)
    swarm.lay_out()
    hub = Hub()
    nodes, tried = made(swarm, hub), []
    twin = Node(read_setup(swarm.folder("peer-00")), transport=hub)

    def second(_audit: Audit) -> None:
        with pytest.raises(RunDirError, match="another process is running it"):
            twin.run()
        tried.append(True)

    nodes["peer-00"]._listen_in = second
    assert set(together(nodes).values()) == {None}
    assert tried
    assert len(read_lines(swarm.folder("peer-00") / "state" / "metrics.jsonl")) == 2


def test_a_state_that_cannot_be_written_is_refused_with_a_line(tmp_path: Path) -> None:
    """In a process of another user where we are root, to whom nothing is read-only."""
    swarm = Swarm(tmp_path / "net", tiny(peers=2, rounds=1), QUICK)
    swarm.lay_out()
    state = swarm.folder("peer-00") / "state"
    node = Node(read_setup(swarm.folder("peer-00")), transport=Hub())
    state.mkdir(exist_ok=True)
    state.chmod(0o555)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        told = ""
        try:
            if os.getuid() == 0:
                os.setuid(65534)
            node.run()
        except AmityError as error:
            told = str(error)
        except BaseException as error:
            told = f"a traceback: {error!r}"
        os.write(write, told.encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    told = os.read(read, 4096).decode()
    state.chmod(0o755)
    assert told.startswith(str(tmp_path)) or "state" in told, told
    assert "traceback" not in told
    assert "\n" not in told.strip()


def test_a_roster_that_is_torn_while_peers_run_is_reported_once_and_the_old_one_holds(
    tmp_path: Path,
) -> None:
    swarm = Swarm(tmp_path / "net", tiny(peers=2, rounds=1), QUICK)
    swarm.lay_out()
    hub = Hub()
    mine, other = made(swarm, hub).values()
    path = swarm.out / "roster.toml"
    whole = path.read_bytes()
    with mine.connected() as online, other.connected():
        names = online.membership.roster().names
        path.write_bytes(whole[: len(whole) // 2])
        log_file = online.setup.state / "audit.jsonl"

        def errors() -> list[dict[str, Any]]:
            return [e for e in read_lines(log_file) if e["event"] == "error"]

        until = time.monotonic() + 300
        while not errors() and time.monotonic() < until:
            time.sleep(0.05)
        assert errors(), "the operator is told"
        assert online.membership.roster().names == names
        assert online.courier.hello("peer-01").sender == "peer-01", "and all goes on"
        path.write_bytes(whole)
        os.utime(path, (1, 1))
        while online.membership._told and time.monotonic() < until:
            time.sleep(0.05)
        assert not online.membership._told
        assert len({json.dumps(e["message"]) for e in errors()}) == len(errors())


def test_a_peer_whose_clock_jumps_is_left_out_meanwhile_and_stops_nobody(tmp_path: Path) -> None:
    """An hour ahead in its rounds 2 and 3, by what it signs."""
    import amity.net.wire.heads as heads
    from amity.net.rounds import Rounds

    def enter(name: str) -> None:
        if name != "peer-02":
            return
        train, true = Rounds._train, time.time

        class Clock:
            ahead = 0.0
            monotonic = staticmethod(time.monotonic)

            @classmethod
            def time(cls) -> float:
                return true() + cls.ahead

        heads.time = Clock  # type: ignore[assignment]

        def jumping(self: Rounds, t: int, *given: Any) -> Any:
            Clock.ahead = 3600.0 if t in (2, 3) else 0.0
            return train(self, t, *given)

        Rounds._train = jumping  # type: ignore[method-assign]

    settings = tiny(peers=3, rounds=8, strategy={"name": "gossip", "k": 2})
    swarm = Swarm(tmp_path / "net", settings, Net(gather=60, deadline=8, patience=4), enter=enter)
    swarm.lay_out()
    try:
        swarm.start()
        swarm.wait(240)
    finally:
        swarm.stop()
    assert swarm.failed == {}
    assert ("peer-02", "clock") in log(swarm, "peer-00", "refused")
    used = [
        e["round"]
        for e in read_lines(swarm.folder("peer-00") / "state" / "audit.jsonl")
        if e["event"] == "used" and e["peer"] == "peer-02"
    ]
    assert 0 in used
    assert max(used) > 3, "it is back when its clock is right"
