"""Many independent runs at once: as many processes as cores, one run each, finished ones kept.

Workers are forked, so nothing is pickled: strategies of one's own, also from a script without a
`__main__` guard, and the dataset in memory are simply there. Where forking is not safe (not Linux),
runs go one after the other.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.context import ForkProcess
from multiprocessing.queues import Queue
from pathlib import Path
from queue import Empty
from typing import Any

import torch

from amity.config import Config
from amity.errors import AmityError, Failure, brief
from amity.lab.result import Result
from amity.lab.run import run
from amity.processes import CAN_FORK, cores, die_with, share_cores
from amity.round.build import load_data
from amity.store import finished, read_config


@dataclass(frozen=True)
class Cell:
    """One run of a table: what it is called, its seed, its config and where it goes."""

    label: str
    seed: int
    config: Config
    path: Path


@dataclass(frozen=True)
class Event:
    """What a worker tells: a round is done, a cell is done (round = -1), or a cell failed
    (error)."""

    cell: int
    round: int
    accuracy: float | None = None
    error: str = ""
    part: float = 1.0
    """How much of the round is done."""


@dataclass
class Outcome:
    """Results by cell, and the error of each that failed."""

    results: dict[int, Result] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)


OnEvent = Callable[[Event], None]


def run_cells(cells: Sequence[Cell], jobs: int = 0, on_event: OnEvent | None = None) -> Outcome:
    """Run all cells; a cell that fails does not stop the others."""
    tell = on_event or (lambda event: None)
    for cell in cells:
        load_data(cell.config)
    jobs = min(jobs or cores(), len(cells))
    if jobs > 1 and CAN_FORK:
        errors = _in_processes(cells, jobs, tell)
    else:
        errors = {}
        for at, cell in enumerate(cells):
            event = _run_one(at, cell, tell)
            errors |= {at: event.error} if event.error else {}
            tell(event)
    results = {
        at: Result(cell.path, read_config(cell.path))
        for at, cell in enumerate(cells)
        if at not in errors
    }
    return Outcome(results, errors)


def _run_one(at: int, cell: Cell, tell: OnEvent) -> Event:
    try:
        if finished(cell.path, cell.config):
            return Event(at, -1)
        run(
            cell.config,
            cell.path,
            lambda report: tell(Event(at, report.round, report.network.accuracy)),
            lambda round, share: tell(Event(at, round, part=share)),
        )
    except AmityError as error:
        return Event(at, -1, error=str(error))
    except (
        Exception,
        SystemExit,
    ) as error:  # one cell, whatever it does, does not take the others down
        return Event(at, -1, error=brief(error))
    return Event(at, -1)


def _work(cells: Sequence[Cell], turn: Any, events: Queue[Event], parent: int, jobs: int) -> None:
    """A worker: take the next cell until none is left. The parent decides what Ctrl-C means."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with(parent)
    share_cores(jobs)
    torch.set_num_threads(1)
    while True:
        with turn.get_lock():
            at = turn.value
            turn.value += 1
        if at >= len(cells):
            return
        events.put(_run_one(at, cells[at], events.put))


def _in_processes(cells: Sequence[Cell], jobs: int, tell: OnEvent) -> dict[int, str]:
    context = multiprocessing.get_context("fork")
    events, turn = context.Queue(), context.Value("i", 0)
    workers: list[ForkProcess] = [
        context.Process(target=_work, args=(cells, turn, events, os.getpid(), jobs))
        for _ in range(jobs)
    ]
    for worker in workers:
        worker.start()
    left = set(range(len(cells)))
    errors: dict[int, str] = {}
    try:
        while left:
            try:
                event = events.get(timeout=0.5)
            except Empty:
                dead = _dead(workers)
                # in this order: who has exited has told all it had to tell
                if dead and events.empty():
                    raise Failure(dead) from None
                continue
            if event.round == -1:
                left.discard(event.cell)
                errors |= {event.cell: event.error} if event.error else {}
            tell(event)
    finally:
        for worker in workers:
            worker.terminate() if left else None
            worker.join()
    return errors


def _dead(workers: Sequence[ForkProcess]) -> str:
    """What to say if a worker died, or all have left although cells are missing; empty if all is
    well."""
    codes = [worker.exitcode for worker in workers]
    if not any(codes) and None in codes:
        return ""
    code = next((code for code in codes if code), 0)
    return (
        f"a worker process died (exit {code}; -9 is often a lack of memory); finished runs are"
        " kept: the same command with the same out= goes on"
    )
