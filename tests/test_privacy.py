"""Differential privacy: mechanisms against their formulas, ε against Opacus, and what may be called
a guarantee."""

from __future__ import annotations

import json
import math
import statistics
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import amity
from amity.config import resolve
from amity.core import Share
from amity.data.samples import Samples
from amity.data.target import Target
from amity.errors import ConfigError
from amity.files import dump
from amity.lab.comparison import read_comparison
from amity.lab.reports import write_report
from amity.learn.clipping import by_functions, by_layers
from amity.learn.layout import layout_of
from amity.learn.learner import DpSgd, Learner, Recipe
from amity.learn.models import models
from amity.learn.optimisers.sgd import Sgd
from amity.net.accounts import Accounts, privacy_of
from amity.peer.privacy import (
    Account,
    PrivateGradients,
    PrivateUpload,
    ProxyNoise,
    account_of,
    clipped,
    statement,
    uncovered,
)
from amity.tasks.classify import Classify
from tests.conftest import EVERY_METHOD, simulate, tiny
from tests.test_every_strategy import check
from tests.test_learn import samples
from tests.test_stacked import conv, mlp

cross_entropies = partial(Classify().losses, target=Target(3))


def residual() -> nn.Module:
    return models["resnet18_gn"].build({"groups": 4}).build((1, 8, 8), 3)


