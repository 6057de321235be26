"""A run is a directory.

    config.toml                     the resolved config
    metrics.jsonl                   one line a round and peer
    edges.jsonl                     one line a round and peer: who took how much from whom
    rounds.jsonl                    one line a round: the whole network
    timings.jsonl                   wall-clock times (the only file that differs between two runs of a config)
    checkpoint/round-000010.*       .safetensors: models; .json: the commit record, written last

A checkpoint counts only if its commit record is whole and agrees, by SHA-256, with the tensors and
with the lines written so far. `recover` takes the newest such record and cuts the line files back
to it: torn lines, half-written checkpoints and anything after a kill are repaired, never trusted.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol, TypeVar

import safetensors
import torch

from amity._version import __version__
from amity.config import Config, load
from amity.core import PeerId
from amity.errors import RunDirError, StorageError, StrategyError, brief
from amity.files import dump as dump
from amity.files import write_atomically
from amity.learn.tensors import Archive, digest_of, encode
from amity.records import EdgeRecord, Record, Report, TimingRecord

CODE = "code.json"
"""Files of one's own classes, with their digests."""
BEFORE = (".lock", "checkpoint", CODE)
"""What may be there before config.toml is."""
LINES = ("metrics.jsonl", "edges.jsonl", "rounds.jsonl")
KEEP = 2
"""Checkpoints kept: the newest and one to fall back on."""


class Checkpointed(Protocol):
    """What a directory keeps of a run: all peers of a simulation, or one peer of a network."""

    @property
    def names(self) -> tuple[PeerId, ...]: ...

    @property
    def next_round(self) -> int: ...

    @property
    def memories(self) -> dict[PeerId, Any]: ...

    def snapshots(self) -> Iterator[tuple[PeerId, dict[str, torch.Tensor]]]: ...

    def restore(
        self,
        round: int,
        tensors: Callable[[PeerId], dict[str, torch.Tensor]],
        memories: Mapping[str, Any],
    ) -> None: ...


@dataclass(frozen=True)
class Commit:
    """A commit record that was found whole."""

    round: int
    tensors: Archive | None
    memory: dict[str, Any]
    lines: dict[str, int]
    """Bytes of each line file that belong to the rounds before `round`."""


class RunDir:
    """A run directory that is being written, under an exclusive lock."""

    def __init__(self, path: Path, config: Config) -> None:
        self.path, self.config = path, config
        self._streams: dict[str, IO[bytes]] = {}
        self._hashes = {name: hashlib.sha256() for name in LINES}
        self._lock: IO[bytes] | None = None

    @staticmethod
    def check(path: Path, config: Config) -> Config:
        """Refuse a directory that cannot be used or belongs to something else. If it holds a run of
        this config, what the config leaves open is as it was settled there."""
        refuse_unusable(path)
        existing = path / "config.toml"
        if existing.exists():
            other = load(existing)
            config = config.completed(other)
            other = other.completed(config)
            if other.digest != config.digest:
                keys = ", ".join(differences(other, config)[:4])
                raise RunDirError(
                    f"{path}: holds a run of another config (differs in {keys}); choose another"
                    " out="
                )
            same_code(path, config)
        elif path.exists() and any(
            p.name not in BEFORE and p.suffix != ".tmp" for p in path.iterdir()
        ):
            raise RunDirError(f"{path}: is not empty and holds no run; choose another out=")
        return config

    @classmethod
    def create(cls, path: Path, config: Config) -> RunDir:
        """A new directory, or an old one of the same config."""
        cls.check(path, config)
        text = config.to_toml()
        try:
            (path / "checkpoint").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunDirError(
                f"{path}: cannot be created ({error.strerror}); choose another out="
            ) from None
        if not (path / "config.toml").exists():
            if config.own_code:
                write_atomically(path / CODE, dump(config.own_code))
            write_atomically(path / "config.toml", text.encode())
        return cls(path, config)

    @classmethod
    def open(cls, path: Path) -> RunDir:
        config = read_config(path)
        same_code(path, config)
        return cls(path, config)

    def __enter__(self) -> RunDir:
        try:
            (self.path / "checkpoint").mkdir(exist_ok=True)
            self._lock = open(self.path / ".lock", "wb")  # held until the run ends
        except OSError as error:
            raise StorageError(f"{self.path}: cannot be written ({error.strerror})") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise RunDirError(
                f"{self.path}: another process is running it; when that has ended, the same command"
                " takes its result"
            ) from None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        for stream in self._streams.values():
            try:
                stream.close()
            except OSError:
                # a full disk: the lines after the last checkpoint are cut off by the next
                # `recover`
                continue
        if self._lock:
            self._lock.close()

    # -- reading back ------------------------------------------------------------------------------

    def recover(self, simulation: Checkpointed) -> int:
        """Bring files and simulation to the newest good checkpoint, and return the round to go on
        with."""
        commit = next(commits(self.path), Commit(0, None, {}, dict.fromkeys(LINES, 0)))
        if commit.tensors is not None:
            simulation.restore(commit.round, commit.tensors.of, commit.memory)
        for name in LINES:
            path, size = self.path / name, commit.lines[name]
            try:
                stream = open(path, "ab")  # noqa: SIM115  held until the run ends
                stream.truncate(size)
            except OSError as error:
                raise StorageError(f"{path}: cannot be written ({error.strerror})") from None
            if name in self._streams:
                self._streams[name].close()
            self._streams[name] = stream
            self._hashes[name] = hashlib.sha256(path.read_bytes()[:size])
        if "timings.jsonl" in self._streams:
            self._streams["timings.jsonl"].close()
        self._streams["timings.jsonl"] = open(self.path / "timings.jsonl", "ab")  # noqa: SIM115
        return commit.round

    # -- writing -----------------------------------------------------------------------------------

    def append(self, report: Report) -> None:
        """The lines of one round."""
        edges = (
            EdgeRecord(round=report.round, peer=name, row=dict(row))
            for name, row in report.rows.items()
        )
        self._write("metrics.jsonl", report.peers.values())
        self._write("edges.jsonl", edges)
        self._write("rounds.jsonl", [report.network])
        phases = {phase: round(seconds, 4) for phase, seconds in report.seconds.items()}
        total = round(sum(report.seconds.values()), 4)
        at = round(time.time(), 2)
        timing = TimingRecord(round=report.round, seconds=total, at=at, notes=phases)
        self._write("timings.jsonl", [timing])

    def _write(self, name: str, records: Iterable[Record]) -> None:
        data = b"".join(dump(record.line()) for record in records)
        try:
            self._streams[name].write(data)
            self._streams[name].flush()
        except OSError as error:
            raise self._lost(f"{self.path / name}: cannot be written ({error.strerror})") from None
        if name in self._hashes:
            self._hashes[name].update(data)

    def _lost(self, what: str) -> StorageError:
        return StorageError(
            f"{what}; everything up to the last checkpoint is kept: make room, then `amity resume"
            f" {self.path}`"
        )

    def checkpoint(self, simulation: Checkpointed) -> None:
        """Commit all rounds so far."""
        name = f"round-{simulation.next_round:06d}"
        digest = hashlib.sha256()
        try:
            models = encode(simulation.names, simulation.snapshots(), digest.update)
            write_atomically(self.path / "checkpoint" / f"{name}.safetensors", models)
            for line_file in LINES:
                os.fsync(self._streams[line_file].fileno())
            record = {
                "round": simulation.next_round,
                "config": config_digest(self.path),
                "amity": __version__,
                "tensors": digest.hexdigest(),
                "lines": {
                    n: {"bytes": self._streams[n].tell(), "sha256": h.hexdigest()}
                    for n, h in self._hashes.items()
                },
                "memory": simulation.memories,
            }
            write_atomically(self.path / "checkpoint" / f"{name}.json", json.dumps(record).encode())
        except (TypeError, ValueError) as error:
            raise StrategyError(
                f"{self.path}: a strategy's memory must be plain JSON data ({brief(error)})"
            ) from None
        except OSError as error:
            raise self._lost(
                f"{self.path / 'checkpoint'}: cannot be written ({error.strerror})"
            ) from None
        except StorageError as error:
            raise self._lost(str(error)) from None
        for old in sorted((self.path / "checkpoint").glob("round-*.json"))[:-KEEP]:
            old.unlink()
            old.with_suffix(".safetensors").unlink(missing_ok=True)


