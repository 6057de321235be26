"""Which registry serves which section of a config, and what else a config consists of."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from amity.config.engines import engines
from amity.config.parts import (
    Availability,
    Checkpoint,
    Crowd,
    Evaluation,
    Facts,
    Layers,
    Stop,
    Train,
    Vectorising,
)
from amity.config.schema import SILENT, Config
from amity.data import datasets, partitions, shifts
from amity.data.own import SUFFIXES, by_path
from amity.data.shift import Grouping
from amity.learn.models import models
from amity.methods import methods
from amity.peer.attacks import attacks
from amity.peer.mixing import mixers
from amity.peer.privacy import privacies
from amity.registry import Registry
from amity.stages import stages
from amity.strategies import strategies
from amity.tasks import tasks
from amity.topology import topologies


@dataclass(frozen=True)
class Section:
    """A section that picks one entry of a registry."""

    registry: Registry[Any]
    default: str
    common: type | None = None
    """Its keys beside the options of the entry."""
    read: Callable[[str], Mapping[str, Any] | None] = lambda _text: None
    """Another way to read a name, such as a path: what it stands for, or None."""
    also: str = ""
    """What else may stand in place of a name, for who typed neither."""


OWN_DATA = f"a folder that is there, or a file that ends in {', '.join(sorted(SUFFIXES))}"
SECTIONS: dict[str, Section] = {
    "data": Section(datasets, "digits", read=by_path, also=OWN_DATA),
    "task": Section(tasks, SILENT["task"]),
    "partition": Section(partitions, "dirichlet"),
    "shift": Section(shifts, SILENT["shift"], Grouping),
    "topology": Section(topologies, "full", Availability),
    "model": Section(models, "fedavg_cnn", Layers),
    "strategy": Section(strategies, "friends"),
    "method": Section(methods, "finetune"),
    "mixer": Section(mixers, "mean"),
    "privacy": Section(privacies, "none"),
    "attack": Section(attacks, "none", Crowd),
    "engine": Section(engines, "local", Vectorising),
}
STAGE = Section(stages, "")
"""Of which a run has any number."""
PARTS: dict[str, type] = {
    "train": Train,
    "eval": Evaluation,
    "facts": Facts,
    "checkpoint": Checkpoint,
    "stop": Stop,
}
_HINTS = inspect.get_annotations(Config, eval_str=True)
SCALARS = {key: _HINTS[key] for key in ("peers", "rounds", "seed", "device")}
