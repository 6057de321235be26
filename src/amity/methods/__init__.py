"""Personalisation methods, one file each: five verbs (see `amity.core.Method`)."""

from amity.methods.registry import methods

# Importing a module registers its methods.
from amity.methods import dispfl, ditto, finetune, head  # noqa: F401  isort: skip

__all__ = ["methods"]
