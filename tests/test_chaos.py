"""Real peers, real processes, real faults: nobody stops, nobody waits past a deadline, everyone
catches up."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from amity.files import write_atomically
from amity.lab.result import Result
from amity.lab.run import run
from amity.net.online import Online
from amity.net.ops.collect import merge
from amity.net.ops.swarm import Swarm
from amity.net.options import Net
from amity.net.rounds import Rounds
from amity.net.setup import read_setup
from amity.net.trust.identity import Identity, expires
from amity.net.trust.roster import Member
from amity.registry import take_over
from amity.store import read_lines
from tests.conftest import resolve
from tests.namespaces import Lab, why_not


def last_line(path: Path, tail: int = 16384) -> dict[str, Any]:
    """The last whole line of a file of JSON lines; empty where there is none yet."""
    try:
        with open(path, "rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - tail))
            lines = stream.read().split(b"\n")[:-1]
        found = json.loads(lines[-1]) if lines else {}
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


NET = Net(gather=20, deadline=12, patience=8, lease=2)
without_namespaces = pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")


def config(rounds: int, peers: int = 8, **layers: Any) -> Any:
    """Digits, and the default strategy."""
    base = {
        "peers": peers,
        "rounds": rounds,
        "train": {"epochs": 5, "precision": "fp32"},
        "eval": {"gradients_every": 0},
        "engine": {"workers": 1, "vectorise": "off", "group": 1},
    }
    return resolve([base, layers])


class Drill:
    """A swarm under faults, and what must hold at its end."""

    def __init__(self, swarm: Swarm) -> None:
        self.swarm = swarm
        self.disturbed: set[str] = set()
        """Who had a fault of its own: all others do every round."""
        self.hung = ""
        """Whose clock stood still."""
        self.split = False
        """Whether the network itself was cut: halves may be at different rounds then."""

    def round_of(self, name: str) -> int:
        return int(last_line(self.swarm.folder(name) / "state" / "metrics.jsonl").get("round", -1))

    @property
    def front(self) -> int:
        """The newest round that anybody has finished."""
        return max(self.round_of(name) for name in self.swarm.names)

    def until(self, condition: Callable[[], bool], seconds: float = 600) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, (
                f"stuck in round {self.front}; running {self.swarm.running}"
            )
            time.sleep(0.05)

    def allow(self, last: int | None, *names: str) -> None:
        """Let these (all) train up to this round; they stand still before the next until more is
        allowed (None: all)."""
        for name in names or self.swarm.names:
            gate = _gate(self.swarm.out, name)
            if last is None:
                gate.unlink(missing_ok=True)
            else:
                write_atomically(gate, str(last).encode())

    def kill(self, name: str) -> None:
        self.disturbed.add(name)
        self.swarm.kill(name)
        self.swarm.processes[name].join()

    def sees(self, name: str, other: str) -> bool:
        """Whether a peer has a link to another, as it noted at its gate."""
        path = _seen(self.swarm.out, name)
        return path.exists() and other in path.read_text().split()

    def at(self, t: int, *names: str) -> bool:
        """Whether these have done a round."""
        return all(self.round_of(name) >= t for name in names)

    def events(self, name: str) -> list[dict[str, Any]]:
        return read_lines(self.swarm.folder(name) / "state" / "audit.jsonl")

    def finish(self, expected: set[str] | None = None) -> Result:
        """Everyone ends without an error, and nobody ever waited a deadline out."""
        self.swarm.wait(240)
        names = expected or set(self.swarm.names)
        assert self.swarm.failed == {}
        for name in names:
            assert self.round_of(name) == self.swarm.config.rounds - 1, name
            lines = read_lines(self.swarm.folder(name) / "state" / "timings.jsonl")
            slowest = max(r["wait"] + r["select"] for r in lines)
            assert slowest < self.swarm.net.deadline or name == self.hung, (name, slowest)
            if name not in self.disturbed and not self.split:
                assert self.rounds_of(name) == list(range(self.swarm.config.rounds)), (
                    f"{name} missed a round"
                )
        merge(self.swarm.out, self.swarm.config)
        return Result(self.swarm.out, self.swarm.config)

    def rounds_of(self, name: str) -> list[int]:
        return [r["round"] for r in read_lines(self.swarm.folder(name) / "state" / "metrics.jsonl")]


def _gate(out: Path, name: str) -> Path:
    return out / f"{name}.gate"


def _seen(out: Path, name: str) -> Path:
    return out / f"{name}.seen"


def _note(online: Online, out: Path) -> None:
    """Write down whom a peer has a link to."""
    members = online.membership.roster().names
    names = " ".join(j for j in members if online.board.alive(j, grace=0))
    path = _seen(out, online.workshop.me)
    if not path.exists() or path.read_text() != names:
        write_atomically(path, names.encode())


def paced(
    enter: Callable[[str], None] | None = None, seconds: float = 0.3, gates: Path | None = None
) -> Callable[[str], None]:
    """In a peer's process: training takes so much longer, and waits at its gate (`Drill.allow`), so
    that faults fall into the rounds they are meant for, whatever the machine."""

    def slow(name: str) -> None:
        if enter is not None:
            enter(name)
        train = Rounds._train

        def later(self: Rounds, t: int, *rest: Any) -> Any:
            online = self._online
            online.stop.wait(seconds)
            while gates is not None:
                _note(online, gates)
                if t <= _allowed(gates, name) or online.stop.wait(0.05):
                    break
            return train(self, t, *rest)

        Rounds._train = later  # type: ignore[method-assign]

    return slow


def _allowed(out: Path, name: str) -> float:
    try:
        return int(_gate(out, name).read_text())
    except FileNotFoundError:
        return math.inf


@contextmanager
def drill(
    out: Path,
    settings: Any,
    net: Net = NET,
    absent: tuple[str, ...] = (),
    lab: Lab | None = None,
    unlisted: tuple[str, ...] = (),
) -> Iterator[Drill]:
    swarm = Swarm(
        out,
        settings,
        net,
        hosts=lab.hosts if lab else {},
        enter=paced(lab.enter if lab else None, gates=out),
    )
    swarm.lay_out()
    for name in unlisted:
        swarm.write_roster(swarm.roster.without(name))
    try:
        swarm.start([name for name in swarm.names if name not in (*absent, *unlisted)])
        yield Drill(swarm)
    finally:
        swarm.stop()


WHERE = pytest.mark.parametrize("where", ["loopback", "namespaces"])


@contextmanager
def placed(where: str, full: bool) -> Iterator[Lab | None]:
    """On loopback; and in the long form once more, each peer in a network namespace of its own."""
    if where == "loopback":
        yield None
        return
    if not full or why_not():
        pytest.skip(why_not() or "in the long form")
    with Lab([f"peer-{i:02d}" for i in range(8)]) as lab:
        yield lab


def undisturbed(settings: Any, out: Path, names: tuple[str, ...] = ()) -> float:
    """The simulator's accuracy (of some peers): a swarm without faults has the same bits
    (test_parity)."""
    final = run(settings, out).final()
    return sum(final[name] for name in names or final) / len(names or final)


def hardly_worse(result: Result, settings: Any, out: Path, full: bool) -> None:
    """Within 2 points of the undisturbed run after 20 rounds; the short form has fewer, in which
    faults weigh more."""
    assert result.accuracy > undisturbed(settings, out) - (0.02 if full else 0.05)


@WHERE
def test_peers_that_are_killed_every_round_come_back_and_nobody_waits_for_them(
    tmp_path: Path, full: bool, where: str
) -> None:
    settings, kills = config(20 if full else 14), 15 if full else 5
    with placed(where, full) as lab, drill(tmp_path / "swarm", settings, lab=lab) as chaos:
        draw, dead = random.Random(7), dict[str, int]()
        for t in range(kills):
            chaos.until(lambda t=t: chaos.front >= t)  # type: ignore[misc]
            for name in [name for name, since in dead.items() if chaos.front >= since + 2]:
                chaos.swarm.start([name])
                del dead[name]
            victim = draw.choice([name for name in chaos.swarm.names if name not in dead])
            chaos.kill(victim)
            dead[victim] = chaos.front
        chaos.until(lambda: chaos.front >= kills + 1)
        chaos.swarm.start(list(dead))
        result = chaos.finish()
    assert any(e["event"] == "caught up" for name in chaos.disturbed for e in chaos.events(name))
    hardly_worse(result, settings, tmp_path / "calm", full)


@WHERE
def test_a_peer_that_hangs_is_left_out_and_rejoins(tmp_path: Path, full: bool, where: str) -> None:
    settings, seconds = config(150 if full else 14), 30.0 if full else 3.5
    with placed(where, full) as lab, drill(tmp_path / "swarm", settings, lab=lab) as chaos:
        chaos.until(lambda: chaos.front >= 2)
        chaos.hung = "peer-03"
        chaos.disturbed.add(chaos.hung)
        chaos.swarm.kill("peer-03", signal.SIGSTOP)
        before = chaos.front
        time.sleep(seconds)
        # the others go on while it hangs, however slow the machine
        chaos.until(lambda: chaos.front >= before + 2)
        chaos.swarm.kill("peer-03", signal.SIGCONT)
        result = chaos.finish()
        away = [
            e for name in ("peer-00", "peer-07") for e in chaos.events(name) if e["event"] == "late"
        ]
    assert {e["peer"] for e in away} == {"peer-03"}, "reported, and nobody else was late"
    hardly_worse(result, settings, tmp_path / "calm", full)


@WHERE
def test_the_first_peer_of_the_roster_may_be_dead_from_the_start(
    tmp_path: Path, full: bool, where: str
) -> None:
    settings, net = config(20 if full else 5), Net(gather=8, deadline=12, patience=8)
    with (
        placed(where, full) as lab,
        drill(tmp_path / "swarm", settings, net, ("peer-00",), lab) as chaos,
    ):
        result = chaos.finish(set(chaos.swarm.names) - {"peer-00"})
        for name in chaos.swarm.names[1:]:
            late = [e for e in chaos.events(name) if e["event"] == "late"]
            assert {(e["peer"], e["why"]) for e in late} == {("peer-00", "not reachable")}
            assert chaos.rounds_of(name) == list(range(settings.rounds))
        alive = undisturbed(settings, tmp_path / "calm", chaos.swarm.names[1:])
    assert result.accuracy > alive - (0.02 if full else 0.05), "of the seven that lived"


@without_namespaces
def test_two_halves_that_are_cut_apart_go_on_and_find_each_other_again(
    tmp_path: Path, full: bool
) -> None:
    settings = config(20 if full else 12)
    with (
        Lab([f"peer-{i:02d}" for i in range(8)]) as lab,
        drill(tmp_path / "swarm", settings, lab=lab) as chaos,
    ):
        names = chaos.swarm.names
        half = {name: at < 4 for at, name in enumerate(names)}
        chaos.allow(1)
        chaos.until(lambda: chaos.at(1, *names))
        chaos.split = True
        lab.cut()
        apart = 1 + (6 if full else 4)
        chaos.allow(apart + 1)
        chaos.until(lambda: chaos.at(apart, *names))
        lab.heal()
        chaos.until(
            lambda: all(
                half[name] == half[other] or chaos.sees(name, other)
                for name in names
                for other in names
            )
        )
        chaos.allow(None)
        result = chaos.finish()
        rows = {(r.peer, r.round): r.row for r in result.edges}
    across = {
        t for (peer, t), row in rows.items() for j in row if j in half and half[j] != half[peer]
    }
    alone = [t for t in range(settings.rounds) if t not in across]
    assert len(alone) >= 2, "while the cable was cut, nobody took from the other half"
    assert max(across) >= settings.rounds - 3, "after it was healed, they do again"
    hardly_worse(result, settings, tmp_path / "calm", full)


@without_namespaces
def test_a_peer_on_a_slow_line_does_not_hold_the_others_up(tmp_path: Path, full: bool) -> None:
    """A model of 120 kB (short form: 60 kB): half a second for each transfer on 2 Mbit/s, and 14 of
    them a round."""
    model = {"name": "mlp", "hidden": 400 if full else 200}
    settings = config(20 if full else 3, model=model, strategy={"name": "gossip", "k": 7})
    with Lab([f"peer-{i:02d}" for i in range(8)]) as lab:
        lab.slow("peer-05", 2)
        with drill(
            tmp_path / "swarm", settings, Net(gather=20, deadline=20, patience=15), lab=lab
        ) as chaos:
            result = chaos.finish()
            others = [name for name in chaos.swarm.names if name != "peer-05"]
            late = [e for name in others for e in chaos.events(name) if e["event"] == "late"]
    assert {e["peer"] for e in late} <= {"peer-05"}, "nobody else is ever late"
    assert len(late) <= 0.1 * settings.rounds * len(others), (
        "and it itself hardly, though its line is full all the time"
    )
    hardly_worse(result, settings, tmp_path / "calm", full)


def test_an_error_in_one_peer_stays_in_that_peer(tmp_path: Path) -> None:
    """Its training fails (a strategy of its own that raises in round 2); a full disk is the next
    test."""
    bad = tmp_path / "bad.py"
    bad.write_text(
        "from dataclasses import dataclass\nfrom amity import Decision\nfrom amity.choosing"
        " import Cardless\n\n\n@dataclass(frozen=True)\nclass Bad(Cardless):\n    def decide(self,"
        " view, row):\n        if view.round == 2:\n            raise ZeroDivisionError('on"
        " purpose')\n        return Decision({view.me: 1.0})\n        yield\n"
    )
    settings = config(5, peers=4, strategy={"name": "gossip", "k": 3})
    swarm = Swarm(tmp_path / "swarm", settings, NET, enter=paced())
    swarm.lay_out()
    take_over(f"{bad}:Bad")
    path = swarm.folder("peer-02") / "peer.toml"
    given = path.read_text()
    path.write_text(given.replace('name = "gossip"', f'name = "{bad}:Bad"').replace("k = 3\n", ""))
    try:
        swarm.start()
        chaos = Drill(swarm)
        swarm.wait(240)
    finally:
        swarm.stop()
    assert list(swarm.failed) == ["peer-02"]
    assert "on purpose" in swarm.failed["peer-02"]
    for name in ("peer-00", "peer-01", "peer-03"):
        assert chaos.rounds_of(name) == list(range(5))
    assert chaos.rounds_of("peer-02") == [0, 1]


LEAVING = """
import sys
from dataclasses import dataclass
from amity.methods.finetune import Finetune
from amity.strategies.gossip import Gossip

