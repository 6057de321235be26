"""What a model's inputs and classes mean: the names, kinds and order that all members must share.

A table has a **column** for each of its inputs, found by name wherever it stands in a file. A
number or a date is one input (and a second one, where the column's rule is `indicator`: whether its
value was missing); a category is one input for each of its values. Arrays and images have a shape.

Two members can learn together if their schemas have no `difference`. It covers names, kinds,
values, indicators, classes and scaling. Statistics (`fill`, `mean`, `std`) are a member's own and
never leave it, unless `agreed` says that they stand in the file that all members use.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import ConfigDict, Field

from amity.data.inputs import Shape, Shapes, Tokens, described
from amity.errors import ConfigError, DataError
from amity.registry import checked
from amity.toml import read_toml

Kind = Literal["number", "category", "date"]
Rule = Literal["refuse", "median", "indicator", "zeros"]
Scale = Literal["standard", "none"]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Spread = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Array = np.ndarray[Any, Any]
ONE_FILE = "use one schema file everywhere (`amity data schema` writes it, data.schema=FILE)"
KINDS = {"number": "a number", "category": "a category", "date": "a date"}


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of a table that is an input."""

    name: str
    kind: Kind = "number"
    values: tuple[str, ...] = ()
    """Of a category: what it can be, in the order of its inputs."""
    missing: Rule = "refuse"
    """What is done where a value is missing (or is no value of the category). Numbers and dates:
    `median`, or `indicator` (the median, and one more input that says so). Categories: `zeros`,
    none of its values."""
    fill: Finite | None = None
    """What stands for a missing number: a median."""
    mean: Finite | None = None
    std: Spread | None = None

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a column has no name")
        category = self.kind == "category"
        rules = ("refuse", "zeros") if category else ("refuse", "median", "indicator")
        if category != bool(self.values):
            raise ValueError(
                f"column {self.name!r}: a category needs `values`, and nothing else has them"
            )
        if len(set(self.values)) != len(self.values):
            raise ValueError(f"column {self.name!r}: a value is named twice")
        if self.missing not in rules:
            raise ValueError(
                f"column {self.name!r} is {KINDS[self.kind]}: missing should be"
                f" {' or '.join(rules)}, got {self.missing!r}"
            )

    @property
    def inputs(self) -> tuple[str, ...]:
        """What the model sees of it."""
        if self.kind == "category":
            return tuple(f"{self.name}={value}" for value in self.values)
        return (self.name, f"{self.name} missing") if self.missing == "indicator" else (self.name,)

    def common(self, agreed: bool) -> Column:
        """What all members must have in common. Who fills holes and who has none may learn
        together."""
        rule: Rule = "indicator" if self.missing == "indicator" else "refuse"
        if agreed:
            return dataclasses.replace(self, missing=rule)
        return Column(name=self.name, kind=self.kind, values=self.values, missing=rule)


@dataclass(frozen=True, kw_only=True)
class Part:
    """One of several inputs."""

    name: str
    shape: tuple[int, ...]
    vocabulary: int = 0
    """Of tokens: how many ids there are, padding included."""
    mean: tuple[Finite, ...] = ()
    std: tuple[Spread, ...] = ()

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    @property
    def form(self) -> Shape:
        return Tokens(self.shape[0], self.vocabulary) if self.vocabulary else self.shape


