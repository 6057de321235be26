"""An exported model, ready to be asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from amity.data.samples import CHUNK
from amity.data.scaling import scaling
from amity.errors import DataError
from amity.learn.models import build_module, models
from amity.registry import in_memory
from amity.use.modelfile import Description, find_model, read_model

Array = np.ndarray[Any, Any]


class Pipeline(nn.Module):
    """From inputs as they are to probabilities: scaling, network and softmax in one."""

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, network: nn.Module, mean: torch.Tensor, std: torch.Tensor) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.network((x - self.mean) / self.std).float(), 1)


@dataclass(frozen=True)
class Classifier:
    """Says how probable each class is."""

    path: Path
    description: Description
    module: Pipeline

    def probabilities(self, x: Array) -> Array:
        """A row for every example, a column for every class. `x` are inputs as they are: nothing
        is scaled yet."""
        whole = torch.from_numpy(np.ascontiguousarray(x, np.float32))
        with torch.inference_mode():
            parts = [self.module(part) for part in torch.split(whole, CHUNK)]
        return np.asarray(torch.cat(parts).numpy())


def open_model(path: Path, which: str = "") -> Classifier:
    """From the folder of an export (the best model, or else the last), or from a file."""
    file = find_model(path, which)
    description, tensors = read_model(file)
    return classifier_of(file, description, tensors)


def classifier_of(
    file: Path, description: Description, tensors: Mapping[str, torch.Tensor]
) -> Classifier:
    """The network that the description names, with these parameters."""
    options = dict(description.model)
    entry = models[str(options.pop("name", ""))]
    if description.code != entry.code:
        raise DataError(f"{file}: {_why_not(entry.name)}")
    label, count = entry.name.rpartition(":")[2], len(description.classes)
    network = build_module(
        label, entry.build(options), description.shape, count, own=bool(entry.code)
    )
    _fill(file, network, tensors)
    rest = [1] * (len(description.shape) - 1)
    mean, std = (
        torch.tensor(given, dtype=torch.float32).reshape(-1, *rest)
        for given in scaling(description.schema)
    )
    return Classifier(file, description, Pipeline(network, mean, std).eval())


def _why_not(name: str) -> str:
    """Why a network of one's own is not the one that was trained."""
    if in_memory(name):
        return (
            "its network was passed as an object and lies in no file; train with"
            " model=FILE.py:NAME, or use amity.export(..., onnx=True) where the object is"
        )
    return f"{name.rpartition(':')[0]} has changed since the export; put it back, or export again"


def _fill(file: Path, network: nn.Module, tensors: Mapping[str, torch.Tensor]) -> None:
    wanted = {name: tuple(p.shape) for name, p in network.named_parameters()}
    given = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if wanted != given:
        odd = next(n for n in sorted({*wanted, *given}) if wanted.get(n) != given.get(n))
        raise DataError(
            f"{file}: its parameters do not belong to its network: {odd!r} is"
            f" {given.get(odd, 'absent')}, expected {wanted.get(odd, 'nothing of this name')}"
        )
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.copy_(tensors[name])
            parameter.requires_grad_(False)
