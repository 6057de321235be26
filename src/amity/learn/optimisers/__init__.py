"""Optimisers, one file each: how a gradient becomes a step (see `registry.Optimiser`)."""

from amity.learn.optimisers.registry import Optimiser, optimisers

__all__ = ["Optimiser", "optimisers"]
