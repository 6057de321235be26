"""Real peers that are left alone, that cannot learn together, or that speak otherwise: none of that
happens in silence."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from amity.errors import Failure
from amity.events import Event, PeerEvent, RunFailed
from amity.net import accord, answers, sealed, status, workshop
from amity.net.ops.status import details, headline, peers_seen
from amity.net.ops.swarm import Swarm
from amity.net.options import Net
from amity.net.sealed import keys
from amity.net.status import read_status
from amity.net.wire import PROTOCOL, terms
from amity.sinks.happenings import AWAY, Happenings
from amity.store import read_lines
from tests.conftest import Call, tiny
from tests.test_chaos import NET, config, drill
from tests.test_node import log
from tests.test_peers import cats_and_dogs, check, configure, found, running

PATIENCE = 600.0


def until(what: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def test_who_is_left_alone_waits_says_so_can_be_stopped_and_goes_on_when_somebody_returns(
    tmp_path: Path,
) -> None:
    settings = config(6, peers=2, strategy={"name": "gossip", "k": 1})
    with drill(tmp_path / "swarm", settings) as chaos:
        swarm = chaos.swarm
        state = swarm.folder("peer-00") / "state"
        chaos.allow(1)
        chaos.until(lambda: chaos.at(1, *swarm.names))
        chaos.kill("peer-01")
        chaos.allow(None)
        chaos.until(lambda: read_status(state).get("state") == "waits")
        assert chaos.round_of("peer-00") <= 2, "at most the round that had begun"
        (seen,) = peers_seen([swarm.folder("peer-00")])
        assert headline(seen).startswith("waits (for peer-01), ")
        assert ("present", "nobody") in list(details(seen))
        swarm.kill("peer-00", signal.SIGTERM)
        swarm.processes["peer-00"].join()
        assert swarm.processes["peer-00"].exitcode == 0
        assert read_status(state)["state"] == "stopped"
        chaos.disturbed.add("peer-00")
        swarm.start()
        chaos.finish()
        waits = [e for e in chaos.events("peer-00") if e["event"] == "waits"]
        assert [(e["why"], e["of"], e["least"]) for e in waits if "least" in e] == [
            ("for others", ["peer-01"], 1)
        ]
        assert read_status(state)["state"] == "done"
    assert sum(len(edge["row"]) == 1 for edge in read_lines(state / "edges.jsonl")) <= 1


FAILS = """
from dataclasses import dataclass
from amity.strategies.gossip import Gossip

@dataclass(frozen=True)
class Fails(Gossip):
    def decide(self, view, row):
        if view.me == "peer-01" and view.round == 1:
            raise ZeroDivisionError("on purpose")
        return (yield from super().decide(view, row))
