"""An exported model, ready to be asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from amity.data.samples import CHUNK
from amity.data.scaling import scaling
from amity.data.schema import Schema
from amity.data.target import Target
from amity.errors import DataError
from amity.learn.freezing import saved_buffers
from amity.learn.models import build_module, models
from amity.registry import Entry, in_memory, reading, take_over, yours
from amity.tasks import Task
from amity.use.fitting import Inputs, count
from amity.use.modelfile import Description, find_model, read_model

Array = np.ndarray[Any, Any]


class Pipeline(nn.Module):
    """From inputs as they are to answers: scaling, network and what its task makes of it (of
    classes: softmax) in one. Several inputs are taken in the order of their `names`."""

    def __init__(
        self,
        network: nn.Module,
        scales: Sequence[tuple[torch.Tensor, torch.Tensor] | None],
        task: Task,
        target: Target,
        names: tuple[str, ...] = (),
    ) -> None:
        """`scales` are mean and deviation of each input; None: it is ids of tokens."""
        super().__init__()
        self.network, self.task, self.target, self.names = network, task, target, names
        self.scaled = [scale is not None for scale in scales]
        for at, scale in enumerate(scales):
            for name, value in zip(("mean", "std"), scale or (), strict=False):
                self.register_buffer(f"{name}{at}", value)

    def forward(self, *given: torch.Tensor) -> torch.Tensor:
        x = [
            (part - getattr(self, f"mean{at}")) / getattr(self, f"std{at}") if scaled else part
            for at, (part, scaled) in enumerate(zip(given, self.scaled, strict=True))
        ]
        named = dict(zip(self.names, x, strict=False))
        z = self.network(**named) if named else self.network(*x)
        return self.task.answers(z.float(), self.target)


@dataclass(frozen=True)
class Classifier:
    """Says how probable each class is, or what else its task is."""

    path: Path
    description: Description
    module: Pipeline

    def probabilities(self, x: Inputs) -> Array:
        """A row for every example, a column for every class (label, or number). `x` are inputs as
        they are: nothing is scaled yet."""
        return np.concatenate([answers for _, answers in self.pieces(x)])

    def pieces(self, x: Inputs) -> Iterator[tuple[Inputs, Array]]:
        """Some examples at a time, and the answers to them."""
        whole = self.arrays(x)
        for at in range(0, count(x), CHUNK):
            some = {name: part[at : at + CHUNK] for name, part in whole.items()}
            with torch.inference_mode():
                answers = self.module(*map(torch.from_numpy, some.values()))
            yield some if self.module.names else some["x"], answers.numpy()

    def arrays(self, x: Inputs) -> dict[str, Array]:
        """Inputs by name (`x` where there is one), in the order and type in which the module takes
        them."""
        named = {name: x[name] for name in self.module.names} or {"x": x}
        types = [np.float32 if scaled else np.int64 for scaled in self.module.scaled]
        return {
            name: np.ascontiguousarray(part, kind)
            for (name, part), kind in zip(named.items(), types, strict=True)
        }


def open_model(path: Path, which: str = "", network: str = "") -> Classifier:
    """From the folder of an export (the best model, or else the last), or from a file. A network of
    your own is run only if you have run it before, or name it here: `file.py:Net`."""
    file = find_model(path, which)
    description, tensors = read_model(file)
    return classifier_of(file, description, tensors, network)


def classifier_of(
    file: Path, description: Description, tensors: Mapping[str, torch.Tensor], network: str = ""
) -> Classifier:
    """The network that the description names, with these parameters."""
    options = dict(description.model)
    entry = _entry(file, str(options.pop("name", "")), network)
    if description.code != entry.code:
        raise DataError(f"{file}: {_why_not(entry.name)}")
    label, own = entry.name.rpartition(":")[2], bool(entry.code)
    target, schema = description.target, description.schema
    module = build_module(label, entry.build(options), schema.form, target, own=own)
    _fill(file, module, tensors)
    names = tuple(part.name for part in schema.parts)
    pipeline = Pipeline(module, _scales(schema), description.does, target, names)
    return Classifier(file, description, pipeline.eval())


def _scales(schema: Schema) -> list[tuple[torch.Tensor, torch.Tensor] | None]:
    """By which each input is scaled; ids of tokens are not."""
    parts = schema.parts or (schema,)
    found: list[tuple[torch.Tensor, torch.Tensor] | None] = []
    for part in parts:
        rest = [1] * (len(part.shape) - 1)
        by = scaling(part) if isinstance(part, Schema) else (part.mean, part.std)
        mean, std = (torch.tensor(given, dtype=torch.float32).reshape(-1, *rest) for given in by)
        found.append(None if part.vocabulary else (mean, std))
    return found


def _entry(file: Path, name: str, network: str) -> Entry[Any]:
    """The network by its name. A file that a model names may be anybody's: it is not run unless it
    is yours, by the rule of `registry/yours.py`, or typed."""
    if network:
        take_over(network)
        return models[network]
    with reading() as named:
        entry = models[name]
    if not named:
        return entry
    if yours(name):
        take_over(name)
        return models[name]
    raise DataError(
        f"{file}: its network is {name!r}, code that you have not run before as it is now, and what"
        " a model names is not run; if you have the file and trust it, say network=FILE.py:NAME"
    )


def _why_not(name: str) -> str:
    """Why a network of one's own is not the one that was trained."""
    if in_memory(name):
        return (
            "its network was passed as an object and lies in no file; train with"
            " model=FILE.py:NAME, or use amity.export(..., onnx=True) where the object is"
        )
    return f"{name.rpartition(':')[0]} has changed since the export; put it back, or export again"


def _fill(file: Path, network: nn.Module, tensors: Mapping[str, torch.Tensor]) -> None:
    own = dict([*network.named_parameters(), *saved_buffers(network)])
    wanted = {name: tuple(tensor.shape) for name, tensor in own.items()}
    given = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if wanted != given:
        odd = next(n for n in sorted({*wanted, *given}) if wanted.get(n) != given.get(n))
        raise DataError(
            f"{file}: its parameters do not belong to its network: {odd!r} is"
            f" {given.get(odd, 'absent')}, expected {wanted.get(odd, 'nothing of this name')}"
        )
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(tensors[name])
            tensor.requires_grad_(False)
