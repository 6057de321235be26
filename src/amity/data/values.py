"""The values of a table's column as words, numbers or days, whatever type a file gave them."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
TRUTH = {"true": 1.0, "false": 0.0}
WHOLE = re.compile(r"-?\d+\.0+")
"""A whole number that a file with holes writes as 1.0."""
ISO = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([T ]\d{1,2}:\d{2}.*)?")
ODD_DATE = re.compile(r"(\d{1,2}[./-]\d{1,2}[./-]\d{2,4}|\d{4}[./]\d{1,2}[./]\d{1,2})(\D.*)?")
COMMA = re.compile(r"-?\d+,\d+")
LINE = "line of the file"
"""What the index of a table is called that knows in which line each of its rows begins."""


@dataclass(frozen=True)
class Values:
    """One column, as pandas has it."""

    raw: Any

    def some(self, at: Array) -> str:
        """`7 of 120 rows, first in line 6 of the file`: counted as an editor does, where the file
        has lines; else `first in row 5`."""
        first, index = int(at.argmax()), self.raw.index
        place = f"line {index[first]} of the file" if index.name == LINE else f"row {first + 1}"
        return f"{int(at.sum())} of {len(at)} rows, first in {place}"

    @property
    def typed(self) -> bool:
        """Whether the file itself says that these are numbers."""
        return bool(self.raw.dtype.kind in "buif")

    @property
    def timed(self) -> bool:
        """Whether the file itself says that these are dates."""
        if self.raw.dtype.kind == "M":
            return True
        return self.raw.dtype == object and any(isinstance(v, datetime.date) for v in self.raw)

    @cached_property
    def _words(self) -> tuple[Array, tuple[str, ...]]:
        import pandas as pd

        try:
            codes, found = pd.factorize(self.raw)
        except TypeError:  # lists and the like
            codes, found = pd.factorize(self.raw.map(str))
        words = [word_of(value) for value in found]
        known = {word: at for at, word in enumerate(dict.fromkeys(w for w in words if w))}
        place = np.array([*(known.get(word, -1) for word in words), -1], np.int64)
        return place[codes], tuple(known)

    @property
    def words(self) -> tuple[str, ...]:
        """The different values as text."""
        return self._words[1]

    @property
    def codes(self) -> Array:
        """Which of the words each row has; -1: none."""
        return self._words[0]

    @cached_property
    def counts(self) -> Array:
        """How many rows have each word."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.words))

    @cached_property
    def absent(self) -> Array:
        """Where there is no value."""
        return np.asarray(self.raw.isna()) if self.typed else self.codes < 0

    @property
    def count(self) -> int:
        """Rows that have a value."""
        return int((~self.absent).sum())

    def share(self, form: re.Pattern[str]) -> float:
        """Of the rows with a value, how many have this form."""
        fits = np.array([form.fullmatch(word) is not None for word in self.words], bool)
        return float(self.counts[fits].sum()) / max(self.count, 1)

    def _each(self, of_words: Array) -> Array:
        return np.append(of_words, np.nan)[self.codes]

    @cached_property
    def numbers(self) -> Array:
        """NaN where there is none, or where it is no number."""
        import pandas as pd

        if self.typed:
            numbers: Array = self.raw.to_numpy(dtype=np.float64, na_value=np.nan)
            return numbers
        words = pd.Series(self.words, dtype=object)
        found = pd.to_numeric(words, errors="coerce").to_numpy(dtype=np.float64)
        truth = np.array([TRUTH.get(word.lower(), np.nan) for word in self.words], np.float64)
        return self._each(np.where(np.isnan(found), truth, found))

    @cached_property
    def days(self) -> Array:
        """Days since 1970; NaN where there is none, or where it is no date."""
        import pandas as pd

        if self.raw.dtype.kind == "M":
            when = pd.to_datetime(self.raw, utc=True)
        else:
            iso = [word if ISO.fullmatch(word) else None for word in self.words]
            when = pd.to_datetime(
                pd.Series(iso, dtype=object), format="ISO8601", utc=True, errors="coerce"
            )
        days = (when - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)
        found = days.to_numpy(dtype=np.float64)
        return found if self.raw.dtype.kind == "M" else self._each(found)


def word_of(value: Any) -> str:
    """A value as text; empty: it says nothing. Whole numbers have no point, however they were
    stored."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    word = str(value).strip()
    return word.partition(".")[0] if WHOLE.fullmatch(word) else word
