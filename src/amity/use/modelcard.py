"""MODEL.md: what a model is, what it was trained on and what it takes, on one page."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path

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
    first = models[0]
    parts = [
        f"# The model of {first.origin.peer}",
        f"A {first.task} model, trained by decentralized federated learning with Amity"
        f" {first.origin.version}.",
        _table([("", "after round", "validation accuracy", "test accuracy")], models),
        _which(models),
        "## Trained on",
        _list(_trained(first.origin)),
        "## Takes",
        _takes(first),
        "## Gives",
        f"One probability for each of {len(first.classes)} classes: {_some(first.classes)}.",
        "## Use",
        _use(first),
        *([_of_onnx(first)] if onnx else []),
    ]
    if first.origin.privacy:
        parts += ["## Privacy", _privacy(models)]
    return "\n\n".join(parts) + "\n"


def _use(description: Description) -> str:
    file = "new-images/" if description.pictures else "new.npy"
    if description.schema.columns:
        file = "new.csv id=COLUMN"
    return f"```\namity predict . {file}\namity serve .\n```"


def _of_onnx(description: Description) -> str:
    size = " x ".join(map(str, description.shape))
    order = f", in this order: {', '.join(description.schema.inputs)}"
    return (
        f"The ONNX files take `x`, any number of examples of {size} numbers, not yet scaled"
        f"{order if description.schema.columns else ''}. They give `probabilities`."
    )


def _table(head: list[tuple[str, ...]], models: Sequence[Description]) -> str:
    rows = [
        (
            f"`{one.origin.which}.safetensors`",
            f"{one.origin.rounds} of {one.origin.planned}",
            _percent(one.origin.validation),
            _percent(one.origin.accuracy),
        )
        for one in models
    ]
    lines = [*head, ("---",) * len(head[0]), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _which(models: Sequence[Description]) -> str:
    if len(models) > 1:
        return (
            "The best model is that of the round with the highest accuracy on validation examples"
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


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _some(names: Sequence[str]) -> str:
    more = f", and {len(names) - MOST} more" if len(names) > MOST else ""
    return ", ".join(names[:MOST]) + more
