"""What a strategy says publicly: when others hear it, what it costs, and what is not believed."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

import amity
from amity.core import Ask, Decision, Plan, Row, View
from amity.errors import StrategyError
from amity.facts import MOST_SAID, Said
from amity.net.wire import Refused, says_in
from amity.records import PeerRecord
from amity.round.saying import (
    LARGEST_SAID,
    LONGEST_NAME,
    SAYS,
    decode_says,
    encode_says,
    noted,
    own_notes,
    plain_says,
    says_of,
)
from amity.store import commits, read_lines, read_records
from tests.conftest import simulate, tiny
from tests.test_node import log, play, untouched
from tests.test_parity import CALM, models


@dataclass(frozen=True)
class Echo(amity.Cardless):
    """Says the round and its name's number; notes what the others said."""

    heard: ClassVar[list[dict[str, Any]]] = []

    def decide(self, view: View, row: Row) -> Plan:
        assert SAYS not in view.memory
        said = yield Ask(Said(), (view.me, *view.neighbours))
        self.heard.append({"me": view.me, "round": view.round, "said": dict(said)})
        total = sum(says.get("number", 0.0) for says in said.values())
        says = {"round": view.round, "number": int(view.me[-1])}
        return Decision({view.me: 1.0}, {"n": view.round}, {"total": total}, says=says)


@pytest.fixture(autouse=True)
def _nothing_heard_yet() -> None:
    Echo.heard.clear()


def test_what_is_said_is_heard_in_the_next_round_by_whoever_asks() -> None:
    simulation = simulate(tiny(strategy=Echo(), peers=3))
    reports = [simulation.round() for _ in range(3)]
    assert len(Echo.heard) == 9
    for entry in Echo.heard:
        t = entry["round"]
        before = {"number": 0.0, "round": t - 1.0}
        said = {f"peer-0{n}": {**before, "number": float(n)} if t else {} for n in range(3)}
        assert entry["said"] == said
    # my own costs nothing; "{}" is two bytes, {"number":1.0,"round":0.0} is 26
    assert [r.peers["peer-01"].reply_in for r in reports] == [4, 52, 52]
    assert [r.peers["peer-01"].reply_out for r in reports] == [4, 52, 52]
    assert [r.peers["peer-01"].notes["total"] for r in reports] == [0.0, 3.0, 3.0]


def test_who_cannot_be_reached_is_not_heard() -> None:
    simulation = simulate(tiny(strategy=Echo(), peers=3, topology={"drop": 1.0}))
    simulation.round()
    assert len(Echo.heard) == 3
    assert all(set(entry["said"]) == {entry["me"]} for entry in Echo.heard)


def test_what_was_said_is_kept_in_the_notebook_and_its_strategy_does_not_see_it() -> None:
    memory = noted({"n": 1}, {"b": 2.0})
    assert memory == {"n": 1, SAYS: {"b": 2.0}}
    assert says_of(memory) == {"b": 2.0}
    assert own_notes(memory) == {"n": 1}
    assert noted(memory, {}) == {"n": 1}, "who says nothing has said nothing"
    assert says_of({"n": 1}) == {}


SILLY: dict[str, Any] = {
    "not a number": {"a": float("nan")},
    "infinite": {"a": float("inf")},
    "a name that is no text": {1: 1.0},
    "a name too long": {"a" * (LONGEST_NAME + 1): 1.0},
    "too many": {str(n): 1.0 for n in range(MOST_SAID + 1)},
    "too long on the way": {"\u20ac" * 40 + str(n): 1.0 for n in range(MOST_SAID)},
}


@pytest.mark.parametrize("what", SILLY)
def test_a_strategy_may_only_say_a_few_finite_numbers_by_name(what: str) -> None:
    with pytest.raises(TypeError, match="says must be finite numbers by name: "):
        plain_says(SILLY[what])


def test_the_longest_that_may_be_said_is_said_and_heard() -> None:
    says = plain_says({f"{n:063d}": -1.2345678901234567e-300 for n in range(MOST_SAID)})
    assert len(encode_says(says)) <= LARGEST_SAID
    assert decode_says(encode_says(says)) == says


def test_a_strategy_that_says_nonsense_is_named() -> None:
    saying = """import amity, dataclasses
@dataclasses.dataclass(frozen=True)
class Loud(amity.Cardless):
    def decide(self, view, row):
        return amity.Decision({view.me: 1.0}, says={"loss": float("nan")})
        yield
"""
    Path("loud.py").write_text(saying)
    with pytest.raises(StrategyError, match=r"Loud.*peer-00, round 0: .*'loss' is no finite"):
        simulate(tiny(strategy="loud.py:Loud")).round()


