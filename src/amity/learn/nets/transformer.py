"""A small transformer for text and series."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from amity.data.inputs import Shapes
from amity.lazy import nn
from amity.learn.models import models


@models.register("transformer")
@dataclass(frozen=True)
class Transformer:
    """For sequences of tokens and for series: `layers` blocks of attention, with positions that are
    learnt and LayerNorm in front; the mean over all real positions, one hidden layer. Padding is
    seen by nobody."""

    width: Annotated[int, Field(ge=1, le=4096)] = 64
    """Numbers that stand for a token, or for the channels at one point in time."""
    layers: Annotated[int, Field(ge=1, le=48)] = 2
    """Blocks."""
    heads: Annotated[int, Field(ge=1, le=64)] = 4
    """Heads of attention; they divide the width."""
    causal: bool = False
    """Whether it answers at every position, from what stands there and before: for the next
    token."""

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ValueError(f"heads must divide width={self.width}, got {self.heads}")

    def build(self, shape: Shapes, classes: int) -> nn.Module:
        from amity.learn.sequences import Block, Positions, SequenceNet, reader

        read = Positions(reader("transformer", shape, self.width), self.width)
        body = [Block(self.width, self.heads, self.causal) for _ in range(self.layers)]
        last = nn.Sequential(nn.LayerNorm(self.width), nn.Linear(self.width, self.width))
        return SequenceNet(read, body, last, classes, self.causal)
