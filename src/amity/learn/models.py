"""The paper's networks. GroupNorm only: an average of BatchNorm's running statistics fits nobody
whose inputs differ from the others' (docs/MODELS.md).

An entry is a frozen dataclass with `build(shape, classes)`. Any torch module can stand in its
place: `model=file.py:make` names a function `make(shape, classes)` that returns one, or a dataclass
like those below; in Python a function or a module may be passed itself. Its head and proxy layer
are found (the last Linear, the last layer before it) or named by `model.head=` and
`model.proxy_layer=`.
"""

from __future__ import annotations

import copy
from collections.abc import Sized
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Any, Protocol

from pydantic import Field

from amity.data.inputs import Shape, Shapes, Tokens, blank, described, kind_of
from amity.data.target import Target
from amity.errors import AmityError, ConfigError, brief, place_of
from amity.lazy import nn, torch
from amity.learn.freezing import counters_of, resting, statistics_of
from amity.registry import Registry

FITTING = {"table": "mlp", "series": "cnn1d", "tokens": "gru", "image": "fedavg_cnn"}
"""The model for each kind of input, where nobody says another."""


class Model(Protocol):
    def build(self, shape: Shapes, classes: int) -> nn.Module: ...


def misfit(name: str, wants: str, shape: Shapes) -> ConfigError:
    """That a model does not take such data, and what would."""
    kind = kind_of(shape)
    other = f"try model={FITTING[kind]}" if kind in FITTING else BY_NAME
    return ConfigError(f"model {name}: wants {wants}, this data is {described(shape)}; {other}")


BY_NAME = (
    "write a module whose forward takes them by name, as model=FILE.py:MAKE, a function of (shapes,"
    " classes)"
)


def _wrap(thing: Any) -> type[Model] | None:
    """A model out of a plain function of shape and classes, or out of a module that is there
    already. None for anything else."""
    if not callable(thing):
        return None
    there = copy.deepcopy(thing) if isinstance(thing, nn.Module) else None
    label = getattr(thing, "__name__", type(thing).__name__)

    @dataclass(frozen=True)
    class Made:
        def build(self, shape: Shapes, classes: int) -> nn.Module:
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


def build_module(label: str, model: Model, shape: Shapes, target: Target, own: bool) -> nn.Module:
    """The module of a model. One's own is tried on two made-up examples before anything runs."""
    try:
        module = _placed(label, model, target, own).build(shape, target.size)
    except AmityError:
        raise
    except Exception as error:  # anybody's code runs here
        raise ConfigError(
            f"model {label}: cannot be built ({brief(error)}{place_of(error)})"
        ) from None
    if not isinstance(module, nn.Module):
        raise ConfigError(f"model {label}: expected a torch module, got {type(module).__name__}")
    if own:
        return _tried(label, _fresh(module), shape, target)
    if target.places is not None:  # not every network of ours answers at every place
        _try(label, module.train(), shape, target)
    return module


def _placed(label: str, model: Model, target: Target, own: bool) -> Model:
    """One of ours for answers to whole examples, or to every place of a sequence."""
    causal = getattr(model, "causal", None)
    if own or (target.places is None and not causal):
        return model
    if target.places is None:
        raise ConfigError(
            f"model {label}: with causal=true it answers at every token, and the task wants one"
            " answer for an example; leave model.causal out"
        )
    if causal is None:
        raise ConfigError(
            f"model {label}: answers once for an example, and the task wants an answer at every"
            " token; try model=gru or model=transformer"
        )
    return replace(model, causal=True)  # type: ignore[type-var]


def _tried(label: str, module: nn.Module, shape: Shapes, target: Target) -> nn.Module:
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    for training in (True, False):
        _try(label, module.train(training), shape, target)
    gathered = {name for name, _ in statistics_of(module)}
    counts = {id(count) for count in counters_of(module)}
    for name, buffer in module.named_buffers():
        moved = buffer.shape != before[name].shape or not torch.equal(buffer, before[name])
        if moved and name not in gathered and id(buffer) not in counts and not _rests(module, name):
            raise ConfigError(
                f"model {label}: buffer {name!r} changes while it is used, which no peer could keep"
                " or average; make it constant, or a parameter (of buffers that move, only the"
                " running statistics of BatchNorm and InstanceNorm are known)"
            )
        with torch.no_grad():
            buffer.copy_(before[name])
    return module


def _rests(module: nn.Module, buffer: str) -> bool:
    """Whether a buffer lies in a part that is frozen, and so never trains."""
    owner = module.get_submodule(buffer.rpartition(".")[0])
    return any(owner is layer for part in resting(module) for layer in part.modules())


