"""Datasets, and how they are split among peers."""

from amity.data.base import Dataset, build, datasets
from amity.data.partition import partitions, split

# Importing a module registers its datasets or partitions.
from amity.data import cifar, deals, digits, fashionmnist, femnist, own, synthetic  # noqa: F401  isort: skip

__all__ = ["Dataset", "build", "datasets", "partitions", "split"]
