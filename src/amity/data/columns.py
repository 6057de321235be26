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
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from amity.data.base import Dataset, build
from amity.data.cells import Cells
from amity.data.forms import (
    Form,
    Given,
    gathered,
    is_input,
    like_inputs,
    next_tokens,
    ragged,
    read_inputs,
)
from amity.data.scaling import EXACT, Statistics, scaled_by, scaling, statistics, unscaled
from amity.data.schema import Scale, Schema
from amity.data.target import strata_of
from amity.errors import DataError
from amity.rng import rng

Array = np.ndarray[Any, Any]
Fraction = Annotated[float, Field(gt=0, lt=1)]
COLUMNS = ("x", "y", "peer", "split", "group")


@dataclass(frozen=True)
class Columns:
    """What every source of own data comes down to."""

    x: Any
    """An array, cells of a table, sequences of tokens, or several of these by name."""
    y: Any
    """An array; sequences; None: the tokens that follow."""
    peer: Array | None = None
    split: Array | None = None
    group: Array | None = None
    _: KW_ONLY
    form: Schema | None = None
    """What the source says of its columns and classes."""
    notes: tuple[str, ...] = ()
    """What the source has done, in lines."""
    said: Form = field(default_factory=Form)
    """What is said of the inputs beside them."""
    answered: tuple[str, ...] = ()
    """What the columns of y are called, where they are no classes."""


def dataset_of(
    where: str,
    columns: Columns,
    test_share: float,
    scale: Scale = "standard",
    numbers: bool = False,
) -> Dataset:
    """Check and number everything; `where` names the source in messages. With `numbers` y is no
    class: it stays as it is, a number or a row of them for each example."""
    x = columns.x if isinstance(columns.x, Cells) else read_inputs(where, columns.x, columns.said)
    count, form = len(x), columns.form or Schema(classes=(), scale=scale)
    columns = _answered(where, columns, x, numbers)
    for name in COLUMNS[1 + numbers :]:
        column = getattr(columns, name)
        if column is not None and np.shape(column) != (count,):
            raise DataError(
                f"{where}: {name} must be one value for each of the {count} examples, got"
                f" {np.shape(column)}"
            )
    if count < 2:
        raise DataError(f"{where}: {count} examples are too few")
    if numbers:
        y = answers_of(where, columns.y, count)
        names, strata = tuple[str, ...](), strata_of(where, y)
    else:
        names, y = numbered(where, columns.y, form.classes)
        strata = y
    writer_names, writers = _owners(where, "peer", columns.peer)
    group_names, groups = _owners(where, "group", columns.group)
    if groups is not None:
        _check_groups(where, groups, writers, group_names, writer_names)
    test = _test_part(where, strata, writers, columns.split, test_share)
    train = ~test
    if not train.any() or not test.any():
        raise DataError(
            f"{where}: {int(train.sum())} training and {int(test.sum())} test examples; both must"
            " be there"
        )
    inputs, said = _scaled(x, form, train), x.notes if isinstance(x, Given) else ()
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
        vocabulary=inputs.vocabulary,
        notes=(*columns.notes, *said, *_scale_notes(columns.x, inputs, int(train.sum()))),
        answered=columns.answered,
    )


def _answered(where: str, columns: Columns, x: Any, numbers: bool) -> Columns:
    """With answers that are an array, where they were sequences, or the tokens that follow."""
    if columns.y is not None and not ragged(columns.y):
        return columns
    if not numbers:
        raise DataError(
            f"{where}: y must be one class for each of the {len(x)} examples; for the next token of"
            " sequences use task=tokens"
        )
    if columns.y is None:
        return replace(columns, y=next_tokens(where, x))
    return replace(columns, y=like_inputs(where, columns.y, x, columns.x))


@dataclass(frozen=True)
class _Inputs:
    """Examples, and by which statistics they are scaled."""

    x: Any
    by: tuple[Any, Any]
    form: Schema
    vocabulary: Any = 0


