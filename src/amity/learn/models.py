"""The paper's networks. GroupNorm only: BatchNorm's running statistics cannot be averaged between
peers.

An entry is a frozen dataclass with `build(shape, classes)`. Any torch module can stand in its
place: `model=file.py:make` names a function `make(shape, classes)` that returns one, or a dataclass
like those below; in Python a function or a module may be passed itself. Its head and proxy layer
are found (the last Linear, the last layer before it) or named by `model.head=` and
`model.proxy_layer=`.
"""

from __future__ import annotations

import copy
from collections.abc import Sized
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Protocol

from pydantic import Field

from amity.errors import AmityError, ConfigError, brief, place_of
from amity.lazy import nn, torch
from amity.registry import Registry

Shape = tuple[int, ...]
"""Channels, height, width."""


class Model(Protocol):
    def build(self, shape: Shape, classes: int) -> nn.Module: ...


def _wrap(thing: Any) -> type[Model] | None:
    """A model out of a plain function of shape and classes, or out of a module that is there
    already. None for anything else."""
    if not callable(thing):
        return None
    there = copy.deepcopy(thing) if isinstance(thing, nn.Module) else None
    label = getattr(thing, "__name__", type(thing).__name__)

    @dataclass(frozen=True)
    class Made:
        def build(self, shape: Shape, classes: int) -> nn.Module:
            if there is not None:  # with the weights that it has: where all peers start
                return copy.deepcopy(there).cpu()
            try:
                module: nn.Module = thing(shape, classes)
            except TypeError as error:
                raise ConfigError(
                    f"model {label}: expected a module, or a function of (shape, classes)"
                    f" ({brief(error)}{place_of(error)})"
                ) from None
            return module

    Made.__name__ = label
    return Made


def _fresh(module: nn.Module) -> nn.Module:
    """A copy: a function may return the same module each time, and what one learner trains is not
    where the next one starts."""
    try:
        return copy.deepcopy(module)
    except (RuntimeError, TypeError):  # some hold what cannot be copied
        return module


def build_module(label: str, model: Model, shape: Shape, classes: int, own: bool) -> nn.Module:
    """The module of a model. One's own is tried on two made-up examples before anything runs."""
    try:
        module = model.build(shape, classes)
    except AmityError:
        raise
    except Exception as error:  # anybody's code runs here
        raise ConfigError(
            f"model {label}: cannot be built ({brief(error)}{place_of(error)})"
        ) from None
    if not isinstance(module, nn.Module):
        raise ConfigError(f"model {label}: expected a torch module, got {type(module).__name__}")
    return _tried(label, _fresh(module), shape, classes) if own else module


def _tried(label: str, module: nn.Module, shape: Shape, classes: int) -> nn.Module:
    for training in (True, False):
        _try(label, module.train(training), shape, classes)
    frozen = [name for name, p in module.named_parameters() if not p.requires_grad]
    if frozen:  # all parameters are trained and mixed: one that should stay would not
        more = ", ..." if len(frozen) > 2 else ""
        raise ConfigError(
            f"model {label}: {len(frozen)} of {len(list(module.parameters()))} parameters are"
            f" frozen ({', '.join(frozen[:2])}{more}), but all are trained here; leave"
            " requires_grad_(False) out, or use what the frozen part gives as your data"
        )
    return module


def _try(label: str, module: nn.Module, shape: Shape, classes: int) -> None:
    """Whether a module gives one number for each class."""
    try:
        with torch.no_grad():
            said: Any = module(torch.zeros(2, *shape))
    except Exception as error:  # anybody's code runs here
        raise ConfigError(
            f"model {label}: does not take examples of shape {shape}"
            f" ({brief(error)}{place_of(error)})"
        ) from None
    when = " while it trains" if module.training else ""
    if not isinstance(said, torch.Tensor):
        parts = f"{len(said)} outputs, a " if isinstance(said, Sized) else "a "
        raise ConfigError(
            f"model {label}: gives {parts}{type(said).__name__}{when}; expected one tensor, with"
            f" {classes} numbers for an example: return the scores of the classes alone"
        )
    if tuple(said.shape) != (2, classes):
        raise ConfigError(
            f"model {label}: must give {classes} numbers for an example, one for each class, got"
            f" shape {tuple(said.shape)} for two examples{when}"
        )


models: Registry[Model] = Registry("model", "build")
models.wrap_objects(_wrap)


@models.register("mlp")
@dataclass(frozen=True)
class Mlp:
    """Fully connected: `layers` hidden layers of `hidden` units."""

    hidden: Annotated[int, Field(ge=1, le=65536)] = 64
    """Units of a hidden layer."""
    layers: Annotated[int, Field(ge=1, le=100)] = 1
    """Hidden layers."""

    def build(self, shape: Shape, classes: int) -> nn.Module:
        sizes = [int(torch.Size(shape).numel())] + [self.hidden] * self.layers
        body = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
        return nn.Sequential(nn.Flatten(), *body, nn.Linear(self.hidden, classes))


