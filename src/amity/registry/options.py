"""Plain values as an instance of a dataclass, with one line for every mistake."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from amity.errors import ConfigError, brief

T = TypeVar("T")
QUIET = {"quiet": True}
"""Metadata of an option that is written only where it is not at its default. One that is added
later is quiet, so that configs from before it, and their digests, stay as they are."""


def checked(where: str, cls: type[T], values: Mapping[str, Any]) -> T:
    """An instance of a dataclass from plain values: types, ranges, finite numbers; a mistake
    becomes one line."""
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{where}: {name} should be a finite number, got {value}")
        if isinstance(value, bool) and not isinstance(_plain_default(cls, name), bool | None):
            raise ConfigError(f"{where}: {name} should not be {str(value).lower()}; give a value")
    try:
        adapter: TypeAdapter[T] = _adapter(cls)  # type: ignore[arg-type]
        return adapter.validate_python(dict(values))
    except ValidationError as error:
        raise ConfigError(explain(where, error)) from None
    except Exception as error:  # the class may be anybody's
        raise ConfigError(f"{where}: cannot be set up ({brief(error)})") from error


@cache
def _adapter(cls: type) -> TypeAdapter[Any]:
    """What checks a class: made once, for that takes longer than all of its checks."""
    return TypeAdapter(cls)


def fields_of(instance: Any) -> dict[str, Any]:
    """The options of an instance, as they were given or left."""
    return {f.name: getattr(instance, f.name) for f in dataclasses.fields(instance) if f.init}


def written_of(instance: Any) -> dict[str, Any]:
    """The options of an instance that a config has to write."""
    quiet = {f.name: default_of(f) for f in dataclasses.fields(instance) if f.metadata == QUIET}
    return {k: v for k, v in fields_of(instance).items() if k not in quiet or v != quiet[k]}


def default_of(f: dataclasses.Field[Any]) -> Any:
    """What a field is where nothing is given; MISSING if something must be."""
    if f.default_factory is not dataclasses.MISSING:
        return f.default_factory()
    return f.default


def _plain_default(cls: type, name: str) -> Any:
    return next((default_of(f) for f in dataclasses.fields(cls) if f.name == name), None)


def explain(where: str, error: ValidationError) -> str:
    """The first complaint of pydantic as one line in our form."""
    first = error.errors()[0]
    path = ".".join(
        str(part) for part in first["loc"] if not str(part).startswith(("constrained", "function-"))
    )
    parts = [
        part for part in path.split(".") if part not in ("int", "float", "str", "literal", "bool")
    ]
    name = ".".join(parts)
    if first["type"] == "missing":
        return f"{where}: option {name!r} must be given"
    message = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    message = message[0].lower() + message[1:]
    if first["type"] == "value_error":
        return f"{where}: {message}"
    return f"{where}: {name} {message}, got {first['input']!r}"
