r"""Per-example gradients, clipped and summed: the expensive half of DP-SGD.

    g = Σ_b c_b ∇F(w; x_b),     c_b = min(1, C / ‖∇F(w; x_b)‖)

`by_functions` is the plain version: one gradient an example, vectorised by torch.func. It works for
any module and is the oracle of the tests. `by_layers` is the fast one, for modules whose parameters
all belong to Linear, Conv2d and GroupNorm layers that are called once: a single backward pass gives
δ_b = ∂F/∂z_b at every layer's output, and with u_b what the layer read (for a convolution: its
patches) the gradient of its weights is δ_b u_bᵀ. Norms follow without writing it down,

    ‖δ_b u_bᵀ‖² = ‖δ_b‖²‖u_b‖²  (one position),     Σ (u_bᵀu_b) ∘ (δ_bᵀδ_b)  (a few positions),

and the weighted sum is one product. Both agree to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.func import grad_and_value, vmap
from torch.nn import functional as F

from amity.learn.feeding import fed_with

Named = dict[str, torch.Tensor]
Forward = Callable[[torch.Tensor], torch.Tensor]
Losses = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Of every example, from what the module gives and its answers."""
AT_ONCE = 8
"""Examples whose gradients are written down at a time: more would not stay in the cache."""


def factors(squares: torch.Tensor, clip: float) -> torch.Tensor:
    """c_b from squared norms; a clip of 0 bounds nothing."""
    if not clip:
        return torch.ones_like(squares)
    return (clip / squares.sqrt().clamp_min(1e-12)).clamp_max(1)


def by_functions(
    module: nn.Module,
    trained: Mapping[str, torch.Tensor],
    losses_of: Losses,
    x: Any,
    y: torch.Tensor,
    clip: float,
) -> tuple[Named, torch.Tensor]:
    """The clipped sum by name of parameter, and the losses, for any module."""

    def loss(parameters: Named, one: Any, label: torch.Tensor) -> torch.Tensor:
        z = fed_with(module, parameters, one[None])
        return losses_of(z.float(), label[None]).sum()

    each = vmap(grad_and_value(loss), in_dims=(None, 0, 0), randomness="different")
    values = {name: parameter.detach() for name, parameter in trained.items()}
    total = {name: torch.zeros_like(value) for name, value in values.items()}
    losses = []
    for part in torch.split(torch.arange(len(x)), AT_ONCE):
        found, loss_b = each(values, x[part], y[part])
        squares = torch.stack([g.flatten(1).square().sum(1) for g in found.values()]).sum(0)
        c = factors(squares, clip)
        for name, g in found.items():
            total[name] += (c @ g.flatten(1)).view(total[name].shape)
        losses.append(loss_b)
    return total, torch.cat(losses) if losses else torch.zeros(0, device=y.device)


def by_layers(
    module: nn.Module,
    trained: Mapping[str, torch.Tensor],
    forward: Forward,
    losses_of: Losses,
    x: torch.Tensor,
    y: torch.Tensor,
    clip: float,
) -> tuple[Named, torch.Tensor] | None:
    """The same with one backward pass; None where the module has parts that it does not know."""
    layers = _layers(module, trained)
    if layers is None:
        return None
    with _watched(layers) as seen, torch.enable_grad():
        losses = losses_of(forward(x), y)
    if any(len(calls) != 1 for calls in seen.values()):
        return None
    if any(len(read) != len(x) or len(z) != len(x) for ((read, z, _),) in seen.values()):
        return None  # rows that are not examples: time or patches
    if any(z._version != version for ((_, z, version),) in seen.values()):
        return None  # altered in place after the layer: its gradient is no longer to be had
    outputs = [z for ((_, z, _),) in seen.values()]
    deltas = torch.autograd.grad(losses.sum(), outputs)
    with torch.no_grad():
        parts = [
            _Part(layers[name], calls[0][0], delta)
            for (name, calls), delta in zip(seen.items(), deltas, strict=True)
        ]
        c = factors(torch.stack([part.squares() for part in parts]).sum(0), clip)
        total = {
            f"{name}.{key}".lstrip("."): value
            for name, part in zip(seen, parts, strict=True)
            for key, value in part.weighted(c).items()
        }
    return total, losses.detach()


def agree(
    module: nn.Module,
    trained: Mapping[str, torch.Tensor],
    forward: Forward,
    losses_of: Losses,
    x: torch.Tensor,
    y: torch.Tensor,
) -> bool:
    """Whether the fast way gives what the plain one does: asked once for a module, which may be
    anybody's."""
    fast = by_layers(module, trained, forward, losses_of, x, y, 1.0)
    if fast is None:
        return False
    plain = by_functions(module, trained, losses_of, x, y, 1.0)
    return all(
        torch.allclose(fast[0][name], value, rtol=0.05, atol=1e-3)
        for name, value in plain[0].items()
    )


