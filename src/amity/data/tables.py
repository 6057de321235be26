"""Tables (CSV, Parquet): which column is what, and all that is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from amity.data.cells import Cells, values_of
from amity.data.columns import Columns, numbered
from amity.data.frames import Frame, read_frame
from amity.data.kinds import Wish, kinds_of, natural
from amity.data.problems import Problem, in_one_line
from amity.data.schema import Column, Schema
from amity.data.values import Values
from amity.errors import DataError, unknown

LABEL = "label"
"""The column of the classes, where nothing is said."""
ID = re.compile(r"(^|.*[ _.-])(id|nr|no|number|index|mrn|key)", re.IGNORECASE)
"""Names of columns that number rows."""


@dataclass(frozen=True)
class Roles:
    """The columns of a table that are no inputs; an empty name: there is none."""

    label: str
    peer: str = ""
    split: str = ""
    group: str = ""
    drop: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    """Columns of answers that are no classes; the first of them is the label."""

    @property
    def others(self) -> dict[str, str]:
        named = {"peer": self.peer, "split": self.split, "group": self.group}
        return {key: name for key, name in named.items() if name}

    @property
    def names(self) -> tuple[str, ...]:
        return (self.label, *self.others.values(), *self.drop, *self.targets[1:])


@dataclass(frozen=True)
class Found:
    """A table, understood as far as possible."""

    where: str
    frame: Frame
    roles: Roles
    cells: Cells
    problems: tuple[Problem, ...]
    file: str = ""
    """The schema file; empty: there is none, and kinds were found in the values."""
    values: Mapping[str, Values] = field(default_factory=dict)
    """Of all columns that are no label and have no role."""

    @property
    def schema(self) -> Schema:
        return self.cells.schema

    @property
    def label(self) -> Values:
        return Values(self.frame.data[self.roles.label])

    def columns(self) -> Columns:
        """As every source of own data comes down to; refused where there are problems."""
        if self.problems:
            hint = f" (`amity data check {self.where}` shows all)" if len(self.problems) > 1 else ""
            raise DataError(f"{self.where}: {in_one_line(self.problems, self.file)}{hint}")
        data, roles = self.frame.data, self.roles
        rest: Any = {key: data[name].to_numpy() for key, name in roles.others.items()}
        targets, notes = roles.targets, tuple(self.notes)
        if targets:
            numbers = np.stack([Values(data[name]).numbers for name in targets], 1)
            return Columns(
                self.cells, numbers, **rest, form=self.schema, notes=notes, answered=targets
            )
        labels = labels_of(self.label, self.schema)
        return Columns(self.cells, labels, **rest, form=self.schema, notes=notes)

    @property
    def notes(self) -> Iterator[str]:
        """What is done with the table, in lines for its owner."""
        yield from self.frame.notes
        yield _described(self.schema, self.file)
        yield from self.cells.notes
        inputs = {column.name for column in self.schema.columns}
        unused = [name for name in self.values if name not in inputs] if self.file else []
        if unused:
            yield f"not in {self.file}, left out: {', '.join(map(repr, unused))}"
        yield from self._moved() if self.file else ()
        for column in self.schema.columns if not self.file else ():
            if _counts_rows(column, self.values[column.name]):
                yield (
                    f"column {column.name!r} has another whole number in every row; if it is an"
                    f" id, leave it out with data.drop={column.name}"
                )

    def _moved(self) -> Iterator[str]:
        """Whether columns stand in another order than in the schema file, and the first that
        does."""
        there = [column.name for column in self.schema.columns if column.name in self.values]
        here = [name for name in self.values if name in {*there}]
        apart = [(mine, other) for mine, other in zip(here, there, strict=True) if mine != other]
        if apart:
            yield (
                f"columns stand in another order than in {self.file} ({apart[0][0]!r} where"
                f" {apart[0][1]!r} is there); they are found by name"
            )


def find_table(
    path: Path,
    roles: Roles,
    wish: Wish,
    na: Sequence[str] = (),
    schema: Schema | None = None,
    file: str = "",
) -> Found:
    """Reads a table: by a schema, or by what its values look like."""
    named = [c.name for c in schema.columns if c.kind == "category"] if schema else wish.categories
    return understood(str(path), read_frame(path, na, named), roles, wish, schema, file)


def understood(
    where: str, frame: Frame, roles: Roles, wish: Wish, schema: Schema | None, file: str
) -> Found:
    """What the columns of a table are, and what is wrong with them."""
    roles = _checked(where, roles, wish, frame.data.columns, schema)
    found = {n: v for n, v in values_of(frame.data).items() if n not in roles.names}
    problems = [Problem("twice", name) for name in frame.twice]
    if schema is None:
        free = tuple(key for key in ("peer", "split", "group") if key not in roles.others)
        columns, odd = kinds_of(found, replace(wish, free=free))
        problems += odd
        columns.sort(key=lambda column: natural(column.name))
        schema = Schema(classes=(), columns=tuple(columns), scale=wish.scale)
    schema = replace(schema, label=roles.label, ignore=(*roles.others.values(), *roles.drop))
    cells = Cells.of(schema, found, by_file=bool(file))
    problems += cells.problems
    if roles.targets:
        problems += [p for name in roles.targets for p in _target_problems(frame, name)]
    else:
        problems += _label_problems(where, frame, roles.label, schema)
    if not schema.columns and not problems:
        raise DataError(f"{where}: no columns are left as inputs")
    return Found(where, frame, roles, cells, tuple(problems), file, found)


def _checked(
    where: str, roles: Roles, wish: Wish, names: Sequence[str], schema: Schema | None
) -> Roles:
    """Every column that is named must be there; those that a schema leaves out need not."""
    asked = [*roles.others.items(), *(("drop", name) for name in roles.drop)]
    asked += [("target", name) for name in roles.targets if name != LABEL]
    if roles.label != LABEL and not roles.targets:
        asked.append(("label", roles.label))
    for key, name in (*asked, *(("categories", name) for name in wish.categories)):
        if name not in names:
            raise DataError(f"{where}: data.{key}: {unknown('column', name, map(str, names))}")
    if schema is None:
        return roles
    left = [n for n in schema.ignore if n in names and n not in roles.names]
    return replace(roles, drop=(*roles.drop, *left))


def _label_problems(where: str, frame: Frame, label: str, schema: Schema) -> list[Problem]:
    if label not in frame.data.columns:
        few = ", ".join(_few(list(frame.data.columns), 12))
        return [Problem("no label", label, roles=few)]
    values = Values(frame.data[label])
    if values.absent.any():
        return [Problem("label", label, f"no value in {values.some(values.absent)}")]
    try:
        numbered(where, labels_of(values, schema), schema.classes)
    except DataError as error:
        return [Problem("label", label, str(error).removeprefix(f"{where}: "))]
    return []


def _target_problems(frame: Frame, name: str) -> list[Problem]:
    """What is wrong with a column of answers that should be numbers."""
    if name not in frame.data.columns:
        few = ", ".join(_few(list(frame.data.columns), 12))
        return [Problem("no target", name, roles=few)]
    values = Values(frame.data[name])
    bad = ~np.isfinite(values.numbers)
    if not bad.any():
        return []
    code = int(values.codes[bad.argmax()])
    word = repr(values.words[code][:40]) if code >= 0 else "nothing"
    return [Problem("target", name, f"{word} in {values.some(bad)}")]


def labels_of(values: Values, schema: Schema) -> np.ndarray[Any, Any]:
    """By name where classes are given, else as the file has them."""
    if not schema.classes:
        found: np.ndarray[Any, Any] = values.raw.to_numpy()
        return found
    return np.array(values.words)[values.codes]


def _described(schema: Schema, file: str) -> str:
    """`5 columns are 7 inputs, in the order of their names: 3 numbers, sex (f, m), seen (days)`."""
    kinds = {kind: [c for c in schema.columns if c.kind == kind] for kind in _SHOWN}
    parts = [shown(kinds[kind]) for kind, shown in _SHOWN.items() if kinds[kind]]
    holes = sum(column.missing == "indicator" for column in schema.columns)
    if holes:
        parts.append(f"{holes} that say whether a value is missing")
    order = f"as in {file}" if file else "in the order of their names"
    return (
        f"{len(schema.columns)} columns are {len(schema.inputs)} inputs, {order}:"
        f" {'; '.join(parts)}"
    )


def _categories(columns: Sequence[Column]) -> str:
    shown = [f"{c.name} ({', '.join(_few(c.values))})" for c in columns]
    more = f" and {len(shown) - 8} more" if len(shown) > 8 else ""
    return f"one input for each value of {', '.join(shown[:8])}{more}"


def _few(values: Sequence[str], most: int = 4) -> list[str]:
    return [*values[:most], *(["..."] if len(values) > most else [])]


_SHOWN: Mapping[str, Callable[[Sequence[Column]], str]] = {
    "number": lambda columns: f"{len(columns)} number{'s' * (len(columns) > 1)}",
    "category": _categories,
    "date": lambda columns: f"days since 1970 of {', '.join(c.name for c in columns)}",
}


def _counts_rows(column: Column, values: Values) -> bool:
    """Whether a column is likely to number the rows, and to say nothing."""
    if column.kind != "number" or values.raw.dtype.kind not in "ui" or len(values.raw) < 20:
        return False
    numbers = values.numbers
    if len(np.unique(numbers)) < len(numbers):
        return False
    in_a_row = float(numbers.max() - numbers.min()) == len(numbers) - 1
    return in_a_row or ID.fullmatch(column.name) is not None
