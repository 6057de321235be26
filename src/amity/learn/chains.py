"""Chains of layers, for G peers at once: forward, and gradients written out by hand.

A chain is a plain sequence of Linear, convolutions over patches that do not overlap, and
elementwise layers. Each of the first two is one batched product.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

ELEMENTWISE = (nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.ELU, nn.LeakyReLU, nn.Identity)
PRODUCTS = (nn.Linear, nn.Conv2d)
ChainLayers = list[tuple[str, nn.Module]]
"""Layers of a chain, with their names."""


def _is_patch(layer: nn.Module) -> bool:
    """Whether a convolution looks at patches that do not overlap, so that it is a product after
    moving numbers around."""
    return (
        type(layer) is nn.Conv2d
        and layer.stride == layer.kernel_size
        and (layer.padding, layer.dilation, layer.groups) == ((0, 0), (1, 1), 1)
    )


def _is_flat(layer: nn.Module) -> bool:
    """Whether it makes one row of every example."""
    return type(layer) is nn.Flatten and (layer.start_dim, layer.end_dim) == (1, -1)


def _grid(x: torch.Tensor, layer: nn.Conv2d) -> tuple[int, int, int, int]:
    """Rows and columns of patches, and the height and width of one."""
    high, wide = layer.kernel_size
    return x.shape[3] // high, x.shape[4] // wide, high, wide


def _matrix(weight: torch.Tensor) -> torch.Tensor:
    """G x out x in; a convolution's in the order (height, width, channel), in which images lie in
    memory here."""
    return weight if weight.dim() == 3 else weight.permute(0, 1, 3, 4, 2).flatten(2)


def _unmatrix(matrix: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Back into the weight's own shape."""
    if weight.dim() == 3:
        return matrix
    g, out, channels, high, wide = weight.shape
    return matrix.view(g, out, high, wide, channels).permute(0, 1, 4, 2, 3).contiguous()


def _patches(x: torch.Tensor, layer: nn.Conv2d) -> torch.Tensor:
    """Images G x B x C x H x W as G x (B · patches) x (patch); a margin that no patch covers is
    left out."""
    rows, columns, high, wide = _grid(x, layer)
    last = x.permute(0, 1, 3, 4, 2)[:, :, : rows * high, : columns * wide]
    cut = last.reshape(len(x), x.shape[1], rows, high, columns, wide, x.shape[2])
    return cut.transpose(3, 4).flatten(4).flatten(1, 3)


def _images(z: torch.Tensor, x: torch.Tensor, layer: nn.Conv2d) -> torch.Tensor:
    """What a convolution of x yields, a row a patch, as images G x B x channels x rows x
    columns."""
    rows, columns, _, _ = _grid(x, layer)
    return z.view(len(x), x.shape[1], rows, columns, -1).permute(0, 1, 4, 2, 3)


def _unpatched(delta: torch.Tensor, x: torch.Tensor, layer: nn.Conv2d) -> torch.Tensor:
    """The derivative by x from that by its patches; a margin has none."""
    rows, columns, high, wide = _grid(x, layer)
    cut = delta.view(len(x), x.shape[1], rows, columns, high, wide, x.shape[2]).transpose(3, 4)
    whole = cut.flatten(4, 5).flatten(2, 3)
    margin = (0, 0, 0, x.shape[4] - columns * wide, 0, x.shape[3] - rows * high)
    return (F.pad(whole, margin) if any(margin) else whole).permute(0, 1, 4, 2, 3)


def chain_of(module: nn.Module, prefix: str = "") -> ChainLayers | None:
    """The layers of a plain chain of Linear, patch convolutions and elementwise layers, with their
    names; else None."""
    if type(module) is not nn.Sequential:
        return None
    layers: ChainLayers = []
    for name, layer in module.named_children():
        inner = chain_of(layer, f"{prefix}{name}.") if type(layer) is nn.Sequential else None
        if inner is not None:
            layers += inner
        elif type(layer) in (nn.Linear, *ELEMENTWISE) or _is_patch(layer) or _is_flat(layer):
            layers.append((prefix + name, layer))
        else:
            return None
    return layers


def _affine(bias: torch.Tensor, a: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.baddbmm(bias[:, None], a, weight)


def run_chain(
    layers: ChainLayers, parameters: dict[str, torch.Tensor], x: torch.Tensor
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """What goes into each layer of a chain, and last what comes out; and the matrix that each
    multiplies."""
    seen, factors = [x], []
    for name, layer in layers:
        factors.append(x)
        if isinstance(layer, nn.Flatten):
            x = x.flatten(2)
        elif isinstance(layer, PRODUCTS):
            bias = parameters.get(f"{name}.bias")
            weight = _matrix(parameters[f"{name}.weight"]).transpose(1, 2)
            factors[-1] = a = _patches(x, layer) if isinstance(layer, nn.Conv2d) else x
            z = torch.bmm(a, weight) if bias is None else _affine(bias, a, weight)
            x = _images(z, x, layer) if isinstance(layer, nn.Conv2d) else z
        else:
            x = layer(x)
        seen.append(x)
    return seen, factors


@torch.no_grad()
def gradients_of(
    layers: ChainLayers,
    parameters: dict[str, torch.Tensor],
    x: torch.Tensor,
    slopes: Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]],
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    r"""Losses of G peers and the gradients of a chain of Linear, patch convolutions and ReLU,
    written out: a third of autograd's time.

    With z = a Wᵀ + b,  δ = ∂loss/∂z:   ∂W = δᵀ a,  ∂b = Σ δ,  ∂a = δ W;  ReLU lets δ through
    where its output is > 0; at the top the task gives δ (`slopes`).
    """
    seen, factors = run_chain(layers, parameters, x)
    each, delta = slopes(seen[-1])
    gradients: dict[str, torch.Tensor] = {}
    first = next(at for at, (_, layer) in enumerate(layers) if isinstance(layer, PRODUCTS))
    for at in range(len(layers) - 1, first - 1, -1):
        name, layer = layers[at]
        if isinstance(layer, PRODUCTS):
            matrix = parameters[f"{name}.weight"]
            if isinstance(layer, nn.Conv2d):
                delta = delta.permute(0, 1, 3, 4, 2).flatten(1, 3)
            product = torch.bmm(delta.transpose(1, 2), factors[at])
            gradients[f"{name}.weight"] = _unmatrix(product, matrix)
            gradients[f"{name}.bias"] = delta.sum(1)
            if at > first:
                delta = torch.bmm(delta, _matrix(matrix))
                delta = (
                    _unpatched(delta, seen[at], layer) if isinstance(layer, nn.Conv2d) else delta
                )
        elif isinstance(layer, nn.ReLU):
            delta = delta * (seen[at] > 0)
        else:
            delta = delta.view(seen[at].shape)
    return each, gradients


def by_hand(layers: ChainLayers | None) -> bool:
    """Whether `gradients_of` knows all layers of a chain."""
    kinds = (nn.Flatten, nn.ReLU, *PRODUCTS)
    return layers is not None and all(isinstance(layer, kinds) for _, layer in layers)