def _scaled(x: Given | Cells, form: Schema, train: Array) -> _Inputs:
    if isinstance(x, Given):
        if not isinstance(x.x, Mapping):
            return _Inputs(x.x, _by(x.x, x.vocabulary, form, train), form, x.vocabulary)
        found = {name: _by(part, x.vocabulary[name], form, train) for name, part in x.x.items()}
        mean, std = ({name: by[k] for name, by in found.items()} for k in (0, 1))
        return _Inputs(x.x, (mean, std), form, x.vocabulary)
    cells = x.filled(train)
    numbers, form = cells.inputs, cells.schema
    if form.scale == "standard" and not form.agreed:
        form = scaled_by(form, statistics(numbers, train))
    return _Inputs(numbers, scaling(form), form)


def _by(x: Array, vocabulary: int, form: Schema, train: Array) -> Statistics:
    """Of one input. Ids of tokens are never scaled."""
    if vocabulary:
        return (0.0,), (1.0,)
    return statistics(x, train) if form.scale == "standard" else unscaled(x)


def _scale_notes(given: Any, inputs: _Inputs, count: int) -> Iterator[str]:
    """Whose statistics inputs are scaled by, and what becomes of whole numbers."""
    several = isinstance(inputs.x, Mapping)
    parts = inputs.x if several else {"": inputs.x}
    ids = inputs.vocabulary if several else {"": inputs.vocabulary}
    numbers = [part for name, part in parts.items() if not ids[name]]
    if not numbers:
        return
    form, whole = inputs.form, not several and _whole(given)
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
    if whole and np.abs(numbers[0]).max() > EXACT:
        yield f"whole numbers above {EXACT:,} are rounded to the nearest float"


def _whole(given: Any) -> bool:
    return not isinstance(given, Cells) and np.asarray(given).dtype.kind in "ui"


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


def numbered(
    where: str, labels: Array, classes: tuple[str, ...] = ()
) -> tuple[tuple[str, ...], Array]:
    """Class names, and labels as 0 .. K−1: in sorted order, or by the classes that are given,
    whichever of them occur. What cannot be classes is refused."""
    y = _sortable(where, "labels", np.asarray(labels))
    if y.dtype.kind == "f":
        if not np.isfinite(y).all():
            raise DataError(
                f"{where}: label of example {int((~np.isfinite(y)).argmax())} is missing (NaN);"
                " leave such examples out, or fill their labels in"
            )
        odd = y != np.round(y)
        if odd.any():
            shown = ", ".join(f"{value:g}" for value in y[odd][:3])
            raise DataError(
                f"{where}: labels look like a regression target ({shown}, ...), and task=classify"
                " wants classes; use task=regress"
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


def answers_of(where: str, answers: Array, count: int) -> Array:
    """Numbers that are no classes, one or a row of them for each example."""
    y = np.asarray(answers)
    if y.dtype == object or y.dtype.kind not in "buif":
        word = next((str(v) for v in y.flatten() if isinstance(v, str)), str(y.dtype))
        raise DataError(
            f"{where}: the answers are text ({word[:40]!r}), and this task wants numbers; give"
            " numbers, or use task=classify"
        )
    if y.ndim not in (1, 2) or len(y) != count or 0 in y.shape:
        raise DataError(
            f"{where}: y must be a number, or a row of them, for each of the {count} examples, got"
            f" {y.shape}"
        )
    y = y.astype(np.int64) if y.dtype.kind in "bui" else y.astype(np.float64)
    return y.reshape(count, -1) if y.ndim == 1 else y


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
    """Arrays by name: `x` or `x_NAME` and the other columns."""
    inputs = {n: arrays[n] for n in arrays if is_input(n) and arrays[n] is not None}
    lacking = [] if any(n.startswith("x") for n in inputs) else ["x"]
    tokens = "lengths" in inputs or ragged(inputs.get("x"))
    for name in [*lacking, *([] if "y" in arrays or tokens else ["y"])]:
        raise DataError(f"{where}: no array {name!r}; it has {', '.join(sorted(arrays)) or 'none'}")
    rest: Any = {n: np.asarray(arrays[n]) for n in COLUMNS[2:] if arrays.get(n) is not None}
    y = arrays.get("y")
    return Columns(gathered(where, inputs), y if y is None or ragged(y) else np.asarray(y), **rest)
