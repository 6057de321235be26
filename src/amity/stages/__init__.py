"""Stages: strategies that take a row and return a better one. `strategy=gossip stages=fomo,lossgate`."""

from amity.stages.registry import stages

# Importing a module registers its stages.
from amity.stages import fomo, krum, lossgate, normclip, simgate  # noqa: F401  isort: skip

__all__ = ["stages"]
