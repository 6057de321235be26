"""A run directory that is being written."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol

import torch

from amity._version import __version__
from amity.config import Config
from amity.core import PeerId
from amity.data.schema import Schema
from amity.errors import RunDirError, StorageError, StrategyError, brief
from amity.files import dump, write_atomically
from amity.learn.tensors import encode
from amity.lines import held, size_before
from amity.records import EdgeRecord, Record, Report, RoundRecord, TimingRecord, WhyRecord
from amity.store.best import BestModels
from amity.store.checks import differences, refuse_unusable, same_code
from amity.store.extending import extend as extend_to
from amity.store.extending import extension
from amity.store.owner import Owner, elsewhere, how_to_go_on, mark, refuse_others
from amity.store.reading import (
    BEFORE,
    CODE,
    LINES,
    SCHEMA,
    WHY,
    Commit,
    admit_code,
    commits,
    config_digest,
    load_config,
    read_config,
    read_records,
    refuse_no_run,
    schema_of,
)

KEEP = 2
"""Checkpoints kept: the newest and one to fall back on."""
TRIES, PAUSE = 5, 0.02
"""How often the lock of a directory is asked for, and the seconds between."""


class Checkpointed(Protocol):
    """What a directory stores about a run: all peers of a simulation, or one peer of a network."""

    @property
    def names(self) -> tuple[PeerId, ...]: ...

    @property
    def next_round(self) -> int: ...

    @property
    def memories(self) -> dict[PeerId, Any]: ...

    def snapshots(
        self, names: Collection[PeerId] | None = None
    ) -> Iterator[tuple[PeerId, dict[str, torch.Tensor]]]: ...

    def restore(
        self,
        round: int,
        tensors: Callable[[PeerId], dict[str, torch.Tensor]],
        memories: Mapping[str, Any],
    ) -> None: ...


class RunDir:
    """A run directory that is being written, under an exclusive lock."""

    def __init__(self, path: Path, config: Config) -> None:
        self.path, self.config = path, config
        self._streams: dict[str, IO[bytes]] = {}
        self._hashes = {name: hashlib.sha256() for name in LINES}
        self._lock: IO[bytes] | None = None
        self._best = BestModels(path, config.metric)

    @staticmethod
    def check(
        path: Path, config: Config, owner: Owner = "simulation", extend: bool = False
    ) -> Config:
        """Refuse a directory that cannot be used or belongs to something else. If it holds a run of
        this config, what the config leaves open is taken from there. With `extend`, it may also
        hold a shorter run of it."""
        refuse_unusable(path)
        refuse_others(path, owner)
        if owner == "peer" and _untouched(path):
            return config
        if (path / "config.toml").exists():
            longer = extension(path, config) if extend else None
            config = longer or _same(path, config)
            same_code(path, config)
        elif path.exists() and any(
            p.name not in BEFORE and p.suffix != ".tmp" for p in path.iterdir()
        ):
            raise RunDirError(f"{path}: is not empty and holds no run; choose another out=")
        return config

    @classmethod
    def create(
        cls, path: Path, config: Config, owner: Owner = "simulation", extend: bool = False
    ) -> RunDir:
        """A new directory, or an old one of the same config; with `extend`, also of a shorter
        one."""
        cls.check(path, config, owner, extend)
        text = config.to_toml()
        try:
            (path / "checkpoint").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunDirError(
                f"{path}: cannot be created ({error.strerror}); choose another out="
            ) from None
        mark(path, owner)
        if not (path / "config.toml").exists() or (owner == "peer" and _untouched(path)):
            if config.own_code:
                write_atomically(path / CODE, dump(config.own_code))
            write_atomically(path / "config.toml", text.encode())
        elif extend and (longer := extension(path, config)) is not None:
            extend_to(path, longer)
        return cls(path, config)

    @classmethod
    def open(cls, path: Path, trust: bool = False) -> RunDir:
        """A simulated run that is there already. Its code is yours, or you trust it."""
        refuse_others(path, "simulation")
        refuse_no_run(path)
        admit_code(path, trust)
        config = read_config(path)
        same_code(path, config)
        return cls(path, config)

    def __enter__(self) -> RunDir:
        try:
            (self.path / "checkpoint").mkdir(exist_ok=True)
            self._lock = open(self.path / ".lock", "wb")  # held until the run ends
        except OSError as error:
            raise StorageError(f"{self.path}: cannot be written ({error.strerror})") from None
        if not self._locks(self._lock):
            self._lock.close()
            raise RunDirError(
                f"{self.path}: another process is running it; when that has ended, the same command"
                " takes its result"
            )
        return self

    @staticmethod
    def _locks(lock: IO[bytes]) -> bool:
        """Whether the lock is ours now. Who only looks whether it is held (`lines.held`) has it for
        a moment."""
        for _ in range(TRIES):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(PAUSE)
            else:
                return True
        return False

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

    def same_data(self, schema: Schema) -> None:
        """A run is continued with data of the meaning that it began with. Before its first round,
        and whenever own statistics have changed, the schema is written down."""
        began = schema_of(self.path)
        if began is None and schema.columns and next(commits(self.path), None) is not None:
            raise RunDirError(
                f"{self.path}: began when the columns of a table were inputs in the order of the"
                f" file; now they are in the order of their names; {elsewhere(self.path)}"
            )
        begun = next(commits(self.path), None) is not None
        said = schema.difference(began) if began is not None and begun else ""
        if said:
            raise RunDirError(
                f"{self.path}: its data has changed since it began (there): {said}; put it back, or"
                f" {elsewhere(self.path)}"
            )
        if began != schema:
            write_atomically(self.path / SCHEMA, dump(schema.to_dict()))

    # -- reading back ------------------------------------------------------------------------------

    def recover(self, simulation: Checkpointed) -> int:
        """Bring files and simulation back to the newest good checkpoint, and return the round to
        continue with."""
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
        self._best.recover(self.path / "metrics.jsonl")
        for name in ("timings.jsonl", WHY):
            if name in self._streams:
                self._streams[name].close()
            self._streams[name] = open(self.path / name, "ab")  # noqa: SIM115
        self._streams[WHY].truncate(size_before(self.path / WHY, commit.round))
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
        if report.why:
            self._write(
                WHY,
                (WhyRecord(round=report.round, peer=i, facts=f) for i, f in report.why.items()),
            )
        self._write("rounds.jsonl", [report.network])
        phases = {phase: round(seconds, 4) for phase, seconds in report.seconds.items()}
        total = round(sum(report.seconds.values()), 4)
        at = round(time.time(), 2)
        timing = TimingRecord(round=report.round, seconds=total, at=at, notes=phases)
        self._write("timings.jsonl", [timing])

    def keep_best(self, report: Report, simulation: Checkpointed) -> None:
        """Put aside the peers that are, after this round, as good on their validation examples as
        never before."""
        try:
            self._best.take(report.peers.values(), simulation.snapshots)
        except OSError as error:
            raise self._lost(
                f"{self.path / 'best'}: cannot be written ({error.strerror})"
            ) from None

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
            f"{what}; everything up to the last checkpoint is kept: make room, then"
            f" {how_to_go_on(self.path)}"
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
        self._best.commit()


def _untouched(path: Path) -> bool:
    """Whether a peer has begun here and no round is done: what was set wrong may be set right."""
    if not (path / "config.toml").exists() or locked(path):
        return False
    lines = path / "metrics.jsonl"
    return next(commits(path), None) is None and not (lines.is_file() and lines.stat().st_size)


def locked(path: Path) -> bool:
    """Whether a process is writing this directory."""
    return held(path)


def _same(path: Path, config: Config) -> Config:
    """The config, if the directory holds a run of it; what it leaves open is taken from there."""
    other = load_config(path)
    config = config.completed(other)
    other = other.completed(config)
    if other.digest == config.digest:
        return config
    keys = differences(other, config)
    remedy = elsewhere(path)
    if keys == ["rounds"] and config.rounds > other.rounds:
        remedy = f"`amity resume {path} rounds={config.rounds}` extends it, or {remedy}"
    raise RunDirError(
        f"{path}: holds a run of another config (differs in {', '.join(keys[:4])}); {remedy}"
    )


def ended(path: Path) -> RoundRecord | None:
    """The round with which a run ended before its last; None: with none."""
    last = read_records(path / "rounds.jsonl", RoundRecord)[-1:]
    return last[0] if last and last[0].ended is not None else None


def finished(path: Path, config: Config) -> bool:
    """Whether a directory holds the whole of this run, so that nothing is left to do in it."""
    if not (path / "config.toml").is_file():
        return False
    RunDir.check(path, config)
    last = next(commits(path), None)
    if last is None or (last.round != config.rounds and ended(path) is None):
        return False
    return all(
        (path / name).is_file() and (path / name).stat().st_size == size
        for name, size in last.lines.items()
    )
