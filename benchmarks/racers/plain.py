"""The plain PyTorch loop, fp32, as researchers write it: no framework, one process.

Torch threads: all cores, or one where `race.py` measures that to be faster (tiny nets).

`cd benchmarks && python -m racers.plain WORKLOAD`
"""

from __future__ import annotations

import torch
from common import Stopwatch, Workload, arguments, data, fit, net, plural

State = dict[str, torch.Tensor]


def average(states: list[State]) -> State:
    return {key: torch.stack([state[key] for state in states]).mean(dim=0) for key in states[0]}


def round_of(model: torch.nn.Module, start: State, workload: Workload) -> State:
    """Every peer trains from the common start; the mean of all is the next start."""
    states = []
    for x, y in zip(*data(workload), strict=True):
        model.load_state_dict(start)
        fit(model, x, y, workload)
        states.append({key: value.clone() for key, value in model.state_dict().items()})
    return average(states)


def main() -> None:
    args = arguments(__doc__)
    watch = Stopwatch("plain", "torch", args.workload, plural(args.threads, "thread"))
    model = net(args.workload)
    state = {key: value.clone() for key, value in model.state_dict().items()}
    for _ in range(args.rounds + 1):
        state = round_of(model, state, args.workload)
        watch.lap()
    watch.report()


if __name__ == "__main__":
    main()
