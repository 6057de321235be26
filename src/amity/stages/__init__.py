"""Stages: strategies that take a row and return a better one, as in `stages=fomo,lossgate`."""

from amity.stages.registry import GUARD, stages

__all__ = ["GUARD", "stages"]
