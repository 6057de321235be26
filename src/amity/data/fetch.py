"""Downloads that resume, are checked, and appear at once and whole or not at all.

pooch does the checking and the move into place; what is ours is a downloader that goes on where it
broke off: bytes gather in NAME.part, each new attempt asks for the rest (HTTP ranges), and only a
file of the right length is handed on.
"""

from __future__ import annotations

import fcntl
import html
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from amity.data.archives import BROKEN, contents, is_archive
from amity.data.published import Download, Published, find, home, read
from amity.errors import DataError, Failure, StorageError
from amity.files import sync_folder
from amity.lazy import pooch, requests

ATTEMPTS = 5
"""Attempts in a row that bring nothing new before we give up."""
CHUNK = 1 << 16
OnBytes = Callable[[str, int, int], None]
"""Told the file's name, the bytes that are here, and all bytes (0: unknown)."""


class Resuming:
    """A downloader for pooch that keeps what has arrived."""

    def __init__(self, part: Path, on_bytes: OnBytes, stall: float, pause: float) -> None:
        self.part, self.on_bytes, self.stall, self.pause = part, on_bytes, stall, pause

    def __call__(self, url: str, output_file: str, _pooch: Any, check_only: bool = False) -> None:
        failures, error = 0, ""
        while failures < ATTEMPTS:
            before = self._here()
            try:
                total = self._attempt(url)
                if total is None or self._here() == total:
                    os.replace(self.part, output_file)
                    return
                error = f"the connection ended at {self._here()} of {total} bytes"
            except requests.HTTPError as problem:
                raise Failure(f"{url}: the server answers {problem}") from None
            except requests.RequestException as problem:
                error = type(problem).__name__
            except OSError as problem:
                raise StorageError(
                    f"{self.part}: cannot be written ({problem.strerror}); what arrived is kept"
                ) from None
            failures = 0 if self._here() > before else failures + 1
            time.sleep(self.pause * failures)
        raise Failure(
            f"{url}: download broke off ({error}); what arrived is kept, the same command goes on"
            " with it"
        )

    def _here(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _attempt(self, url: str) -> int | None:
        """Ask for what is missing and append it; returns the length of the whole file, if the
        server says so."""
        here = self._here()
        headers = {"Range": f"bytes={here}-"} if here else {}
        headers["Accept-Encoding"] = "identity"
        with requests.get(
            url, headers=headers, stream=True, timeout=(self.stall, self.stall)
        ) as response:
            if response.status_code == 416:
                self.part.unlink()  # longer than the file on the server: not ours
                raise requests.ConnectionError
            response.raise_for_status()
            resumed = response.status_code == 206 and response.headers.get(
                "Content-Range", ""
            ).startswith(f"bytes {here}-")
            here = here if resumed else 0
            length = response.headers.get("Content-Length")
            total = here + int(length) if length is not None else None
            with open(self.part, "ab" if resumed else "wb") as stream:
                for chunk in response.iter_content(CHUNK):
                    stream.write(chunk)
                    here += len(chunk)
                    self.on_bytes(self.part.stem, here, total or 0)
        return total


def fetch(
    download: Download,
    folder: Path,
    on_bytes: OnBytes,
    mirror: str = "",
    stall: float = 30.0,
    pause: float = 1.0,
) -> Path:
    """One file into a folder, checked against its published MD5."""
    url = mirrored(download, mirror, stall) if mirror else download.url
    resuming = Resuming(folder / f"{download.name}.part", on_bytes, stall, pause)
    pooch.get_logger().setLevel("WARNING")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return Path(
            pooch.retrieve(url, f"md5:{download.md5}", download.name, folder, downloader=resuming)
        )
    except ValueError:
        raise Failure(
            f"{url}: what arrived does not have the published MD5 {download.md5}; it was thrown"
            " away: try again"
        ) from None
    except OSError as error:
        raise StorageError(f"{folder}: cannot be written ({error.strerror})") from None


def mirrored(download: Download, mirror: str, stall: float) -> str:
    """Where a mirror has a file: directly below it, or, if it is an index of packages as pip reads
    them (`.../simple`), where that says."""
    mirror = mirror.rstrip("/")
    if not mirror.endswith("/simple"):
        return f"{mirror}/{download.name}"
    package = re.split(r"-\d", download.name)[0].replace("_", "-").lower()
    try:
        with requests.get(f"{mirror}/{package}/", timeout=(stall, stall)) as page:
            page.raise_for_status()
            links = re.findall(r"""href=["']([^"']+)""", page.text)
            found = [urljoin(page.url, html.unescape(link)).partition("#")[0] for link in links]
    except requests.RequestException as error:
        raise Failure(f"{mirror}/{package}/: cannot be read ({type(error).__name__})") from None
    for url in found:
        if url.endswith(f"/{download.name}"):
            return url
    raise Failure(f"{mirror}/{package}/: has no {download.name}")


@contextmanager
def _alone(root: Path, name: str, on_wait: Callable[[], None]) -> Iterator[None]:
    """One process at a time for a dataset; others wait."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock = open(root / f".{name}.lock", "wb")  # noqa: SIM115  closed below
    except OSError as error:
        raise StorageError(f"{root}: cannot be written ({error.strerror})") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        lock.close()


def get(
    dataset: Published,
    root: Path | None = None,
    mirror: str = "",
    on_bytes: OnBytes = lambda name, here, total: None,
    on_wait: Callable[[], None] = lambda: None,
    **patience: float,
) -> Path:
    """Bring a dataset to `root` (default: where `find` looks), unless it is there; returns the
    folder of its files."""
    if not dataset.downloads:
        raise DataError(f"{dataset.name}: no ready file is published")
    root = root or home()
    with _alone(root, dataset.name, on_wait):
        try:
            paths = find(dataset, str(root))
            for file in dataset.files:
                read(paths[file.name], file)
            return paths[dataset.files[0].name].parent
        except DataError:
            pass  # absent or damaged: get it
        for download in dataset.downloads:
            if is_archive(download.name):
                archive = _fetched(dataset, download, root, on_bytes, mirror, **patience)
                _unpack(dataset, archive, root / download.into, download.inside)
            else:
                _discard_damaged(root / download.into / download.name, download)
                fetch(download, root / download.into, on_bytes, mirror, **patience)
        paths = find(dataset, str(root))
        for file in dataset.files:
            read(paths[file.name], file)
        return paths[dataset.files[0].name].parent


def _fetched(
    dataset: Published,
    download: Download,
    root: Path,
    on_bytes: OnBytes,
    mirror: str,
    **patience: float,
) -> Path:
    """An archive; where it cannot be had from here, with another way to get it."""
    try:
        return fetch(download, root, on_bytes, mirror, **patience)
    except Failure as error:
        if not dataset.also or isinstance(error, StorageError):
            raise
        raise Failure(f"{error}; or {dataset.also}") from None


def _discard_damaged(path: Path, download: Download) -> None:
    """Remove a file, or its unpacked twin, that is not as published; pooch keeps what is."""
    path.with_suffix("").unlink(missing_ok=True)
    if path.exists() and pooch.file_hash(str(path), "md5") != download.md5:
        path.unlink()


def _unpack(dataset: Published, archive: Path, folder: Path, within: str = "") -> None:
    """Only the files that belong to the dataset, checked, then the whole folder at once; the
    archive goes."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as scratch:
        inside = Path(scratch) / folder.name
        inside.mkdir()
        try:
            for name, content in contents(archive, within):
                if name in {f.name for f in dataset.files} or name.endswith(".txt"):
                    with open(inside / name, "wb") as stream:
                        shutil.copyfileobj(content, stream)
            for file in dataset.files:
                read(inside / file.name, file)
        except BROKEN as error:
            raise DataError(f"{archive}: cannot be unpacked ({error})") from None
        except OSError as error:
            raise StorageError(
                f"{folder}: cannot be written ({error.strerror}); the archive is kept"
            ) from None
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(inside, folder)
        sync_folder(folder.parent)
    archive.unlink()
