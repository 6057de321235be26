"""One's own data as arrays: checked, numbered, and split into training and test examples.

Whatever the source, it ends as arrays: `x` (examples), `y` (labels: whole numbers or names), and
optionally `peer` (who holds it), `split` (train or test) and `group` (to which group its peer
belongs). Labels, peers and groups may be of any kind that can be sorted; they are numbered in
sorted order and their names kept. Without `split`, a share is drawn for testing, from every peer
and class alike, by a seed of its own, so that it is the same in all runs. Statistics (means,
standard deviations, medians) come from the training part, unless a schema file brings them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from amity.data.base import Dataset, build
from amity.data.cells import Cells
from amity.data.scaling import EXACT, Statistics, scaled_by, scaling, statistics, unscaled
from amity.data.schema import Scale, Schema
from amity.errors import DataError
from amity.rng import rng

Array = np.ndarray[Any, Any]
Fraction = Annotated[float, Field(gt=0, lt=1)]
COLUMNS = ("x", "y", "peer", "split", "group")


@dataclass(frozen=True)
class Columns:
    """What every source of own data comes down to."""

    x: Array | Cells
    y: Array
    peer: Array | None = None
    split: Array | None = None
    group: Array | None = None
    _: KW_ONLY
    form: Schema | None = None
    """What the source says of its columns and classes."""
    notes: tuple[str, ...] = ()
    """What the source has done, in lines."""


def dataset_of(
    where: str, columns: Columns, test_share: float, scale: Scale = "standard"
) -> Dataset:
    """Check and number everything; `where` names the source in messages."""
    x = columns.x if isinstance(columns.x, Cells) else images_first(where, np.asarray(columns.x))
    count, form = len(x), columns.form or Schema(classes=(), scale=scale)
    for name in COLUMNS[1:]:
        column = getattr(columns, name)
        if column is not None and np.shape(column) != (count,):
            raise DataError(
                f"{where}: {name} must be one value for each of the {count} examples, got"
                f" {np.shape(column)}"
            )
    if count < 2:
        raise DataError(f"{where}: {count} examples are too few")
    names, y = numbered(where, columns.y, form.classes)
    writer_names, writers = _owners(where, "peer", columns.peer)
    group_names, groups = _owners(where, "group", columns.group)
    if groups is not None:
        _check_groups(where, groups, writers, group_names, writer_names)
    test = _test_part(where, y, writers, columns.split, test_share)
    train = ~test
    if not train.any() or not test.any():
        raise DataError(
            f"{where}: {int(train.sum())} training and {int(test.sum())} test examples; both must"
            " be there"
        )
    inputs = _scaled(x, form, train)
    return build(
        where,
        inputs.x,
        y,
        np.flatnonzero(train),
        np.flatnonzero(test),
        mean=inputs.by[0],
        std=inputs.by[1],
        writers=writers,
        classes=len(names),
        names=names,
        writer_names=writer_names,
        groups=groups,
        group_names=group_names,
        form=inputs.form,
        notes=(*columns.notes, *_scale_notes(columns.x, inputs, int(train.sum()))),
    )


@dataclass(frozen=True)
class _Inputs:
    """Examples, and by which statistics they are scaled."""

    x: Array
    by: Statistics
    form: Schema


def _scaled(x: Array | Cells, form: Schema, train: Array) -> _Inputs:
    if isinstance(x, Cells):
        cells = x.filled(train)
        x, form = cells.inputs, cells.schema
        if form.scale == "standard" and not form.agreed:
            form = scaled_by(form, statistics(x, train))
        return _Inputs(x, scaling(form), form)
    return _Inputs(x, statistics(x, train) if form.scale == "standard" else unscaled(x), form)


def _scale_notes(given: Array | Cells, inputs: _Inputs, count: int) -> Iterator[str]:
    """Whose statistics inputs are scaled by, and what becomes of whole numbers."""
    form, whole = inputs.form, not isinstance(given, Cells) and np.asarray(given).dtype.kind in "ui"
    what = "whole numbers become floats and" if whole else "numbers"
    if form.scale == "none":
        yield f"{what} are not scaled"
    else:
        remedy = '`scale = "none"` in the schema file' if form.classes else "data.scale=none"
        whose = "in the schema file" if form.agreed else f"of the {count} training examples here"
        yield (
            f"{what} are scaled to mean 0 and deviation 1, by the statistics {whose};"
            f" {remedy} leaves them as they are"
        )
    if whole and np.abs(inputs.x).max() > EXACT:
        yield f"whole numbers above {EXACT:,} are rounded to the nearest float"


def _owners(where: str, what: str, column: Array | None) -> tuple[tuple[str, ...], Array | None]:
    """The names in a column, and for each example the number of its name."""
    if column is None:
        return (), None
    found, number = np.unique(_sortable(where, what, np.asarray(column)), return_inverse=True)
    return tuple(map(str, found)), number


def _check_groups(
    where: str,
    groups: Array,
    writers: Array | None,
    group_names: tuple[str, ...],
    writer_names: tuple[str, ...],
) -> None:
    """Groups are groups of peers."""
    if writers is None:
        raise DataError(
            f"{where}: group names groups of peers; say by peer who holds what, which of a table is"
            " data.peer=COLUMN"
        )
    first = groups[np.unique(writers, return_index=True)[1]]
    odd = first[writers] != groups
    if odd.any():
        at = int(odd.argmax())
        raise DataError(
            f"{where}: peer {writer_names[writers[at]]} is in two groups,"
            f" {group_names[first[writers[at]]]} and {group_names[groups[at]]}; a peer has one"
        )


def images_first(where: str, x: Array) -> Array:
    """Examples as bytes or float32; images with the channels in front."""
    if len(x.shape) and not len(x):
        raise DataError(f"{where}: holds no examples")
    if x.dtype == object or x.dtype.kind not in "buif":
        raise DataError(f"{where}: x must be numbers, got {x.dtype}")
    if x.ndim < 2:
        raise DataError(
            f"{where}: x must hold one row (or image) for each example, got shape {x.shape}"
        )
    if x.dtype != np.uint8:
        finite = np.isfinite(x.reshape(len(x), -1)).all(1)
        if not finite.all():
            raise DataError(
                f"{where}: example {int(finite.argmin())} has NaN or Inf ({int((~finite).sum())}"
                " such examples)"
            )
        x = x.astype(np.float32)
    if x.ndim == 3:
        return x[:, None]
    channels_last = x.ndim == 4 and x.shape[3] in (1, 3, 4) and x.shape[1] not in (1, 3, 4)
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2)) if channels_last else x


def numbered(
    where: str, labels: Array, classes: tuple[str, ...] = ()
) -> tuple[tuple[str, ...], Array]:
    """Class names, and labels as 0 .. K−1: in sorted order, or by the classes that are given,
    whichever of them occur. What cannot be classes is refused."""
    y = _sortable(where, "labels", np.asarray(labels))
    if y.dtype.kind == "f":
        if not np.isfinite(y).all():
            raise DataError(
                f"{where}: label of example {int((~np.isfinite(y)).argmax())} is missing (NaN)"
            )
        odd = y != np.round(y)
        if odd.any():
            shown = ", ".join(f"{value:g}" for value in y[odd][:3])
            raise DataError(
                f"{where}: labels look like a regression target ({shown}, ...); Amity classifies:"
                " give classes"
            )
        y = y.astype(np.int64)
    found, index = np.unique(y, return_inverse=True)
    if classes:
        return classes, _by_name(where, tuple(map(str, found)), classes)[index]
    if len(found) < 2:
        raise DataError(
            f"{where}: only one class ({found[0]}); at least two are needed. Where others have"
            " more, a schema file names all (data.schema=FILE)"
        )
    if len(found) > max(20, len(y) // 2):
        raise DataError(
            f"{where}: {len(found)} different labels for {len(y)} examples; these are no classes"
        )
    return tuple(map(str, found)), index.astype(np.int64)


def _by_name(where: str, found: tuple[str, ...], classes: tuple[str, ...]) -> Array:
    """The numbers of classes that are given."""
    for name in found:
        if name not in classes:
            raise DataError(
                f"{where}: class {name!r} is not in the list of the schema, {list(classes)}"
            )
    return np.array([classes.index(name) for name in found], np.int64)


def _sortable(where: str, what: str, values: Array) -> Array:
    """Numbers or text; objects (as pandas and lists give them) become text if all of them are."""
    if values.dtype == object:
        if not all(isinstance(value, str) for value in values):
            kinds = sorted({type(value).__name__ for value in values})
            raise DataError(
                f"{where}: {what} must be all numbers or all text, got {', '.join(kinds)}"
            )
        values = values.astype(str)
    if values.dtype.kind not in "buifU":
        raise DataError(f"{where}: {what} must be whole numbers or names, got {values.dtype}")
    return values


def _test_part(
    where: str, y: Array, writers: Array | None, split: Array | None, share: float
) -> Array:
    """Which examples are for testing: as given, or drawn from every peer and class."""
    if split is not None:
        words = np.array([str(value).lower() for value in split])
        known = {"train": False, "test": True, "0": False, "1": True, "false": False, "true": True}
        odd = next((word for word in words if word not in known), None)
        if odd is not None:
            raise DataError(f"{where}: split must be train or test, got {str(odd)!r}")
        return np.array([known[word] for word in words])
    group = y if writers is None else writers * (int(y.max()) + 1) + y
    test, draw = np.zeros(len(y), bool), rng(0, "test share", len(y))
    order = draw.permutation(len(y))
    place = draw.random(int(group.max()) + 1)
    for number in np.unique(group):
        mine = order[group[order] == number]
        test[mine[: int(len(mine) * share + place[number])]] = True
    if writers is not None:
        _leave_some(test, writers, order)
    return test


def _leave_some(test: Array, writers: Array, order: Array) -> None:
    """Every peer with two examples or more keeps at least one for training and one for testing."""
    for writer in np.unique(writers):
        mine = order[writers[order] == writer]
        if len(mine) > 1 and test[mine].all():
            test[mine[0]] = False
        elif len(mine) > 1 and not test[mine].any():
            test[mine[0]] = True


def from_mapping(where: str, arrays: Mapping[str, Any]) -> Columns:
    for name in ("x", "y"):
        if name not in arrays:
            raise DataError(
                f"{where}: no array {name!r}; it has {', '.join(sorted(arrays)) or 'none'}"
            )
    columns: Any = {n: np.asarray(arrays[n]) for n in COLUMNS if arrays.get(n) is not None}
    return Columns(**columns)
