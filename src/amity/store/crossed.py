"""What `amity matrix` leaves in a run directory: every peer's final model on every peer's test
examples.

    matrix.json      all of it, from which the report draws
    matrix.csv       a line for each model, a column for each peer's test examples
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from amity.core import START, PeerId
from amity.errors import RunDirError
from amity.files import dump, write_atomically
from amity.records import EdgeRecord
from amity.tasks.metrics import ACCURACY, Metric

FILE, TABLE = "matrix.json", "matrix.csv"
NAMED = 3
"""How many others a sentence names; the rest is one sum."""


@dataclass(frozen=True, kw_only=True)
class Crossed:
    """Row i: the model of peer i; column j: the test examples of peer j."""

    names: tuple[PeerId, ...]
    scores: tuple[tuple[float, ...], ...]
    tests: tuple[int, ...]
    """How many test examples each peer has."""
    rounds: tuple[int, ...]
    """After how many rounds each model was taken."""
    metric: Metric = ACCURACY
    """What was measured: the metric that leads."""
    missing: tuple[PeerId, ...] = ()
    """Who is left out, as it has finished no round yet."""
    origins: Mapping[PeerId, str] = field(default_factory=dict)
    """Who the peers are in the data, where that is known."""
    taken: Mapping[PeerId, Mapping[PeerId, float]] = field(default_factory=dict)
    """From whom each peer took how much, mean over its rounds; its own part under its own name."""
    alone: Mapping[PeerId, float] = field(default_factory=dict)
    """What each peer would have if it learnt from nobody."""
    alone_said: str = ""
    """From where that is known, or how it could be."""

    @property
    def array(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.array(self.scores, dtype=np.float64).reshape(len(self.names), -1)

    def own(self, peer: PeerId) -> float:
        """What a peer's model has on its own test examples."""
        at = self.names.index(peer)
        return self.scores[at][at]

    def called(self, peer: PeerId) -> str:
        """`peer-03 (Hamlet)`."""
        origin = self.origins.get(peer, "")
        return f"{peer} ({origin})" if origin not in ("", peer) else peer

    @property
    def sentences(self) -> dict[PeerId, str]:
        """Of each peer: what it would have alone, what it has, and from whom it came."""
        return {peer: self._sentence(peer) for peer in self.names}

    def _sentence(self, peer: PeerId) -> str:
        has, alone, what = self.own(peer), self.alone.get(peer), self.metric.called
        if alone is None:
            said = f"has {what} {self.metric.text(has)}, and what it would have alone is not known"
        else:
            both = (self.metric.text(value) for value in (alone, has))
            gain = self._gain(has, alone)
            said = "would have {} {} alone and has {} ({})".format(what, *both, gain)
        return f"{self.called(peer)} {said}; {self._from_whom(peer)}."

    def _gain(self, has: float, alone: float) -> str:
        gain = self.metric.gain(has, alone)
        if gain == 0:
            return "the same"
        better = "better" if gain > 0 else "worse" if gain < 0 else "which cannot be compared"
        return " ".join(f"{self.metric.number(abs(gain))} {self.metric.apart} {better}".split())

    def _from_whom(self, peer: PeerId) -> str:
        row = self.taken.get(peer, {})
        others = {j: w for j, w in row.items() if j != peer and w > 0}
        if not row:
            return "from whom it came is not known"
        if not others:
            return "all of it came from itself"
        ranked = sorted(others, key=lambda j: (-others[j], j))
        first, rest = ranked[:NAMED], ranked[NAMED:]
        parts = [f"{_share(row.get(peer, 0.0))} from itself"]
        parts += [f"{_share(others[j])} from {self.called(j)}" for j in first]
        if rest:
            count = "1 other" if len(rest) == 1 else f"{len(rest)} others"
            parts.append(f"{_share(sum(others[j] for j in rest))} from {count}")
        return f"over the run it took {', '.join(parts[:-1])} and {parts[-1]}"

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A line for each model, as plain data."""
        return [
            {"model of": peer, **dict(zip(self.names, scores, strict=True))}
            for peer, scores in zip(self.names, self.scores, strict=True)
        ]

    def to_csv(self) -> str:
        """A line for each model, a column for the test examples of each peer."""
        stream = io.StringIO()
        writer = csv.DictWriter(stream, ["model of", *self.names])
        writer.writeheader()
        writer.writerows(self.rows)
        return stream.getvalue()

    def write(self, path: Path) -> None:
        """Into a run directory."""
        write_atomically(path / FILE, dump(asdict(self)))
        write_atomically(path / TABLE, self.to_csv().encode())


def read_crossed(path: Path) -> Crossed | None:
    """What lies in a run directory; None: nothing."""
    try:
        plain = json.loads((path / FILE).read_bytes())
        found: Crossed = TypeAdapter(Crossed).validate_python(plain)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, ValidationError):
        raise _damaged(path) from None
    square = {len(found.names), *map(len, found.scores), len(found.scores), len(found.tests)}
    if len(square) != 1 or len(found.rounds) != len(found.names):
        raise _damaged(path)
    return found


def _damaged(path: Path) -> RunDirError:
    return RunDirError(f"{path / FILE}: is damaged; `amity matrix {path}` writes it anew")


def _share(weight: float) -> str:
    return f"{100 * weight:.0f} %"


def mean_rows(edges: Iterable[EdgeRecord]) -> dict[PeerId, dict[PeerId, float]]:
    """The mean of each peer's rows; what it kept of its start is its own."""
    counts: dict[PeerId, int] = {}
    sums: dict[PeerId, dict[PeerId, float]] = {}
    for edge in edges:
        me, mine = edge.peer, sums.setdefault(edge.peer, {})
        counts[me] = counts.get(me, 0) + 1
        for j, weight in edge.row.items():
            whose = me if j == START else j
            mine[whose] = mine.get(whose, 0.0) + weight
    return {me: {j: w / counts[me] for j, w in mine.items()} for me, mine in sums.items()}
