"""All figures and tables of a report in one file: made by a process of its own, kept while nothing
has changed."""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
import threading
import zipfile
from pathlib import Path

PATIENCE = 300
"""Seconds that drawing may take."""


class Figures:
    """One at a time, and only the last is kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: tuple[tuple[Path, float], bytes] | None = None

    def of(self, path: Path) -> bytes | str:
        """A zip archive; a text says why there is none."""
        with self._lock:
            key = (path, _newest(path))
            if self._last is not None and self._last[0] == key:
                return self._last[1]
            made = _draw(path)
            if isinstance(made, bytes):
                self._last = (key, made)
            return made


def _newest(path: Path) -> float:
    """When anything was last written there."""
    found = [p.stat().st_mtime for p in path.glob("**/rounds.jsonl") if p.is_file()]
    return max(found, default=0.0)


def _draw(path: Path) -> bytes | str:
    with tempfile.TemporaryDirectory(prefix="amity-figures-") as scratch:
        words = [sys.executable, "-m", "amity", "export-figures", str(path), f"out={scratch}"]
        try:
            done = subprocess.run(  # noqa: S603  our own command
                words, capture_output=True, text=True, timeout=PATIENCE, check=False
            )
        except subprocess.TimeoutExpired:
            return f"drawing took more than {PATIENCE} s; `amity export-figures {path}` goes on"
        if done.returncode:
            return (done.stderr.strip().splitlines() or ["export-figures failed"])[-1][:500]
        return _packed(Path(scratch))


def _packed(folder: Path) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(p for p in folder.rglob("*") if p.is_file()):
            archive.write(file, file.relative_to(folder))
    return stream.getvalue()
