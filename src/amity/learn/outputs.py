"""What the frozen part of a module makes of examples: computed once, kept up to a limit.

Whether outputs are used is a function of the module, the limit and one peer's number of examples.
Whether they are *kept* from round to round depends on the room that is left, and changes no bit:
what is not kept is computed anew, in the same way. What is kept lies in memory that forked workers
share, so that it is there once, and whoever trains a peer first fills it in.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from amity.data.inputs import each, tensors_of
from amity.data.samples import CHUNK, Samples
from amity.learn.feeding import channels_last
from amity.learn.prefix import Prefix

Key = tuple[int, int, int]


class Recalled(NamedTuple):
    """Examples, with what the frozen part makes of them."""

    x: Any
    outputs: list[torch.Tensor]


@dataclass(frozen=True)
class _Place:
    """Where the outputs of some examples are kept."""

    data: Samples
    """Held, so that its key stays its own."""
    outputs: list[torch.Tensor]
    filled: torch.Tensor


def _shared(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Zeros that forked processes share. Pages are taken when they are first written."""
    count = int(torch.Size(shape).numel())
    room = mmap.mmap(-1, max(count * dtype.itemsize, 1))
    return torch.frombuffer(room, dtype=dtype, count=count).view(shape)


def _key(data: Samples) -> Key:
    return next(tensors_of(data.pixels.x)).data_ptr(), data.index.data_ptr(), len(data)


class Outputs:
    """The outputs of a frozen part, for the examples of all peers of a process."""

    def __init__(self, prefix: Prefix, limit: int) -> None:
        """At most `limit` bytes are kept, and at most as many computed at a time."""
        self.prefix, self.limit = prefix, limit
        self.left = limit
        self._places: dict[Key, _Place] = {}

    def fits(self, count: int) -> bool:
        """Whether the outputs of so many examples may be in memory at once."""
        return count * self.prefix.nbytes <= self.limit

    def keep(self, datas: Iterable[Samples]) -> list[Samples]:
        """Make room for the outputs of these examples. Returns those that found none."""
        without = []
        for data in datas:
            if not len(data) or _key(data) in self._places:
                continue
            size = len(data) * self.prefix.nbytes
            if size > self.left:
                without.append(data)
                continue
            self.left -= size
            here = data.index.device.type == "cpu" and data.pixels.y.device.type == "cpu"
            outputs = self._room(data, _shared if here else None)
            self._places[_key(data)] = _Place(data, outputs, _shared((1,), torch.uint8))
        return without

    def _room(
        self, data: Samples, make: Callable[..., torch.Tensor] | None = None
    ) -> list[torch.Tensor]:
        device = data.pixels.y.device

        def plain(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
            return torch.empty(shape, dtype=dtype, device=device)

        return [cut.empty(len(data), make or plain) for cut in self.prefix.kept]

    def of(self, data: Samples) -> list[torch.Tensor] | None:
        """The outputs of all of these examples; None: they are too many."""
        if not self.fits(len(data)):
            return None
        place = self._places.get(_key(data))
        if place is None:
            outputs = self._room(data)
            self._fill(outputs, data)
            return outputs
        if not int(place.filled):
            self._fill(place.outputs, data)
            place.filled.fill_(1)
        return place.outputs

    def _fill(self, outputs: list[torch.Tensor], data: Samples) -> None:
        at = 0
        for x, _ in data.chunks(CHUNK):
            for room, output in zip(outputs, self.prefix.outputs(x), strict=True):
                room[at : at + len(output)].copy_(output)
            at += len(x)

    def recalled(
        self, data: Samples, chosen: torch.Tensor, outputs: list[torch.Tensor]
    ) -> tuple[Recalled, torch.Tensor]:
        """Some examples by their position, with what is known of them."""
        prefix, index, pixels = self.prefix, data.index[chosen], data.pixels
        here = chosen.to(pixels.y.device)
        rows = [cut.rows(known, here) for cut, known in zip(prefix.kept, outputs, strict=True)]
        if prefix.blind:
            return Recalled(prefix.blank(rows[0]), rows), pixels.y[index]
        x, y = pixels.batch(index)
        return Recalled(each(x, channels_last), rows), y

    def chunks(self, data: Samples) -> Iterator[tuple[Recalled, torch.Tensor]]:
        """All examples, a few at a time, where nothing is trained."""
        whole = self.of(data) if _key(data) in self._places else None
        for chosen in torch.split(torch.arange(len(data)), CHUNK):
            if whole is not None:
                yield self.recalled(data, chosen, whole)
                continue
            x, y = data.pixels.batch(data.index[chosen])
            yield Recalled(each(x, channels_last), self.prefix.outputs(x)), y