def _try(label: str, module: nn.Module, shape: Shapes, target: Target) -> None:
    """Whether a module gives as many numbers as its target has."""
    from amity.learn.feeding import fed

    try:
        with torch.no_grad():
            said: Any = fed(module, blank(shape, 2))
    except Exception as error:  # anybody's code runs here
        plain = f"examples of shape {shape}"
        what = plain if kind_of(shape) in ("table", "image", "array") else described(shape)
        raise ConfigError(
            f"model {label}: does not take {what} ({brief(error)}{place_of(error)})"
        ) from None
    when = " while it trains" if module.training else ""
    if not isinstance(said, torch.Tensor):
        parts = f"{len(said)} outputs, a " if isinstance(said, Sized) else "a "
        raise ConfigError(
            f"model {label}: gives {parts}{type(said).__name__}{when}; expected one tensor, with"
            f" {target.size} numbers for an example: return the scores of the classes alone"
        )
    if tuple(said.shape) != (2, *target.shape):
        raise ConfigError(
            f"model {label}: must give {_wanted(target)}, got shape {tuple(said.shape)} for two"
            f" examples{when}"
        )


def _wanted(target: Target) -> str:
    """What a module should give for an example."""
    if target.places is not None:
        return (
            f"{target.size} numbers, one for each token, at each of {target.places} places of an"
            " example (of ours, gru and transformer do with model.causal=true)"
        )
    if target.mean:
        return f"{target.size} number{'s' * (target.size > 1)} for an example, its prediction"
    return f"{target.size} numbers for an example, one for each class"


models: Registry[Model] = Registry("model", "build", home="amity.learn.nets")
models.wrap_objects(_wrap)


@models.register("mlp")
@dataclass(frozen=True)
class Mlp:
    """Fully connected: `layers` hidden layers of `hidden` units."""

    hidden: Annotated[int, Field(ge=1, le=65536)] = 64
    """Units of a hidden layer."""
    layers: Annotated[int, Field(ge=1, le=100)] = 1
    """Hidden layers."""

    def build(self, shape: Shapes, classes: int) -> nn.Module:
        if not isinstance(shape, tuple) or isinstance(shape, Tokens):
            raise misfit("mlp", "one input of numbers", shape)
        sizes = [int(torch.Size(shape).numel())] + [self.hidden] * self.layers
        body = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
        return nn.Sequential(nn.Flatten(), *body, nn.Linear(self.hidden, classes))


def _conv_net(
    shape: Shape, name: str, convs: list[nn.Module], dense: tuple[int, ...], classes: int
) -> nn.Module:
    """Convolutions, then fully connected layers with ReLU between them; sizes are found by a dry
    run."""
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


def _image(name: str, shape: Shapes) -> Shape:
    """Channels, height, width; anything else is refused."""
    if not isinstance(shape, tuple) or len(shape) != 3:
        raise misfit(name, "images (channels, height, width)", shape)
    return shape


def _block(channels_in: int, channels: int, kernel: int, padding: int = 0) -> list[nn.Module]:
    """Pooling before ReLU: the same values and gradients, on a quarter of the numbers."""
    return [nn.Conv2d(channels_in, channels, kernel, padding=padding), nn.MaxPool2d(2), nn.ReLU()]


@models.register("fashion_cnn2")
@dataclass(frozen=True)
class FashionCnn2:
    """The two-layer CNN for FashionMNIST: conv 3x3 16 and 32 with pooling, one hidden layer of
    64."""

    def build(self, shape: Shapes, classes: int) -> nn.Module:
        shape = _image("fashion_cnn2", shape)
        return _conv_net(
            shape, "fashion_cnn2", [*_block(shape[0], 16, 3), *_block(16, 32, 3)], (64,), classes
        )


@models.register("fedavg_cnn")
@dataclass(frozen=True)
class FedAvgCnn:
    """The "four-layer CNN": conv 5x5 32 and 64 with pooling, one hidden layer of 512."""

    def build(self, shape: Shapes, classes: int) -> nn.Module:
        shape = _image("fedavg_cnn", shape)
        return _conv_net(
            shape, "fedavg_cnn", [*_block(shape[0], 32, 5), *_block(32, 64, 5)], (512,), classes
        )


@models.register("dispfl_cnn")
@dataclass(frozen=True)
class DispflCnn:
    """DisPFL's CNN: conv 5x5 64 and 64 with pooling, hidden layers of 384 and 192; a cheap proxy
    layer."""

    def build(self, shape: Shapes, classes: int) -> nn.Module:
        shape = _image("dispfl_cnn", shape)
        return _conv_net(
            shape, "dispfl_cnn", [*_block(shape[0], 64, 5), *_block(64, 64, 5)], (384, 192), classes
        )


@models.register("leaf_cnn")
@dataclass(frozen=True)
class LeafCnn:
    """LEAF's CNN for FEMNIST: conv 5x5 32 and 64 with padding and pooling, one hidden layer of
    2048."""

    def build(self, shape: Shapes, classes: int) -> nn.Module:
        shape = _image("leaf_cnn", shape)
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

    def build(self, shape: Shapes, classes: int) -> nn.Module:
        shape = _image("femnist_small", shape)
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

    def build(self, shape: Shapes, classes: int) -> nn.Module:
        shape = _image("cifar_small", shape)
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

    def build(self, shape: Shapes, classes: int) -> nn.Module:
        from amity.learn.residual import BasicBlock

        shape = _image("resnet18_gn", shape)
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
