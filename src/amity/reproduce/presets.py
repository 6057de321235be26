"""The sizes to run an experiment at.

- `smoke`: seconds; the built-in digits stand in for every dataset. It shows that a table can be
  made, nothing else.
- `cpu`: two cores, some 20 seconds per cell, two at a time. 20 peers x 100 examples, 60 rounds of 2
  epochs, a small CNN, `cifar_small` (55,698 parameters).
- `mid`: a night on two cores, one seed, a quarter of an hour per cell: is what `cpu` shows a matter
  of size? 40 peers x 500 examples, 100 rounds of 2 epochs, `fedavg_cnn` in bf16. Only Table 1 has
  it.
- `paper`: as printed. 100 peers, 500 rounds, 5 epochs; for a GPU (`device=cuda`) or a cluster
  (`engine=ray`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

Layer = Mapping[str, Any]
"""A piece of config."""
T = TypeVar("T")

SMOKE: Layer = {
    "peers": 4,
    "rounds": 2,
    "model": {"name": "mlp", "hidden": 8},
    "train": {"epochs": 1, "batch": 16, "lr": 0.05, "augment": "none"},
    "eval": {"every": 1, "gradients_every": 0},
    "partition": {"samples": 24, "test": 20},
}
CPU: Layer = {
    "peers": 20,
    "rounds": 60,
    "model": "cifar_small",
    "train": {
        "epochs": 2,
        "batch": 20,
        "lr": 0.02,
        "momentum": 0.9,
        "augment": "none",
        "precision": "fp32",
    },
    "eval": {"every": 10, "gradients_every": 0},
    "partition": {"samples": 100, "test": 100},
    "facts": {"examples": 32},
    "engine": {"name": "local", "vectorise": "on"},
}
MID: Layer = {
    "peers": 40,
    "rounds": 100,
    "model": "fedavg_cnn",
    "train": {
        "epochs": 2,
        "batch": 50,
        "lr": 0.02,
        "momentum": 0.9,
        "augment": "none",
        "precision": "bf16",
    },
    "eval": {"every": 10, "gradients_every": 0},
    "partition": {"samples": 500, "test": 200},
    "facts": {"examples": 64},
}
PAPER: Layer = {
    "peers": 100,
    "rounds": 500,
    "model": "fedavg_cnn",
    "train": {"epochs": 5, "batch": 128, "lr": 0.01, "momentum": 0.9},
    "eval": {"every": 10, "gradients_every": 0},
    "facts": {"examples": 0},
}
FEMNIST_TRAIN = {"epochs": 5, "batch": 32, "lr": 0.1, "momentum": 0.9}
FASHION: Layer = {
    "data": "fashionmnist",
    "peers": 20,
    "rounds": 20,
    "partition": {"name": "pathological", "classes": 4, "samples": 80, "test": 100},
    "model": "fashion_cnn2",
    "train": {"epochs": 5, "batch": 20, "lr": 0.02, "momentum": 0.9, "precision": "fp32"},
    "eval": {"every": 5, "gradients_every": 0},
}
"""Twenty peers with 80 images of four kinds of clothes each."""
TINY: Layer = {**FASHION, "rounds": 30, "model": {"name": "mlp", "hidden": 24}}
"""The same with a net of 19,000 parameters: for tables of hundreds of runs."""


def changed(layer: Layer, **sections: Any) -> Layer:
    """A layer with some keys of its sections changed."""
    out = dict(layer)
    for key, value in sections.items():
        old = out.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            value = {**old, **value}
        out[key] = value
    return out


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Sizes by dataset, how many neighbours rivals take, and the seeds."""

    name: str
    sizes: Mapping[str, Layer]
    k: int
    seeds: tuple[int, ...]
    more: tuple[int, ...]
    """Seeds where a claim rests on the table."""
    over: Layer = field(default_factory=dict)
    """On top of everything: the stand-in data."""
    budget: float = 0.0
    """Seconds that a cell is meant to take; 0: as long as it likes."""
    stand_in: str = ""
    """What is wrong with the numbers, where other data stand in."""

    def pick(self, usual: T, **special: T) -> T:
        """A value that some presets have for themselves: `preset.pick(100, smoke=8)`."""
        return special.get(self.name, usual)


PRESETS: Mapping[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset(
            name="smoke",
            sizes=dict.fromkeys(("cifar10", "cifar100", "femnist", "fashionmnist"), SMOKE),
            k=2,
            seeds=(0,),
            more=(0,),
            over={"data": "digits"},
            budget=1.0,
            stand_in=(
                "The built-in digits stand in for every dataset, with 4 peers and a handful of"
                " rounds: this shows that the table can be made, and says nothing about any claim."
            ),
        ),
        Preset(
            name="cpu",
            sizes={
                "cifar10": CPU,
                "cifar100": CPU,
                "femnist": changed(
                    CPU,
                    rounds=40,
                    partition={"name": "natural", "test": 0, "samples": 100},
                    train={"lr": 0.05},
                    eval={"every": 4},
                ),
                "fashionmnist": changed(CPU, partition={"samples": 80}),
            },
            k=5,
            seeds=(0, 1, 2),
            more=(0, 1, 2, 3, 4),
            budget=30.0,
        ),
        Preset(
            name="mid",
            sizes={"cifar10": MID},
            k=5,
            seeds=(0,),
            more=(0,),
        ),
        Preset(
            name="paper",
            sizes={
                "cifar10": PAPER,
                "cifar100": changed(PAPER, model="resnet18_gn"),
                "femnist": changed(
                    PAPER, model="leaf_cnn", train=FEMNIST_TRAIN, partition={"name": "natural"}
                ),
                "fashionmnist": changed(PAPER, model="fashion_cnn2"),
            },
            k=10,
            seeds=(0, 1, 2),
            more=(0, 1, 2),
        ),
    )
}
USUAL = ("smoke", "cpu", "paper")
"""Those that an experiment has unless it says otherwise."""
