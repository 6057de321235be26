"""What all members must have in common, as they show it to each other: so that a member that
differs is told in words in what."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from amity.data.schema import Schema
from amity.errors import DataError
from amity.net.wire.manifest import LARGEST_TERMS, Refused, digest_of

Word = Annotated[str, Field(max_length=200)]


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Two members can learn together if their terms have no difference."""

    data: Schema
    """What inputs and classes mean."""
    model: tuple[tuple[str, tuple[int, ...]], ...]
    """Names and shapes of its parameters."""
    seed: int
    card: tuple[Word | int, ...] | None
    """Proxy, sketch and (if not 32) bits of what is shown; None: no cards."""
    masked: bool
    """Whether shares leave some coordinates out."""

    @property
    def digest(self) -> str:
        """Names all of it on the wire."""
        card = None if self.card is None else list(self.card)
        common = {"data": self.data.digest, "card": card, "masked": self.masked, "seed": self.seed}
        return digest_of(dict(self.model), common)

    def difference(self, other: Terms) -> str:
        """The first difference to another member's, in one line with its remedy; empty if there is
        none. `here` are these terms, `there` the others."""
        return next(self._differences(other), "")

    def _differences(self, other: Terms) -> Iterator[str]:
        if said := self.data.difference(other.data):
            yield said
        if self.seed != other.seed:
            yield f"seed is {self.seed} here and {other.seed} there: say the same under [run]"
        if self.card != other.card:
            yield (
                f"cards show {_card(self.card)} here and {_card(other.card)} there: say the same"
                " strategy under [run]"
            )
        if self.masked != other.masked:
            whole = ("in part", "whole") if self.masked else ("whole", "in part")
            yield (
                f"models are shared {whole[0]} here and {whole[1]} there: say the same method under"
                " [run]"
            )
        if self.model != other.model:
            yield f"{_apart(dict(self.model), dict(other.model))}: say the same model under [run]"

    # -- as bytes ----------------------------------------------------------------------------------

    def encode(self) -> bytes:
        """As JSON text; empty if it is too long to be told."""
        plain = asdict(self) | {"data": self.data.common.to_dict()}
        text = json.dumps(plain, separators=(",", ":")).encode()
        return text if len(text) <= LARGEST_TERMS else b""

    @classmethod
    def decode(cls, text: bytes) -> Terms | None:
        """Somebody's terms; None where they were too long. Raises Refused for anything else."""
        if not text:
            return None
        try:
            plain = json.loads(text)
            data = Schema.from_dict(plain.pop("data"), "data")
            return _TERMS.validate_python(plain | {"data": data})
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
            raise Refused("malformed", f"terms: {_line(error)}") from None
        except DataError as error:
            raise Refused("malformed", f"terms: {str(error)[:100]}") from None


_TERMS = TypeAdapter(Terms)


def _line(error: Exception) -> str:
    said = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
    return said.splitlines()[0][:100] if said else type(error).__name__


def _card(card: tuple[str | int, ...] | None) -> str:
    return "nothing" if card is None else " ".join(map(str, card))


def _apart(here: Mapping[str, Any], there: Mapping[str, Any]) -> str:
    """The first parameter in which two models differ."""
    name = next(
        (n for n in (*here, *there) if here.get(n) != there.get(n)), next(iter(here), "nothing")
    )
    mine, other = here.get(name, "absent"), there.get(name, "absent")
    if mine == other:
        return "the parameters of the model stand in another order"
    return f"parameter {name[:60]!r} of the model is {mine} here and {other} there"
