"""Parts of networks for sequences: of tokens, padded at their end, or of points in time.

All of them are plain products and elementwise functions, so that torch can batch them over peers
(stacking) and over examples (DP-SGD); its own GRU and its fast path for attention cannot be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import nn

from amity.data.inputs import PAD, Shapes, Tokens
from amity.learn.models import misfit

Read = tuple[torch.Tensor, torch.Tensor]
"""Numbers B x L x width, and where they are real, B x L x 1, as 0 and 1."""


class Reader(Protocol):
    """Turns examples into numbers by position."""

    length: int

    def __call__(self, x: torch.Tensor) -> Read: ...


class Words(nn.Module):
    """Ids of tokens."""

    def __init__(self, shape: Tokens, width: int) -> None:
        super().__init__()
        self.length = shape[0]
        self.embed = nn.Embedding(shape.vocabulary, width)

    def forward(self, x: torch.Tensor) -> Read:
        z = self.embed(x)
        real = (x != PAD)[..., None].to(z.dtype)
        return z * real, real


class Points(nn.Module):
    """Channels x time, all of it real."""

    def __init__(self, channels: int, time: int, width: int) -> None:
        super().__init__()
        self.length = time
        self.embed = nn.Linear(channels, width)

    def forward(self, x: torch.Tensor) -> Read:
        z = self.embed(x.transpose(1, 2))
        return z, torch.ones_like(z[..., :1])


def reader(name: str, shape: Shapes, width: int) -> Words | Points:
    """What suits the data; `name` is the model's."""
    if isinstance(shape, Tokens):
        return Words(shape, width)
    if not isinstance(shape, tuple) or len(shape) != 2:
        raise misfit(name, "sequences of tokens, or channels x time", shape)
    return Points(*shape, width)


class Positions(nn.Module):
    """What is read, and where it stands."""

    def __init__(self, read: Words | Points, width: int) -> None:
        super().__init__()
        self.length = read.length
        self.read = read
        self.places = nn.Parameter(0.02 * torch.randn(read.length, width))

    def forward(self, x: torch.Tensor) -> Read:
        z, real = self.read(x)
        return (z + self.places[: z.shape[1]]) * real, real


class GruLayer(nn.Module):
    r"""A gated recurrent layer, with the reset gate after the product, as in torch's own:

    r, z = σ(W x_t + U h),   n = tanh(W_n x_t + r ∘ U_n h),   h ← (1 − z) ∘ n + z ∘ h
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.read = nn.Linear(width, 3 * hidden)
        self.state = nn.Linear(hidden, 3 * hidden)

    def forward(self, x: torch.Tensor, _real: torch.Tensor) -> torch.Tensor:
        split, said = 2 * self.hidden, []
        steps = self.read(x).unbind(1)
        h = torch.zeros_like(steps[0][..., : self.hidden])
        for step in steps:
            old = self.state(h)
            r, z = (step[..., :split] + old[..., :split]).sigmoid().chunk(2, -1)
            n = (step[..., split:] + r * old[..., split:]).tanh()
            h = n + z * (h - n)
            said.append(h)
        return torch.stack(said, 1)


class Block(nn.Module):
    """Attention and a hidden layer, each beside a shortcut and behind LayerNorm."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm = nn.LayerNorm(width)
        self.ask = nn.Linear(width, 3 * width)
        self.join = nn.Linear(width, width)
        self.mix = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(-2, -3)
            for part in self.ask(self.norm(x)).chunk(3, -1)
        )
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        seen = real.transpose(-1, -2).unsqueeze(-3) > 0
        if self.causal:
            ones = torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool, device=x.device)
            seen = seen & ones.tril()
        scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)
        found = (scores.softmax(-1) @ v).transpose(-2, -3).flatten(-2)
        x = x + self.join(found)
        mixed: torch.Tensor = x + self.mix(x)
        return mixed


class SequenceNet(nn.Module):
    """Reads, goes through its layers, and answers once, or at every position."""

    def __init__(
        self,
        read: nn.Module,
        body: Sequence[nn.Module],
        last: nn.Module,
        classes: int,
        causal: bool,
    ) -> None:
        super().__init__()
        self.causal = causal
        self.read = read
        self.body = nn.ModuleList(body)
        self.last = last
        width = next(p.shape[0] for p in reversed(list(last.parameters())))
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z, real = self.read(x)
        for layer in self.body:
            z = layer(z, real)
        if self.causal:
            answers: torch.Tensor = self.head(self.last(z).relu() * real)
            return answers
        mean = (z * real).sum(-2) / real.sum(-2).clamp_min(1)
        answer: torch.Tensor = self.head(self.last(mean).relu())
        return answer
