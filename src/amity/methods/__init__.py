"""Personalisation methods, one file each: five verbs (see `amity.core.Method`)."""

from amity.methods.registry import methods

__all__ = ["methods"]
