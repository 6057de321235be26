"""Datasets, and how they are split among peers. A file in this folder is found by itself."""

from amity.data.base import Dataset, build, datasets
from amity.data.partition import partitions, split
from amity.data.samples import PeerData, Pixels, Samples
from amity.data.shift import deal, shifts

__all__ = [
    "Dataset",
    "PeerData",
    "Pixels",
    "Samples",
    "build",
    "datasets",
    "deal",
    "partitions",
    "shifts",
    "split",
]
