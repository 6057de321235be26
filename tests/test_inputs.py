"""Kinds of input: series, sequences of tokens, several inputs, and the networks that take them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import amity
from amity.config import Config
from amity.data import Dataset, Samples, build
from amity.data.inputs import Tokens, blank
from amity.data.objects import adapt
from amity.errors import ConfigError, DataError
from amity.learn.layout import layout_of
from amity.learn.learner import DpSgd, Learner, Recipe
from amity.learn.models import build_module, models
from amity.learn.optimisers import optimisers
from amity.learn.sequences import GruLayer
from amity.learn.stacked import FitJob, Stack
from amity.round.build import deal_out, load_data, settled
from amity.topology import peer_names
from amity.use.answers import answer
from amity.use.classifier import open_model
from amity.use.openapi import document
from tests.conftest import tiny
from tests.test_parity import models as saved
from tests.test_parity import same_bits
from tests.test_runs import interrupted

COUNT, CLASSES = 60, 3
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Made:
    """The same made-up examples in every form."""

    y: Array
    sequences: list[list[int]]
    series: Array
    rows: Array

    @property
    def flat(self) -> dict[str, Array]:
        """As a file has sequences: one after the other, with their lengths."""
        lengths = np.array([len(row) for row in self.sequences])
        return {"x": np.concatenate(self.sequences), "lengths": lengths}


def made() -> Made:
    draw = np.random.default_rng(1)
    y = np.arange(COUNT) % CLASSES
    sequences = [
        [int(i) for i in draw.integers(1 + 6 * k, 10 + 6 * k, draw.integers(2, 9))] for k in y
    ]
    series = draw.standard_normal((COUNT, 2, 12)) + y[:, None, None]
    return Made(y, sequences, series.astype("f4"), draw.standard_normal((COUNT, 4)).astype("f4"))


MODULE = """
import torch
from torch import nn
class Both(nn.Module):
    def __init__(self, shapes, classes):
        super().__init__()
        self.words = nn.Embedding(shapes["text"].vocabulary, 5)
        self.body = nn.Linear(5 + shapes["row"][0], 6)
        self.head = nn.Linear(6, classes)
    def forward(self, row, text):
        real = (text != 0)[..., None]
        mean = (self.words(text) * real).sum(1) / real.sum(1)
        return self.head(self.body(torch.cat([mean, row], 1)).relu())
