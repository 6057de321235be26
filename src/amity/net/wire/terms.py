"""What all members must have in common, as they show it to each other: so that a member that
differs is told in words in what."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from amity._version import __version__
from amity.data.schema import Schema
from amity.errors import DataError
from amity.net.wire.manifest import LARGEST_TERMS, PROTOCOL, Refused, digest_of

Word = Annotated[str, Field(max_length=200)]
Text = Annotated[str, Field(max_length=2000)]
Shown = tuple[Word | int, ...] | None
"""Proxy, sketch and (if not 32) bits of what cards show; None: no cards."""
Planned = tuple[int, Text, Shown]
"""A planned change: from which round on, what it is, and what cards show then."""


WHERE_SAID = ("stepping", "task", "frozen", "weights", "sums", "finding")
"""What counts in a digest only where there is something to say: digests from before stay."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Two members can learn together if their terms have no difference."""

    data: Schema
    """What inputs and classes mean."""
    model: tuple[tuple[str, tuple[int, ...]], ...]
    """Names and shapes of its parameters."""
    seed: int
    card: Shown
    masked: bool
    """Whether shares leave some coordinates out."""
    stepping: Text = ""
    """Optimiser and schedule in words; empty: the usual ones."""
    task: Text = ""
    """What is learnt in words, with the options that change the loss; empty: classes."""
    frozen: Word = ""
    """The SHA-256 of what is frozen of the model; empty: nothing is."""
    weights: Word = ""
    """The SHA-256 of the file that the model starts from; empty: there is none."""
    sums: Word = ""
    """How models are summed under masks; empty: they are not."""
    finding: Word = ""
    """How neighbours are found; empty: all members are linked."""
    changes: tuple[Planned, ...] = ()
    """In the order of rounds. Those of rounds to come need not be the same yet."""
    protocol: int = PROTOCOL
    version: Word = __version__

    @property
    def digest(self) -> str:
        """Names all of it on the wire, before any change."""
        return self.digest_at(0)

    def digest_at(self, round: int) -> str:
        """Names on the wire all that holds in a round."""
        common: dict[str, Any] = {
            "protocol": self.protocol,
            "data": self.data.digest,
            "card": self.card,
            "masked": self.masked,
            "seed": self.seed,
            "changes": _until(self.changes, round),
            **{key: said for key in WHERE_SAID if (said := getattr(self, key))},
        }
        return digest_of(dict(self.model), common)

    def difference(self, other: Terms, round: int = 0) -> str:
        """The first difference to another member's terms in a round, in one line with its remedy;
        empty if there is none. `here` are these terms, `there` the others."""
        return next(self._differences(other, round), "")

    def coming(self, other: Terms, round: int) -> str:
        """The first difference in changes that are planned for later than a round."""
        mine, theirs = (
            [change for change in terms.changes if change[0] > round] for terms in (self, other)
        )
        return _plans_apart(mine, theirs)

    def _differences(self, other: Terms, round: int) -> Iterator[str]:
        if self.protocol != other.protocol:
            yield other_protocol(other.version, other.protocol)
        if self.task != other.task:
            yield (
                f"the task is {_task(self.task)} here and {_task(other.task)} there: say the same"
                " task under [run]"
            )
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
        if self.stepping != other.stepping:
            yield (
                f"training steps by {_steps(self.stepping)} here and {_steps(other.stepping)}"
                " there: say the same train.optimiser and train.schedule under [run]"
            )
        if self.model != other.model:
            yield f"{_apart(dict(self.model), dict(other.model))}: say the same model under [run]"
        if self.weights != other.weights:
            yield (
                f"the model starts from {_file(self.weights)} here and {_file(other.weights)}"
                " there: say model.weights under [run], with the same file"
            )
        if self.frozen != other.frozen:
            yield (
                f"the frozen part of the model has {_frozen(self.frozen)} here and"
                f" {_frozen(other.frozen)} there: use the same model.freeze, and the same weights"
                " or seed"
            )
        if self.sums != other.sums:
            yield (
                f"models travel {_summed(self.sums)} here and {_summed(other.sums)} there: say the"
                " same net.masked and net.crowd"
            )
        if self.finding != other.finding:
            yield (
                f"neighbours are {_found(self.finding)} here and {_found(other.finding)} there: say"
                " the same topology, topology.cards and topology.passed under [run]"
            )
        if said := _plans_apart(_until(self.changes, round), _until(other.changes, round)):
            yield said

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
            if plain["protocol"] != PROTOCOL:
                spoken = other_protocol(str(plain["version"]), int(plain["protocol"]))
                raise Refused("other protocol", spoken)
            data = Schema.from_dict(plain.pop("data"), "data")
            return _TERMS.validate_python(plain | {"data": data})
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
            raise Refused("malformed", f"terms: {_line(error)}") from None
        except DataError as error:
            raise Refused("malformed", f"terms: {str(error)[:100]}") from None


_TERMS = TypeAdapter(Terms)


def other_protocol(version: str, protocol: int) -> str:
    """What is said of a member whose version of Amity speaks otherwise."""
    older, newer = ("there", "here") if protocol < PROTOCOL else ("here", "there")
    return (
        f"Amity {__version__} speaks protocol {PROTOCOL} here, and Amity {version[:20]!r} protocol"
        f" {protocol} there: upgrade the one {older} to that {newer}"
    )


def _until(changes: Sequence[Planned], round: int) -> list[Planned]:
    return [change for change in changes if change[0] <= round]


def _plans_apart(here: Sequence[Planned], there: Sequence[Planned]) -> str:
    """The first planned change that only one of two members knows."""
    known = {(start, said) for start, said, _ in (*here, *there)}
    sides = [({(start, said) for start, said, _ in side}) for side in (here, there)]
    for start, said in sorted(known):
        lacking = [
            where
            for where, side in zip(("here", "there"), sides, strict=True)
            if (start, said) not in side
        ]
        if lacking:
            return (
                f"`changes` has {said[:200]!r} {'there' if lacking == ['here'] else 'here'}, and"
                f" not {lacking[0]}: say the same changes under [run]"
            )
    return "" if list(here) == list(there) else "cards differ after a planned change"


def _line(error: Exception) -> str:
    said = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
    return said.splitlines()[0][:100] if said else type(error).__name__


def _card(card: tuple[str | int, ...] | None) -> str:
    return "nothing" if card is None else " ".join(map(str, card))


def _task(task: str) -> str:
    return task[:200] or "classify"


def _steps(stepping: str) -> str:
    return stepping[:200] or "the usual optimiser and schedule"


def _file(weights: str) -> str:
    return f"weights with the SHA-256 {weights[:12]}" if weights else "no weights of a file"


def _summed(sums: str) -> str:
    return f"in masked sums of {sums[:20]}" if sums else "one by one"


def _found(finding: str) -> str:
    return f"found by {finding[:40]}" if finding else "all members, or given by a graph"


def _frozen(digest: str) -> str:
    return f"the SHA-256 {digest[:12]}" if digest else "nothing in it"


def _apart(here: Mapping[str, Any], there: Mapping[str, Any]) -> str:
    """The first parameter in which two models differ."""
    name = next(
        (n for n in (*here, *there) if here.get(n) != there.get(n)), next(iter(here), "nothing")
    )
    mine, other = here.get(name, "absent"), there.get(name, "absent")
    if mine == other:
        return "the parameters of the model stand in another order"
    return f"parameter {name[:60]!r} of the model is {mine} here and {other} there"
