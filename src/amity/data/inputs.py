"""What one example is made of: rows of a table, images, series, sequences of tokens, or several of
these by name.

| kind | one example | numbers |
|---|---|---|
| table | columns | floats, normalised |
| series | channels x time | floats, normalised by channel |
| image | channels x height x width | bytes or floats, normalised by channel |
| tokens | ids, as many as the longest has | 1, 2, ..., never normalised; 0 is padding |
| several | a mapping of these | given to the module's forward by name |

The mask of a sequence is `ids != PAD`, so it needs no place of its own. All sequences of a dataset
are padded to one length: what a model says of one never depends on the batch that it stands in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Union

from amity.lazy import torch

PAD = 0
"""The id that stands for no token."""
Kind = Literal["table", "series", "image", "tokens", "several", "array"]


class Tokens(tuple[int, ...]):
    """The shape of sequences: `(longest,)`, and how many ids there are (padding is one of
    them)."""

    vocabulary: int

    def __new__(cls, length: int, vocabulary: int) -> Tokens:
        shape = super().__new__(cls, (length,))
        shape.vocabulary = vocabulary
        return shape

    def __reduce__(self) -> tuple[Any, ...]:
        return Tokens, (self[0], self.vocabulary)


Shape = tuple[int, ...]
Shapes = Shape | Mapping[str, Shape]
"""Of one example; by name where there are several inputs."""


@dataclass(frozen=True)
class Several:
    """The inputs of some examples by name. It can be indexed as a tensor can."""

    parts: Mapping[str, torch.Tensor]

    def map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Several:
        return Several({name: change(part) for name, part in self.parts.items()})

    def __len__(self) -> int:
        return len(next(iter(self.parts.values())))

    def __getitem__(self, index: Any) -> Several:
        return self.map(lambda part: part[index])

    @property
    def device(self) -> torch.device:
        return next(iter(self.parts.values())).device


Inputs = Union["torch.Tensor", Several]
"""Of some examples, one after the other."""


def each(x: Inputs, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The same change of every tensor."""
    return x.map(change) if isinstance(x, Several) else change(x)


def tensors_of(x: Inputs) -> Iterator[torch.Tensor]:
    """All of them."""
    yield from x.parts.values() if isinstance(x, Several) else (x,)


def joined(parts: list[Any]) -> Any:
    """Examples one after the other."""
    first = parts[0]
    if not isinstance(first, Several):
        return torch.cat(parts)
    return Several({name: torch.cat([one.parts[name] for one in parts]) for name in first.parts})


def pieces(x: Inputs, size: int) -> Iterator[Any]:
    """At most so many examples at a time."""
    for at in range(0, len(x), size):
        yield x[at : at + size]


def numbers(x: Inputs) -> int:
    """Of one example."""
    return sum(int(part[0].numel()) for part in tensors_of(x))


def are_ids(x: torch.Tensor) -> bool:
    """Whether numbers are names of tokens: whole, and no bytes of an image."""
    return not x.dtype.is_floating_point and x.dtype != torch.uint8


def kind_of(shape: Shapes) -> Kind:
    """What examples of a shape are."""
    if isinstance(shape, Mapping):
        return "several"
    if isinstance(shape, Tokens):
        return "tokens"
    kinds: dict[int, Kind] = {1: "table", 2: "series", 3: "image"}
    return kinds.get(len(shape), "array")


def described(shape: Shapes) -> str:
    """Examples of a shape in words."""
    if isinstance(shape, Mapping):
        return f"{len(shape)} inputs ({', '.join(shape)})"
    if isinstance(shape, Tokens):
        return f"sequences of up to {shape[0]} tokens out of {shape.vocabulary - 1}"
    size = " x ".join(map(str, shape))
    return {
        "table": f"a table of {size} columns",
        "series": f"series of {size} (channels x time)",
        "image": f"images of {size}",
    }.get(kind_of(shape), f"arrays of {size}")


def blank(shape: Shapes, count: int, device: Any = "cpu") -> Any:
    """Made-up examples: zeros, and sequences of the first token."""
    if isinstance(shape, Mapping):
        return Several({name: blank(one, count, device) for name, one in shape.items()})
    if isinstance(shape, Tokens):
        return torch.ones(count, *shape, dtype=torch.long, device=device)
    return torch.zeros(count, *shape, device=device)
