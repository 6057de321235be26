"""One section at a time: from what was given to a checked instance."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from amity.config.hints import unknown_option
from amity.config.schema import Pick
from amity.config.sections import SCALARS, SECTIONS, STAGE, Section
from amity.config.words import read_spec
from amity.errors import ConfigError, unknown
from amity.lazy import torch
from amity.registry import AbsentEntry, Entry, checked, explain

T = TypeVar("T")


def named(key: str, value: Any) -> Mapping[str, Any]:
    """Turns a section into a table with a name. It may be given by name (with options after it:
    `gossip:k=3`), as a table, or as an object: a class, an instance, or anything that the registry
    can make an entry of."""
    section = SECTIONS.get(key, STAGE)
    if isinstance(value, str):
        return _spelled(key, section, value)
    table = section.registry.table_of(value)
    if table is None and isinstance(value, Mapping):
        if not all(isinstance(option, str) for option in value):
            raise ConfigError(f"{key}: expected options by name, got {list(value)!r}")
        spelled = (
            _spelled(key, section, value["name"]) if isinstance(value.get("name"), str) else {}
        )
        rest = {option: given for option, given in value.items() if option != "name" or not spelled}
        return once(key, spelled, rest)
    if table is None:
        raise ConfigError(f"{key}: {section.registry.refusal(value)}")
    return table


def _spelled(key: str, section: Section, text: str) -> Mapping[str, Any]:
    """The table that a text stands for: `gossip`, `afind+:paper:tau=0.8`, `mine.py:Class:k=3`, or a
    path where the section reads paths, `scans.csv:label=y`."""
    whole = section.read(text)
    if whole is not None:
        return whole
    options = read_spec(text, section.registry, key)
    name = options.pop("name")
    return once(key, section.read(name) or {"name": name}, options)


def read_strategy(spec: str, what: str) -> dict[str, Any]:
    """`afind+:paper:tau=0.8/fomo@ditto:lam=1` as the sections that it sets: the strategy with its
    options, the stages after it, and the method."""
    known = strategy_name(spec) in SECTIONS["strategy"].registry
    start = 0 if known else spec.find(":")  # before it an @ is part of a path
    at = spec.find("@", start) if start >= 0 else -1
    text = spec if at < 0 else spec[:at]
    chosen, *after = text.split("/") if known else [text]  # elsewhere a slash is part of a path
    layer: dict[str, Any] = {
        "strategy": read_spec(chosen, SECTIONS["strategy"].registry, what),
    }
    if after:
        layer["stages"] = after
    if at >= 0:
        layer["method"] = read_spec(spec[at + 1 :], SECTIONS["method"].registry, what)
    return layer


def strategy_name(spec: str) -> str:
    """`gossip` of `gossip:k=3/krum@ditto`."""
    return re.split("[:/@]", spec)[0]


def once(key: str, given: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Both tables as one; nothing may stand in both."""
    for option in given.keys() & more.keys():
        raise ConfigError(
            f"{key}.{option}: is given twice, {given[option]!r} and {more[option]!r}; leave one out"
        )
    return {**given, **more}


def pick(key: str, section: Section, given: Mapping[str, Any]) -> Pick[Any]:
    """The entry that a table names, made with the table's options."""
    options = dict(given)
    name = options.pop("name", section.default)
    if not isinstance(name, str):
        raise ConfigError(f"{key}: expected a name, got {name!r}")
    entry = entry_of(section, name)
    common: Any = None
    own: frozenset[str] = frozenset()
    if section.common is not None:
        own = frozenset(f.name for f in dataclasses.fields(section.common))
        common = typed(
            key, section.common, {k: options.pop(k) for k in sorted(own & options.keys())}
        )
    known = [*entry.options(), *own, *(["preset"] if entry.presets else [])]
    for option in options:
        if option not in known and not isinstance(entry, AbsentEntry):
            raise ConfigError(f"{name}: {unknown_option(section, name, option, known)}")
    instance = entry.build(options)
    return Pick(entry.name, entry.written(instance, options), instance, common, entry.code)


def entry_of(section: Section, name: str) -> Entry[Any]:
    """The entry of this name; one that does not exist is refused with all that may stand there."""
    try:
        return section.registry[name]
    except ConfigError as error:
        also = f"; or {section.also}" if section.also and "; known: " in str(error) else ""
        raise ConfigError(f"{error}{also}") from error


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
