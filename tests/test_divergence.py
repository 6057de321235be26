"""Training that has diverged is said, in every kind of run, and stands in its records."""

from __future__ import annotations

import json
import logging
import math
from pathlib import Path
from typing import Any

import pytest
import torch

import amity
from amity.events import Diverged, Event
from amity.round.shard import diverged
from tests.conftest import EVERY_METHOD, EVERY_STRATEGY, Call, simulate, tiny

SMALL = "peers=4 rounds=2 partition.samples=10 partition.test=20 model.hidden=8"
WILD = {"train": {"epochs": 2, "batch": 4, "lr": 1e30}}
SAID = (
    "training has diverged: in round 1 the loss of peer-00 and 3 more is no number; lower train.lr"
    " (1e+30) or set train.clip=1"
)


def test_a_run_that_diverges_says_so_once_with_the_remedy_and_succeeds(call: Call) -> None:
    code, out, err = call(f"run {SMALL} strategy=gossip train.lr=1e30 out=r")
    assert code == 0
    assert err == f"amity: gossip: {SAID}\n"
    summary = (
        "the loss of 4 of 4 peers was no number, the first that of peer-00 in round 1; lower"
        " train.lr (1e+30) or set train.clip=1"
    )
    assert f"  diverged  {summary}\n" in out
    assert summary in Path("r/report.html").read_text()
    rounds = [json.loads(line) for line in Path("r/rounds.jsonl").read_text().splitlines()]
    peers = [json.loads(line) for line in Path("r/metrics.jsonl").read_text().splitlines()]
    assert [record["diverged"] for record in rounds] == [4, 4]
    assert all(record["diverged"] is True and record["train_loss"] is None for record in peers)
    code, out, err = call("resume r")
    assert (code, err) == (0, "")
    assert summary in out, "who looks again is told again"


def test_a_comparison_says_it_for_each_strategy_from_its_workers(call: Call) -> None:
    line = f"compare {SMALL} strategies=local,gossip seeds=0,1 jobs=2 train.lr=1e30 out=c"
    code, out, err = call(line)
    assert code == 0
    said = [line.partition(": ")[2] for line in sorted(err.splitlines())]
    assert sorted(one.partition(" seed")[0] for one in said) == ["gossip", "local"]
    assert all(one.endswith(SAID) for one in said)
    for label in ("local", "gossip"):
        for seed in (0, 1):
            assert f"{label}, seed {seed}, diverged: the loss of 4 of 4 peers was no number" in out
    assert [line.rpartition(",")[2] for line in Path("c/summary.csv").read_text().split()] == [
        "diverged",
        "2",
        "2",
    ]


def test_real_peers_say_it_too(call: Call) -> None:
    pytest.importorskip("zenoh")
    code, out, err = call("swarm --peers 2 rounds=1 partition.samples=10 train.lr=1e30 out=s")
    assert code == 0
    for peer in ("peer-00", "peer-01"):
        assert f"amity: {peer}: training has diverged: in round 1 the loss of {peer} is no" in err
    assert "diverged  the loss of 2 of 2 peers was no number, the first that of peer-00" in out
    assert json.loads(Path("s/rounds.jsonl").read_text())["diverged"] == 2


@pytest.mark.parametrize("sinks", [None, "jsonl"])
def test_from_python_it_is_a_warning_of_the_log(
    sinks: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="amity"):
        amity.run(tiny(strategy="gossip", **WILD), out="r", sinks=sinks)
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith(
        "gossip: training has diverged: in round 1 the loss of peer-00 and 5 more"
    )


class Heard:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def take(self, event: Event) -> None:
        self.events.append(event)

    def close(self) -> None:
        """Nothing is held."""


def test_a_sink_is_told_after_the_round_in_which_it_happened() -> None:
    heard = Heard()
    amity.run(tiny(strategy="gossip", **WILD), out="r", sinks=heard)
    kinds = [type(event).__name__ for event in heard.events]
    at = kinds.index("Diverged")
    assert kinds[at - 1] == "RoundDone"
    assert kinds.count("Diverged") == 1
    told = heard.events[at]
    assert isinstance(told, Diverged)
    assert (told.peer, told.peers, told.round, told.lr) == ("peer-00", 6, 0, 1e30)


QUIET: dict[str, dict[str, Any]] = {
    "all is well": {},
    "nobody trains": {"train": {"epochs": 0, "batch": 8, "lr": 0.05}},
    "a spent budget": {
        "strategy": "gossip",
        "privacy": {"name": "gradients", "sigma": 2.0, "budget": 3.0},
        "rounds": 6,
    },
}


@pytest.mark.parametrize("why", QUIET)
def test_a_loss_that_was_not_measured_has_not_diverged(
    why: str, caplog: pytest.LogCaptureFixture
) -> None:
    result = amity.run(tiny(**QUIET[why]), out="r")
    assert caplog.records == []
    assert all("diverged" not in record.line() for record in (*result.rounds, *result.metrics))
    if why != "all is well":
        assert math.isnan(result.metrics[-1].train_loss)


@pytest.mark.parametrize("method", EVERY_METHOD)
def test_every_strategy_goes_on_with_models_that_have_diverged(method: str) -> None:
    for strategy in EVERY_STRATEGY:
        with simulate(tiny(strategy=strategy, method=method, **WILD)) as simulation:
            assert [simulation.round().network.diverged for _ in range(2)] == [6, 6], strategy


def test_attackers_are_not_counted() -> None:
    config = tiny(strategy="gossip", attack={"name": "noise", "fraction": 0.5}, **WILD)
    with simulate(config) as simulation:
        report = simulation.round()
    assert report.network.diverged == 3
    assert sum(bool(record.diverged) for record in report.peers.values()) == 6


@pytest.mark.parametrize(
    ("loss", "model", "answer"),
    [
        (0.5, [1.0], False),
        (math.nan, [1.0, 2.0], False),
        (math.nan, [1.0, math.nan], True),
        (math.nan, [math.inf, 1.0], True),
        (math.inf, [1.0], True),
    ],
)
def test_what_diverging_is(loss: float, model: list[float], answer: bool) -> None:
    assert diverged(loss, torch.tensor(model)) is answer
