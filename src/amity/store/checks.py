"""Checks whether a directory may be used, and whether it holds what we expect."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amity.config import Config
from amity.errors import RunDirError
from amity.store.owner import refuse_others
from amity.store.reading import CODE


def refuse_foreign(path: Path, *known: str, found: str = "something else") -> None:
    """Make a directory. Refuse one that holds anything other than these; `found` says what it holds
    then."""
    refuse_unusable(path)
    refuse_others(path, "simulation")
    try:
        if (
            path.exists()
            and any(path.iterdir())
            and not any((path / name).exists() for name in known)
        ):
            raise RunDirError(f"{path}: is not empty and holds {found}; choose another out=")
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunDirError(
            f"{path}: cannot be used ({error.strerror}); choose another out="
        ) from None


def same_code(path: Path, config: Config) -> None:
    """A run is continued with the code that it began with: refuse your own class if it has changed
    since."""
    try:
        began = json.loads((path / CODE).read_bytes())
    except (OSError, ValueError):
        return
    for name, digest in config.own_code.items():
        if isinstance(began, dict) and began.get(name, digest) != digest:
            raise RunDirError(
                f"{path}: {name} has changed since this run began; put it back, choose another"
                f" out=, or delete {path / CODE} to go on with the new code"
            )


def refuse_unusable(path: Path) -> None:
    """A directory must exist or be possible to make, judged by names and types."""
    try:
        nearest = next(p for p in (path, *path.absolute().parents) if p.exists())
        possible = nearest.is_dir()
    except (OSError, ValueError):
        possible = False
    if not possible:
        raise RunDirError(f"{path}: is not a directory that could be used; choose another out=")


def differences(a: Config, b: Config) -> list[str]:
    """Keys in which two configs differ."""

    def flat(plain: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, value in plain.items():
            out |= (
                flat(value, f"{prefix}{key}.")
                if isinstance(value, Mapping)
                else {prefix + key: value}
            )
        return out

    left, right = flat(a.to_dict()), flat(b.to_dict())
    return sorted(key for key in left.keys() | right.keys() if left.get(key) != right.get(key))