def _layers(module: nn.Module, trained: Mapping[str, Any]) -> dict[str, nn.Module] | None:
    """The layers that own these parameters, if all are of a kind that is known here."""
    names = {name.rpartition(".")[0] for name in trained}
    layers = {name: module.get_submodule(name) for name in sorted(names)}
    for name, layer in layers.items():
        own = {key for key, _ in layer.named_parameters()}
        if {f"{name}.{key}".lstrip(".") for key in own} - trained.keys() or own - {
            "weight",
            "bias",
        }:
            return None
        if type(layer) is nn.Conv2d:
            if layer.groups != 1 or layer.padding_mode != "zeros" or isinstance(layer.padding, str):
                return None
            if tuple(layer.dilation) != (1, 1):
                return None
        elif type(layer) not in (nn.Linear, nn.GroupNorm):
            return None
    return layers


@contextmanager
def _watched(
    layers: Mapping[str, nn.Module],
) -> Iterator[dict[str, list[tuple[torch.Tensor, torch.Tensor, int]]]]:
    """What each layer reads and says, as it is called."""
    seen: dict[str, list[tuple[torch.Tensor, torch.Tensor, int]]] = {name: [] for name in layers}

    def watch(name: str) -> Any:
        return layers[name].register_forward_hook(
            lambda _layer, read, z: seen[name].append((read[0].detach(), z, z._version))
        )

    handles = [watch(name) for name in layers]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


class _Part:
    """One layer's share of every example's gradient. B examples, L positions, O outputs, K numbers
    read at a position."""

    def __init__(self, layer: nn.Module, read: torch.Tensor, delta: torch.Tensor) -> None:
        self._layer, read, delta = layer, read.float(), delta.float()
        self._whole: torch.Tensor | None = None
        self._bias: torch.Tensor | None = None
        if isinstance(layer, nn.GroupNorm):
            count, channels = delta.shape[:2]
            bare = F.group_norm(read, layer.num_groups, eps=layer.eps)
            self._whole = (delta * bare).reshape(count, channels, -1).sum(2)
            self._bias = delta.reshape(count, channels, -1).sum(2)
            return
        if isinstance(layer, nn.Conv2d):
            self._u_BLK, delta = _patches(read, layer), delta.permute(0, 2, 3, 1)
        else:
            self._u_BLK = read.reshape(len(read), -1, read.shape[-1])
        self._d_BLO = delta.reshape(len(delta), -1, delta.shape[-1])
        if layer.bias is not None:
            self._bias = self._d_BLO.sum(1)
        _, places, numbers = self._u_BLK.shape
        outputs = self._d_BLO.shape[2]
        if places > 1 and places * (numbers + outputs) >= numbers * outputs:
            self._whole = torch.bmm(self._d_BLO.transpose(1, 2), self._u_BLK)

    def squares(self) -> torch.Tensor:
        bias = 0.0 if self._bias is None else _squares(self._bias)
        if self._whole is not None:
            return _squares(self._whole) + bias
        if self._u_BLK.shape[1] == 1:
            return _squares(self._u_BLK) * _squares(self._d_BLO) + bias
        inner = [torch.bmm(t, t.transpose(1, 2)) for t in (self._u_BLK, self._d_BLO)]
        return (inner[0] * inner[1]).sum((1, 2)).clamp_min(0) + bias

    def weighted(self, c: torch.Tensor) -> Named:
        """Σ_b c_b of this layer's gradients."""
        if self._whole is not None:
            weight = c @ self._whole.flatten(1)
        else:
            weight = (self._d_BLO * c[:, None, None]).flatten(0, 1).T @ self._u_BLK.flatten(0, 1)
        shape: Any = self._layer.weight.shape
        if isinstance(self._layer, nn.Conv2d):
            out, channels, height, width = shape
            weight = weight.view(out, height, width, channels).permute(0, 3, 1, 2)
        weight = weight.reshape(shape)
        return (
            {"weight": weight} if self._bias is None else {"weight": weight, "bias": c @ self._bias}
        )


def _squares(rows: torch.Tensor) -> torch.Tensor:
    """The squared norm of every example's numbers."""
    norms: torch.Tensor = torch.linalg.vector_norm(rows.flatten(1), dim=1)
    return norms.square()


def _patches(read: torch.Tensor, layer: nn.Conv2d) -> torch.Tensor:
    """What a convolution reads at each position, as (height, width, channels): with channels last,
    runs of memory."""
    down, right = (int(side) for side in layer.padding)
    x = F.pad(read, (right, right, down, down)) if down or right else read
    (high, wide), (below, beside) = layer.kernel_size, layer.stride
    windows: torch.Tensor = x.permute(0, 2, 3, 1).unfold(1, high, below).unfold(2, wide, beside)
    return windows.permute(0, 1, 2, 4, 5, 3).flatten(3).flatten(1, 2)
