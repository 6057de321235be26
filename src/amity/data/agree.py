"""One schema for several tables: what all members agree on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from amity.data.cells import Cells
from amity.data.kinds import natural
from amity.data.scaling import scaled_by, statistics
from amity.data.schema import KINDS, Column, Rule, Schema
from amity.data.tables import Found
from amity.data.values import Values
from amity.errors import DataError

HEADER = """\
# The inputs and classes that all members agree on, as `amity data schema` wrote them; data.schema=
# uses this file. kind: number, category, date (days since 1970). missing: refuse, median, indicator
# (the median, and an input that says so), and for categories refuse or zeros (none of its values).

"""


@dataclass(frozen=True)
class CommonSchema:
    """A schema, and what was decided on the way."""

    schema: Schema
    notes: tuple[str, ...]

    @property
    def text(self) -> str:
        """As a file."""
        return HEADER + self.schema.to_toml()


def agree(tables: Sequence[Found], missing: Rule, with_statistics: bool) -> CommonSchema:
    """Columns that all tables have, all values and classes that any of them has. `missing` is the
    rule of all columns; `refuse` leaves it open, and columns with holes get the median (or
    zeros)."""
    known = {c.name for table in tables for c in table.schema.columns}
    everywhere = set.intersection(*(set(table.values) for table in tables))
    names = sorted(known & everywhere, key=natural)
    if not names:
        raise DataError("the tables have no column in common")
    columns = tuple(_joined(name, tables, missing) for name in names)
    first, answers = tables[0].schema, tables[0].roles.targets
    if any(table.roles.targets != answers for table in tables):
        raise DataError("the tables have other answers; say the same data.target for all")
    words = {word for table in tables for word in table.label.words} if not answers else set()
    schema = Schema(
        classes=tuple(sorted(words, key=natural)),
        targets=tuple(Column(name=name) for name in answers),
        columns=columns,
        scale=first.scale,
        label=first.label,
        ignore=tuple(dict.fromkeys(n for t in tables for n in t.schema.ignore)),
    )
    notes = [*_left_out(tables, known - everywhere), *_rules(columns)]
    if with_statistics:
        schema = _with_statistics(schema, tables)
        rows = sum(len(table.cells) for table in tables)
        notes.append(
            f"medians, means and deviations of these {rows} rows stand in the file, and all members"
            " use them"
        )
    return CommonSchema(schema, tuple(notes))


def _joined(name: str, tables: Sequence[Found], missing: Rule) -> Column:
    """A column of all tables."""
    of = {t.where: c for t in tables for c in t.schema.columns if c.name == name}
    kinds = {column.kind: where for where, column in of.items()}
    if len(kinds) > 1:
        apart = " and ".join(f"{KINDS[kind]} in {where}" for kind, where in kinds.items())
        raise DataError(f"column {name!r} is {apart}; make it the same, or leave it out")
    column = next(iter(of.values()))
    holes = any(t.values[name].absent.any() for t in tables)
    values = sorted({value for c in of.values() for value in c.values}, key=natural)
    rule: Rule = missing
    if missing == "refuse" and holes:
        rule = "median"
    if column.kind == "category" and rule != "refuse":
        rule = "zeros"
    return Column(name=name, kind=column.kind, values=tuple(values), missing=rule)


def _left_out(tables: Sequence[Found], names: set[str]) -> Iterator[str]:
    for name in sorted(names, key=natural):
        lacking = [table.where for table in tables if name not in table.values]
        yield f"column {name!r} is left out: {', '.join(lacking)} has it not"


def _rules(columns: Sequence[Column]) -> Iterator[str]:
    by_rule: dict[str, list[str]] = {}
    for column in columns:
        by_rule.setdefault(column.missing, []).append(repr(column.name))
    says = {
        "refuse": "are refused",
        "median": "are filled with the median",
        "indicator": "are filled with the median, and one more input says so",
        "zeros": "are none of the category's values",
    }
    for rule, names in by_rule.items():
        shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        yield f"missing values {says[rule]}: {shown}"


def _with_statistics(schema: Schema, tables: Sequence[Found]) -> Schema:
    """With the medians, means and deviations of all rows of all tables."""
    cells = [Cells.of(schema, table.values) for table in tables]
    raw: Any = tuple(np.concatenate(parts) for parts in zip(*(c.raw for c in cells), strict=True))
    everyone = np.ones(len(raw[0]), bool)
    filled = Cells(schema, raw).filled(everyone)
    found = scaled_by(filled.schema, statistics(filled.inputs, everyone))
    targets = tuple(_described(column, tables) for column in schema.targets)
    return dataclasses.replace(found, targets=targets, agreed=True)


def _described(column: Column, tables: Sequence[Found]) -> Column:
    """A column of answers, with the mean and the deviation of all rows of all tables."""
    every = [Values(table.frame.data[column.name]).numbers for table in tables]
    numbers = np.concatenate(every)[:, None]
    (mean,), (std,) = statistics(numbers, np.ones(len(numbers), bool))
    return dataclasses.replace(column, mean=mean, std=std)
