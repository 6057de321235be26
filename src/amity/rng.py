"""Randomness as a pure function of names.

`rng(seed, "train", round, peer)` is the same generator wherever and whenever it is asked for. No generator state is
ever stored, so a run that was killed and resumed draws what an uninterrupted one draws, whatever the order of peers.
"""

from __future__ import annotations

import hashlib

import numpy as np


def rng(seed: int, *names: str | int) -> np.random.Generator:
    """The generator that belongs to these names; two different lists of names give independent streams."""
    digest = hashlib.blake2b(repr((seed, *names)).encode(), digest_size=16).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "little")))
