"""The folder of a table: its records, tables, picture and page."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from amity.errors import StorageError
from amity.files import csv_text, write_atomically
from amity.reproduce.record import write_records
from amity.reproduce.text import caption, costs, every_grid, markdown
from amity.show import figures
from amity.show.page import framed, html_table, page, prose, section

if TYPE_CHECKING:
    from amity.reproduce.table import RunTable


def save(table: RunTable, path: Path) -> Path:
    """Write everything; returns the page."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{path}: cannot be written ({error.strerror})") from None
    write_records(path / "records.jsonl", table.head, table.records)
    verdicts = [
        {"claim": v.claim.text, "verdict": v.status, "evidence": v.evidence} for v in table.verdicts
    ]
    for name, content in (
        ("table.md", markdown(table)),
        ("table.csv", csv_text([asdict(entry) for entry in table.entries])),
        ("verdicts.csv", csv_text(verdicts) if verdicts else ""),
    ):
        write_atomically(path / name, content.encode())
    drawn = pictures(table)
    for name, picture in drawn.items():
        write_atomically(path / f"{name}.svg", picture.encode())
    for name, content in _own_files(table).items():
        write_atomically(path / name, content.encode())
    shown = "".join(framed(picture, name) for name, picture in drawn.items())
    shown = shown or "<p>Too few of its runs are there for a picture.</p>"
    write_atomically(path / "report.html", _html(table, shown).encode())
    return path / "report.html"


def pictures(table: RunTable) -> dict[str, str]:
    """As SVG, by name: `figure`, and the experiment's further ones. None where too little was
    run."""
    try:
        drawn = {"figure": table.figure(), **table.experiment.pictures(table)}
    except LookupError:
        return {}
    return {name: figures.svg(figure) for name, figure in drawn.items()}


def _own_files(table: RunTable) -> Mapping[str, str]:
    try:
        return table.experiment.files(table)
    except LookupError:
        return {}


def _html(table: RunTable, picture: str) -> str:
    experiment, printed = table.experiment, table.experiment.printed
    errors = "".join(
        f'<p class="bad">{html.escape(k)}: {html.escape(v)}</p>' for k, v in table.errors.items()
    )
    tables = "".join(
        (f"<h3>{html.escape(title)}</h3>" if title else "") + html_table(head, lines)
        for title, head, lines in every_grid(table)
    )
    claims = html_table(
        ["claim", "verdict", "evidence"],
        [[v.claim.text, f"**{v.status}**", v.evidence] for v in table.verdicts],
        True,
    )
    known = "".join(f"<li>{prose(note)}</li>" for note in printed.known)
    where = f"In the paper: {printed.where}. " if printed.where else ""
    sizes = f"Its sizes: {printed.sizes}." if printed.sizes else ""
    return page(
        f"Amity: {experiment.title}",
        f"<h1>{html.escape(experiment.title)}</h1><p>{html.escape(where + sizes)}</p>",
        f"<p><code>{html.escape(table.head.command)}</code></p>",
        errors,
        section("Claims and verdicts", "", claims) if table.verdicts else "",
        section("The table", f"{caption(table)} {experiment.note}", tables),
        section("The picture", "", picture),
        section("What it costs", "Mean over columns and panels.", html_table(*costs(table))),
        section("Known inconsistencies of the paper", "", f"<ul>{known}</ul>") if known else "",
    )
