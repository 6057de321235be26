"""`train.optimiser` and `train.schedule`: entries of registries, whose options stand among the keys
of `train`.

    train.optimiser=adamw train.beta2=0.99 train.schedule=cosine train.floor=0.1
    train.optimiser=adamw:beta2=0.99                    # the same, in one word

A layer that names another optimiser drops the options that lower layers gave to the old one, and
its learning rates: a rate that suits SGD says nothing of Adam. Without `train.lr` an optimiser has
a rate of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from amity.config.parts import Train
from amity.config.schema import CHOICES, Pick
from amity.config.words import read_spec
from amity.errors import ConfigError, unknown
from amity.learn.optimisers import optimisers
from amity.learn.schedules import schedules
from amity.registry import AbsentEntry, Entry, Registry, in_memory

TRAINING: dict[str, Registry[Any]] = {"optimiser": optimisers, "schedule": schedules}
RATES = {"optimiser": ("lr", "lr_head"), "schedule": ()}
"""Keys of `train` that go with a choice, besides its own options."""
OWN = tuple(f.name for f in dataclasses.fields(Train))


def spelled(train: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of one layer, with each choice by its name and its options beside it. A choice may
    be given by name, with options after it, as a table, or as an object."""
    if not isinstance(train, Mapping):
        raise ConfigError(f"train: expected train.option=value, got {train!r}")
    out = {key: value for key, value in train.items() if key not in TRAINING}
    for key, registry in TRAINING.items():
        if key not in train:
            continue
        table = _table(f"train.{key}", train[key], registry)
        out[key] = table.pop("name")
        for option in table.keys() & out.keys():
            raise ConfigError(
                f"train.{option}: is given twice, {table[option]!r} and {out[option]!r}; leave one"
                " out"
            )
        out |= table
    return out


def _table(key: str, value: Any, registry: Registry[Any]) -> dict[str, Any]:
    if isinstance(value, str):
        return read_spec(value, registry, key) if not in_memory(value) else {"name": value}
    table = registry.table_of(value)
    if table is None and not (isinstance(value, Mapping) and isinstance(value.get("name"), str)):
        raise ConfigError(f"{key}: {registry.refusal(value)}")
    return dict(value if table is None else table)


def over(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """One layer of `train` on top of another."""
    low, high = spelled(low), spelled(high)
    for key, registry in TRAINING.items():
        before = low.get(key, CHOICES[key])
        if high.get(key, before) == before:
            continue
        old = {*registry[before].options(), *RATES[key]}
        if isinstance(registry[before], AbsentEntry):  # nobody knows here which options it had
            old |= low.keys() - set(OWN)
        low = {option: value for option, value in low.items() if option not in old}
    return {**low, **high}


def divided(train: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Pick[Any]]]:
    """The keys of `train` itself, and the choices with their options."""
    given = spelled(train)
    entries = {
        key: registry[str(given.pop(key, CHOICES[key]))] for key, registry in TRAINING.items()
    }
    _check(given, entries)
    picks = {}
    for key, entry in entries.items():
        mine = {k: given[k] for k in given.keys() - set(OWN) if _has(entry, k)}
        instance = entry.build(mine)
        picks[key] = Pick(entry.name, entry.written(instance, mine), instance, None, entry.code)
    plain = {key: value for key, value in given.items() if key in OWN}
    if not picks["optimiser"].absent:
        plain.setdefault("lr", picks["optimiser"].instance.rate)
    return plain, picks


def _has(entry: Entry[Any], option: str) -> bool:
    return isinstance(entry, AbsentEntry) or option in entry.options()


def _check(given: Mapping[str, Any], entries: Mapping[str, Entry[Any]]) -> None:
    """Every option belongs to `train` itself or to one of the choices."""
    here = [entry for entry in entries.values() if not isinstance(entry, AbsentEntry)]
    known = [*OWN, *TRAINING, *(o for entry in here for o in entry.options())]
    for option in known:
        if known.count(option) > 1:
            raise ConfigError(
                f"train.{option}: means two things, with"
                f" {' and '.join(f'train.{key}={entry.name}' for key, entry in entries.items())};"
                " rename it in your own class"
            )
    for option in given:
        if option in known or any(isinstance(entry, AbsentEntry) for entry in entries.values()):
            continue
        for key, registry in TRAINING.items():
            owners = [entry.name for entry in registry if option in entry.options()]
            if owners:
                has = ", ".join(entries[key].options()) or "no options"
                raise ConfigError(
                    f"train.{option}: belongs to train.{key}={' or '.join(owners)};"
                    f" {entries[key].name} has {has}. Choose that, or leave it out"
                )
        raise ConfigError(f"train: {unknown('option', option, known)}")
