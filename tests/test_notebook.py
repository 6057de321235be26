"""The example notebook, executed by a real kernel: objects in place of names, progress, and results
that show themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the kernel's client


@pytest.fixture(scope="module")
def executed(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    folder = tmp_path_factory.mktemp("notebook")
    book = nbformat.read(repository / "examples" / "notebook.ipynb", as_version=4)
    client = NotebookClient(book, timeout=600, resources={"metadata": {"path": str(folder)}})
    return client.execute(), folder


def outputs(book: Any, starts: str) -> list[Any]:
    """What the code cell that holds this text has put out."""
    (cell,) = [c for c in book.cells if c.cell_type == "code" and starts in c.source]
    return list(cell.outputs)


def shown(book: Any, starts: str, kind: str) -> str:
    found = [o.data[kind] for o in outputs(book, starts) if kind in o.get("data", {})]
    return "".join(found[-1])


def test_a_result_and_a_comparison_show_their_table_and_main_picture(
    executed: tuple[Any, Path],
) -> None:
    book, _ = executed
    for starts in ("result = amity.run", "table = amity.compare"):
        page = shown(book, starts, "text/html")
        assert "<table" in page
        assert "<svg" in page
    assert "Nearest" in shown(book, "table = amity.compare", "text/html")


def test_progress_is_shown_while_a_run_goes_on(executed: tuple[Any, Path]) -> None:
    book, _ = executed
    bars = [o for o in outputs(book, "result = amity.run") if o.output_type == "display_data"]
    assert any("8/8" in "".join(bar.data.get("text/plain", "")) for bar in bars)


def test_a_table_is_a_data_frame_and_a_figure_is_a_picture(executed: tuple[Any, Path]) -> None:
    book, folder = executed
    assert "peer-00" in shown(book, "result.table.groupby", "text/plain")
    assert len(shown(book, "result.figure", "image/png")) > 1000
    assert "accuracy" in shown(book, "table.save", "text/html")
    assert (folder / "friends.pdf").read_bytes().startswith(b"%PDF")
