"""Objects in place of names: classes, modules, functions and arrays, also where no file is."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import amity
from amity.choosing import Cardless
from amity.config import load
from amity.core import Ask, Decision, Plan, Row, View, spread
from amity.data.target import Target
from amity.errors import ConfigError, DataError
from amity.facts import Loss
from amity.methods.finetune import Finetune
from amity.registry import fingerprint
from amity.round.build import load_data, make_learner
from amity.stages.base import Stage
from amity.store import read_config
from amity.strategies.gossip import Gossip

SMALL: Mapping[str, Any] = {
    "rounds": 2,
    "train.epochs": 1,
    "train.batch": 16,
    "engine.workers": 1,
    "checkpoint.every": 1,
}
LINES = ("metrics.jsonl", "edges.jsonl", "rounds.jsonl")


@dataclass(frozen=True)
class Nearest(Cardless):
    """The k whose models fit my data best."""

    k: int = 3

    def decide(self, view: View, row: Row) -> Plan:
        losses = yield Ask(Loss(), view.neighbours)
        best = sorted(losses, key=losses.__getitem__)[: self.k]
        return Decision(spread((view.me, *best)))


def without_a_file(power: int = 1) -> type[Nearest]:
    """As in a notebook: a class that nobody could import."""

    @dataclass(frozen=True)
    class Mine(Nearest):
        def decide(self, view: View, row: Row) -> Plan:
            decision = yield from super().decide(view, row)
            return Decision(spread({j: w**power for j, w in decision.row.items()}))

    return Mine


def arrays(shift: float = 1.0) -> dict[str, Any]:
    draw = np.random.default_rng(0)
    y = draw.integers(3, size=240)
    x = draw.normal(size=(240, 6)) + shift * y[:, None]
    return {"x": x, "y": y, "peer": np.repeat(["north", "south", "west"], 80)}


def net(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


def small(data: Any, **given: Any) -> dict[str, Any]:
    return {"data": data, **SMALL, **given}


def same_lines(one: str, other: str) -> bool:
    return all((Path(one) / n).read_bytes() == (Path(other) / n).read_bytes() for n in LINES)


# -- in this process -------------------------------------------------------------------------------


def test_a_class_or_an_instance_stands_for_itself() -> None:
    by_class, by_instance = (load(None, {"strategy": one}) for one in (Nearest, Nearest(k=2)))
    assert (by_class.strategy.instance, by_instance.strategy.instance) == (Nearest(3), Nearest(2))
    assert by_class.strategy.name == f"{__name__}:Nearest", "what lies in a file is named by it"
    assert not by_class.in_memory
    assert load(None, {"strategy": Gossip}).strategy.to_dict() == {"name": "gossip", "k": 10}


def test_a_class_without_a_file_runs_and_resumes_in_its_process() -> None:
    mine = without_a_file()
    result = amity.run(small(arrays(), strategy=mine(k=2)), out="whole")
    assert result.config.strategy.label == "Mine"
    assert result.config.in_memory == ["data arrays", "strategy Mine"]
    assert result.config == read_config(result.path), "what is written is what is read"
    amity.run(small(arrays(), strategy=mine(k=2), rounds=1), out="part")
    text = Path("part/config.toml").read_text()
    for record in Path("part/checkpoint").glob("round-*"):
        record.unlink()
    Path("part/config.toml").write_text(text.replace("rounds = 1", "rounds = 2"))
    assert amity.resume("part").complete
    assert same_lines("whole", "part")


def test_another_class_of_the_same_name_never_goes_on_with_a_run() -> None:
    amity.run(small(arrays(), strategy=without_a_file(1)), out="r")
    assert amity.run(small(arrays(), strategy=without_a_file(1)), out="r").complete
    with pytest.raises(amity.AmityError, match=r"another config \(differs in strategy.name\)"):
        amity.run(small(arrays(), strategy=without_a_file(2)), out="r")


def test_stages_and_methods_may_be_objects_too() -> None:
    @dataclass(frozen=True)
    class Half(Stage):
        share: float = 0.5

        def decide(self, view: View, row: Row) -> Plan:
            yield from ()
            rest = {j: self.share * w for j, w in row.items() if j != view.me}
            return Decision({**rest, view.me: 1 - sum(rest.values())})

    @dataclass(frozen=True)
    class Untuned(Finetune):
        tune_epochs: int = 0

    result = amity.run(
        small(arrays(), strategy="gossip", stages=[Half(0.25), "krum"], method=Untuned), out="r"
    )
    assert result.complete
    assert result.config.label == "gossip/Half/krum"
    assert [stage.to_dict().get("share") for stage in result.config.stages] == [0.25, None]
    assert load(None, {"stages": Half}).label == "friends/Half"
    changed = result.config.replace(**{"stages.Half.share": 0.75})
    assert changed.stages[0].instance == Half(0.75)


def test_every_peer_starts_from_the_weights_that_a_module_had_when_it_was_passed() -> None:
    module = net()
    before = {key: value.clone() for key, value in module.state_dict().items()}
    config = load(None, small(arrays(), model=module, rounds=1, strategy="local"))
    with torch.no_grad():
        module[0].weight.add_(1)  # type: ignore[union-attr, operator]
    for seed in (0, 1):
        learner = make_learner(config.replace(seed=seed), (6,), Target(3))
        theta = learner.initial()
        for slot in learner.layout.slots:
            assert torch.equal(slot.of(theta), before[slot.name])
    assert amity.run(config, out="r").complete


def test_a_run_trains_copies_and_leaves_the_module_alone() -> None:
    module = net()
    digest = fingerprint(module)
    first = amity.run(small(arrays(), model=module), out="one")
    amity.run(small(arrays(), model=net()), out="other")
    assert fingerprint(module) == digest
    assert first.config.digest == read_config(Path("other")).digest
    assert same_lines("one", "other")
    with pytest.raises(amity.AmityError, match=r"differs in model.name"):
        amity.run(small(arrays(), model=net(seed=1)), out="one")


def test_a_function_makes_the_model_and_what_it_uses_is_part_of_the_run() -> None:
    def maker(width: int) -> Callable[..., nn.Module]:
        return lambda shape, classes: nn.Sequential(
            nn.Linear(*shape, width), nn.ReLU(), nn.Linear(width, classes)
        )

    narrow, wide = (load(None, small(arrays(), model=maker(width))) for width in (4, 8))
    assert narrow.digest != wide.digest
    assert narrow.digest == load(None, small(arrays(), model=maker(4))).digest
    assert make_learner(wide, (6,), Target(3)).layout.size == 6 * 8 + 8 + 8 * 3 + 3
    assert amity.run(narrow, out="r").complete


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 3)),
            r"does not take examples of shape \(6,\)",
        ),
        (nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 2)), "must give 3 numbers for an example"),
        (lambda shape, classes: 3, "expected a torch module, got int"),
        (3, "model: expected a name, got 3"),
    ],
)
def test_a_model_that_does_not_fit_is_refused_in_one_line(model: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        amity.run(small(arrays(), model=model), out="r")
    assert "\n" not in str(caught.value)


def test_arrays_are_data_and_bring_their_peers_along() -> None:
    result = amity.run(small(arrays()), out="r")
    assert (result.config.peers, result.config.partition.name) == (3, "natural")
    assert sorted(result.origins.values()) == ["north", "south", "west"]
    dealt = load(None, small(arrays(), partition="iid", peers=5))
    assert (dealt.peers, dealt.partition.name) == (5, "iid"), "what is said counts"
    x, y, _ = arrays().values()
    assert load(None, small({"x": x, "y": y})).partition.name == "dirichlet"
    rows = list(zip(x, y, strict=True))
    for form in ((x, y), lambda: (x, y), load_data(dealt), rows):
        assert len(load_data(load(None, small(form, peers=2))).pixels.y) == 240


def test_arrays_count_by_their_numbers() -> None:
    one, same, other = (load(None, small(arrays(shift))) for shift in (1.0, 1.0, 2.0))
    assert one.digest == same.digest != other.digest
    assert load_data(one) is load_data(same), "and are not read twice"
    data = arrays()
    config = load(None, small(data, **{"data.test_share": 0.3}))
    data["x"][0] += 1
    with pytest.raises(DataError, match=r"data arrays: has been changed since it was passed"):
        load_data(config)


def test_tables_of_options_are_no_arrays() -> None:
    config = load(None, {"data": {"name": "synthetic", "shape": "1x4x4"}})
    assert config.data.name == "synthetic"
    with pytest.raises(ConfigError, match="digits: unknown option 'x'"):
        load(None, {"data.x": 3})
    with pytest.raises(DataError, match="no array 'y'; it has x"):
        load_data(load(None, small({"x": np.zeros((4, 2))})))


def test_runs_side_by_side_share_what_lies_in_memory() -> None:
    mine = without_a_file()
    comparison = amity.compare(
        [mine, mine(k=1), "local"],
        seeds=[0, 1],
        out="c",
        jobs=2,
        **{**small(arrays(), model=net()), "engine.workers": 2},
    )
    assert [line.label for line in comparison.lines] == ["Mine", "Mine:k=1", "local"]
    assert not comparison.errors
    assert all(run.complete for runs in comparison.results.values() for run in runs)


@pytest.mark.parametrize(
    ("given", "what"),
    [({"strategy": without_a_file()}, "strategy Mine"), ({"model": net()}, "model Sequential")],
)
def test_a_cluster_is_told_that_it_cannot_have_them(given: dict[str, Any], what: str) -> None:
    np.savez("own.npz", **arrays())
    with pytest.raises(ConfigError, match=f"engine ray: {what} lies in no file") as caught:
        amity.run(data="own.npz", peers=3, engine="ray", out="r", **given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (nn.Linear, "strategy: Linear must be a frozen dataclass with decide, pulls"),
        (Finetune(), "strategy: Finetune has no method 'decide'"),
        (Finetune, "strategy: Finetune has no method 'decide'"),
        (3, "strategy: expected a name, got 3"),
    ],
)
def test_what_is_no_strategy_is_refused_in_one_line(thing: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(None, {"strategy": thing})
    assert str(caught.value) == message


# -- fingerprints ----------------------------------------------------------------------------------


def test_a_fingerprint_covers_code_globals_closures_and_values() -> None:
    def made(body: str, **names: Any) -> Any:
        exec(f"def f(x):\n    {body}\n", names)
        return names["f"]

    base = fingerprint(made("return x + N", N=1))
    assert base == fingerprint(made("\n    # a remark\n    return x + N", N=1))
    others = [
        made("return x - N", N=1),
        made("return x + N", N=2),
        made("return x + M", M=1),
        made("return x + N()", N=made("return 1")),
        made("return x + N()", N=made("return 2")),
    ]
    assert len({base, *map(fingerprint, others)}) == 6
    looped: list[Any] = [1]
    looped.append(looped)
    assert fingerprint(looped) == fingerprint(looped)
    assert fingerprint({1: 2}) != fingerprint({2: 1})
    assert fingerprint(np.zeros(4, "f4")) != fingerprint(np.zeros(2, "f8"))
    assert fingerprint(torch.zeros(2)) != fingerprint(torch.zeros(1, 2))


def test_what_cannot_be_read_is_itself_and_nothing_else() -> None:
    one, other = threading.Lock(), threading.Lock()
    assert fingerprint(one) == fingerprint(one) != fingerprint(other)


# -- other processes -------------------------------------------------------------------------------

NOTEBOOK = """
import sys
from dataclasses import dataclass

