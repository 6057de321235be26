"""Inputs into a module: one tensor, or several by the names that its `forward` gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.func import functional_call
from torch.utils import _pytree

from amity.data.inputs import Several

_pytree.register_pytree_node(  # so that torch.func sees the tensors inside
    Several,
    lambda x: (list(x.parts.values()), tuple(x.parts)),
    lambda parts, names: Several(dict(zip(names, parts, strict=True))),
)


def fed(module: nn.Module, x: Any) -> torch.Tensor:
    """What a module says."""
    said: torch.Tensor = module(**x.parts) if isinstance(x, Several) else module(x)
    return said


def fed_with(module: nn.Module, parameters: Mapping[str, torch.Tensor], x: Any) -> torch.Tensor:
    """What it says with other parameters."""
    args, named = ((), dict(x.parts)) if isinstance(x, Several) else ((x,), {})
    said: torch.Tensor = functional_call(module, dict(parameters), args, named)
    return said


def channels_last(x: torch.Tensor) -> torch.Tensor:
    """Images as convolutions like them; anything else as it is."""
    return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x
