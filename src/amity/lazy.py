"""Heavy libraries that load when they are first used, so that `amity --help` answers at once.

`from amity.lazy import torch` stands where `import torch` would, in every module that the config
reads (strategies, methods, data and so on). Modules of the hot path import torch itself.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any


def public_name(module: str, homes: Mapping[str, str], name: str) -> Any:
    """For the `__getattr__` of a package: a name that stands in another module, loaded when it is
    first asked for and kept from then on."""
    if name not in homes:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(homes[name]), name)
    setattr(sys.modules[module], name, value)
    return value


if TYPE_CHECKING:
    import networkx as networkx
    import pooch as pooch
    import requests as requests
    import torch as torch
    from torch import nn as nn
else:

    class _Later:
        """A module that is imported when one of its names is asked for."""

        def __init__(self, name: str) -> None:
            self.__name = name

        def __getattr__(self, name: str) -> Any:
            value = getattr(importlib.import_module(self.__name), name)
            setattr(self, name, value)  # the next look-up is an ordinary one
            return value

    networkx = _Later("networkx")
    nn = _Later("torch.nn")
    pooch = _Later("pooch")
    requests = _Later("requests")
    torch = _Later("torch")
