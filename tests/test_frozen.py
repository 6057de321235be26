"""Frozen parts: once for all peers, never sent, computed once; and what moves besides weights."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

import amity
from amity.bench.measure import in_child
from amity.config import Config, load
from amity.data.samples import Pixels, Samples
from amity.errors import ConfigError
from amity.learn.freezing import freeze
from amity.learn.layout import layout_of
from amity.learn.learner import Learner, Precision, Recipe
from amity.learn.optimisers.sgd import Sgd
from amity.learn.stacked import FitJob, Stack
from amity.store import commits
from amity.use.classifier import open_model
from tests.conftest import simulate, tiny
from tests.test_parity import swarm_of

RECIPE = Recipe(
    lr=0.1, lr_head=0.02, optimiser=Sgd(momentum=0.9, weight_decay=0.01), batch=4, clip=0.0
)
MB = 1_000_000


def samples(count: int = 30, seed: int = 0) -> Samples:
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 1, 8, 8, generator=draw)
    y = torch.randint(3, (count,), generator=draw)
    return Samples(Pixels(x, y, torch.zeros(1, 1, 1), torch.ones(1, 1, 1)), torch.arange(count))


class Skipping(nn.Module):
    """A frozen body with a connection around a part of it, and dropout above."""

    frozen = "stem.*,deep.*,norm.*"

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.deep = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.norm, self.drop = nn.BatchNorm2d(4), nn.Dropout(0.3)
        self.middle, self.head = nn.Linear(256, 6), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        low = F.relu(self.stem(x))
        high = self.norm(self.deep(low)) + low
        return self.head(F.relu(self.middle(self.drop(high.flatten(1)))))  # type: ignore[no-any-return]


class Peeking(nn.Module):
    """Its frozen part reads what a trained one says, in a way that no gradient shows."""

    frozen = "first.*,second.*"

    def __init__(self) -> None:
        super().__init__()
        self.first, self.trained = nn.Linear(64, 8), nn.Linear(8, 8)
        self.second, self.head = nn.Linear(8, 5), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        low = self.first(x.flatten(1)).relu()
        return self.head(self.second(self.trained(low).detach()).relu())  # type: ignore[no-any-return]


class ByBatch(nn.Module):
    """Its frozen part looks at the other examples of a batch."""

    frozen = "body.*"

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(64, 8), nn.Linear(8, 3)
        self.still = nn.BatchNorm1d(8, affine=False, track_running_stats=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.still(self.body(x.flatten(1))))  # type: ignore[no-any-return]


class Chain(nn.Sequential):
    frozen = "1.*"

    def __init__(self) -> None:
        layers = (nn.Linear(64, 9), nn.ReLU(), nn.Linear(9, 7), nn.ReLU(), nn.Linear(7, 3))
        super().__init__(nn.Flatten(), *layers)


KINDS: dict[type[nn.Module], list[str]] = {
    Skipping: ["stem", "norm"],
    Peeking: ["first"],
    ByBatch: ["body"],
    Chain: ["2"],
}
"""And what is kept of each."""


def module_of(kind: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(3)
    module = kind()
    freeze(module, str(getattr(module, "frozen", "")))
    return module


def learner_of(
    kind: Callable[[], nn.Module], limit: int = MB, precision: Precision = "fp32"
) -> Learner:
    module = module_of(kind)
    learner = Learner(module, layout_of(module), RECIPE, precision=precision)
    learner.spare(samples().pixels.x[:4], limit)
    return learner


@pytest.mark.parametrize("kind", KINDS)
def test_what_lies_below_the_first_trained_layer_is_found_and_left_out(kind: Any) -> None:
    cut, plain, data = learner_of(kind), learner_of(kind, 0), samples()
    assert plain.memory is None
    assert cut.memory is not None
    assert [one.name for one in cut.memory.prefix.kept] == KINDS[kind]
    calls = []
    last = cut.module.get_submodule(KINDS[kind][-1])
    last.register_forward_pre_hook(lambda *_: calls.append(1))
    cut.memory.keep([data])
    theta = plain.initial()
    assert torch.equal(theta, cut.initial())
    for _ in range(2):
        scores = [one.loss(theta, data) for one in (plain, cut)]
        assert scores[0] == scores[1]
        fitted = [one.fit(theta, data, np.random.default_rng(5), 3) for one in (plain, cut)]
        torch.testing.assert_close(fitted[0].theta, fitted[1].theta)
    kept, anew = cut.memory.of(data), learner_of(kind)
    assert kept is not None
    assert torch.equal(fitted[1].theta, anew.fit(theta, data, np.random.default_rng(5), 3).theta), (
        "computed anew, where there is no room to keep it: the same bits"
    )
    inside = [cut.module.get_submodule(name) for name in KINDS[kind]]
    assert all("forward" not in vars(part) for part in inside), "the module is as it was"


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_is_left_out_in_bf16(kind: Any) -> None:
    cut, plain = learner_of(kind, precision="bf16"), learner_of(kind, 0, "bf16")
    assert cut.memory is not None
    assert [one.name for one in cut.memory.prefix.kept] == KINDS[kind]
    theta, data = plain.initial(), samples()
    assert cut.loss(theta, data) == pytest.approx(plain.loss(theta, data), rel=0.01)


def test_a_fit_equals_plain_torch_on_what_is_trained_and_leaves_the_rest() -> None:
    mine, data = learner_of(Chain), samples()
    fitted = mine.fit(mine.initial(), data, np.random.default_rng(5), 2)
    module = module_of(Chain)
    groups = [
        {"params": module.get_submodule("3").parameters(), "lr": 0.1},
        {"params": module.get_submodule("5").parameters(), "lr": 0.02},
    ]
    optimiser = torch.optim.SGD(groups, momentum=0.9, weight_decay=0.01)
    draw = np.random.default_rng(5)
    draw.integers(2**62)
    for _ in range(2):
        for batch in torch.split(torch.from_numpy(draw.permutation(30)), 4):
            optimiser.zero_grad()
            F.cross_entropy(module(data.pixels.x[batch]), data.pixels.y[batch]).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    expected = dict(module.named_parameters())
    for name, value in mine.complete(fitted.theta).items():
        torch.testing.assert_close(value, expected[name].detach())
    assert mine.layout.size == 9 * 7 + 7 + 7 * 3 + 3


class Branching(nn.Module):
    """No chain of layers, and nothing drawn: torch batches it."""

    frozen = "body.*"

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(64, 8), nn.Linear(8, 3)
        self.beside = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        low = self.body(x.flatten(1)).relu()
        return self.head(low + self.beside(low).tanh())  # type: ignore[no-any-return]


@pytest.mark.parametrize("limit", [0, MB])
@pytest.mark.parametrize("kind", [Chain, Branching])
def test_stacked_training_above_a_frozen_part_is_that_of_each_peer_alone(
    kind: Any, limit: int
) -> None:
    mine = learner_of(kind, limit)
    pixels, theta = samples(45).pixels, mine.initial()
    datas = [Samples(pixels, torch.arange(*ends)) for ends in ((0, 30), (30, 41), (41, 45))]
    jobs = [FitJob(theta, data, np.random.default_rng(1)) for data in datas]
    together = Stack(mine).fit(jobs, 2, None, 0)
    scores = Stack(mine).losses([theta] * 3, datas)
    for data, fitted, loss in zip(datas, together, scores, strict=True):
        alone = mine.fit(theta, data, np.random.default_rng(1), 2)
        torch.testing.assert_close(fitted.theta, alone.theta)
        assert fitted.loss == pytest.approx(alone.loss, rel=1e-5)
        assert loss == pytest.approx(mine.loss(theta, data), rel=1e-5)


# -- runs


OWN = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
        self.drop, self.mid = nn.Dropout(0.2), nn.Linear(256, 5)
        self.heads = nn.ModuleList([nn.Linear(5, 4), nn.Linear(5, classes - 4)])
        self.register_buffer("scale", torch.tensor(0.5))
        self.body.requires_grad_(False)

    def forward(self, x):
        h = self.mid(self.drop(self.body(x).flatten(1))).relu() * self.scale
        return torch.cat([head(h) for head in self.heads], 1)
"""


