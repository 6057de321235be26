"""Many independent runs at once: one process per core, one run in each. Finished runs are kept.

Workers are forked, so nothing is pickled. They have your own strategies, also from a script without
a `__main__` guard, and the dataset in memory. Where forking is not safe (not Linux), runs are done
one after the other.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import torch

from amity.config import Config
from amity.errors import Failure, line_of
from amity.events import CellId, Event, RunDone, RunFailed, RunStarted, Tell, Teller, nobody
from amity.forward import Inbox, Outbox, PipeSink, pipe
from amity.lab.result import Result
from amity.lab.run import run_into, teller_of
from amity.processes import CAN_FORK, cores, die_with, share_cores
from amity.round.build import load_data
from amity.store import RunDir, finished, read_config


@dataclass(frozen=True)
class Cell:
    """One run of a table: its label, seed, config and directory."""

    label: str
    seed: int
    config: Config
    path: Path
    row: str = ""
    """What it is counted under in a display; empty: its label."""


@dataclass
class Outcome:
    """Results by cell, and the error of each that failed."""

    results: dict[int, Result] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)


def run_cells(
    cells: Sequence[Cell], jobs: int = 0, tell: Tell = nobody, group: Path | None = None
) -> Outcome:
    """Run all cells; a cell that fails does not stop the others. `group` is the directory of the
    table that they are part of."""
    for cell in cells:
        load_data(cell.config)
    batch = Batch(cells, tell, str(group or ""))
    jobs = min(jobs or cores(), len(cells))
    if jobs > 1 and CAN_FORK:
        _in_processes(batch, jobs)
    else:
        for at in range(len(cells)):
            batch.run_one(at, batch.take)
    results = {
        at: Result(cell.path, read_config(cell.path))
        for at, cell in enumerate(cells)
        if at not in batch.errors
    }
    return Outcome(results, batch.errors)


class Batch:
    """Cells that are being run, and how far they are. It sees every event before the sinks do."""

    def __init__(self, cells: Sequence[Cell], tell: Tell, group: str) -> None:
        self.cells, self._tell, self._group = cells, tell, group
        self.errors: dict[int, str] = {}
        self._at: dict[CellId, int] = {}
        self._left = set(range(len(cells)))
        self._begun: dict[CellId, None] = {}
        for at in range(len(cells)):
            teller = self._teller(at, tell)
            self._at[teller.cell] = at
            teller.queued()

    def _teller(self, at: int, tell: Tell) -> Teller:
        cell = self.cells[at]
        return teller_of(
            cell.config, cell.path, tell, label=cell.label, group=self._group, row=cell.row
        )

    @property
    def unfinished(self) -> bool:
        return bool(self._left)

    def take(self, event: Event) -> None:
        """An event of a cell, from here or from a worker."""
        if isinstance(event, RunStarted):
            self._begun[event.cell] = None
        if isinstance(event, RunFailed):
            self.errors[self._at[event.cell]] = event.error
        if isinstance(event, RunFailed | RunDone):
            self._left.discard(self._at[event.cell])
            self._begun.pop(event.cell, None)
        self._tell(event)

    def broken_off(self, error: BaseException) -> None:
        """Cells that were running will not be continued."""
        for cell in list(self._begun):
            self._tell(RunFailed(cell=cell, error=line_of(error)))

    def run_one(self, at: int, tell: Tell) -> None:
        """One cell. If it fails, the others go on."""
        cell = self.cells[at]
        try:
            with self._teller(at, tell) as teller:
                if finished(cell.path, cell.config):
                    config = RunDir.check(cell.path, cell.config)
                    teller.started(config.rounds, config.to_dict())
                else:
                    run_into(cell.path, cell.config, teller)
        except (Exception, SystemExit):  # the teller has told it
            return


@dataclass(frozen=True)
class _Worker:
    process: ForkProcess
    inbox: Inbox


def _work(batch: Batch, turn: Any, sink: PipeSink, parent: int, jobs: int) -> None:
    """A worker: take the next cell until none is left. The parent decides what Ctrl-C means."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with(parent)
    share_cores(jobs)
    torch.set_num_threads(1)
    outbox = Outbox(sink)
    while True:
        with turn.get_lock():
            at = turn.value
            turn.value += 1
        if at >= len(batch.cells):
            break
        batch.run_one(at, outbox.take)
    outbox.close(patience=None)


def _hire(batch: Batch, turn: Any, jobs: int) -> _Worker:
    inbox, sink = pipe()
    process = multiprocessing.get_context("fork").Process(
        target=_work, args=(batch, turn, sink, os.getpid(), jobs)
    )
    process.start()
    sink.close()  # the worker has its own: with it the pipe ends
    return _Worker(process, inbox)


def _in_processes(batch: Batch, jobs: int) -> None:
    turn = multiprocessing.get_context("fork").Value("i", 0)
    workers = [_hire(batch, turn, jobs) for _ in range(jobs)]
    try:
        while batch.unfinished:
            dead = _dead(workers)
            # in this order: who has exited has told all it had to tell
            for worker in workers:
                for event in worker.inbox.take():
                    batch.take(event)
            if dead and batch.unfinished:
                raise Failure(dead)
            inboxes = [worker.inbox for worker in workers]
            wait([inbox.fileno() for inbox in inboxes if not inbox.ended], timeout=0.5)
    except BaseException as error:
        batch.broken_off(error)
        raise
    finally:
        for worker in workers:
            worker.process.terminate() if batch.unfinished else None
            worker.process.join()
            worker.inbox.close()


def _dead(workers: Sequence[_Worker]) -> str:
    """The message if a worker died, or if all have ended although cells are missing; empty if all
    is well."""
    codes = [worker.process.exitcode for worker in workers]
    if not any(codes) and None in codes:
        return ""
    code = next((code for code in codes if code), 0)
    return (
        f"a worker process died (exit {code}; -9 is often a lack of memory); finished runs are"
        " kept: the same command with the same out= goes on"
    )
