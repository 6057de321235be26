"""The shifts: in which way groups of peers can differ. `corrupt` has a file of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from amity.data.shift import Always, OfImages, Setting, shifts
from amity.lazy import torch

Share = Annotated[float, Field(gt=0, le=1)]
Examples = tuple["torch.Tensor", "torch.Tensor"]


@shifts.register("none")
@dataclass(frozen=True)
class NoShift(Always):
    """One world for all: no groups."""

    plain: ClassVar[bool] = True

    def apply(
        self, x: torch.Tensor, y: torch.Tensor, at: Setting, noise: np.random.Generator
    ) -> Examples:
        return x, y


@shifts.register("permute_labels")
@dataclass(frozen=True)
class PermuteLabels(Always):
    """Each group has names of its own for the classes: it disagrees with others about the answer.

    A share `strength` of the classes (two at least) change places in a ring whose order is the
    group's own lot.
    """

    strength: Share = 1.0

    def apply(
        self, x: torch.Tensor, y: torch.Tensor, at: Setting, noise: np.random.Generator
    ) -> Examples:
        if at.group == 0:
            return x, y
        classes = at.dataset.classes
        moved = at.draw("labels").permutation(classes)[: max(2, round(self.strength * classes))]
        names = torch.arange(classes)
        names[torch.from_numpy(moved)] = torch.from_numpy(np.roll(moved, 1))
        return x, names[y]


@shifts.register("permute_pixels")
@dataclass(frozen=True)
class PermutePixels(Always):
    """Each group has its pixels (or columns of its table) in another order.

    A share `strength` of the places (two at least) change with each other, by the group's lot.
    """

    strength: Share = 1.0

    def apply(
        self, x: torch.Tensor, y: torch.Tensor, at: Setting, noise: np.random.Generator
    ) -> Examples:
        if at.group == 0:
            return x, y
        flat = x.reshape(len(x), *x.shape[1:2], -1) if x.ndim > 2 else x
        places = flat.shape[-1]
        moved = at.draw("pixels").permutation(places)[: max(2, round(self.strength * places))]
        order = torch.arange(places)
        order[torch.from_numpy(moved)] = torch.from_numpy(np.roll(moved, 1))
        return flat[..., order].reshape(x.shape), y


@shifts.register("rotate")
@dataclass(frozen=True)
class Rotate(OfImages):
    """Each group sees its images turned: group g by g · `strength` degrees (0: 360 / groups)."""

    strength: Annotated[float, Field(ge=0, le=360)] = 0.0

    def apply(
        self, x: torch.Tensor, y: torch.Tensor, at: Setting, noise: np.random.Generator
    ) -> Examples:
        angle = at.group * (self.strength or 360 / at.groups) % 360
        if angle % 90 == 0 and x.shape[-1] == x.shape[-2]:
            return torch.rot90(x, int(angle // 90), (-2, -1)).contiguous(), y
        turn = math.radians(angle)
        c, s = math.cos(turn), math.sin(turn)
        return resampled(x, torch.tensor([[c, -s, 0.0], [s, c, 0.0]])), y


@shifts.register("zoom")
@dataclass(frozen=True)
class Zoom(OfImages):
    """Each group sees its images at another size: from whole down to 1 − `strength` of it."""

    strength: Annotated[float, Field(gt=0, lt=1)] = 0.5

    def apply(
        self, x: torch.Tensor, y: torch.Tensor, at: Setting, noise: np.random.Generator
    ) -> Examples:
        size = 1 - self.strength * at.group / max(at.groups - 1, 1)
        return resampled(x, torch.tensor([[1 / size, 0.0, 0.0], [0.0, 1 / size, 0.0]])), y


@shifts.register("invert")
@dataclass(frozen=True)
class Invert(Always):
    """Each group sees other parts of its examples as a negative.

    With b bits in the number of the last group, the columns of an image (or of a table) are cut
    into b bands; group g sees band k as a negative if bit k of g is set. So two groups are the
    picture and its negative. Of each band a share `strength` of the places is inverted. For bytes
    the negative of v is 255 − v, for other numbers it is min + max − v over all training examples.
    """

    strength: Share = 1.0

    def apply(
        self, x: torch.Tensor, y: torch.Tensor, at: Setting, noise: np.random.Generator
    ) -> Examples:
        bits = max(1, (at.groups - 1).bit_length())
        width = x.shape[-1]
        band = torch.arange(width) * bits // width
        dark = ((at.group >> band) & 1).bool().expand(x.shape[1:])
        lot = torch.from_numpy(at.draw("invert").random(x.shape[1:]))
        return torch.where(dark & (lot < self.strength), negative(x, at), x), y


def negative(x: torch.Tensor, at: Setting) -> torch.Tensor:
    """Bright is dark and dark is bright."""
    if x.dtype == torch.uint8:
        return 255 - x
    whole = at.dataset.pixels.x[torch.from_numpy(at.dataset.train)]
    return whole.amin(0) + whole.amax(0) - x


@shifts.register("scale")
@dataclass(frozen=True)
class Scale(Always):
    """Each group measures in other units: its values are multiplied by e^u, with u from
    −`strength` in group 0 to `strength` in the last."""

    strength: Annotated[float, Field(gt=0, le=5)] = 1.0

    def apply(
        self, x: torch.Tensor, y: torch.Tensor, at: Setting, noise: np.random.Generator
    ) -> Examples:
        u = self.strength * (2 * at.group / max(at.groups - 1, 1) - 1)
        return x.float() * math.exp(u), y


def resampled(x: torch.Tensor, towards: torch.Tensor) -> torch.Tensor:
    """Images looked at through an affine map (2 x 3), black outside, of the same type as before."""
    functional = torch.nn.functional
    grid = functional.affine_grid(towards.expand(len(x), 2, 3), list(x.shape), align_corners=False)
    seen = functional.grid_sample(x.float(), grid, align_corners=False)
    return seen.round().to(x.dtype) if x.dtype == torch.uint8 else seen
