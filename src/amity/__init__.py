"""Amity: decentralized federated learning in which every peer finds its friends.

Every name below loads its module when it is first used, so `import amity` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from amity._version import __version__

if TYPE_CHECKING:
    from amity.config import Config, load
    from amity.core import (
        START,
        Ask,
        Card,
        Decision,
        Fit,
        Gradient,
        Plan,
        Reference,
        Row,
        Share,
        Stats,
        View,
        chain,
        spread,
    )
    from amity.errors import AmityError
    from amity.lab.compare import Comparison, compare
    from amity.lab.run import Result, resume, run
    from amity.lab.sweep import sweep

_HOMES = {
    "amity.config": ("Config", "load"),
    "amity.core": (
        "START",
        "Ask",
        "Card",
        "Decision",
        "Fit",
        "Gradient",
        "Plan",
        "Reference",
        "Row",
        "Share",
        "Stats",
        "View",
        "chain",
        "spread",
    ),
    "amity.errors": ("AmityError",),
    "amity.lab.compare": ("Comparison", "compare"),
    "amity.lab.run": ("Result", "resume", "run"),
    "amity.lab.sweep": ("sweep",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "START",
    "AmityError",
    "Ask",
    "Card",
    "Comparison",
    "Config",
    "Decision",
    "Fit",
    "Gradient",
    "Plan",
    "Reference",
    "Result",
    "Row",
    "Share",
    "Stats",
    "View",
    "__version__",
    "chain",
    "compare",
    "load",
    "resume",
    "run",
    "spread",
    "sweep",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'amity' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
