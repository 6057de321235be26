"""Text for a model of characters: lines as the ids that it was trained with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from amity.errors import DataError
from amity.use.examples import Examples
from amity.use.modelfile import Description

Array = np.ndarray[Any, Any]


def text_examples(
    description: Description, where: str, lines: Mapping[str, str], id_name: str = "line"
) -> Examples:
    """Lines by name. One that is longer than the model's sequences is read in pieces, each from its
    own beginning, as in training: `3.2` is the second piece of line 3. Characters that the model
    does not know are left out."""
    letters, longest = description.schema.letters, description.shape[0]
    if not letters:
        raise DataError(
            f"{where}: the model was not trained on characters and reads no text; it takes examples"
            f" of shape {description.shape}, of tokens their ids `x` (and `lengths`) in a .npz file"
        )
    code = {letter: at for at, letter in enumerate(letters, 1)}
    known = {name: [code[c] for c in line if c in code] for name, line in lines.items()}
    left = sum(map(len, lines.values())) - sum(map(len, known.values()))
    rows = {
        f"{name}.{part}" if len(ids) > longest else name: piece
        for name, ids in known.items()
        for part, piece in enumerate(_pieces(ids, longest, description.places is None), 1)
    }
    if not rows:
        raise DataError(f"{where}: holds no character that the model knows")
    long = sum(len(ids) > longest for ids in known.values())
    empty = sum(not ids for ids in known.values())
    notes = {
        f"{left} characters are none of the model's, left out": left,
        f"{empty} lines without a known character, left out": empty,
        f"{long} lines are longer than {longest} characters, read in pieces": long,
    }
    x, y = (_padded([row[k] for row in rows.values()], longest) for k in (0, 1))
    return Examples(
        x=x,
        ids=tuple(rows),
        id_name=id_name,
        numbers=None if description.places is None else y,
        notes=tuple(note for note, count in notes.items() if count),
    )


def _pieces(ids: list[int], longest: int, once: bool) -> Iterator[tuple[list[int], list[int]]]:
    """Sequences, and what follows each of their characters. A model that answers `once`, after a
    whole sequence, is given the end of the line."""
    if once and ids:
        yield ids[-longest:], []
        return
    for at in range(0, len(ids), longest):
        yield ids[at : at + longest], ids[at + 1 : at + longest + 1]


def _padded(rows: Sequence[Sequence[int]], longest: int) -> Array:
    found = np.zeros((len(rows), longest), np.int64)
    for at, row in enumerate(rows):
        found[at, : len(row)] = row
    return found
