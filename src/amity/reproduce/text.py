"""A table as text: grids of cells, differences, costs, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from amity.reproduce.experiment import Grid
from amity.reproduce.friends import RARE
from amity.reproduce.shared import GOSSIP
from amity.show.page import markdown_table

if TYPE_CHECKING:
    from amity.reproduce.table import CellStats, RunTable

NOTHING = "-"
"""A cell that was not run, or has nothing to show."""


def grids(table: RunTable) -> list[Grid]:
    """Accuracies: a title, a header and lines for each panel."""

    def cell(entry: CellStats | None) -> str:
        return NOTHING if entry is None else _accuracy(table, entry)

    return [(panel, *_grid(table, panel, cell)) for panel in table.panels]


def _accuracy(table: RunTable, entry: CellStats) -> str:
    """An accuracy as it is printed; bold where the table says what is good enough."""
    value = f"{entry.accuracy:.1f}" + (f" ± {entry.std:.1f}" if entry.seeds > 1 else "")
    if entry.seeds < len(table.seeds):
        value += f" [{entry.seeds}]"
    within = table.experiment.bold_within
    if within is not None and entry.difference is not None and entry.difference >= -within:
        return f"**{value}**"
    return value + (f" ({entry.paper:.1f})" if entry.paper is not None else "")


def friends(table: RunTable) -> list[Grid]:
    """Of those taken, how many are friends, and of those in reach."""
    if not table.experiment.friends:
        return []
    return [
        (
            f"{panel}, friends among those taken (in reach)".removeprefix(", "),
            *_grid(table, panel, _friends),
        )
        for panel in table.panels
        if any(_friends(entry) != NOTHING for entry in table.entries if entry.panel == panel)
    ]


def _friends(entry: CellStats | None) -> str:
    if entry is None or entry.precision is None or entry.base_rate is None:
        return NOTHING
    found = f"{100 * entry.precision:.0f} % ({100 * entry.base_rate:.0f} %)"
    return found if entry.taken and entry.base_rate >= RARE else NOTHING


def _grid(
    table: RunTable, panel: str, text: Callable[[CellStats | None], str]
) -> tuple[list[str], list[list[str]]]:
    """A header and lines, of the rows and columns that have anything to show."""
    cells = {
        (row, column): text(table.entry(panel, row, column))
        for row in table.rows
        for column in table.columns(panel)
    }
    rows, columns = (
        dict.fromkeys(key[axis] for key, cell in cells.items() if cell != NOTHING)
        for axis in (0, 1)
    )
    lines = [[row, *(cells[row, c] for c in columns)] for row in rows]
    return turned(table, ["", *columns], lines)


def turned(
    table: RunTable, head: list[str], lines: list[list[str]]
) -> tuple[list[str], list[list[str]]]:
    """Columns one under the other, where the experiment has many."""
    if not table.experiment.wide:
        return head, lines
    first, *rest = [list(cells) for cells in zip(head, *lines, strict=True)]
    return first, rest


def differences(table: RunTable) -> list[Grid]:
    """Paired differences to the row that all are compared with, also at equal bytes."""
    against = table.experiment.against
    if not against or against.startswith("|"):
        return []
    kinds = [(False, "")] + [(True, ", at Gossip's bytes")] * (against == GOSSIP)
    out = []
    for panel in table.panels:
        for equal, what in kinds:
            if lines := _apart(table, panel, equal):
                title = f"{panel}, " if panel else ""
                title += f"minus {against}{what} (points, 95 % interval)"
                out.append((title, *turned(table, ["", *table.columns(panel)], lines)))
    return out


def further(table: RunTable) -> list[Grid]:
    """The experiment's own tables, if enough was run for them."""
    try:
        return table.experiment.further(table)
    except LookupError:
        return []


def _apart(table: RunTable, panel: str, equal_bytes: bool) -> list[list[str]]:
    """The lines of one panel's differences."""
    against, columns = table.experiment.against, table.columns(panel)
    lines = []
    for row in table.rows:
        cells = [
            table.difference((panel, row, c), (panel, against, c), equal_bytes) for c in columns
        ]
        if row != against and any(cells):
            lines.append([row, *(str(cell) if cell else NOTHING for cell in cells)])
    return lines


def every_grid(table: RunTable) -> list[Grid]:
    """All tables but that of costs."""
    return [*grids(table), *differences(table), *friends(table), *further(table)]


def costs(table: RunTable) -> tuple[list[str], list[list[str]]]:
    """What each row costs, mean over columns and panels."""
    head = ["", "MB a peer", "seconds a run", "neighbours taken", "runs"]
    lines = []
    for row in table.rows:
        mine = [e for e in table.entries if e.row == row]
        lines.append(
            [
                row,
                f"{np.mean([e.megabytes for e in mine]):.2f}",
                f"{np.mean([e.seconds for e in mine]):.1f}",
                f"{np.mean([e.taken for e in mine]):.1f}",
                str(sum(e.seeds for e in mine)),
            ]
        )
    return head, lines


def caption(table: RunTable) -> str:
    """What the numbers are."""
    design, entries = table.design, table.entries
    few = any(entry.seeds < len(table.seeds) for entry in entries)
    brackets = " (in square brackets: how many of them, where not all)" if few else ""
    paper = any(entry.paper is not None for entry in entries)
    printed = " (in brackets: the paper's)" if paper else ""
    who = f"of {table.experiment.called}" if table.experiment.focus else "mean over peers"
    start = f"{design.stand_in} " if design.stand_in else ""
    there, asked = len(table.records), len(design.whole or design.cell_keys()) * len(design.seeds)
    part = f" {there} of the table's {asked} runs." if there < asked else ""
    missed = "".join(f" {line[:1].upper()}{line[1:]}." for line in design.left_out)
    return (
        f"{start}Test accuracy in the last round in %, {who} ± standard deviation over"
        f" seeds{printed}; preset {table.head.preset}, seeds"
        f" {', '.join(map(str, table.seeds))}{brackets}.{part} {table.head.sizes}.{missed}"
    )


def remarks(table: RunTable) -> list[str]:
    """What the terminal says after the tables."""
    lines = [caption(table)]
    lines += [table.experiment.note] * bool(table.experiment.note)
    lines += [f"{v.status.upper()}: {v.claim.text} {v.evidence}" for v in table.verdicts]
    budget = table.design.budget
    if slow := [record for record in table.records if budget and record.seconds > budget]:
        lines.append(
            f"{len(slow)} of {len(table.records)} runs took longer than the {budget:.0f} s meant"
            " for a cell"
        )
    return lines


def markdown(table: RunTable) -> str:
    """Everything but the picture, in Markdown."""
    parts = [f"{caption(table)} {table.experiment.note}".strip()]
    for title, head, lines in every_grid(table):
        parts += [f"**{title}**"] * bool(title) + [markdown_table(head, lines)]
    parts.append(markdown_table(*costs(table)))
    parts += [f"* **{v.claim.text}** *{v.status}.* {v.evidence}" for v in table.verdicts]
    parts += [f"* Known of the paper: {note}" for note in table.experiment.printed.known]
    return "\n\n".join(parts) + "\n"
