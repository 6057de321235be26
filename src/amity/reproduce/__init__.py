"""The paper, claim by claim: every table and figure by one command, with what the paper prints
beside it and a verdict.

`amity reproduce table1 --preset cpu`. An experiment is one file in `experiments/`: its rows,
columns and panels at every preset, what the paper prints, the claims with their checks, and the
picture. Its cells are runs like any other (`todo`), from each of which a small record is kept
(`record`); tables (`table`, `text`, `page`), pictures (`pictures`) and verdicts (`verdicts`) are
made from records alone.

Every name below loads its module when it is first used, so that the command line starts at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amity.lazy import public_name

if TYPE_CHECKING:
    from amity.reproduce.experiment import Experiment, Scope
    from amity.reproduce.presets import PRESETS
    from amity.reproduce.run import reproduce
    from amity.reproduce.table import RunTable
    from amity.reproduce.table_of_runs import TableOfRuns, tables

_HOME = {
    "PRESETS": "amity.reproduce.presets",
    "Experiment": "amity.reproduce.experiment",
    "RunTable": "amity.reproduce.table",
    "Scope": "amity.reproduce.experiment",
    "TableOfRuns": "amity.reproduce.table_of_runs",
    "reproduce": "amity.reproduce.run",
    "tables": "amity.reproduce.table_of_runs",
}

__all__ = [
    "PRESETS",
    "Experiment",
    "RunTable",
    "Scope",
    "TableOfRuns",
    "reproduce",
    "tables",
]


def __getattr__(name: str) -> Any:
    return public_name(__name__, _HOME, name)