def own(rounds: int = 2, **more: Any) -> Config:
    Path("net.py").write_text(OWN)
    model = {"name": "net.py:Net", "head": "heads", **more.pop("model", {})}
    return tiny(rounds=rounds, model=model, method="head", strategy="afind+", **more)


def models_of(path: str) -> dict[str, torch.Tensor]:
    commit = next(commits(Path(path)))
    assert commit.tensors is not None
    return {f"{p}/{k}": v for p in commit.memory for k, v in commit.tensors.of(p).items()}


def test_the_same_bits_for_any_number_of_workers_and_after_a_resume_and_for_any_room() -> None:
    results = [amity.run(own(engine={"workers": n}), f"w{n}") for n in (1, 2)]
    assert results[0].metrics == results[1].metrics
    amity.run(own(rounds=1, checkpoint={"every": 1}), "r")
    amity.resume("r", rounds=2)
    one, two, resumed = (models_of(at) for at in ("w1", "w2", "r"))
    assert one.keys() == two.keys() == resumed.keys()
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert all(torch.equal(one[key], resumed[key]) for key in one)
    size = 256 * 5 + 5 + 5 * 10 + 10
    assert {len(value) for key, value in one.items() if key.endswith("/start")} == {size}
    with simulate(own()) as simulation:
        memory = simulation.world.learner.memory
        assert memory is not None
        memory._places.clear()  # as if nothing had found room
        for _ in range(2):
            simulation.round()
        starts = simulation.crew.matrix("start")
    for name, start in zip(simulation.names, starts, strict=True):
        assert torch.equal(start, one[f"{name}/start"])


