"""Corruptions: groups of peers whose cameras are of another quality."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

import numpy as np
from pydantic import BeforeValidator, Field

from amity.data.base import Dataset
from amity.data.shift import OfImages, Setting, shifts
from amity.lazy import torch

Kind = Literal["noise", "blur", "contrast", "brightness"]
Corruption = Callable[["torch.Tensor", int, np.random.Generator], "torch.Tensor"]
"""From images with values in [0, 1] and a severity of 1 to 5 to corrupted ones."""


def noise(x: torch.Tensor, severity: int, draw: np.random.Generator) -> torch.Tensor:
    """Normal noise on every pixel."""
    sigma = (0.08, 0.12, 0.18, 0.26, 0.38)[severity - 1]
    return x + sigma * torch.from_numpy(draw.standard_normal(tuple(x.shape), np.float32))


def blur(x: torch.Tensor, severity: int, draw: np.random.Generator) -> torch.Tensor:
    """A Gaussian blur; its width is a share of the picture's."""
    sigma = (0.02, 0.035, 0.05, 0.07, 0.1)[severity - 1] * x.shape[-1]
    reach = max(1, round(2.5 * sigma))
    bell = torch.exp(-(torch.arange(-reach, reach + 1.0) ** 2) / (2 * sigma**2))
    bell = (bell / bell.sum()).expand(x.shape[1], 1, -1)
    functional, channels = torch.nn.functional, x.shape[1]
    reach_y, reach_x = (min(reach, side - 1) for side in x.shape[-2:])
    bell_y, bell_x = (
        bell[..., reach - r : reach + r + 1] / bell[0, 0, reach - r : reach + r + 1].sum()
        for r in (reach_y, reach_x)
    )
    padded = functional.pad(x, (reach_x, reach_x, reach_y, reach_y), "reflect")
    down = functional.conv2d(padded, bell_y[..., :, None], groups=channels)
    return functional.conv2d(down, bell_x[..., None, :], groups=channels)


def contrast(x: torch.Tensor, severity: int, draw: np.random.Generator) -> torch.Tensor:
    """Everything nearer to the picture's mean."""
    left = (0.6, 0.45, 0.3, 0.2, 0.12)[severity - 1]
    mean = x.mean((1, 2, 3), keepdim=True)
    return (x - mean) * left + mean


def brightness(x: torch.Tensor, severity: int, draw: np.random.Generator) -> torch.Tensor:
    """Everything lighter, up to white."""
    return x + (0.1, 0.2, 0.3, 0.4, 0.5)[severity - 1]


CORRUPTIONS: dict[str, Corruption] = {
    "noise": noise,
    "blur": blur,
    "contrast": contrast,
    "brightness": brightness,
}


def _listed(given: object) -> object:
    """`noise,blur` as a list."""
    return tuple(part.strip() for part in given.split(",")) if isinstance(given, str) else given


@shifts.register("corrupt")
@dataclass(frozen=True)
class Corrupt(OfImages):
    """Each group has a camera fault of its own: noise, blur, contrast, brightness, in turn.

    Group 0 is clean, group 1 has the first of `kinds`, and so on; when they are through they begin
    again, one severity higher. `strength` is the severity, 1 to 5, after Hendrycks and Dietterich
    (2019), with constants that suit small pictures. Noise is fresh for every example of every peer.
    """

    strength: Annotated[int, Field(ge=1, le=5)] = 3
    """Severity."""
    kinds: Annotated[tuple[Kind, ...], BeforeValidator(_listed)] = get_args(Kind)
    """The faults in the order in which groups get them: noise, blur, contrast, brightness."""

    def __post_init__(self) -> None:
        if not self.kinds or len(set(self.kinds)) < len(self.kinds):
            raise ValueError(
                f"kinds: expected some of {', '.join(CORRUPTIONS)}, each once, got {self.kinds}"
            )

    def refusal(self, dataset: Dataset, groups: int) -> str:
        most = 1 + len(self.kinds) * (6 - self.strength)
        if groups > most:
            return (
                f"{len(self.kinds)} kinds with severities from {self.strength} to 5 are enough for"
                f" {most} groups, got {groups}; use fewer groups or a smaller shift.strength"
            )
        return super().refusal(dataset, groups)

    def apply(
        self, x: torch.Tensor, y: torch.Tensor, at: Setting, noise: np.random.Generator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if at.group == 0:
            return x, y
        turn, kind = divmod(at.group - 1, len(self.kinds))
        low, high = _range(x, at)
        shown = (x.float() - low) / (high - low)
        seen = CORRUPTIONS[self.kinds[kind]](shown, self.strength + turn, noise)
        seen = seen.clamp(0, 1) * (high - low) + low
        return (seen.round().to(x.dtype) if x.dtype == torch.uint8 else seen), y


def _range(x: torch.Tensor, at: Setting) -> tuple[float, float]:
    """Black and white: 0 and 255 for bytes, otherwise the least and the largest value of all."""
    if x.dtype == torch.uint8:
        return 0.0, 255.0
    low, high = at.dataset.pixels.x.aminmax()
    return float(low), max(float(high), float(low) + 1e-6)
