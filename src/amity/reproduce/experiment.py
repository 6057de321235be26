"""What an experiment is to the command line: something that is prepared, run, shown and saved.

Most are tables of runs (`table_of_runs.TableOfRuns`). One that is not brings a `prepare` of its
own, whose answer says how it is run (`labels`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from amity.config import nested, read_run
from amity.reproduce.presets import USUAL, Layer

if TYPE_CHECKING:
    from amity.lab.cells import Cell
    from amity.sinks.stream import Wanted

ROOT = Path("runs") / "reproduce"
"""Where tables and their cells are kept, unless `out=` says otherwise."""
PARTS = ("rows", "columns", "panels")
"""What names a part of a table."""
Grid = tuple[str, list[str], list[list[str]]]
"""A title, a header, and lines."""
Say = Callable[[str], None]
"""Tells the user one line."""


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Which experiment, at what size, which part of it, and where it goes."""

    name: str
    preset: str = "cpu"
    seeds: tuple[int, ...] = ()
    """None: those of the preset."""
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    panels: tuple[str, ...] = ()
    file: Path | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Config keys, such as `train.lr`."""
    root: Path = ROOT
    command: str = ""
    """What the user typed, to be printed beside the table."""

    @property
    def folder(self) -> str:
        """What the experiment's own folder is called; of `file.py:Class` this is the class."""
        return f"{self.name.rpartition(':')[2]}-{self.preset}"

    @property
    def given(self) -> list[Layer]:
        """The file's and the caller's own keys."""
        layers = (read_run(self.file) if self.file else {}, nested(self.overrides))
        return [layer for layer in layers if layer]


class Findings(Protocol):
    """What came out of an experiment."""

    @property
    def errors(self) -> Mapping[str, str]:
        """What failed, and why."""

    def shown(self) -> list[Grid]:
        """The tables for the terminal."""

    def remarks(self) -> list[str]:
        """The lines for the terminal, after the tables."""

    def save(self, path: Path) -> Path:
        """Write everything into a folder; returns the page to look at."""


class Todo(Protocol):
    """An experiment that is ready to be run."""

    @property
    def path(self) -> Path:
        """Where its findings go."""

    @property
    def cells(self) -> Sequence[Cell]:
        """Its runs; none if it has its own way of running."""

    @property
    def done(self) -> frozenset[Path]:
        """The cells that were finished when it was prepared."""

    def run(self, jobs: int = 0, sinks: Wanted = None, say: Say | None = None) -> Findings:
        """Run what is missing, and gather everything."""

    def so_far(self) -> Findings:
        """Of what is finished; nothing is run."""


class Experiment(ABC):
    """One experiment. Its subclasses are frozen dataclasses in files of their own, registered by
    `@experiments.register(NAME)`."""

    title: ClassVar[str]
    place: ClassVar[int] = 1000
    """Lists of all experiments are in the order of this."""
    presets: ClassVar[tuple[str, ...]] = USUAL
    """The presets that it has."""
    in_all: ClassVar[tuple[str, ...]] = USUAL
    """The presets at which `amity reproduce all` makes it too."""
    takes: ClassVar[tuple[str, ...]] = (*PARTS, "jobs", "sinks")
    """The keys of the command line that it understands, besides seeds= and out=."""

    @abstractmethod
    def prepare(self, scope: Scope) -> Todo:
        """What is to be run; refuses what cannot be."""