def test_an_export_is_a_complete_model_that_says_what_torch_says() -> None:
    amity.run(own(), "r")
    file = amity.export("r", "peer-00", Path("out"))[0].files[0]
    tensors = load_file(file)
    from amity.registry.files import module_of as python_file

    net = python_file("net.py").Net((1, 8, 8), 10)
    left = net.load_state_dict(tensors, strict=False)
    assert [name for name in left.missing_keys if not name.endswith("num_batches_tracked")] == []
    assert left.unexpected_keys == []
    network = open_model(file).module.network
    x = torch.randn(5, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(network(x), net.eval()(x))


def test_a_swarm_of_real_peers_has_the_simulators_bits() -> None:
    Path("net.py").write_text(OWN)
    model = {"name": str(Path("net.py").resolve()) + ":Net", "head": "heads"}
    layers: dict[str, Any] = {"peers": 3, "rounds": 2, "strategy": "gossip", "model": model}
    amity.run(tiny(**layers), "simulated")
    swarm_of(Path("swarm"), **layers)
    simulated = models_of("simulated")
    for state in sorted(Path("swarm/peers").iterdir()):
        for key, value in models_of(str(state / "state")).items():
            assert torch.equal(value, simulated[key]), key


def crowd(width: int) -> int:
    """Bytes of memory after a round of 1000 peers that train a head above `width` frozen units."""
    draw = np.random.default_rng(0)
    data = {"x": draw.normal(size=(2000, 8)).astype(np.float32), "y": np.arange(2000) % 4}
    layers = (nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 6), nn.ReLU(), nn.Linear(6, 4))
    plan = {"data": data, "model": nn.Sequential(*layers), "model.freeze": "0.*,2.*"}
    deal = {"partition": "iid", "peers": 1000, "rounds": 1, "strategy": "local"}
    few = {
        "train.epochs": 1,
        "engine.workers": 1,
        "eval.gradients_every": 0,
        "method.tune_epochs": 0,
    }
    with simulate(load(None, {**plan, **deal, **few})) as simulation:
        simulation.round()
        assert simulation.crew.matrix("start").shape == (1000, 6 * 4 + 4)
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_the_memory_of_a_thousand_peers_does_not_grow_with_what_is_frozen() -> None:
    small, large = (in_child(partial(crowd, width)) for width in (10, 10_000))
    frozen = 4 * 10_000 * (8 + 1 + 6)
    assert large - small < 100 * frozen, "of a thousand copies, less than a tenth"


def test_nothing_that_is_frozen_travels() -> None:
    frozen = amity.run(tiny(strategy="gossip", model={"name": "mlp", "freeze": "1.*"}), "a")
    whole = amity.run(tiny(strategy="gossip", model="mlp"), "b")
    sizes = [4 * (12 * 10 + 10), 4 * (64 * 12 + 12 + 12 * 10 + 10)]
    for result, size in zip((frozen, whole), sizes, strict=True):
        received = {record.model_in for record in result.metrics}
        assert received == {5 * size}, "a model of each of the five others"


# -- statistics


class Normed(nn.Sequential):
    def __init__(self, shape: Any = None, classes: int = 10) -> None:
        layers = (nn.Linear(64, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, classes))
        super().__init__(nn.Flatten(), *layers)


