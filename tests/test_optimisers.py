"""Every optimiser and schedule against torch's own, alone and stacked, fresh and kept; and what is
refused."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.optim import lr_scheduler

from amity.config import load
from amity.data.samples import Samples
from amity.errors import ConfigError
from amity.learn.layout import layout_of
from amity.learn.learner import Bounds, DpSgd, Learner, Recipe
from amity.learn.optimisers import Optimiser, optimisers
from amity.learn.optimisers.adam import Adam
from amity.learn.optimisers.adamw import AdamW
from amity.learn.optimisers.sgd import Sgd
from amity.learn.schedules import Schedule, schedules
from amity.learn.schedules.constant import ConstantRate
from amity.learn.schedules.cosine import CosineDecay
from amity.learn.schedules.step import StepDecay
from amity.learn.schedules.warmup import WarmUp
from amity.learn.stacked import FitJob, Stack
from amity.learn.stepping import STEPS, kept_of
from tests.test_learn import samples
from tests.test_stacked import NETS, conv, mlp

ROUNDS = 5
LR, HEAD = 0.02, 0.05
OPTIMISERS: dict[str, tuple[Optimiser, Any]] = {
    "sgd": (
        Sgd(momentum=0.8, weight_decay=0.01),
        lambda groups: torch.optim.SGD(groups, momentum=0.8, weight_decay=0.01),
    ),
    "adam": (
        Adam(beta1=0.8, beta2=0.95, eps=1e-4, weight_decay=0.01),
        lambda groups: torch.optim.Adam(groups, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.01),
    ),
    "adamw": (
        AdamW(eps=1e-4, weight_decay=0.1),
        lambda groups: torch.optim.AdamW(groups, eps=1e-4, weight_decay=0.1),
    ),
}
CALM: dict[str, Optimiser] = {
    "sgd": Sgd(momentum=0.8, weight_decay=0.01),
    "adam": Adam(beta1=0.8, beta2=0.95, eps=0.03, weight_decay=0.01),
    "adamw": AdamW(eps=0.03, weight_decay=0.1),
}
"""With a large ε, so that gradients that are nearly 0 do not make large steps of rounding."""
SCHEDULES: dict[str, tuple[Schedule, Any]] = {
    "constant": (ConstantRate(), lambda o: lr_scheduler.ConstantLR(o, 1.0)),
    "step": (StepDecay(every=2, factor=0.5), lambda o: lr_scheduler.StepLR(o, 2, 0.5)),
    "cosine": (CosineDecay(), lambda o: lr_scheduler.CosineAnnealingLR(o, ROUNDS)),
    "warmup": (WarmUp(warmup=2), lambda o: lr_scheduler.LinearLR(o, 1 / 3, 1.0, 2)),
}


def test_every_entry_is_compared_with_torch() -> None:
    assert OPTIMISERS.keys() == {entry.name for entry in optimisers}
    assert SCHEDULES.keys() == {entry.name for entry in schedules}


def learner(make: Any, optimiser: Optimiser, schedule: Schedule = ConstantRate(), **more: Any):  # type: ignore[no-untyped-def] # noqa: B008
    torch.manual_seed(0)
    module = make()
    values: dict[str, Any] = {"lr": LR, "lr_head": HEAD, "batch": 4, "clip": 0.0, **more}
    recipe = Recipe(optimiser=optimiser, schedule=schedule, **values)
    return Learner(module, layout_of(module), recipe)


def nothing_yet(mine: Learner, part: slice | None = None) -> dict[str, torch.Tensor]:
    """What is kept before the first round."""
    lengths = kept_of(mine.recipe.optimiser, mine.layout, part or mine.layout.everything)
    return {name: torch.zeros(length) for name, length in lengths.items()}


def plain_rounds(
    make: Any, mine: Learner, torch_optimiser: Any, scheduler: Any, data: Samples, *, keep: bool
) -> Iterator[torch.Tensor]:
    """The loop that anyone would write: the model after each round of two epochs."""
    torch.manual_seed(0)
    module = make()
    named = dict(module.named_parameters())
    slots = mine.layout.slots
    body = [named[s.name] for s in slots if s.start < mine.layout.head.start]
    head = [named[s.name] for s in slots if s.start >= mine.layout.head.start]
    groups = [{"params": body, "lr": LR}, {"params": head, "lr": HEAD}]
    optimiser = torch_optimiser(groups)
    rates = scheduler(optimiser)
    for t in range(ROUNDS):
        if not keep:
            optimiser.state.clear()
        draw = np.random.default_rng(t)
        draw.integers(2**62)  # fit seeds torch once
        for _ in range(2):
            for batch in torch.split(torch.from_numpy(draw.permutation(len(data))), 4):
                optimiser.zero_grad()
                loss = F.cross_entropy(module(data.pixels.x[batch]), data.pixels.y[batch])
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
        rates.step()
        yield torch.cat([named[slot.name].detach().flatten() for slot in slots])


@pytest.mark.parametrize("keep", [False, True], ids=["fresh", "kept"])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", OPTIMISERS)
def test_rounds_of_training_equal_a_plain_torch_loop_alone_and_stacked(
    name: str, schedule: str, keep: bool
) -> None:
    optimiser, theirs = OPTIMISERS[name]
    make, data = (conv if schedule == "cosine" else mlp), samples(10)
    mine = learner(make, optimiser, SCHEDULES[schedule][0])
    stack = Stack(mine)
    alone = mine.initial()
    stacked = [alone.clone(), alone.clone()]
    kept = [nothing_yet(mine) for _ in range(3)] if keep else [None] * 3
    loop = plain_rounds(make, mine, theirs, SCHEDULES[schedule][1], data, keep=keep)
    for t, expected in enumerate(loop):
        draw = np.random.default_rng(t)
        alone = mine.fit(alone, data, draw, 2, None, t, rounds=ROUNDS, moments=kept[0]).theta
        jobs = [
            FitJob(theta, data, np.random.default_rng(t), moments=own)
            for theta, own in zip(stacked, kept[1:], strict=True)
        ]
        stacked = [fitted.theta for fitted in stack.fit(jobs, 2, None, t, ROUNDS)]
        torch.testing.assert_close(alone, expected, rtol=1e-4, atol=1e-5)
        for theta in stacked:
            torch.testing.assert_close(theta, expected, rtol=1e-4, atol=1e-5)


@given(
    sizes=st.lists(st.integers(0, 13), min_size=2, max_size=6),
    batch=st.integers(1, 6),
    part=st.sampled_from(["everything", "head", "body"]),
    name=st.sampled_from(sorted(OPTIMISERS)),
    keep=st.booleans(),
    clip=st.sampled_from([0.0, 0.3]),
    held=st.sampled_from(["free", "drawn", "masked"]),
    make=st.sampled_from(NETS),
)
@settings(max_examples=60, deadline=None)
def test_a_stack_ends_where_each_ends_alone_and_remembers_the_same(
    sizes: list[int],
    batch: int,
    part: str,
    name: str,
    keep: bool,
    clip: float,
    held: str,
    make: Any,
) -> None:
    """Two rounds, between which peers change places: they have come differently far."""
    mine = learner(make, CALM[name], batch=batch, clip=clip)
    base = samples(sum(sizes) + 1)
    datas = [Samples(base.pixels, torch.arange(a, b)) for a, b in pairwise(np.cumsum([0, *sizes]))]
    draw = torch.Generator().manual_seed(1)
    start, where = mine.initial(), getattr(mine.layout, part)
    mask = torch.rand(mine.layout.size, generator=draw) < 0.7
    bounds = {"free": Bounds(), "drawn": Bounds(start + 0.1, 0.5), "masked": Bounds(mask=mask)}[
        held
    ]
    thetas = [start + 0.01 * torch.randn(len(start), generator=draw) for _ in sizes]
    kept = [nothing_yet(mine, where) for _ in sizes] if keep else [None for _ in sizes]
    theirs = [None if own is None else {k: v.clone() for k, v in own.items()} for own in kept]
    stacked = list(thetas)
    for t in range(2):
        order = datas if t == 0 else datas[::-1]
        thetas = [
            mine.fit(theta, data, np.random.default_rng(k), 2, where, t, bounds, moments=own).theta
            for k, (theta, data, own) in enumerate(zip(thetas, order, kept, strict=True))
        ]
        jobs = [
            FitJob(theta, data, np.random.default_rng(k), bounds, own)
            for k, (theta, data, own) in enumerate(zip(stacked, order, theirs, strict=True))
        ]
        stacked = [fitted.theta for fitted in Stack(mine).fit(jobs, 2, where, t)]
    for one, other in zip(thetas, stacked, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-3, atol=1e-4)
    for mine_kept, other_kept in zip(kept, theirs, strict=True):
        assert (mine_kept is None) == (other_kept is None)
        if mine_kept is not None and other_kept is not None:
            assert torch.equal(mine_kept[STEPS], other_kept[STEPS])
            for key, vector in mine_kept.items():
                torch.testing.assert_close(vector, other_kept[key], rtol=5e-3, atol=1e-4)


@pytest.mark.parametrize("stacked", [False, True])
def test_what_leaves_a_mask_is_forgotten(stacked: bool) -> None:
    mine = learner(mlp, Adam())
    mask = torch.rand(mine.layout.size, generator=torch.Generator().manual_seed(1)) < 0.5
    kept = [nothing_yet(mine) for _ in range(2)]
    bounds, start = Bounds(mask=mask), mine.initial()
    if stacked:
        jobs = [FitJob(start, samples(8), np.random.default_rng(0), bounds, own) for own in kept]
        Stack(mine).fit(jobs, 1, None, 0)
    else:
        for own in kept:
            mine.fit(start, samples(8), np.random.default_rng(0), 1, bounds=bounds, moments=own)
    for own in kept:
        assert float(own[STEPS]) == 2
        assert not own["m"][~mask].any()
        assert own["m"][mask].any()
        assert not own["v"][~mask].any()


@pytest.mark.parametrize("name", OPTIMISERS)
def test_dp_sgd_hands_its_private_gradient_to_any_optimiser(name: str) -> None:
    optimiser, theirs = OPTIMISERS[name]
    data, mine = samples(30), learner(mlp, optimiser, lr=0.02, lr_head=0.02)
    kept = nothing_yet(mine)
    noise = DpSgd(0.0, 0.0)
    got = mine.fit(mine.initial(), data, np.random.default_rng(3), 3, noise=noise, moments=kept)

    torch.manual_seed(0)
    module = mlp()
    plain = theirs([{"params": list(module.parameters()), "lr": 0.02}])
    draw = np.random.default_rng(3)
    draw.integers(2**62)
    steps = 3 * math.ceil(30 / 4)
    for _ in range(steps):
        batch = torch.from_numpy(np.flatnonzero(draw.random(30) < 4 / 30))
        plain.zero_grad()
        losses = F.cross_entropy(
            module(data.pixels.x[batch]), data.pixels.y[batch], reduction="sum"
        )
        (losses / 4).backward()  # type: ignore[no-untyped-call]
        plain.step()
    expected = torch.cat([p.detach().flatten() for p in module.parameters()])
    torch.testing.assert_close(got.theta, expected, rtol=1e-4, atol=1e-5)
    assert mine.private_steps == float(kept[STEPS]) == steps
    spent = mine.fit(got.theta, data, np.random.default_rng(4), 1, noise=DpSgd(1.0, 1.0, 0))
    assert torch.equal(spent.theta, got.theta)


# -- schedules


def rates(schedule: Schedule, rounds: int) -> list[float]:
    return [schedule.at(t, rounds) for t in range(rounds)]


def test_schedules_follow_their_equations() -> None:
    assert rates(StepDecay(factor=0.5), 6) == [1, 1, 0.5, 0.5, 0.25, 0.25]
    assert rates(StepDecay(every=4, factor=0.5), 6) == [1, 1, 1, 1, 0.5, 0.5]
    assert rates(CosineDecay(floor=0.2), 2) == pytest.approx([1, 0.6])
    assert rates(CosineDecay(), 100)[-1] > 0
    assert rates(CosineDecay(floor=1.0), 3) == [1, 1, 1]
    assert rates(WarmUp(warmup=3), 5) == [0.25, 0.5, 0.75, 1, 1]
    assert rates(WarmUp(), 20) == pytest.approx([1 / 3, 2 / 3, *[1] * 18])
    falling = WarmUp(warmup=1, then="cosine", floor=0.2)
    assert rates(falling, 5) == pytest.approx([0.5, *rates(CosineDecay(floor=0.2), 4)])
    for schedule in (StepDecay(), CosineDecay(), WarmUp(), WarmUp(then="cosine")):
        assert schedule.misfit(1) == ""
        assert 0 < schedule.at(0, 1) <= 1


def test_decay_comes_on_top_of_a_schedule_and_what_is_outside_of_a_run_has_none() -> None:
    mine = learner(mlp, Sgd(), CosineDecay(), decay=0.5)
    assert mine.recipe.scale(2, 4) == pytest.approx(0.25 * 0.5)
    assert mine.recipe.scale(2, 0) == 0.25


# -- config


def train_of(*words: str) -> dict[str, Any]:
    found: dict[str, Any] = load(overrides=words).to_dict()["train"]
    return found


def test_who_says_nothing_of_optimisers_has_the_config_of_before() -> None:
    assert train_of() == {
        "lr": 0.05,
        "lr_head": 0.0,
        "momentum": 0.9,
        "weight_decay": 0.0,
        "decay": 1.0,
        "batch": 8,
        "epochs": 5,
        "epochs_head": 1,
        "clip": 0.0,
        "precision": "auto",
        "augment": "none",
    }
    assert train_of("train.optimiser=sgd", "train.schedule=constant", "train.keep=false") == (
        train_of()
    )


def test_an_optimiser_is_chosen_in_every_form_and_written_down_with_its_options() -> None:
    words = train_of("train.optimiser=adamw", "train.beta2=0.99", "train.schedule=step:every=3")
    assert words["optimiser"] == "adamw"
    assert (words["beta1"], words["beta2"], words["weight_decay"]) == (0.9, 0.99, 0.01)
    assert (words["schedule"], words["every"], words["factor"]) == ("step", 3, 0.1)
    assert "momentum" not in words
    for form in (
        "adamw:beta2=0.99",
        {"name": "adamw", "beta2": 0.99},
        AdamW(beta2=0.99),
    ):
        config = load(overrides={"train": {"optimiser": form, "schedule": StepDecay(every=3)}})
        assert config.to_dict()["train"] == words
        assert config.replace() == config


def test_another_optimiser_drops_the_rates_and_options_of_the_old_one() -> None:
    base = load(overrides=["train.lr=0.3", "train.momentum=0.5", "train.batch=4"])
    other = base.replace(**{"train.optimiser": "adam"})
    assert (other.train.lr, other.train.batch) == (0.001, 4)
    assert other.optimiser.instance == Adam()
    assert other.replace(**{"train.lr": 0.01}).train.lr == 0.01
    back = other.replace(**{"train.optimiser": "sgd"})
    assert (back.train.lr, back.optimiser.instance) == (0.05, Sgd()), "0.05 suits digits"
    assert base.replace(**{"train.optimiser": "sgd"}) == base
    stepped = base.replace(**{"train.schedule": "step:every=3"})
    assert stepped.train.lr == 0.3
    assert stepped.replace(**{"train.schedule": "cosine"}).schedule.instance == CosineDecay()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            "train.optimiser=adam train.momentum=0.5",
            "train.momentum: belongs to train.optimiser=sgd; adam has beta1, beta2, eps,"
            " weight_decay. Choose that, or leave it out",
        ),
        ("train.optimiser=adam:momentum=0.5", "train.momentum: belongs to train.optimiser=sgd"),
        ("train.beta1=0.5", "train.beta1: belongs to train.optimiser=adam or adamw; sgd has"),
        ("train.optimiser=adam train.beta=0.5", "train: unknown option 'beta'; did you mean"),
        ("train.optimiser=adagrad", "unknown optimiser 'adagrad'"),
        ("train.optimiser=3", "train.optimiser: expected a name, got 3"),
        ("train.optimiser=adam train.beta1=1", "adam: beta1 should be less than 1, got 1"),
        ("train.optimiser=adam train.eps=0", "adam: eps should be greater than 0, got 0"),
        (
            "train.optimiser=adam:beta1=0.5 train.beta1=0.6",
            "train.beta1: is given twice, 0.5 and 0.6; leave one out",
        ),
        ("train.schedule=linear", "unknown schedule 'linear'"),
        ("train.floor=0.1", "train.floor: belongs to train.schedule=cosine or warmup; constant"),
        (
            "train.schedule=step train.every=25",
            "train.every: the rate would first fall after 25 rounds, and the run has 25; use less,"
            " or train.schedule=constant",
        ),
        (
            "train.schedule=warmup train.warmup=30",
            "train.warmup: the rate would rise for 30 rounds",
        ),
        ("train.schedule=warmup train.floor=0.1", "train.floor: 0.1 is where a cosine ends; add"),
        ("train.keep=true train.momentum=0", "train.keep: sgd with train.momentum=0.0"),
        ("train.keep=7", "train: keep should be a valid boolean"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line_before_anything_runs(
    words: str, line: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(overrides=words.split())
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_a_section_that_is_no_table_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"train: expected train\.option=value, got 5"):
        load(overrides=["train=5"])


def test_the_module_of_a_peer_may_have_parameters_that_no_loss_depends_on() -> None:
    class Spare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.spare, self.last = (
                nn.Linear(16, 4),
                nn.Linear(4, 4),
                nn.Linear(4, 3),
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.last(self.first(x.flatten(1)).relu())
            return out

    mine = learner(Spare, AdamW())
    kept, start = nothing_yet(mine), mine.initial()
    got = mine.fit(start, samples(8), np.random.default_rng(0), 1, moments=kept).theta
    for slot in mine.layout.slots:
        moved = not torch.equal(slot.of(got), slot.of(start))
        assert moved == bool(slot.of(kept["m"]).any()) == (not slot.name.startswith("spare"))
