"""Planned changes and shadows, where training steps by another optimiser and schedule."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import amity
from amity.config import Config
from amity.data.target import Target
from amity.errors import ConfigError
from amity.learn.optimisers.adamw import AdamW
from amity.learn.schedules.cosine import CosineDecay
from amity.round.build import make_learner
from tests.conftest import tiny
from tests.test_parity import models
from tests.test_runs import contents, interrupted

STEPS = {"optimiser": "adamw", "schedule": "cosine", "floor": 0.5, "lr": 0.004, "keep": True}
LATER = "from=2 train.lr=0.001"


def planned(changes: str, **layers: Any) -> Config:
    return tiny(train=STEPS, rounds=4, checkpoint={"every": 2}, changes=changes, **layers)


def test_a_planned_rate_keeps_the_optimiser_and_follows_the_schedule() -> None:
    recipe = make_learner(planned(LATER), (8, 8), Target(10)).recipe
    for round, rate in enumerate([0.004, 0.004, 0.001, 0.001]):
        now = recipe.at(round)
        assert (now.lr, now.optimiser, now.schedule) == (rate, AdamW(), CosineDecay(floor=0.5))
        assert now.scale(round, 4) == CosineDecay(floor=0.5).at(round, 4)


@pytest.mark.parametrize("vectorise", ["on", "off"])
def test_a_planned_rate_holds_from_its_round_on_and_moments_go_on(vectorise: str) -> None:
    layers: dict[str, Any] = {"engine": {"vectorise": vectorise}}
    never = amity.run(planned("", **layers), "never").path
    idle = amity.run(planned("from=2 train.lr=0.004", **layers), "idle").path
    changed = amity.run(planned(LATER, **layers), "changed").path
    assert {k: v.tolist() for k, v in models(idle).items()} == {
        k: v.tolist() for k, v in models(never).items()
    }
    ours, theirs = (contents(path)["metrics.jsonl"].splitlines() for path in (changed, never))
    half = len(ours) // 2
    assert ours[:half] == theirs[:half]
    assert ours[half:] != theirs[half:]


def test_shadows_keep_moments_of_their_own_and_resume_with_them() -> None:
    config = planned(LATER, eval={"shadow": 1}, strategy="gossip")
    whole = amity.run(config, "whole").path
    broken = interrupted(config, "broken", 3)
    amity.resume(broken)
    kept = [key for key in models(whole) if "/shadow.optimiser." in key]
    assert kept
    again = models(broken)
    assert all(torch.equal(tensor, again[key]) for key, tensor in models(whole).items())
    other = models(whole)
    assert any(not torch.equal(other[key], other[key.replace("shadow.", "")]) for key in kept)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("train.optimiser=sgd", "train.optimiser is the same in all rounds"),
        ("train.schedule=step", "train.schedule is the same in all rounds"),
        ("train.keep=false", "train.keep is the same in all rounds"),
        ("train.beta1=0.5", "train.beta1 is the same in all rounds"),
        ("train.momentum=0.5", "train.momentum: belongs to train.optimiser=sgd"),
    ],
)
def test_what_shapes_the_steps_cannot_change_on_the_way(change: str, said: str) -> None:
    with pytest.raises(ConfigError, match=rf"changes, from=2: {said}"):
        planned(f"from=2 {change}")


def test_a_planned_momentum_of_zero_leaves_nothing_to_keep() -> None:
    with pytest.raises(ConfigError, match=r"changes, from=2: train.keep: sgd .* remembers nothing"):
        tiny(train={"keep": True}, rounds=4, changes="from=2 train.momentum=0")