MALFORMED = [
    b"",
    b"\xff",
    b"[]",
    b"1.0",
    b'{"a":1}',
    b'{"a":true}',
    b'{"a":"1.0"}',
    b'{"a":null}',
    b'{"a":[1.0]}',
    b'{"a":{"b":1.0}}',
    b'{"a":NaN}',
    b'{"a":1e999}',
    b'{"a":1.0,"a":2.0}',
    b'{"' + b"a" * 64 + b'":1.0}',
    b'{"a":' * 20_000,
    json.dumps(SILLY["too many"]).encode(),
    b'{"a":1.0' + b" " * LARGEST_SAID + b"}",
]


@pytest.mark.parametrize("text", MALFORMED, ids=range(len(MALFORMED)))
def test_what_is_not_finite_numbers_by_name_is_malformed(text: bytes) -> None:
    with pytest.raises(Refused) as refused:
        says_in(text)
    assert refused.value.reason == "malformed"


def test_whatever_bytes_come_they_are_refused_or_finite_numbers_by_name() -> None:
    draw, good = np.random.default_rng(11), encode_says({"a": 1.5, "peer-01": -2e-3, "c": 0.0})
    heard = 0
    for _ in range(3000):
        text = bytearray(good)
        for at in draw.integers(len(text), size=draw.integers(1, 4)):
            text[at] = draw.choice(np.frombuffer(good + b"[]null9e+-\\\xff\x00", np.uint8))
        with suppress(Refused):
            found = says_in(bytes(text))
            assert plain_says(found) == found
            heard += 1
    assert 100 < heard < 2900


# -- over the network ------------------------------------------------------------------------------

SPOKEN: dict[str, Any] = {"strategy": {"name": "dac", "k": 1}, "rounds": 5, "peers": 4}
ONE = {"workers": 1, "vectorise": "off", "group": 1}


@pytest.mark.parametrize("strategy", [{"name": "dac", "k": 1}, {"name": "facade", "clusters": 2}])
@pytest.mark.parametrize("method", ["finetune", "dispfl"])
def test_real_peers_say_hear_mix_and_count_what_simulated_ones_do(
    tmp_path: Path, strategy: dict[str, Any], method: str
) -> None:
    layers = {**SPOKEN, "strategy": strategy, "method": method}
    swarm = play(tmp_path / "net", untouched, CALM, **layers)
    simulated = amity.run(tiny(**layers, engine=ONE), tmp_path / "simulated")
    ours = models(simulated.path)
    kept = next(commits(simulated.path)).memory
    for name in swarm.names:
        state = swarm.folder(name) / "state"
        assert all(torch.equal(tensor, ours[key]) for key, tensor in models(state).items())
        memory = next(commits(state)).memory[name]
        assert memory == kept[name]
        assert memory[SAYS]
        theirs = [r.reply_in for r in read_records(state / "metrics.jsonl", PeerRecord)]
        assert theirs == [r.reply_in for r in simulated.metrics if r.peer == name]
        assert sum(theirs) > 0


def test_words_altered_on_the_way_are_refused_counted_and_left_out(tmp_path: Path) -> None:
    def flip(source: str, target: str, what: str, data: bytes) -> bytes | None:
        altered = what == "says reply" and source == "peer-01"
        return data[:-1] + bytes([data[-1] ^ 1]) if altered else data

    swarm = play(tmp_path / "net", flip, strategy={"name": "ifca", "clusters": 2})
    for name in ("peer-00", "peer-02"):
        assert log(swarm, name, "refused")["peer-01", "bad seal"] == 3
        assert log(swarm, name, "missing") == {}
    assert log(swarm, "peer-01", "refused") == {}


def test_what_is_said_is_on_the_disk_before_it_leaves(tmp_path: Path) -> None:
    swarm = play(tmp_path / "net", untouched, strategy={"name": "ifca"}, privacy="gradients")
    for name in swarm.names:
        state = swarm.folder(name) / "state"
        lines = read_lines(state / "disclosed.jsonl")
        told = {(line["round"], line["to"]) for line in lines if line["kind"] == "says"}
        assert told == {(t, other) for t in range(3) for other in swarm.names if other != name}
        last = read_records(state / "metrics.jsonl", PeerRecord)[-1]
        assert "Said" in (last.excluded or ())
