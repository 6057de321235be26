"""Stacked training against its oracle, one peer after the other; and the learner's own short cuts
against the long way."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from amity.data.samples import Samples
from amity.learn.layout import layout_of
from amity.learn.learner import Learner, Recipe
from amity.learn.optimisers.sgd import Sgd
from amity.learn.stacked import FitJob, Stack
from amity.learn.tensors import Archive, encode
from tests.test_learn import samples


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))


def conv() -> nn.Module:
    body = [
        nn.Conv2d(1, 3, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(3, 4, 3),
        nn.GroupNorm(2, 4),
        nn.ReLU(),
    ]
    return nn.Sequential(*body, nn.Flatten(), nn.Linear(16, 3))


def patches() -> nn.Module:
    body = [nn.Conv2d(1, 3, 2, 2), nn.ReLU(), nn.Conv2d(3, 4, (1, 2), (1, 2)), nn.ReLU()]
    return nn.Sequential(
        nn.Sequential(*body, nn.Flatten()), nn.Linear(8, 5), nn.ReLU(), nn.Linear(5, 3)
    )


def patches_with_a_margin() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 3, 1),
        nn.ReLU(),
        nn.Conv2d(3, 4, 3, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4, 3),
    )


NETS = [mlp, conv, patches, patches_with_a_margin]


def learner(make: object, recipe: Recipe) -> Learner:
    torch.manual_seed(0)
    module = make()  # type: ignore[operator]
    return Learner(module, layout_of(module), recipe)


@given(
    sizes=st.lists(st.integers(0, 13), min_size=2, max_size=6),
    batch=st.integers(1, 6),
    epochs=st.integers(0, 3),
    part=st.sampled_from(["everything", "head", "body"]),
    recipe=st.tuples(
        st.sampled_from([0.0, 0.9]), st.sampled_from([0.0, 0.01]), st.sampled_from([0.0, 0.3])
    ),
    make=st.sampled_from(NETS),
)
@settings(max_examples=40, deadline=None)
def test_peers_trained_in_one_stack_end_where_each_ends_alone(
    sizes: list[int],
    batch: int,
    epochs: int,
    part: str,
    recipe: tuple[float, float, float],
    make: object,
) -> None:
    mine = learner(
        make,
        Recipe(
            lr=0.1,
            lr_head=0.02,
            optimiser=Sgd(momentum=recipe[0], weight_decay=recipe[1]),
            batch=batch,
            clip=recipe[2],
            decay=0.9,
        ),
    )
    base = samples(sum(sizes) + 1)
    edges = np.cumsum([0, *sizes])
    datas = [Samples(base.pixels, torch.arange(a, b)) for a, b in pairwise(edges)]
    draw = torch.Generator().manual_seed(1)
    thetas = [mine.initial() + 0.01 * torch.randn(mine.layout.size, generator=draw) for _ in sizes]
    where = getattr(mine.layout, part)
    alone = [
        mine.fit(theta, data, np.random.default_rng(k), epochs, where, 2)
        for k, (theta, data) in enumerate(zip(thetas, datas, strict=True))
    ]
    jobs = [
        FitJob(t, d, np.random.default_rng(k))
        for k, (t, d) in enumerate(zip(thetas, datas, strict=True))
    ]
    for one, other in zip(alone, Stack(mine).fit(jobs, epochs, where, 2), strict=True):
        torch.testing.assert_close(one.theta, other.theta, rtol=1e-4, atol=1e-5)
        assert one.loss == pytest.approx(other.loss, rel=1e-3, abs=1e-5, nan_ok=True)


@pytest.mark.parametrize("make", NETS)
def test_stacked_losses_and_scores_are_those_of_each_alone(make: object) -> None:
    mine = learner(
        make,
        Recipe(lr=0.1, lr_head=0.1, optimiser=Sgd(momentum=0, weight_decay=0), batch=4, clip=0),
    )
    base = samples(60)
    datas = [
        Samples(base.pixels, torch.arange(a, b)) for a, b in ((0, 5), (5, 30), (30, 31), (31, 60))
    ]
    thetas = [mine.initial() * scale for scale in (1.0, -0.5, 2.0, 0.1)]
    stack = Stack(mine)
    for theta, data, loss, score in zip(
        thetas, datas, stack.losses(thetas, datas), stack.scores(thetas, datas), strict=True
    ):
        assert loss == pytest.approx(mine.loss(theta, data), rel=1e-4)
        alone = mine.score(theta, data)
        assert score.metrics == pytest.approx(alone.metrics)


def test_head_epochs_on_cached_features_end_where_the_long_way_ends() -> None:
    short = learner(
        conv,
        Recipe(lr=0.1, lr_head=0.1, optimiser=Sgd(momentum=0.9, weight_decay=0), batch=4, clip=0),
    )
    long = learner(
        conv,
        Recipe(lr=0.1, lr_head=0.1, optimiser=Sgd(momentum=0.9, weight_decay=0), batch=4, clip=0),
    )
    long._cached_features = lambda data: None  # type: ignore[method-assign]
    counted = [0, 0]
    for at, mine in enumerate((short, long)):
        mine.module.register_forward_hook(
            lambda *_, at=at: counted.__setitem__(at, counted[at] + 1)
        )
    data = samples(30)
    results = [
        m.fit(m.initial(), data, np.random.default_rng(0), 3, m.layout.head) for m in (short, long)
    ]
    torch.testing.assert_close(results[0].theta, results[1].theta, rtol=1e-4, atol=1e-6)
    assert results[0].loss == pytest.approx(results[1].loss, rel=1e-4)
    probe = 1  # of two examples, once in a learner's life: does it draw from torch's generator?
    assert counted == [probe + 1, probe + 3 * 8]  # the body once, instead of in every step


def test_features_are_not_cached_where_they_change_or_where_the_head_is_not_last() -> None:
    def dropout() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.Dropout(0.5), nn.Linear(8, 3))

    def beyond() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.Linear(8, 3), nn.Tanh())

    for make in (dropout, beyond):
        mine = learner(
            make,
            Recipe(lr=0.1, lr_head=0.1, optimiser=Sgd(momentum=0, weight_decay=0), batch=4, clip=0),
        )
        assert mine._cached_features(samples(5)) is None
    augmented = learner(
        conv,
        Recipe(
            lr=0.1,
            lr_head=0.1,
            optimiser=Sgd(momentum=0, weight_decay=0),
            batch=4,
            clip=0,
            augment=True,
        ),
    )
    assert augmented._cached_features(samples(5)) is None


def test_theta_comes_out_of_channels_last_as_it_went_in() -> None:
    mine = learner(
        conv,
        Recipe(lr=0.1, lr_head=0.1, optimiser=Sgd(momentum=0, weight_decay=0), batch=4, clip=0),
    )
    torch.manual_seed(0)
    named = dict(conv().named_parameters())
    wanted = torch.cat([named[slot.name].detach().flatten() for slot in mine.layout.slots])
    assert torch.equal(mine.initial(), wanted)
    fitted = mine.fit(wanted, samples(8), np.random.default_rng(0), 1, mine.layout.head)
    assert torch.equal(fitted.theta[mine.layout.body], wanted[mine.layout.body])


def test_snapshots_streamed_to_a_file_are_read_back_by_safetensors(tmp_path: object) -> None:
    from hashlib import sha256
    from pathlib import Path

    draw = torch.Generator().manual_seed(0)
    peers = {
        name: {
            "start": torch.randn(5, generator=draw),
            "state.mask": torch.rand(5, generator=draw) < 0.5,
        }
        for name in "abc"
    }
    digest = sha256()
    data = b"".join(encode(tuple(peers), iter(peers.items()), digest.update))
    file = Path(str(tmp_path)) / "x.safetensors"
    file.write_bytes(data)
    assert digest.hexdigest() == sha256(data).hexdigest()
    assert set(safetensors.torch.load(data)) == {
        f"{n}/{k}" for n in peers for k in ("start", "state.mask")
    }
    for name, tensors in peers.items():
        back = Archive(file).of(name)
        assert all(torch.equal(back[key], tensors[key]) for key in tensors)
