"""The loop that a researcher writes: one module, state dicts, torch.optim, one peer after the
other, fp32.

It does the same maths as the engine, with the same order of examples, and is its oracle in the
tests. It knows nothing of the engine but where the data lies and how randomness is named.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from amity.config import Config
from amity.core import PeerId
from amity.data import Dataset
from amity.rng import rng
from amity.round.build import deal_out
from amity.topology import peer_names

StateDict = dict[str, torch.Tensor]

Parameters = Iterable[nn.Parameter]


def _sgd(parameters: Parameters, lr: float, options: Mapping[str, Any]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=lr, **options)


def _adam(parameters: Parameters, lr: float, options: Mapping[str, Any]) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=lr, **_as_torch(options))


def _adamw(parameters: Parameters, lr: float, options: Mapping[str, Any]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=lr, **_as_torch(options))


def _as_torch(options: Mapping[str, Any]) -> dict[str, Any]:
    rest = dict(options)
    return {"betas": (rest.pop("beta1"), rest.pop("beta2")), **rest}


OPTIMISERS = {"sgd": _sgd, "adam": _adam, "adamw": _adamw}


ERRORS: Mapping[str, Callable[..., torch.Tensor]] = {
    "mse": F.mse_loss,
    "mae": F.l1_loss,
    "huber": F.huber_loss,
}


def _classify(z: torch.Tensor, y: torch.Tensor, options: Mapping[str, Any]) -> torch.Tensor:
    return F.cross_entropy(z, y, label_smoothing=options.get("smoothing", 0.0))


def _multilabel(z: torch.Tensor, y: torch.Tensor, options: Mapping[str, Any]) -> torch.Tensor:
    return F.binary_cross_entropy_with_logits(z, y)


def _regress(z: torch.Tensor, y: torch.Tensor, options: Mapping[str, Any]) -> torch.Tensor:
    return ERRORS[options["error"]](z, y)


def _tokens(z: torch.Tensor, y: torch.Tensor, options: Mapping[str, Any]) -> torch.Tensor:
    """Sequences of one length."""
    return F.cross_entropy(z.flatten(0, -2), y.flatten(), ignore_index=0)


LOSSES = {
    "classify": _classify,
    "multilabel": _multilabel,
    "regress": _regress,
    "tokens": _tokens,
}


class PlainLoop:
    """All peers' state dicts, and a round of local training for each."""

    def __init__(self, config: Config, dataset: Dataset) -> None:
        self.config = config
        self.names = peer_names(config.peers)
        torch.manual_seed(int(rng(config.seed, "model").integers(2**62)))
        self.model = as_usual(config.model.instance.build(dataset.shape, dataset.target.size))
        initial = {key: value.clone() for key, value in self.model.state_dict().items()}
        self.states: dict[PeerId, StateDict] = dict.fromkeys(self.names, initial)
        self.data: dict[PeerId, tuple[torch.Tensor, torch.Tensor]] = {}
        for name, data in deal_out(config, dataset, self.names).items():
            pixels, index = data.train.pixels, data.train.index
            self.data[name] = pixels.batch(index)

    def train(self, name: PeerId, round: int) -> StateDict:
        """Local training of one peer."""
        train, task, (x, y) = self.config.train, self.config.task, self.data[name]
        self.model.load_state_dict(self.states[name])
        self.model.train()
        optimiser = OPTIMISERS[self.config.optimiser.name](
            self.model.parameters(), train.lr, self.config.optimiser.options
        )
        draw = rng(self.config.seed, "train", round, name)
        draw.integers(2**62)
        for _ in range(train.epochs):
            order = torch.from_numpy(draw.permutation(len(y)))
            for batch in torch.split(order, train.batch):
                optimiser.zero_grad()
                loss = LOSSES[task.name](self.model(x[batch]), y[batch], task.options)
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
        return {key: value.clone() for key, value in self.model.state_dict().items()}

    def round(self, round: int) -> None:
        """Everyone trains, then everyone gets the average."""
        self.states = dict.fromkeys(
            self.names, average([self.train(name, round) for name in self.names])
        )

    def seconds_of_round(self, budget: float) -> float:
        """Seconds of a round of training and averaging. If that takes longer than `budget`, fewer
        peers are timed and the rest is taken to go on alike."""
        self.train(self.names[0], 0)  # warm up
        began = time.perf_counter()
        trained: list[StateDict] = []
        for name in self.names:
            trained.append(self.train(name, 0))
            if time.perf_counter() - began > budget:
                break
        average(trained)
        return (time.perf_counter() - began) * len(self.names) / len(trained)


def as_usual(module: nn.Module) -> nn.Module:
    """ReLU before pooling, as everyone writes it; our models have it the other way round, which is
    the same function."""
    for part in [part for part in module.modules() if isinstance(part, nn.Sequential)]:
        for at in range(len(part) - 1):
            if isinstance(part[at], nn.MaxPool2d) and isinstance(part[at + 1], nn.ReLU):
                part[at], part[at + 1] = part[at + 1], part[at]
    return module


def average(states: Sequence[Mapping[str, torch.Tensor]]) -> StateDict:
    return {
        key: sum((state[key] for state in states[1:]), states[0][key]) / len(states)
        for key in states[0]
    }
