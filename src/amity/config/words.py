"""The words of the command line: `key=value`, lists, numbers, and specs such as `afind+:paper`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from amity.errors import ConfigError
from amity.registry import Registry, importable


def parse(words: Iterable[str]) -> dict[str, Any]:
    """`["peers=5", "strategy.tau=0.8"]` to {"peers": 5, "strategy.tau": 0.8}."""
    values: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise ConfigError(f"expected key=value, got {word!r}")
        if key.strip() in values:
            raise ConfigError(f"{key.strip()}: is given twice")
        values[key.strip()] = scalar(value.strip())
    return values


def only(words: Iterable[str], *keys: str) -> dict[str, str]:
    """The values of a command that takes only these keys, as they were typed."""
    words = list(words)
    for key in parse(words):
        if key not in keys:
            raise ConfigError(f"unknown key {key!r}; this command takes {', '.join(keys)}")
    return {key.strip(): value.strip() for key, _, value in (word.partition("=") for word in words)}


def split_words(
    words: Iterable[str], *own: str
) -> tuple[Path | None, dict[str, Any], dict[str, Any]]:
    """Splits into file, overrides, and the command's own keys: `[FILE.toml] key=value ...`."""
    words = list(words)
    file = Path(words.pop(0)) if words and "=" not in words[0] else None
    values = parse(words)
    raw = {key.strip(): value for key, _, value in (word.partition("=") for word in words)}
    mine: dict[str, Any] = {key: raw[key] for key in own if values.pop(key, None) is not None}
    return file, values, mine


def out_path(mine: Mapping[str, Any]) -> Path:
    """The directory that `out=` names."""
    if not str(mine["out"]).strip():
        raise ConfigError("out: expected a path, got nothing")
    return Path(str(mine["out"]))


def split_list(value: Any) -> list[str]:
    """`a,b` as a list."""
    return [part.strip() for part in str(value).split(",") if part.strip()]


def seeds_of(value: Any) -> list[int]:
    """`0,1,2` as numbers."""
    try:
        return [int(part) for part in split_list(value)]
    except ValueError:
        raise ConfigError(f"seeds: expected numbers separated by commas, got {value!r}") from None


def count(mine: Mapping[str, Any], key: str) -> int:
    """A command's own key that is a number; 0 if it was not given."""
    value = str(mine.get(key, 0))
    if not (value.isdecimal() and len(value) < 10):
        raise ConfigError(f"{key}: expected a whole number >= 0, got {value[:40]!r}")
    return int(value)


def scalar(text: str) -> Any:
    """A number or a truth value if the text is one in TOML, otherwise the text itself."""
    try:
        value = tomllib.loads(f"v = {text}")["v"]
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, (bool, int, float, str)) else text


def _whole(parts: Iterable[str]) -> list[str]:
    """Parts of a spec, with `option=file.py` and the class after it as one."""
    whole: list[str] = []
    for part in parts:
        if whole and whole[-1].endswith(".py") and "=" not in part:
            whole[-1] += f":{part}"
        else:
            whole.append(part)
    return whole


def read_spec(spec: str, registry: Registry[Any], what: str) -> dict[str, Any]:
    """`afind+:paper:tau=0.8` as a table with a name. After the name (or `module:Class`,
    `file.py:Class`) a part with = is an option, and a part without = is the preset."""
    parts = spec.split(":")
    name = parts.pop(0)
    if parts and "=" not in parts[0] and not _is_preset(name, parts[0], registry):
        name = f"{name}:{parts.pop(0)}"
    options: dict[str, Any] = {"name": name}
    for part in _whole(parts):
        key, equals, value = part.partition("=")
        if not part or not key:
            raise ConfigError(
                f"{what}: cannot read {spec!r}; expected name, name:preset or name:option=value"
            )
        key = key if equals else "preset"
        if key in options:
            raise ConfigError(f"{what}: {spec!r} gives {key} twice")
        options[key] = scalar(value) if equals else part
    return options


def _is_preset(name: str, part: str, registry: Registry[Any]) -> bool:
    """Whether the part after a name is a preset: not where the name is that of a module, which may
    have the name of an entry."""
    if name not in registry:
        return False
    return bool(registry[name].presets) or not importable(name)
