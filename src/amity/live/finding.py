"""What a path holds: runs, comparisons, sweeps, worlds, swarms and peers, begun or not."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

MOST_CELLS = 2000
"""Runs that are followed at once."""
DEPTH = 4
"""How far below a path runs are looked for."""
Kind = Literal["run", "swarm", "peers"]


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A network that can be watched: a run, a swarm, or peers."""

    label: str
    path: Path
    kind: Kind
    group: Path | None = None
    """The comparison, sweep or table that it is part of."""
    states: Mapping[str, Path] = field(default_factory=dict)
    """Of real peers: their state directories by name."""

    @property
    def id(self) -> str:
        """The same whenever and by whomever it is found."""
        return digest(f"{self.kind} {self.path}")

    @property
    def sources(self) -> Mapping[str, Path]:
        """Directories with records, by peer; "" stands for all peers in one."""
        return self.states or {"": self.path}


def digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:10]


def find(paths: Sequence[Path]) -> list[Subject]:
    """All that these paths hold now. Peers' folders that are named apart are one network."""
    found: list[Subject] = []
    apart: dict[str, Path] = {}
    for path in paths:
        if (peer := peer_in(path)) is not None:
            apart |= {_free(peer[0], apart, path): peer[1]}
        else:
            found += _in(path, path.name or str(path))
    if apart:
        label = next(iter(apart)) if len(apart) == 1 else f"{len(apart)} peers"
        where = paths[0] if len(apart) == 1 else Path(*_common(list(apart.values())))
        found.append(Subject(label=label, path=where, kind="peers", states=apart))
    return found


def _free(name: str, taken: Mapping[str, Path], path: Path) -> str:
    """Two peers of the same name are two peers."""
    return name if name not in taken else f"{name} ({path})"


def _common(paths: Sequence[Path]) -> Sequence[str]:
    parts = zip(*(path.absolute().parts for path in paths), strict=False)
    same = [part[0] for part in parts if len(set(part)) == 1]
    return same or ["/"]


def _in(path: Path, label: str, group: Path | None = None) -> Iterator[Subject]:
    if worlds := json_of(path / "worlds.json"):
        for world, folder in worlds.items():
            yield from _in(path / str(folder), str(world))
    elif cells := json_of(path / "comparison.json"):
        for name, folders in cells.items():
            for folder in folders if isinstance(folders, list) else ():
                yield Subject(label=str(name), path=path / str(folder), kind="run", group=path)
    elif (path / "peers").is_dir() and (states := peers_below(path / "peers")):
        yield Subject(label=label_of(path), path=path, kind="swarm", group=group, states=states)
    elif (path / "config.toml").is_file():
        yield Subject(label=label_of(path), path=path, kind="run", group=group)
    elif states := peers_below(path):
        yield Subject(label=label, path=path, kind="peers", states=states)
    else:
        yield from _below(path, path, DEPTH)


def _below(path: Path, group: Path, depth: int) -> Iterator[Subject]:
    """Whatever lies in folders that are no run themselves: `runs/`, or the cells of a table."""
    for child in _folders(path):
        known = ("config.toml", "comparison.json", "worlds.json", "peers", "peer.toml")
        if any((child / name).exists() for name in known):
            yield from _in(child, child.name, group)
        elif depth > 1:
            yield from _below(child, group, depth - 1)


def _folders(path: Path) -> list[Path]:
    try:
        return sorted(child for child in path.iterdir() if child.is_dir())[:MOST_CELLS]
    except OSError:
        return []


def peers_below(path: Path) -> dict[str, Path]:
    """State directories of the peers' folders in a folder, by name."""
    found = (peer for child in _folders(path) if (peer := peer_in(child)) is not None)
    return dict(sorted(found))


def peer_in(path: Path) -> tuple[str, Path] | None:
    """The peer of a folder: its name and state directory."""
    if (path / "peer.toml").is_file():
        who = toml(path / "peer.toml").get("peer", {})
        who = who if isinstance(who, dict) else {}
        return str(who.get("name", path.name)), path / str(who.get("state", "state"))
    if (path / "audit.jsonl").is_file():
        return path.parent.name if path.name == "state" else path.name, path
    return None


def identity_in(path: Path) -> Path | None:
    """The folder with the key and certificate of a peer's folder; None: it has none."""
    who = toml(path / "peer.toml").get("peer", {})
    folder = path / str(who.get("identity", "identity") if isinstance(who, dict) else "identity")
    return folder if (folder / "cert.pem").is_file() and (folder / "key.pem").is_file() else None


def label_of(path: Path) -> str:
    """A run by its strategy and stages, as config.toml names them."""
    config = toml(path / "config.toml")
    named = [config.get("strategy", {}), *config.get("stages", [])]
    names = [str(part.get("name", "?")) if isinstance(part, dict) else str(part) for part in named]
    return "/".join(names) if config else path.name


def toml(path: Path) -> Mapping[str, Any]:
    """A file's keys; none where it cannot be read. What was read is kept until the file changes."""
    try:
        stat = path.stat()
    except OSError:
        return {}
    return _toml(path, (stat.st_ino, stat.st_mtime_ns, stat.st_size))


@lru_cache(maxsize=2 * MOST_CELLS)
def _toml(path: Path, _stamp: tuple[int, int, int]) -> Mapping[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def json_of(path: Path) -> dict[str, Any]:
    """A file as a table; empty where it is none."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
