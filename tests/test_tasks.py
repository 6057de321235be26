"""What is learnt: every task with every method and strategy, by hand, in one step, resumed, among
real peers, and with answers that do not fit."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from sklearn import metrics as sk
from torch import nn
from torch.nn import functional as F

import amity
from amity.bench.plain import PlainLoop
from amity.config import Config, resolve
from amity.data.target import Target
from amity.errors import AmityError, ConfigError, DataError
from amity.lab.export import export
from amity.learn.clipping import by_functions
from amity.net.wire.terms import Terms
from amity.round.build import load_data
from amity.store.best import best_records
from amity.tasks import Metric, Task, tasks
from amity.tasks.classify import Classify
from amity.tasks.multilabel import MultiLabel
from amity.tasks.regress import Regress
from amity.tasks.tokens import NextToken
from amity.use.answers import answer
from amity.use.classifier import Classifier, open_model
from amity.use.prediction import ask, predict
from amity.use.texts import text_examples
from tests.conftest import EVERY_METHOD, EVERY_STRATEGY, simulate, spec_id
from tests.test_parity import swarm_of
from tests.test_runs import interrupted

COUNT, PEERS = 120, 4
DRAW = np.random.default_rng(7)
X = DRAW.normal(size=(COUNT, 6)).astype(np.float32)
SLOPES = DRAW.normal(size=(6, 3))
PEER = np.repeat(np.arange(PEERS), COUNT // PEERS)
SPLIT = np.where(np.arange(COUNT) % 5, "train", "test")
IDS = (np.arange(COUNT)[:, None] * 3 + np.arange(7) ** 2) % 5 + 1
"""Sequences of seven tokens out of five."""
NUMBERS = 50 + 10 * (X @ SLOPES[:, 0])
ANSWERS: dict[str, np.ndarray[Any, Any]] = {
    "classify": (X @ SLOPES).argmax(1),
    "multilabel": (X @ SLOPES > 0.3).astype(np.int64),
    "regress": NUMBERS,
    "tokens": IDS[:, 1:],
}
NETS: dict[str, dict[str, Any]] = {
    "tokens": {"name": "gru", "embed": 4, "hidden": 6, "causal": True},
}
EVERY_TASK = sorted(ANSWERS)


def of(task: str, /, **more: Any) -> Config:
    """A run of a task that takes a tenth of a second."""
    kind = {"kind": "tokens"} if task == "tokens" else {}
    x = IDS[:, :-1] if task == "tokens" else X
    layers = {
        "data": {"x": x, "y": ANSWERS[task], "peer": PEER, "split": SPLIT},
        "task": task,
        "model": NETS.get(task, {"name": "mlp", "hidden": 5}),
        "rounds": 2,
        "train": {"epochs": 1, "batch": 8, "lr": 0.05, "precision": "fp32"},
        "eval": {"gradients_every": 1},
        "engine": {"workers": 1},
    }
    return resolve([layers, {"data": kind}, more])


def test_every_task_is_tried_here() -> None:
    assert [entry.name for entry in tasks] == EVERY_TASK


# -- with everything else --------------------------------------------------------------------------


@pytest.mark.parametrize("method", EVERY_METHOD)
@pytest.mark.parametrize("task", EVERY_TASK)
def test_every_method_learns_every_task(task: str, method: str) -> None:
    with simulate(of(task, method=method, strategy="gossip", rounds=3)) as simulation:
        first, *_, last = [simulation.round() for _ in range(3)]
    for name in last.peers:
        record = last.peers[name]
        assert record.lead() is not None
        assert math.isfinite(record.test_loss or math.nan)
        assert record.train_loss < first.peers[name].train_loss + 0.5
    assert (last.network.score is None) == (task == "classify")


@pytest.mark.parametrize("spec", EVERY_STRATEGY, ids=spec_id)
@pytest.mark.parametrize("task", [task for task in EVERY_TASK if task != "classify"])
def test_every_strategy_decides_in_every_task(task: str, spec: dict[str, Any]) -> None:
    with simulate(of(task, strategy=spec)) as simulation:
        for _ in range(2):
            report = simulation.round()
            for row in report.rows.values():
                assert sum(row.values()) == pytest.approx(1)
            assert all(math.isfinite(r.lead() or 0.0) for r in report.peers.values())


@pytest.mark.parametrize("vectorise", ["on", "off"])
@pytest.mark.parametrize(
    ("task", "optimiser"),
    [
        ("classify", "adam"),
        ("classify", "adamw"),
        ({"name": "classify", "smoothing": 0.2}, "sgd"),
        ("multilabel", "sgd"),
        ("multilabel", "adam"),
        ("multilabel", "adamw"),
        ("regress", "sgd"),
        ({"name": "regress", "error": "mae"}, "adam"),
        ({"name": "regress", "error": "huber"}, "adamw"),
        ("tokens", "sgd"),
        ("tokens", "adam"),
        ("tokens", "adamw"),
    ],
    ids=str,
)
def test_training_equals_a_plain_loop(task: Any, optimiser: str, vectorise: str) -> None:
    train = {"optimiser": optimiser, **({} if optimiser == "sgd" else {"eps": 1e-3})}
    name = task if isinstance(task, str) else task["name"]
    engine = {"vectorise": vectorise, "workers": 1}
    config = of(name, task=task, strategy="fedavg", train=train, engine=engine)
    config = config.replace(**{"train.epochs": 2, "train.lr": 0.02})
    plain = PlainLoop(config, load_data(config))
    with simulate(config) as simulation:
        for t in range(2):
            plain.round(t)
            simulation.round()
        slots = simulation.world.learner.layout.slots
        for peer, state in plain.states.items():
            expected = torch.cat([state[slot.name].flatten() for slot in slots])
            model = simulation.peers[peer].start
            torch.testing.assert_close(model, expected, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("task", ["regress", "tokens"])
def test_workers_and_a_resume_change_no_bit(task: str, tmp_path: Path) -> None:
    layers = {"rounds": 3, "checkpoint": {"every": 1}, "strategy": "gossip"}
    whole = amity.run(of(task, **layers), tmp_path / "whole")
    amity.run(of(task, **layers, engine={"workers": 2}), tmp_path / "two")
    broken = interrupted(of(task, **layers), str(tmp_path / "broken"), 2)
    amity.resume(broken)
    expected = (tmp_path / "whole" / "metrics.jsonl").read_text()
    assert (tmp_path / "two" / "metrics.jsonl").read_text() == expected
    assert (broken / "metrics.jsonl").read_text() == expected
    assert whole.score == pytest.approx(sum(whole.final().values()) / PEERS)


@pytest.mark.parametrize("task", EVERY_TASK)
def test_private_gradients_are_clipped_example_by_example(task: str) -> None:
    config = of(task)
    with simulate(config) as simulation:
        learner = simulation.world.learner
        theta, data = learner.initial(), simulation.peers[simulation.names[0]].data.train
        learner._load(theta, learner.layout.everything)
        x, y = data.pixels.batch(data.index[:5])
        trained = dict(learner.module.named_parameters())
        total, losses = by_functions(learner.module, trained, learner._losses, x, y, 0.0)
        mean, _ = learner.gradient(theta, type(data)(data.pixels, data.index[:5]))
        for slot in learner.layout.slots:
            torch.testing.assert_close(total[slot.name] / 5, slot.of(mean), rtol=1e-3, atol=1e-5)
        assert losses.shape == (5,)
    private = of(task, privacy={"name": "gradients", "sigma": 1.0}, strategy="gossip", rounds=1)
    with simulate(private) as simulation:
        record = next(iter(simulation.round().peers.values()))
    assert (record.epsilon or 0) > 0


def test_a_swarm_regresses_as_the_simulator_does_to_the_bit(tmp_path: Path) -> None:
    file = tmp_path / "plants.npz"
    np.savez(file, x=X, y=NUMBERS, peer=PEER, split=SPLIT)
    layers = {
        **of("regress").to_dict(),
        "data": {"name": "arrays", "path": str(file)},
        "strategy": {"name": "friends"},
        "task": {"name": "regress", "unit": "kW"},
        "engine": {"name": "local", "workers": 1, "vectorise": "off"},
    }
    config = resolve([layers])
    simulated = amity.run(config, tmp_path / "run")
    swarm = swarm_of(tmp_path / "swarm", **config.to_dict())
    for name in swarm.names:
        (record,) = [
            r
            for r in amity.Result(swarm.folder(name) / "state", swarm.config).metrics
            if r.round == 1
        ]
        assert record.score == simulated.final()[name]


# -- what is right ---------------------------------------------------------------------------------


def test_metrics_are_those_of_the_library() -> None:
    draw = torch.Generator().manual_seed(0)
    z, y = torch.randn(40, 3, generator=draw), torch.randint(3, (40,), generator=draw)
    said, p = z.argmax(1).numpy(), z.softmax(1).numpy()
    found = Classify(further=True).score(z, y, Target(3)).metrics
    assert found["accuracy"] == pytest.approx(sk.accuracy_score(y, said))
    assert found["balanced"] == pytest.approx(sk.balanced_accuracy_score(y, said))
    assert found["f1"] == pytest.approx(sk.f1_score(y, said, average="macro"))
    assert found["auroc"] == pytest.approx(sk.roc_auc_score(y, p, multi_class="ovr"))
    hot = F.one_hot(y, 3).numpy()
    assert found["average_precision"] == pytest.approx(sk.average_precision_score(hot, p))

    labels = torch.randint(2, (40, 3), generator=draw).float()
    several = MultiLabel().measure(z, labels, Target(3), True)
    assert several["auroc"] == pytest.approx(sk.roc_auc_score(labels, z.sigmoid()))
    assert several["f1"] == pytest.approx(sk.f1_score(labels, z > 0, average="micro"))

    target = Target(1, ("kW",), mean=(50.0,), std=(10.0,))
    truth, numbers = 50 + 10 * labels[:, :1], 50 + 10 * z[:, :1]
    reported = Regress().measure(z[:, :1], labels[:, :1], target, True)
    assert reported["mae"] == pytest.approx(sk.mean_absolute_error(truth, numbers), rel=1e-5)
    assert reported["rmse"] == pytest.approx(float(((truth - numbers) ** 2).mean().sqrt()), 1e-5)
    assert reported["r2"] == pytest.approx(sk.r2_score(truth, numbers), rel=1e-4)


def test_perplexity_leaves_padding_out() -> None:
    z, y = torch.randn(2, 3, 4), torch.tensor([[1, 2, 0], [3, 0, 0]])
    real = F.cross_entropy(torch.stack([z[0, 0], z[0, 1], z[1, 0]]), torch.tensor([1, 2, 3]))
    found = NextToken().measure(z, y, Target(4, places=3), True)
    assert found["perplexity"] == pytest.approx(math.exp(float(real)), rel=1e-5)
    other = z.clone()
    other[:, 2] += 100
    assert torch.equal(
        NextToken().losses(z, y, Target(4, places=3)),
        NextToken().losses(other, y, Target(4, places=3)),
    )


@pytest.mark.parametrize("task", EVERY_TASK)
def test_a_model_that_knows_is_righter_than_one_that_answers_the_same_to_all(task: str) -> None:
    train = {"optimiser": "adam", "lr": 0.02, "epochs": 8, "batch": 8, "precision": "fp32"}
    with simulate(of(task, rounds=4, strategy="gossip", train=train)) as simulation:
        for _ in range(4):
            simulation.round()
        learner, peer = simulation.world.learner, simulation.peers[simulation.names[0]]
        x, y = peer.data.train.pixels.batch(peer.data.train.index)
        learnt = learner.task.fair(learner.outputs(peer.start, x), y, learner.target)
        same = torch.zeros_like(learner.outputs(peer.start, x))
        nothing = learner.task.fair(same, y, learner.target)
    assert learnt.skill > nothing.skill + 0.1
    assert learnt.skill > 0.2
    assert 0 <= learnt.right <= 1


def test_class_weights_balance_and_are_counted_on_the_training_part() -> None:
    y = np.array([0] * 90 + [1] * 30)
    config = of(
        "classify",
        data={"x": X, "y": y, "peer": PEER, "split": SPLIT},
        task="classify:weights=balanced",
    )
    dataset = load_data(config)
    rare = float((dataset.labels[dataset.train] == 1).mean())
    assert dataset.target.weights == pytest.approx((0.5 / (1 - rare), 0.5 / rare))
    z, few = torch.randn(6, 2), torch.tensor([0, 1, 0, 0, 1, 0])
    expected = F.cross_entropy(z, few, torch.tensor(dataset.target.weights), reduction="none")
    torch.testing.assert_close(
        Classify(weights="balanced").losses(z, few, dataset.target), expected
    )


# -- which way is better ---------------------------------------------------------------------------


def test_tables_follow_the_direction_and_the_unit(tmp_path: Path) -> None:
    config = of("regress", task="regress:unit=kW", partition={"validation": 0.2}, rounds=3)
    found = amity.compare(["gossip", "local"], [1, 2], config, tmp_path / "c", sinks=[])
    gossip, local = found.lines
    finals = [(a.final(), b.final()) for a, b in zip(*found.results.values(), strict=True)]
    gains = [local[p] - mine[p] for mine, local in finals for p in mine]
    assert gossip.gain == pytest.approx(np.mean(gains))
    assert gossip.harmed == pytest.approx(np.mean(np.array(gains) < 0))
    assert gossip.worst_tenth == pytest.approx(min(gains))
    assert found.story.top == min((gossip, local), key=lambda line: line.accuracy).label
    assert (gossip.as_dict()["metric"], gossip.as_dict()["unit"]) == ("rmse", "kW")
    page = (tmp_path / "c" / "report.html").read_text()
    assert "RMSE (kW)" in page
    assert "test accuracy" not in page
    run = found.results["gossip"][0]
    best = best_records(run.metrics, run.metric)
    for name, record in best.items():
        mine = [r.lead("validation") for r in run.metrics if r.peer == name]
        assert record.lead("validation") == min(mine)


def test_a_model_that_regresses_is_exported_and_answers_in_its_unit(tmp_path: Path) -> None:
    table = tmp_path / "plants.csv"
    with open(table, "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["plant", "a", "b", "output"])
        writer.writerows([p, *x[:2], 30 + 5 * x[0]] for p, x in zip(PEER, X.tolist(), strict=True))
    data = {"name": "table", "path": str(table), "peer": "plant", "target": "output"}
    layers = of("regress").to_dict() | {"data": data, "task": {"name": "regress", "unit": "kW"}}
    layers |= {"rounds": 4, "partition": {"name": "natural"}, "strategy": {"name": "gossip"}}
    run = amity.run(resolve([layers]), tmp_path / "r")
    (taken,) = export(run.path, "peer-00")
    assert "RMSE" in (taken.folder / "MODEL.md").read_text()
    found = predict(taken.folder, table)
    truth = np.array([30 + 5 * x[0] for x in X])
    rmse = float(np.sqrt(((found.probabilities[:, 0] - truth) ** 2).mean()))
    assert found.verdict == f"RMSE {rmse:.4g} kW"
    rows = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert float(rows[3]["output"]) == pytest.approx(found.probabilities[3, 0], rel=1e-4)


def test_a_model_of_text_says_the_next_letter_and_the_perplexity_of_each_row(
    tmp_path: Path,
) -> None:
    """As the network's own output has it, row by row, from ids and from text."""
    letters = "abcde"
    file = tmp_path / "ids.npz"
    np.savez(file, x=IDS[:4, :-1], y=IDS[:4, 1:])
    config = of("tokens", rounds=1, strategy="gossip")
    run = amity.run(config, tmp_path / "r")
    (taken,) = export(run.path, "peer-00")
    opened = open_model(taken.folder)
    said = torch.from_numpy(opened.probabilities(IDS[:4, :-1])).double()
    nats = -said.gather(2, torch.from_numpy(IDS[:4, 1:, None]))[..., 0].log()
    found = predict(taken.folder, file)
    rows = list(csv.DictReader(io.StringIO(found.to_csv())))
    for row, p, one in zip(rows, said, nats, strict=True):
        assert int(row["next"]) == int(p[-1].argmax())
        assert float(row["p_next"]) == pytest.approx(float(p[-1].max()), abs=1e-5)
        assert float(row["perplexity"]) == pytest.approx(math.exp(float(one.mean())), rel=1e-4)
    assert found.verdict == f"perplexity {math.exp(float(nats.mean())):.4g}"
    np.savez(file, x=np.ravel(IDS[:2, :4]), lengths=[5, 3])
    ids = np.split(np.ravel(IDS[:2, :4]), [5])
    without = predict(taken.folder, file).probabilities
    assert without[:, 4].tolist() == [4, 2], "the first token of each has nothing before it"
    assert [int(ids_of(opened, one).argmax()) for one in ids] == without[:, 0].tolist()

    schema = replace(opened.description.schema, letters=letters)
    readable = replace(opened, description=replace(opened.description, schema=schema))
    text = "".join(letters[i - 1] for i in IDS[0])  # seven letters, and the model reads six
    pieces = ask(readable, text_examples(readable.description, "t", {"1": text + "?", "2": "~"}))
    assert pieces.examples.ids == ("1.1", "1.2")
    assert len(pieces.examples.notes) == 3
    assert pieces.probabilities[0, 2] == pytest.approx(float(nats[0].sum()), rel=1e-5)
    spoken = answer(readable, json.dumps({"text": [text[:6]]}).encode())["predictions"]
    assert spoken[0]["next"] == letters[int(found.probabilities[0, 0]) - 1]
    for body, why in (({"text": [text]}, "1 to 6"), ({"text": ["~"]}, "no character")):
        with pytest.raises(AmityError, match=why):
            answer(readable, json.dumps(body).encode())
    with pytest.raises(DataError, match="was not trained on characters"):
        text_examples(opened.description, "a.txt", {"1": text})


