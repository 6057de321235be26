"""Reading a run directory back: lines, records, config, checkpoints that are whole."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import safetensors

from amity.config import Config, load
from amity.data.schema import Schema
from amity.errors import ConfigError, DataError, RunDirError
from amity.learn.tensors import Archive, digest_of
from amity.records import Record
from amity.registry import admit, reading
from amity.store.owner import OWNER, how_to_go_on, refuse_others

CODE = "code.json"
"""Files of your own classes, with their digests."""
SCHEMA = "schema.json"
"""What the inputs and classes of one's own data mean."""
BEFORE = (".lock", "checkpoint", CODE, OWNER)
"""What may be there before config.toml is."""
EXTENDED = "extended.jsonl"
"""Where a run was extended (`extending.py`)."""
WHY = "why.jsonl"
"""What peers learnt about others while they decided: written beside the others, and not checked."""
LINES = ("metrics.jsonl", "edges.jsonl", "rounds.jsonl")


@dataclass(frozen=True)
class Commit:
    """A commit record that was found whole."""

    round: int
    tensors: Archive | None
    memory: dict[str, Any]
    lines: dict[str, int]
    """Bytes of each line file that belong to the rounds before `round`."""


def config_digest(path: Path) -> str:
    """A digest of the config as it is written, so that a later version with more options can still
    continue an old run."""
    return hashlib.sha256((path / "config.toml").read_bytes()).hexdigest()


def schema_of(path: Path) -> Schema | None:
    """What the inputs of a run with own data mean, with the statistics of its newest start; None:
    nothing is known of it."""
    try:
        return Schema.from_dict(json.loads((path / SCHEMA).read_bytes()), str(path / SCHEMA))
    except (OSError, ValueError, DataError):
        return None


def commits(path: Path) -> Iterator[Commit]:
    """Complete checkpoints, newest first; refused if they were made with another config."""
    for record_path in sorted((path / "checkpoint").glob("round-*.json"), reverse=True):
        commit = _read_commit(path, record_path)
        if commit is not None:
            yield commit


def _read_commit(path: Path, record_path: Path) -> Commit | None:
    try:
        record = json.loads(record_path.read_bytes())
        archive = Archive(record_path.with_suffix(".safetensors"))
        lines = {name: record["lines"][name] for name in LINES}
        if record["tensors"] != digest_of(archive.path):
            return None
        if record["config"] != config_digest(path):
            raise RunDirError(
                f"{path}: config.toml is not the one that this run was made with; put it back, or"
                " use another out="
            )
        for name, want in lines.items():
            written = (path / name).read_bytes()[: want["bytes"]]
            if (
                len(written) != want["bytes"]
                or hashlib.sha256(written).hexdigest() != want["sha256"]
            ):
                return None
        if not isinstance(record["memory"], dict):
            return None
        sizes = {name: int(want["bytes"]) for name, want in lines.items()}
        return Commit(int(record["round"]), archive, record["memory"], sizes)
    except (OSError, ValueError, KeyError, TypeError, safetensors.SafetensorError):
        return None


def read_config(path: Path) -> Config:
    """The config of a run directory. The code that it names is not run, unless it was already: who
    wants to run it says so first (`admit_code`)."""
    refuse_no_run(path)
    return load_config(path)


def refuse_no_run(path: Path) -> None:
    """A directory must hold a run."""
    if (path / "comparison.json").is_file():
        raise RunDirError(
            f"{path}: holds a comparison, not a run; repeat its command with out={path} to go on"
        )
    if not (path / "config.toml").is_file():
        refuse_others(path, "simulation")
        raise RunDirError(f"{path}: holds no run (no config.toml)")


def load_config(path: Path) -> Config:
    """As it was written when the run began, with what has extended it since."""
    return _read(path)[0]


def admit_code(path: Path, trust: bool) -> None:
    """Let the code run that a run directory names, if it is yours already, or if you trust it."""
    admit(path, _read(path)[1], trust)


def _read(path: Path) -> tuple[Config, list[str]]:
    """The config, and the code that it names."""
    with reading() as named:
        config, lines = load(path / "config.toml"), read_lines(path / EXTENDED)
        if lines:
            more = {key: value for key, value in lines[-1].items() if key != "at"}
            try:
                config = config.replace(**more)
            except ConfigError as error:
                raise RunDirError(f"{path / EXTENDED}: {error}") from None
        _ = config.own_code  # proxies too are looked up for it
        return config, named


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All whole lines of a file; a torn last one is left out."""
    if not path.is_file():
        return []
    try:
        return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    except ValueError:
        raise RunDirError(f"{path}: is damaged; {how_to_go_on(path.parent)} repairs it") from None


R = TypeVar("R", bound=Record)


def read_records(path: Path, kind: type[R]) -> list[R]:
    """The lines of a file as records; a torn last one is left out."""
    try:
        return [kind.of(line) for line in read_lines(path)]
    except (TypeError, AttributeError):
        raise RunDirError(f"{path}: holds lines that are not of an Amity run") from None
