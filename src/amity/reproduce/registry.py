"""Where experiments register, and how they are found."""

from __future__ import annotations

from collections.abc import Collection

from amity.errors import ConfigError, unknown
from amity.registry import Entry, Registry
from amity.reproduce.experiment import Experiment
from amity.reproduce.presets import PRESETS

experiments: Registry[Experiment] = Registry(
    "experiment",
    "prepare",
    attributes=("title", "place", "presets", "in_all", "takes"),
    home="amity.reproduce.experiments",
)


def in_order() -> list[Entry[Experiment]]:
    """All of them, in the order of their places."""
    return sorted(experiments, key=lambda entry: (entry.cls.place, entry.name))


def everything(preset: str) -> dict[str, Experiment]:
    """What `all` stands for at a preset."""
    _check(preset)
    return {e.name: e.build({}) for e in in_order() if preset in e.cls.in_all}


def find(name: str, preset: str, others: Collection[str] = ()) -> Experiment:
    """An experiment that has this preset, by its name or as `file.py:Class`. `others` are further
    words that a misspelt name may have meant."""
    _check(preset)
    if ":" not in name and name not in experiments:
        known = [entry.name for entry in in_order()]
        raise ConfigError(unknown("experiment", name, [*known, *others]))
    found = experiments[name].build({})
    if preset not in found.presets:
        raise ConfigError(
            f"preset: {name!r} does not have {preset!r}; it has {' and '.join(found.presets)}"
        )
    return found


def _check(preset: str) -> None:
    if preset not in PRESETS:
        raise ConfigError(unknown("preset", preset, PRESETS))
