"""`amity matrix`: everyone's model on everyone's test examples."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from amity.cli.common import Keys, Trust
from amity.console import err_console, say, status

Holder = Annotated[
    Path, typer.Argument(metavar="DIR", help="A run, a cell of a comparison, or a swarm.")
]


def matrix(path: Holder, words: Keys = None, trust: Trust = False) -> None:
    """Measure every peer's final model on every peer's test examples: matrix.csv, a heat map in the
    report, and for each peer what it would have alone, what it has, and from whom it came. Own key:
    alone=DIR (a run with strategy=local that is otherwise the same)."""
    from amity.config import only
    from amity.lab.matrix import matrix as measure
    from amity.lab.reports import write_report

    mine = only(words or [], "alone")
    with err_console.status("reading the run") as shown:
        crossed = measure(
            path,
            mine.get("alone"),
            trust=trust,
            tell=lambda what, done, all: shown.update(f"{what}: {done} of {all} peers"),
        )
    for sentence in crossed.sentences.values():
        say(sentence)
    for name in crossed.missing:
        say(f"{name}: left out, as it has finished no round yet")
    if not crossed.alone:
        say(f"alone: {crossed.alone_said}")
    say(f"table: {path / 'matrix.csv'}")
    with status("drawing the report"):
        page = write_report(path)
    say(f"report: {page}")
