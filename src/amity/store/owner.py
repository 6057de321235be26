"""Whose records a directory holds. Those of a real network (a swarm, a peer) cannot be made again,
so nothing but that network ever writes there.

A swarm and a peer leave a marker, `owner.json`. Directories of Amity 0.1.0 have none; they are
known by what lies in them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from amity._version import __version__
from amity.errors import RunDirError
from amity.files import dump, write_atomically

Owner = Literal["simulation", "swarm", "peer"]
OWNER = "owner.json"
FORMAT = 2
"""Of the directories that real peers write. 1 is that of Amity 0.1.0, which this version goes on
with."""


def owner_of(path: Path) -> Owner | None:
    """Who writes a directory; None: nobody yet, or nobody of Amity."""
    marked: Owner | None = _marker(path).get("owner")
    if marked is not None:
        return marked
    if any((path / name).is_file() for name in ("peer.toml", "audit.jsonl", "disclosed.jsonl")):
        return "peer"
    if any((path / "peers").glob("*/peer.toml")) or _of_real_peers(path / "rounds.jsonl"):
        return "swarm"
    return "simulation" if (path / "config.toml").is_file() else None


def refuse_others(path: Path, mine: Owner) -> None:
    """Refuse a directory that somebody else writes, or a later version."""
    found = owner_of(path)
    if found is not None and found != mine:
        raise RunDirError(f"{path}: {_whose(path, found)}")
    marker = _marker(path)
    if int(marker.get("format", FORMAT)) > FORMAT:
        raise RunDirError(
            f"{path}: was written by Amity {marker.get('amity', '?')}, format {marker['format']};"
            f" this is Amity {__version__}, format {FORMAT}: upgrade it to go on here"
        )


def mark(path: Path, owner: Owner) -> None:
    """Say whose directory it is. A simulation's has no marker: what it holds can be made again."""
    if owner != "simulation" and _marker(path).get("format") != FORMAT:
        found = {"owner": owner, "format": FORMAT, "amity": __version__}
        write_atomically(path / OWNER, dump(found))


def how_to_go_on(path: Path) -> str:
    """The command that continues what a directory holds."""
    found = owner_of(path)
    if found == "swarm":
        return f"`amity swarm` with the same keys and out={path}"
    if found == "peer":
        state = not (path / "peer.toml").is_file() and (path.parent / "peer.toml").is_file()
        return f"`amity peer run {path.parent if state else path}`"
    return f"`amity resume {path}`"


def elsewhere(path: Path) -> str:
    """What to do where a directory cannot be used for something else."""
    if owner_of(path) == "peer":
        return "choose another `state` under [peer] of peer.toml"
    return "choose another out="


def _whose(path: Path, found: Owner) -> str:
    if found == "simulation":
        return "holds a simulated run; choose another out="
    what = "a swarm" if found == "swarm" else "a real peer"
    return (
        f"holds the records of {what}, which cannot be made again and are never overwritten;"
        f" {how_to_go_on(path)} goes on with it, `amity report {path}` shows it"
    )


def _marker(path: Path) -> dict[str, Any]:
    try:
        found = json.loads((path / OWNER).read_bytes())
    except (OSError, ValueError):
        return {}
    known = isinstance(found, dict) and found.get("owner") in ("swarm", "peer")
    return found if known and isinstance(found.get("format"), int) else {}


def _of_real_peers(rounds: Path) -> bool:
    """Whether real peers reported these rounds, also where nothing else of them is here."""
    try:
        with open(rounds, "rb") as stream:
            first = json.loads(stream.readline())
    except (OSError, ValueError):
        return False
    return isinstance(first, dict) and "reported" in first