@dataclass(frozen=True)
class Leaves(Gossip):
    def decide(self, view, row):
        if view.round == 1:
            sys.exit(3)
        return (yield from super().decide(view, row))

@dataclass(frozen=True)
class Quits(Finetune):
    def train(self, state, theta, ctx):
        if ctx.round == 1:
            sys.exit(3)
        return (yield from super().train(state, theta, ctx))
"""


def test_a_peer_that_ends_itself_has_failed_and_one_that_was_told_to_end_has_not(
    tmp_path: Path,
) -> None:
    own, out = tmp_path / "own.py", tmp_path / "swarm"
    own.write_text(LEAVING)
    settings = config(3, peers=6, strategy={"name": "gossip", "k": 5})

    def enter(name: str) -> None:
        if name in ("peer-03", "peer-04"):
            raise SystemExit({"peer-03": 4, "peer-04": "no place"}[name])
        paced(gates=out)(name)

    net = Net(gather=4, deadline=12, patience=8, least=0)
    swarm = Swarm(out, settings, net, enter=enter)
    swarm.lay_out()
    for name, section, entry in (("peer-01", "strategy", "Leaves"), ("peer-02", "method", "Quits")):
        path = swarm.folder(name) / "peer.toml"
        told = tomllib.loads(path.read_text())
        told["run"][section]["name"] = f"{own}:{entry}"
        take_over(f"{own}:{entry}")
        path.write_text(tomli_w.dumps(told))
    chaos = Drill(swarm)
    chaos.allow(0, "peer-05")
    try:
        swarm.start()
        chaos.until(lambda: chaos.at(0, "peer-05"))
        swarm.kill("peer-05", signal.SIGTERM)
        swarm.wait(240)
    finally:
        swarm.stop()
    codes = {name: process.exitcode for name, process in swarm.processes.items()}
    assert codes == dict(zip(swarm.names, (0, 1, 3, 4, 1, 0), strict=True))
    assert list(swarm.failed) == ["peer-01", "peer-02", "peer-03", "peer-04"]
    assert "strategy Leaves, peer-01, round 1: SystemExit: 3" in swarm.failed["peer-01"]
    assert "peer-02 ended itself before its last round (SystemExit(3))" in swarm.failed["peer-02"]
    assert "peer-03 ended itself before its last round (SystemExit(4))" in swarm.failed["peer-03"]
    assert "no place" in swarm.failed["peer-04"]
    assert chaos.rounds_of("peer-00") == [0, 1, 2]


def test_a_full_disk_stops_only_its_own_peer_which_goes_on_when_there_is_room(
    tmp_path: Path,
) -> None:
    settings = config(6, peers=4)
    swarm = Swarm(tmp_path / "swarm", settings, NET)

    def small_files(name: str) -> None:
        import resource

        if name == "peer-01" and not (tmp_path / "room").exists():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))

    swarm.enter = paced(small_files)
    swarm.lay_out()
    try:
        swarm.start()
        chaos = Drill(swarm)
        chaos.disturbed.add("peer-01")
        chaos.until(lambda: "peer-01" not in swarm.running)
        assert "cannot be written" in swarm.failed["peer-01"], swarm.failed
        (tmp_path / "room").touch()
        swarm.start(["peer-01"])
        chaos.finish()
    finally:
        swarm.stop()
    for name in ("peer-00", "peer-02", "peer-03"):
        assert chaos.rounds_of(name) == list(range(6)), "nobody missed a round"


def test_a_newcomer_takes_the_current_model_of_its_friends_and_members_come_and_go_at_run_time(
    tmp_path: Path,
) -> None:
    settings = config(
        20,
        peers=5,
        strategy={"name": "afind+"},
        partition={"name": "iid", "samples": 24, "test": 100},
    )
    with drill(tmp_path / "swarm", settings, unlisted=("peer-04",)) as chaos:
        swarm = chaos.swarm
        chaos.disturbed.add("peer-04")
        identity = Identity.load(swarm.folder("peer-04") / "identity", "peer-04")
        listen = read_setup(swarm.folder("peer-04")).who.listen
        everyone = swarm.roster.with_member(Member("peer-04", listen, identity.fingerprint))
        old, rest = swarm.names[:4], ("peer-00", "peer-01", "peer-02", "peer-04")

        def met(names: tuple[str, ...]) -> bool:
            return all(chaos.sees(a, b) for a in names for b in names if a != b)

        def told(name: str, why: str) -> bool:
            return any(e["event"] == "roster" and e["why"] == why for e in chaos.events(name))

        # rosters change while everyone stands at a gate: a change of links costs nobody a round
        chaos.allow(3)
        chaos.until(lambda: chaos.at(3, *old))
        swarm.write_roster(everyone)
        chaos.until(lambda: all(told(name, "added") for name in old))
        swarm.start(["peer-04"])
        chaos.until(lambda: met(swarm.names))
        chaos.allow(9)
        chaos.until(lambda: chaos.at(9, *swarm.names))
        first = read_lines(swarm.folder("peer-04") / "state" / "edges.jsonl")[0]
        swarm.write_roster(everyone.without("peer-03"))
        chaos.until(
            lambda: "peer-03" not in swarm.running and all(told(name, "removed") for name in rest)
        )
        chaos.until(lambda: met(rest))
        chaos.allow(None)
        chaos.finish(set(swarm.names) - {"peer-03"})
        assert "peer-04" not in first["row"], "its own model knew nothing yet"
        assert sum(first["row"].values()) == pytest.approx(1)
        accuracies = [
            r["accuracy"] for r in read_lines(swarm.folder("peer-04") / "state" / "metrics.jsonl")
        ]
        assert accuracies[0] > 0.6, "as good as its friends from its first round on"
        assert [e["why"] for e in chaos.events("peer-03") if e["event"] == "roster"][
            -1
        ] == "removed"
        used = [
            e
            for n in swarm.names[:3]
            for e in chaos.events(n)
            if e["event"] == "used" and e["peer"] == "peer-04"
        ]
        assert used, "and the others take from it"


def test_a_certificate_is_renewed_while_all_go_on_and_an_expired_one_shuts_out_only_its_owner(
    tmp_path: Path,
) -> None:
    with drill(tmp_path / "swarm", config(14, peers=3)) as chaos:
        swarm = chaos.swarm
        chaos.disturbed |= {"peer-00", "peer-02"}

        def renewals(name: str) -> int:
            return [e["why"] for e in chaos.events(name) if e["event"] == "certificate"].count(
                "renewed"
            )

        chaos.allow(3)
        chaos.until(lambda: chaos.front >= 1)
        swarm.certify("peer-02", "127.0.0.1", days=9 / 86400)
        chaos.until(lambda: renewals("peer-02") == 1)
        end = expires(swarm.folder("peer-02") / "identity" / "cert.pem")
        chaos.until(
            lambda: (
                datetime.now(UTC) > end
                and not any(chaos.sees(name, "peer-02") for name in swarm.names[:2])
            )
        )
        chaos.allow(6)
        chaos.until(lambda: chaos.at(6, *swarm.names[:2]))
        assert not any(chaos.sees(name, "peer-02") for name in swarm.names[:2]), "shut out"
        swarm.certify("peer-02", "127.0.0.1", days=1)
        chaos.until(lambda: chaos.sees("peer-00", "peer-02") and chaos.sees("peer-01", "peer-02"))
        swarm.certify("peer-00", "127.0.0.1", days=2)
        chaos.allow(8)
        chaos.until(lambda: renewals("peer-00") == 1)
        # two days are few
        chaos.until(lambda: "ends soon" in [e.get("why") for e in chaos.events("peer-00")])
        chaos.until(lambda: chaos.sees("peer-00", "peer-01") and chaos.sees("peer-01", "peer-00"))
        chaos.allow(None)
        chaos.finish()
        assert renewals("peer-00") == 1
        assert chaos.rounds_of("peer-01") == list(range(14)), (
            "the one with nothing to renew missed nothing"
        )


def test_at_its_own_pace_a_fast_peer_does_not_wait_for_a_slow_one(tmp_path: Path) -> None:
    settings = config(9, peers=4, strategy={"name": "gossip", "k": 3})
    net = Net(sync="none", gather=20, deadline=12, patience=8, staleness=100)
    out = tmp_path / "swarm"
    swarm = Swarm(out, settings, net, enter=paced(seconds=0.1, gates=out))
    swarm.lay_out()
    fast, chaos = swarm.names[:3], Drill(swarm)
    chaos.allow(3, *fast)
    chaos.allow(0, "peer-03")
    try:
        swarm.start()
        chaos.until(
            lambda: (
                chaos.round_of("peer-03") == 0 and all(chaos.round_of(name) == 3 for name in fast)
            )
        )
        chaos.allow(7, *fast)
        # while peer-03 has not begun its second round
        chaos.until(lambda: all(chaos.round_of(name) == 7 for name in fast))
        chaos.allow(1, "peer-03")
        chaos.until(lambda: chaos.round_of("peer-03") == 1)
        chaos.allow(None)
        swarm.wait(120)
    finally:
        swarm.stop()
    assert swarm.failed == {}
    ahead = {
        e["of_round"] for e in chaos.events("peer-03") if e["event"] == "used" and e["round"] == 1
    }
    assert max(ahead) == 7, "the slow one takes the newest of the fast ones"
    stale = {
        e["of_round"]
        for e in chaos.events("peer-00")
        if e["event"] == "used" and (e["peer"], e["round"]) == ("peer-03", 7)
    }
    assert stale == {0}, "and they take its old ones, within the limit"


def test_what_was_disclosed_is_on_disk_before_it_leaves_and_survives_a_kill(tmp_path: Path) -> None:
    settings = config(6, peers=3, strategy={"name": "afind+", "preset": "literal"})
    with drill(tmp_path / "swarm", settings) as chaos:
        chaos.until(lambda: chaos.front >= 2)
        chaos.kill("peer-01")
        path = chaos.swarm.folder("peer-01") / "state" / "disclosed.jsonl"
        before = path.read_bytes()
        # torn by the crash: this answer never left
        path.write_bytes(before + b'{"at": 1, "kind": "lo')
        chaos.swarm.start(["peer-01"])
        chaos.finish()
    after = path.read_bytes()
    assert after.startswith(before)
    assert len(after) > len(before)
    told = [json.loads(line) for line in after.splitlines()]
    for name in ("peer-00", "peer-02"):
        used = {
            e["round"]
            for e in chaos.events(name)
            if e["event"] == "used" and e["peer"] == "peer-01"
        }
        assert used <= {
            r["round"] for r in told if r["kind"] in ("visit", "probe") and r["to"] == name
        }
    assert os.path.getsize(path) < 100_000
