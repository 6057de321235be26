"""Heavy libraries that load when they are first used, so that `amity --help` answers at once.

`from amity.lazy import torch` stands where `import torch` would, in every module that the config
reads (strategies, methods, data and so on). Modules of the hot path import torch itself.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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
