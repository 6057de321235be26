"""The same config and seed, in the simulator and between real processes: the same choices and the
same bits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from amity.core import Row
from amity.lab.result import Result
from amity.lab.run import run
from amity.net.ops.collect import merge
from amity.net.ops.swarm import Swarm
from amity.net.options import Net
from amity.records import EdgeRecord
from amity.store import commits
from tests.conftest import EVERY_METHOD, EVERY_STRATEGY, spec_id, tiny

REFERENCES = ("fedavg", "oracle")
EXTRA: list[dict[str, Any]] = [
    {"name": "afind+", "proxy": "grad_ref"},
    {"name": "afind+", "proxy": "feature_mean_centered", "reprobe": "all"},
    {"name": "afind+", "sketch": 0},
    {"name": "epidemic", "s": 1},
]
SPECS = [spec for spec in EVERY_STRATEGY if spec["name"] not in REFERENCES] + EXTRA
CALM = Net(gather=30, deadline=30, patience=30)


def swarm_of(out: Path, net: Net = CALM, **layers: Any) -> Swarm:
    """A swarm that has run to its end."""
    swarm = Swarm(out, tiny(**layers), net)
    swarm.lay_out()
    swarm.start()
    try:
        swarm.wait(60)
    finally:
        swarm.stop()
    assert swarm.failed == {}
    return swarm


def models(path: Path) -> dict[str, torch.Tensor]:
    """All tensors of the newest checkpoint, by peer and name."""
    commit = next(commits(path))
    assert commit.tensors is not None
    return {
        f"{peer}/{key}": value
        for peer in commit.memory
        for key, value in commit.tensors.of(peer).items()
    }


def rows(edges: Iterable[EdgeRecord]) -> dict[tuple[int, str], Row]:
    return {(r.round, r.peer): r.row for r in edges}


TELLING = ("gossip", "fomo", "afind+:literal", "afind+:paper:grad_asker")
"""With methods that differ from these two in what they train, and not in what they ask: every kind
of ask, once."""
PAIRS = [
    (s, m)
    for s in SPECS
    for m in EVERY_METHOD
    if m in ("finetune", "head") or spec_id(s) in TELLING
]


@pytest.mark.parametrize(("spec", "method"), PAIRS, ids=[f"{spec_id(s)}-{m}" for s, m in PAIRS])
def test_a_swarm_chooses_and_learns_what_the_simulator_does_to_the_bit(
    tmp_path: Path, spec: Mapping[str, Any], method: str
) -> None:
    same_bits(tmp_path, {"peers": 4, "rounds": 5, "strategy": spec, "method": method})


COMPOSED: dict[str, dict[str, Any]] = {
    "gossip, fomo and a gate": {"strategy": "gossip", "stages": "fomo,lossgate"},
    "visits, Krum, clipping, median": {
        "strategy": {"name": "afind+", "preset": "literal"},
        "stages": "krum,normclip",
        "mixer": "median",
        "method": "dispfl",
    },
    "visits weighed by fomo": {
        "strategy": {"name": "afind+", "preset": "literal"},
        "stages": "fomo",
        "method": "head",
    },
    "a similarity gate brings its card": {
        "strategy": "gossip",
        "stages": "simgate",
        "mixer": "trimmed",
    },
    "a world of two groups": {"shift": {"name": "rotate", "groups": 2, "strength": 30.0}},
    "loners with noise of their own": {
        "strategy": "pens",
        "shift": {"name": "corrupt", "sizes": "2,1,1"},
    },
    "friends, two of a kind and two loners": {
        "strategy": "friends",
        "partition": {"name": "iid", "samples": 40, "test": 30},
        "shift": {"name": "permute_labels", "sizes": "2,1,1"},
    },
    "friends, and models that are shared in part": {"strategy": "friends", "method": "dispfl"},
    "uploads clipped without noise": {"privacy": {"name": "upload", "sigma": 0.0, "clip": 0.5}},
}


@pytest.mark.parametrize("what", COMPOSED)
def test_stages_mixers_and_privacy_give_the_same_bits_in_a_swarm(tmp_path: Path, what: str) -> None:
    same_bits(tmp_path, {"peers": 4, "rounds": 4, **COMPOSED[what]})


def test_private_real_peers_report_the_simulators_epsilon_and_noise_of_their_own(
    tmp_path: Path,
) -> None:
    layers: dict[str, Any] = {
        "peers": 3,
        "rounds": 3,
        "strategy": "gossip",
        "privacy": {"name": "gradients", "sigma": 2.0},
    }
    layers |= {"engine": {"workers": 1, "vectorise": "off", "group": 1}}
    simulated = run(tiny(**layers), tmp_path / "simulated")
    swarm = swarm_of(tmp_path / "swarm", **layers)
    thetas = []
    for name in swarm.names:
        result = Result(swarm.folder(name) / "state", swarm.config)
        mine = [r for r in simulated.metrics if r.peer == name]
        assert [r.epsilon for r in result.metrics] == [r.epsilon for r in mine]
        assert all(r.excluded == () for r in result.metrics)
        thetas.append(
            not torch.equal(
                models(result.path)[f"{name}/start"],
                models(tmp_path / "simulated")[f"{name}/start"],
            )
        )
    assert all(thetas)
    merge(swarm.out, swarm.config)
    assert "guaranteed" in Result(swarm.out, swarm.config).privacy


def same_bits(tmp_path: Path, layers: dict[str, Any]) -> None:
    """The simulator and a swarm, run with the same config, decide and learn the same."""
    train = {"epochs": 1, "batch": 8, "lr": 0.05, "precision": "fp32"}
    layers["train"] = train | layers.get("train", {})
    layers["engine"] = {"workers": 1, "vectorise": "off", "group": 1}
    simulated = run(tiny(**layers), tmp_path / "simulated")
    swarm = swarm_of(tmp_path / "swarm", **layers)
    last = swarm.config.rounds - 1
    ours = models(tmp_path / "simulated")
    for name in swarm.names:
        result = Result(swarm.folder(name) / "state", swarm.config)
        theirs = models(result.path)
        assert rows(result.edges) == {
            key: row for key, row in rows(simulated.edges).items() if key[1] == name
        }
        assert {r.accuracy for r in result.metrics if r.round == last} == {simulated.final()[name]}
        notes = [r.notes for r in simulated.metrics if r.peer == name]
        assert repr([r.notes for r in result.metrics]) == repr(notes)
        for key, tensor in theirs.items():
            assert torch.equal(tensor, ours[key]), key


def test_a_card_that_is_asked_for_once_travels_once_between_real_peers_too(tmp_path: Path) -> None:
    layers: dict[str, Any] = {"peers": 3, "rounds": 4, "strategy": "friends"}
    swarm = swarm_of(tmp_path / "swarm", **layers)
    for name in swarm.names:
        cards = [r.card_in for r in Result(swarm.folder(name) / "state", swarm.config).metrics]
        size = 64 * 12 + 12 + 12 * 10 + 10
        half = 2 * math.ceil(size / 4)  # a quarter of its numbers, two bytes each
        assert 2 * 2 * half < cards[0] < 2 * 4 * half, "two cards of two halves, and their headers"
        assert cards[1:] == [0, 0, 0]
