"""Models of one's own: the three ways to give them, and what is refused before a round is run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import amity
from amity.config import load
from amity.data.target import Target
from amity.errors import ConfigError
from amity.round.build import make_learner
from tests.conftest import Call

OWN = """
from dataclasses import dataclass
from torch import nn

def make(shape, classes):
    return nn.Sequential(nn.Linear(*shape, 7), nn.ReLU(), nn.Linear(7, classes))

class Net(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        self.body, self.head = nn.Linear(*shape, 7), nn.Linear(7, classes)
    def forward(self, x):
        return self.head(self.body(x).relu())

@dataclass(frozen=True)
class Wide:
    width: int = 7
    def build(self, shape, classes):
        w = self.width
        return nn.Sequential(nn.Linear(*shape, w), nn.ReLU(), nn.Linear(w, classes))

net = make((4,), 3)
"""
SIZE = 4 * 7 + 7 + 7 * 3 + 3


def own(model: Any, **more: Any) -> amity.Config:
    draw = np.random.default_rng(0)
    y = np.arange(90) % 3
    data = {"x": draw.normal(size=(90, 4)) + y[:, None], "y": y}
    given = {"peers": 3, "rounds": 1, "train.epochs": 1, "engine.workers": 1}
    return load(None, {"data": data, "model": model, "strategy": "gossip", **given, **more})


@pytest.mark.parametrize("name", ["make", "Net", "Wide", "net"])
def test_a_function_a_class_and_an_object_are_models(name: str) -> None:
    Path("mine.py").write_text(OWN)
    config = own(f"mine.py:{name}")
    assert make_learner(config, (4,), Target(3)).layout.size == SIZE
    assert amity.run(config, out="r").complete


def test_the_same_module_every_time_is_copied_so_that_runs_do_not_start_where_others_ended() -> (
    None
):
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(4, 7), nn.ReLU(), nn.Linear(7, 3))
    before = {name: value.clone() for name, value in net.state_dict().items()}
    for out in ("one", "two"):
        amity.run(own(lambda shape, classes: net), out=out)
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    one, two = (Path(out, "metrics.jsonl").read_bytes() for out in ("one", "two"))
    assert one == two


class Several(nn.Module):
    """Gives something else than one tensor, always or only while it trains."""

    def __init__(self, form: str, classes: int = 3) -> None:
        super().__init__()
        self.form = form
        self.body, self.head = nn.Linear(4, 7), nn.Linear(7, classes)

    def forward(self, x: torch.Tensor) -> Any:
        features = self.body(x).relu()
        scores = self.head(features)
        forms: dict[str, Any] = {
            "tuple": (scores, features),
            "dict": {"scores": scores, "features": features},
            "training": (scores, features) if self.training else scores,
            "flat": scores.reshape(-1),
        }
        return forms[self.form]


@dataclass(frozen=True)
class Broken:
    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        raise ValueError("no such layer")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Several("tuple"), "gives 2 outputs, a tuple while it trains; expected one tensor, with 3"),
        (Several("dict"), "gives 2 outputs, a dict"),
        (Several("training"), "a tuple while it trains"),
        (Several("flat"), r"must give 3 numbers for an example, one for each class, got shape \(6"),
        (lambda s, c: Several("flat", 2), "must give 3 numbers for an example"),
        (Broken, r"Broken: cannot be built \(ValueError: no such layer \(test_own_models.py, line"),
        (lambda s: Broken(), r"a function of \(shape, classes\) \(TypeError"),
    ],
)
def test_a_model_that_cannot_be_learnt_is_refused_in_one_line(model: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        amity.run(own(model), out="r")
    assert "\n" not in str(caught.value)
    assert not Path("r/rounds.jsonl").exists(), "before a round is run"


def test_the_command_line_says_it_too(call: Call) -> None:
    Path("mine.py").write_text(
        OWN + "\ndef cold(s, c):\n    return make((64,), c).requires_grad_(False)\n"
        "\nclass Two(Net):\n"
        "    def __init__(self, s, c):\n        super().__init__((64,), c)\n"
        "    def forward(self, x):\n        y = super().forward(x.flatten(1))\n"
        "        return y, y\n"
    )
    for name, said in (
        ("Two", "gives 2 outputs, a tuple"),
        ("cold", "does not take examples of shape (1, 8, 8)"),
    ):
        code, _, err = call(f"run model=mine.py:{name} peers=4 rounds=1 out={name}")
        assert code == 2
        assert said in err
        assert len(err.splitlines()) == 1