def ids_of(model: Classifier, ids: np.ndarray[Any, Any]) -> torch.Tensor:
    """The probabilities of the token after a sequence."""
    padded = np.pad(ids, (0, 6 - len(ids)))[None]
    return torch.from_numpy(model.probabilities(padded)[0, len(ids) - 1])


# -- one's own -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Quantile(Task):
    """The number that a share of the answers lies below."""

    share: float = 0.9
    """The share."""

    metric: ClassVar[Metric] = Metric("pinball", more=False, unit="")

    def losses(self, z: torch.Tensor, y: torch.Tensor, target: Target) -> torch.Tensor:
        gap = y - z
        return torch.maximum(self.share * gap, (self.share - 1) * gap).mean(1)

    def measure(
        self, z: torch.Tensor, y: torch.Tensor, target: Target, whole: bool
    ) -> dict[str, float]:
        return {"pinball": float(self.loss(z, y, target))}


def test_a_task_of_ones_own_needs_a_loss_and_a_metric() -> None:
    config = of("regress", task=Quantile(0.8), strategy="friends", rounds=3)
    with simulate(config) as simulation:
        reports = [simulation.round() for _ in range(3)]
        learner = simulation.world.learner
    assert reports[-1].network.score < reports[0].network.score
    y = torch.arange(11.0)[:, None]
    assert float(learner.task.constant(y, Target(1))) == pytest.approx(8.0, abs=0.3)


