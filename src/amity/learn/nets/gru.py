"""A recurrent network for text and series."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

from pydantic import Field

from amity.data.inputs import Shapes
from amity.lazy import nn
from amity.learn.models import models


@models.register("gru")
@dataclass(frozen=True)
class Gru:
    """For sequences of tokens and for series: `layers` gated recurrent layers, the mean of what
    they say over all real positions, one hidden layer."""

    embed: Annotated[int, Field(ge=1, le=4096)] = 32
    """Numbers that stand for a token, or for the channels at one point in time."""
    hidden: Annotated[int, Field(ge=1, le=65536)] = 64
    """Units of a recurrent layer, and of the hidden layer."""
    layers: Annotated[int, Field(ge=1, le=12)] = 1
    """Recurrent layers."""
    causal: bool = False
    """Whether it answers at every position, from what stands there and before: for the next
    token."""

    def build(self, shape: Shapes, classes: int) -> nn.Module:
        from amity.learn.sequences import GruLayer, SequenceNet, reader

        read = reader("gru", shape, self.embed)
        sizes = [self.embed] + [self.hidden] * self.layers
        body = [GruLayer(a, b) for a, b in pairwise(sizes)]
        return SequenceNet(read, body, nn.Linear(self.hidden, self.hidden), classes, self.causal)
