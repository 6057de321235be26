"""`amity export-figures`: a report's pictures and tables as files."""

from __future__ import annotations

from amity.cli.common import Keys, Where
from amity.console import say, status


def export_figures(path: Where, words: Keys = None) -> None:
    """Write a report's pictures as SVG and PDF, and its tables as CSV and LaTeX: for a run, a
    comparison, a sweep, a swarm or peers. Own keys: formats=svg,pdf,png out=DIR (default: figures/
    in it)."""
    from amity.config import only, out_path, split_list
    from amity.lab.figures import USUAL, exporting

    mine = only(words or [], "formats", "out")
    formats = split_list(mine["formats"]) if "formats" in mine else USUAL
    with status("drawing"):
        for file in exporting(path, out_path(mine) if "out" in mine else None, formats):
            say(str(file))
