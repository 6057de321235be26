"""The file of an exported model: weights, and beside them all that one needs to use them.

A safetensors file holds the parameters by name. Its metadata have one entry, `amity`: JSON with the
task, the classes, what the inputs mean and how they are scaled (a schema), which network the
parameters belong to, and where the model comes from. There is no code in it, no path but that of a
network of one's own, and nothing of the examples but statistics (mean, standard deviation, median).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import safetensors
import safetensors.torch
from pydantic import Field

from amity.data.schema import Schema
from amity.data.target import Target
from amity.errors import AmityError, ConfigError, DataError, RunDirError, brief, unknown
from amity.files import plain, write_atomically
from amity.registry import checked
from amity.tasks import Task, tasks

if TYPE_CHECKING:
    import torch

Which = Literal["best", "last"]
KINDS: tuple[Which, ...] = ("best", "last")
"""In the order in which they are preferred."""
Whole = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a model comes from."""

    peer: str
    which: Which
    rounds: Whole
    """After how many rounds."""
    planned: Whole
    """How many rounds the run had in all."""
    accuracy: float | None = None
    """On this peer's test examples."""
    validation: float | None = None
    """On its validation examples."""
    examples: tuple[int, int, int] = (0, 0, 0)
    """For training, validation and test."""
    until: float | None = None
    """When its last round ended, in seconds since 1970."""
    run: Mapping[str, str] = field(default_factory=dict)
    """What was run, in words."""
    privacy: str = ""
    """What is said of ε, if anything was private."""
    personal: bool = False
    """Whether it was also trained by this peer for itself alone: no noise covers that."""
    version: str = ""


@dataclass(frozen=True, kw_only=True)
class Description:
    """What stands beside the weights."""

    origin: Origin
    schema: Schema
    """Classes, what inputs mean, and how they are scaled."""
    pictures: bool = False
    """Whether examples are images of bytes, 0 to 255, as picture files have them."""
    model: Mapping[str, Any]
    """The network: the name of its entry, and its options."""
    code: str = ""
    """Of a network of one's own: the SHA-256 of its file, or of the object."""
    na: tuple[str, ...] = ()
    """Words of a table that stand for a missing value."""
    task: str = "classification"
    """What it does, in a word."""
    learnt: Mapping[str, Any] = field(default_factory=dict)
    """The task: the name of its entry, and its options; empty: classes."""
    task_code: str = ""
    """Of a task of one's own: the SHA-256 of its file, or of the object."""
    size: Whole = 0
    places: Whole | None = None
    """Of a target without names: how many numbers an answer has, and at how many places."""
    format: Literal[1] = 1
    """Of this description."""

    @property
    def classes(self) -> tuple[str, ...]:
        return self.schema.classes

    @property
    def names(self) -> tuple[str, ...]:
        """What its answers are called: classes, labels, numbers or characters."""
        named = self.classes or tuple(column.name for column in self.schema.targets)
        return named or tuple(self.schema.letters)

    @property
    def target(self) -> Target:
        """The form of an answer."""
        targets, names = self.schema.targets, self.names
        by = [(column.mean, column.std) for column in targets if column.std is not None]
        return Target(
            self.size or len(names),
            names,
            self.places,
            mean=tuple(mean or 0.0 for mean, _ in by),
            std=tuple(std or 1.0 for _, std in by),
        )

    @property
    def gives(self) -> str:
        """What its output is called in ONNX."""
        return "values" if self.schema.targets and self.target.mean else "probabilities"

    @cached_property
    def does(self) -> Task:
        """The task, with its options."""
        options = dict(self.learnt)
        entry = tasks[str(options.pop("name", "classify"))]
        if entry.code != self.task_code:
            raise DataError(
                f"the task {entry.name} has changed since the export; put it back, or export again"
            )
        return entry.build(options)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.schema.shape

    def to_json(self) -> str:
        given = asdict(self) | {"schema": self.schema.to_dict()}
        return json.dumps(plain(given), ensure_ascii=False)

    @classmethod
    def of_json(cls, where: str, text: str) -> Description:
        given = dict(json.loads(text))
        schema = Schema.from_dict(given.pop("schema"), where)
        given["origin"] = checked(where, Origin, given["origin"])
        return checked(where, cls, {**given, "schema": schema})


def write_model(
    folder: Path, description: Description, tensors: Mapping[str, torch.Tensor]
) -> Path:
    """FOLDER/best.safetensors or FOLDER/last.safetensors."""
    path = folder / f"{description.origin.which}.safetensors"
    metadata = {"amity": description.to_json()}  # one entry: several have no order
    write_atomically(path, safetensors.torch.save(dict(tensors), metadata=metadata))
    return path


def find_model(path: Path, which: str = "") -> Path:
    """The file that a path names: itself, or in the folder of an export the best or else the last
    model."""
    if which and which not in KINDS:
        raise ConfigError(unknown("model", which, KINDS))
    if path.is_file() and path.suffix == ".safetensors":
        return path
    wanted = [which] if which else KINDS
    found = [file for kind in wanted if (file := path / f"{kind}.safetensors").is_file()]
    if found:
        return found[0]
    inside = sorted(
        file.parent.name for kind in KINDS for file in path.glob(f"*/{kind}.safetensors")
    )
    if inside:
        raise RunDirError(f"{path}: holds several models; name one, such as {path / inside[0]}")
    if (path / "model.safetensors").is_file():
        raise RunDirError(f"{path}: is of an older version; export the run again")
    names = " or ".join(f"{kind}.safetensors" for kind in wanted)
    raise RunDirError(f"{path}: expected a folder with {names}, as `amity export` writes it")


def read_model(path: Path) -> tuple[Description, dict[str, torch.Tensor]]:
    """The description and the parameters by name."""
    try:
        with safetensors.safe_open(path, "pt") as file:
            text = (file.metadata() or {})["amity"]
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118  not a mapping
        return Description.of_json(str(path), text), tensors
    except (
        safetensors.SafetensorError,
        AmityError,
        KeyError,
        TypeError,
        ValueError,
        RecursionError,
        OSError,
    ) as error:
        raise DataError(
            f"{path}: is not a model that `amity export` wrote ({brief(error)})"
        ) from None