def test_batchnorm_is_named_as_a_trap_and_its_statistics_travel_with_the_weights(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "amity"):
        config = tiny(model=Normed, strategy="gossip", engine={"workers": 2}, rounds=2)
        two = amity.run(config, "two")
    said = [line for line in caplog.messages if "running statistics" in line]
    assert len(said) == 1
    assert "averaged" in said[0]
    one = amity.run(tiny(model=Normed, strategy="gossip", rounds=2), "one")
    assert one.metrics == two.metrics
    learner = simulate(config).world.learner
    assert [slot.name for slot in learner.layout.statistics] == ["2.running_mean", "2.running_var"]
    start = models_of("one")["peer-00/start"]
    assert start[6:12].min() > 0
    assert not torch.equal(start[:12], learner.initial()[:12])


def test_statistics_are_those_of_torch_and_stay_where_only_the_head_is_trained() -> None:
    torch.manual_seed(1)
    module = Normed(classes=3)
    layer, data = module[1], samples(4)
    with torch.no_grad():
        low = layer(data.pixels.x.flatten(1))
    mine = Learner(module, layout_of(module), RECIPE)
    start = mine.initial()
    trained = mine.fit(start, data, np.random.default_rng(2), 1).theta  # a single batch
    torch.testing.assert_close(trained[:6], 0.1 * low.mean(0))
    torch.testing.assert_close(trained[6:12], 0.9 + 0.1 * low.var(0))
    head = mine.fit(start, data, np.random.default_rng(2), 1, mine.layout.head).theta
    assert torch.equal(head[: mine.layout.head.start], start[: mine.layout.head.start])


# -- what is refused


def stuck() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 5), nn.Linear(5, 10)).requires_grad_(False)


class Counting(nn.Module):
    """A buffer of its own that moves."""

    def __init__(self, shape: Any, classes: int) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(64, 5), nn.Linear(5, classes)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += 1
        return self.head(self.body(x.flatten(1)))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model": stuck()}, "nothing is left to train, as all of its 4 parameters are frozen"),
        ({"model.freeze": "*"}, "nothing is left to train"),
        ({"model.freeze": "body.*"}, r"'body.\*' matches no parameter; the names are 1.weight,"),
        ({"model.freeze": "3.*", "method": "head"}, r"head, and all of it \(3\) is frozen"),
        ({"model.freeze": "1.*", "method": "head"}, "shares the body, of which nothing is trained"),
        (
            {"model.freeze": "3.*", "strategy": "afind+", "strategy.proxy": "head_drift"},
            "proxy head_drift: shows the head, and all of it .3. is frozen, so cards would be",
        ),
        ({"model.head": "3,9"}, "model.head: unknown layer '9'"),
        ({"model": Counting}, "buffer 'seen' changes while it is used"),
        ({"model": Normed, "privacy": "gradients"}, "no noise protects; use GroupNorm, or freeze"),
        ({"model.weights_partial": True}, "weights_partial means nothing without model.weights"),
    ],
)
def test_a_model_that_cannot_be_trained_so_is_refused_before_a_round(
    given: dict[str, Any], message: str
) -> None:
    usual = {"model": "mlp", "strategy": "gossip", "peers": 3, "rounds": 1}
    with pytest.raises(ConfigError, match=message) as caught:
        amity.run(load(None, {**usual, **given}), "r")
    assert "\n" not in str(caught.value)
    assert not Path("r/rounds.jsonl").exists()


def test_too_little_room_is_said_with_the_remedy(caplog: pytest.LogCaptureFixture) -> None:
    model = {"name": "mlp", "hidden": 4000, "freeze": "1.*"}
    engine = {"workers": 1, "vectorise": "off", "group": 1}
    same = {"model": model, "strategy": "gossip", "rounds": 1, "train": {"precision": "fp32"}}
    starts = []
    for cache in (1, 2, 100):  # for no peer, for some, for all
        config = tiny(**same, engine={**engine, "cache": cache})
        with caplog.at_level(logging.WARNING, "amity"), simulate(config) as simulation:
            simulation.round()
            starts.append(simulation.crew.matrix("start").clone())
    said = [line for line in caplog.messages if "engine.cache" in line]
    assert ["in every" in line and "would keep all" in line for line in said] == [True, True]
    assert torch.equal(starts[1], starts[2])
    torch.testing.assert_close(starts[0], starts[2])
