"""A table made from records: means, paired differences, accuracy at equal bytes, and what the paper
prints beside them."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from amity.errors import StorageError
from amity.files import csv_text, write_atomically
from amity.reproduce.differences import Difference, paired
from amity.reproduce.experiment import Experiment, Key
from amity.reproduce.paper import Printed, printed
from amity.reproduce.record import Head, Record, write_records
from amity.reproduce.verdicts import RARE, Verdict, judge
from amity.show import figures
from amity.show.page import html_table, markdown_table, page, prose, section
from amity.show.summary import std

Grid = tuple[str, list[str], list[list[str]]]
"""A title, a header, and lines."""
GOSSIP = "Gossip"
"""The row whose bytes are the measure of all."""


def at_bytes(record: Record, megabytes: float) -> float | None:
    """Accuracy when so many bytes had been received: between two measurements in proportion, the
    last if never; None before the first."""
    moved, accuracy = [point[1] for point in record.curve], [point[2] for point in record.curve]
    if megabytes < moved[0]:
        return None
    return (
        float(np.interp(megabytes, moved, accuracy)) if moved[-1] > megabytes else record.accuracy
    )


@dataclass(frozen=True)
class Entry:
    """One cell of the table over all seeds: accuracies in percent, differences in points."""

    panel: str
    row: str
    column: str
    seeds: int
    accuracy: float
    std: float
    best: float
    at_gossips_bytes: float | None
    difference: float | None
    """To the row (or column) that all are compared with, paired by seed."""
    interval: float | None
    paper: float | None
    paper_std: float | None
    megabytes: float
    seconds: float
    taken: float
    precision: float | None
    base_rate: float | None
    attackers_weight: float | None


@dataclass(frozen=True)
class Table:
    """An experiment with its records."""

    experiment: Experiment
    head: Head
    records: Sequence[Record]
    errors: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def by_key(self) -> dict[Key, dict[int, Record]]:
        found: dict[Key, dict[int, Record]] = {}
        for record in self.records:
            found.setdefault(record.key, {})[record.seed] = record
        return found

    @cached_property
    def printed(self) -> Printed:
        return printed(self.experiment.name)

    def of(self, panel: str, row: str, column: str) -> dict[int, Record]:
        """The runs of a cell, by seed."""
        return self.by_key.get((panel, row, column), {})

    def accuracies(
        self, panel: str, row: str, column: str, equal_bytes: bool = False
    ) -> dict[int, float]:
        """By seed, in percent; where there are attackers, of the peers that are honest in every
        column."""
        mine = self.of(panel, row, column)
        if equal_bytes:
            gossip = self.of(panel, GOSSIP, column)
            found = {
                seed: at_bytes(r, gossip[seed].megabytes)
                for seed, r in mine.items()
                if seed in gossip
            }
            return {
                seed: 100 * accuracy for seed, accuracy in found.items() if accuracy is not None
            }
        out = {}
        for seed, record in mine.items():
            bad = self._attackers.get((panel, seed))
            honest = [value for k, value in enumerate(record.final) if not bad or k not in bad]
            out[seed] = 100 * (float(np.mean(honest)) if bad else record.accuracy)  # type: ignore[arg-type]
        return out

    @cached_property
    def _attackers(self) -> dict[tuple[str, int], set[int]]:
        """Who attacks in any run of a panel and seed: compared are those who are honest in all of
        them."""
        found: dict[tuple[str, int], set[int]] = {}
        for record in self.records:
            bad = {k for k, value in enumerate(record.final) if value is None}
            if bad and not self.experiment.focus:
                found.setdefault((record.panel, record.seed), set()).update(bad)
        return found

    def difference(
        self, ours: tuple[str, str, str], theirs: tuple[str, str, str], equal_bytes: bool = False
    ) -> Difference | None:
        """One cell minus another, paired by seed."""
        return paired(self.accuracies(*ours, equal_bytes), self.accuracies(*theirs, equal_bytes))

    def baseline(self, panel: str, row: str, column: str) -> Key | None:
        """The cell that this one is compared with."""
        against = self.experiment.against
        key = (panel, row, against[1:]) if against.startswith("|") else (panel, against, column)
        return None if not against or key == (panel, row, column) else key

    def entry(self, panel: str, row: str, column: str) -> Entry | None:
        """A cell over all its seeds; None if it was not run."""
        return self._by_cell.get((panel, row, column))

    @cached_property
    def _by_cell(self) -> dict[Key, Entry]:
        axes = self.experiment
        keys = ((p, r, c) for p in axes.panels for r in axes.rows for c in axes.columns)
        return {key: entry for key in keys if (entry := self._entry(*key)) is not None}

    @property
    def entries(self) -> list[Entry]:
        return list(self._by_cell.values())

    def _entry(self, panel: str, row: str, column: str) -> Entry | None:
        found = self.accuracies(panel, row, column)
        if not found:
            return None
        runs = [self.of(panel, row, column)[seed] for seed in found]
        other = self.baseline(panel, row, column)
        apart = self.difference((panel, row, column), other) if other else None
        here = self.experiment.printed in ("", panel) and not self.experiment.stand_in
        paper, paper_std = (
            self.printed.numbers.get((row, column), (None, None)) if here else (None, None)
        )
        equal = list(self.accuracies(panel, row, column, equal_bytes=True).values())
        values = list(found.values())
        return Entry(
            panel,
            row,
            column,
            len(values),
            float(np.mean(values)),
            std(values),
            100 * float(np.mean([r.best for r in runs])),
            float(np.mean(equal)) if equal else None,
            apart.mean if apart else None,
            apart.half if apart else None,
            paper,
            paper_std,
            float(np.mean([r.megabytes for r in runs])),
            float(np.mean([r.seconds for r in runs])),
            float(np.mean([r.taken for r in runs])),
            mean_of([r.precision for r in runs]),
            mean_of([r.base_rate for r in runs]),
            mean_of([r.attackers_weight for r in runs]),
        )

    @cached_property
    def verdicts(self) -> list[Verdict]:
        return judge(self)

    # -- as text -----------------------------------------------------------------------------------

    def cell_text(self, entry: Entry | None) -> str:
        """A cell as it is printed; in tables of attacks, bold if it holds."""
        if entry is None:
            return "-"
        value = f"{entry.accuracy:.1f}" + (f" ± {entry.std:.1f}" if entry.seeds > 1 else "")
        if entry.seeds < len(self.seeds):
            value += f" [{entry.seeds}]"
        if (
            self.experiment.picture == "heat"
            and entry.difference is not None
            and entry.difference >= -2
        ):
            return f"**{value}**"
        return value + (f" ({entry.paper:.1f})" if entry.paper is not None else "")

    def columns(self, panel: str | None = None) -> list[str]:
        """Columns that have at least one run (in a panel)."""
        have = {record.column for record in self.records if panel in (None, record.panel)}
        return [column for column in self.experiment.columns if column in have]

    @property
    def panels(self) -> list[str]:
        """Panels that have at least one run."""
        have = {record.panel for record in self.records}
        return [panel for panel in self.experiment.panels if panel in have]

    @property
    def rows(self) -> list[str]:
        """Rows that have at least one run."""
        have = {record.row for record in self.records}
        return [row for row in self.experiment.rows if row in have]

    def grids(self) -> list[Grid]:
        """What is printed: a title, a header and lines for each panel."""
        return [(panel, *self._grid(panel, self.cell_text)) for panel in self.panels]

    def friends(self) -> list[Grid]:
        """Of those taken, how many are friends, and of those in reach."""
        if not self.experiment.friends:
            return []
        return [
            (
                f"{panel}, friends among those taken (in reach)".removeprefix(", "),
                *self._grid(panel, _friends_text),
            )
            for panel in self.panels
            if any(_friends_text(e) != "-" for e in self.entries if e.panel == panel)
        ]

    def _grid(
        self, panel: str, text: Callable[[Entry | None], str]
    ) -> tuple[list[str], list[list[str]]]:
        """A header and lines, of the rows and columns that have anything to show."""
        cells = {
            (row, c): text(self.entry(panel, row, c))
            for row in self.rows
            for c in self.columns(panel)
        }
        rows, columns = (
            dict.fromkeys(key[axis] for key, cell in cells.items() if cell != "-")
            for axis in (0, 1)
        )
        return ["", *columns], [[row, *(cells[row, c] for c in columns)] for row in rows]

    def differences(self) -> list[Grid]:
        """Paired differences to the row that all are compared with, also at equal bytes."""
        against, out = self.experiment.against, []
        if not against or against.startswith("|"):
            return []
        for panel in self.panels:
            for equal, what in ((False, ""), (True, ", at Gossip's bytes")):
                if equal and against != GOSSIP:
                    continue
                lines, columns = [], self.columns(panel)
                for row in self.rows:
                    cells = [
                        self.difference((panel, row, c), (panel, against, c), equal)
                        for c in columns
                    ]
                    if row != against and any(cells):
                        lines.append([row, *(str(cell) if cell else "-" for cell in cells)])
                if lines:
                    title = f"{panel}, " if panel else ""
                    out.append(
                        (
                            f"{title}minus {against}{what} (points, 95 % interval)",
                            ["", *columns],
                            lines,
                        )
                    )
        return out

    def costs(self) -> tuple[list[str], list[list[str]]]:
        """What each row costs, mean over columns and panels."""
        head = ["", "MB a peer", "seconds a run", "neighbours taken", "runs"]
        lines = []
        for row in self.rows:
            mine = [e for e in self.entries if e.row == row]
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

    @property
    def seeds(self) -> list[int]:
        """Of any run."""
        return sorted({record.seed for record in self.records})

    @property
    def caption(self) -> str:
        """What the numbers are."""
        few = " (in square brackets: how many of them, where not all)" * any(
            e.seeds < len(self.seeds) for e in self.entries
        )
        paper = (
            " (in brackets: the paper's)" if any(e.paper is not None for e in self.entries) else ""
        )
        who = f"of {self.experiment.called}" if self.experiment.focus else "mean over peers"
        start = f"{self.experiment.stand_in} " if self.experiment.stand_in else ""
        whole = self.experiment.whole or self.experiment.keys()
        there, asked = len(self.records), len(whole) * len(self.experiment.seeds)
        part = f" {there} of the table's {asked} runs." if there < asked else ""
        return (
            f"{start}Test accuracy in the last round in %, {who} ± standard deviation over"
            f" seeds{paper}; preset {self.head.preset}, seeds"
            f" {', '.join(map(str, self.seeds))}{few}.{part} {self.head.sizes}."
        )

    def markdown(self) -> str:
        """Everything but the picture, in Markdown."""
        parts = [f"{self.caption} {self.experiment.note}".strip()]
        for title, head, lines in (*self.grids(), *self.differences(), *self.friends()):
            parts += [f"**{title}**"] * bool(title) + [markdown_table(head, lines)]
        parts.append(markdown_table(*self.costs()))
        parts += [f"* **{v.claim.text}** *{v.status}.* {v.evidence}" for v in self.verdicts]
        parts += [f"* Known of the paper: {note}" for note in self.printed.known]
        return "\n\n".join(parts) + "\n"

    def save(self, path: Path) -> Path:
        """records.jsonl, table.md, table.csv, verdicts.csv, figure.svg and report.html. A picture
        that cannot be drawn of what is there loses nothing else."""
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"{path}: cannot be written ({error.strerror})") from None
        write_records(path / "records.jsonl", self.head, self.records)
        verdicts = [
            {"claim": v.claim.text, "verdict": v.status, "evidence": v.evidence}
            for v in self.verdicts
        ]
        for name, text in (
            ("table.md", self.markdown()),
            ("table.csv", csv_text([asdict(entry) for entry in self.entries])),
            ("verdicts.csv", csv_text(verdicts) if verdicts else ""),
        ):
            write_atomically(path / name, text.encode())
        try:
            picture = figures.svg(self.figure())
        except LookupError:
            picture = "<p>Too few of its runs are there for a picture.</p>"
        else:
            write_atomically(path / "figure.svg", picture.encode())
        write_atomically(path / "report.html", self._html(picture).encode())
        return path / "report.html"

    def figure(self) -> Any:
        from amity.reproduce.pictures import picture_of

        return picture_of(self)

    def _html(self, picture: str) -> str:
        errors = "".join(
            f'<p class="bad">{html.escape(k)}: {html.escape(v)}</p>' for k, v in self.errors.items()
        )
        tables = "".join(
            (f"<h3>{html.escape(title)}</h3>" if title else "") + html_table(head, lines)
            for title, head, lines in (*self.grids(), *self.differences(), *self.friends())
        )
        claims = html_table(
            ["claim", "verdict", "evidence"],
            [[v.claim.text, f"**{v.status}**", v.evidence] for v in self.verdicts],
            True,
        )
        known = "".join(f"<li>{prose(note)}</li>" for note in self.printed.known)
        where = f"In the paper: {self.printed.where}. " if self.printed.where else ""
        sizes = f"Its sizes: {self.printed.sizes}." if self.printed.sizes else ""
        return page(
            f"Amity: {self.experiment.title}",
            f"<h1>{html.escape(self.experiment.title)}</h1><p>{html.escape(where + sizes)}</p>",
            f"<p><code>{html.escape(self.head.command)}</code></p>",
            errors,
            section("Claims and verdicts", "", claims) if self.verdicts else "",
            section("The table", f"{self.caption} {self.experiment.note}", tables),
            section("The picture", "", picture),
            section("What it costs", "Mean over columns and panels.", html_table(*self.costs())),
            section("Known inconsistencies of the paper", "", f"<ul>{known}</ul>") if known else "",
        )


def _friends_text(entry: Entry | None) -> str:
    if entry is None or entry.precision is None or entry.base_rate is None:
        return "-"
    found = f"{100 * entry.precision:.0f} % ({100 * entry.base_rate:.0f} %)"
    return found if entry.taken and entry.base_rate >= RARE else "-"


def mean_of(values: Sequence[float | None]) -> float | None:
    """Of those that are there."""
    there = [value for value in values if value is not None]
    return float(np.mean(there)) if there else None
