"""Real peers start on guard: with a stage that goes with the strategy, and no monsters among the
models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import amity
from amity.config import resolve
from amity.net.ops.swarm import Swarm
from amity.net.setup import read_setup
from amity.peer.attacks import Scaled
from amity.stages import GUARD
from amity.strategies import strategies
from amity.strategies.friends import Friends
from tests.conftest import tiny
from tests.hub import Hub
from tests.test_node import log, made, row, together, untouched
from tests.test_parity import CALM


def stages_of(**keys: str) -> str:
    return ",".join(stage.label for stage in amity.load(None, keys, real=True).stages)


@pytest.mark.parametrize("name", [entry.name for entry in strategies])
def test_every_strategy_has_a_guard_that_is_a_stage(name: str) -> None:
    guard = getattr(strategies[name].cls, "guard", GUARD)
    assert resolve([{"strategy": name}, {"stages": guard}]).stages


def test_real_peers_have_the_guard_of_their_strategy_unless_stages_are_named() -> None:
    assert stages_of() == stages_of(stages=Friends.guard) != ""
    assert stages_of(strategy="gossip") == GUARD
    assert stages_of(strategy="gossip/krum") == stages_of(stages="krum") == "krum"
    assert stages_of(stages="none") == stages_of(strategy="gossip", stages="none") == ""
    assert not amity.load(None, {}).stages, "the simulator has what is asked for"


def test_a_peers_folder_without_stages_is_on_guard_and_a_swarms_is_as_its_config_says(
    tmp_path: Path,
) -> None:
    swarm = Swarm(tmp_path, tiny(peers=2), CALM)
    swarm.lay_out()
    folder = swarm.folder("peer-00")
    assert not read_setup(folder).config.stages
    text = (folder / "peer.toml").read_text()
    said = [line for line in text.splitlines() if line.startswith("stages")]
    assert said
    (folder / "peer.toml").write_text(text.replace(f"{said[0]}\n", ""))
    assert [stage.name for stage in read_setup(folder).config.stages] == ["normclip"]


def test_a_model_far_larger_than_mine_is_refused_before_any_strategy_sees_it(
    tmp_path: Path,
) -> None:
    swarm = Swarm(tmp_path, tiny(peers=3, rounds=3, strategy={"name": "gossip", "k": 2}), CALM)
    swarm.lay_out()
    nodes = made(swarm, Hub(untouched))
    liar = nodes["peer-01"].workshop.peer
    liar.attacking, liar.world = True, replace(liar.world, attack=Scaled(scale=2000.0))
    liar.rows = replace(liar.rows, share=torch.zeros_like(liar.trained))
    assert set(together(nodes).values()) == {None}
    for name in ("peer-00", "peer-02"):
        assert {peer for (peer, why) in log(swarm, name, "refused")} == {"peer-01"}
        assert any(why.startswith("norm") for _, why in log(swarm, name, "refused"))
        assert set(row(swarm, name)) == {"peer-00", "peer-02"}
    assert len(row(swarm, "peer-01")) == 3, "the liar itself learns on"
