"""`amity data check` and `amity data schema`: one's own data, looked at before anything learns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from amity.cli.common import say_data
from amity.console import blank_table, out_console, say, status
from amity.errors import ConfigError, DataError
from amity.files import write_atomically

if TYPE_CHECKING:
    from amity.config import Config
    from amity.data import Dataset
    from amity.data.schema import Column, Schema
    from amity.data.tables import Found

Files = Annotated[
    list[str] | None, typer.Argument(metavar="FILE... [data.KEY=VALUE]...", show_default=False)
]


def check(words: Files = None) -> None:
    """Show what your data means (columns, kinds, classes), what is done to it, and everything that
    is wrong with it. Keys as in `amity run` (data.label=..., data.schema=FILE); several files are
    compared."""
    files, values = _split(words or [])
    bad, seen = 0, []
    for file in files:
        config = _config(file, values)
        say(file)
        found = _table_of(config)
        if found is not None:
            bad += _show_table(found)
        if found is None or not found.problems:
            seen.append((file, _dataset(config)))
            _show_dataset(seen[-1][1])
    if len(files) > 1:
        bad += _compare(seen)
    if bad:
        raise SystemExit(1)


def schema(words: Files = None) -> None:
    """Write the file that all members agree on: inputs, kinds, values, rules, classes. Own keys:
    out=schema.toml statistics=true (medians and means stand in it as well); others as in `amity
    run` (data.label=..., data.missing=...)."""
    from amity.data.agree import agree
    from amity.data.problems import in_one_line

    files, values = _split(words or [], "out", "statistics")
    out, pooled = Path(str(values.pop("out", "schema.toml"))), values.pop("statistics", False)
    if not isinstance(pooled, bool):
        raise ConfigError(f"statistics: expected true or false, got {pooled!r}")
    if out.exists():
        raise ConfigError(f"out: {out} exists; delete it, or choose another out=")
    wish = values.get("data.missing", "refuse")
    filling = {**values, "data.missing": "median" if wish == "refuse" else wish}
    tables = []
    for file in files:
        found = _table_of(_config(file, filling))
        if found is None:
            raise DataError(f"{file}: is no table; expected .csv or .parquet")
        tables.append(found)
    known = {column.name for table in tables for column in table.schema.columns}
    for table in tables:  # a column that is empty here may have values elsewhere
        wrong = [p for p in table.problems if p.kind != "empty" or p.column not in known]
        if wrong:
            raise DataError(f"{table.where}: {in_one_line(wrong)}")
    made = agree(tables, wish, pooled)
    write_atomically(out, made.text.encode())
    _show_columns(made.schema)
    for note in made.notes:
        say(f"data: {note}")
    say(f"schema: {out}; every member says data.schema={out.name}")


def _split(words: Sequence[str], *own: str) -> tuple[list[str], dict[str, Any]]:
    """Files, and keys of `data` (and a command's own)."""
    from amity.config import parse

    files = [word for word in words if "=" not in word]
    values = parse(word for word in words if "=" in word)
    if not files:
        raise ConfigError("say which data: a file, such as a.csv")
    for key in values:
        if key not in own and not key.startswith("data."):
            raise ConfigError(f"{key}: expected keys of the data, such as data.{key}=")
    return files, values


def _config(file: str, values: Mapping[str, Any]) -> Config:
    from amity.config import load

    numbers = "data.target" in values or _agreed_on_numbers(values.get("data.schema"))
    learnt = {"task": "regress"} if numbers else {}
    return load(None, {"data": file, **learnt, **values})


def _agreed_on_numbers(schema: Any) -> bool:
    """Whether the schema file says that answers are no classes."""
    from amity.data.schema import read_schema

    return bool(schema) and bool(read_schema(Path(str(schema))).targets)


def _table_of(config: Config) -> Found | None:
    """The table of a config; None: its data is something else."""
    from amity.data.own import Table

    if not isinstance(config.data.instance, Table):
        return None
    with status(f"reading {config.data.options['path']}"):
        return config.data.instance.find(numbers=not config.task.instance.classes)


def _dataset(config: Config) -> Dataset:
    from amity.round.build import load_data

    with status(f"reading {config.data.name}"):
        return load_data(config)


def _show_table(found: Found) -> int:
    """Columns and problems; returns how many there are of these."""
    from amity.data.problems import told

    _show_columns(found.schema, found)
    for line in told(found.problems, found.file, len(found.problems)):
        out_console.print("[red]BAD[/red]", end=" ")
        out_console.print(line, markup=False, soft_wrap=True)
    notes = [*found.notes] if found.problems else []
    if notes:
        say("nothing is done with this data until that is right. As it stands it would be so:")
    for note in notes:
        say(f"  {note}")
    return len(found.problems)


def _show_columns(schema: Schema, found: Found | None = None) -> None:
    table = blank_table(("column", "kind", "values", "missing", "rule"), left=(0, 1, 2, 4))
    for column in schema.columns:
        here = found is not None and column.name in found.values
        absent = str(int(found.values[column.name].absent.sum())) if found and here else ""
        table.add_row(column.name, column.kind, _range(column, found), absent, column.missing)
    out_console.print(table)


def _range(column: Column, found: Found | None) -> str:
    import numpy as np

    if column.kind == "category":
        shown = ", ".join(column.values[:6])
        more = f", ... ({len(column.values)})" if len(column.values) > 6 else ""
        return shown + more
    if found is None or column.name not in found.values:
        return ""
    values = found.values[column.name]
    numbers = values.numbers if column.kind == "number" else values.days
    known = numbers[np.isfinite(numbers)]
    if not len(known):
        return ""
    if column.kind == "date":
        first, last = known.min().astype("M8[D]"), known.max().astype("M8[D]")
        return f"{first} to {last}"
    return f"{known.min():g} to {known.max():g}"


def _show_dataset(dataset: Dataset) -> None:
    import numpy as np

    from amity.data.inputs import described, kind_of

    schema = dataset.schema
    if not schema.columns:
        plain = kind_of(schema.form) not in ("tokens", "several")
        shape = f" of shape {schema.shape}" if plain else ""
        say(f"examples{shape}: {described(schema.form)}")
    if dataset.strata is not None:
        named = ", ".join(dataset.target.names) or f"{dataset.target.size} tokens"
        say(f"{len(dataset.labels)} examples, whose answers are {named}")
        say_data(dataset)
        return
    counts = np.bincount(dataset.labels, minlength=dataset.classes)
    shown = [f"{name} {count}" for name, count in zip(schema.classes, counts, strict=True)][:20]
    more = f" and {dataset.classes - 20} more" if dataset.classes > 20 else ""
    say(f"{len(dataset.labels)} examples of {dataset.classes} classes: {', '.join(shown)}{more}")
    say_data(dataset)


def _compare(seen: Sequence[tuple[str, Dataset]]) -> int:
    """Whether all can learn together; returns how many differ from the first."""
    bad = 0
    for name, dataset in seen[1:]:
        first, one = seen[0]
        apart = dataset.schema.difference(one.schema)
        bad += bool(apart)
        out_console.print("[red]BAD[/red]" if apart else "[green]ok [/green]", end=" ")
        say(
            f"{name} (here) and {first} (there): {apart}"
            if apart
            else f"{name} and {first} can learn together"
        )
    return bad
