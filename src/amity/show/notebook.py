"""How results show themselves in a notebook, and how one takes pictures and tables out of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amity.errors import ConfigError, StorageError, unknown
from amity.files import csv_text, write_atomically
from amity.show.story import Story

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE = """
.amity table{border-collapse:collapse;font-variant-numeric:tabular-nums}
.amity th,.amity td{padding:.2em .6em;text-align:right;white-space:nowrap}
.amity td:first-child,.amity th:first-child{text-align:left}
.amity tr.best td{font-weight:700} .amity td.ref{font-style:italic}
.amity svg{max-width:100%;height:auto}
"""
"""Of what stands in a notebook, and of nothing else on its page."""
PICTURES = (".pdf", ".png", ".svg")


def frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """A pandas DataFrame where pandas is there, else the rows as they are."""
    try:
        import pandas as pd
    except ModuleNotFoundError:
        return list(rows)
    return pd.DataFrame(list(rows))


def figure_of(story: Story, name: str) -> Figure:
    """One panel of the report as a matplotlib figure."""
    from amity.show.panels import Picture, panels

    drawn = [e.name for e in panels if issubclass(e.cls, Picture)]
    if name not in drawn:
        raise ConfigError(unknown("figure", name, drawn))
    panel = panels[name].build({})
    figure = panel.figure(story) if isinstance(panel, Picture) else None
    if figure is None:
        raise ConfigError(f"figure {name!r}: there is nothing to show for these runs")
    _teach_notebook()
    return figure


def _teach_notebook() -> None:
    """A notebook shows figures only once it has been told how, as `%matplotlib inline` does."""
    if "IPython" not in sys.modules:
        return
    from IPython import get_ipython
    from IPython.core.pylabtools import select_figure_formats

    shell = get_ipython()
    if shell is not None:
        select_figure_formats(shell, {"png"})  # type: ignore[no-untyped-call]


def save(
    story: Story, path: Path, figure: str, page: Callable[[], str], table: Callable[[], Any]
) -> Path:
    """Write what the ending of a path asks for: a picture, a table or the report."""
    from amity.show.exhibits import sheets_of
    from amity.show.latex import latex_table

    try:
        if path.suffix in PICTURES:
            figure_of(story, figure).savefig(path, bbox_inches="tight")
        elif path.suffix == ".csv":
            found = table()
            text = csv_text(found) if isinstance(found, list) else found.to_csv(index=False)
            write_atomically(path, text.encode())
        elif path.suffix == ".tex":
            sheet = sheets_of(story)["summary"]
            write_atomically(path, latex_table(sheet.head, sheet.lines).encode())
        elif path.suffix == ".html":
            write_atomically(path, page().encode())
        else:
            known = ", ".join((*PICTURES, ".csv", ".tex", ".html"))
            raise ConfigError(f"{path}: expected a name that ends in {known}")
    except OSError as error:
        raise StorageError(f"{path}: cannot be written ({error.strerror})") from None
    return path


def short_html(story: Story) -> str:
    """The table and the main picture, for a notebook."""
    from amity.show.curves import accuracy_curves
    from amity.show.figures import svg
    from amity.show.report import table

    shown = table(story) + svg(accuracy_curves(story.runs))
    return f'<style>{STYLE}</style><div class="amity">{shown}</div>'
