"""Named things with typed options: strategies, methods, datasets, partitions, topologies, models.

An entry is a frozen dataclass; its fields are its options. `build` checks names, types and ranges
and answers a mistake with one line. A name of the form `package.module:Class` or
`path/to/file.py:Class` is loaded from there, so one's own class takes part without touching the
package.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import importlib.util
import inspect
import math
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from amity.errors import ConfigError, brief, unknown

T = TypeVar("T")
USER_MODULE = "amity_user_"
"""What the names of modules begin with that were loaded from a user's file."""


@dataclass(frozen=True)
class Entry(Generic[T]):
    """A class under a name, with the defaults that this name stands for and its presets."""

    name: str
    cls: type[T]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    preset: str = ""

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
        values = {name: _default(f) for name, f in known.items()}
        values |= self.defaults
        values |= self.presets.get(chosen, {})
        values |= given
        return values

    def build(self, options: Mapping[str, Any]) -> T:
        values = {k: v for k, v in self.resolve(options).items() if v is not dataclasses.MISSING}
        return checked(self.name, self.cls, values)


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


def _plain_default(cls: type, name: str) -> Any:
    return next((_default(f) for f in dataclasses.fields(cls) if f.name == name), None)


def _default(f: dataclasses.Field[Any]) -> Any:
    if f.default_factory is not dataclasses.MISSING:
        return f.default_factory()
    return f.default


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


class Registry(Generic[T]):
    """All entries of one kind."""

    def __init__(
        self, kind: str, *verbs: str, attributes: tuple[str, ...] = (), home: str = ""
    ) -> None:
        """`verbs` are the methods that a class of this kind must have, `attributes` what else.
        `home` is a package all of whose modules are imported when an entry is first looked up: a
        new file in it needs to be named nowhere."""
        self.kind, self.verbs, self.attributes = kind, verbs, attributes
        self._home = home
        self._wrap: Callable[[Callable[..., Any]], type[T]] | None = None
        self._entries: dict[str, Entry[T]] = {}

    def wrap_functions(self, wrap: Callable[[Callable[..., Any]], type[T]]) -> None:
        """From now on a plain function may be named where a class is expected."""
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
                    f"{self.kind} {name!r}: is the name of {':'.join(_identity(taken.cls))} already; "
                    "choose another"
                )
            self._entries[name] = Entry(name, cls, defaults or {}, presets or {}, preset)
            return cls

        return add

    def _all(self) -> dict[str, Entry[T]]:
        """All entries, those of modules included that nobody has imported yet."""
        if self._home:
            home, self._home = importlib.import_module(self._home), ""
            for module in pkgutil.iter_modules(home.__path__):
                importlib.import_module(f"{home.__name__}.{module.name}")
        return self._entries

    def __getitem__(self, name: str) -> Entry[T]:
        if name in self._all():
            return self._entries[name]
        source = name.rpartition(":")[0]
        if source and (source.endswith(".py") or _importable(source)):
            return Entry(name, self._load(name))
        if source:
            name = source
        raise ConfigError(unknown(self.kind, name, self._entries))

    def __iter__(self) -> Iterator[Entry[T]]:
        return iter(self._entries[name] for name in sorted(self._all()))

    def __contains__(self, name: str) -> bool:
        return name in self._all()

    def _load(self, name: str) -> type[T]:
        source, _, attribute = name.rpartition(":")
        try:
            module = _module(source)
        except (Exception, SystemExit) as error:  # anybody's code runs here
            raise ConfigError(
                f"{self.kind} {name!r}: cannot import {source!r} ({brief(error)})"
            ) from error
        found = getattr(module, attribute, None)
        if self._wrap is not None and callable(found) and not dataclasses.is_dataclass(found):
            return self._wrap(found)
        if not (isinstance(found, type) and dataclasses.is_dataclass(found)):
            raise ConfigError(f"{self.kind} {name!r}: {source} has no dataclass {attribute!r}")
        for verb in self.verbs:
            if not callable(getattr(found, verb, None)):
                raise ConfigError(f"{self.kind} {name!r}: {attribute} has no method {verb!r}")
        for key in self.attributes:
            if key not in {*dir(found), *(f.name for f in dataclasses.fields(found))}:
                raise ConfigError(
                    f"{self.kind} {name!r}: {attribute} has no {key!r}; it may be None"
                )
        cls: type[Any] = found
        return cls


def _identity(cls: type) -> tuple[str, str]:
    """Where a class is defined: a module that is loaded again defines the same one."""
    return cls.__module__, cls.__qualname__


def code_of(name: str) -> str:
    """The SHA-256 of the file that a class of one's own was loaded from; empty for what is
    registered or has no file (a notebook). An installed module is imported once: its file is read
    when it is first asked for."""
    source = name.rpartition(":")[0]
    file = source if source.endswith(".py") else getattr(sys.modules.get(source), "__file__", None)
    if not source or not file or not Path(file).is_file():
        return ""
    digest = hashlib.sha256(Path(file).read_bytes()).hexdigest()
    return digest if source.endswith(".py") else _IMPORTED.setdefault(source, digest)


_IMPORTED: dict[str, str] = {}


def _importable(source: str) -> bool:
    try:
        return source in sys.modules or importlib.util.find_spec(source) is not None
    except (ImportError, ValueError):
        return False


def _module(source: str) -> ModuleType:
    if not source.endswith(".py"):
        return importlib.import_module(source)
    path = Path(source).resolve()
    main = sys.modules.get("__main__")
    if (
        main is not None
        and getattr(main, "__file__", None)
        and Path(str(main.__file__)).resolve() == path
    ):
        return main
    digest = hashlib.sha256(str(path).encode() + b"\0" + path.read_bytes())
    name = USER_MODULE + digest.hexdigest()[:16]  # a file that has changed is another module
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{source} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]
