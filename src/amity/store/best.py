"""Every peer as it stood in its best round, by its validation examples.

    best/PEER-000012.safetensors     the peer after 12 rounds, as a checkpoint would hold it

Checkpoints hold the newest rounds alone, so a model is put aside in the round in which it is the
best so far. Which round that was is read from metrics.jsonl, never from what lies here: a file that
a kill left behind counts for nothing, and the round that is done again writes the same bits. Of
equal rounds the later one counts: it has learnt more. Test examples have no say in it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

import torch

from amity.core import PeerId
from amity.learn.tensors import Archive, encode
from amity.records import PeerRecord
from amity.store.reading import read_records
from amity.tasks import ACCURACY, Metric

Snapshots = Callable[[Collection[PeerId]], Iterator[tuple[PeerId, dict[str, torch.Tensor]]]]
FOLDER = "best"


def best_records(
    records: Iterable[PeerRecord], metric: Metric = ACCURACY
) -> dict[PeerId, PeerRecord]:
    """The record of every peer's best round, for those that have validation examples."""
    best: dict[PeerId, PeerRecord] = {}
    for record in records:
        found = record.lead("validation")
        before = best[record.peer].lead("validation") if record.peer in best else None
        if found is not None and (before is None or metric.gain(found, before) >= 0):
            best[record.peer] = record
    return best


def best_model(path: Path, record: PeerRecord) -> Archive | None:
    """The peer of a record as it stood after that round, if it was kept."""
    file = _file(path / FOLDER, record)
    return Archive(file) if file.is_file() else None


def _file(folder: Path, record: PeerRecord) -> Path:
    return folder / f"{record.peer}-{record.round + 1:06d}.safetensors"


class BestModels:
    """Those of a run that goes on."""

    def __init__(self, path: Path, metric: Metric) -> None:
        self._folder, self._metric = path / FOLDER, metric
        self._best: dict[PeerId, PeerRecord] = {}
        self._new: set[Path] = set()
        """Files that may not have reached the disk yet."""

    def recover(self, metrics: Path) -> None:
        """Know what the rounds so far have brought."""
        measured = f'"{self._metric.field}_validation"'.encode() in metrics.read_bytes()
        found = read_records(metrics, PeerRecord) if measured else []
        self._best = best_records(found, self._metric)

    def take(self, records: Collection[PeerRecord], snapshots: Snapshots) -> None:
        """Put aside whoever is as good as never before."""
        best = best_records([*self._best.values(), *records], self._metric)
        better = {name: one for name, one in best.items() if self._best.get(name) != one}
        self._best = best
        if not better:
            return
        self._folder.mkdir(exist_ok=True)
        for name, tensors in snapshots(better.keys()):
            target = _file(self._folder, better[name])
            scratch = target.with_name(f"{target.name}.{os.getpid()}.tmp")
            try:
                with open(scratch, "wb") as stream:
                    stream.writelines(encode([name], [(name, tensors)], lambda _part: None))
                os.replace(scratch, target)
                self._new.add(target)
            finally:
                scratch.unlink(missing_ok=True)

    def commit(self) -> None:
        """At a checkpoint, from which a run goes on: the best so far lies on the disk, and nothing
        else is wanted any longer."""
        if not self._best or not self._folder.is_dir():
            return
        kept = {_file(self._folder, record) for record in self._best.values()}
        for file in sorted(kept & self._new):
            with open(file, "rb") as stream:
                os.fsync(stream.fileno())
        self._new.clear()
        for file in self._folder.iterdir():
            if file not in kept:
                file.unlink(missing_ok=True)
