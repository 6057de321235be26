"""Neighbour-selection strategies, one file each."""

from amity.strategies.registry import strategies

# Importing a module registers its strategies.
from amity.strategies import afind, fedavg, federico, fomo, gossip, local, oracle, pens  # noqa: F401  isort: skip

__all__ = ["strategies"]