import amity
from amity.methods.finetune import Finetune
from amity.choosing import Cardless
from tests.test_objects import arrays, net, small

@dataclass(frozen=True)
class Nearest(Cardless):
    k: int = 3

    def decide(self, view, row):
        seen = yield amity.Ask(Loss(), view.neighbours)
        return amity.Decision(amity.spread((view.me, *sorted(seen, key=seen.get)[: self.k])))

@dataclass(frozen=True)
class Untuned(Finetune):
    tune_epochs: int = 0

class Net(type(net())):
    pass

def data():
    return arrays()

from amity.facts import Loss

given = {
    "whole": small(arrays(), strategy=Nearest(k=1), method=Untuned(), model=Net(*net())),
    "strategy": small("own.npz", strategy=Nearest, peers=3),
    "method": small("own.npz", method=Untuned, peers=3),
    "model": small("own.npz", model=net(), peers=3),
    "data": small(data, peers=3),
}
for out, config in given.items():
    assert amity.run(config, out=out).complete, out
    assert amity.resume(out).complete, out
    assert all("<notebook " in name for name in amity.load(f"{out}/config.toml").own_code)
amity.compare([Nearest, "local"], [0], small(arrays()), out="compared", jobs=1)
"""


READER = """
from pathlib import Path

import amity
from amity.lab.comparison import read_comparison
from amity.lab.result import Result
from amity.store import read_config
from amity.lab.reports import write_report

