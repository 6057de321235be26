"""All entries of one kind, by name."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from amity.errors import ConfigError, brief, near, unknown
from amity.registry.entries import AbsentEntry, Entry
from amity.registry.files import address_of, code_of, importable, module_of
from amity.registry.fingerprint import fingerprint
from amity.registry.memory import Absent, in_memory, memory_name
from amity.registry.options import fields_of
from amity.registry.shape import UNDECORATED, bare_fields, plain_verbs
from amity.registry.yours import ran, withheld

T = TypeVar("T")
Wrap = Callable[[Any], type[T] | None]


class Registry(Generic[T]):
    """All entries of one kind."""

    def __init__(
        self,
        kind: str,
        *verbs: str,
        attributes: tuple[str, ...] = (),
        generators: Mapping[str, str] | None = None,
        home: str = "",
    ) -> None:
        """`verbs` are the methods that a class of this kind must have, `attributes` what else, and
        `generators` those of the verbs that yield, with what each returns at its end. `home` is a
        module, or a package all of whose modules are imported, when an entry is first looked up: a
        new file in a package needs to be named nowhere."""
        self.kind, self.verbs, self.attributes = kind, verbs, attributes
        self.generators = generators or {}
        self._home = home
        self._wrap: Wrap[T] = lambda _thing: None
        self._entries: dict[str, Entry[T]] = {}
        self._held: dict[str, Entry[T]] = {}
        """Objects that were passed and lie in no file, for as long as the process lives."""

    def wrap_objects(self, wrap: Wrap[T]) -> None:
        """From now on other things than classes may stand for an entry, such as functions: `wrap`
        makes a class of one, or None of what it has no use for."""
        self._wrap = wrap

    def register(
        self,
        name: str,
        *,
        defaults: Mapping[str, Any] | None = None,
        presets: Mapping[str, Mapping[str, Any]] | None = None,
        preset: str = "",
    ) -> Callable[[type[T]], type[T]]:
        """Class decorator: `@strategies.register("gossip")`."""

        def add(cls: type[T]) -> type[T]:
            if not dataclasses.is_dataclass(cls):
                raise ConfigError(
                    f"{self.kind} {name!r}: {cls.__name__} must be a frozen dataclass"
                )
            taken = self._entries.get(name)
            if taken is not None and _identity(taken.cls) != _identity(cls):
                raise ConfigError(
                    f"{self.kind} {name!r}: is the name of {':'.join(_identity(taken.cls))}"
                    " already; choose another"
                )
            self._entries[name] = Entry(name, cls, defaults or {}, presets or {}, preset)
            return cls

        return add

    def _all(self) -> dict[str, Entry[T]]:
        """All entries, those of modules included that nobody has imported yet."""
        if self._home:
            home, self._home = importlib.import_module(self._home), ""
            for module in pkgutil.iter_modules(getattr(home, "__path__", ())):
                importlib.import_module(f"{home.__name__}.{module.name}")
        return self._entries

    def __getitem__(self, name: str) -> Entry[T]:
        if name in self._all():
            return self._entries[name]
        if in_memory(name):
            return self._held.get(name) or AbsentEntry(name, Absent, kind=self.kind)
        source = name.rpartition(":")[0]
        if source and _is_code(source, self._entries) and withheld(name):
            return AbsentEntry(name, Absent, code=code_of(name), kind=self.kind)
        if source and (source.endswith(".py") or importable(source)):
            return Entry(name, self._load(name), code=code_of(name))
        if source:
            name = source
        raise ConfigError(unknown(self.kind, name, self._entries))

    def __iter__(self) -> Iterator[Entry[T]]:
        return iter(self._entries[name] for name in sorted(self._all()))

    def __contains__(self, name: str) -> bool:
        return name in self._all()

    # -- classes and objects of one's own ----------------------------------------------------------

    def _load(self, name: str) -> type[T]:
        source, _, attribute = name.rpartition(":")
        try:
            module = module_of(source)
            ran(name)
        except (Exception, SystemExit) as error:  # anybody's code runs here
            raise ConfigError(
                f"{self.kind} {name!r}: cannot import {source!r} ({brief(error)})"
            ) from error
        found = getattr(module, attribute, None)
        wrapped = None if dataclasses.is_dataclass(found) else self._wrap(found)
        if wrapped is not None:
            return wrapped
        if not (isinstance(found, type) and dataclasses.is_dataclass(found)):
            raise ConfigError(f"{self.kind} {name!r}: {_no_dataclass(module, attribute)}")
        cls: type[Any] = found
        for wrong in self._wrong(cls):
            raise ConfigError(f"{self.kind} {name!r}: {wrong}")
        return cls

    def _wrong(self, cls: type) -> list[str]:
        """Why a dataclass cannot be one of this kind, in a few words each; empty: it can."""
        wrong = [f"{cls.__name__} has no {lack}" for lack in self._lacking(cls)]
        return [*wrong, *bare_fields(cls), *plain_verbs(cls, self.generators)]

    def _lacking(self, cls: type) -> list[str]:
        """What a class of this kind must have, and this one has not."""
        known = {*dir(cls), *(f.name for f in dataclasses.fields(cls))}
        verbs = [verb for verb in self.verbs if not callable(getattr(cls, verb, None))]
        return [f"method {verb!r}" for verb in verbs] + [
            f"{key!r}; it may be None" for key in self.attributes if key not in known
        ]

    def table_of(self, thing: Any) -> dict[str, Any] | None:
        """What stands in a config for an object: a class of this kind, an instance of one with its
        options, or what can be wrapped as one. None for anything else."""
        self._all()
        cls: type[Any] = thing if isinstance(thing, type) else type(thing)
        if not dataclasses.is_dataclass(cls) or self._lacking(cls):
            wrapped = self._wrap(thing)
            if wrapped is None:
                return None
            return {"name": address_of(thing) or self._hold(thing, wrapped)}
        for wrong in self._wrong(cls):
            raise ConfigError(f"{self.kind}: {wrong}")
        name = self._name_of(cls)
        custom = {"preset": "custom"} if self[name].presets else {}
        return {"name": name, **custom, **({} if thing is cls else fields_of(thing))}

    def refusal(self, thing: Any) -> str:
        """Why an object cannot stand in a config, in a few words."""
        cls = thing if isinstance(thing, type) else type(thing)
        if dataclasses.is_dataclass(cls):
            return f"{cls.__name__} has no {self._lacking(cls)[0]}"
        if all(callable(getattr(cls, verb, None)) for verb in self.verbs):
            return f"{cls.__name__} {UNDECORATED}"
        if thing is cls or not isinstance(thing, str | int | float | list | None):
            return f"{cls.__name__} must be a frozen dataclass with {', '.join(self.verbs)}"
        return f"expected a name, got {thing!r}"

    def _name_of(self, cls: type[Any]) -> str:
        """The registered name of a class, or where to import it from, or its name in memory."""
        address = address_of(cls)
        names = (e.name for e in self if e.cls is cls and not e.defaults) if address else ()
        return next(iter(names), address) or self._hold(cls, cls)

    def _hold(self, thing: Any, cls: type[T]) -> str:
        """Keep an object that lies in no file, and return its name."""
        digest = fingerprint(thing)
        name = memory_name(digest, cls.__name__)
        self._held[name] = Entry(name, cls, code=digest)
        return name


def _is_code(source: str, entries: Mapping[str, Any]) -> bool:
    """Whether what stands before a colon names a file or a module, and no entry. It is not looked
    for: to look for `a.b` would run `a`."""
    modules = source.split(".")
    return source.endswith(".py") or (
        all(part.isidentifier() for part in modules) and source not in entries
    )


def _no_dataclass(module: ModuleType, attribute: str) -> str:
    """Why a name in a module is no entry."""
    found = getattr(module, attribute, None)
    if isinstance(found, type):
        return f"{attribute} {UNDECORATED}"
    if found is not None:
        return f"{attribute} is no class, but {type(found).__name__}"
    source = Path(module.__file__).name if module.__file__ else module.__name__
    close = near(attribute, [key for key, value in vars(module).items() if isinstance(value, type)])
    return f"{source} has no class {attribute!r}" + (f"; did you mean {close!r}?" if close else "")


def _identity(cls: type) -> tuple[str, str]:
    """Where a class is defined: a module that is loaded again defines the same one."""
    return cls.__module__, cls.__qualname__
