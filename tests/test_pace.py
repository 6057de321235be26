"""Peers of unequal speed: who is ready when, the clock, and accuracy against time."""

from __future__ import annotations

import itertools
import statistics
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import amity
from amity.errors import ConfigError
from amity.lab.run import restored
from amity.pace import FASTEST, SLOWEST, Pace, read_speed, speeds
from amity.show.curves import accuracy_by_time
from tests.conftest import tiny
from tests.test_runs import interrupted

NAMES = tuple(f"peer-{at:02d}" for at in range(8))


def pace(text: str) -> Pace:
    return Pace(speeds(text, NAMES, seed=1))


def test_equal_peers_are_always_ready_and_a_round_takes_one_training() -> None:
    found = [pace("1").tick(t) for t in range(5)]
    assert [tick.clock for tick in found] == [1, 2, 3, 4, 5]
    assert all(tick.ready == set(NAMES) for tick in found)


def test_one_slow_peer_holds_nobody_up_for_long_and_still_takes_part() -> None:
    ticks = [pace("1,1,1,1,1,1,1,0.1").tick(t) for t in range(60)]
    took = [b.clock - a.clock for a, b in itertools.pairwise(ticks)]
    assert statistics.median(took[10:]) <= 1.5
    rounds = [t for t, tick in enumerate(ticks) if "peer-07" in tick.ready]
    assert rounds[0] == 0, "a first round waits, for nobody knows yet what is usual"
    assert len(rounds) >= 5
    assert all(b - a >= 8 for a, b in itertools.pairwise(rounds))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(SLOWEST, FASTEST), min_size=1, max_size=8))
def test_the_clock_runs_on_and_nobody_trains_faster_than_it_can(some: list[float]) -> None:
    given_speeds = dict(zip(NAMES, some, strict=False))
    mine, before = Pace(given_speeds), 0.0
    done = dict.fromkeys(given_speeds, 0)
    for t in range(30):
        tick = mine.tick(t)
        assert tick.clock > before
        assert tick.ready
        before = tick.clock
        for j in tick.ready:
            done[j] += 1
            assert done[j] <= tick.clock * given_speeds[j] * (1 + 1e-9) + 1e-9
    assert max(done.values()) == 30, "the fastest misses no round"


def test_speeds_are_listed_or_drawn_from_the_seed() -> None:
    assert list(speeds("1,0.5,2", NAMES, 0).values()) == [1, 0.5, 2, 1, 0.5, 2, 1, 0.5]
    assert speeds("lognormal:0.5", NAMES, 3) == speeds("lognormal:0.5", NAMES, 3)
    assert speeds("lognormal:0.5", NAMES, 3) != speeds("lognormal:0.5", NAMES, 4)
    assert read_speed([1, 0.25]) == read_speed("1+0.25") == "1,0.25"


@pytest.mark.parametrize("bad", ["fast", "1,0", "1,-1", "lognormal", "lognormal:x", "1,nan", "1e9"])
def test_a_speed_that_is_none_is_refused_with_what_would_be_one(bad: str) -> None:
    with pytest.raises(ConfigError, match=r"topology.*speed: expected"):
        amity.load(None, {"topology.speed": bad})


def final(run: Any) -> list[torch.Tensor]:
    peers = restored(run.path).peers.values()
    return [value for peer in peers for value in peer.snapshot().values()]


def test_a_run_of_equal_peers_has_the_bits_of_a_run_without_a_clock(tmp_path: Path) -> None:
    plain = amity.run(tiny(rounds=4), tmp_path / "plain")
    timed = amity.run(tiny(rounds=4, topology={"speed": "1"}), tmp_path / "timed")
    assert plain.metrics == timed.metrics
    assert plain.edges == timed.edges
    assert all(map(torch.equal, final(plain), final(timed)))
    assert [record.clock for record in plain.rounds] == [None] * 4
    assert [record.clock for record in timed.rounds] == [1, 2, 3, 4]
    assert accuracy_by_time({"plain": [plain]}) is None


@pytest.mark.parametrize("strategy", ["friends", "afind+", "fedavg"])
def test_slow_peers_miss_rounds_and_the_bits_are_those_of_any_workers_and_of_a_resume(
    tmp_path: Path, strategy: str
) -> None:
    layers: dict[str, Any] = {"strategy": strategy, "topology": {"speed": "1,1,1,1,1,0.2"}}
    layers |= {"peers": 6, "checkpoint": {"every": 3}}
    whole = amity.run(tiny(rounds=12, **layers), tmp_path / "whole")
    two = amity.run(tiny(rounds=12, engine={"workers": 2}, **layers), tmp_path / "two")
    assert whole.metrics == two.metrics
    assert whole.edges == two.edges
    assert whole.rounds == two.rounds
    for t in range(12):
        alone = {e.peer for e in whole.edges if e.round == t and set(e.row) == {e.peer}}
        taken = {j for e in whole.edges if e.round == t for j in e.row if j != e.peer}
        if whole.rounds[t].ready == 5:
            assert "peer-05" in alone
            assert "peer-05" not in taken
    assert {record.ready for record in whole.rounds} == {5, 6}

    interrupted(tiny(rounds=12, **layers), str(tmp_path / "cut"), 8)
    resumed = amity.resume(tmp_path / "cut")
    assert resumed.metrics == whole.metrics
    assert resumed.rounds == whole.rounds
    assert all(map(torch.equal, final(resumed), final(whole)))
    figure = accuracy_by_time({"run": [whole]})
    assert figure is not None
    assert "time" in figure.axes[0].get_xlabel()
