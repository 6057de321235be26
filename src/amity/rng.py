"""Randomness as a pure function of names.

`rng(seed, "train", round, peer)` is the same generator wherever and whenever it is asked for. No
generator state is ever stored, so a run that was killed and resumed draws what an uninterrupted one
draws, whatever the order of peers.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISpawnableSeedSequence


class _Named(ISpawnableSeedSequence):
    """Seeds straight from a hash of names: what numpy's own seeding would mix is mixed already."""

    def __init__(self, names: tuple[str | int, ...]) -> None:
        self._names = repr(names).encode()

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> np.ndarray[Any, Any]:
        return np.frombuffer(
            hashlib.blake2b(self._names, digest_size=n_words * np.dtype(dtype).itemsize).digest(),
            dtype,
        )

    def spawn(self, n_children: int) -> list[_Named]:
        """Seeds of streams that depend on mine (`Generator.spawn`)."""
        return [_Named((self._names.decode(), "spawn", child)) for child in range(n_children)]


def rng(seed: int, *names: str | int) -> np.random.Generator:
    """The generator that belongs to these names; two different lists of names give independent
    streams."""
    return np.random.Generator(np.random.PCG64(_Named((seed, *names))))  # type: ignore[arg-type]  # its stubs know one class