# -- what does not fit -----------------------------------------------------------------------------


def wide(shape: tuple[int, ...], outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(6, 4), nn.Linear(4, outputs + 1))


def begin(y: np.ndarray[Any, Any] = NUMBERS, shift: str = "", **layers: Any) -> None:
    """All that is done before a round."""
    config = of("regress", data={"x": X, "y": y, "peer": PEER, "split": SPLIT}, **layers)
    if shift:
        config = config.replace(partition={"name": "iid"}, shift=shift)
    simulate(config).close()


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        ({"task": "classify", "y": NUMBERS}, r"regression target .* use task=regress"),
        ({"task": "regress", "y": np.array(["a", "b"] * 60)}, r"text \('a'\).*task=classify"),
        ({"task": "regress", "y": np.where(PEER == 2, np.nan, 1.0)}, r"example 60 is NaN"),
        ({"task": "multilabel", "y": NUMBERS}, r"each label is 0 or 1"),
        ({"task": "tokens", "y": NUMBERS}, r"ids of tokens"),
        ({"task": "tokens", "y": ANSWERS["classify"]}, r"no sequences of tokens; .*task=classify"),
        (
            {"task": {"name": "classify", "error": "mae"}},
            r"say which: task=regress, or leave it out",
        ),
        ({"task": "regress:loss=mse"}, r"unknown option 'loss'; known: delta, error, lead, unit"),
        ({"task": "classify:weights=1,2", "y": ANSWERS["classify"]}, r"2 numbers for 3 classes"),
        ({"task": "regress", "model": wide}, r"must give 1 number for an example, .* \(2, 2\)"),
        ({"task": "regres"}, r"did you mean 'regress'"),
        ({"task": "regress", "shift": "permute_labels"}, r"needs classes"),
    ],
)
def test_what_does_not_fit_is_said_in_one_line_before_a_round(
    layers: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(AmityError, match=said) as caught:
        begin(**layers)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ConfigError | DataError)