def _conv_net(
    shape: Shape, name: str, convs: list[nn.Module], dense: tuple[int, ...], classes: int
) -> nn.Module:
    """Convolutions, then fully connected layers with ReLU between them; sizes are found by a dry
    run."""
    if len(shape) != 3:
        raise ConfigError(
            f"model {name}: needs images (channels, height, width), got examples of shape {shape}"
        )
    trunk = nn.Sequential(*convs, nn.Flatten())
    try:
        with torch.no_grad():
            width = trunk(torch.zeros(1, *shape)).shape[1]
    except RuntimeError:
        width = 0
    if width == 0:
        raise ConfigError(
            f"model {name}: images of {shape[1]}x{shape[2]} are too small for it; use model=mlp"
        )
    sizes = [width, *dense]
    hidden = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(trunk, *hidden, nn.Linear(sizes[-1], classes))


def _block(channels_in: int, channels: int, kernel: int, padding: int = 0) -> list[nn.Module]:
    """Pooling before ReLU: the same values and gradients, on a quarter of the numbers."""
    return [nn.Conv2d(channels_in, channels, kernel, padding=padding), nn.MaxPool2d(2), nn.ReLU()]


@models.register("fashion_cnn2")
@dataclass(frozen=True)
class FashionCnn2:
    """The two-layer CNN for FashionMNIST: conv 3x3 16 and 32 with pooling, one hidden layer of
    64."""

    def build(self, shape: Shape, classes: int) -> nn.Module:
        return _conv_net(
            shape, "fashion_cnn2", [*_block(shape[0], 16, 3), *_block(16, 32, 3)], (64,), classes
        )


@models.register("fedavg_cnn")
@dataclass(frozen=True)
class FedAvgCnn:
    """The "four-layer CNN": conv 5x5 32 and 64 with pooling, one hidden layer of 512."""

    def build(self, shape: Shape, classes: int) -> nn.Module:
        return _conv_net(
            shape, "fedavg_cnn", [*_block(shape[0], 32, 5), *_block(32, 64, 5)], (512,), classes
        )


@models.register("dispfl_cnn")
@dataclass(frozen=True)
class DispflCnn:
    """DisPFL's CNN: conv 5x5 64 and 64 with pooling, hidden layers of 384 and 192; a cheap proxy
    layer."""

    def build(self, shape: Shape, classes: int) -> nn.Module:
        return _conv_net(
            shape, "dispfl_cnn", [*_block(shape[0], 64, 5), *_block(64, 64, 5)], (384, 192), classes
        )


@models.register("leaf_cnn")
@dataclass(frozen=True)
class LeafCnn:
    """LEAF's CNN for FEMNIST: conv 5x5 32 and 64 with padding and pooling, one hidden layer of
    2048."""

    def build(self, shape: Shape, classes: int) -> nn.Module:
        return _conv_net(
            shape,
            "leaf_cnn",
            [*_block(shape[0], 32, 5, 2), *_block(32, 64, 5, 2)],
            (2048,),
            classes,
        )


@models.register("femnist_small")
@dataclass(frozen=True)
class FemnistSmall:
    """A small net for FEMNIST: conv 3x3 32, 64, 64 each with pooling, one hidden layer of 128."""

    def build(self, shape: Shape, classes: int) -> nn.Module:
        convs = [*_block(shape[0], 32, 3, 1), *_block(32, 64, 3, 1), *_block(64, 64, 3, 1)]
        return _conv_net(shape, "femnist_small", convs, (128,), classes)


@models.register("cifar_small")
@dataclass(frozen=True)
class CifarSmall:
    """A small net for CIFAR on few cores: conv 4x4 24 and 2x2 48 over patches that do not overlap,
    a hidden layer of 64.

    Patches make its convolutions plain products, so that `engine.vectorise=on` trains many peers in
    one step.
    """

    def build(self, shape: Shape, classes: int) -> nn.Module:
        convs = [
            nn.Conv2d(shape[0], 24, 4, stride=4),
            nn.ReLU(),
            nn.Conv2d(24, 48, 2, stride=2),
            nn.ReLU(),
        ]
        return _conv_net(shape, "cifar_small", convs, (64,), classes)


@models.register("resnet18_gn")
@dataclass(frozen=True)
class ResNet18:
    """ResNet-18 for small images: 3x3 stem without pooling, GroupNorm with `groups` groups
    everywhere."""

    groups: Annotated[int, Field(ge=1)] = 32
    """Groups of every GroupNorm."""

    def build(self, shape: Shape, classes: int) -> nn.Module:
        from amity.learn.residual import BasicBlock

        if len(shape) != 3:
            raise ConfigError(
                f"model resnet18_gn: needs images (channels, height, width), got shape {shape}"
            )
        if 64 % self.groups:
            raise ConfigError(f"model resnet18_gn: groups must divide 64, got {self.groups}")
        stages: list[nn.Module] = []
        width = 64
        for channels, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            stages += [
                BasicBlock(width, channels, stride, self.groups),
                BasicBlock(channels, channels, 1, self.groups),
            ]
            width = channels
        stem = [
            nn.Conv2d(shape[0], 64, 3, 1, 1, bias=False),
            nn.GroupNorm(self.groups, 64),
            nn.ReLU(),
        ]
        return nn.Sequential(
            *stem, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes)
        )
