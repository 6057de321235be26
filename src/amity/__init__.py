"""Amity: decentralized federated learning in which every peer finds its friends."""

from amity._version import __version__
from amity.compare import Comparison, compare
from amity.config import Config, load
from amity.core import START, Ask, Card, Decision, Fit, Gradient, Plan, Reference, Row, Share, Stats, View, chain, spread
from amity.errors import AmityError
from amity.run import Result, resume, run
from amity.sweep import sweep

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