result = Result(Path("whole"), read_config(Path("whole")))
assert result.complete and result.accuracy > 0
assert (result.config.label, result.config.strategy.options) == ("Nearest", {"k": 1})
absent = [key for key, pick in result.config.picks if pick.absent]
assert absent == ["data", "model", "strategy", "method"], absent
assert read_config(Path("whole")) == result.config
assert "Neighbours taken" in write_report(Path("whole")).read_text()
assert "The partition" in write_report(Path("strategy")).read_text()
assert [line.label for line in read_comparison(Path("compared")).lines] == ["Nearest", "local"]
assert write_report(Path("compared")).is_file()
for out in ("whole", "strategy", "method", "model", "data"):
    for record in Path(out, "checkpoint").iterdir():
        record.unlink()  # as if it had been killed in its first round
    try:
        amity.resume(out)
    except amity.AmityError as error:
        print(error)
"""


def python(*words: str, text: str = "") -> str:
    """What a Python whose main module has no file says."""
    done = subprocess.run(
        [sys.executable, *words], input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_a_notebook_ran_is_read_anywhere_and_goes_on_where_its_objects_are_passed(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{repository / 'src'}:{repository}")
    np.savez("own.npz", **arrays())
    python("-", text=NOTEBOOK)
    written = {path: path.read_bytes() for name in LINES for path in Path().rglob(name)}
    refused = python("-c", READER).splitlines()
    for line, kind in zip(
        refused, ("dataset", "strategy", "method", "model", "dataset"), strict=True
    ):
        assert line.startswith(f"{kind} '<notebook "), line
        assert line.endswith(
            "was passed as an object to another process; pass it again with the same out=, or put"
            " it into a file that a config can name"
        )
    python("-c", NOTEBOOK)  # the same cells in another kernel go on with the same runs
    assert len(written) == 3 * 7
    assert written == {path: path.read_bytes() for path in written}
