"""What is frozen of a module: parameters that no peer trains, and buffers that never move.

They exist once for all peers, never travel, and stand in no card, checkpoint or distance. A part of
which all parameters are frozen runs as it would in use, also while the rest trains: no dropout, and
BatchNorm keeps the statistics that it has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from amity.errors import ConfigError
from amity.lazy import nn, torch

if TYPE_CHECKING:
    from amity.learn.layout import Layout

STATISTICS = ("running_mean", "running_var")
NAMES = 12
"""Names that an error lists at most."""


def names_said(names: list[str]) -> str:
    """Some names, and how many there are beyond."""
    more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
    return ", ".join(names[:NAMES]) + more


def freeze(module: nn.Module, patterns: str) -> None:
    """Freeze the parameters whose names match one of some patterns, such as `body.*,embed*`."""
    named = dict(module.named_parameters())
    for pattern in (part.strip() for part in patterns.split(",")):
        found = [name for name in named if fnmatchcase(name, pattern)]
        if pattern and not found:
            raise ConfigError(
                f"model.freeze: {pattern!r} matches no parameter; the names are"
                f" {names_said(list(named))} (a * stands for anything)"
            )
        for name in found:
            named[name].requires_grad_(False)


def without_all(module: nn.Module) -> bool:
    """Whether a module has no parameter that is trained."""
    return not any(p.requires_grad for p in module.parameters())


def resting(module: nn.Module) -> list[nn.Module]:
    """The largest parts that have parameters, none of which is trained: they never train."""
    own = list(module.parameters())
    if own and without_all(module):
        return [module]
    return [part for child in module.children() for part in resting(child)]


def statistics_of(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """The buffers that move while a module trains: running statistics of layers that do not
    rest."""
    still = {id(layer) for part in resting(module) for layer in part.modules()}
    for prefix, layer in module.named_modules():
        if id(layer) in still or not isinstance(layer, nn.modules.batchnorm._NormBase):
            continue
        for name in STATISTICS:
            if (buffer := getattr(layer, name)) is not None:
                yield f"{prefix}.{name}".lstrip("."), buffer


def counters_of(module: nn.Module) -> list[torch.Tensor]:
    """What counts the batches of these layers."""
    layers = (m for m in module.modules() if isinstance(m, nn.modules.batchnorm._NormBase))
    return [count for m in layers if (count := m.num_batches_tracked) is not None]


def frozen_of(module: nn.Module, layout: Layout) -> dict[str, torch.Tensor]:
    """What all peers have alike, by name: frozen parameters, and buffers that never move, if they
    are saved with the module at all."""
    parameters = dict(module.named_parameters())
    moving = {slot.name for slot in layout.statistics}
    buffers = {name: buffer for name, buffer in saved_buffers(module) if name not in moving}
    return {name: parameters[name] for name in layout.frozen} | buffers


def saved_buffers(module: nn.Module) -> list[tuple[str, torch.Tensor]]:
    """The buffers that belong to a saved model; what counts batches is of no use to anybody."""
    saved = module.state_dict(keep_vars=True)
    counted = {id(count) for count in counters_of(module)}
    named = module.named_buffers()
    return [(name, buffer) for name, buffer in named if name in saved and id(buffer) not in counted]


def digest_of(frozen: Mapping[str, torch.Tensor]) -> str:
    """The SHA-256 of what all peers must have alike; empty if there is nothing."""
    digest = hashlib.sha256()
    for name in sorted(frozen):
        tensor = frozen[name].detach().cpu().contiguous()
        digest.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest() if frozen else ""
