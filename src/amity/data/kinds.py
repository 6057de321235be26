"""What kind of input each column of a table is, found in its values: for tables without a schema.

| values | kind |
|---|---|
| numbers, true and false | number |
| dates, YYYY-MM-DD | date, if `data.dates=days`; else refused |
| at most 20 different words, each twice on average | category |
| columns named in `data.categories` | category |

Everything else is a problem, told with its remedy: a model must not learn from a column that nobody
has looked at.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from amity.data.problems import Problem
from amity.data.schema import Column, Rule, Scale
from amity.data.values import COMMA, ISO, ODD_DATE, Values

MOST_VALUES = 20
ROLES = {
    "peer": ("peer", "writer", "writer_id", "user", "client", "hospital"),
    "group": ("group",),
    "split": ("split",),
}
"""Columns of these names are likely to be that, and no inputs."""


@dataclass(frozen=True)
class Wish:
    """What is said about a table's columns beside the table."""

    scale: Scale = "standard"
    missing: Rule = "refuse"
    dates: bool = False
    """Whether they become days."""
    categories: tuple[str, ...] = ()
    free: tuple[str, ...] = ()
    """Roles that no column has yet: peer, split, group."""


def kinds_of(found: Mapping[str, Values], wish: Wish) -> tuple[list[Column], list[Problem]]:
    """Each column as an input, or as a problem."""
    columns: list[Column] = []
    problems: list[Problem] = []
    for name, values in found.items():
        one = _kind(name, values, wish)
        (problems if isinstance(one, Problem) else columns).append(one)  # type: ignore[arg-type]
    return columns, problems


def _kind(name: str, values: Values, wish: Wish) -> Column | Problem:
    if not values.count:
        return Problem("empty", name)
    if name in wish.categories:
        return category(name, values.words, wish.missing)
    if values.typed or _numbers(values) > 0.5:
        return Column(name=name, kind="number", missing=wish.missing)
    if values.timed or values.share(ISO) > 0.5:
        if not wish.dates:
            return Problem("dates", name, f"such as {values.words[0][:30]}")
        return Column(name=name, kind="date", missing=wish.missing)
    return _words(name, values, wish)


def _words(name: str, values: Values, wish: Wish) -> Column | Problem:
    """What is neither a number nor a date."""
    shown = ", ".join(repr(word[:30]) for word in values.words[:3])
    for kind, form in (("odd dates", ODD_DATE), ("commas", COMMA)):
        if values.share(form) > 0.5:
            return Problem(kind, name, f"such as {values.words[0][:30]}")
    if not _are_words(values):
        return Problem("objects", name, f"such as {values.words[0][:30]}")
    likely = [role for role in wish.free if name.lower() in ROLES[role]]
    if likely:
        free = sorted(wish.free, key=lambda role: role not in likely)
        roles = ", ".join(f"data.{role}={name}" for role in free)
        return Problem("role", name, f"such as {shown}", roles)
    if len(values.words) > MOST_VALUES or 2 * len(values.words) > values.count:
        return Problem("text", name, f"{len(values.words)} values in {values.count} rows: {shown}")
    return category(name, values.words, wish.missing)


def _are_words(values: Values) -> bool:
    """Whether an untyped column holds text (or truth values, or numbers), not lists and the
    like."""
    if values.raw.dtype != object:
        return values.raw.dtype.kind not in "mc"
    return all(isinstance(v, str | int | float | np.generic | None) for v in values.raw)


def _numbers(values: Values) -> float:
    """Of the rows with a value, how many are numbers."""
    return float(np.isfinite(values.numbers).sum()) / max(values.count, 1)


def category(name: str, words: Sequence[str], missing: Rule) -> Column:
    """Its values in an order of their own, whatever the file's."""
    rule: Rule = "refuse" if missing == "refuse" else "zeros"
    return Column(
        name=name, kind="category", values=tuple(sorted(words, key=natural)), missing=rule
    )


def natural(name: str) -> tuple[tuple[tuple[str, int], ...], str]:
    """The order of columns and values, wherever they stand in a file: `f2` is before `f10`."""
    parts = re.findall(r"(\D*)(\d*)", name)
    return tuple((text.lower(), int(digits[-18:] or -1)) for text, digits in parts), name
