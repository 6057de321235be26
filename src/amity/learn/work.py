"""How much a module computes, counted while it runs once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

PRODUCTS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


@torch.no_grad()
def multiplications(module: nn.Module, run: Callable[[], Any]) -> int:
    """Of one forward pass, in layers that multiply matrices: those of a recurrent layer at every
    place of a sequence. What a module multiplies by other means is not seen."""
    total = 0

    def product(layer: Any, _inputs: Any, output: torch.Tensor) -> None:
        nonlocal total
        total += output.numel() // layer.weight.shape[0] * layer.weight.numel()

    def sequence(layer: Any, _inputs: Any, output: Any) -> None:
        nonlocal total
        steps = output[0].numel() // output[0].shape[-1]
        total += steps * sum(p.numel() for p in layer.parameters() if p.dim() > 1)

    kinds = ((PRODUCTS, product), (nn.RNNBase, sequence))
    hooks = [
        layer.register_forward_hook(hook)
        for layer in module.modules()
        for kind, hook in kinds
        if isinstance(layer, kind)
    ]
    try:
        run()
    finally:
        for hook in hooks:
            hook.remove()
    return total
