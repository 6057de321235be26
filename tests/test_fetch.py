"""Downloads, against a real HTTP server that misbehaves in every way we could think of."""

from __future__ import annotations

import gzip
import hashlib
import io
import multiprocessing
import os
import subprocess
import tarfile
import threading
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from amity.data.fetch import get
from amity.data.published import Download, File, Published, find, read_all
from amity.errors import DataError, Failure, StorageError

CONTENT = {"train.bin": os.urandom(300_000), "test.bin": os.urandom(50_000)}
QUICK = {"stall": 0.4, "pause": 0.01}


def md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


def tar_of(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(f"toy-bin/{name}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return stream.getvalue()


ARCHIVE = tar_of({**CONTENT, "../../escape.bin": b"evil", "names.txt": b"a\nb\n"})
FILES = tuple(File(name, len(data), md5(data)) for name, data in CONTENT.items())


@dataclass
class Server:
    """What is served, how it misbehaves, and what was asked for."""

    files: dict[str, bytes]
    mood: str = "good"
    requests: list[str | None] = field(default_factory=list)
    url: str = ""

    def dataset(self) -> Published:
        return Published(
            "toy",
            ("toy-bin",),
            FILES,
            (Download(f"{self.url}/toy.tar.gz", md5(ARCHIVE), "toy-bin"),),
        )


def handler_for(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            server.requests.append(wanted)
            data = server.files.get(self.path.lstrip("/"))
            if data is None or server.mood == "absent":
                self.send_error(404)
                return
            if server.mood == "garbage":
                data = b"<html>please log in</html>"
            if server.mood == "empty":
                data = b""
            start = (
                int(wanted.removeprefix("bytes=").rstrip("-"))
                if wanted and server.mood != "no ranges"
                else 0
            )
            if start > len(data):
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
            body = data[start:]
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            first = len(server.requests) == 1
            if server.mood in ("cut", "no ranges") and first:
                self.wfile.write(body[: len(body) // 2])
            elif server.mood == "stall" and first:
                self.wfile.write(body[: len(body) // 3])
                self.wfile.flush()
                time.sleep(1.5)
            elif server.mood == "always cut":
                self.wfile.write(body[:0])
            elif server.mood == "slow":
                for at in range(0, len(body), 20_000):
                    self.wfile.write(body[at : at + 20_000])
                    time.sleep(0.03)
            else:
                self.wfile.write(body)

    return Handler


@pytest.fixture
def server() -> Iterator[Server]:
    served = Server({"toy.tar.gz": ARCHIVE})
    http = ThreadingHTTPServer(("127.0.0.1", 0), handler_for(served))
    http.daemon_threads = True
    served.url = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    yield served
    http.shutdown()
    http.server_close()
    thread.join()


def whole(root: Path, dataset: Published) -> bool:
    return read_all(dataset, str(root)) == CONTENT


def leftovers(root: Path) -> list[str]:
    return sorted(
        p.name
        for p in root.rglob("*")
        if p.is_file() and not p.name.startswith(".") and p.parent.name != "toy-bin"
    )


def test_a_download_is_checked_unpacked_and_leaves_nothing_else(server: Server) -> None:
    seen: list[tuple[str, int, int]] = []
    folder = get(server.dataset(), Path("d"), on_bytes=lambda *now: seen.append(now), **QUICK)
    assert folder == Path("d/toy-bin")
    assert whole(Path("d"), server.dataset())
    assert leftovers(Path("d")) == []
    assert sorted(p.name for p in folder.iterdir()) == ["names.txt", "test.bin", "train.bin"]
    assert not list(Path().rglob("escape.bin"))
    assert seen[-1] == ("toy.tar.gz", len(ARCHIVE), len(ARCHIVE))


def test_what_is_there_is_not_fetched_again(server: Server) -> None:
    get(server.dataset(), Path("d"), **QUICK)
    get(server.dataset(), Path("d"), **QUICK)
    assert len(server.requests) == 1


@pytest.mark.parametrize("mood", ["cut", "stall"])
def test_a_broken_connection_goes_on_where_it_broke(server: Server, mood: str) -> None:
    server.mood = mood
    get(server.dataset(), Path("d"), **QUICK)
    assert whole(Path("d"), server.dataset())
    assert server.requests[0] is None
    assert server.requests[1] is not None
    assert int(server.requests[1][6:-1]) > 0


def test_a_server_without_ranges_is_read_from_the_start_again(server: Server) -> None:
    server.mood = "no ranges"
    get(server.dataset(), Path("d"), **QUICK)
    assert whole(Path("d"), server.dataset())


def test_a_part_from_an_earlier_session_is_taken_up(server: Server) -> None:
    Path("d").mkdir()
    Path("d/toy.tar.gz.part").write_bytes(ARCHIVE[:1000])
    get(server.dataset(), Path("d"), **QUICK)
    assert server.requests == ["bytes=1000-"]
    assert whole(Path("d"), server.dataset())


def test_a_part_of_something_else_is_thrown_away(server: Server) -> None:
    Path("d").mkdir()
    Path("d/toy.tar.gz.part").write_bytes(b"x" * (len(ARCHIVE) + 7))
    get(server.dataset(), Path("d"), **QUICK)
    assert whole(Path("d"), server.dataset())
    Path("e").mkdir()
    Path("e/toy.tar.gz.part").write_bytes(b"x" * 1000)
    with pytest.raises(Failure, match="does not have the published MD5"):
        get(server.dataset(), Path("e"), **QUICK)
    get(server.dataset(), Path("e"), **QUICK)
    assert whole(Path("e"), server.dataset())


@pytest.mark.parametrize(
    ("mood", "message"),
    [
        ("garbage", "does not have the published MD5"),
        ("empty", "does not have the published MD5"),
        ("absent", "the server answers 404"),
        ("always cut", "download broke off"),
    ],
)
def test_what_cannot_be_had_is_said_and_never_looks_complete(
    server: Server, mood: str, message: str
) -> None:
    server.mood = mood
    with pytest.raises(Failure, match=message):
        get(server.dataset(), Path("d"), **QUICK)
    with pytest.raises(DataError, match="were not found"):
        find(server.dataset(), "d")
    server.mood = "good"
    get(server.dataset(), Path("d"), **QUICK)
    assert whole(Path("d"), server.dataset())


def test_no_server_at_all_is_a_failure_in_one_line() -> None:
    dataset = Published(
        "toy", ("t",), FILES, (Download("http://127.0.0.1:9/toy.tar.gz", "0" * 32, "t"),)
    )
    with pytest.raises(Failure, match="download broke off"):
        get(dataset, Path("d"), **QUICK)


def test_a_mirror_can_be_named(server: Server) -> None:
    elsewhere = Published(
        "toy",
        ("toy-bin",),
        FILES,
        (Download("http://127.0.0.1:9/toy.tar.gz", md5(ARCHIVE), "toy-bin"),),
    )
    get(elsewhere, Path("d"), mirror=server.url, **QUICK)
    assert whole(Path("d"), elsewhere)


def test_damaged_files_are_refused_and_replaced(server: Server) -> None:
    get(server.dataset(), Path("d"), **QUICK)
    path = Path("d/toy-bin/train.bin")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"train.bin: has 299999 bytes, expected 300000"):
        read_all(server.dataset(), "d")
    path.write_bytes(b"\0" * 300_000)
    with pytest.raises(DataError, match=r"train.bin: has MD5 .*, the published one is"):
        read_all(server.dataset(), "d")
    get(server.dataset(), Path("d"), **QUICK)
    assert whole(Path("d"), server.dataset())


def test_single_packed_files_are_fetched_and_damaged_ones_replaced(server: Server) -> None:
    packed = {f"{name}.gz": gzip.compress(data) for name, data in CONTENT.items()}
    server.files = packed
    downloads = tuple(
        Download(f"{server.url}/{name}", md5(data), "raw") for name, data in packed.items()
    )
    dataset = Published("toy", ("raw",), FILES, downloads)
    get(dataset, Path("d"), **QUICK)
    assert whole(Path("d"), dataset)
    Path("d/raw/test.bin.gz").write_bytes(b"")
    get(dataset, Path("d"), **QUICK)
    assert whole(Path("d"), dataset)
    assert len(server.requests) == 3


def _get(dataset: Published) -> None:
    get(dataset, Path("d"), **QUICK)


def test_two_processes_at_once_fetch_it_once(server: Server) -> None:
    server.mood = "slow"
    fork = multiprocessing.get_context("fork")
    both = [fork.Process(target=_get, args=(server.dataset(),)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(30)
    assert [process.exitcode for process in both] == [0, 0]
    assert len(server.requests) == 1
    assert whole(Path("d"), server.dataset())


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small disk")
def test_a_full_disk_keeps_what_arrived_and_never_looks_complete(server: Server) -> None:
    disk = Path("disk")
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", disk], capture_output=True
    ).returncode:
        pytest.skip("this machine does not let us mount a small disk")
    try:
        with pytest.raises(StorageError, match="No space left on device"):
            get(server.dataset(), disk, **QUICK)
        with pytest.raises(DataError, match="were not found"):
            find(server.dataset(), str(disk))
        subprocess.run(["mount", "-o", "remount,size=5m", disk], check=True)
        get(server.dataset(), disk, **QUICK)
        assert whole(disk, server.dataset())
    finally:
        subprocess.run(["umount", disk], check=True)


# -- packages --------------------------------------------------------------------------------------


def wheel_of(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as packed:
        for name, data in files.items():
            packed.writestr(f"toy/data/{name}", data)
    return stream.getvalue()


WHEEL = wheel_of({**CONTENT, "../../../escape.bin": b"evil", "setup.py": b"1/0"})
NESTED = tar_of({"resources.tar.gz": ARCHIVE, "train.bin": b"another", "setup.py": b"1/0"})


@pytest.mark.parametrize(
    ("name", "archive", "inside"),
    [("toy-1.0-py3-none-any.whl", WHEEL, ""), ("toy-1.0.tar.gz", NESTED, "resources.tar.gz")],
)
def test_packages_are_read_as_archives_also_by_an_index(
    server: Server, name: str, archive: bytes, inside: str
) -> None:
    link = f'<a href="../../packages/9f/{name}#sha256=0">{name}</a>'
    server.files |= {"mine/simple/toy/": link.encode(), f"mine/packages/9f/{name}": archive}
    download = Download(f"{server.url}/away/{name}", md5(archive), "toy-bin", inside)
    dataset = Published("toy", ("toy-bin",), FILES, (download,), also="ask")
    with pytest.raises(Failure, match=r"404.*; or ask"):
        get(dataset, Path("d"), **QUICK)
    folder = get(dataset, Path("d"), f"{server.url}/mine/simple", **QUICK)
    assert read_all(dataset, "d") == CONTENT
    assert not list(Path().rglob("escape.bin"))
    assert {path.name for path in folder.iterdir()} <= {*CONTENT, "names.txt"}
    away = Download(f"{server.url}/toy-2.0.tar.gz", md5(archive), "toy-bin", inside)
    with pytest.raises(Failure, match=r"mine/simple/toy/: has no toy-2\.0\.tar\.gz"):
        get(Published("toy", ("x",), FILES, (away,)), Path("e"), f"{server.url}/mine/simple/")


def test_a_package_that_is_torn_says_so(server: Server) -> None:
    torn = WHEEL[: len(WHEEL) // 2]
    server.files["t-1-py3.whl"] = torn
    download = Download(f"{server.url}/t-1-py3.whl", md5(torn), "toy-bin")
    with pytest.raises(DataError, match="cannot be unpacked"):
        get(Published("toy", ("toy-bin",), FILES, (download,)), Path("d"), **QUICK)
