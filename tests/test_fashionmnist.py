"""FashionMNIST: the real files where they are, made-up ones for everything that can be wrong with them."""

from __future__ import annotations

import gzip
import hashlib
import struct
from pathlib import Path

import numpy as np
import pytest

import amity
from amity.config import load
from amity.data.fashionmnist import FILES, FashionMnist, find, read_idx
from amity.errors import DataError


@pytest.fixture
def real() -> FashionMnist:
    try:
        find("")
    except DataError as error:
        pytest.skip(str(error))
    return FashionMnist()


def test_the_real_files_are_whole_balanced_and_begin_with_an_ankle_boot(real: FashionMnist) -> None:
    dataset = real.load()
    assert (len(dataset.train), len(dataset.test), dataset.classes) == (60000, 10000, 10)
    assert set(np.bincount(dataset.labels[dataset.train])) == {6000}
    assert set(np.bincount(dataset.labels[dataset.test])) == {1000}
    assert dataset.pixels.x.dtype.itemsize == 1
    assert int(dataset.pixels.y[0]) == 9
    x = dataset.pixels.x[dataset.train].float()
    assert float(x.mean() / 255) == pytest.approx(0.2860, abs=1e-3)
    assert float(x.std() / 255) == pytest.approx(0.3530, abs=1e-3)


def test_the_real_files_have_the_known_digest(real: FashionMnist) -> None:
    """MD5 of the unpacked bytes: Debian's package has another gzip header than the original."""
    path = find("")["test", "y"]
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    assert hashlib.md5(raw).hexdigest() == KNOWN


KNOWN = "15d484375f8d13e6eb1aabb0c3f46965"


def test_afind_plus_trains_two_rounds_on_fashionmnist(real: FashionMnist) -> None:
    result = amity.run(
        data="fashionmnist",
        peers=4,
        rounds=2,
        partition="dirichlet",
        out="r",
        **{"partition.alpha": 0.1, "partition.samples": 64, "partition.test": 50, "train.epochs": 1},
    )
    assert result.complete
    assert result.config.model.name == "fashion_cnn2"


def write_idx(path: Path, array: np.ndarray, packed: bool = True) -> None:
    raw = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
    path.write_bytes(gzip.compress(raw) if packed else raw)


def test_idx_files_are_read_packed_or_not() -> None:
    array = np.arange(12, dtype=np.uint8).reshape(3, 2, 2)
    write_idx(Path("a.gz"), array)
    write_idx(Path("b"), array, packed=False)
    assert (read_idx(Path("a.gz"), (3, 2, 2)) == array).all()
    assert (read_idx(Path("b"), (3, 2, 2)) == array).all()


def test_broken_files_are_refused_by_name() -> None:
    array = np.arange(12, dtype=np.uint8).reshape(3, 2, 2)
    write_idx(Path("whole.gz"), array)
    packed = Path("whole.gz").read_bytes()
    write_idx(Path("whole"), array, packed=False)
    raw = Path("whole").read_bytes()
    cases = {
        "torn.gz": packed[:-9],
        "empty.gz": b"",
        "garbled.gz": packed[:12] + b"\xff\xff\xff" + packed[15:],
        "html": b"<html>404</html>",
        "short": raw[:-1],
        "long": raw + b"x",
        "nothing": b"",
    }
    for name, data in cases.items():
        Path(name).write_bytes(data)
        with pytest.raises(DataError, match=name):
            read_idx(Path(name), (3, 2, 2))
    with pytest.raises(DataError, match=r"holds \(3, 2, 2\) in 12 bytes, expected \(4, 2, 2\)"):
        read_idx(Path("whole"), (4, 2, 2))


def test_the_usual_layouts_are_found_and_a_missing_file_is_not_papered_over(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = Path("data/FashionMNIST/raw")
    raw.mkdir(parents=True)
    for name, _ in FILES.values():
        (raw / f"{name}.gz").write_bytes(b"")
    assert len(find("data")) == len(find("data/FashionMNIST/raw")) == 4
    monkeypatch.setenv("AMITY_DATA", "data")
    assert find("")["train", "x"].parent == raw
    (raw / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataError, match="not found"):
        find("data")


def test_the_config_of_the_paper_fits_the_dataset() -> None:
    config = load(None, ["data=fashionmnist"])
    assert (config.peers, config.rounds, config.train.epochs, config.train.lr) == (100, 500, 5, 0.01)
