"""Neighbour-selection strategies, one file each: a file in this folder is found by itself."""

from amity.strategies.registry import strategies

__all__ = ["strategies"]
