r"""Cards: which proxy φ stands on them (`proxies` lists all), and the sketch that makes them small.

CountSketch: coordinate k of φ is added with sign s(k) to bin h(k). It is linear and keeps inner
products in expectation, with a standard deviation of about ‖φ‖‖φ'‖/√d for d bins. The hashes are
the same for all peers.

Signs: with one bit a number only the sign of every bin is sent, 32 times less. Many coordinates
fall into a bin, so that a bin is about a projection of φ on a random direction. Two such signs
agree with probability 1 − angle(φ, φ')/π, and the cosine is read from the share a of bins that
agree: cos(π(1 − a)). Near a cosine of 0 it is off by about π/(2√d), as much as a sketch of 2/5 as
many numbers. A whole φ (`sketch` = 0) is no projection, and its signs tell less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import AfterValidator

from amity.errors import ConfigError, StrategyError
from amity.geometry import units
from amity.lazy import torch
from amity.peer.proxies import Proxy, Vectors, proxies
from amity.rng import rng

if TYPE_CHECKING:
    from amity.data.samples import Samples
    from amity.learn.learner import Learner

Bits = Literal[1, 32]
"""Bits of a number on a card, where one may choose: its sign alone, or a float."""


def _known(name: str) -> str:
    if ":" not in name and name not in proxies:
        names = ", ".join(entry.name for entry in proxies)
        raise ValueError(f"proxy should be {names} or file.py:Class, got {name!r}")
    try:
        proxies.read(name)
    except ConfigError as error:
        raise ValueError(str(error)) from None
    return name


ProxyName = Annotated[str, AfterValidator(_known)]
"""An option that names a proxy: one of the registry, or a class of one's own."""


@dataclass(frozen=True)
class CardSpec:
    """Which proxy goes onto the card, and in how many numbers (0: whole) of how many bits."""

    proxy: ProxyName
    sketch: int
    bits: Literal[1, 16, 32] = 32
    """1: signs alone. 16: the direction of each part."""
    shrink: int = 1
    """A sketch is at most φ's length divided by this: so that cards of small models are small."""
    once: bool = False
    """Whether the strategy asks for a card only when it does not know the peer: for estimates, and
    for those who fake cards."""

    @property
    def kind(self) -> Proxy:
        """The proxy's entry."""
        return proxies.made(self.proxy)

    @property
    def code(self) -> str:
        """For a proxy of one's own: the SHA-256 of its file."""
        return proxies.code(self.proxy)

    @property
    def lasting(self) -> bool:
        """Whether a peer's card is the same in all rounds."""
        return self.kind.lasting

    def numbers(self, length: int) -> int:
        """How many numbers a card has for a φ of this length."""
        parts = self.kind.parts
        bins = self.bins(length // parts)
        return parts * bins if 0 < parts * bins < length else length

    def bins(self, length: int) -> int:
        """How many numbers stand for a part of φ of this length; 0: all."""
        return min(self.sketch, math.ceil(length / self.shrink)) if self.sketch else 0

    def small(self, phi: torch.Tensor, sketcher: Sketcher) -> torch.Tensor:
        """φ in few numbers, each of its parts by itself."""
        parts = phi.chunk(self.kind.parts)
        return torch.cat([sketcher(part, self.bins(len(part))) for part in parts])

    def phi(self, at: Vectors, data: Samples, learner: Learner) -> torch.Tensor:
        """φ of one peer, whole. A proxy may be anybody's code: is it a vector?"""
        phi = self.kind.of(at, data, learner)
        if not isinstance(phi, torch.Tensor) or phi.dim() != 1 or phi.dtype != torch.float32:
            found = tuple(phi.shape) if isinstance(phi, torch.Tensor) else type(phi).__name__
            raise StrategyError(
                f"proxy {self.proxy}: `of` must return a vector of float32, got {found}"
            )
        return phi


class Sketcher:
    """CountSketch with hashes that depend on nothing but (seed, length of φ, number of bins)."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._hashes: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}

    def __call__(self, phi: torch.Tensor, bins: int) -> torch.Tensor:
        if not bins or bins >= len(phi):
            return phi.clone()
        key = (len(phi), bins)
        if key not in self._hashes:
            draw = rng(self._seed, "sketch", *key)
            where = draw.integers(bins, size=len(phi))
            sign = draw.integers(2, size=len(phi)) * 2 - 1
            self._hashes[key] = (
                torch.from_numpy(where).to(phi.device),
                torch.from_numpy(sign.astype(np.float32)).to(phi.device),
            )
        where_bins, signs = self._hashes[key]
        return torch.zeros(bins, device=phi.device).index_add_(0, where_bins, phi * signs)


def directions_of(sketch: torch.Tensor, parts: int) -> torch.Tensor:
    """Each part of a sketch, scaled to length 1, as float16: where only angles matter."""
    return units(sketch.reshape(parts, -1)).reshape(-1).to(torch.float16)


def signs_of(sketch: torch.Tensor, draw: np.random.Generator) -> torch.Tensor:
    """The signs of a sketch, as ±1 of type int8: the type by which a card of signs is known. What
    points nowhere (0, or a number that is none) gets a coin's."""
    coins = torch.from_numpy((draw.integers(2, size=len(sketch)) * 2 - 1).astype(np.int8))
    positive, negative = (sketch > 0).to(torch.int8), (sketch < 0).to(torch.int8)
    return torch.where((sketch > 0) | (sketch < 0), positive - negative, coins.to(sketch.device))
