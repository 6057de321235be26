"""A table's columns as numbers, by a schema: first as they are, then with holes filled and
categories spread out.

`encode(schema, frame)` reads a new table for a model that was trained with the schema.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from amity.data.problems import Problem, in_one_line
from amity.data.schema import Column, Schema
from amity.data.values import Array, Values
from amity.errors import DataError


@dataclass(frozen=True)
class Cells:
    """The inputs of a table, before statistics are known: NaN stands for a missing number, -1 for a
    category that is none of its values."""

    schema: Schema
    raw: tuple[Array, ...]
    """One array for each column of the schema."""
    problems: tuple[Problem, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)
    """By column: values that the schema does not name, counted, where its rule takes them as
    missing."""

    @classmethod
    def of(cls, schema: Schema, found: Mapping[str, Values], by_file: bool = False) -> Cells:
        """Reads all columns of a schema; what is wrong with them is told together. `by_file`: the
        rules stand in a schema file."""
        raw, problems, unknown = [], [], {}
        count = max((len(values.raw) for values in found.values()), default=0)
        for column in schema.columns:
            if column.name not in found:
                problems.append(Problem("absent", column.name))
                raw.append(np.full(count, np.nan))
                continue
            one = _Reading(column, found[column.name], by_file)
            raw.append(one.numbers)
            problems += one.problems
            if one.unknown:
                unknown[column.name] = one.unknown
        return cls(schema, tuple(raw), tuple(problems), unknown)

    def __len__(self) -> int:
        return len(self.raw[0])

    @property
    def holes(self) -> dict[str, int]:
        """How many rows of a column have no value that can be used, where there are such."""
        counts = {
            column.name: int(_absent(column, raw).sum())
            for column, raw in zip(self.schema.columns, self.raw, strict=True)
        }
        return {name: count for name, count in counts.items() if count}

    def _part(self, rows: Array) -> Iterator[Array]:
        return (raw[rows] for raw in self.raw)

    def filled(self, rows: Array) -> Cells:
        """With the medians of some rows, where the schema does not bring any itself."""
        if self.schema.agreed:
            return self
        columns = tuple(
            column if column.kind == "category" else dataclasses.replace(column, fill=_median(raw))
            for column, raw in zip(self.schema.columns, self._part(rows), strict=True)
        )
        return dataclasses.replace(self, schema=dataclasses.replace(self.schema, columns=columns))

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done about holes and unknown values, in lines."""
        lines, kinds = [], {column.name: column for column in self.schema.columns}
        holes = {n: c for n, c in self.holes.items() if kinds[n].missing != "refuse"}
        filled = {n: c for n, c in holes.items() if kinds[n].kind != "category"}
        if filled:
            median = "agreed median" if self.schema.agreed else "median of the training examples"
            lines.append(f"missing values are the {median}: {_counted(filled, len(self))}")
        none = {n: c for n, c in holes.items() if n not in filled}
        if none:
            lines.append(f"none of the category's values: {_counted(none, len(self))}")
        for name, said in self.unknown.items():
            lines.append(f"column {name!r}: values that the schema does not name ({said})")
        return tuple(lines)

    @property
    def inputs(self) -> Array:
        """What a model sees, not yet scaled: (rows, inputs)."""
        parts = map(_spread, self.schema.columns, self.raw)
        return np.concatenate([np.asarray(part, np.float32) for part in parts], axis=1)


class _Reading:
    """One column, read by its kind."""

    def __init__(self, column: Column, values: Values, by_file: bool) -> None:
        self.column, self.values, self.by_file = column, values, by_file
        self.problems: list[Problem] = []
        self.unknown = ""
        read = {"number": self._number, "date": self._date, "category": self._category}
        self.numbers: Array = read[column.kind]()
        absent = values.absent
        if column.missing == "refuse" and absent.any():
            self._problem("holes" if by_file else "missing", absent)

    def _problem(self, kind: str, at: Array, shown: str = "") -> None:
        self.problems.append(Problem(kind, self.column.name, shown + self.values.some(at)))

    def _number(self) -> Array:
        numbers = self.values.numbers
        odd = np.isnan(numbers) & ~self.values.absent
        if odd.any():
            self._problem("words", odd, self._examples(odd))
        infinite = np.isinf(numbers)
        if infinite.any():
            self._problem("infinite", infinite)
        return numbers

    def _date(self) -> Array:
        odd = np.isnan(self.values.days) & ~self.values.absent
        if odd.any():
            self._problem("odd dates", odd, self._examples(odd))
        return self.values.days

    def _category(self) -> Array:
        known = {value: at for at, value in enumerate(self.column.values)}
        place = np.array([*(known.get(word, -1) for word in self.values.words), -1], np.float64)
        found: Array = place[self.values.codes]
        odd = (found < 0) & ~self.values.absent
        if odd.any() and self.column.missing == "refuse":
            self._problem("unknown", odd, self._examples(odd))
        elif odd.any():
            self.unknown = self._examples(odd) + self.values.some(odd)
        return found

    def _examples(self, at: Array) -> str:
        """The most frequent ones."""
        codes, counts = np.unique(self.values.codes[at], return_counts=True)
        often = codes[np.argsort(-counts, kind="stable")][:3]
        more = ", ..." if len(codes) > 3 else ""
        return ", ".join(repr(self.values.words[code][:30]) for code in often) + more + ": "


def _counted(counts: Mapping[str, int], of: int) -> str:
    return ", ".join(f"{name!r} {count}" for name, count in counts.items()) + f" of {of} rows"


def _absent(column: Column, raw: Array) -> Array:
    """Where there is no value, or none that can be used."""
    return raw < 0 if column.kind == "category" else np.isnan(raw)


def _median(raw: Array) -> float:
    """Where nothing is known it is 0, as a number that is always the same is once it is scaled."""
    known = raw[~np.isnan(raw)]
    return float(np.median(known)) if len(known) else 0.0


def _spread(column: Column, raw: Array) -> Array:
    """The inputs of one column: (rows, inputs)."""
    if column.kind == "category":
        return np.asarray(raw[:, None] == np.arange(len(column.values)))
    absent = np.isnan(raw)
    filled = np.where(absent, column.fill or 0.0, raw) if absent.any() else raw
    if column.missing == "indicator":
        return np.stack([filled, absent], axis=1)
    return filled[:, None]


@dataclass(frozen=True)
class Encoded:
    """A new table as a model's inputs."""

    x: Array
    """(rows, inputs), float32, not yet scaled: see `scaling`."""
    notes: tuple[str, ...]
    """What was filled, unknown or left out, in lines."""


def encode(schema: Schema, frame: Any, where: str = "table", fill: bool = False) -> Encoded:
    """A pandas table, without labels, as the inputs of a model that was trained with this schema.
    Columns are found by name, and others left out. Everything that is wrong is told in one error.
    `fill`: missing values are filled with the medians of training, also where the rule of a column
    refuses them."""
    if fill:
        schema = dataclasses.replace(schema, columns=tuple(map(_lenient, schema.columns)))
    cells = Cells.of(schema, values_of(frame), by_file=True)
    if cells.problems:
        raise DataError(f"{where}: {in_one_line(cells.problems, 'the schema of the model')}")
    return Encoded(cells.inputs, cells.notes)


def values_of(frame: Any) -> dict[str, Values]:
    """The columns of a pandas table by name."""
    return {str(name): Values(frame[name]) for name in frame.columns}


def _lenient(column: Column) -> Column:
    if column.missing != "refuse":
        return column
    return dataclasses.replace(column, missing="zeros" if column.kind == "category" else "median")
