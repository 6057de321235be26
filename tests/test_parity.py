"""The same config and seed, in the simulator and between real processes: the same choices and the same bits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from amity.net.options import Net
from amity.net.swarm import Swarm
from amity.run import Result, run
from amity.store import commits
from tests.conftest import EVERY_METHOD, EVERY_STRATEGY, spec_id, tiny

REFERENCES = ("fedavg", "oracle")
EXTRA: list[dict[str, Any]] = [
    {"name": "afind+", "proxy": "grad_ref"},
    {"name": "afind+", "proxy": "feature_mean_centered", "reprobe": "all"},
    {"name": "afind+", "sketch": 0},
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
    return {f"{peer}/{key}": value for peer in commit.memory for key, value in commit.tensors.of(peer).items()}


def rows(edges: list[dict[str, Any]]) -> dict[tuple[int, str], Any]:
    return {(r["round"], r["peer"]): r["row"] for r in edges}


@pytest.mark.parametrize("method", EVERY_METHOD)
@pytest.mark.parametrize("spec", SPECS, ids=spec_id)
def test_a_swarm_chooses_and_learns_what_the_simulator_does_to_the_bit(
    tmp_path: Path, spec: Mapping[str, Any], method: str
) -> None:
    layers: dict[str, Any] = {"peers": 4, "rounds": 5, "strategy": spec, "method": method}
    layers["train"] = {"epochs": 1, "batch": 8, "lr": 0.05, "precision": "fp32"}
    layers["engine"] = {"workers": 1, "vectorise": "off", "group": 1}
    simulated = run(tiny(**layers), tmp_path / "simulated")
    swarm = swarm_of(tmp_path / "swarm", **layers)
    ours = models(tmp_path / "simulated")
    for name in swarm.names:
        result = Result(swarm.folder(name) / "state", swarm.config)
        theirs = models(result.path)
        assert rows(result.edges) == {key: row for key, row in rows(simulated.edges).items() if key[1] == name}
        assert {r["accuracy"] for r in result.metrics if r["round"] == 4} == {simulated.final()[name]}
        for key, tensor in theirs.items():
            assert torch.equal(tensor, ours[key]), key
