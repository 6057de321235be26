"""MODEL.md: what a model is, what it was trained on and what it takes, on one page."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path

from amity.data.inputs import described
from amity.data.schema import Column
from amity.files import write_atomically
from amity.use.modelfile import Description, Origin

NAME = "MODEL.md"
MOST = 40
"""Classes or columns that are listed; the file itself has them all."""


def write_card(folder: Path, models: Sequence[Description], onnx: bool) -> Path:
    """The page about the models of a folder, which differ in their rounds alone; `onnx`: whether
    they are there as ONNX too."""
    write_atomically(folder / NAME, page(models, onnx).encode())
    return folder / NAME


def page(models: Sequence[Description], onnx: bool) -> str:
    first, metric = models[0], models[0].does.metric
    called = metric.called
    parts = [
        f"# The model of {first.origin.peer}",
        f"A {first.task} model, trained by decentralized federated learning with Amity"
        f" {first.origin.version}.",
        _table([("", "after round", f"validation {called}", f"test {called}")], models),
        _which(models),
        "## Trained on",
        _list(_trained(first.origin)),
        "## Takes",
        _takes(first),
        "## Gives",
        first.does.described(first.names, metric.unit if metric.unit != "%" else ""),
        "## Use",
        _use(first),
        *([_of_onnx(first)] if onnx else []),
    ]
    if first.origin.privacy:
        parts += ["## Privacy", _privacy(models)]
    return "\n\n".join(parts) + "\n"


def _use(description: Description) -> str:
    several = description.schema.parts or description.schema.vocabulary
    file = "new-images/" if description.pictures else "new.npz" if several else "new.npy"
    if description.schema.columns:
        file = "new.csv id=COLUMN"
    if description.schema.letters:
        file = "new.txt"
    return f"```\namity predict . {file}\namity serve .\n```"


def _of_onnx(description: Description) -> str:
    schema = description.schema
    if schema.parts or schema.vocabulary:
        names = ", ".join(f"`{part.name}`" for part in schema.parts) or "`x`"
        padded = "ids of tokens as int64, padded with 0 to the full length"
        return (
            f"The ONNX files take {names}, any number of examples: {padded}, other numbers not yet"
            " scaled. They give `probabilities`."
        )
    size = " x ".join(map(str, description.shape))
    order = f", in this order: {', '.join(description.schema.inputs)}"
    return (
        f"The ONNX files take `x`, any number of examples of {size} numbers, not yet scaled"
        f"{order if description.schema.columns else ''}. They give"
        f" `{description.gives}`."
    )


def _table(head: list[tuple[str, ...]], models: Sequence[Description]) -> str:
    rows = [
        (
            f"`{one.origin.which}.safetensors`",
            f"{one.origin.rounds} of {one.origin.planned}",
            _shown(one, one.origin.validation),
            _shown(one, one.origin.accuracy),
        )
        for one in models
    ]
    lines = [*head, ("---",) * len(head[0]), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _which(models: Sequence[Description]) -> str:
    metric = models[0].does.metric
    best = f"{'highest' if metric.more else 'lowest'} {metric.called}"
    if len(models) > 1:
        return (
            f"The best model is that of the round with the {best} on validation examples"
            " (of equal rounds the latest). Test examples had no say in it."
        )
    return "Only the last model: there is no best one, which would need validation examples."


def _trained(origin: Origin) -> list[tuple[str, str]]:
    train, validation, test = origin.examples
    held = f"{validation} for validation, " if validation else ""
    own = f"{train} examples for training, {held}{test} for testing"
    rows = [*origin.run.items(), ("this peer's own examples", own)]
    if origin.until is not None and math.isfinite(origin.until):
        day = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(origin.until))
        rows.append(("finished", day))
    return rows


def _list(rows: Sequence[tuple[str, str]]) -> str:
    return "\n".join(f"* {name}: {text}" for name, text in rows)


def _takes(description: Description) -> str:
    scaled = (
        "" if description.schema.scale == "none" else " They are standardised inside the model."
    )
    columns = description.schema.columns
    if columns:
        return (
            f"Rows of a table with these columns, found by name, in any order.{scaled}\n\n"
            + "\n".join(f"* {_column(column)}" for column in columns[:MOST])
            + (f"\n* and {len(columns) - MOST} more" if len(columns) > MOST else "")
        )
    schema = description.schema
    if schema.parts:
        said = "\n".join(f"* `{part.name}`: {described(part.form)}" for part in schema.parts)
        return f"Several inputs by name.{scaled} Ids of tokens are 1, 2, ...\n\n{said}"
    if schema.vocabulary:
        said = f"{described(schema.form)}: whole numbers from 1, a list for each.".capitalize()
        shown = ", ".join(map(repr, schema.letters))
        return f"{said} Or text, of the characters {shown}." if shown else said
    size = " x ".join(map(str, description.shape))
    if description.pictures:
        return f"Images of {size} (channels, height, width), bytes from 0 to 255.{scaled}"
    return f"Arrays of {size} numbers.{scaled}"


def _column(column: Column) -> str:
    values = f": {_some(column.values)}" if column.values else ""
    missing = "" if column.missing == "refuse" else f"; may be missing ({column.missing})"
    return f"`{column.name}`, {column.kind}{values}{missing}"


def _privacy(models: Sequence[Description]) -> str:
    said = models[0].origin.privacy
    if any(one.origin.personal for one in models):
        return (
            f"{said}. This covers what left the peer while it trained. **It does not cover this"
            " model**, which the peer trained further on its own examples, without noise."
        )
    return f"{said}."


def _shown(model: Description, value: float | None) -> str:
    return "-" if value is None else model.does.metric.text(value)


def _some(names: Sequence[str]) -> str:
    more = f", and {len(names) - MOST} more" if len(names) > MOST else ""
    return ", ".join(names[:MOST]) + more
