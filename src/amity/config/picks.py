"""One section at a time: from what was given to a checked instance."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from amity.config.schema import Pick
from amity.config.sections import SCALARS, SECTIONS, STAGE, Section
from amity.config.words import read_spec
from amity.errors import ConfigError, unknown
from amity.lazy import torch
from amity.registry import checked, explain, importable

T = TypeVar("T")


def named(key: str, value: Any) -> Mapping[str, Any]:
    """Turns a section into a table with a name. It may be given by name, as a table, or as an
    object: a class, an instance, or anything that the registry can make an entry of."""
    section = SECTIONS.get(key, STAGE)
    if isinstance(value, str):
        _refuse_spec(key, section, value)
        return section.read(value) or {"name": value}
    table = section.registry.table_of(value)
    if table is None and isinstance(value, Mapping):
        if not all(isinstance(option, str) for option in value):
            raise ConfigError(f"{key}: expected options by name, got {list(value)!r}")
        return _read_name(key, section, value)
    if table is None:
        raise ConfigError(f"{key}: {section.registry.refusal(value)}")
    return table


def _read_name(key: str, section: Section, table: Mapping[str, Any]) -> Mapping[str, Any]:
    """A table whose name is a path says what it is by that."""
    name = table.get("name")
    if isinstance(name, str):
        _refuse_spec(key, section, name)
        return {**table, **(section.read(name) or {})}
    return table


def _refuse_spec(key: str, section: Section, text: str) -> None:
    """`strategy=gossip:k=3` is how a list names an entry with its options. Here they are keys."""
    name, colon, rest = text.partition(":")
    if not colon or name not in section.registry or ("=" not in rest and importable(name)):
        return
    write = f"{key}: got {text!r}; write {key}={name}"
    try:
        table = read_spec(text, section.registry, key)
        pick(key, section, table)
    except ConfigError as error:
        raise ConfigError(f"{write} {key}.OPTION=VALUE; {error}") from None
    options = [f"{key}.{option}={value}" for option, value in table.items() if option != "name"]
    raise ConfigError(" ".join([write, *options]))


def pick(key: str, section: Section, given: Mapping[str, Any]) -> Pick[Any]:
    """The entry that a table names, made with the table's options."""
    options = dict(given)
    name = options.pop("name", section.default)
    if not isinstance(name, str):
        raise ConfigError(f"{key}: expected a name, got {name!r}")
    entry = section.registry[name]
    common: Any = None
    if section.common is not None:
        own = {f.name for f in dataclasses.fields(section.common)}
        common = typed(
            key, section.common, {k: options.pop(k) for k in sorted(own & options.keys())}
        )
    instance = entry.build(options)
    return Pick(entry.name, entry.written(instance, options), instance, common, entry.code)


def typed(key: str, cls: type[T], options: Any) -> T:
    """A section of plain options, as a checked instance of its dataclass."""
    if not isinstance(options, Mapping):
        raise ConfigError(f"{key}: expected {key}.option=value, got {options!r}")
    known = [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]
    for option in options:
        if option not in known:
            raise ConfigError(f"{key}: {unknown('option', option, known)}")
    return checked(key, cls, options)


def single(key: str, value: Any) -> Any:
    """A key that is a single value, checked."""
    if key == "device":
        return _device(str(value))
    if isinstance(value, bool):
        raise ConfigError(f"{key}: should be a whole number, got {str(value).lower()}")
    try:
        return TypeAdapter(SCALARS[key]).validate_python(value)
    except ValidationError as error:
        raise ConfigError(explain(key, error).replace(":  ", ": ")) from None


def _device(name: str) -> str:
    """A device that exists here."""
    try:
        torch.zeros(1, device=name).item()
    except (RuntimeError, AssertionError, NotImplementedError):
        raise ConfigError(
            f"device: {name!r} is not available on this machine; use device=cpu"
        ) from None
    return name
