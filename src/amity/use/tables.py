"""Tables for a model: the inputs that its schema names, and what is wrong with a file in the words
of those who use the model, not of those who train it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amity.data.cells import Cells, Encoded, encode, values_of
from amity.data.problems import Problem
from amity.data.schema import Schema
from amity.errors import DataError

SAYS = {
    "holes": "has no value",
    "unknown": "has values that were not known in training",
    "words": "has other things than numbers",
    "infinite": "has numbers that are not finite",
    "odd dates": "has dates that are not written YYYY-MM-DD",
}
FILLED = {"holes", "unknown"}
"""What can be filled with what was usual in training."""


def inputs_of(schema: Schema, frame: Any, where: str, fill: bool) -> Encoded:
    """The inputs of a pandas table. Columns are found by name; all problems are told at once."""
    try:
        return encode(schema, frame, where, fill)
    except DataError:
        problems = Cells.of(schema, values_of(frame), by_file=True).problems
        wrong = [p for p in problems if not (fill and p.kind in FILLED)]
        raise DataError(f"{where}: {_told(wrong)}") from None


def _told(problems: Sequence[Problem]) -> str:
    absent = [repr(p.column) for p in problems if p.kind == "absent"]
    parts = [f"the model needs columns that are not there: {', '.join(absent)}"] if absent else []
    parts += [
        f"column {p.column!r} {SAYS.get(p.kind, p.kind)} ({p.detail})"
        for p in problems
        if p.kind != "absent"
    ]
    if any(p.kind in FILLED for p in problems):
        parts.append("fill=true takes what was usual in training for what is missing or unknown")
    if any(p.kind == "words" for p in problems):
        parts.append("na=WORD names what stands for a missing value")
    return "; ".join(parts)
