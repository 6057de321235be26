"""What every option means: its type, its default, its range and its docstring, read from the typed
class itself. Listings and reference pages are made from this and from nothing else."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pydantic.fields import FieldInfo

from amity.registry.options import default_of

WORDS: Mapping[Any, str] = {
    int: "whole number",
    float: "number",
    str: "text",
    bool: "true or false",
    tuple: "list",
}
HUGE = 2**31 - 1
"""Bounds beyond this are those of a machine."""
BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


@dataclass(frozen=True)
class Option:
    """One option, for people."""

    key: str
    """As it is written: `train.lr`."""
    type: str
    default: Any
    """`dataclasses.MISSING` where a value must be given."""
    range: str
    """What is allowed, as far as the type does not say it; empty: anything."""
    meaning: str
    of: str = ""
    """The entry that it belongs to, such as `afind+`; empty: it is always there."""

    @property
    def allowed(self) -> str:
        """Type and range in a few words: `number > 0`, or the values that there are."""
        if " | " in self.range:
            return self.range
        return f"{self.type} {self.range}" if self.range else self.type

    @property
    def shown(self) -> str:
        """The default, as it would be typed."""
        if self.default is dataclasses.MISSING:
            return "(must be given)"
        if isinstance(self.default, bool):
            return str(self.default).lower()
        if isinstance(self.default, tuple):
            return ",".join(map(str, self.default)) or '""'
        return "-" if self.default is None else str(self.default) or '""'


def options_of(
    cls: type, prefix: str = "", *, of: str = "", defaults: Mapping[str, Any] | None = None
) -> Iterator[Option]:
    """All options of a dataclass. `defaults` are those of an entry, where it has its own."""
    hints = get_type_hints(cls, include_extras=True)
    told = meanings(cls)
    for f in dataclasses.fields(cls):
        if f.init:
            kind, allowed = _described(hints[f.name])
            default = (defaults or {}).get(f.name, default_of(f))
            yield Option(prefix + f.name, kind, default, allowed, told.get(f.name, ""), of)


@cache
def meanings(cls: type) -> Mapping[str, str]:
    """The docstrings under the fields of a class and of those that it inherits from, each as one
    line. Empty where there is no source, as in a notebook that is gone."""
    told: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if dataclasses.is_dataclass(base):
            told |= _own_meanings(base)
    return told


def _own_meanings(cls: type) -> dict[str, str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError, SyntaxError):
        return {}
    body = next((node.body for node in tree.body if isinstance(node, ast.ClassDef)), [])
    return {
        field.target.id: " ".join(doc.value.value.split())
        for field, doc in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(doc, ast.Expr)
        and isinstance(doc.value, ast.Constant)
        and isinstance(doc.value.value, str)
    }


def _described(hint: Any) -> tuple[str, str]:
    """A type in words, and its range."""
    origin = get_origin(hint)
    if origin is Annotated:
        inner, *notes = get_args(hint)
        kind, allowed = _described(inner)
        unit = next((note for note in notes if isinstance(note, str)), kind)
        return unit, allowed or _bounds(notes)
    if origin is Literal:
        values = get_args(hint)
        return WORDS.get(type(values[0]), "text"), " | ".join(map(str, values))
    if origin is not None and origin is not tuple:  # a union
        parts = [part for part in get_args(hint) if part is not NoneType]
        told = [_described(part) for part in parts]
        open_kinds = [told[k][0] for k, part in enumerate(parts) if get_origin(part) is not Literal]
        kinds = dict.fromkeys(open_kinds or [kind for kind, _ in told])
        return " or ".join(kinds), ", or ".join(allowed for _, allowed in told if allowed)
    return WORDS.get(origin or hint, getattr(hint, "__name__", str(hint))), ""


def _bounds(notes: list[Any]) -> str:
    """`≥ 0 and < 1`. A bound that only a machine needs is not told."""
    parts = [one for n in notes for one in (n.metadata if isinstance(n, FieldInfo) else [n])]
    given = ((key, getattr(one, key, None)) for one in parts for key in BOUNDS)
    found = {key: value for key, value in given if value is not None}
    told = {key: value for key, value in found.items() if abs(value) < HUGE}
    if told.keys() == {"ge", "le"}:
        return f"{told['ge']:.9g} to {told['le']:.9g}"
    return " and ".join(f"{BOUNDS[key]} {told[key]:.9g}" for key in BOUNDS if key in told)