"""


def test_a_swarm_does_not_wait_for_peers_that_have_ended(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(FAILS)
    heard: list[Event] = []
    strategy = {"name": f"{tmp_path / 'own.py'}:Fails", "k": 1}
    swarm = Swarm(tmp_path / "s", tiny(peers=2, rounds=50, strategy=strategy), NET)
    swarm.tell = heard.append
    swarm.lay_out()
    swarm.start()
    try:
        swarm.wait(PATIENCE)
    finally:
        swarm.stop()
    assert "on purpose" in swarm.failed["peer-01"]
    assert "waits for others, which have ended" in swarm.failed["peer-00"]
    ends = {e.cell.label: e.error for e in heard if isinstance(e, RunFailed)}
    assert set(ends) == {"peer-00", "peer-01"}
    said = [line for e in heard if (line := Happenings(("waits",)).line(e))]
    assert "peer-00: waits for peer-01: round" in " ".join(said)


def test_a_hospital_that_lacks_a_class_ends_with_a_line_and_the_others_go_on(
    call: Call, tmp_path: Path
) -> None:
    peers = found(call, tmp_path, ("a", "b", "c"))
    run = {
        "data": {"name": "arrays", "path": "mine.npz"},
        "model": {"name": "mlp", "hidden": 8},
        "strategy": {"name": "gossip", "k": 1},
        "train": {"lr": 0.1, "epochs": 1, "batch": 8},
        "eval": {"shadow": 1},
        "rounds": 1_000_000,
    }
    for seed, (name, folder) in enumerate(peers.items()):
        classes = ["cat", "dog"] if name == "c" else ["cat", "dog", "fox"]
        cats_and_dogs(folder / "mine.npz", classes, seed)
        configure(folder, run=run)
    says = "class 'fox' is missing here: list the same `classes` under [peer] everywhere"
    with running(*peers.values()) as processes:
        said = processes[2].communicate(timeout=PATIENCE)[0]
        assert processes[2].returncode == 1, said
        assert f"all other members differ from this peer: a, b: {says}" in said
        assert "took from" not in said, "it did no round alone"
        state = peers["a"] / "state"
        until(lambda: "c" in read_status(state).get("differs", {}))
        until(lambda: [e for e in read_lines(state / "audit.jsonl") if e["event"] == "used"])
        code, shown = check(peers["a"])
        assert code == 1
        assert "BAD with c" in shown
        assert "class 'fox' is missing there" in shown
        assert "ok  with b" in shown
        shown = call("peer status a b c")[1]
        assert "a: running, " in shown
        assert "present     b" in shown
        assert "refused     c: class 'fox' is missing there" in shown
        assert f"c: failed (all other members differ from this peer: a, b: {says}" in shown
        assert "certificate valid for 9" in shown
        assert "points over training alone" in shown
        # set right, it is taken
        configure(peers["c"], run=run, classes=["cat", "dog", "fox"])
        with running(peers["c"]):
            until(lambda: "c" in read_status(state).get("present", []))
            until(lambda: not read_status(state).get("differs"))
        for process in processes[:2]:
            process.terminate()
        outputs = [process.communicate(timeout=PATIENCE)[0] for process in processes[:2]]
        assert [process.returncode for process in processes[:2]] == [0, 0]
    assert "c cannot learn with this peer: class 'fox' is missing there" in outputs[0]
    assert "c is back" in outputs[0]
    assert outputs[0].count("cannot learn") == 1, "said once"


# -- other versions --------------------------------------------------------------------------------


def speaks_newer(name: str) -> None:
    """In a peer's process: the next protocol, of a later version."""
    if name == "peer-02":
        for module in (terms, answers, keys, status):
            module.PROTOCOL = PROTOCOL + 1  # type: ignore[attr-defined]
        terms.__version__ = keys.__version__ = "9.0.0"  # type: ignore[attr-defined]
        made = workshop._terms
        workshop._terms = lambda *of: replace(  # type: ignore[assignment]
            made(*of), protocol=PROTOCOL + 1, version="9.0.0"
        )


def speaks_older(name: str) -> None:
    """In a peer's process: as Amity 0.1.0, which knows no terms, seals nothing and says no
    number."""
    if name == "peer-02":
        digest = terms.Terms.digest_at
        terms.Terms.digest_at = (  # type: ignore[method-assign]
            lambda self, round: digest(replace(self, protocol=1), round)
        )
        made = answers.Answering.__init__

        def without(self: answers.Answering, **more: Any) -> None:
            made(self, **more)
            self.methods = {key: one for key, one in self.methods.items() if key != "terms"}

        answers.Answering.__init__ = without  # type: ignore[method-assign, assignment]

        def hello(self: Any, request: Any, manifest: Any, _allowance: Any) -> None:
            self._answer(request, manifest, {"version": "0.1.0", "round": 0, "phase": "ready"})

        answers.Answering._hello = hello  # type: ignore[method-assign]
        sealed.Sealed.open = lambda self, **of: self.inner.open(**of)  # type: ignore[method-assign]

        def meet(self: accord.Accord, name: str) -> None:
            told = self._courier.hello(name).data  # in the clear, as it ever was
            self._learn(name, None, f"{told['version']} speaks protocol {told['protocol']}")

        accord.Accord.meet = meet  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("speaks", "spoken", "version"),
    [(speaks_newer, PROTOCOL + 1, "9.0.0"), (speaks_older, 1, "0.1.0")],
    ids=["newer", "older"],
)
def test_another_version_in_the_network_is_refused_and_both_sides_say_which_each_has(
    tmp_path: Path, speaks: Callable[[str], None], spoken: int, version: str
) -> None:
    settings = tiny(peers=3, rounds=3, strategy={"name": "gossip", "k": 2})
    net = Net(gather=20, deadline=12, patience=8)
    swarm = Swarm(tmp_path / "s", settings, net, enter=speaks)
    swarm.lay_out()
    swarm.start()
    try:
        swarm.wait(PATIENCE)
    finally:
        swarm.stop()
    assert list(swarm.failed) == ["peer-02"]
    for name in ("peer-00", "peer-01"):
        state = swarm.folder(name) / "state"
        assert len(read_lines(state / "edges.jsonl")) == 3
        (event,) = [e for e in read_lines(state / "audit.jsonl") if e["event"] == "differs"]
        assert (
            f"protocol {PROTOCOL} here, and Amity '{version}' protocol {spoken}" in event["detail"]
        )
    if spoken > PROTOCOL:
        assert "all other members differ from this peer" in swarm.failed["peer-02"]
        assert f"Amity 9.0.0 speaks protocol {spoken} here" in swarm.failed["peer-02"]
    else:
        assert f"speaks protocol {PROTOCOL}" in swarm.failed["peer-02"]


