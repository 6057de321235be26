"""What peers train of a module as one flat vector theta: [ statistics | rest of the body | proxy
layer | head ].

With this order the body, the head and the paper's proxy layer are plain slices of theta. The head β
is the last Linear layer (or the layers that are named), and the proxy layer the last Linear or
convolution before it that is trained. What is frozen is not in theta: there is one copy for all
peers. Statistics are what normalisation layers gather while they train (BatchNorm's running mean
and variance): they travel with the model and are averaged as it is, but no gradient reaches them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from amity.errors import ConfigError, unknown
from amity.lazy import nn, torch
from amity.learn.freezing import statistics_of, without_all


@dataclass(frozen=True)
class Slot:
    """Where one named parameter lies in theta."""

    name: str
    start: int
    shape: tuple[int, ...]

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    def of(self, theta: torch.Tensor) -> torch.Tensor:
        """This parameter within theta (a view), or within many thetas, one a row."""
        return theta[..., self.start : self.start + self.numel].view(*theta.shape[:-1], *self.shape)


@dataclass(frozen=True)
class Layout:
    slots: tuple[Slot, ...]
    """Parameters that are trained."""
    size: int
    """P, the length of theta."""
    proxy: slice
    body: slice
    head: slice
    heads: tuple[str, ...]
    """Names of the layers that are the head."""
    proxy_name: str
    statistics: tuple[Slot, ...] = ()
    """Buffers that move while the module trains."""
    frozen: tuple[str, ...] = ()
    """Parameters that are not trained."""

    @property
    def head_name(self) -> str:
        """As `model.head` names it."""
        return ",".join(self.heads)

    def within(self, part: slice) -> list[Slot]:
        """The parameters that lie in a part."""
        return [slot for slot in self.slots if part.start <= slot.start < part.stop]

    def span(self, part: slice) -> slice:
        """From the first of them to the end of the last."""
        inside = self.within(part)
        if not inside:
            return slice(part.start, part.start)
        return slice(inside[0].start, inside[-1].start + inside[-1].numel)

    def spread(self, part: slice) -> list[Slot]:
        """Where they lie in a vector over their span."""
        start = self.span(part).start
        return [replace(slot, start=slot.start - start) for slot in self.within(part)]

    @property
    def everything(self) -> slice:
        """All that is trained: without the statistics, which no gradient reaches."""
        return slice(sum(slot.numel for slot in self.statistics), self.size)

    @property
    def shown(self) -> slice:
        """What stands for the body on cards: all that is trained, where nothing of the body is."""
        return self.body if self.body.stop > self.body.start else self.everything


def layout_of(module: nn.Module, head: str = "", proxy_layer: str = "") -> Layout:
    """Read the layout of a module; empty names mean: find them. Parameters with
    `requires_grad=False` are frozen."""
    trained = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
    frozen = tuple(name for name, p in module.named_parameters() if not p.requires_grad)
    if not trained:
        raise ConfigError(nothing_to_train(len(frozen)))
    heads, proxy_layer = _find(module, head, proxy_layer)

    def part(name: str) -> int:
        if _inside(name, heads):
            return 2
        return 1 if _inside(name, [proxy_layer]) else 0

    statistics, at = [], 0
    for name, buffer in statistics_of(module):
        statistics.append(Slot(name, at, tuple(buffer.shape)))
        at += buffer.numel()
    slots, first, ends = list[Slot](), at, [at, at, at]
    for name, parameter in sorted(trained, key=lambda item: part(item[0])):
        slots.append(Slot(name, at, tuple(parameter.shape)))
        at += parameter.numel()
        ends[part(name)] = at
    rest, proxy = ends[0], max(ends[0], ends[1])
    return Layout(
        slots=tuple(slots),
        size=at,
        proxy=slice(rest, proxy) if proxy > rest else _stand_in(first, proxy, at),
        body=slice(first, proxy),
        head=slice(proxy, at),
        heads=heads,
        proxy_name=proxy_layer,
        statistics=tuple(statistics),
        frozen=frozen,
    )


def nothing_to_train(frozen: int) -> str:
    """What is said of a model without a parameter that could be trained."""
    return (
        f"model: nothing is left to train, as all of its {frozen} parameters are frozen; leave some"
        " out of model.freeze, or set requires_grad_(True) on the layers that shall learn"
        if frozen
        else "model: has no parameters, so there is nothing to train"
    )


def _stand_in(first: int, proxy: int, end: int) -> slice:
    """What is shown instead of a proxy layer of which nothing is trained: the body, or else the
    head."""
    return slice(first, proxy) if proxy > first else slice(proxy, end)


def _inside(name: str, layers: Sequence[str]) -> bool:
    return any(name == layer or name.startswith(layer + ".") for layer in layers)


def _find(module: nn.Module, head: str, proxy_layer: str) -> tuple[tuple[str, ...], str]:
    named = {name: layer for name, layer in module.named_modules() if name}
    heads = tuple(name.strip() for name in head.split(",") if name.strip())
    for key, names in (("model.head", heads), ("model.proxy_layer", (proxy_layer,))):
        for name in names:
            if name and name not in named:
                raise ConfigError(f"{key}: {unknown('layer', name, named)}")
    kinds = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
    layers = [name for name, layer in named.items() if isinstance(layer, kinds)]
    if not heads:
        linear = [name for name in layers if isinstance(named[name], nn.Linear)]
        if not linear:
            raise ConfigError(
                "model: no Linear layer that could be the head; name it with model.head=LAYER, or"
                " put a single layer into nn.Sequential(...)"
            )
        heads = (linear[-1],)
    if not proxy_layer:
        before = [name for name in layers if not _inside(name, heads)]
        if not before:
            raise ConfigError(
                "model: no layer before the head; name one with model.proxy_layer=LAYER"
            )
        moving = [name for name in before if not without_all(named[name])]
        proxy_layer = (moving or before)[-1]
    if _inside(proxy_layer, heads):
        raise ConfigError(
            f"model: head and proxy layer are both {proxy_layer!r}; the proxy must be a layer of"
            " the body"
        )
    return heads, proxy_layer
