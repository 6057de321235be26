"""Experiments that are tables of runs: rows x columns x panels of configs, several seeds each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from amity.reproduce.design import Design
from amity.reproduce.experiment import Experiment, Grid, Scope
from amity.reproduce.paper import Claim, Printed
from amity.reproduce.pictures import points
from amity.reproduce.presets import PRESETS, Preset
from amity.reproduce.registry import in_order
from amity.reproduce.todo import RunsTodo, prepare_runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from amity.reproduce.table import RunTable


class TableOfRuns(Experiment):
    """What is run (`design`), and how it is compared, judged and drawn."""

    against: ClassVar[str] = ""
    """The row that others are compared with; `|clean` is a column."""
    note: ClassVar[str] = ""
    """What a reader of the table must know."""
    printed: ClassVar[Printed] = Printed()
    claims: ClassVar[tuple[Claim, ...]] = ()
    focus: ClassVar[str] = ""
    """The only peer that is measured; empty: all."""
    called: ClassVar[str] = ""
    """That peer's name in the paper."""
    friends: ClassVar[bool] = False
    """Whether the table also shows how many of those taken are friends."""
    wide: ClassVar[bool] = False
    """Whether there are so many columns that tables show them one under the other."""
    bold_within: ClassVar[float | None] = None
    """Cells are bold that are at most this many points below what they are compared with."""

    @abstractmethod
    def design(self, preset: Preset) -> Design:
        """Rows, columns, panels, sizes and seeds at a preset."""

    def picture(self, table: RunTable) -> Figure:
        """Of what was found. May raise LookupError where too little was run."""
        return points(table)

    def pictures(self, table: RunTable) -> Mapping[str, Figure]:
        """Further ones, by name. May raise LookupError too."""
        return {}

    def further(self, table: RunTable) -> list[Grid]:
        """Tables of its own, after those that all experiments have. May raise LookupError too."""
        return []

    def files(self, table: RunTable) -> Mapping[str, str]:
        """Files of its own beside the page: their names and contents. May raise LookupError
        too."""
        return {}

    def possible(self, design: Design) -> Design:
        """What of it can be run on this machine."""
        return design

    def at(self, name: str, preset: str) -> Design:
        """The design with all that the preset adds; `name` is the experiment's."""
        chosen = PRESETS[preset]
        made = self.design(chosen)
        return replace(
            made,
            name=name,
            over={**chosen.over, **made.over},
            budget=chosen.budget,
            stand_in=chosen.stand_in,
            whole=frozenset(made.cell_keys()),
        )

    def prepare(self, scope: Scope) -> RunsTodo:
        return prepare_runs(self, scope)


def tables() -> dict[str, TableOfRuns]:
    """All tables of runs by name, in their order."""
    made = {entry.name: entry.build({}) for entry in in_order()}
    return {name: one for name, one in made.items() if isinstance(one, TableOfRuns)}