def config_digest(path: Path) -> str:
    """Of the config as it is written, so that a later version with more options still takes up an
    old run."""
    return hashlib.sha256((path / "config.toml").read_bytes()).hexdigest()


def commits(path: Path) -> Iterator[Commit]:
    """Checkpoints that are whole, newest first; refused if they were made with another config."""
    for record_path in sorted((path / "checkpoint").glob("round-*.json"), reverse=True):
        commit = _read_commit(path, record_path)
        if commit is not None:
            yield commit


def finished(path: Path, config: Config) -> bool:
    """Whether a directory holds the whole of this run, so that nothing is left to do in it."""
    if not (path / "config.toml").is_file():
        return False
    RunDir.check(path, config)
    last = next(commits(path), None)
    if last is None or last.round != config.rounds:
        return False
    return all(
        (path / name).is_file() and (path / name).stat().st_size == size
        for name, size in last.lines.items()
    )


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


def refuse_foreign(path: Path, *known: str) -> None:
    """Make a directory, unless there is one with other things in it than these."""
    refuse_unusable(path)
    try:
        if (
            path.exists()
            and any(path.iterdir())
            and not any((path / name).exists() for name in known)
        ):
            raise RunDirError(f"{path}: is not empty and holds something else; choose another out=")
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunDirError(
            f"{path}: cannot be used ({error.strerror}); choose another out="
        ) from None


def same_code(path: Path, config: Config) -> None:
    """A run goes on with the code that it began with: refuse a class of one's own that has changed
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
    """A directory must be there or be possible, as far as names and types tell."""
    try:
        nearest = next(p for p in (path, *path.absolute().parents) if p.exists())
        possible = nearest.is_dir()
    except (OSError, ValueError):
        possible = False
    if not possible:
        raise RunDirError(f"{path}: is not a directory that could be used; choose another out=")


def read_config(path: Path) -> Config:
    """The config of a run directory."""
    if (path / "comparison.json").is_file():
        raise RunDirError(
            f"{path}: holds a comparison, not a run; repeat its command with out={path} to go on"
        )
    if not (path / "config.toml").is_file():
        raise RunDirError(f"{path}: holds no run (no config.toml)")
    return load(path / "config.toml")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All whole lines of a file; a torn last one is left out."""
    if not path.is_file():
        return []
    try:
        return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    except ValueError:
        raise RunDirError(f"{path}: is damaged; `amity resume {path.parent}` repairs it") from None


R = TypeVar("R", bound=Record)


def read_records(path: Path, kind: type[R]) -> list[R]:
    """The lines of a file as records; a torn last one is left out."""
    try:
        return [kind.of(line) for line in read_lines(path)]
    except (TypeError, AttributeError):
        raise RunDirError(f"{path}: holds lines that are not of an Amity run") from None


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
