"""Methods against the few lines that define them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from amity.core import START, Fit, Fitted, Share
from amity.learn.learner import Bounds, Recipe
from amity.learn.optimisers.sgd import Sgd
from amity.methods.dispfl import Dispfl, erk_densities
from amity.methods.ditto import Ditto
from amity.net.wire import encode_share
from amity.peer.mixing import mix
from amity.rng import rng
from tests.conftest import EVERY_STRATEGY, simulate, spec_id, tiny
from tests.test_learn import learner, net, samples

PLAIN = Recipe(
    lr=0.1, lr_head=0.1, optimiser=Sgd(momentum=0.9, weight_decay=0.0), batch=4, clip=0.0
)


def test_a_step_of_ditto_is_the_gradient_plus_lambda_times_the_way_from_the_received_model() -> (
    None
):
    data, mine, lam = samples(), learner(PLAIN), 0.7
    v, w = mine.initial(), mine.initial() + 0.3
    got, _ = mine.fit(v, data, np.random.default_rng(5), 2, bounds=Bounds(anchor=w, pull=lam))

    module = net()
    parameters, momentum = (
        list(module.parameters()),
        [torch.zeros_like(p) for p in module.parameters()],
    )
    anchors = [slot.of(w) for slot in mine.layout.slots]
    draw = np.random.default_rng(5)
    draw.integers(2**62)
    for _ in range(2):
        for batch in torch.split(torch.from_numpy(draw.permutation(10)), 4):
            loss = F.cross_entropy(module(data.pixels.x[batch]), data.pixels.y[batch])
            gradients = torch.autograd.grad(loss, parameters)
            with torch.no_grad():
                for p, g, m, a in zip(parameters, gradients, momentum, anchors, strict=True):
                    m.mul_(0.9).add_(g + lam * (p - a))  # the proximal term joins before momentum
                    p.sub_(0.1 * m)
    expected = torch.cat([p.detach().flatten() for p in parameters])
    torch.testing.assert_close(got, expected)


def test_a_large_lambda_holds_the_personal_model_at_the_received_one_and_none_lets_it_go() -> None:
    data, mine = (
        samples(),
        learner(
            Recipe(
                lr=0.01,
                lr_head=0.01,
                optimiser=Sgd(momentum=0.0, weight_decay=0.0),
                batch=4,
                clip=0.0,
            )
        ),
    )
    w = mine.initial() + 0.3
    far, near = (
        (
            mine.fit(
                mine.initial(), data, np.random.default_rng(5), 20, bounds=Bounds(w, lam)
            ).theta
            - w
        ).norm()
        for lam in (0.0, 50.0)
    )
    assert near < 0.1 * far


@pytest.mark.parametrize(
    ("total", "epochs", "expected"),
    [(5, 0, (2, 3)), (1, 0, (1, 1)), (2, 3, (2, 3)), (0, 0, (0, 0)), (10, 0, (4, 6))],
)
def test_ditto_shares_the_epochs_as_documented(
    total: int, epochs: int, expected: tuple[int, int]
) -> None:
    assert Ditto(epochs=epochs)._epochs(total) == expected


def test_ditto_trains_v_towards_the_start_of_the_round_and_evaluates_v() -> None:
    simulation = simulate(tiny(method="ditto", strategy="gossip", engine={"vectorise": "off"}))
    simulation.round()
    peer = simulation.peers["peer-00"]
    start, personal = peer.start.clone(), peer.rows.state["personal"].clone()
    ctx = peer.context("train")
    simulation.round()
    # by hand, with the same stream: first w, then v
    peer.round = 1
    ctx = peer.context("train")
    world = simulation.world
    world.learner.fit(start, ctx.train, ctx.rng, 1, None, 1)
    expected = world.learner.fit(personal, ctx.train, ctx.rng, 1, None, 1, Bounds(start, 0.5)).theta
    assert torch.equal(peer.rows.state["personal"], expected)
    assert torch.equal(simulation.final_model("peer-00"), expected)


# -- Dis-PFL ---------------------------------------------------------------------------------------


def test_erk_gives_the_asked_density_and_makes_small_layers_dense() -> None:
    shapes = [(32, 1, 5, 5), (32,), (64, 32, 5, 5), (64,), (512, 1024), (512,), (10, 512), (10,)]
    densities = erk_densities(shapes, 0.5)
    sizes = [math.prod(shape) for shape in shapes]
    assert sum(d * n for d, n in zip(densities, sizes, strict=True)) == pytest.approx(
        0.5 * sum(sizes)
    )
    assert all(d == 1 for d, shape in zip(densities, shapes, strict=True) if len(shape) == 1)
    # what is not dense has density ∝ Σ shape / Π shape
    raw = [sum(shape) / math.prod(shape) for shape in shapes]
    ratio = {round(d / r, 9) for d, r in zip(densities, raw, strict=True) if d < 1}
    assert len(ratio) == 1
    assert erk_densities(shapes, 1.0) == [1.0] * len(shapes)


def counts(simulation: Any, mask: torch.Tensor) -> list[int]:
    return [int(slot.of(mask).sum()) for slot in simulation.world.learner.layout.slots]


@pytest.mark.parametrize("regrow", ["gradient", "random"])
def test_masks_keep_their_count_in_every_layer_and_weights_outside_are_zero(regrow: str) -> None:
    simulation = simulate(
        tiny(method={"name": "dispfl", "regrow": regrow}, strategy="gossip", rounds=4)
    )
    before = {name: peer.rows.state["mask"].clone() for name, peer in simulation.peers.items()}
    for _ in range(3):
        simulation.round()
    for name, peer in simulation.peers.items():
        mask = peer.rows.state["mask"]
        assert counts(simulation, mask) == counts(simulation, before[name])
        assert not torch.equal(mask, before[name])
        assert not peer.start[~mask].any()
        assert peer.share.mask is not None
        assert peer.share.nbytes == 4 * int(peer.share.mask.sum()) + (len(mask) + 7) // 8
    masks = torch.stack(list(before.values()))
    assert not torch.equal(masks[0], masks[1])


def test_weights_outside_the_mask_are_zero_after_every_step() -> None:
    mine, data = learner(PLAIN), samples(4)  # one batch: every epoch is a step
    mask = torch.from_numpy(rng(0, "mask").random(mine.layout.size) < 0.5)
    for steps in (1, 2, 3):
        theta, _ = mine.fit(
            mine.initial() * mask, data, np.random.default_rng(1), steps, bounds=Bounds(mask=mask)
        )
        assert not theta[~mask].any()
        assert theta[mask].any()


def test_the_smallest_weights_are_dropped_and_the_steepest_grown() -> None:
    simulation = simulate(
        tiny(method={"name": "dispfl", "anneal": 0.5}, engine={"vectorise": "off"})
    )
    peer, method = simulation.peers["peer-00"], Dispfl(anneal=0.5)
    ctx, mask = peer.context("train"), peer.rows.state["mask"]
    steps = method.train(peer.rows.state, peer.start, ctx)
    request = next(steps)
    assert isinstance(request, Fit)
    # in every layer, later ones are larger
    trained = torch.where(mask, torch.arange(len(mask)) / len(mask) + 0.5, 0.0)
    ask = steps.send(Fitted(trained, 1.0))
    slope = torch.arange(len(mask), 0, -1).float()  # earlier ones are steeper
    with pytest.raises(StopIteration) as done:
        steps.send(Fitted(slope, 1.0))
    state, theta, _ = done.value.value
    for slot in simulation.world.learner.layout.slots:
        old, new = slot.of(mask).flatten().numpy(), slot.of(state["mask"]).flatten().numpy()
        if old.all():
            assert (new == old).all()
            continue
        dropped = math.ceil(0.5 * old.sum())  # r_0 = anneal
        left = old.copy()
        left[np.flatnonzero(old)[:dropped]] = False
        grown = np.flatnonzero(~left)[:dropped]
        expected = left.copy()
        expected[grown] = True
        assert (new == expected).all()
        assert (slot.of(state["fresh"]).flatten().numpy() == (expected & ~left)).all()
    assert not theta[state["fresh"]].any()
    assert not ask.theta[~state["mask"] | state["fresh"]].any()
    share = method.share(state, theta, ctx)
    assert share.mask is not None
    assert not share.mask[state["fresh"]].any()


@given(st.integers(1, 4), st.integers(1, 9), st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_consensus_equals_the_mean_of_those_who_have_a_coordinate(
    peers: int, size: int, seed: int
) -> None:
    draw = np.random.default_rng(seed)
    theta, masks = (
        draw.normal(size=(peers, size)).astype(np.float32),
        draw.random((peers, size)) < 0.6,
    )
    row = {f"p{k}": 1 / peers for k in range(peers)}
    shares = {
        f"p{k}": Share(torch.from_numpy(theta[k] * masks[k]), torch.from_numpy(masks[k]))
        for k in range(peers)
    }
    mixed = mix(row, shares)
    assert mixed.mask is not None
    for c in range(size):
        have = masks[:, c]
        assert bool(mixed.mask[c]) == have.any()
        assert float(mixed.theta[c]) == pytest.approx(
            theta[have, c].mean() if have.any() else 0.0, abs=1e-5
        )
    ones = {
        j: Share(share.theta, torch.ones(size, dtype=torch.bool)) for j, share in shares.items()
    }
    plain = {j: Share(share.theta) for j, share in shares.items()}
    torch.testing.assert_close(mix(row, ones).theta, mix(row, plain).theta)


def test_with_density_one_and_still_masks_dispfl_is_fine_tuning() -> None:
    layers: dict[str, Any] = {"strategy": "gossip", "rounds": 3}
    dense = simulate(tiny(method={"name": "dispfl", "density": 1.0, "anneal": 0.0}, **layers))
    plain = simulate(tiny(method="finetune", **layers))
    for _ in range(3):
        a, b = dense.round(), plain.round()
    for name in dense.names:
        torch.testing.assert_close(dense.peers[name].start, plain.peers[name].start)
    assert a.network.accuracy == pytest.approx(b.network.accuracy)


def test_masks_are_alike_where_that_is_asked_for() -> None:
    simulation = simulate(tiny(method={"name": "dispfl", "alike": True}))
    masks = [peer.rows.state["mask"] for peer in simulation.peers.values()]
    assert all(torch.equal(masks[0], mask) for mask in masks)


def test_a_guest_of_dispfl_is_trained_within_its_own_mask() -> None:
    simulation = simulate(tiny(method="dispfl", engine={"vectorise": "off"}))
    host, guest = simulation.peers["peer-01"], simulation.peers["peer-00"]
    state = {key: value.clone() for key, value in host.rows.state.items()}
    offer = host.host_visit(guest.share_start, "peer-00", None, 1)
    assert offer.share is not None
    assert offer.share.mask is not None
    assert torch.equal(offer.share.mask, guest.rows.state["mask"])
    assert not offer.share.theta[~guest.rows.state["mask"]].any()
    assert all(torch.equal(value, state[key]) for key, value in host.rows.state.items())


# -- heads, and what must stay ---------------------------------------------------------------------


def test_a_joint_head_trains_body_and_head_at_once() -> None:
    simulation = simulate(
        tiny(
            method={"name": "head", "phases": "joint"},
            engine={"vectorise": "off"},
            eval={"gradients_every": 0},
        )
    )
    peer = simulation.peers["peer-00"]
    start, ctx = peer.start.clone(), peer.context("train")
    simulation.round()
    expected = simulation.world.learner.fit(start, ctx.train, ctx.rng, 1, None, 0).theta
    assert torch.equal(peer.trained, expected)


STAYS = {"head": "theta", "ditto": "personal"}


@pytest.mark.parametrize("spec", EVERY_STRATEGY, ids=spec_id)
@pytest.mark.parametrize("method", STAYS)
def test_nan_planted_in_what_must_stay_never_reaches_anyone(
    spec: dict[str, Any], method: str
) -> None:
    """After a round, one peer's head (or personal model) is NaN; nobody else's numbers may become
    so."""
    simulation = simulate(tiny(strategy=spec, method=method, rounds=3, eval={"gradients_every": 0}))
    simulation.round()
    head = simulation.world.learner.layout.head
    bad = simulation.peers["peer-03"]
    if method == "head":
        bad.start[head] = torch.nan
    else:
        bad.rows.state["personal"].fill_(torch.nan)

    def poisoned(_round: int) -> None:
        if method == "head":  # as if its training had led there: the body is what it was
            bad.trained.copy_(torch.where(torch.isnan(bad.trained), torch.zeros(()), bad.trained))
            bad.trained[head] = torch.nan
            bad._publish(bad.rows.next_state)

    simulation.on_trained = poisoned
    simulation.round()
    for name, peer in simulation.peers.items():
        if name != "peer-03":
            assert torch.isfinite(peer.start).all(), name
            assert all(
                torch.isfinite(value).all()
                for value in peer.rows.state.values()
                if value.is_floating_point()
            )


@pytest.mark.parametrize("method", STAYS)
def test_what_must_stay_is_in_the_bytes_of_no_message(method: str) -> None:
    simulation = simulate(tiny(method=method, strategy={"name": "afind+", "preset": "literal"}))
    simulation.round()
    simulation.round()
    head = simulation.world.learner.layout.head
    for name, peer in simulation.peers.items():
        host = simulation.peers["peer-01" if name == "peer-00" else "peer-00"]
        visited = host.host_visit(peer.share_start, name, None, 1).share
        assert visited is not None
        secret = (
            [peer.rows.state["personal"], peer.rows.next_state["personal"]]
            if method == "ditto"
            else []
        )
        if method == "head":
            secret = [peer.trained[head], peer.start[head], host.trained[head], host.start[head]]
        for share in (peer.share, peer.share_start, visited):
            body = encode_share(share, "fp32", rng(0))
            for vector in secret:
                for number in vector[vector != 0][:50]:
                    assert number.numpy().tobytes() not in body


def test_a_row_on_start_leaves_the_masks_and_personal_models_as_training_left_them() -> None:
    simulation = simulate(tiny(method="ditto", engine={"vectorise": "off"}))
    peer = simulation.peers["peer-00"]
    simulation.shard.train(("peer-00",), 0, None)
    mixed = mix({START: 1.0}, {START: peer.share_start})
    peer.settle(mixed)
    assert torch.equal(peer.start, simulation.world.initial)
    assert torch.equal(peer.rows.state["personal"], peer.rows.next_state["personal"])
