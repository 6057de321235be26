"""fluke: FedAVG, all clients in one process and in memory, no evaluation.

Its own `Client` trains and its own `FastDataLoader` batches (slices of shuffled tensors, its
fastest way). Torch threads are what `race.py` measures to be faster: one or all cores.

`cd benchmarks && python -m racers.fluke WORKLOAD [--threads N]`
"""

from __future__ import annotations

from common import (
    CLASSES,
    LR,
    Stopwatch,
    Workload,
    arguments,
    data,
    import_torchvision,
    net,
    plural,
)
from torch import nn

import_torchvision()

from fluke import DDict, FlukeENV  # noqa: E402
from fluke.algorithms.fedavg import FedAVG  # noqa: E402
from fluke.client import Client  # noqa: E402
from fluke.config import OptimizerConfigurator  # noqa: E402
from fluke.data import FastDataLoader  # noqa: E402
from fluke.server import Server  # noqa: E402
from fluke.utils import FederationObserver  # noqa: E402


class Laps(FederationObserver):
    """Stops the time at the end of each round."""

    def __init__(self, watch: Stopwatch) -> None:
        self.watch = watch

    def end_round(self, round: int) -> None:
        self.watch.lap()


def clients(workload: Workload) -> list[Client]:
    optimizer = OptimizerConfigurator(
        DDict(name="SGD", lr=LR), DDict(name="StepLR", step_size=1, gamma=1)
    )
    made = []
    for index, (x, y) in enumerate(zip(*data(workload), strict=True)):
        loader = FastDataLoader(
            x, y, num_labels=CLASSES, batch_size=workload.batch, shuffle=True, skip_singleton=False
        )
        made.append(
            Client(
                index, loader, None, optimizer, nn.CrossEntropyLoss(), local_epochs=workload.epochs
            )
        )
    return made


def main() -> None:
    args = arguments(__doc__)
    watch = Stopwatch("fluke", "fluke-fl", args.workload, plural(args.threads, "thread"))
    env = FlukeENV()
    env.set_seed(0)
    env.set_device("cpu")
    env.set_inmemory(True)
    env.set_eval_cfg(pre_fit=False, post_fit=False, server=False, locals=False)
    peers = clients(args.workload)
    federation = FedAVG(
        len(peers), None, None, clients=peers, server=Server(net(args.workload), None, peers)
    )
    federation.set_callbacks(Laps(watch))
    federation.run(n_rounds=args.rounds + 1, eligible_perc=1.0)
    watch.report()


if __name__ == "__main__":
    main()
