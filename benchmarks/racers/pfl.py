"""pfl (pfl-research): FederatedAveraging on the simulated backend, whole cohort every iteration, no
evaluation.

Settings that `race.py` measures, to keep the fastest: one process with one torch thread, one
process with all cores, and pfl's own distributed simulation (`PFL_WORKER_ADDRESSES`) with one
single-threaded process per core. pfl does not shuffle a user's batches between epochs, which spares
it a little work.

`cd benchmarks && python -m racers.pfl WORKLOAD [--workers N] [--threads N]`
"""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from contextlib import ExitStack

import torch
from common import HERE, LR, Stopwatch, Workload, arguments, count_steps, data, net, plural
from torch import nn

ADDRESSES, RANK = "PFL_WORKER_ADDRESSES", "PFL_WORKER_RANK"


class Net(nn.Module):
    """The workload's net, as pfl wants it."""

    def __init__(self, workload: Workload) -> None:
        super().__init__()
        self.body = net(workload)

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.train()
        return nn.functional.cross_entropy(self.body(x), y)

    def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, object]:
        return {}


class Central(torch.optim.SGD):
    """Applies the averaged update with learning rate 1; a type of its own so that its steps are not
    counted."""


def join_workers(count: int, stack: ExitStack) -> None:
    """This process is rank 0 of `count`; start the others with the same command line."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ[ADDRESSES] = ",".join([f"127.0.0.1:{port}"] * count)
    for rank in range(1, count):
        worker = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "racers.pfl", *sys.argv[1:]],
            cwd=HERE,
            env={**os.environ, RANK: str(rank)},
        )
        stack.callback(worker.wait)
    os.environ[RANK] = "0"


def train(workload: Workload, rounds: int, watch: Stopwatch | None) -> None:
    """Run all rounds. (pfl is imported here because it looks for its workers when it is
    imported.)"""
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.pytorch import PyTorchTensorDataset
    from pfl.data.sampling import MinimizeReuseUserSampler
    from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
    from pfl.metrics import Metrics
    from pfl.model.pytorch import PyTorchModel

    class Laps(TrainingProcessCallback):
        """Stops the time after each central iteration."""

        def after_central_iteration(
            self, *_args: object, **_kwargs: object
        ) -> tuple[bool, Metrics]:
            if watch:
                watch.lap()
            return False, Metrics()

    x, y = data(workload)
    users = FederatedDataset(
        lambda user: PyTorchTensorDataset((x[user], y[user])),
        MinimizeReuseUserSampler(list(range(workload.peers))),
    )
    body = Net(workload)
    FederatedAveraging().run(
        NNAlgorithmParams(
            rounds + 1,
            evaluation_frequency=10**9,
            train_cohort_size=workload.peers,
            val_cohort_size=0,
        ),
        SimulatedBackend(training_data=users, val_data=None),
        PyTorchModel(body, torch.optim.SGD, Central(body.parameters(), lr=1.0)),
        NNTrainHyperParams(
            local_num_epochs=workload.epochs,
            local_learning_rate=LR,
            local_batch_size=workload.batch,
        ),
        NNEvalHyperParams(local_batch_size=workload.samples),
        callbacks=[Laps()],
        send_metrics_to_platform=False,
    )


def main() -> None:
    args = arguments(__doc__)
    logging.disable(logging.WARNING)
    if RANK in os.environ:
        count_steps()
        train(args.workload, args.rounds, None)
        return
    processes = "1 process" if args.workers == 1 else f"{args.workers} processes"
    watch = Stopwatch("pfl", "pfl", args.workload, f"{processes}, {plural(args.threads, 'thread')}")
    with ExitStack() as stack:
        if args.workers > 1:
            join_workers(args.workers, stack)
        train(args.workload, args.rounds, watch)
    watch.report()


if __name__ == "__main__":
    main()