"""


def arrays_of(kind: str) -> dict[str, Any]:
    one = made()
    forms: dict[str, dict[str, Any]] = {
        "tokens": one.flat,
        "series": {"x": one.series},
        "table": {"x": one.rows},
        "several": {
            "x_text": one.flat["x"],
            "lengths_text": one.flat["lengths"],
            "x_row": one.rows,
        },
    }
    return forms[kind] | {"y": one.y}


def world(kind: str, model: str = "", **more: Any) -> Config:
    """A small run on a file of this kind."""
    np.savez(f"{kind}.npz", **arrays_of(kind))
    data = {"name": "arrays", "path": str(Path(f"{kind}.npz").resolve())}
    data |= {"kind": "series"} if kind == "series" else {}
    Path("mine.py").write_text(MODULE)
    small = {"gru": {"embed": 5, "hidden": 6}, "transformer": {"width": 8, "heads": 2, "layers": 1}}
    small |= {"cnn1d": {"channels": 4, "hidden": 8}, "mlp": {"hidden": 6}}
    named = f"{Path('mine.py').resolve()}:Both" if model == "Both" else model
    return tiny(
        **{
            "data": data,
            "model": {"name": named, **small.get(model, {})},
            "partition": {"name": "iid", "samples": 14, "test": 5},
            "peers": 3,
            "rounds": 3,
            "strategy": "friends",
            "train": {"epochs": 1, "batch": 6, "lr": 0.1},
            "eval": {"gradients_every": 0},
        }
        | more
    )


CASES = [
    ("tokens", "gru"),
    ("tokens", "transformer"),
    ("series", "cnn1d"),
    ("series", "gru"),
    ("series", "transformer"),
    ("series", "mlp"),
    ("table", "mlp"),
    ("several", "Both"),
]
every = pytest.mark.parametrize(("kind", "model"), CASES, ids=["-".join(case) for case in CASES])


def learner_of(kind: str, model: str) -> tuple[Learner, Dataset]:
    config = world(kind, model)
    dataset = load_data(config)
    torch.manual_seed(3)
    instance, own = config.model.instance, bool(config.model.code)
    module = build_module(model, instance, dataset.shape, dataset.target, own=own)
    recipe = Recipe(lr=0.1, lr_head=0.1, optimiser=optimisers["sgd"].build({}), batch=6, clip=0.0)
    return Learner(module, layout_of(module), recipe, target=dataset.target), dataset


# -- training --------------------------------------------------------------------------------------


@every
def test_every_kind_trains_with_the_same_bits_for_two_workers_and_after_a_resume(
    kind: str, model: str
) -> None:
    engine = {"workers": 1, "vectorise": "off", "group": 1}
    config = world(kind, model, engine=engine)
    one = amity.run(config, "one")
    two = amity.run(world(kind, model, engine={**engine, "workers": 2}), "two")
    broken = interrupted(config, "broken", 2)
    amity.resume(broken)
    first = saved(one.path)
    assert {key: value for key, value in first.items() if torch.isfinite(value).all()} == first
    for other in (two.path, broken):
        assert all(torch.equal(value, first[key]) for key, value in saved(other).items())


@every
def test_stacked_training_is_that_of_each_alone(kind: str, model: str) -> None:
    learner, dataset = learner_of(kind, model)
    assert Stack.suits(learner, blank(dataset.shape, 1))
    theta = learner.initial()
    datas = [Samples(dataset.pixels, torch.arange(a, b)) for a, b in ((0, 13), (13, 30), (30, 38))]
    alone = [learner.fit(theta, data, np.random.default_rng(k), 2) for k, data in enumerate(datas)]
    jobs = [FitJob(theta, data, np.random.default_rng(k)) for k, data in enumerate(datas)]
    together = Stack(learner).fit(jobs, 2, None, 0)
    for one, other in zip(alone, together, strict=True):
        assert torch.allclose(one.theta, other.theta, atol=2e-6)
        assert one.loss == pytest.approx(other.loss, rel=1e-5)


@every
def test_a_private_step_clips_the_gradient_of_every_example(kind: str, model: str) -> None:
    """Without noise: the sum of single gradients, each clipped, over the size of a batch."""
    learner, dataset = learner_of(kind, model)
    theta, data = learner.initial(), Samples(dataset.pixels, torch.arange(6))
    whole = learner.fit(theta, data, np.random.default_rng(0), 1, noise=DpSgd(0.0, 0.05))
    chosen = learner.fit(theta, data, np.random.default_rng(0), 1, noise=DpSgd(0.0, 1e-9))
    assert torch.allclose(chosen.theta, theta, atol=1e-7)
    single = []
    for at in range(6):
        g, _ = learner.gradient(theta, Samples(dataset.pixels, torch.tensor([at])))
        single.append(g * min(1.0, 0.05 / float(g.norm())))
    assert torch.allclose(whole.theta, theta - 0.1 * torch.stack(single).sum(0) / 6, atol=1e-6)


@pytest.mark.parametrize("model", ["gru", "transformer"])
def test_padding_changes_nothing_against_a_plain_loop_without_any(model: str) -> None:
    """One step of SGD: the plain loop feeds each sequence alone, as long as it is."""
    one, options = made(), {"gru": {"hidden": 6}, "transformer": {"width": 8, "heads": 2}}
    said = amity_dataset({"x": one.sequences, "y": one.y}, "", length=15)
    assert said.shape == Tokens(15, 22)
    torch.manual_seed(0)
    module = build_module(
        model, models[model].build(options[model]), said.shape, said.target, False
    )
    plain = build_module(model, models[model].build(options[model]), said.shape, said.target, False)
    plain.load_state_dict(module.state_dict())
    recipe = Recipe(lr=0.1, lr_head=0.1, optimiser=optimisers["sgd"].build({}), batch=99, clip=0.0)
    learner = Learner(module, layout_of(module), recipe, target=said.target)
    theta, data = learner.initial(), Samples(said.pixels, torch.arange(COUNT))
    trained = learner.fit(theta, data, np.random.default_rng(0), 1)
    order = list(np.random.default_rng(0).permutation(COUNT))  # any: the batch is the whole
    losses = [
        F.cross_entropy(plain(torch.tensor([one.sequences[k]])), torch.tensor([int(one.y[k])]))
        for k in order
    ]
    loss = torch.stack(losses).mean()
    torch.autograd.backward(loss)
    assert trained.loss == pytest.approx(float(loss.detach()), rel=1e-6)
    named = dict(plain.named_parameters())
    for slot in learner.layout.slots:
        parameter = named[slot.name]
        assert parameter.grad is not None
        stepped = (parameter - 0.1 * parameter.grad).detach()
        assert torch.allclose(slot.of(trained.theta), stepped, atol=1e-6), slot.name


def test_the_recurrent_layer_is_that_of_torch() -> None:
    torch.manual_seed(0)
    mine, theirs = GruLayer(3, 5), nn.GRU(3, 5, batch_first=True)
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(mine.read.weight)
        theirs.bias_ih_l0.copy_(mine.read.bias)
        theirs.weight_hh_l0.copy_(mine.state.weight)
        theirs.bias_hh_l0.copy_(mine.state.bias)
    x = torch.randn(4, 7, 3)
    assert torch.allclose(mine(x, torch.ones(4, 7, 1)), theirs(x)[0], atol=1e-6)


@pytest.mark.parametrize("model", ["gru", "transformer"])
def test_a_causal_model_sees_nothing_of_what_comes_later(model: str) -> None:
    torch.manual_seed(0)
    module = models[model].build({"causal": True}).build(Tokens(8, 20), 20)
    x = torch.randint(1, 20, (3, 8))
    later = x.clone()
    later[:, 5:] = torch.randint(1, 20, (3, 3))
    said, other = module(x), module(later)
    assert said.shape == (3, 8, 20)
    assert torch.allclose(said[:, :5], other[:, :5], atol=1e-6)
    assert not torch.allclose(said[:, 5:], other[:, 5:], atol=1e-3)


# -- own data --------------------------------------------------------------------------------------


class Rows(torch.utils.data.Dataset[Any]):
    def __init__(self, x: Callable[[int], Any]) -> None:
        self.x, self.y = x, made().y

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, at: int) -> tuple[Any, int]:
        return self.x(at), int(self.y[at])


def amity_dataset(found: Any, kind: str = "", **options: int) -> Dataset:
    from amity.data.forms import Form

    return adapt("here", found, 0.2, "standard", Form(kind, **options))


def padded() -> Array:
    out = np.zeros((COUNT, 8), np.int64)
    for at, row in enumerate(made().sequences):
        out[at, : len(row)] = row
    return out


def hugging_face() -> Any:
    datasets = pytest.importorskip("datasets", reason="pip install datasets")
    return datasets.Dataset.from_dict({"input_ids": made().sequences, "label": made().y.tolist()})


SEQUENCES: dict[str, Callable[[], Any]] = {
    "lists": lambda: {"x": made().sequences, "y": made().y},
    "a tuple": lambda: (made().sequences, made().y),
    "arrays of their own": lambda: {"x": [np.array(s) for s in made().sequences], "y": made().y},
    "one after the other": lambda: made().flat | {"y": made().y},
    "a torch dataset": lambda: Rows(lambda at: torch.tensor(made().sequences[at])),
    "a Hugging Face dataset": hugging_face,
}


@pytest.mark.parametrize("form", SEQUENCES)
def test_sequences_are_the_same_in_every_form(form: str) -> None:
    found = amity_dataset(SEQUENCES[form]())
    assert torch.equal(found.pixels.x, torch.from_numpy(padded()).to(torch.int16))
    assert found.shape == Tokens(8, 22)
    assert found.schema.vocabulary == 22
    x, _ = found.pixels.batch(torch.arange(3))
    assert x.dtype == torch.long
    assert x.tolist() == padded()[:3].tolist()  # nothing is normalised
    assert any("padded with id 0 to 8" in note for note in found.notes)


def test_a_padded_array_and_files_hold_the_same_sequences() -> None:
    one = amity_dataset({"x": padded(), "y": made().y}, "tokens")
    np.savez("w.npz", **made().flat, y=made().y)
    Path("folder").mkdir()
    for name, array in {**made().flat, "y": made().y}.items():
        np.save(f"folder/{name}.npy", array)
    for path in ("w.npz", "folder"):
        config = tiny(data={"name": "arrays", "path": path}, model={"name": "gru"})
        assert torch.equal(load_data(config).pixels.x, one.pixels.x)


def test_several_inputs_are_normalised_each_for_itself_and_tokens_not_at_all() -> None:
    one = made()
    forms = (
        {"x": {"text": one.sequences, "row": one.rows}, "y": one.y},
        arrays_of("several"),
        Rows(lambda at: {"text": torch.tensor(one.sequences[at]), "row": one.rows[at]}),
    )
    for found in map(amity_dataset, forms):
        assert found.shape == {"text": Tokens(8, 22), "row": (4,)}
        x, _ = found.pixels.batch(torch.from_numpy(found.train))
        assert torch.allclose(x.parts["row"].mean(0), torch.zeros(4), atol=1e-5)
        assert torch.allclose(x.parts["row"].std(0, correction=0), torch.ones(4), atol=1e-5)
        assert x.parts["text"].dtype == torch.long


def test_series_are_normalised_by_channel() -> None:
    found = amity_dataset({"x": made().series, "y": made().y}, "series")
    assert found.shape == (2, 12)
    x, _ = found.pixels.batch(torch.from_numpy(found.train))
    assert torch.allclose(x.mean((0, 2)), torch.zeros(2), atol=1e-5)
    assert amity_dataset({"x": made().series[:, 0], "y": made().y}, "series").shape == (1, 12)
    noted = amity_dataset({"x": made().series, "y": made().y}).notes
    assert any("taken for grey images; data.kind=series" in note for note in noted)


def test_long_sequences_are_cut_and_counted() -> None:
    found = amity_dataset({"x": made().sequences, "y": made().y}, length=4, vocabulary=50)
    longer = sum(len(row) > 4 for row in made().sequences)
    assert found.shape == Tokens(4, 50)
    assert any(f"{longer} sequences are longer and cut to their first 4" in n for n in found.notes)


def test_the_next_token_needs_no_answers_and_takes_sequences_of_them() -> None:
    words = [[1, 2, 3], [4, 5], [2, 3, 4, 1], [1, 2]]
    follow = [[2, 3, 9], [5, 9], [3, 4, 1, 9], [2, 9]]
    for given, last in (({"x": words}, 0), ((words, follow), 9)):
        found = adapt("here", given, 0.5, numbers=True)
        assert found.pixels.y[2].tolist() == [3, 4, 1, last]
        assert found.pixels.y[1].tolist() == [5, last, 0, 0]
    with pytest.raises(DataError, match=r"y must be one class .* use task=tokens"):
        adapt("here", {"x": words}, 0.5)
    with pytest.raises(DataError, match="sequence 1 has 2 tokens but 3 answers; give one for each"):
        adapt("here", (words, [[2, 3], [5, 9, 9], [3], [2]]), 0.5, numbers=True)
    with pytest.raises(DataError, match="sequence 1 has one token, and none that follows"):
        adapt("here", {"x": [[1, 2], [3]]}, 0.5, numbers=True)


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"x": [[1, 0, 2], [3]]}, "", "sequence 0 has id 0 inside, but 0 is padding; add 1"),
    ({"x": [[1], []]}, "", r"sequence 1 must be ids of tokens, whole numbers from 1, got nothing"),
    ({"x": [[1, -2], [3]]}, "", "sequence 0 has id -2, which is negative"),
    ({"x": [["a", "b"], ["c"]]}, "tokens", "sequence 0 is text; give ids of tokens"),
    ({"x": ["some text", "more"]}, "", "x must be numbers, got text; give ids of tokens"),
    ({"x": [[1.5, 2], [3]]}, "tokens", "sequence 0 must be ids of tokens"),
    ({"x": np.zeros((2, 3, 4, 5), "f4")}, "series", "data.kind=series needs 2 or 3 dimensions"),
    ({"x": {"a": np.ones((2, 3)), "b": np.ones((3, 3))}}, "", "examples: a 2, b 3"),
    ({"x": {"a-b": np.ones((2, 3))}}, "", "several inputs must have names that `forward` can"),
    ({"x": {"a": np.ones((2, 3))}}, "b:series", "data.kind: unknown input 'b'"),
    ({"x": np.ones(5, int), "lengths": [2, 2]}, "", "add up to the 5 tokens in x, got a sum of 4"),
    ({"x": np.ones((2, 3)), "x_more": np.ones((2, 3))}, "", "has both x and x_more"),
    ({"x_a": np.ones((2, 3)), "lengths_b": [2]}, "", "there is no such x"),
    ({"x": {"a": [[1, 2], [3]], "b": [[1, np.nan], [1, 2]]}}, "", r"x\['b'\]: example 0 has NaN"),
]


@pytest.mark.parametrize(("given", "kind", "said"), BAD, ids=[said[:30] for _, _, said in BAD])
def test_inputs_that_are_none_are_refused_in_one_line(
    given: dict[str, Any], kind: str, said: str
) -> None:
    with pytest.raises(DataError, match=said) as refused:
        amity_dataset(given | {"y": np.array([0, 1])}, kind)
    assert "\n" not in str(refused.value)


# -- models ----------------------------------------------------------------------------------------

FITS = {
    "tokens": ({}, "gru"),
    "series": ({"kind": "series"}, "cnn1d"),
    "table": ({}, "mlp"),
}


@pytest.mark.parametrize("kind", FITS)
def test_a_model_that_nobody_named_fits_the_data(kind: str) -> None:
    options, name = FITS[kind]
    np.savez("w.npz", **arrays_of(kind))
    assert amity.load(None, {"data": {"path": "w.npz", **options}}).model.name == name
    if kind != "series":
        assert amity.load(None, {"data": arrays_of(kind)}).model.name == name
        assert amity.load(None, {"data": arrays_of(kind), "model": "mlp"}).model.name == "mlp"


def test_what_is_seen_in_the_first_examples_of_a_dataset_chooses_the_model() -> None:
    rows = Rows(lambda at: torch.tensor(made().sequences[at]))
    assert amity.load(None, {"data": rows}).model.name == "gru"
    assert amity.load(None, {"data": hugging_face()}).model.name == "gru"


UNFIT = [
    ("cnn1d", "table", "wants channels x time, this data is a table of 4 columns; try model=mlp"),
    ("gru", "table", "wants sequences of tokens, or channels x time, this data is a table of 4"),
    ("mlp", "tokens", "sequences of up to 8 tokens out of 21; try model=gru"),
    ("cnn1d", "tokens", "wants channels x time, this data is sequences of up to 8 tokens"),
    ("fedavg_cnn", "series", "this data is series of 2 x 12 .channels x time.; try model=cnn1d"),
    ("mlp", "several", "2 inputs .text, row.; write a module whose forward takes them by name"),
]


@pytest.mark.parametrize(("model", "kind", "said"), UNFIT)
def test_a_model_that_does_not_fit_says_which_does(model: str, kind: str, said: str) -> None:
    config = world(kind, model)
    with pytest.raises(ConfigError, match=said) as refused:
        settled(config, load_data(config))
    assert "\n" not in str(refused.value)


def test_answers_at_every_token_need_a_task_that_wants_them() -> None:
    config = world("tokens", "gru").replace(**{"model.causal": True})
    with pytest.raises(ConfigError, match=r"leave model\.causal out"):
        settled(config, load_data(config))
    with pytest.raises(ConfigError, match="heads must divide width=64, got 7"):
        tiny(model={"name": "transformer", "heads": 7})


# -- worlds, real peers, exports -------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["tokens", "several"])
def test_what_has_no_numbers_takes_no_shift_of_numbers_but_one_of_labels(kind: str) -> None:
    model = {"tokens": "gru", "several": "Both"}[kind]
    for shift in ("rotate", "permute_pixels", "invert", "scale", "corrupt", "zoom"):
        config = world(kind, model, shift={"name": shift, "groups": 2})
        with pytest.raises(DataError, match=r"needs one input of numbers, got .*; use permute_lab"):
            amity.run(config, "refused")
    done = amity.run(world(kind, model, shift={"name": "permute_labels", "groups": 3}), "done")
    assert done.complete


@pytest.mark.parametrize(("kind", "model"), [("tokens", "transformer"), ("several", "Both")])
def test_a_swarm_learns_from_it_what_the_simulator_does(
    tmp_path: Path, kind: str, model: str
) -> None:
    config = world(kind, model).to_dict()
    same_bits(tmp_path, {key: config[key] for key in ("data", "model", "partition", "peers")})


def test_members_are_told_in_what_their_inputs_differ() -> None:
    one = amity_dataset({"x": made().sequences, "y": made().y})
    for options, said in (
        ({"vocabulary": 40}, "22 ids of tokens here and 40 there: say the same data.vocabulary"),
        ({"length": 5}, "up to 8 tokens here and 5 there: say the same data.length everywhere"),
    ):
        other = amity_dataset({"x": made().sequences, "y": made().y}, **options)
        assert said in one.schema.difference(other.schema)
    table = amity_dataset({"x": np.ones((COUNT, 8)), "y": made().y})
    assert "sequences of up to 8 tokens out of 21 here and a table of 8" in one.schema.difference(
        table.schema
    )
    both = amity_dataset({"x": {"a": made().rows}, "y": made().y}).schema
    more = amity_dataset({"x": {"a": made().rows, "b": made().rows}, "y": made().y}).schema
    assert "input 'b' is missing here" in both.difference(more)
    again = type(more).from_dict(more.to_dict())
    assert again == more
    assert not more.difference(again)


@pytest.mark.parametrize(
    ("kind", "model"),
    [("tokens", "gru"), ("tokens", "transformer"), ("series", "cnn1d"), ("several", "Both")],
)
def test_an_export_says_of_every_example_what_the_run_measured(kind: str, model: str) -> None:
    onnx = kind == "several"  # the others as well, but each takes seconds
    result = amity.run(world(kind, model, strategy="local"), "r")
    (taken,) = amity.export("r", "peer-00", onnx=onnx)
    found = amity.predict(taken.folder, f"{kind}.npz")
    assert found.probabilities.shape == (COUNT, CLASSES)
    config = result.config
    dealt = deal_out(config, load_data(config), peer_names(config.peers))
    test = dealt["peer-00"].test.index.tolist()
    right = [found.labels[at] == str(made().y[at]) for at in test]
    assert np.mean(right) == pytest.approx(result.final()["peer-00"])
    given: dict[str, Any] = {
        "tokens": made().sequences,
        "series": made().series.tolist(),
        "several": {"text": made().sequences, "row": made().rows.tolist()},
    }
    model_file = open_model(taken.folder)
    said = answer(model_file, json.dumps({"x": given[kind]}).encode())
    assert [one["label"] for one in said["predictions"]] == list(found.labels)
    assert document(model_file.description, 10, False)["paths"]["/predict"]
    if onnx:
        assert any(f"from torch, on {len(test)} test examples" in note for note in taken.notes)
        session = onnxruntime.InferenceSession(taken.folder / "last.onnx")
        assert [one.name for one in session.get_inputs()] == ["text", "row"]


def test_predictions_refuse_sequences_that_the_model_cannot_take() -> None:
    amity.run(world("tokens", "gru", strategy="local"), "r")
    (taken,) = amity.export("r", "peer-00")
    for x, said in (
        ([[1] * 9], "sequence 0 has more than 8 tokens"),
        ([[1, 99]], "sequence 0 has id 99, which is above 21, the last known"),
    ):
        lengths = [len(row) for row in x]
        np.savez("new.npz", x=np.concatenate(x), lengths=lengths)
        with pytest.raises(DataError, match=said):
            amity.predict(taken.folder, "new.npz")


def test_bits_of_ids_are_as_small_as_they_can_be() -> None:
    x, y, index = np.ones((4, 3), np.int64), np.array([0, 1, 0, 1]), np.arange(4)
    for vocabulary, kind in ((200, torch.int16), (40_000, torch.int32)):
        found = build("here", x, y, index, index, vocabulary=vocabulary)
        assert found.pixels.x.dtype == kind
