from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from amity.data.inputs import Tokens, blank
from amity.data.samples import Pixels, Samples
from amity.errors import ConfigError
from amity.geometry import cosines
from amity.learn.layout import layout_of
from amity.learn.learner import Learner, Recipe
from amity.learn.models import models
from amity.learn.optimisers.sgd import Sgd
from amity.peer.proxy import Sketcher

RECIPE = Recipe(
    lr=0.1, lr_head=0.02, optimiser=Sgd(momentum=0.9, weight_decay=0.01), batch=4, clip=0.0
)


def samples(count: int = 10, classes: int = 3, seed: int = 0) -> Samples:
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 1, 4, 4, generator=draw)
    y = torch.randint(classes, (count,), generator=draw)
    return Samples(Pixels(x, y, torch.zeros(1, 1, 1), torch.ones(1, 1, 1)), torch.arange(count))


def net(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))


def learner(recipe: Recipe = RECIPE, seed: int = 0) -> Learner:
    module = net(seed)
    return Learner(module, layout_of(module), recipe)


def test_fit_equals_torch_sgd_with_two_learning_rates() -> None:
    data = samples()
    mine = learner()
    trained, loss = mine.fit(mine.initial(), data, np.random.default_rng(5), epochs=2)

    module = net()
    groups = [
        {"params": module[1].parameters(), "lr": 0.1},
        {"params": module[3].parameters(), "lr": 0.02},
    ]
    optimiser = torch.optim.SGD(groups, momentum=0.9, weight_decay=0.01)
    draw = np.random.default_rng(5)
    draw.integers(2**62)  # fit seeds torch once
    for _ in range(2):
        order = torch.from_numpy(draw.permutation(10))
        losses = []
        for batch in torch.split(order, 4):
            optimiser.zero_grad()
            value = F.cross_entropy(module(data.pixels.x[batch]), data.pixels.y[batch])
            value.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            losses.append(float(value.detach()) * len(batch))
    expected = torch.cat([p.detach().flatten() for p in module.parameters()])
    torch.testing.assert_close(trained, expected)
    assert loss == pytest.approx(sum(losses) / 10, rel=1e-5)


def test_clipping_bounds_the_gradient_norm() -> None:
    recipe = Recipe(
        lr=1.0, lr_head=1.0, optimiser=Sgd(momentum=0.0, weight_decay=0.0), batch=100, clip=0.01
    )
    mine = learner(recipe)
    start = mine.initial()
    trained, _ = mine.fit(start, samples(), np.random.default_rng(0), epochs=1)
    assert float((trained - start).norm()) == pytest.approx(0.01, rel=1e-3)


def test_decay_shrinks_the_step_from_round_to_round() -> None:
    recipe = Recipe(
        lr=0.1,
        lr_head=0.1,
        optimiser=Sgd(momentum=0.0, weight_decay=0.0),
        batch=100,
        clip=0.0,
        decay=0.5,
    )
    mine = learner(recipe)
    start = mine.initial()
    steps = [
        mine.fit(start, samples(), np.random.default_rng(0), 1, None, t)[0] - start for t in (0, 2)
    ]
    torch.testing.assert_close(steps[1], steps[0] / 4)


@pytest.mark.parametrize("part", ["body", "head"])
def test_training_a_part_leaves_the_rest_bit_identical(part: str) -> None:
    mine = learner()
    start = mine.initial()
    where = getattr(mine.layout, part)
    trained, _ = mine.fit(start, samples(), np.random.default_rng(0), 2, where)
    moved = trained != start
    assert moved[where].any()
    moved[where] = False
    assert not moved.any()


def test_gradient_is_that_of_the_mean_loss_over_everything() -> None:
    data = samples(2500)
    mine = learner()
    gradient, loss = mine.gradient(mine.initial(), data, mine.layout.proxy)
    module = net()
    value = F.cross_entropy(module(data.pixels.x), data.pixels.y)
    value.backward()  # type: ignore[no-untyped-call]
    weight, bias = module[1].weight.grad, module[1].bias.grad
    assert weight is not None
    assert bias is not None
    torch.testing.assert_close(gradient, torch.cat([weight.flatten(), bias]))
    assert loss == pytest.approx(float(value.detach()), rel=1e-5)


def test_costs_count_examples_and_measuring_is_free() -> None:
    mine, data = learner(), samples()
    theta = mine.initial()
    mine.fit(theta, data, np.random.default_rng(0), 3)
    mine.gradient(theta, data)
    mine.loss(theta, data)
    mine.score(theta, data)
    assert mine.costs() == (30 + 10 + 10, 30 + 10)


def test_balanced_accuracy_is_the_mean_recall_of_the_classes_that_occur() -> None:
    mine, data = learner(), samples(200)
    theta = mine.initial()
    predicted = net()(data.pixels.x).argmax(1).numpy()
    truth = data.pixels.y.numpy()
    recalls = [float((predicted[truth == k] == k).mean()) for k in np.unique(truth)]
    score = mine.score(theta, data)
    assert score.metrics["balanced"] == pytest.approx(np.mean(recalls))
    assert score.accuracy == pytest.approx(float((predicted == truth).mean()))


def test_mean_feature_is_the_mean_input_of_the_head() -> None:
    mine, data = learner(), samples(1500)
    torch.testing.assert_close(
        mine.mean_feature(mine.initial(), data), net()[:3](data.pixels.x).mean(0)
    )


# -- layout and models


