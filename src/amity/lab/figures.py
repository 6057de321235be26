"""The pictures and tables of a report as files of their own: for papers and slides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amity.errors import ConfigError, StorageError, unknown
from amity.files import csv_text, write_atomically
from amity.lab.compare import slug
from amity.lab.comparison import read_comparison
from amity.lab.reports import Kind, kind_of, whole_run
from amity.lab.tries import read_sweep
from amity.lab.worlds import read_worlds
from amity.show.exhibits import Sheet, pictures_of, sheets_of
from amity.show.latex import latex_table
from amity.show.story import Story

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS: Mapping[str, Mapping[str, Any]] = {
    "svg": {"metadata": {"Date": None}},
    "pdf": {"metadata": {"CreationDate": None}},
    "png": {"dpi": 200},
}
"""How each is written; the same data gives the same bytes."""
USUAL = ("svg", "pdf")


def export_figures(
    path: str | Path, out: str | Path | None = None, formats: Sequence[str] = USUAL
) -> list[Path]:
    """Write every picture of a report as SVG and PDF (or PNG), and every table as CSV and LaTeX.
    Takes whatever `amity report` takes. Returns what was written; `out` is by default the folder
    `figures` in it."""
    return list(exporting(path, out, formats))


def exporting(
    path: str | Path, out: str | Path | None = None, formats: Sequence[str] = USUAL
) -> Iterator[Path]:
    """As `export_figures`: each file when it is written."""
    for name in formats:
        if name not in FORMATS:
            raise ConfigError(unknown("format", name, FORMATS))
    if not formats:
        raise ConfigError(f"formats: name at least one of {', '.join(FORMATS)}")
    source = Path(path)
    folder = Path(out) if out else source / "figures"
    yield from _KINDS[kind_of(source)](source, folder, formats)


def _of_run(path: Path, out: Path, formats: Sequence[str]) -> Iterator[Path]:
    return _of_story(whole_run(path).story, out, formats)


def _of_comparison(path: Path, out: Path, formats: Sequence[str]) -> Iterator[Path]:
    return _of_story(read_comparison(path).story, out, formats)


def _of_sweep(path: Path, out: Path, formats: Sequence[str]) -> Iterator[Path]:
    sweep = read_sweep(path)
    every = sheets_of(sweep.comparison.story)["summary"]
    yield from _of_story(sweep.story, out, formats)
    yield from _sheets({"tries": Sheet(rows=sweep.rows, head=every.head, lines=every.lines)}, out)


def _of_worlds(path: Path, out: Path, formats: Sequence[str]) -> Iterator[Path]:
    """All worlds in one, and each world in a folder of its own."""
    from amity.show.side_by_side import head_of, lines_of

    worlds = read_worlds(path)
    lines = [[label, *cells] for label, cells in lines_of(worlds.comparisons).items()]
    sheet = Sheet(rows=worlds.rows, head=head_of(worlds.comparisons), lines=lines)
    yield from _pictures([("worlds", worlds.figure())], out, formats)
    yield from _sheets({"summary": sheet}, out)
    for world, comparison in worlds.comparisons.items():
        yield from _of_story(comparison.story, out / slug(world), formats)


def _of_peers(path: Path, out: Path, formats: Sequence[str]) -> Iterator[Path]:
    from amity.net.ops.report import peer_pictures, peer_sheets

    yield from _pictures(peer_pictures(path), out, formats)
    yield from _sheets(peer_sheets(path), out)


_KINDS: Mapping[Kind, Callable[[Path, Path, Sequence[str]], Iterator[Path]]] = {
    "run": _of_run,
    "comparison": _of_comparison,
    "sweep": _of_sweep,
    "worlds": _of_worlds,
    "peers": _of_peers,
}


def _of_story(story: Story, out: Path, formats: Sequence[str]) -> Iterator[Path]:
    yield from _pictures(pictures_of(story), out, formats)
    yield from _sheets(sheets_of(story), out)


def _pictures(
    drawn: Iterable[tuple[str, Figure]], out: Path, formats: Sequence[str]
) -> Iterator[Path]:
    for name, figure in drawn:
        for kind in formats:
            path = _made(out) / f"{name}.{kind}"
            try:
                figure.savefig(path, bbox_inches="tight", **FORMATS[kind])
            except OSError as error:
                raise StorageError(f"{path}: cannot be written ({error.strerror})") from None
            yield path


def _sheets(sheets: Mapping[str, Sheet], out: Path) -> Iterator[Path]:
    for name, sheet in sheets.items():
        texts = {"csv": csv_text(sheet.rows)}
        if sheet.lines:
            texts["tex"] = latex_table(sheet.head, sheet.lines, sheet.text)
        for kind, text in texts.items():
            path = _made(out) / f"{name}.{kind}"
            write_atomically(path, text.encode())
            yield path


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"{folder}: cannot be written ({error.strerror}); choose another out="
        ) from None
    return folder