class Twice(nn.Module):
    """One layer called twice, and weights used without their layer: what only the plain version can
    do."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(16, 16), nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(torch.relu(self.body(torch.relu(self.body(x.flatten(1))))))
        return out


class InPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(16, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.body(x.flatten(1)).relu_())
        return out


# -- per-example gradients -------------------------------------------------------------------------


@pytest.mark.parametrize("make", [mlp, conv, residual])
@pytest.mark.parametrize("clip", [0.0, 0.3])
def test_the_fast_sum_of_clipped_gradients_is_that_of_a_loop(make: Any, clip: float) -> None:
    torch.manual_seed(0)
    module = make()
    shape = (8, 8) if make is residual else (4, 4)
    x, y = torch.randn(5, 1, *shape), torch.tensor([0, 1, 2, 0, 1])
    trained = dict(module.named_parameters())
    expected = {name: torch.zeros_like(p) for name, p in trained.items()}
    for k in range(5):  # one example after the other: the definition
        loss = F.cross_entropy(module(x[k : k + 1]), y[k : k + 1])
        grads = torch.autograd.grad(loss, list(trained.values()))
        norm = torch.sqrt(sum(g.square().sum() for g in grads))  # type: ignore[arg-type]
        for name, g in zip(trained, grads, strict=True):
            expected[name] += g * (min(1.0, clip / float(norm)) if clip else 1.0)
    fast, plain = (
        by_layers(module, trained, module, cross_entropies, x, y, clip),
        by_functions(module, trained, cross_entropies, x, y, clip),
    )
    assert fast is not None
    for found, losses in (fast, plain):
        torch.testing.assert_close(
            losses, F.cross_entropy(module(x), y, reduction="none"), rtol=1e-4, atol=1e-5
        )
        for name in trained:
            torch.testing.assert_close(found[name], expected[name], rtol=1e-3, atol=1e-5)


class Folded(nn.Module):
    """Two rows of an example go through the body as if they were examples."""

    def __init__(self, by_time: bool = False) -> None:
        super().__init__()
        self.by_time, self.body, self.head = by_time, nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.flatten(1).view(len(x), 2, 8)
        if self.by_time:
            # time first: with two examples, of the same length
            seen = self.body(rows.transpose(0, 1)).transpose(0, 1)
        else:
            seen = self.body(rows.reshape(-1, 8)).view(len(x), 2, 8)
        out: torch.Tensor = self.head(seen.sum(1).relu())
        return out


@pytest.mark.parametrize("by_time", [False, True])
def test_no_example_counts_for_more_than_the_clip_in_modules_that_fold_rows_into_the_batch(
    by_time: bool,
) -> None:
    torch.manual_seed(0)
    module = Folded(by_time)
    mine = Learner(
        module,
        layout_of(module, "head", "body"),
        Recipe(
            lr=1.0, lr_head=1.0, optimiser=Sgd(momentum=0.0, weight_decay=0.0), batch=2, clip=0.0
        ),
    )
    base = samples(2)
    data = Samples(
        type(base.pixels)(100 * base.pixels.x, base.pixels.y, base.pixels.mean, base.pixels.std),
        base.index,
    )
    theta = mine.initial()
    gradient = mine.slope(theta, data, np.random.default_rng(0), DpSgd(0.0, 0.1)).theta
    assert float(gradient.norm()) <= 2 * 0.1 / 2 + 1e-6  # two examples of at most C each, by L = 2
    assert list(mine._by_layers.values()) == [False]


@pytest.mark.parametrize(
    "make",
    [Twice, InPlace, lambda: nn.Sequential(nn.Flatten(), nn.LayerNorm(16), nn.Linear(16, 3))],
)
def test_modules_that_the_fast_way_does_not_know_are_left_to_the_plain_one(make: Any) -> None:
    torch.manual_seed(0)
    module = make()
    x, y = torch.randn(4, 1, 4, 4), torch.tensor([0, 1, 2, 0])
    assert (
        by_layers(module, dict(module.named_parameters()), module, cross_entropies, x, y, 1.0)
        is None
    )
    total, _ = by_functions(module, dict(module.named_parameters()), cross_entropies, x, y, 0.0)
    mean = torch.autograd.grad(F.cross_entropy(module(x), y), list(module.parameters()))
    for g, (name, _) in zip(mean, module.named_parameters(), strict=True):
        torch.testing.assert_close(total[name] / 4, g)


# -- DP-SGD ----------------------------------------------------------------------------------------


def private(batch: int = 4, lr: float = 0.1) -> Learner:
    torch.manual_seed(0)
    module = mlp()
    return Learner(
        module,
        layout_of(module),
        Recipe(
            lr=lr, lr_head=lr, optimiser=Sgd(momentum=0.9, weight_decay=0.0), batch=batch, clip=0.0
        ),
    )


def test_without_noise_and_clipping_dp_sgd_is_sgd_on_the_same_batches() -> None:
    data, mine = samples(30), private()
    got = mine.fit(mine.initial(), data, np.random.default_rng(3), 3, noise=DpSgd(0.0, 0.0))

    torch.manual_seed(0)
    module = mlp()
    optimiser = torch.optim.SGD(module.parameters(), 0.1, 0.9)
    draw = np.random.default_rng(3)
    draw.integers(2**62)
    for _ in range(3 * math.ceil(30 / 4)):
        batch = torch.from_numpy(np.flatnonzero(draw.random(30) < 4 / 30))
        optimiser.zero_grad()
        loss = (
            F.cross_entropy(module(data.pixels.x[batch]), data.pixels.y[batch], reduction="sum") / 4
        )
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    expected = torch.cat([p.detach().flatten() for p in module.parameters()])
    torch.testing.assert_close(got.theta, expected, rtol=0, atol=1e-6)
    assert mine.private_steps == mine.steps == 3 * math.ceil(30 / 4)


def test_the_noise_on_a_gradient_has_standard_deviation_sigma_c_over_l() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Flatten(), nn.Linear(16, 300), nn.ReLU(), nn.Linear(300, 3))
    mine = Learner(
        module,
        layout_of(module),
        Recipe(
            lr=1.0, lr_head=1.0, optimiser=Sgd(momentum=0.0, weight_decay=0.0), batch=5, clip=0.0
        ),
    )
    data, sigma, clip = samples(20), 2.0, 0.7
    draws = [np.random.default_rng(4) for _ in range(2)]
    quiet, noisy = (
        mine.slope(mine.initial(), data, draw, DpSgd(s, clip)).theta
        for draw, s in zip(draws, (0.0, sigma), strict=True)
    )
    noise = (noisy - quiet).numpy()  # the batch is drawn before the noise: it is the same
    assert len(noise) > 5000
    assert noise.std() == pytest.approx(sigma * clip / 5, rel=0.05)
    assert abs(noise.mean()) < 4 * sigma * clip / 5 / math.sqrt(len(noise))


def test_batches_take_every_example_by_chance() -> None:
    mine = private(batch=5)
    sizes = [
        len(batch)
        for _ in range(200)
        for batch in mine._batches(
            20, np.random.default_rng(_), private=True, batch=mine.recipe.batch
        )
    ]
    assert len(sizes) == 200 * 4
    assert np.mean(sizes) == pytest.approx(5, rel=0.1)
    assert np.var(sizes) == pytest.approx(20 * 0.25 * 0.75, rel=0.2)
    full = private(batch=50)
    assert [
        len(b)
        for b in full._batches(20, np.random.default_rng(0), private=True, batch=full.recipe.batch)
    ] == [20]


def test_a_step_that_catches_no_example_is_noise_alone() -> None:
    mine = private(batch=1)
    data = Samples(samples(2).pixels, torch.arange(2))
    before = mine.initial()
    seeds = [
        seed for seed in range(50) if not (_after_seed(seed).random(2) < 0.5).any()
    ]  # no example in the first batch
    theta, loss = mine.fit(
        before, data, np.random.default_rng(seeds[0]), 1, noise=DpSgd(2.0, 0.1, steps=1)
    )
    assert math.isnan(loss)
    step = (theta - before).numpy() / 0.1  # the learning rate
    assert step.std() == pytest.approx(2.0 * 0.1, rel=0.2)


def _after_seed(seed: int) -> np.random.Generator:
    """The generator of a fit after it has seeded torch."""
    draw = np.random.default_rng(seed)
    draw.integers(2**62)
    return draw


def test_part_of_a_model_trained_privately_leaves_the_rest_alone() -> None:
    mine, data = private(), samples(20)
    head, before = mine.layout.head, mine.initial()
    theta, _ = mine.fit(before, data, np.random.default_rng(0), 1, head, noise=DpSgd(1.0, 1.0))
    assert torch.equal(theta[: head.start], before[: head.start])
    assert not torch.equal(theta[head], before[head])


def test_dp_sgd_costs_at_most_three_plain_steps() -> None:
    """On `fashion` (fedavg_cnn, 28 x 28, batches of 64), fp32; the median of several pairs, as
    machines are noisy."""
    torch.manual_seed(0)
    module = models["fedavg_cnn"].build({}).build((1, 28, 28), 10)
    mine = Learner(
        module,
        layout_of(module),
        Recipe(
            lr=0.05, lr_head=0.05, optimiser=Sgd(momentum=0.0, weight_decay=0.0), batch=64, clip=0.0
        ),
    )
    base = samples(64, 10)
    x = torch.randn(64, 1, 28, 28)
    data = Samples(
        type(base.pixels)(x, base.pixels.y, base.pixels.mean, base.pixels.std), torch.arange(64)
    )
    theta = mine.initial()

    def seconds(noise: DpSgd | None) -> float:
        began = time.perf_counter()
        mine.fit(theta, data, np.random.default_rng(0), 3, noise=noise)
        return time.perf_counter() - began

    seconds(None), seconds(DpSgd(1.0, 1.0))
    ratios = [seconds(DpSgd(1.0, 1.0)) / seconds(None) for _ in range(7)]
    assert statistics.median(ratios) <= 3


# -- proxy and upload ------------------------------------------------------------------------------


def test_noise_on_a_card_has_standard_deviation_sigma_c_over_l_after_clipping() -> None:
    phi, draw = torch.full((20_000,), 3.0), np.random.default_rng(0)
    noisy = ProxyNoise(sigma=5.0, clip=0.5).card(phi, lambda v: v, 128, draw)
    bounded = phi * (0.5 / float(phi.norm()))
    assert float((noisy - bounded).std()) == pytest.approx(5 * 0.5 / 128, rel=0.03)
    assert float(
        ProxyNoise(sigma=0.0, clip=0.5).card(phi, lambda v: v, 128, draw).norm()
    ) == pytest.approx(0.5, rel=1e-4)
    own = ProxyNoise(sigma=5.0, clip=0.5, lot=10).card(phi, lambda v: v, 128, draw)
    assert float((own - bounded).std()) == pytest.approx(5 * 0.5 / 10, rel=0.03)


def test_noise_on_an_upload_has_deviation_sigma_c_and_only_where_something_is_offered() -> None:
    base, draw = torch.ones(20_000), np.random.default_rng(0)
    mask = torch.arange(20_000) < 15_000
    share = Share(torch.where(mask, base + 2.0, 0.0), mask)
    noisy = PrivateUpload(sigma=1.5, clip=0.8).upload(share, base, draw)
    assert not noisy.theta[~mask].any()
    update = torch.where(mask, torch.tensor(2.0), torch.tensor(0.0))
    expected = base + clipped(update, 0.8)
    assert float((noisy.theta - expected)[mask].std()) == pytest.approx(1.5 * 0.8, rel=0.03)


@pytest.mark.parametrize("name", ["proxy", "upload"])
@pytest.mark.parametrize("method", EVERY_METHOD)
def test_no_noise_and_no_clipping_is_no_privacy_bit_for_bit(name: str, method: str) -> None:
    layers: dict[str, Any] = {"method": method, "strategy": {"name": "afind+", "preset": "paper"}}
    with_it = simulate(tiny(privacy={"name": name, "sigma": 0.0, "clip": 0.0}, **layers))
    without = simulate(tiny(**layers))
    for _ in range(3):
        assert with_it.round().rows == without.round().rows
    for peer in without.names:
        assert torch.equal(with_it.peers[peer].start, without.peers[peer].start)


def test_an_uploading_peer_goes_on_from_what_others_see() -> None:
    simulation = simulate(
        tiny(
            privacy={"name": "upload", "sigma": 0.5, "clip": 1.0},
            strategy="local",
            method="finetune",
        )
    )
    simulation.round()
    for peer in simulation.peers.values():
        assert torch.equal(peer.start, peer.share.theta)
        assert not torch.equal(peer.start, peer.trained)


@pytest.mark.parametrize("noise", [{"sigma": 3.0}, {"sigma": 3.0, "of": "phi"}])
def test_noise_on_cards_lowers_similarity(noise: dict[str, Any]) -> None:
    notes = []
    for privacy in ({"name": "none"}, {"name": "proxy", "clip": 1.0, "lot": 8, **noise}):
        simulation = simulate(tiny(strategy="afind+", privacy=privacy))
        report = simulation.round()
        notes.append(np.mean([r.notes["similarity_max"] for r in report.peers.values()]))
    assert notes[1] < notes[0] - 0.1


# -- accounting ------------------------------------------------------------------------------------


def test_epsilon_is_the_figure_of_opacus() -> None:
    from opacus.accountants import PRVAccountant, RDPAccountant

    for kind, accountant in (("rdp", RDPAccountant()), ("prv", PRVAccountant())):
        accountant.history = [(1.1, 64 / 300, 120)]
        mine = Account(PrivateGradients(sigma=1.1, accountant=kind), 64 / 300)  # type: ignore[arg-type]
        assert mine.epsilon(120) == pytest.approx(accountant.get_epsilon(delta=1e-5), rel=1e-9)
    step_by_step = RDPAccountant()
    for _ in range(7):
        step_by_step.step(noise_multiplier=1.1, sample_rate=0.2)
    assert Account(PrivateGradients(sigma=1.1), 0.2).epsilon(7) == pytest.approx(
        step_by_step.get_epsilon(1e-5)
    )


def test_a_budget_allows_the_largest_number_of_steps_within_it() -> None:
    account = Account(PrivateGradients(sigma=1.0, budget=8.0), 0.2)
    limit = account.limit
    assert limit is not None
    assert account.epsilon(limit) <= 8 < account.epsilon(limit + 1)
    assert Account(PrivateGradients(sigma=1.0), 0.2).limit is None
    assert Account(PrivateGradients(sigma=1.0, budget=1e-6), 0.2).limit == 0
    assert math.isinf(Account(PrivateGradients(sigma=0.0), 0.2).epsilon(1))


@pytest.mark.parametrize("method", EVERY_METHOD)
def test_steps_are_counted_over_epochs_rounds_and_phases(method: str) -> None:
    simulation = simulate(
        tiny(method=method, strategy="gossip", privacy={"name": "gradients", "sigma": 1.0})
    )
    for _ in range(2):
        report = simulation.round()
    steps = math.ceil(10 / 8)  # of an epoch
    each = {"finetune": steps, "ditto": steps, "head": 2 * steps, "dispfl": steps + 1}[
        method
    ]  # head: β and w; regrowing
    for name in simulation.names:
        record = report.peers[name]
        assert record.private_steps == 2 * each
        account = account_of(PrivateGradients(sigma=1.0), 10, 8)
        assert account is not None
        assert record.epsilon == account.epsilon(2 * each)
    assert report.network.epsilon == record.epsilon
    assert report.network.excluded == ()


def test_every_visit_that_is_hosted_is_counted() -> None:
    simulation = simulate(
        tiny(
            strategy={"name": "afind+", "preset": "literal"},
            privacy={"name": "gradients"},
            method="finetune",
        )
    )
    report = simulation.round()
    steps = math.ceil(10 / 8)
    hosted = {
        name: sum(name in row and me != name for me, row in report.rows.items())
        for name in simulation.names
    }
    for name in simulation.names:
        assert report.peers[name].private_steps == steps * (1 + hosted[name])
    assert "Visit" in report.network.excluded


def test_a_spent_budget_stops_training_but_not_learning_from_others() -> None:
    budget = Account(PrivateGradients(sigma=1.0), 0.8).epsilon(3) + 1e-6
    simulation = simulate(
        tiny(
            strategy="gossip",
            privacy={"name": "gradients", "budget": budget},
            rounds=5,
            eval={"gradients_every": 0},
        )
    )
    reports = [simulation.round() for _ in range(4)]
    assert [r.peers["peer-00"].private_steps for r in reports] == [2, 3, 3, 3]
    assert [r.network.stopped for r in reports] == [0, 6, 6, 6]
    assert all(r.network.epsilon <= budget for r in reports)
    peer = simulation.peers["peer-00"]
    assert not torch.equal(peer.start, peer.trained)  # mixed with others
    before = peer.start.clone()
    simulation.round()
    assert torch.equal(peer.trained, before)


def test_a_budget_says_whom_it_stopped_and_one_without_room_for_a_step_is_refused() -> None:
    budget = Account(PrivateGradients(sigma=1.0), 0.8).epsilon(3) + 1e-6
    result = amity.run(
        tiny(strategy="gossip", privacy={"name": "gradients", "budget": budget}, rounds=3), "run"
    )
    assert "the budget stopped 6 of 6 peers, the first after round 2" in result.privacy
    with pytest.raises(ConfigError, match="a single step costs a peer with 10 examples ε = "):
        simulate(tiny(privacy={"name": "gradients", "budget": 0.1}))


def test_an_upload_is_counted_once_a_round_and_stops_with_the_budget() -> None:
    mechanism = PrivateUpload(sigma=2.0)
    budget = Account(mechanism, 1.0).epsilon(2) + 1e-6
    privacy = {"name": "upload", "sigma": 2.0, "budget": budget}
    simulation = simulate(
        tiny(strategy="gossip", privacy=privacy, rounds=4, eval={"gradients_every": 0})
    )
    spent = [simulation.round().peers["peer-00"].private_steps for _ in range(4)]
    assert spent == [1, 2, 2, 2]
    peer = simulation.peers["peer-00"]
    before = peer.start.clone()
    simulation.shard.train(("peer-00",), 4, None, (0,))
    assert torch.equal(peer.share.theta, before)
    assert not torch.equal(peer.trained, before)


@pytest.mark.parametrize(
    ("spec", "excluded"),
    [
        ("local", []),
        ("gossip", []),
        ("pens", ["Loss"]),
        ("dac", ["Loss", "Said"]),
        ({"name": "afind+", "preset": "paper"}, ["Reported", "Similarity of grad"]),
        ({"name": "afind", "proxy": "delta"}, []),
        ({"name": "afind", "proxy": "head_drift"}, []),
    ],
)
def test_epsilon_is_a_guarantee_only_where_no_fact_looks_at_raw_data(
    spec: Any, excluded: list[str]
) -> None:
    result = amity.run(tiny(strategy=spec, privacy="gradients"), "run")
    assert sorted({name for record in result.rounds for name in record.excluded}) == excluded
    if excluded:
        assert f"training only, excludes {', '.join(excluded)}" in result.privacy
    else:
        assert "guaranteed" in result.privacy
    assert result.privacy.startswith("ε = ")
    page = write_report(result.path).read_text()
    assert result.privacy in page
    assert f"<td>peer-03</td><td>{result.final('private_steps')['peer-03']}</td>" in page


def test_what_may_be_said_of_epsilon() -> None:
    assert statement(ProxyNoise(), 1.0, []) == ""
    assert "infinite" in statement(PrivateGradients(sigma=0.0), math.inf, [])
    assert "all data of a peer" in statement(PrivateUpload(), 3.0, [])
    from amity.methods.dispfl import Dispfl

    assert uncovered(PrivateUpload(), Dispfl(), []) == ["masks"]
    assert uncovered(PrivateGradients(), Dispfl(), ["Similarity of delta"]) == []


@pytest.mark.parametrize("name", ["proxy", "gradients", "upload"])
def test_a_run_with_privacy_that_was_killed_ends_with_the_same_bits_and_the_same_epsilon(
    name: str,
) -> None:
    config = tiny(
        rounds=4,
        privacy={"name": name, "budget": 30.0} if name != "proxy" else name,
        checkpoint={"every": 2},
    )
    whole = simulate(config)
    reports = [whole.round() for _ in range(4)]
    half = simulate(config)
    half.round(), half.round()
    again = simulate(config)
    kept = {
        peer: {key: value.clone() for key, value in tensors.items()}
        for peer, tensors in half.snapshots()
    }
    again.restore(2, kept.__getitem__, half.memories)
    for t in (2, 3):
        report = again.round()
        assert report.rows == reports[t].rows
        assert report.peers["peer-00"].private_steps == reports[t].peers["peer-00"].private_steps
    for peer in whole.names:
        assert torch.equal(whole.peers[peer].start, again.peers[peer].start)


def test_one_worker_or_two_give_the_same_private_bits() -> None:
    runs = []
    for workers in (1, 2):
        with simulate(tiny(privacy="gradients", engine={"workers": workers})) as simulation:
            simulation.round(), simulation.round()
            runs.append(
                (
                    torch.stack([p.start for p in simulation.peers.values()]).clone(),
                    simulation.memories,
                )
            )
    assert torch.equal(runs[0][0], runs[1][0])
    assert runs[0][1] == runs[1][1]


@pytest.mark.parametrize("name", ["proxy", "gradients", "upload"])
@pytest.mark.parametrize("method", EVERY_METHOD)
def test_every_kind_of_privacy_works_with_every_method_and_with_visits(
    name: str, method: str
) -> None:
    for spec in ("afind+", {"name": "afind+", "preset": "literal"}):
        check(
            simulate(
                tiny(
                    strategy=spec,
                    privacy={"name": name, "sigma": 0.1},
                    method=method,
                    stages="lossgate",
                )
            ),
            2,
        )


def test_nothing_of_a_raw_model_is_the_base_of_a_private_upload() -> None:
    """With Dis-PFL a row without me leaves coordinates nobody offers: what I published stands
    there, not a raw one."""
    simulation = simulate(
        tiny(
            strategy={"name": "afind+", "include_self": False},
            method="dispfl",
            privacy={"name": "upload", "sigma": 0.1, "clip": 0.001},
            eval={"gradients_every": 0},
        )
    )
    for _ in range(2):
        report = simulation.round()
    raw = 0
    for name, peer in simulation.peers.items():
        published = peer.share
        assert published.mask is not None
        told = published.mask & (peer.start == peer.trained) & (peer.trained != 0)
        raw += int(told.sum())
        assert report.rows[name].get(name) is None or len(report.rows[name]) == 1
    assert raw == 0


def test_after_a_spent_budget_norm_clipping_goes_by_the_last_step() -> None:
    budget = Account(PrivateGradients(sigma=1.0), 0.8).epsilon(3) + 1e-6
    privacy = {"name": "gradients", "budget": budget}
    simulation = simulate(tiny(strategy="gossip", stages="normclip", privacy=privacy, rounds=6))
    rows = [simulation.round().rows["peer-00"] for _ in range(5)]
    assert all(len(row) > 1 for row in rows)


# -- real peers ------------------------------------------------------------------------------------


def test_real_peers_draw_batches_and_noise_that_the_common_seed_does_not_tell() -> None:
    from dataclasses import replace

    simulation = simulate(tiny(privacy="gradients", strategy="gossip"))
    peer = simulation.peers["peer-00"]
    assert peer.context("train").rng.random() == peer.context("train").rng.random()
    peer.world = replace(peer.world, secret=True)
    assert peer.context("train").rng.random() != peer.context("train").rng.random()
    assert peer._noise("card", 0).random() != peer._noise("card", 0).random()


def test_accounts_remember_private_steps_over_a_restart(tmp_path: Any) -> None:
    accounts = Accounts(tmp_path / "disclosed.jsonl")
    accounts.spend("training", 0, again=True, steps=5)
    accounts.spend("visit", 0, "other", again=True, steps=2)
    accounts.spend("card", 0)
    accounts.close()
    assert Accounts(tmp_path / "disclosed.jsonl").private == 7


def test_what_a_real_peer_served_after_its_last_round_is_in_its_epsilon(tmp_path: Any) -> None:
    config = tiny(
        strategy={"name": "afind+", "preset": "literal"},
        privacy={"name": "gradients", "sigma": 2.0},
    )
    accounts = Accounts(tmp_path / "disclosed.jsonl")
    accounts.spend("training", 0, again=True, steps=5, rate=0.8)
    accounts.spend("visit", 0, "late guest", again=True, steps=6, rate=0.8)
    accounts.close()
    first = {"round": 0, "peer": "a", "excluded": ["Loss"], "epsilon": 1.0}
    lines = [first, {"round": 1, "peer": "a", "excluded": []}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = privacy_of(tmp_path, config)
    assert found is not None
    assert (found.steps, found.excluded) == (11, ("Loss", "Visit"))
    assert found.epsilon == Account(config.privacy.instance, 0.8).epsilon(11)
    assert "training only, excludes Loss, Visit" in found.statement
    assert privacy_of(tmp_path, tiny()) is None


# -- mistakes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ({"privacy": {"name": "gradients", "clip": 0.0}}, "noise needs a bound"),
        ({"privacy": {"name": "gradients", "sigma": -1.0}}, "greater than or equal to 0"),
        ({"privacy": {"name": "gradients", "delta": 0.0}}, "greater than 0"),
        ({"privacy": "dpsgd"}, "unknown privacy 'dpsgd'"),
        ({"privacy": {"name": "proxy", "budget": 3}}, "unknown option 'budget'"),
    ],
)
def test_mistakes_get_one_line(layer: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve([layer])


def test_private_training_cannot_be_stacked_and_says_so() -> None:
    with pytest.raises(ConfigError, match="privacy=gradients"):
        simulate(tiny(privacy="gradients", engine={"vectorise": "on"}))


def test_too_little_noise_for_the_accountant_is_reported_as_no_privacy() -> None:
    comparison = amity.compare(
        ["gossip"], [0], tiny(strategy="gossip", privacy="gradients", rounds=1), "c"
    )
    path = comparison.results["gossip"][0].path
    record = json.loads((path / "rounds.jsonl").read_text()) | {"epsilon": math.inf}
    (path / "rounds.jsonl").write_bytes(dump(record))
    again = read_comparison(Path("c"))
    assert again.results["gossip"][0].rounds[-1].epsilon == math.inf  # null, in JSON
    assert "ε is infinite" in again.results["gossip"][0].privacy
    assert again.lines[0].epsilon == math.inf


def test_epsilon_is_never_negative_and_budgets_of_prv_are_kept_by_rdp() -> None:
    assert Account(PrivateGradients(sigma=100.0, delta=0.1), 0.1).epsilon(1) == 0
    assert Account(PrivateGradients(sigma=5.0, budget=50.0, accountant="prv"), 0.1).limit == (
        Account(PrivateGradients(sigma=5.0, budget=50.0), 0.1).limit
    )


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ({"privacy": {"name": "gradients", "sigma": 0.001}}, "0 or at least 0.01"),
        ({"privacy": {"name": "gradients", "sigma": 0.0, "budget": 1.0}}, "a budget needs noise"),
        ({"privacy": {"name": "gradients", "delta": 0.9}}, "less than or equal to 0.1"),
        ({"privacy": {"name": "proxy", "sigma": 1e300}}, "less than or equal to 1000000"),
    ],
)
def test_extreme_noise_is_refused_in_one_line(layer: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve([layer])


def test_a_missing_opacus_is_said_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opacus", None)
    for go in (
        lambda: amity.run(tiny(privacy="gradients"), "r"),
        lambda: amity.compare(["gossip"], [0], tiny(privacy="upload"), "c"),
    ):
        with pytest.raises(ConfigError, match=r"pip install 'amity\[privacy\]'"):
            go()
    assert not Path("c").exists()