SIZES = {
    ("fedavg_cnn", (3, 32, 32), 10): 878_538,
    ("fedavg_cnn", (1, 28, 28), 10): 582_026,
    ("dispfl_cnn", (3, 32, 32), 10): 797_962,
    ("leaf_cnn", (1, 28, 28), 62): 6_603_710,
    ("femnist_small", (1, 28, 28), 62): 137_598,
    ("cifar_small", (3, 32, 32), 10): 55_698,
}


@pytest.mark.parametrize(("name", "shape", "classes"), SIZES)
def test_models_have_the_published_number_of_parameters(
    name: str, shape: tuple[int, ...], classes: int
) -> None:
    module = models[name].build({}).build(shape, classes)
    assert layout_of(module).size == SIZES[name, shape, classes]


PROXIES = {
    "mlp": 784 * 64 + 64,
    "fashion_cnn2": 800 * 64 + 64,
    "fedavg_cnn": 1024 * 512 + 512,
    "dispfl_cnn": 384 * 192 + 192,
    "leaf_cnn": 3136 * 2048 + 2048,
    "femnist_small": 576 * 128 + 128,
    "cifar_small": 432 * 64 + 64,
    "resnet18_gn": 512 * 512 * 9,
    "cnn1d": 32 * 4 * 64 + 64,
    "gru": 64 * 64 + 64,
    "transformer": 64 * 64 + 64,
}
SHAPES = {"cnn1d": (3, 20), "gru": Tokens(12, 30), "transformer": Tokens(12, 30)}
"""What models take that want no images."""


@pytest.mark.parametrize("entry", list(models), ids=lambda entry: entry.name)
def test_every_model_runs_and_its_head_and_proxy_layer_are_found(entry: object) -> None:
    name = entry.name  # type: ignore[attr-defined]
    shape = SHAPES.get(name, (1, 28, 28))
    module = models[name].build({}).build(shape, 10)
    layout = layout_of(module)
    assert module(blank(shape, 2)).shape == (2, 10)
    assert layout.proxy.stop - layout.proxy.start == PROXIES[name]
    assert layout.body.stop == layout.head.start == layout.proxy.stop
    assert layout.head.stop == layout.size
    assert not any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in module.modules())


def test_layers_can_be_named_and_unknown_ones_are_refused() -> None:
    layout = layout_of(net(), head="1", proxy_layer="3")
    assert (layout.head_name, layout.proxy_name) == ("1", "3")
    with pytest.raises(ConfigError, match=r"model.head: unknown layer 'fc9'"):
        layout_of(net(), head="fc9")
    with pytest.raises(ConfigError, match="both '1'"):
        layout_of(net(), head="1", proxy_layer="1")


def test_images_too_small_for_a_model_are_refused() -> None:
    with pytest.raises(ConfigError, match="too small"):
        models["fedavg_cnn"].build({}).build((1, 8, 8), 10)


def test_any_torch_module_can_be_used_and_its_layers_named() -> None:
    import amity
    from tests.conftest import tiny

    Path("net.py").write_text(
        "from torch import nn\ndef make(shape, classes):\n    return nn.Sequential(nn.Flatten(),"
        " nn.Linear(64, 9), nn.Tanh(), nn.Dropout(0.1), nn.Linear(9, 7),\n                        "
        " nn.GroupNorm(7, 7), nn.Linear(7, classes))\n"
    )
    found = amity.run(tiny(rounds=2, model="net.py:make"), "found")
    # dropout is seeded too
    assert amity.run(tiny(rounds=2, model="net.py:make"), "again").metrics == found.metrics
    named = {"name": "net.py:make", "head": "6", "proxy_layer": "1"}
    assert amity.run(tiny(rounds=2, model=named, method={"name": "head"}), "named").complete
    assert amity.resume("named").complete


# -- sketches


def test_a_sketch_keeps_cosines_and_is_linear() -> None:
    draw = torch.Generator().manual_seed(0)
    a = torch.randn(50_000, generator=draw)
    b = 0.6 * a + 0.8 * torch.randn(50_000, generator=draw)
    sketch = Sketcher(seed=1)
    true = float(cosines(a, b[None])[0])
    assert float(cosines(sketch(a, 2048), sketch(b, 2048)[None])[0]) == pytest.approx(true, abs=0.1)
    torch.testing.assert_close(
        sketch(a + b, 64), sketch(a, 64) + sketch(b, 64), atol=1e-2, rtol=1e-3
    )
    assert torch.equal(sketch(a, 0), a)


def test_cosines_of_vanishing_vectors_are_zero_and_scale_does_not_matter() -> None:
    a, zero = torch.tensor([1.0, 2.0]), torch.zeros(2)
    assert cosines(a, torch.stack([3 * a, -a, zero])).tolist() == pytest.approx([1, -1, 0])
    assert cosines(zero, a[None]).tolist() == [0]


def test_a_learner_that_trains_in_another_thread_changes_no_bit() -> None:
    """torch has one generator for all threads: those that draw from it take turns, the others leave
    it alone."""
    plain, drawing = (
        net(),
        nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.Dropout(0.5), nn.Linear(8, 3)),
    )

    def fitted(module: nn.Module, times: int) -> list[torch.Tensor]:
        torch.set_num_threads(1)
        copy = Learner(deepcopy(module), layout_of(module), RECIPE)
        theta = copy.initial()
        return [
            copy.fit(theta, samples(40), np.random.default_rng(k), 2, copy.layout.head).theta
            for k in range(times)
        ]

    alone = [fitted(module, 20) for module in (drawing, plain)]
    with ThreadPoolExecutor(3) as pool:
        noise = [pool.submit(fitted, drawing, 60) for _ in range(2)]
        beside = [pool.submit(fitted, module, 20).result() for module in (drawing, plain)]
        for one in noise:
            one.result()
    for mine, theirs in zip(alone, beside, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))
