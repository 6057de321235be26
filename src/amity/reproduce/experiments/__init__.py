"""The experiments, one file each: a file in this folder is found by itself, and its name is the
experiment's."""

import pkgutil

NAMES = tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))
"""What `amity reproduce` can make, told without loading any of it."""
