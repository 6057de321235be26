"""gossipy: vanilla push gossip on a directed ring, so that every node trains exactly once a round.

The framework has no server and no averaging of all: a node that receives a model averages it with
its own, pairwise, and trains. The gradient steps of a round are equal to the others', the mixing is
less work; the report says so. A round is one time step (`delta=1`), which spares gossipy its idle
loop over nodes. Torch threads: what `race.py` measures to be faster, one or all cores.

`cd benchmarks && python -m racers.gossipy WORKLOAD [--threads N]`
"""

from __future__ import annotations

import logging

import numpy as np
import torch
from common import LR, Stopwatch, Workload, arguments, data, import_torchvision, net, plural

import_torchvision()

from gossipy import LOG  # noqa: E402
from gossipy.core import AntiEntropyProtocol, CreateModelMode, StaticP2PNetwork  # noqa: E402
from gossipy.data import DataDispatcher  # noqa: E402
from gossipy.data.handler import ClassificationDataHandler  # noqa: E402
from gossipy.model import TorchModel  # noqa: E402
from gossipy.model.handler import TorchModelHandler  # noqa: E402
from gossipy.node import GossipNode  # noqa: E402
from gossipy.simul import GossipSimulator, SimulationEventReceiver  # noqa: E402


class Net(TorchModel):
    """The workload's net, as gossipy wants it."""

    def __init__(self, workload: Workload) -> None:
        super().__init__()
        self.body = net(workload)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)

    def init_weights(self) -> None:
        """They are as PyTorch made them."""


class Laps(SimulationEventReceiver):
    """Stops the time at the end of each round, which is one time step."""

    def __init__(self, watch: Stopwatch) -> None:
        self.watch = watch

    def update_message(self, failed: bool, msg: object = None) -> None: ...

    def update_end(self) -> None: ...

    def update_timestep(self, t: int) -> None:
        self.watch.lap()


def dispatcher(workload: Workload) -> DataDispatcher:
    """Each peer's own examples, and nothing to evaluate on."""
    x, y = (part.flatten(0, 1) for part in data(workload))
    made = DataDispatcher(
        ClassificationDataHandler(x, y, test_size=0), n=workload.peers, auto_assign=False
    )
    made.set_assignments(torch.arange(len(x)).view(workload.peers, -1).tolist(), None)
    return made


def simulator(workload: Workload) -> GossipSimulator:
    handler = TorchModelHandler(
        net=Net(workload),
        optimizer=torch.optim.SGD,
        optimizer_params={"lr": LR},
        criterion=torch.nn.CrossEntropyLoss(),
        local_epochs=workload.epochs,
        batch_size=workload.batch,
        create_model_mode=CreateModelMode.MERGE_UPDATE,
    )
    ring = np.roll(np.eye(workload.peers, dtype=int), 1, axis=1)
    hands = dispatcher(workload)
    nodes = GossipNode.generate(
        hands, StaticP2PNetwork(workload.peers, ring), handler, round_len=1, sync=True
    )
    return GossipSimulator(nodes, hands, delta=1, protocol=AntiEntropyProtocol.PUSH)


def main() -> None:
    args = arguments(__doc__)
    LOG.setLevel(logging.ERROR)
    notes = ["pairwise gossip instead of averaging all models: equal gradient steps, less mixing"]
    watch = Stopwatch(
        "gossipy", "gossipy-dfl", args.workload, plural(args.threads, "thread"), notes
    )
    race = simulator(args.workload)
    race.init_nodes()
    watch.start()
    race.add_receiver(Laps(watch))
    race.start(n_rounds=args.rounds + 1)
    watch.report()


if __name__ == "__main__":
    main()
