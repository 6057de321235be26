"""CSV and Parquet files as pandas tables."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amity.data.values import LINE
from amity.errors import DataError

SEPARATORS = {";": "semicolons", "\t": "tabs"}
"""Beside commas, found in the first line."""


@dataclass(frozen=True)
class Frame:
    """A table as it was read."""

    data: Any
    """A pandas DataFrame, its columns named by text."""
    twice: tuple[str, ...] = ()
    """Names that several columns have."""
    notes: tuple[str, ...] = ()


def read_frame(path: Path, na: Sequence[str] = (), text: Sequence[str] = ()) -> Frame:
    """`na`: words that stand for a missing value. Columns in `text` are read as they are written:
    01 is not 1."""
    try:
        import pandas as pd
    except ImportError:
        raise DataError(f"{path}: tables need pandas: pip install 'amity[tables]'") from None
    try:
        if path.suffix == ".parquet":
            frame = pd.read_parquet(path)
            return _named(frame.mask(frame.isin([*na, *map(scalar_of, na)])) if na else frame, [])
        return _read_csv(path, na, text)
    except ImportError:
        raise DataError(f"{path}: Parquet needs pyarrow: pip install 'amity[tables]'") from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: is not written in UTF-8; save it as UTF-8") from None
    except (OSError, ValueError, csv.Error) as error:
        raise DataError(
            f"{path}: cannot be read as a table ({(str(error).splitlines() or ['empty'])[0]})"
        ) from None


def scalar_of(word: str) -> Any:
    """A number if the word is one: a Parquet file has numbers as such."""
    try:
        return float(word)
    except ValueError:
        return word


def _read_csv(path: Path, na: Sequence[str], text: Sequence[str]) -> Frame:
    import pandas as pd

    with open(path, encoding="utf-8-sig", newline="") as stream:
        first = stream.readline()
        separator = "," if "," in first else next((s for s in SEPARATORS if s in first), ",")
        stream.seek(0)
        records = csv.reader(stream, delimiter=separator)
        header, row = next(records, []), next(records, [])
    if len(row) > len(header):  # pandas would take the first column for an index
        raise DataError(f"{path}: its rows have more values than its first line has names")
    frame = pd.read_csv(
        path,
        sep=separator,
        na_values=list(na),
        dtype={name: str for name in header if name.strip() in text},
        low_memory=False,
    )
    notes = [f"values are separated by {SEPARATORS[separator]}"] if separator != "," else []
    nameless = [name for name, said in zip(frame.columns, header, strict=True) if not said.strip()]
    if nameless:
        notes.append(f"{len(nameless)} columns without a name (an index?) are left out")
        header = [name for name in header if name.strip()]
    frame = frame.drop(columns=nameless)
    frame.columns = header
    lines = _lines(path, separator, len(frame))
    if lines is not None:
        frame.index = pd.Index(lines, name=LINE)
    return _named(frame, notes)


def _lines(path: Path, separator: str, count: int) -> Sequence[int] | None:
    """The line in which each of `count` rows begins; None where that cannot be told. Mostly a row
    is a line, unless lines are empty or values have several."""
    with open(path, encoding="utf-8-sig", newline="") as stream:
        blank = [not line.strip() for line in stream]
        if not any(blank[: count + 1]) and all(blank[count + 1 :]):
            return range(2, count + 2)
        stream.seek(0)
        records, begun, last = csv.reader(stream, delimiter=separator), list[int](), 0
        for record in records:
            if len(record) > 1 or "".join(record).strip():  # pandas passes over empty lines
                begun.append(last + 1)
            last = records.line_num
    return begun[1:] if len(begun) == count + 1 else None


def _named(frame: Any, notes: list[str]) -> Frame:
    names = [str(name).strip() for name in frame.columns]
    twice = tuple(dict.fromkeys(name for name in names if names.count(name) > 1))
    frame.columns = names
    if twice:
        frame = frame.loc[:, ~frame.columns.duplicated()]
    return Frame(frame, twice, tuple(notes))
