"""One entry of a registry: a class under a name."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from amity.errors import ConfigError, unknown
from amity.registry.memory import Absent
from amity.registry.options import checked, default_of, written_of

T = TypeVar("T")


@dataclass(frozen=True)
class Entry(Generic[T]):
    """A class under a name, with the defaults that this name stands for and its presets."""

    name: str
    cls: type[T]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    preset: str = ""
    code: str = ""
    """For your own class: the SHA-256 of its file, or its fingerprint."""

    @property
    def summary(self) -> str:
        """The first paragraph of its docstring, as one line."""
        return " ".join((inspect.getdoc(self.cls) or "").partition("\n\n")[0].split())

    def options(self) -> dict[str, dataclasses.Field[Any]]:
        return {f.name: f for f in dataclasses.fields(self.cls) if f.init}  # type: ignore[arg-type]

    def resolve(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """All options with their values: class default < entry default < preset < given."""
        given = dict(options)
        chosen = given.pop("preset", self.preset)
        if chosen and chosen not in self.presets and not (chosen == "custom" and self.presets):
            raise ConfigError(
                f"{self.name}.preset:"
                f" {unknown('preset', str(chosen), self.presets or ['none exist'])}"
            )
        known = self.options()
        for key in given:
            if key not in known:
                raise ConfigError(
                    f"{self.name}:"
                    f" {unknown('option', key, [*known, *(['preset'] * bool(self.presets))])}"
                )
        values = {name: default_of(f) for name, f in known.items()}
        values |= self.defaults
        values |= self.presets.get(chosen, {})
        values |= given
        return values

    def build(self, options: Mapping[str, Any]) -> T:
        values = {k: v for k, v in self.resolve(options).items() if v is not dataclasses.MISSING}
        return checked(self.name, self.cls, values)

    def written(self, instance: T, options: Mapping[str, Any]) -> dict[str, Any]:
        """All options of an instance that was built from these, as config.toml has them."""
        preset = {"preset": options.get("preset", self.preset)} if self.presets else {}
        return preset | written_of(instance)


@dataclass(frozen=True)
class AbsentEntry(Entry[Any]):
    """An object of another process, or code that is withheld: any options are right, and its
    instance cannot be used."""

    kind: str = ""

    def build(self, options: Mapping[str, Any]) -> Any:
        return Absent(self.kind, self.name, dict(options))

    def written(self, instance: Any, options: Mapping[str, Any]) -> dict[str, Any]:
        return dict(options)
