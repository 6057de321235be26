"""One bad member holds nobody up: real peers, each a process, one of which costs the others time
from some round on. What it did to them is compared with their own rounds before."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from amity.net.answers import Answering
from amity.net.ops.status import details, findings, peers_seen
from amity.net.ops.swarm import Swarm
from amity.net.options import Net
from amity.net.rounds import Rounds
from amity.patience import PURSE, SHARE, Habit, Purses, quorum
from amity.store import read_lines
from tests.conftest import tiny

BAD = "peer-03"
CALM, ROUNDS = 12, 44
"""Rounds before it begins, and all."""
PACE = 0.25
"""Seconds that everyone's training takes, at least."""
NET = Net(gather=60, deadline=2.4, patience=1.2, lease=4)
LATE = 2.0
"""Of a deadline of 2.4, as 50 s of 60 s."""


def late(name: str) -> None:
    """From a round on one shows its card late; and nobody can ask for it before."""
    show = Answering.offer

    def held_back(self: Answering, moment: Any) -> None:
        if moment.round >= CALM:
            time.sleep(LATE)
        show(self, moment)

    if name == BAD:
        Answering.offer = held_back  # type: ignore[method-assign]


def trickle(name: str) -> None:
    """From a round on one sends its model slowly, in two parts."""
    send = Answering._body

    def slowly(self: Answering, request: Any, manifest: Any, allowance: Any) -> None:
        if manifest.round < CALM:
            return send(self, request, manifest, allowance)
        body, at = self._blob(request, manifest).body, int(manifest.data["offset"])
        size = len(body) // 2 + 1
        for start in range(at, len(body), size):
            time.sleep(LATE / 2)
            self._tally.sent("model", len(body[start : start + size]))
            request.reply(body[start : start + size], start)
        return None

    if name == BAD:
        Answering._body = slowly  # type: ignore[method-assign]


def paced(attack: Any) -> Any:
    """Everyone trains for a moment, as with more data than a test has."""

    def enter(name: str) -> None:
        train = Rounds._train

        def slowly(self: Rounds, *given: Any) -> Any:
            time.sleep(PACE)
            return train(self, *given)

        Rounds._train = slowly  # type: ignore[method-assign]
        attack(name)

    return enter


@pytest.mark.parametrize(
    ("attack", "strategy"),
    [(late, {"name": "gossip", "k": 3}), (trickle, {"name": "gossip", "k": 3}), (late, "friends")],
    ids=["late, gossip", "trickle, gossip", "late, friends"],
)
def test_one_slow_member_holds_nobody_up_and_is_still_learnt_from(
    tmp_path: Path, attack: Any, strategy: Any
) -> None:
    settings = tiny(
        peers=4,
        rounds=ROUNDS,
        strategy=strategy,
        partition={"name": "iid", "samples": 20, "test": 30},
        eval={"every": ROUNDS, "gradients_every": 0},
        engine={"workers": 1, "vectorise": "off", "group": 1},
    )
    swarm = Swarm(tmp_path / "swarm", settings, NET, enter=paced(attack))
    swarm.lay_out()
    try:
        swarm.start()
        swarm.wait(240)
    finally:
        swarm.stop()
    assert swarm.failed == {}
    taken = 0
    for name in ("peer-00", "peer-01", "peer-02"):
        state = swarm.folder(name) / "state"
        seconds = {line["round"]: line["seconds"] for line in read_lines(state / "timings.jsonl")}
        before = median(seconds[t] for t in seconds if 1 < t < CALM)
        after = median(seconds[t] for t in seconds if t >= CALM + 10)
        assert after <= 1.5 * before, (name, before, after)
        log = read_lines(state / "audit.jsonl")
        used = [line for line in log if line["event"] == "used" and line["peer"] == BAD]
        taken += sum(line["of_round"] >= CALM for line in used)
        assert all(
            later["of_round"] > earlier["of_round"] or later["of_round"] == later["round"]
            for earlier, later in itertools.pairwise(used)
        ), "nothing that is late is used twice"
    assert taken, "the slow one is still learnt from"
    told = [said for seen in peers_seen([swarm.folder("peer-00")]) for said in details(seen)]
    assert any(word == "costs time" and BAD in said for word, said in told)
    assert any(BAD in one.detail for one in findings(swarm.folder("peer-00") / "state"))


def test_a_purse_bounds_what_a_member_can_cost_whatever_it_does() -> None:
    """An honest second a round, and a member that is late by what pays best for it: always, now
    and then, just below the limit."""
    for delay in (0.5, 1.5, 3.0, 5.9, 50.0):
        for every in (1, 2, 7):
            habit, purses, lost, total = Habit(60.0), Purses(60.0), 0.0, 0.0
            for t in range(2000):
                comes = 1.0 + (delay if t % every == 0 else 0.0)
                awaited = purses.open("bad")
                took = min(comes, habit.limit(1.0, 1.0)) if awaited else 1.0
                over = took - habit.free(1.0)
                if awaited:
                    purses.settle({"bad": over} if over > 0 else {}, [] if over > 0 else ["bad"])
                habit.learn([1.0, 1.0, 1.0, took])
                purses.fill(took)
                lost, total = lost + max(0.0, over), total + took
            assert lost <= PURSE * 60.0 + SHARE * total + 60.0, (delay, every)
            if delay > 3:
                assert total < 2000 * 1.2, (delay, every, total)


def test_what_is_usual_is_what_half_of_all_need() -> None:
    habit = Habit(60.0)
    assert habit.limit(1.0, 1.0) == 61.0, "who begins waits for a deadline"
    habit.learn([1.0, 1.0, 50.0])
    assert habit.usual == 1.0
    assert habit.limit(1.0, 1.0) == 16.0, "a quarter of the deadline at least"
    habit.learn([1.0, 20.0, 20.0])
    habit.learn([1.0, 20.0, 20.0])
    assert habit.limit(1.0, 20.0) == 61.0
    assert habit.free(1.0) == 25.0, "where most are slow, slow is usual"
    assert [quorum(range(n)) for n in range(6)] == [0, 1, 1, 2, 2, 3]