def with_answers(y: np.ndarray[Any, Any]) -> Config:
    """Sequences of tokens with these answers."""
    data = {"x": IDS[:, :-1], "y": y, "peer": PEER, "split": SPLIT}
    return of("tokens", data=data).replace(data={"kind": "tokens"})


@pytest.mark.parametrize(
    ("y", "said"),
    [
        (np.arange(COUNT) % 3, r"example 0 is 0, which is padding \(40 such .*use task=classify"),
        (np.where(np.arange(COUNT)[:, None] == 7, 0, IDS[:, 1:]), r"example 7 is nothing but 0"),
        (IDS[:, 2:], r"5 answers for sequences of 6 tokens; give one for each token"),
    ],
)
def test_answers_that_are_no_next_tokens_are_refused(y: np.ndarray[Any, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        load_data(with_answers(y))


def test_answers_inside_of_sequences_that_count_nowhere_are_counted() -> None:
    tags = IDS[:, 1:] - 1
    inside = sum(np.trim_zeros(row, "b").tolist().count(0) for row in tags)
    noted = load_data(with_answers(tags)).notes
    assert any(note.startswith(f"{inside} answers inside of sequences are 0") for note in noted)


def test_a_network_that_answers_once_is_refused_where_every_place_is_asked() -> None:
    with pytest.raises(ConfigError, match=r"model mlp: answers once .* try model=gru"):
        simulate(of("tokens", model="mlp")).close()


def test_members_with_another_task_are_told() -> None:
    def terms(task: str) -> Terms:
        config = of("regress", task=task)
        schema = load_data(config).schema.common
        return Terms(data=schema, model=(), seed=0, card=None, masked=False, task=config.learnt)

    here = terms("regress:error=huber")
    assert "regress (error=huber, delta=1.0) here" in here.difference(terms("regress"))
    assert not here.difference(terms("regress:error=huber:unit=kW:lead=mae"))
    assert here.digest != terms("regress").digest
    told = Terms.decode(here.encode())
    assert told == here
    own = load_data(of("regress")).schema
    assert own.targets[0].mean == pytest.approx(float(np.mean(NUMBERS)), rel=0.2)
    assert own.common.targets[0].mean is None, "statistics of one's own never leave a member"
