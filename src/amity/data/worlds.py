"""The shifts: in which way groups of peers can differ. `corrupt` has a file of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from amity.data.base import Dataset
from amity.data.shift import Always, OfImages, OfNumbers, Setting, shifts
from amity.lazy import torch
from amity.rng import rng

Share = Annotated[float, Field(gt=0, le=1)]
Examples = tuple["torch.Tensor", "torch.Tensor"]


@lru_cache(maxsize=8)
def rings(
    seed: int, name: str, groups: int, places: int, moved: int
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], ...]:
    """For each group a permutation of so many places: by its own lot, some of them change in a
    ring. Group 0 leaves all where they are, and no two groups have the same."""
    found = [np.arange(places)]
    taken = {found[0].tobytes()}
    for group in range(1, groups):
        draw, order = rng(seed, "shift", name, group), found[0]
        while order.tobytes() in taken:
            some = draw.permutation(places)[:moved]
            order = np.arange(places)
            order[some] = np.roll(some, 1)
        taken.add(order.tobytes())
        found.append(order)
    return tuple(found)


def moved_of(strength: float, places: int) -> int:
    """How many places a share of them is: two at least."""
    return max(2, round(strength * places))


def too_few(what: str, places: int, moved: int, groups: int) -> str:
    """Why so many groups cannot all have a ring of their own; empty: they can."""
    if places >= moved:
        ways = math.lgamma(places + 1) - math.lgamma(places - moved + 1) - math.log(moved)
        if math.log(max(groups - 1, 1)) <= ways + 1e-9:
            return ""
    return (
        f"{moved} of {places} {what} can change in fewer ways than {groups} groups need; use fewer"
        " groups or a larger shift.strength"
    )


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
    """Share of the classes that change places."""

    def apply(
        self, x: torch.Tensor, y: torch.Tensor, at: Setting, noise: np.random.Generator
    ) -> Examples:
        classes = at.dataset.classes
        moved = moved_of(self.strength, classes)
        names = rings(at.seed, "labels", at.groups, classes, moved)[at.group]
        return x, torch.from_numpy(names)[y]

    def refusal(self, dataset: Dataset, groups: int) -> str:
        if dataset.strata is not None:
            return "needs classes, and the answers here are none; use another shift"
        classes = dataset.classes
        return too_few("classes", classes, moved_of(self.strength, classes), groups)


@shifts.register("permute_pixels")
@dataclass(frozen=True)
class PermutePixels(OfNumbers):
    """Each group has its pixels (or columns of its table) in another order.

    A share `strength` of the places (two at least) change with each other, by the group's lot.
    """

    strength: Share = 1.0
    """Share of the places that change with each other."""

    def apply(
        self, x: torch.Tensor, y: torch.Tensor, at: Setting, noise: np.random.Generator
    ) -> Examples:
        flat = x.reshape(len(x), *x.shape[1:2], -1) if x.ndim > 2 else x
        places = flat.shape[-1]
        moved = moved_of(self.strength, places)
        order = rings(at.seed, "pixels", at.groups, places, moved)[at.group]
        return flat[..., torch.from_numpy(order)].reshape(x.shape), y

    def refusal(self, dataset: Dataset, groups: int) -> str:
        places = math.prod(dataset.sides[1:] or dataset.sides)
        few = too_few("places", places, moved_of(self.strength, places), groups)
        return super().refusal(dataset, groups) or few


@shifts.register("rotate")
@dataclass(frozen=True)
class Rotate(OfImages):
    """Each group sees its images turned: group g by g · `strength` degrees (0: 360 / groups)."""

    strength: Annotated[float, Field(ge=0, le=360)] = 0.0
    """Degrees between one group and the next; 0: 360 / groups."""

    def apply(
        self, x: torch.Tensor, y: torch.Tensor, at: Setting, noise: np.random.Generator
    ) -> Examples:
        angle, (height, width) = self._angle(at.group, at.groups), x.shape[-2:]
        if at.group == 0:
            return x, y
        if angle % 90 == 0 and height == width:
            return torch.rot90(x, int(angle // 90), (-2, -1)).contiguous(), y
        turn = math.radians(angle)
        c, s, wide = math.cos(turn), math.sin(turn), width / height
        return resampled(x, torch.tensor([[c, -s / wide, 0.0], [s * wide, c, 0.0]])), y

    def _angle(self, group: int, groups: int) -> float:
        return group * (self.strength or 360 / groups) % 360

    def refusal(self, dataset: Dataset, groups: int) -> str:
        angles = {round(self._angle(group, groups), 6) % 360 for group in range(groups)}
        if len(angles) < groups:
            return (
                f"by {self.strength:g} degrees two of {groups} groups are turned alike; use"
                f" shift.strength=0, which is {360 / groups:g} here"
            )
        return super().refusal(dataset, groups)


@shifts.register("zoom")
@dataclass(frozen=True)
class Zoom(OfImages):
    """Each group sees its images at another size: from whole down to 1 − `strength` of it."""

    strength: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """How much smaller the last group sees its images, as a share of their size."""

    def apply(
        self, x: torch.Tensor, y: torch.Tensor, at: Setting, noise: np.random.Generator
    ) -> Examples:
        if at.group == 0:
            return x, y
        size = 1 - self.strength * at.group / max(at.groups - 1, 1)
        return resampled(x, torch.tensor([[1 / size, 0.0, 0.0], [0.0, 1 / size, 0.0]])), y


@shifts.register("invert")
@dataclass(frozen=True)
class Invert(OfNumbers):
    """Each group sees other parts of its examples as a negative.

    With b bits in the number of the last group, the columns of an image (or of a table) are cut
    into b bands; group g sees band k as a negative if bit k of g is set. So two groups are the
    picture and its negative. Of each band a share `strength` of the places is inverted. For bytes
    the negative of v is 255 − v, for other numbers it is min + max − v over all training examples.
    """

    strength: Share = 1.0
    """Share of the places that are inverted."""

    def apply(
        self, x: torch.Tensor, y: torch.Tensor, at: Setting, noise: np.random.Generator
    ) -> Examples:
        bits, width = self._bits(at.groups), x.shape[-1]
        band = torch.arange(width) * bits // width
        dark = ((at.group >> band) & 1).bool().expand(x.shape[1:])
        lot = torch.from_numpy(at.draw("invert").random(x.shape[1:]))
        return torch.where(dark & (lot < self.strength), negative(x, at), x), y

    def _bits(self, groups: int) -> int:
        return max(1, (groups - 1).bit_length())

    def refusal(self, dataset: Dataset, groups: int) -> str:
        unfit = super().refusal(dataset, groups)
        width, bits = (0, *dataset.sides)[-1], self._bits(groups)
        if unfit or bits <= width:
            return unfit
        return (
            f"{groups} groups need {bits} columns of their own, got examples of shape"
            f" {dataset.shape}; use shift.groups<={2**width}"
        )


def negative(x: torch.Tensor, at: Setting) -> torch.Tensor:
    """Bright is dark and dark is bright."""
    if x.dtype == torch.uint8:
        return 255 - x
    whole: torch.Tensor = at.dataset.pixels.x[torch.from_numpy(at.dataset.train)]
    return whole.amin(0) + whole.amax(0) - x


@shifts.register("scale")
@dataclass(frozen=True)
class Scale(OfNumbers):
    """Each group measures in other units: its values are multiplied by e^u, with u from
    −`strength` in group 0 to `strength` in the last."""

    strength: Annotated[float, Field(gt=0, le=5)] = 1.0
    """The values of the last group are multiplied by e to this power, those of the first are
    divided by it."""

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
