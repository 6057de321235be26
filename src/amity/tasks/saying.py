"""How predictions are told: as a line of CSV, as JSON, and in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from amity.errors import DataError

Array = np.ndarray[Any, Any]
Json = dict[str, Any]
SHARE: Json = {"type": "number", "minimum": 0, "maximum": 1}
MOST = 40
"""Names that are listed."""


class Says:
    """Numbers by name: what a task says that does not say otherwise."""

    rightly: ClassVar[str] = "how much smaller the loss is than that of the best constant answer"
    """What "80 % right" means."""

    def kept(self, answers: Array, x: Any, y: Array | None) -> Array:
        """What a prediction keeps of the answers to some examples: a row of numbers for each. `x`
        are their inputs (by name where there are several), `y` is what is true, if that is
        known."""
        if answers.ndim > 2:
            raise DataError(
                f"task {type(self).__name__}: has an answer at every place and does not say what a"
                " prediction keeps of them; write `kept`, or use amity.use.classifier in Python"
            )
        return answers

    def header(self, names: Sequence[str]) -> list[str]:
        """Columns of a prediction, without the id."""
        return list(names)

    def cells(self, answer: Array, names: Sequence[str]) -> list[str]:
        """The prediction of one example, under these columns."""
        return [f"{value:.6g}" for value in answer]

    def spoken(self, answer: Array, names: Sequence[str]) -> Json:
        """The same as JSON."""
        return {"values": {name: float(v) for name, v in zip(names, answer, strict=True)}}

    def schema(self, names: Sequence[str]) -> Json:
        """Of that JSON: its properties, all of which are always there."""
        return {"values": _object({name: {"type": "number"} for name in names})}

    def described(self, names: Sequence[str], unit: str) -> str:
        """What is given, in a sentence."""
        shown = f", in {unit}" if unit else ""
        return f"A number for each of {len(names)} answers{shown}: {some(names)}."

    def judged(self, answers: Array, truth: Array | None) -> float | None:
        """The leading metric of what was kept, where it is known what is true; None: it cannot be
        had here."""
        return None


def _object(properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": list(properties)}


def shares_schema(names: Sequence[str]) -> Json:
    """A probability for each name."""
    return _object(dict.fromkeys(names, SHARE))


def some(names: Sequence[str]) -> str:
    """The first of them."""
    more = f", and {len(names) - MOST} more" if len(names) > MOST else ""
    return ", ".join(names[:MOST]) + more
