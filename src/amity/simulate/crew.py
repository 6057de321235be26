"""The crew does the jobs of a round: this process, or as many forked workers as there are cores.

Workers are forked, one thread each. All vectors lie in memory that they share with this process, so
a job is a few bytes ("train peer-07 in round 3") and so is its answer. This process hands out jobs
through one pipe per worker. There is no lock that a dying worker could hold. Jobs that a killed
worker left unfinished are done again. So the bits do not depend on the number of workers, on which
worker does what, or on which one dies.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Any, Protocol

import torch

from amity.core import PeerId, Share
from amity.errors import AmityError, Failure
from amity.facts import ModelFact
from amity.processes import die_with, keep_memory
from amity.round.matrices import scratch
from amity.round.shard import Answered, Hosted, Shard
from amity.simulate.jobs import HostJob, Job, perform

TellPart = Callable[[float], None]
"""Told how much of a list of jobs is done."""


def quiet(_share: float) -> None:
    """Tells nobody."""


class CrewLost(Failure):
    """A part of the crew is gone, and with it the rows of its peers. The run must go back to the
    last checkpoint."""


class Crew(Protocol):
    """Does jobs, and holds all peers' rows."""

    def do(self, jobs: Sequence[Job], tell: TellPart) -> list[Any]:
        """The results, in the order of the jobs."""

    def shares(self, names: tuple[PeerId, ...], me: PeerId = "") -> dict[PeerId, Share]:
        """Models as they were published in this round; my own as I mix it myself."""

    def start_shares(self, names: tuple[PeerId, ...], round: int) -> dict[PeerId, Share]:
        """Models of the round's start, as they go on a visit."""

    def absorb(self, name: PeerId, mixed: Share, round: int) -> None:
        """Give a peer its next start."""

    def measure(
        self,
        name: PeerId,
        fact: ModelFact,
        others: tuple[PeerId, ...],
        round: int,
        brought: Mapping[PeerId, Share],
    ) -> Answered:
        """What a fact says about models, when some of them exist only in this process."""

    def offered(self) -> torch.Tensor | None:
        """Which coordinates the first peer's share has; None: all."""

    def matrix(self, which: str) -> torch.Tensor:
        """All rows of `start` or `trained`, in the order of names."""

    def set_common(self, vector: torch.Tensor) -> None:
        """Lay out the point at which gradients are measured."""

    def snapshots(
        self, names: Sequence[PeerId]
    ) -> Iterator[tuple[PeerId, dict[str, torch.Tensor]]]:
        """What a checkpoint holds of each of these peers."""

    def restore(self, round: int, tensors: Callable[[PeerId], dict[str, torch.Tensor]]) -> None: ...

    def rebuild(self) -> None:
        """After a loss: all peers as before their first round."""

    def close(self) -> None: ...


