"""A shadow that learns from nobody says what collaboration is worth, and changes nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amity.lab.result import Result
from amity.lab.run import resume, run
from amity.net.ops.swarm import Swarm
from amity.records import PeerRecord
from amity.store import commits
from tests.conftest import tiny
from tests.hub import Hub, seal_nothing
from tests.test_node import made, together
from tests.test_parity import CALM, swarm_of

GOSSIP: dict[str, Any] = {"strategy": {"name": "gossip", "k": 2}, "peers": 4, "rounds": 4}
ONE = {"workers": 1, "vectorise": "off", "group": 1}
ENGINES: list[dict[str, Any]] = [
    ONE,
    {"workers": 2, "vectorise": "off", "group": 1},
    {"workers": 1, "vectorise": "on", "group": 2},
]


def of_training(record: PeerRecord) -> dict[str, Any]:
    """A line without the shadow and what it costs."""
    own = ("accuracy_alone", "forward", "backward")
    return {key: value for key, value in record.line().items() if key not in own}


@pytest.mark.parametrize("method", ["finetune", "ditto"])
@pytest.mark.parametrize("engine", ENGINES, ids=["here", "workers", "stacked"])
def test_a_shadow_reaches_what_the_same_peer_reaches_alone_and_nothing_else_changes(
    tmp_path: Path, engine: dict[str, Any], method: str
) -> None:
    layers = GOSSIP | {"engine": engine, "method": method}
    plain = run(tiny(**layers), tmp_path / "plain")
    with_shadow = run(tiny(**layers | {"eval": {"shadow": 1}}), tmp_path / "shadow")
    local = run(tiny(**layers | {"strategy": "local"}), tmp_path / "local")
    alone = [(r.round, r.peer, r.accuracy_alone) for r in with_shadow.metrics]
    assert alone == [(r.round, r.peer, r.accuracy) for r in local.metrics]
    assert [of_training(r) for r in with_shadow.metrics] == [of_training(r) for r in plain.metrics]
    assert [r.line() for r in with_shadow.edges] == [r.line() for r in plain.edges]
    paid = zip(with_shadow.metrics, plain.metrics, local.metrics, strict=True)
    assert all(a.passes == b.passes + c.passes for a, b, c in paid), "counted in passes"


def test_privacy_and_attacks_do_not_touch_a_shadow(tmp_path: Path) -> None:
    layers = GOSSIP | {"engine": ONE, "attack": {"name": "noise", "fraction": 0.25}}
    layers["privacy"] = {"name": "gradients", "sigma": 2.0}
    noised = run(tiny(**layers | {"eval": {"shadow": 1}}), tmp_path / "noised")
    local = run(tiny(**GOSSIP | {"strategy": "local", "engine": ONE}), tmp_path / "local")
    assert [r.accuracy_alone for r in noised.metrics] == [r.accuracy for r in local.metrics]
    assert noised.rounds[-1].epsilon == run(tiny(**layers), tmp_path / "p").rounds[-1].epsilon


def test_a_shadow_may_train_more_seldom_and_survives_a_resume(tmp_path: Path) -> None:
    layers = GOSSIP | {"engine": ONE, "rounds": 6, "eval": {"shadow": 2}}
    whole = run(tiny(**layers, checkpoint={"every": 3}), tmp_path / "whole")
    half = tmp_path / "half"
    run(tiny(**layers, checkpoint={"every": 3}), half)
    last = sorted((half / "checkpoint").glob("round-*"))[-2:]
    for file in last:
        file.unlink()
    again = resume(half)
    assert [r.line() for r in again.metrics] == [r.line() for r in whole.metrics]
    plain = run(tiny(**layers | {"eval": {"shadow": 0}}), tmp_path / "plain")
    paid = [a.passes - b.passes for a, b in zip(whole.metrics, plain.metrics, strict=True)]
    by_round = [sum(paid[4 * t : 4 * t + 4]) for t in range(6)]
    assert [bool(passes) for passes in by_round] == [True, False] * 3


def test_a_real_peer_has_the_simulators_shadow_and_none_of_it_is_ever_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal_nothing(monkeypatch)
    layers = GOSSIP | {"engine": ONE, "eval": {"shadow": 1}}
    simulated = run(tiny(**layers), tmp_path / "simulated")
    kept: list[bytes] = []

    def listen(source: str, target: str, kind: str, data: bytes) -> bytes:
        kept.append(bytes(data))
        return data

    swarm = Swarm(tmp_path / "net", tiny(**layers), CALM)
    swarm.lay_out()
    nodes = made(swarm, Hub(listen))
    assert set(together(nodes).values()) == {None}
    heard = b"".join(kept)
    sent, kept_back = 0, 0
    for name in swarm.names:
        state = swarm.folder(name) / "state"
        mine = [r.accuracy_alone for r in Result(state, swarm.config).metrics]
        assert mine == [r.accuracy_alone for r in simulated.metrics if r.peer == name]
        tensors = next(commits(state)).tensors
        assert tensors is not None
        shadow = tensors.of(name)["shadow.start"]
        peer = nodes[name].workshop.peer
        moved = (shadow != peer.world.initial).nonzero().flatten().tolist()
        for at in moved[:-1:7]:
            kept_back += 1
            assert shadow[at : at + 2].numpy().tobytes() not in heard
            sent += peer.trained[at : at + 2].numpy().tobytes() in heard
    assert kept_back > 100
    assert sent > 100, "the search does find what was sent"


def test_a_swarm_measures_shadows_too(tmp_path: Path) -> None:
    swarm = swarm_of(tmp_path / "s", **GOSSIP | {"rounds": 2, "eval": {"shadow": 1}})
    for name in swarm.names:
        metrics = Result(swarm.folder(name) / "state", swarm.config).metrics
        assert [r.accuracy_alone is not None for r in metrics] == [True, True]
