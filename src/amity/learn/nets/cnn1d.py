"""A convolutional network for series."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from amity.data.inputs import Shapes, Tokens
from amity.lazy import nn
from amity.learn.models import misfit, models

PLACES = 4
"""Stretches of time that are told apart in the end."""
LEAST = 4
"""Steps that are not halved any more."""


@models.register("cnn1d")
@dataclass(frozen=True)
class Cnn1d:
    """For series (channels x time): `layers` convolutions over time, each with GroupNorm and
    pooling by 2, the mean of four stretches of time, one hidden layer."""

    channels: Annotated[int, Field(ge=1, le=4096)] = 32
    """Channels of a convolution."""
    kernel: Annotated[int, Field(ge=1, le=1023)] = 5
    """Steps of time that a convolution sees at once."""
    layers: Annotated[int, Field(ge=1, le=12)] = 2
    """Convolutions."""
    hidden: Annotated[int, Field(ge=1, le=65536)] = 64
    """Units of the hidden layer."""

    def build(self, shape: Shapes, classes: int) -> nn.Module:
        if not isinstance(shape, tuple) or isinstance(shape, Tokens) or len(shape) != 2:
            raise misfit("cnn1d", "channels x time", shape)
        width, time = shape
        parts: list[nn.Module] = []
        for _ in range(self.layers):
            parts += [
                nn.Conv1d(width, self.channels, self.kernel, padding=self.kernel // 2),
                nn.GroupNorm(math.gcd(8, self.channels), self.channels),
                nn.ReLU(),
            ]
            time += 2 * (self.kernel // 2) - self.kernel + 1
            if time >= LEAST:
                parts.append(nn.MaxPool1d(2))
                time //= 2
            width = self.channels
        places = min(PLACES, time)
        return nn.Sequential(
            *parts,
            nn.AdaptiveAvgPool1d(places),
            nn.Flatten(),
            nn.Linear(width * places, self.hidden),
            nn.ReLU(),
            nn.Linear(self.hidden, classes),
        )