class Inline:
    """Does everything in this process: the simple version, and the one for devices that do not
    allow forking."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard

    def do(self, jobs: Sequence[Job], tell: TellPart) -> list[Any]:
        results = []
        for done, job in enumerate(jobs):
            tell(done / len(jobs))
            results.append(perform(job, self.shard))
        return results

    def shares(self, names: tuple[PeerId, ...], me: PeerId = "") -> dict[PeerId, Share]:
        return {
            name: self.shard.peers[me].mine if name == me else self.shard.share_of(name)
            for name in names
        }

    def start_shares(self, names: tuple[PeerId, ...], round: int) -> dict[PeerId, Share]:
        return self.shard.start_shares(names, round)

    def absorb(self, name: PeerId, mixed: Share, round: int) -> None:
        self.shard.absorb(name, mixed, round)

    def measure(
        self,
        name: PeerId,
        fact: ModelFact,
        others: tuple[PeerId, ...],
        round: int,
        brought: Mapping[PeerId, Share],
    ) -> Answered:
        return self.shard.measure(name, fact, others, round, brought)

    def offered(self) -> torch.Tensor | None:
        return next(iter(self.shard.peers.values())).share.mask

    def matrix(self, which: str) -> torch.Tensor:
        matrix: torch.Tensor = getattr(self.shard.matrices, which)
        return matrix

    def set_common(self, vector: torch.Tensor) -> None:
        self.shard.matrices.common.copy_(vector)

    def snapshots(
        self, names: Sequence[PeerId]
    ) -> Iterator[tuple[PeerId, dict[str, torch.Tensor]]]:
        for name in names:
            yield name, dict(self.shard.peers[name].snapshot())

    def restore(self, round: int, tensors: Callable[[PeerId], dict[str, torch.Tensor]]) -> None:
        for name, peer in self.shard.peers.items():
            peer.resume(round, tensors(name))

    def rebuild(self) -> None:
        for peer in self.shard.peers.values():
            peer.reset()

    def close(self) -> None:
        """There is nothing to end."""


TRIES = 3


@dataclass(eq=False)
class _Worker:
    process: ForkProcess
    pipe: Connection
    parcel: int | None = None
    """The number of the parcel it has."""


class Workers(Inline):
    """Forked processes that share the rows of one shard."""

    def __init__(self, shard: Shard, count: int) -> None:
        super().__init__(shard)
        self.count = count
        self.replaced = 0
        """Workers that died and were replaced."""
        self._crew: list[_Worker] = []
        weakref.finalize(self, _dismiss, self._crew)
        self._trays = scratch(2 * count, shard.world.learner.layout.size)
        """A vector (and its mask) on the way back from each worker."""

    def do(self, jobs: Sequence[Job], tell: TellPart) -> list[Any]:
        mine = {at for at, job in enumerate(jobs) if not job.repeatable}
        theirs = iter(self._hand_out([job for at, job in enumerate(jobs) if at not in mine], tell))
        return [
            perform(job, self.shard) if at in mine else next(theirs) for at, job in enumerate(jobs)
        ]

    def _hand_out(self, jobs: Sequence[Job], tell: TellPart) -> list[Any]:
        alone = any(isinstance(job, HostJob) for job in jobs)  # a tray holds one model at a time
        size = 1 if alone else max(1, min(32, len(jobs) // (8 * self.count)))
        parcels = [jobs[at : at + size] for at in range(0, len(jobs), size)]
        results: list[list[Any] | None] = [None] * len(parcels)
        tries = [0] * len(parcels)
        queue = deque(range(len(parcels)))
        while len(self._crew) < self.count:
            self._crew.append(self._hire(len(self._crew)))
        try:
            left = len(parcels)
            while left:
                for worker in self._crew:
                    if queue and worker.parcel is None:
                        self._send(worker, queue.popleft(), parcels)
                for place, worker in self._with_news():
                    answer = self._receive(worker)
                    if answer is None:
                        self._lost(place, worker, queue, tries, parcels)
                        continue
                    at, worker.parcel = worker.parcel, None
                    assert at is not None  # noqa: S101  only who was sent something answers
                    results[at] = [self._unpacked(result, place) for result in answer]
                    left -= 1
                    tell(1 - left / len(parcels))
        except BaseException:
            # what is still on its way must not be taken for the answer to something else
            self.close()
            raise
        return [result for parcel in results if parcel is not None for result in parcel]

    def _with_news(self) -> list[tuple[int, _Worker]]:
        """The workers that have answered or died."""
        signs: dict[Any, tuple[int, _Worker]] = {}
        for place, worker in enumerate(self._crew):
            signs |= {worker.pipe: (place, worker), worker.process.sentinel: (place, worker)}
        return list(
            {signs[sign][0]: signs[sign] for sign in wait(list(signs), timeout=1.0)}.values()
        )

    def _send(self, worker: _Worker, at: int, parcels: Sequence[Sequence[Job]]) -> None:
        worker.parcel = at
        try:
            worker.pipe.send_bytes(pickle.dumps(parcels[at]))
        except OSError:
            return  # it is gone: the end of its pipe says so next

    @staticmethod
    def _receive(worker: _Worker) -> list[Any] | None:
        """Results of its parcel; None if it died."""
        try:
            if not worker.pipe.poll():  # no answer: it is its end that we heard of
                return None
            answer = pickle.loads(worker.pipe.recv_bytes())  # noqa: S301  from our own fork
        except (EOFError, OSError):
            return None
        if isinstance(answer, Exception):
            raise answer
        results: list[Any] = answer
        return results

    def _lost(
        self,
        place: int,
        worker: _Worker,
        queue: deque[int],
        tries: list[int],
        parcels: Sequence[Sequence[Job]],
    ) -> None:
        """Start another worker, and put the jobs of the dead one back. Give up on work that kills
        every worker that takes it."""
        worker.process.join()
        worker.pipe.close()
        if worker.parcel is not None:
            at = worker.parcel
            tries[at] += 1
            if tries[at] >= TRIES:
                job = parcels[at][0]
                raise Failure(
                    f"{job.verb} of {job.at} killed its worker process {TRIES} times (exit"
                    f" {worker.process.exitcode}; -9 is often a lack of memory); use fewer or"
                    " smaller peers"
                )
            queue.appendleft(at)
        self.replaced += 1
        self._crew[place] = self._hire(place)

    def _hire(self, place: int) -> _Worker:
        mine, theirs = multiprocessing.Pipe()
        target, args = (
            _work,
            (self.shard, theirs, self._trays[2 * place : 2 * place + 2], os.getpid()),
        )
        process = multiprocessing.get_context("fork").Process(target=target, args=args, daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, mine)

    def _unpacked(self, result: Any, place: int) -> Any:
        """Take a model off the tray (a shared matrix) before that worker can put another one
        there."""
        if not isinstance(result, Hosted) or not isinstance(result.offer.share, _OnTray):
            return result
        theta, mask = self._trays[2 * place : 2 * place + 2]
        share = Share(theta.clone(), mask > 0 if result.offer.share.masked else None)
        return result._replace(offer=result.offer._replace(share=share))

    def close(self) -> None:
        _dismiss(self._crew)


def _dismiss(crew: list[_Worker]) -> None:
    while crew:
        worker = crew.pop()
        worker.process.kill()
        worker.process.join()
        worker.pipe.close()


@dataclass(frozen=True)
class _OnTray(Share):
    """Stands for a model that is on the worker's tray, a shared matrix."""

    masked: bool = False


def _work(shard: Shard, pipe: Connection, tray: torch.Tensor, parent: int) -> None:
    """A worker: do parcels until the pipe ends. The parent decides what Ctrl-C means."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with(parent)
    keep_memory()
    gc.freeze()
    torch.set_num_threads(1)
    while True:
        try:
            parcel = pickle.loads(pipe.recv_bytes())  # noqa: S301  from the process that forked us
        except (EOFError, OSError):
            os._exit(0)
        pipe.send_bytes(_done(shard, parcel, tray))


def _done(shard: Shard, parcel: Sequence[Job], tray: torch.Tensor) -> bytes:
    try:
        return pickle.dumps([_packed(perform(job, shard), tray) for job in parcel])
    except AmityError as error:
        return pickle.dumps(error)


def _packed(result: Any, tray: torch.Tensor) -> Any:
    """Vectors go through the tray, a shared matrix; only numbers go through the pipe."""
    if not isinstance(result, Hosted) or result.offer.share is None:
        return result
    share = result.offer.share
    tray[0].copy_(share.theta)
    if share.mask is not None:
        tray[1].copy_(share.mask)
    marker = _OnTray(torch.empty(0), None, share.mask is not None)
    return result._replace(offer=result.offer._replace(share=marker))