@dataclass(frozen=True, kw_only=True)
class Schema:
    """The inputs and the classes of a dataset."""

    classes: tuple[str, ...]
    columns: tuple[Column, ...] = ()
    """Of a table, in the order of its inputs."""
    shape: tuple[int, ...] = ()
    """Of one example."""
    vocabulary: int = 0
    """Of sequences of tokens: how many ids there are, padding included."""
    letters: str = ""
    """The character that each id from 1 on stands for, where tokens are characters."""
    parts: tuple[Part, ...] = ()
    """Of several inputs: each of them."""
    scale: Scale = "standard"
    """Whether numbers are brought to mean 0 and standard deviation 1."""
    mean: tuple[Finite, ...] = ()
    std: tuple[Spread, ...] = ()
    """Of arrays and images, by feature or channel; a table has them by column."""
    agreed: bool = False
    """Whether `fill`, `mean` and `std` are the same for all members, and not of one's own
    examples."""
    targets: tuple[Column, ...] = ()
    """What is to be said of an example, where that is no class: columns of numbers."""
    label: str = ""
    """The column with the classes."""
    ignore: tuple[str, ...] = ()
    """Columns that are no inputs."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    def __post_init__(self) -> None:
        for what, names in (
            ("class", self.classes),
            ("column", [column.name for column in (*self.columns, *self.targets)]),
            ("input", [part.name for part in self.parts]),
        ):
            twice = [name for name, count in Counter(names).items() if count > 1]
            if twice:
                raise ValueError(f"{what} {_shown(twice[0])} is named twice")

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of a table's inputs, in their order."""
        return tuple(name for column in self.columns for name in column.inputs)

    @property
    def form(self) -> Shapes:
        """The shape of an example with all that a model must know to take it."""
        if self.parts:
            return {part.name: part.form for part in self.parts}
        return Tokens(self.shape[0], self.vocabulary) if self.vocabulary else self.shape

    # -- as plain data -----------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain data; what is at its default is left out."""
        plain = _plain(self)
        if self.columns:
            plain["columns"] = [_plain(column) for column in self.columns]
        if self.targets:
            plain["targets"] = [_plain(column) for column in self.targets]
        if self.parts:
            plain["parts"] = [_plain(part) for part in self.parts]
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any], where: str = "schema") -> Schema:
        """Refuses what is no schema; `where` names the source in messages."""
        try:
            return checked(where, cls, plain)
        except ConfigError as error:
            raise DataError(str(error)) from None

    def to_toml(self) -> str:
        """As a file for people: the columns one by one, with kind and rule."""
        plain = {**self.to_dict(), "scale": self.scale}
        apart = ("shape", "columns", "targets", "mean", "std")
        kept = {key: plain[key] for key in plain if key not in apart}
        parts = [_lines(kept)]
        for column in self.columns:
            said = {"name": column.name, "kind": column.kind, "missing": column.missing}
            parts.append("[[column]]\n" + _lines(said | _plain(column)))
        parts += ["[[target]]\n" + _lines(_plain(column)) for column in self.targets]
        return "\n".join(parts)

    # -- what members compare ----------------------------------------------------------------------

    @property
    def common(self) -> Schema:
        """What all members must have in common, without anything of one's own examples. This part
        is shown to other members."""
        mean, std = (self.mean, self.std) if self.agreed else ((), ())
        columns, targets = (
            tuple(column.common(self.agreed) for column in given)
            for given in (self.columns, self.targets)
        )
        parts = tuple(dataclasses.replace(part, mean=(), std=()) for part in self.parts)
        return dataclasses.replace(
            self,
            columns=columns,
            targets=targets,
            parts=parts,
            mean=mean,
            std=std,
            label="",
            ignore=(),
        )

    @property
    def digest(self) -> str:
        """Equal for members that can learn together."""
        text = json.dumps(self.common.to_dict(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def difference(self, other: Schema) -> str:
        """The first difference to the schema of another member, in one line with its remedy; empty
        if there is none. `here` is this schema, `there` the other."""
        return next(_differences(self.common, other.common), "")


def read_schema(path: Path) -> Schema:
    """The file that all members agree on."""
    plain = read_toml(path)
    if "column" in plain:
        plain["columns"] = plain.pop("column")
    if "target" in plain:
        plain["targets"] = plain.pop("target")
    schema = Schema.from_dict(plain, str(path))
    if not schema.columns:
        raise DataError(
            f"{path}: has no [[column]]; `amity data schema a.csv out={path}` writes it"
        )
    for column in schema.columns if schema.agreed else ():
        lacking = [key for key in _needed(schema, column) if getattr(column, key) is None]
        if lacking:
            raise DataError(
                f"{path}: column {column.name!r} has no {' and '.join(lacking)}, and `agreed` says"
                " that all statistics stand here"
            )
    return schema


def _needed(schema: Schema, column: Column) -> tuple[str, ...]:
    """The statistics that a column is read with."""
    if column.kind == "category":
        return ()
    scaled = ("mean", "std") if schema.scale == "standard" else ()
    return scaled if column.missing == "refuse" else ("fill", *scaled)


def _lines(plain: Mapping[str, Any]) -> str:
    """Keys and values as TOML, each in one line."""
    return "".join(f"{key} = {_toml(value)}\n" for key, value in plain.items())


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _plain(value: Any) -> dict[str, Any]:
    """The fields of a dataclass that are not at their default."""
    fields = ((f, getattr(value, f.name)) for f in dataclasses.fields(value))
    return {
        f.name: list(found) if isinstance(found, tuple) else found
        for f, found in fields
        if f.default is dataclasses.MISSING or found != f.default
    }


def _differences(here: Schema, there: Schema) -> Iterator[str]:
    if bool(here.columns) != bool(there.columns):
        yield f"the inputs are {_form(here)} here and {_form(there)} there; use one kind of data"
    yield from _columns_apart(here.columns, there.columns)
    names = [[column.name for column in side.targets] for side in (here, there)]
    if said := _lists_apart("answer", *names):
        yield f"{said}: say the same data.target everywhere, or use one schema file"
    yield from _inputs_apart(here, there)
    if here.letters != there.letters:
        yield "ids of tokens stand for other characters here than there; use the same data"
    if said := _lists_apart("class", here.classes, there.classes):
        yield f"{said}: list the same `classes` under [peer] everywhere, or in one schema file"
    if here.scale != there.scale:
        yield (
            f"inputs are scaled by data.scale={here.scale} here and {there.scale} there: say the"
            " same everywhere"
        )
    if here != there:
        yield f"the statistics in the schema files (fill, mean, std) differ; {ONE_FILE}"


def _inputs_apart(here: Schema, there: Schema) -> Iterator[str]:
    """Of what is no table."""
    if said := _lists_apart("input", [p.name for p in here.parts], [p.name for p in there.parts]):
        yield f"{said}; give the same inputs everywhere"
    pairs: list[tuple[str, Any, Any]] = [("examples have", here, there)]
    pairs += [
        (f"input {_shown(a.name)} has", a, b) for a, b in zip(here.parts, there.parts, strict=False)
    ]
    for what, one, two in pairs:
        if bool(one.vocabulary) != bool(two.vocabulary):
            yield f"{what} {described(one.form)} here and {described(two.form)} there"
        if one.vocabulary != two.vocabulary:
            yield (
                f"{what} {one.vocabulary} ids of tokens here and {two.vocabulary} there: say the"
                " same data.vocabulary everywhere"
            )
        if one.vocabulary and one.shape != two.shape:
            yield (
                f"{what} up to {one.shape[0]} tokens here and {two.shape[0]} there: say the same"
                " data.length everywhere"
            )
        if one.shape != two.shape:
            yield f"{what} shape {one.shape} here and {two.shape} there"


def _columns_apart(here: Sequence[Column], there: Sequence[Column]) -> Iterator[str]:
    if said := _lists_apart("column", [c.name for c in here], [c.name for c in there]):
        yield f"{said}; {ONE_FILE}"
    for mine, other in zip(here, there, strict=False):
        name = f"column {_shown(mine.name)}"
        if mine.kind != other.kind:
            yield f"{name} is {KINDS[mine.kind]} here and {KINDS[other.kind]} there; {ONE_FILE}"
        if said := _lists_apart("value", mine.values, other.values):
            yield f"{name}: {said}; {ONE_FILE}"
        if mine.missing != other.missing:
            one, two = ("here", "there") if mine.missing == "indicator" else ("there", "here")
            yield (
                f"{name}: has an input for missing values {one} and none {two}: say the same"
                " data.missing everywhere, or " + ONE_FILE
            )


def _lists_apart(what: str, here: Sequence[str], there: Sequence[str]) -> str:
    """How two lists of names differ; empty: not at all."""
    for one, two, where in ((there, here, "here"), (here, there, "there")):
        known = set(two)
        lacking = [name for name in one if name not in known]
        if lacking:
            more = f" (and {len(lacking) - 1} more)" if len(lacking) > 1 else ""
            return f"{what} {_shown(lacking[0])}{more} is missing {where}"
    for at, (mine, other) in enumerate(zip(here, there, strict=True), 1):
        if mine != other:
            return f"{what} {at} is {_shown(mine)} here and {_shown(other)} there"
    return ""


def _form(schema: Schema) -> str:
    return f"a table of {len(schema.columns)} columns" if schema.columns else f"{schema.shape}"


def _shown(name: str) -> str:
    return repr(name if len(name) <= 60 else name[:59] + "…")
