"""Flower: FedAvg by `run_simulation` on its Ray backend, one single-threaded client worker per
core, no evaluation.

The client is the message API's, written as in Flower's PyTorch quick start; a worker keeps the data
and the net between messages. A round is measured from the end of one aggregation to the end of the
next, so Ray's start is not in it. Ray is started afresh, on its own, even where the machine has a
cluster running.

`cd benchmarks && python -m racers.flower WORKLOAD [--workers N]`
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable

os.environ |= {
    "RAY_DEDUP_LOGS": "0",
    "FLWR_TELEMETRY_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}

import torch
from common import (
    HERE,
    Stopwatch,
    Workload,
    arguments,
    count_steps,
    data,
    fit,
    kept_net,
    net,
    plural,
)
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation


def client_app(workload: Workload) -> ClientApp:
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        torch.set_num_threads(1)
        count_steps()
        model = kept_net(workload)
        model.load_state_dict(message.content["arrays"].to_torch_state_dict())
        x, y = data(workload)
        peer = int(context.node_config["partition-id"])
        fit(model, x[peer], y[peer], workload)
        metrics = MetricRecord({"num-examples": workload.samples})
        return Message(
            RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}),
            reply_to=message,
        )

    return app


class Timed(FedAvg):
    """FedAvg that stops the time when a round's models are averaged."""

    def __init__(self, watch: Stopwatch) -> None:
        peers = watch.workload.peers
        super().__init__(fraction_evaluate=0.0, min_train_nodes=peers, min_available_nodes=peers)
        self.watch = watch

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        result = super().aggregate_train(server_round, replies)
        self.watch.lap()
        return result


def server_app(watch: Stopwatch, rounds: int) -> ServerApp:
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        start = ArrayRecord(net(watch.workload).state_dict())
        Timed(watch).start(grid=grid, initial_arrays=start, num_rounds=rounds + 1)

    return app


def main() -> None:
    args = arguments(__doc__, workers=os.cpu_count() or 1)
    logging.getLogger("flwr").setLevel(logging.ERROR)
    os.environ["PYTHONPATH"] = str(HERE)
    watch = Stopwatch(
        "flower", "flwr", args.workload, f"{plural(args.workers, 'Ray worker')}, 1 thread"
    )
    run_simulation(
        server_app(watch, args.rounds),
        client_app(args.workload),
        num_supernodes=args.workload.peers,
        backend_config={
            "init_args": {"address": "local", "num_cpus": args.workers, "log_to_driver": False},
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )
    watch.report()


if __name__ == "__main__":
    main()
