"""A dataset: all examples once in memory, checked once at the border."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from amity.data.inputs import PAD, Several, Shapes
from amity.data.samples import Pixels
from amity.data.schema import Part, Schema
from amity.data.target import Target, strata_of
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
    vocabulary: Mapping[str, int] = field(default_factory=dict)
    """Of tokens: how many ids there are, padding included, by name of the input ("" where it is the
    only one)."""
    strata: np.ndarray[Any, np.dtype[np.int64]] | None = None
    """What stands for a label where examples are dealt out, if answers are no classes."""
    goal: Target | None = None
    """What a model is to say of an example, where a source or a task has said it."""

    @property
    def schema(self) -> Schema:
        """What the inputs and classes mean."""
        form = self.form or Schema(classes=())
        form = replace(form, **self._answers())
        if isinstance(self.pixels.x, Several):
            return replace(form, parts=tuple(map(self._part, self.pixels.x.parts)))
        part = self._part("")
        mean, std = ((), ()) if form.columns else (part.mean, part.std)
        return replace(form, shape=part.shape, vocabulary=part.vocabulary, mean=mean, std=std)

    def _answers(self) -> dict[str, Any]:
        """What a schema says of them: classes, or columns that are no inputs."""
        if self.strata is None:
            return {"classes": self.names or tuple(map(str, range(self.classes)))}
        return {"classes": (), "targets": () if self.goal is None else self.goal.columns}

    def _part(self, name: str) -> Part:
        """One input as it stands in a schema."""
        pixels = self.pixels
        x, mean, std = (
            by.parts[name] if isinstance(by, Several) else by
            for by in (pixels.x, pixels.mean, pixels.std)
        )
        ids = self.vocabulary.get(name, 0)
        by = ((), ()) if ids else (tuple(part.flatten().tolist()) for part in (mean, std))
        means, deviations = by
        return Part(name=name, shape=tuple(x.shape[1:]), vocabulary=ids, mean=means, std=deviations)

    @property
    def target(self) -> Target:
        """What a model is to say: a class, unless a task has said otherwise."""
        return self.goal or Target(self.classes, self.names)

    @property
    def labels(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """By which examples are dealt out: their classes, or what stands for them."""
        return np.asarray(self.pixels.y.cpu().numpy()) if self.strata is None else self.strata

    def writer_name(self, example: int) -> str:
        """Who wrote an example."""
        if self.writers is None:
            return ""
        number = int(self.writers[example])
        return self.writer_names[number] if self.writer_names else str(number)

    @property
    def shape(self) -> Shapes:
        """Of one example; by name where there are several inputs."""
        if isinstance(self.pixels.x, Several):
            return {name: self._part(name).form for name in self.pixels.x.parts}
        return self._part("").form

    @property
    def sides(self) -> tuple[int, ...]:
        """The shape of the only input as plain numbers; empty where there are several."""
        return () if isinstance(self.pixels.x, Several) else tuple(self.pixels.x.shape[1:])


class Source(Protocol):
    """Loads a dataset. `suits` are the config values that fit it, used where nothing else is
    said."""

    suits: ClassVar[Mapping[str, Any]]

    def __hash__(self) -> int: ...

    def load(self) -> Dataset: ...


datasets: Registry[Source] = Registry("dataset", "load", home="amity.data")
"""What is learnt from, by name."""


def build(
    where: str,
    x: Any,
    y: np.ndarray[Any, Any],
    train: np.ndarray[Any, Any],
    test: np.ndarray[Any, Any],
    *,
    mean: Any = 0.0,
    std: Any = 1.0,
    writers: np.ndarray[Any, Any] | None = None,
    classes: int = 0,
    names: tuple[str, ...] = (),
    writer_names: tuple[str, ...] = (),
    groups: np.ndarray[Any, Any] | None = None,
    group_names: tuple[str, ...] = (),
    form: Schema | None = None,
    notes: tuple[str, ...] = (),
    vocabulary: Any = 0,
    answered: tuple[str, ...] = (),
) -> Dataset:
    """Check arrays and make a dataset of them; `where` names the source in messages.

    Ids of tokens are whole numbers with a `vocabulary`: how many ids there are, 0 (padding)
    included. Of several inputs `x` is a mapping, and so are `mean`, `std` and `vocabulary`.

    y are classes from 0 on, or anything else that has a row for each example: numbers, several
    labels, sequences; `answered` are the names of its columns. A task then says whether it has a
    use for them."""
    several = isinstance(x, Mapping)
    parts: Mapping[str, Any] = x if several else {"": x}
    by = (_by_name(parts, given) for given in (mean, std, vocabulary))
    means, stds, ids = by
    for name, part in parts.items():
        here = f"{where}: x[{name!r}]" if name else where
        if len(part) != len(y):
            raise DataError(f"{here}: {len(part)} examples but {len(y)} labels")
    if len(y) == 0:
        raise DataError(f"{where}: no examples")
    plain = y.ndim == 1 and np.issubdtype(y.dtype, np.integer)
    if plain and y.min() < 0:
        raise DataError(f"{where}: labels must be >= 0, got {y.min()}")
    strata = None if plain else strata_of(where, y)
    tensors = {n: _checked(f"{where}: {n}" if n else where, p, ids[n]) for n, p in parts.items()}
    constants = (
        {n: _constant(given[n], tensors[n].ndim) for n in parts} for given in (means, stds)
    )
    whole = (Several(one) if several else one[""] for one in (tensors, *constants))
    inputs, centre, spread = whole
    answers = y.astype(np.int64 if np.issubdtype(y.dtype, np.integer) else np.float64)
    pixels = Pixels(inputs, torch.from_numpy(answers), centre, spread)
    return Dataset(
        pixels,
        classes or int((y if strata is None else strata).max()) + 1,
        np.asarray(train),
        np.asarray(test),
        writers,
        names,
        writer_names,
        groups,
        group_names,
        form,
        notes,
        vocabulary={name: count for name, count in ids.items() if count},
        strata=strata,
        goal=Target(len(answered), answered) if answered else None,
    )


def _by_name(parts: Mapping[str, Any], given: Any) -> Mapping[str, Any]:
    """What holds for each input."""
    return given if isinstance(given, Mapping) else dict.fromkeys(parts, given)


def _constant(given: Any, dimensions: int) -> torch.Tensor:
    """A number by channel or column, so that it can be taken from a batch."""
    return torch.as_tensor(given, dtype=torch.float32).reshape(-1, *[1] * (dimensions - 2))


def _checked(where: str, x: np.ndarray[Any, Any], vocabulary: int) -> torch.Tensor:
    """Finite floats, bytes, or ids of tokens, as small as they can be."""
    if vocabulary:
        refuse_ids(where, x, vocabulary)
        return torch.from_numpy(np.ascontiguousarray(x, _small(vocabulary)))
    if np.issubdtype(x.dtype, np.floating):
        bad = ~np.isfinite(x).reshape(len(x), -1).all(1)
        if bad.any():
            raise DataError(
                f"{where}: example {int(bad.argmax())} has NaN or Inf ({int(bad.sum())} such"
                " examples)"
            )
        return torch.from_numpy(x.astype(np.float32))
    if x.dtype != np.uint8:
        raise DataError(
            f"{where}: examples must be uint8 or floating point, got {x.dtype}; ids of tokens need"
            " a vocabulary"
        )
    return torch.from_numpy(x)


def _small(vocabulary: int) -> Any:
    """The smallest whole numbers that have room for so many ids; bytes are images."""
    sizes: tuple[Any, ...] = (np.int16, np.int32, np.int64)
    return next(size for size in sizes if vocabulary - 1 <= np.iinfo(size).max)


def refuse_ids(where: str, x: np.ndarray[Any, Any], vocabulary: int) -> None:
    """What is no sequence of ids, padded at its end."""
    if x.ndim != 2 or not np.issubdtype(x.dtype, np.integer):
        raise DataError(
            f"{where}: ids of tokens must be whole numbers, a row for each sequence, got"
            f" {x.dtype} of shape {x.shape}"
        )
    real = x != PAD
    ranges = ((x < 0, "negative"), (x >= vocabulary, f"above {vocabulary - 1}, the last known"))
    for wrong, what in ranges:
        if wrong.any():
            row = int(wrong.any(1).argmax())
            raise DataError(
                f"{where}: sequence {row} has id {int(x[row][wrong[row]][0])}, which is {what}; ids"
                " are 1, 2, ... and data.vocabulary is one more than the last"
            )
    for wrong, what in (
        (~real.any(1), "is empty; leave it out"),
        ((real[:, 1:] & ~real[:, :-1]).any(1), "has id 0 inside, but 0 is padding; add 1 to ids"),
    ):
        if wrong.any():
            raise DataError(
                f"{where}: sequence {int(wrong.argmax())} {what} ({int(wrong.sum())} such)"
            )