# -- what an operator reads ------------------------------------------------------------------------


def happened(what: Any, about: str = "b", why: str = "", **more: Any) -> PeerEvent:
    from amity.events import CellId

    cell = CellId(label="a", seed=0, path="x")
    round = more.pop("round", None)
    return PeerEvent(cell=cell, peer="a", what=what, about=about, why=why, round=round, more=more)


def test_each_thing_is_said_once_and_coming_back_is_said_again() -> None:
    happenings = Happenings()
    told = [
        (happened("joined"), "b is here"),
        (happened("joined"), ""),
        (happened("left"), f"b is away ({AWAY})"),
        (happened("late", why="not reachable", round=3), ""),
        (happened("joined"), "b is back"),
        (happened("silent"), "b does not answer"),
        (happened("left"), ""),
        (happened("joined"), "b is back"),
        (happened("left"), "b is away"),
        (happened("refused", "", "no TLS"), "somebody who is no member is refused: no TLS"),
        (happened("refused", "", "no TLS"), ""),
        (happened("refused", why="wrong schema"), ""),
        (happened("refused", why="wrong key", detail="x: of b"), "b is refused: wrong key (of b)"),
        (happened("differs", why="now", detail="seeds"), "b cannot learn with this peer: seeds"),
        (happened("differs", why="now", detail="seeds"), ""),
        (happened("differs", why="soon", detail="lr"), "b will be refused later: lr"),
        (happened("waits", "", "to begin", seconds=30.0, of=["b"]), "waits for b, at most 30 s"),
        (
            happened("waits", "", "for others", round=4, least=1, of=["b", "c"]),
            "waits for b, c: round 4 needs 1 present neighbour (net.least=1; 0 goes on alone)",
        ),
        (happened("goes on", "", "others are here", round=4), "goes on with round 4"),
        (happened("error", "", "roster", message="is torn"), "error: roster: is torn"),
        (happened("error", "", "roster", message="is torn"), ""),
        (happened("missing"), ""),
    ]  # fmt: skip
    assert [(event.what, happenings.line(event)) for event, _ in told] == [
        (event.what, said) for event, said in told
    ]


def test_a_peer_that_is_told_to_go_on_alone_does_so_and_its_exit_code_says_that_nobody_agreed(
    tmp_path: Path,
) -> None:
    settings = tiny(peers=2, rounds=2, strategy={"name": "gossip", "k": 1})
    swarm = Swarm(tmp_path / "s", settings, Net(gather=20, deadline=12, patience=8, least=0))
    swarm.lay_out()
    path = swarm.folder("peer-01") / "peer.toml"
    path.write_text(path.read_text().replace("seed = 0", "seed = 1"))
    swarm.start()
    try:
        swarm.wait(PATIENCE)
    finally:
        swarm.stop()
    assert set(swarm.failed) == {"peer-00", "peer-01"}
    assert "seed is 0 here and 1 there: say the same under [run]" in swarm.failed["peer-00"]
    assert len(read_lines(swarm.folder("peer-00") / "state" / "edges.jsonl")) == 2
    assert log(swarm, "peer-00", "waits")["", "for others"] == 0
    assert Failure.exit_code == 1
