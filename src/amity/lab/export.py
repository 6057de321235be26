"""Take a peer's model out of a run (safetensors + config), and use it on new data."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch

from amity.config import load
from amity.errors import ConfigError, DataError, RunDirError, StorageError, brief, unknown
from amity.files import write_atomically
from amity.lab.run import restored
from amity.round.build import load_data, make_learner, one_thread
from amity.store import how_to_go_on


def export(run: Path, peer: str = "", out: Path | None = None) -> list[Path]:
    """Write OUT/PEER/model.safetensors and config.toml for one peer (or for all): the model as it
    is evaluated."""
    simulation = restored(run)
    if not simulation.next_round:
        raise RunDirError(f"{run}: has no checkpoint yet; {how_to_go_on(run)} goes on with it")
    if peer and peer not in simulation.peers:
        raise ConfigError(unknown("peer", peer, simulation.peers))
    pixels, learner = load_data(simulation.config).pixels, simulation.world.learner
    written = []
    for name in [peer] if peer else list(simulation.names):
        with one_thread():
            theta = simulation.final_model(name)
        tensors = {
            slot.name: (
                theta[slot.start : slot.start + int(np.prod(slot.shape))]
                .reshape(slot.shape)
                .clone()
            )
            for slot in learner.layout.slots
        }
        facts = {
            "peer": name,
            "rounds": simulation.next_round,
            "shape": list(pixels.x.shape[1:]),
            "classes": load_data(simulation.config).classes,
            "mean": pixels.mean.flatten().tolist(),
            "std": pixels.std.flatten().tolist(),
        }
        folder = (out or run / "export") / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"{folder}: cannot be created ({error.strerror}); choose another out="
            ) from None
        data = safetensors.torch.save(tensors, metadata={"amity": json.dumps(facts)})
        write_atomically(folder / "model.safetensors", data)
        write_atomically(folder / "config.toml", simulation.config.to_toml().encode())
        written.append(folder)
    return written


@dataclass(frozen=True)
class Prediction:
    """The most probable class of every example, its probability, and (labels given) the
    accuracy."""

    classes: np.ndarray[Any, Any]
    probability: np.ndarray[Any, Any]
    accuracy: float | None = None

    def to_csv(self) -> str:
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["example", "class", "probability"])
        writer.writerows(
            (i, int(c), f"{p:.6f}")
            for i, (c, p) in enumerate(zip(self.classes, self.probability, strict=True))
        )
        return stream.getvalue()


def predict(model: Path, examples: Path) -> Prediction:
    """Classify the examples of a .npy file, or of a .npz file with `x` (and `y` to score them)."""
    config_path, weights = model / "config.toml", model / "model.safetensors"
    if not (config_path.is_file() and weights.is_file()):
        raise RunDirError(
            f"{model}: expected a folder with model.safetensors and config.toml, as `amity export`"
            " writes"
        )
    config = load(config_path)
    try:
        with safetensors.safe_open(weights, "pt") as file:
            facts = json.loads(file.metadata()["amity"])
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118  not a mapping
        shape = tuple(int(side) for side in facts["shape"])
        learner = make_learner(config, shape, int(facts["classes"]))
        parts = [
            tensors[slot.name].reshape(slot.shape).reshape(-1) for slot in learner.layout.slots
        ]
        rest = [1] * (len(shape) - 1)
        mean, std = (torch.tensor(facts[key]).reshape(-1, *rest) for key in ("mean", "std"))
    except (
        safetensors.SafetensorError,
        KeyError,
        TypeError,
        ValueError,
        RuntimeError,
        OSError,
    ) as error:
        raise DataError(
            f"{weights}: is not a model that `amity export` wrote for this config ({brief(error)})"
        ) from None
    theta = torch.cat(parts)
    x, y = _read_examples(examples, shape)
    with one_thread():
        probability, label = learner.probabilities(theta, (x - mean) / std).max(1)
    accuracy = None if y is None else float((label.numpy() == y).mean())
    return Prediction(label.numpy(), probability.numpy(), accuracy)


def _read_examples(
    path: Path, shape: tuple[int, ...]
) -> tuple[torch.Tensor, np.ndarray[Any, Any] | None]:
    try:
        with open(path, "rb") as stream:
            loaded = np.load(stream, allow_pickle=False)
            x, y = (
                (loaded, None) if isinstance(loaded, np.ndarray) else (loaded["x"], loaded.get("y"))
            )
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{path}: expected a .npy array or a .npz file with x ({brief(error)})"
        ) from None
    if x.dtype.kind not in "buif" or x.ndim == 0 or len(x) == 0:
        raise DataError(f"{path}: expected examples as numbers, got {x.dtype} of shape {x.shape}")
    if x.shape[1:] == shape[1:] and shape[0] == 1:
        x = x[:, None]
    if x.shape[1:] != shape:
        raise DataError(f"{path}: examples have shape {x.shape[1:]}, the model expects {shape}")
    if not np.isfinite(x).all():
        raise DataError(
            f"{path}: example {int((~np.isfinite(x).reshape(len(x), -1).all(1)).argmax())} has NaN"
            " or Inf"
        )
    if y is not None and (y.shape != (len(x),) or y.dtype.kind not in "ui"):
        raise DataError(
            f"{path}: y must be {len(x)} whole numbers, got {y.dtype} of shape {y.shape}"
        )
    return torch.from_numpy(x.astype(np.float32)), y
