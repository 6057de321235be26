"""Shoulder exercises by smartwatch: series of ten subjects, who are the peers.

From the package seglearn (BSD licence), which holds a part of the data of Burns et al.,
arXiv:1802.01489: 7 exercises, both sides, 20 repetitions each, 6 channels at 50 Hz.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from amity.data.base import Dataset, build, datasets
from amity.data.inert import array_of, read_inert
from amity.data.published import FROM_MIRROR, Download, File, Published, read_all

FILE = "watch_dataset.npy"
WATCH = Published(
    "watch",
    ("watch",),
    (File(FILE, 18118091, "2549546e08309e6ecb14195230464f96"),),
    (
        Download(
            "https://files.pythonhosted.org/packages/8e/1d/"
            "786c3ff9c0452d0a6461a97ae248478319473777bf074ad1738d4749f2ac/"
            "seglearn-1.2.5-py3-none-any.whl",
            "c24d5b5f895a732963ae93fb9241f659",
            "watch",
        ),
    ),
    also=FROM_MIRROR,
)
TESTED = 0.3
"""Share of each recording, from its end, that is for testing: what is tested lies after what is
trained on."""
Array = np.ndarray[Any, Any]


class Recordings(NamedTuple):
    """One series for each recording, time x channels."""

    series: list[Array]
    exercise: Array
    subject: Array
    exercises: tuple[str, ...]


@datasets.register("watch")
@dataclass(frozen=True)
class Smartwatch:
    """Smartwatch: 7 shoulder exercises by 10 subjects, series of 6 channels (accelerometer and
    gyroscope, 50 Hz)."""

    dir: str = ""
    """The folder with its files; empty: where `amity data get` puts them (AMITY_DATA)."""
    steps: Annotated[int, Field(ge=8, le=1000)] = 100
    """Points in time of an example: 50 are a second."""

    published: ClassVar[Published] = WATCH
    suits: ClassVar[Mapping[str, Any]] = {
        "peers": 10,
        "rounds": 20,
        "partition": {"name": "natural"},
        "model": {"name": "cnn1d"},
        "train": {"lr": 0.1, "batch": 16, "epochs": 1},
    }

    def load(self) -> Dataset:
        return windows_of(recordings_of(read_all(WATCH, self.dir)[FILE]), self.steps)


def recordings_of(data: bytes) -> Recordings:
    """What the file holds."""
    plain = read_inert(FILE, data)
    exercise, subject = (array_of(FILE, plain[key]).astype(np.int64) for key in ("y", "subject"))
    series = [array_of(FILE, one) for one in plain["X"]]
    return Recordings(series, exercise, subject, tuple(map(str, plain["y_labels"])))


def windows_of(found: Recordings, steps: int) -> Dataset:
    """Stretches of `steps` that follow each other, of every recording; what is left over at its end
    is dropped."""
    parts: dict[str, list[Array]] = {"x": [], "y": [], "writer": [], "test": []}
    people = np.unique(found.subject)
    for series, exercise, subject in zip(*found[:3], strict=True):
        count = len(series) // steps
        x = series[: count * steps].reshape(count, steps, -1).transpose(0, 2, 1)
        parts["x"].append(x.astype(np.float32))
        parts["y"].append(np.full(count, exercise))
        parts["writer"].append(np.full(count, np.searchsorted(people, subject)))
        parts["test"].append(np.arange(count) >= round(count * (1 - TESTED)))
    x, y, writer, test = (np.concatenate(parts[key]) for key in parts)
    train = np.flatnonzero(~test)
    return build(
        "watch",
        x,
        y,
        train,
        np.flatnonzero(test),
        mean=x[train].mean((0, 2), dtype=np.float64),
        std=x[train].std((0, 2), dtype=np.float64),
        writers=writer,
        writer_names=tuple(f"subject {number}" for number in people.tolist()),
        names=found.exercises,
        classes=len(found.exercises),
    )
