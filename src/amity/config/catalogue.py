"""Every key of a run with its type, default, range and meaning, from the typed classes themselves.

`run_options` is the whole list. A `Chapter` is a part of it, as people look it up: `train`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from amity.config.schema import CHOICES, Config
from amity.config.sections import PARTS, SCALARS, SECTIONS, STAGE
from amity.config.training import TRAINING
from amity.registry import Entry, Option, Registry, meanings, options_of

PRESET = "Values for all options at once; an option that is given wins."


@dataclass(frozen=True)
class Chapter:
    """Options that belong together: a section with entries to choose from, or plain options."""

    name: str
    about: str
    registry: Registry[Any] | None = None
    always: type | None = None
    """The options that are there whatever entry is chosen."""
    default: str = ""
    """The entry that is chosen where nothing is said."""
    form: str = "{kind}.{option}"
    """How an option of an entry is written."""
    chosen_by: str = ""
    """The key that chooses an entry; empty: its name."""

    @property
    def key(self) -> str:
        return self.chosen_by or self.name

    def entries(self) -> list[Entry[Any]]:
        return [] if self.registry is None else list(self.registry)

    def of_entry(self, entry: Entry[Any]) -> list[Option]:
        """The options of one entry."""
        found = options_of(entry.cls, of=entry.name, defaults=entry.resolve({}))
        preset = Option(
            "preset", "name", entry.preset, " | ".join(entry.presets), PRESET, entry.name
        )
        return [
            dataclasses.replace(option, key=self._key(entry.name, option.key))
            for option in (*([preset] if entry.presets else []), *found)
        ]

    def _key(self, entry: str, option: str) -> str:
        return self.form.format(kind=self.name, entry=entry, option=option)

    def of_any(self) -> list[Option]:
        """The options that are always there."""
        return list(options_of(self.always, f"{self.name}.")) if self.always else []

    def options(self) -> Iterator[Option]:
        """The key itself, and all options below it."""
        if self.registry is not None:
            names = " | ".join(entry.name for entry in self.registry)
            yield Option(self.key, "name", self.default, names, self.about)
        yield from self.of_any()
        for entry in self.entries():
            yield from self.of_entry(entry)


def kinds() -> list[Chapter]:
    """All parts of a config that have options below them."""
    about = meanings(Config)
    sections = [
        Chapter(key, about[key], section.registry, section.common, section.default)
        for key, section in SECTIONS.items()
    ]
    stages = Chapter("stages", about["stages"], STAGE.registry, form="{kind}.{entry}.{option}")
    parts = [
        Chapter(key, " ".join((cls.__doc__ or "").partition("\n\n")[0].split()), always=cls)
        for key, cls in PARTS.items()
    ]
    training = [
        Chapter(f"train.{key}", _choice(about[key]), registry, None, CHOICES[key], "train.{option}")
        for key, registry in TRAINING.items()
    ]
    return [*sections, stages, *parts, *training]


def _choice(about: str) -> str:
    """What a key of `train` chooses, without the key itself."""
    said = about.partition(": ")[2]
    return said[0].upper() + said[1:]


def scalars() -> list[Option]:
    """The keys that stand alone."""
    return [option for option in options_of(Config) if option.key in (*SCALARS, "changes")]


def run_options() -> Iterator[Option]:
    """Every key of a run."""
    yield from scalars()
    for kind in kinds():
        yield from kind.options()
