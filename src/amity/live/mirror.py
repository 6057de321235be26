"""Another machine's page, read by its address: its records are copied into a folder that is deleted
at the end, and shown from there like those of this machine."""

from __future__ import annotations

import json
import os
import ssl
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from amity.errors import ConfigError, NetworkError
from amity.lines import CutBack
from amity.live.finding import digest
from amity.live.states import COURSE

FILES = (
    *("config.toml", "world.json", "status.json", "extended.jsonl"),
    *("metrics.jsonl", "edges.jsonl", "why.jsonl", "rounds.jsonl"),
)
"""What is copied: those that are replaced as a whole, then lines in the order of their writing."""
WHOLE = frozenset({"config.toml", "world.json", "status.json"})
CHUNK = 1 << 20
EVERY = 1.0
PATIENCE = 20.0


SIZE = "x-amity-size"
"""The header that says how long the file is now."""


def chunk_of(path: Path, at: int) -> tuple[bytes, int]:
    """The bytes of a file from a place on, at most `CHUNK` of them; and its size. A link is not
    followed: what it points to may lie anywhere."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(at)
            return stream.read(CHUNK), size
    except OSError:
        return b"", 0


class Mirror:
    """One address, copied again and again by a thread of its own."""

    def __init__(self, address: str, authority: Path | None = None) -> None:
        parts = urlsplit(address)
        token = parse_qs(parts.query).get("token", [""])[0]
        if parts.scheme not in ("http", "https") or not parts.netloc or not token:
            raise ConfigError(
                f"{address}: expected the address of a live page with its token, as in"
                " https://host:8765/?token=..."
            )
        self._base, self._token = f"{parts.scheme}://{parts.netloc}", token
        self._trust = _trust(authority) if parts.scheme == "https" else None
        self._scratch = tempfile.TemporaryDirectory(prefix="amity-mirror-")
        self.path = Path(self._scratch.name)
        self._courses: dict[str, Any] = {}
        self._stop = threading.Event()
        self.trouble = ""
        self._thread = threading.Thread(target=self._work, name="mirror", daemon=True)

    def start(self) -> None:
        """Copy once, so that a wrong address is found at once; then go on."""
        try:
            self.copy()
        except (OSError, ValueError) as error:
            raise NetworkError(f"{self._base}: cannot be read ({_why(error)})") from None
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(PATIENCE)
        self._scratch.cleanup()

    def _work(self) -> None:
        while not self._stop.wait(EVERY):
            try:
                self.copy()
                self.trouble = ""
            except (OSError, ValueError) as error:
                self.trouble = f"{self._base}: {_why(error)}; trying again"

    # -- copying -----------------------------------------------------------------------------------

    def copy(self) -> None:
        """What is new since the last time."""
        folders: dict[str, list[str]] = {}
        cells, self._courses = self._cells()
        for cell in cells:
            home = self.path / digest(str(cell["id"]))
            if cell["kind"] == "run":
                folders.setdefault(str(cell["label"]), []).append(home.name)
                self._files(home, cell["id"], next(iter(cell["tracks"])))
                continue
            self._files(home, cell["id"], "")
            for track, peer in cell["tracks"].items():
                folder = home / "peers" / digest(str(peer))
                folder.mkdir(parents=True, exist_ok=True)
                (folder / "peer.toml").write_text(f"[peer]\nname = {json.dumps(str(peer))}\n")
                self._files(folder / "state", cell["id"], track)
        if sum(map(len, folders.values())) > 1:
            (self.path / "comparison.json").write_text(json.dumps(folders))

    def _cells(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """The networks of the other page, and how each of their directories is doing: the first
        batch of its stream names them all."""
        told = list(self._first())
        states = [one["tracks"] for one in told if one["t"] == "state"]
        return [one for one in told if one["t"] == "cell"], {
            k: v for s in states for k, v in s.items()
        }

    def _first(self) -> Iterator[dict[str, Any]]:
        with self._get("/api/stream") as answer:
            kind = ""
            for raw in answer:
                line = raw.decode().rstrip("\n")
                kind = line.removeprefix("event: ") if line.startswith("event: ") else kind
                if kind == "batch" and not line:
                    return
                if kind == "batch" and line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))

    def _files(self, folder: Path, cell: str, track: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if track in self._courses:
            (folder / COURSE).write_text(json.dumps(self._courses[track]))
        for name in FILES:
            path, whole = folder / name, name in WHOLE
            size = path.stat().st_size if path.exists() and not whole else 0
            try:
                parts = list(self._parts(cell, track, name, size))
            except CutBack:  # from its beginning, the next time
                path.unlink()
                continue
            if whole and parts and (not path.exists() or path.read_bytes() != b"".join(parts)):
                path.write_bytes(b"".join(parts))
            elif parts and not whole:
                with open(path, "ab") as stream:
                    stream.writelines(parts)

    def _parts(self, cell: str, track: str, name: str, at: int) -> Iterator[bytes]:
        while True:
            ask = {"cell": cell, "track": track, "file": name, "at": str(at)}
            with self._get("/api/records", **ask) as answer:
                data = answer.read()
                if int(answer.headers[SIZE]) < at:
                    raise CutBack
            if data:
                yield data
            at += len(data)
            if len(data) < CHUNK:
                return

    def _get(self, path: str, **ask: str) -> Any:
        query = urlencode({**ask, "token": self._token})
        return urllib.request.urlopen(  # noqa: S310  http and https alone, checked above
            f"{self._base}{path}?{query}", timeout=PATIENCE, context=self._trust
        )


def _trust(authority: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=None if authority is None else str(authority))
    except OSError as error:
        raise ConfigError(f"--ca {authority}: cannot be read ({error.strerror})") from None


def _why(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"it answers {error.code}; is the token right?"
    return str(getattr(error, "reason", "") or error)
