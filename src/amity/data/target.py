"""What a model is to say of an example."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from amity.data.schema import Column
from amity.errors import DataError

TENTHS = 10
"""Into so many parts of equal size numbers are cut where examples are dealt out by them."""


@dataclass(frozen=True)
class Target:
    """The form of an answer, and what its numbers mean. A task makes it of a dataset."""

    size: int
    """Numbers of an answer: one for each class, label, column or token that there is."""
    names: tuple[str, ...] = ()
    """What they are called, if that is known."""
    places: int | None = None
    """Answers to an example, where it is a sequence; None: one."""
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    """By which numbers were brought to mean 0 and standard deviation 1; empty: they were not."""
    weights: tuple[float, ...] = ()
    """How much the examples of each class count; empty: all alike."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of what a model gives for an example."""
        return (self.size,) if self.places is None else (self.places, self.size)

    @property
    def columns(self) -> tuple[Column, ...]:
        """As a schema has them, with what they are scaled by."""
        if not self.mean:
            return tuple(Column(name=name) for name in self.names)
        by = zip(self.names, self.mean, self.std, strict=True)
        return tuple(Column(name=name, mean=mean, std=std) for name, mean, std in by)


def strata_of(where: str, y: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """What stands for a class where answers are none: the tenth in which a number lies (of several
    columns the first), the rarest label that is true, and nothing of a sequence."""
    if y.ndim > 2 or y.dtype.kind not in "biuf":
        raise DataError(
            f"{where}: y must be one value for each example, or a row of numbers, got {y.dtype} of"
            f" shape {y.shape}"
        )
    refuse_nan(where, y)
    if np.issubdtype(y.dtype, np.integer) and y.ndim == 2 and y.max() > 1:
        return np.zeros(len(y), np.int64)
    if y.ndim == 2 and y.shape[1] > 1 and ((y == 0) | (y == 1)).all():
        rare = np.argsort(y.sum(0), kind="stable")
        none = y.shape[1]
        place = np.where(y.any(1), rare[y[:, rare].astype(bool).argmax(1)], none)
        return np.asarray(place, np.int64)
    first = y.reshape(len(y), -1)[:, 0].astype(np.float64)
    cuts = np.unique(np.quantile(first, np.arange(1, TENTHS) / TENTHS))
    return np.searchsorted(cuts, first, side="right").astype(np.int64)


def refuse_nan(where: str, y: np.ndarray[Any, Any]) -> None:
    """Answers that are missing."""
    if y.dtype.kind != "f":
        return
    bad = ~np.isfinite(y.reshape(len(y), -1)).all(1)
    if bad.any():
        raise DataError(
            f"{where}: the answer to example {int(bad.argmax())} is NaN or Inf ({int(bad.sum())}"
            " such examples); leave these examples out, or fill their answers in"
        )
