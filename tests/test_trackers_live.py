"""Trackers that listen while something runs: they are told what `amity track` would tell them."""

from __future__ import annotations

from pathlib import Path

import amity
from amity.lab.replay import replays
from amity.sinks import sinks
from tests import readers
from tests.conftest import Call, tiny
from tests.readers import Tool, recorded
from tests.test_trackers import SINGLE, name_in, opened, same, tell
from tests.test_trackers import _as_on_a_new_machine as _as_on_a_new_machine
from tests.test_trackers import _no_service_is_left as _no_service_is_left
from tests.test_trackers import empty_database as empty_database
from tests.test_trackers import tool as tool


def test_a_run_tells_its_tracker_all_numbers() -> None:
    config = tiny(strategy="gossip")
    result = amity.run(config, "run", sinks=["tensorboard:dir=tb:peers=true"])
    (seen,) = readers.tensorboard(Path("tb")).values()
    same(seen.curves, recorded(result, peers=True), SINGLE)
    assert seen.status == "done"


def test_cells_in_parallel_tell_one_tracker_and_track_adds_nothing(tool: Tool) -> None:
    entry = sinks[tool.name].build(tool.options)
    path = Path("runs/nightly")
    amity.compare(["afind+:paper", "gossip:k=2"], [0, 1], tiny(), path, jobs=2, sinks=[entry])
    runs = tool.read()
    assert len(runs) == 4
    for replay in replays(path):
        seen = runs["nightly", name_in(tool, f"{replay.cell.label} seed {replay.cell.seed}")]
        same(seen.curves, recorded(replay.result), tool)
        assert seen.status == "done"
    tell(opened(tool), (event for replay in replays(path) for event in replay.events()))
    assert tool.read() == runs


def test_a_swarm_is_the_same_live_and_afterwards(call: Call) -> None:
    keys = "peers=3 rounds=2 strategy=gossip model=mlp partition=pathological partition.samples=10"
    code, _, _ = call(f"swarm {keys} partition.test=30 out=sw sinks=tensorboard:dir=live")
    assert code == 0
    assert call("track sw to=tensorboard dir=after")[0] == 0
    live, after = (readers.tensorboard(Path(place)) for place in ("live", "after"))
    assert len(live) == 3
    assert {key: after[key] for key in live} == live
    assert set(after) - set(live) == {("sw", "gossip_normclip seed 0")}
