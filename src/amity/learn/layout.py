"""A module's parameters as one flat vector: [ rest of the body | proxy layer | head ].

With this order the body, the head and the paper's proxy layer are plain slices of theta. The head β
is the last Linear layer and the proxy layer the last Linear or convolution before it, unless they
are named.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from amity.errors import ConfigError, unknown
from amity.lazy import nn, torch


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
    size: int
    """P, the number of parameters."""
    proxy: slice
    body: slice
    head: slice
    head_name: str
    proxy_name: str

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
        return slice(0, self.size)


def layout_of(module: nn.Module, head: str = "", proxy_layer: str = "") -> Layout:
    """Read the layout of a module; empty names mean: find them."""
    _refuse_buffers(module)
    head, proxy_layer = _find(module, head, proxy_layer)

    def part(name: str) -> int:
        inside = [name == layer or name.startswith(layer + ".") for layer in (head, proxy_layer)]
        return 2 if inside[0] else 1 if inside[1] else 0

    named = sorted(module.named_parameters(), key=lambda item: part(item[0]))
    slots, at, ends = [], 0, [0, 0, 0]
    for name, parameter in named:
        slots.append(Slot(name, at, tuple(parameter.shape)))
        at += parameter.numel()
        ends[part(name)] = at
    rest, proxy = ends[0], max(ends[0], ends[1])
    return Layout(
        tuple(slots), at, slice(rest, proxy), slice(0, proxy), slice(proxy, at), head, proxy_layer
    )


def _find(module: nn.Module, head: str, proxy_layer: str) -> tuple[str, str]:
    named = {name: layer for name, layer in module.named_modules() if name}
    for key, name in (("model.head", head), ("model.proxy_layer", proxy_layer)):
        if name and name not in named:
            raise ConfigError(f"{key}: {unknown('layer', name, named)}")
    layers = [
        name
        for name, layer in named.items()
        if isinstance(layer, (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d))
    ]
    if not head:
        linear = [name for name in layers if isinstance(named[name], nn.Linear)]
        if not linear:
            raise ConfigError(
                "model: no Linear layer that could be the head; name it with model.head=LAYER, or"
                " put a single layer into nn.Sequential(...)"
            )
        head = linear[-1]
    if not proxy_layer:
        before = [name for name in layers if name != head and not name.startswith(head + ".")]
        if not before:
            raise ConfigError(
                "model: no layer before the head; name one with model.proxy_layer=LAYER"
            )
        proxy_layer = before[-1]
    if proxy_layer == head:
        raise ConfigError(
            f"model: head and proxy layer are both {head!r}; the proxy must be a layer of the body"
        )
    return head, proxy_layer


def _refuse_buffers(module: nn.Module) -> None:
    for name, buffer in module.named_buffers():
        raise ConfigError(
            f"model: buffer {name!r} ({tuple(buffer.shape)}) is state that peers cannot average; "
            "use GroupNorm instead of BatchNorm"
        )
