"""The workloads, from the one file that fixes them."""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from amity.config import Config, resolve
from amity.lab.compare import parse_spec

SGD = {"lr": 0.05, "momentum": 0.0}


@dataclass(frozen=True, kw_only=True)
class Workload:
    """So many peers with so many examples each, one model, some strategies."""

    name: str
    model: str
    shape: tuple[int, ...]
    peers: int
    samples: int
    batch: int
    epochs: int
    rounds: int
    strategies: tuple[str, ...]
    hidden: int = 0
    classes: int = 10
    """Classes that a peer holds, of 10."""
    optimiser: str = ""
    """With its own learning rate and options; empty: SGD without momentum."""

    @property
    def steps(self) -> int:
        """Gradient steps of a round."""
        return self.peers * self.epochs * math.ceil(self.samples / self.batch)

    @property
    def examples(self) -> int:
        """Examples trained on in a round."""
        return self.peers * self.epochs * self.samples

    def config(self, strategy: str, precision: str, **more: Any) -> Config:
        """A run of one warming round and `rounds` measured ones."""
        options = parse_spec(strategy)[1]["strategy"]
        plain: dict[str, Any] = {
            "data": {
                "name": "synthetic",
                "shape": "x".join(map(str, self.shape)),
                "train": self.peers * self.samples,
            },
            "partition": {
                "name": "pathological",
                "classes": self.classes,
                "samples": self.samples,
                "test": 100,
            },
            "model": {"name": self.model, **({"hidden": self.hidden} if self.hidden else {})},
            "strategy": options,
            "method": {"name": "finetune", "tune_epochs": 0},
            "peers": self.peers,
            "rounds": self.rounds + 1,
            "train": {
                **({"optimiser": self.optimiser} if self.optimiser else SGD),
                "batch": self.batch,
                "epochs": self.epochs,
                "precision": precision,
            },
            "eval": {"every": self.rounds + 1, "gradients_every": 0},
        }
        return resolve([plain, more])


def workloads() -> dict[str, Workload]:
    text = files("amity.bench").joinpath("workloads.toml").read_text(encoding="utf-8")
    return {name: _workload(name, values) for name, values in tomllib.loads(text).items()}


def _workload(name: str, values: dict[str, Any]) -> Workload:
    plain: dict[str, Any] = {
        key: tuple(v) if isinstance(v, list) else v for key, v in values.items()
    }
    return Workload(name=name, **plain)
