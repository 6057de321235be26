"""A dataset: all examples once in memory, checked once at the border."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from amity.data.samples import Pixels
from amity.data.schema import Schema
from amity.errors import DataError
from amity.lazy import torch
from amity.registry import Registry


@dataclass(frozen=True)
class Dataset:
    """Examples with labels, a training pool and a test pool, and optionally who wrote each."""

    pixels: Pixels
    classes: int
    train: np.ndarray[Any, np.dtype[np.int64]]
    """Indices of the training pool."""
    test: np.ndarray[Any, np.dtype[np.int64]]
    """Indices of the test pool."""
    writers: np.ndarray[Any, np.dtype[np.int64]] | None = None
    names: tuple[str, ...] = ()
    """What the classes are called, if that is known."""
    writer_names: tuple[str, ...] = ()
    """What the writers are called, by number, if that is known."""
    groups: np.ndarray[Any, np.dtype[np.int64]] | None = None
    """To which group of peers each example belongs, if the data says so."""
    group_names: tuple[str, ...] = ()
    """What the groups are called, by number."""
    form: Schema | None = None
    """What the source says of columns and scaling; `schema` is the whole."""
    notes: tuple[str, ...] = ()
    """What was done to one's own data, in lines for its owner."""

    @property
    def schema(self) -> Schema:
        """What the inputs and classes mean."""
        form = self.form or Schema(classes=())
        mean, std = (
            () if form.columns else tuple(part.flatten().tolist())
            for part in (self.pixels.mean, self.pixels.std)
        )
        names = self.names or tuple(map(str, range(self.classes)))
        return replace(form, classes=names, shape=self.shape, mean=mean, std=std)

    @property
    def labels(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.asarray(self.pixels.y.cpu().numpy())

    def writer_name(self, example: int) -> str:
        """Who wrote an example."""
        if self.writers is None:
            return ""
        number = int(self.writers[example])
        return self.writer_names[number] if self.writer_names else str(number)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.pixels.x.shape[1:])


class Source(Protocol):
    """Loads a dataset. `suits` are the config values that fit it, used where nothing else is
    said."""

    suits: ClassVar[Mapping[str, Any]]

    def __hash__(self) -> int: ...

    def load(self) -> Dataset: ...


datasets: Registry[Source] = Registry("dataset", "load", home="amity.data")


def build(
    where: str,
    x: np.ndarray[Any, Any],
    y: np.ndarray[Any, Any],
    train: np.ndarray[Any, Any],
    test: np.ndarray[Any, Any],
    *,
    mean: float | tuple[float, ...],
    std: float | tuple[float, ...],
    writers: np.ndarray[Any, Any] | None = None,
    classes: int = 0,
    names: tuple[str, ...] = (),
    writer_names: tuple[str, ...] = (),
    groups: np.ndarray[Any, Any] | None = None,
    group_names: tuple[str, ...] = (),
    form: Schema | None = None,
    notes: tuple[str, ...] = (),
) -> Dataset:
    """Check arrays and make a dataset of them; `where` names the source in messages."""
    if len(x) != len(y):
        raise DataError(f"{where}: {len(x)} examples but {len(y)} labels")
    if len(x) == 0:
        raise DataError(f"{where}: no examples")
    if not np.issubdtype(y.dtype, np.integer):
        raise DataError(f"{where}: labels must be whole numbers (classes), got {y.dtype}")
    if y.min() < 0:
        raise DataError(f"{where}: labels must be >= 0, got {y.min()}")
    if np.issubdtype(x.dtype, np.floating):
        bad = ~np.isfinite(x).reshape(len(x), -1).all(1)
        if bad.any():
            raise DataError(
                f"{where}: example {int(bad.argmax())} has NaN or Inf ({int(bad.sum())} such"
                " examples)"
            )
        x = x.astype(np.float32)
    elif x.dtype != np.uint8:
        raise DataError(f"{where}: examples must be uint8 or floating point, got {x.dtype}")
    constants = (
        torch.as_tensor(c, dtype=torch.float32).reshape(-1, *[1] * (x.ndim - 2))
        for c in (mean, std)
    )
    pixels = Pixels(torch.from_numpy(x), torch.from_numpy(y.astype(np.int64)), *constants)
    return Dataset(
        pixels,
        classes or int(y.max()) + 1,
        np.asarray(train),
        np.asarray(test),
        writers,
        names,
        writer_names,
        groups,
        group_names,
        form,
        notes,
    )
