"""The paper's datasets: the real files where they are, made-up ones for what can be wrong with
them."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import amity
from amity.data import femnist, split
from amity.data.base import Dataset
from amity.data.cifar import CIFAR10, CIFAR100
from amity.data.fashionmnist import FASHION, parse_idx
from amity.data.published import File, Published, find, read
from amity.data.samples import crop_flip
from amity.errors import DataError
from amity.round.build import load_data
from amity.topology import peer_names


def real(name: str, **options: Any) -> Dataset:
    """The real dataset, or a visible skip with the command that fetches it."""
    try:
        return load_data(amity.load(None, {"data": {"name": name, **options}}))
    except DataError as error:
        if "not found" not in str(error):
            raise
        pytest.skip(str(error))


def counts(dataset: Dataset) -> tuple[int, int, set[int], set[int]]:
    train, test = (
        np.bincount(dataset.labels[part], minlength=dataset.classes)
        for part in (dataset.train, dataset.test)
    )
    return len(dataset.train), len(dataset.test), set(train.tolist()), set(test.tolist())


def moments(dataset: Dataset) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and standard deviation of the normalised training images, by channel."""
    x, _ = dataset.pixels.batch(torch.from_numpy(dataset.train))
    return x.mean((0, 2, 3)), x.std((0, 2, 3))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cifar10", (50000, 10000, {5000}, {1000})),
        ("cifar100", (50000, 10000, {500}, {100})),
        ("fashionmnist", (60000, 10000, {6000}, {1000})),
    ],
)
def test_the_real_files_are_whole_balanced_bytes_and_their_constants_normalise(
    name: str, expected: Any
) -> None:
    dataset = real(name)
    assert counts(dataset) == expected
    assert dataset.pixels.x.dtype == torch.uint8
    mean, std = moments(dataset)
    assert mean.abs().max() < 0.01
    assert (std - 1).abs().max() < 0.02


def test_known_images_have_known_labels_and_pixels() -> None:
    # CIFAR-10 begins with a frog whose first red pixels are 59, 43, 50; CIFAR-100 with cattle of
    # large herbivores.
    frog = real("cifar10")
    assert (int(frog.pixels.y[0]), frog.pixels.x[0, 0, 0, :3].tolist()) == (6, [59, 43, 50])
    assert int(real("cifar100").pixels.y[0]) == 19
    assert int(real("cifar100", labels="coarse").pixels.y[0]) == 11
    assert int(real("fashionmnist").pixels.y[0]) == 9


def test_femnist_has_writers_with_parts_as_leaf_gives_them() -> None:
    dataset = real("femnist")
    assert dataset.writers is not None
    assert (len(dataset.train), len(dataset.test), dataset.classes) == (41258, 4700, 62)
    assert len(np.unique(dataset.writers)) == 300
    assert set(dataset.writers[dataset.test]) < set(dataset.writers[dataset.train])
    config = amity.load(None, {"data": "femnist", "peers": 290})
    # four writers have no test examples
    peers = split(dataset, config.partition.instance, peer_names(290), 0)
    assert all(len(data.test) for data in peers.values())
    mean, std = moments(dataset)
    assert abs(float(mean)) < 0.01
    assert abs(float(std) - 1) < 0.01


SMALL: dict[str, Any] = {
    "peers": 3,
    "rounds": 2,
    "train.epochs": 1,
    "partition.samples": 24,
    "partition.test": 20,
}


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("cifar10", {"partition": "dirichlet", "partition.alpha": 0.1}),
        (
            "cifar100",
            {
                "partition": "pathological",
                "partition.classes": 5,
                "partition.samples": 5,
                "partition.test": 5,
                "peers": 2,
            },
        ),
        ("femnist", {}),
        ("fashionmnist", {"partition": "pathological"}),
    ],
)
def test_afind_plus_trains_two_rounds_on_every_dataset(name: str, more: dict[str, Any]) -> None:
    real(name)
    result = amity.run(data=name, out="r", **(SMALL | more))
    assert result.complete
    models = {
        "cifar10": "fedavg_cnn",
        "cifar100": "resnet18_gn",
        "femnist": "femnist_small",
        "fashionmnist": "fashion_cnn2",
    }
    assert result.config.model.name == models[name]
    assert result.config.partition.name == ("natural" if name == "femnist" else more["partition"])


def test_a_hundred_peers_do_not_copy_cifar_10_a_hundred_times() -> None:
    """Peak memory with 100 peers stays within a small multiple of the data, in a process of its
    own."""
    real("cifar10")
    script = """
import resource, amity
from amity.round.build import load_data
from amity.simulate import Simulation
words = {'data': 'cifar10', 'model': 'mlp', 'model.hidden': 4, 'partition': 'iid'}
config = amity.load(None, {**words, 'peers': 100, 'rounds': 1})
data = load_data(config)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
simulation = Simulation(config, data)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
pixels = data.pixels.x.data_ptr()
assert all(p.data.train.pixels.x.data_ptr() == pixels for p in simulation.peers.values())
print((after - before) * 1024)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=os.environ, check=True
    )
    assert int(done.stdout) < 100e6  # the data are 184 MB
    assert resource.getpagesize() > 0


# -- broken files


def test_files_are_found_in_the_usual_layouts_packed_or_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raw = Path("store/FashionMNIST/raw")
    raw.mkdir(parents=True)
    for file in FASHION.files:
        (raw / f"{file.name}.gz").write_bytes(b"")
    assert len(find(FASHION, "store")) == len(find(FASHION, "store/FashionMNIST/raw")) == 4
    monkeypatch.setenv("AMITY_DATA", "store")
    assert find(FASHION)["train-images-idx3-ubyte"].parent == raw
    (raw / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(
        DataError,
        match=r"not found in store; `amity data get fashionmnist` gets them, data.dir=FOLDER",
    ):
        find(FASHION, "store")


@pytest.mark.parametrize("dataset", [CIFAR10, CIFAR100], ids=lambda d: d.name)
def test_truncated_and_altered_cifar_files_are_refused_by_name(dataset: Published) -> None:
    folder = Path(dataset.folders[0])
    folder.mkdir()
    for file in dataset.files:
        (folder / file.name).write_bytes(bytes(100))
    with pytest.raises(
        DataError,
        match=rf"{dataset.files[0].name}: has 100 bytes, expected {dataset.files[0].size}",
    ):
        amity.run(data=dataset.name, out="r", **{"data.dir": "."})
    (folder / dataset.files[0].name).write_bytes(bytes(dataset.files[0].size))
    with pytest.raises(
        DataError, match=rf"{dataset.files[0].name}: has MD5 \w+, the published one is"
    ):
        amity.run(data=dataset.name, out="r", **{"data.dir": "."})
    assert not Path("r").exists()


def test_a_broken_gzip_file_is_refused() -> None:
    import gzip

    packed = gzip.compress(b"0123456789" * 100)
    file = File("f", 1000, "")
    for name, data in (
        ("torn.gz", packed[:-9]),
        ("empty.gz", b""),
        ("noise.gz", packed[:12] + b"\xff" * 9 + packed[21:]),
    ):
        Path(name).write_bytes(data)
        with pytest.raises(DataError, match=name):
            read(Path(name), file)


def test_idx_headers_must_agree_with_what_follows() -> None:
    good = bytes([0, 0, 8, 2]) + (2).to_bytes(4, "big") + (3).to_bytes(4, "big") + bytes(range(6))
    assert parse_idx("f", good).tolist() == [[0, 1, 2], [3, 4, 5]]
    for bad in (b"", b"<html>", good[:-1], good + b"x", good[:7], bytes([0, 0, 9, 1]) + bytes(8)):
        with pytest.raises(DataError, match=r"^f: "):
            parse_idx("f", bad)


def leaf(users: dict[str, Any], split: str = "train") -> None:
    folder = Path("leaf/data") / split
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "all_data_0.json").write_text(json.dumps({"users": list(users), "user_data": users}))


@pytest.fixture
def own_cache(monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AMITY_CACHE", "cache")
    return Path("cache")


def test_leaf_json_is_read_cached_and_read_anew_when_it_changes(own_cache: Path) -> None:
    image = [0.0, 1.0] + [0.5] * 782
    leaf({"ann": {"x": [image] * 3, "y": [1, 2, 61]}, "bob": {"x": [image], "y": [0]}})
    leaf({"ann": {"x": [image], "y": [3]}, "bob": {"x": [], "y": []}}, "test")
    first = femnist.Femnist("leaf").load()
    assert first.pixels.x[0, 0, 0, :3].tolist() == [0, 255, 128]
    assert (len(first.train), len(first.test), first.classes) == (4, 1, 62)
    assert first.writers is not None
    assert first.writers.tolist() == [0, 0, 0, 1, 0]
    (copy,) = own_cache.glob("femnist-*.npz")
    copy.write_bytes(copy.read_bytes()[:50])
    assert torch.equal(femnist.Femnist("leaf").load().pixels.x, first.pixels.x)
    leaf({"ann": {"x": [image], "y": [5]}})
    assert len(femnist.Femnist("leaf").load().train) == 1


@pytest.mark.parametrize(
    ("users", "message"),
    [
        ({"ann": {"x": [[0.0] * 784], "y": [62]}}, "labels must be whole numbers from 0 to 61"),
        ({"ann": {"x": [[0.0] * 783], "y": [1]}}, "images have shape"),
        ({"ann": {"x": [[2.0] * 784], "y": [1]}}, "pixels must lie between 0 and 1"),
        ({"ann": {"x": [[0.0] * 784], "y": [0.5]}}, "labels must be whole numbers"),
        ({"ann": {"y": [1]}}, "is not a file that LEAF wrote"),
    ],
)
def test_leaf_json_that_cannot_be_is_refused(
    own_cache: Path, users: dict[str, Any], message: str
) -> None:
    leaf(users)
    leaf(users, "test")
    with pytest.raises(DataError, match=message):
        femnist.Femnist("leaf").load()


def test_torn_leaf_json_is_refused(own_cache: Path) -> None:
    leaf({"ann": {"x": [[0.0] * 784], "y": [1]}})
    leaf({"ann": {"x": [[0.0] * 784], "y": [1]}}, "test")
    path = Path("leaf/data/train/all_data_0.json")
    path.write_text(path.read_text()[:-20])
    with pytest.raises(DataError, match=r"all_data_0.json: is not a file that LEAF wrote"):
        femnist.Femnist("leaf").load()


# -- augmentation


def test_crops_and_mirrors_are_those_of_a_plain_loop() -> None:
    x = torch.arange(2 * 3 * 6 * 5, dtype=torch.uint8).reshape(2, 3, 6, 5)
    out = crop_flip(x, np.random.default_rng(3))
    draw = np.random.default_rng(3)
    down, right = draw.integers(9, size=(2, 2))
    mirror = draw.random(2) < 0.5
    for k in range(2):
        padded = np.zeros((3, 14, 13), np.uint8)
        padded[:, 4:10, 4:9] = x[k].numpy()
        cut = padded[:, down[k] : down[k] + 6, right[k] : right[k] + 5]
        assert (out[k].numpy() == (cut[:, :, ::-1] if mirror[k] else cut)).all()
    assert out.dtype == torch.uint8


def test_augmentation_changes_training_but_neither_proxies_nor_losses() -> None:
    from tests.conftest import simulate, tiny

    train = {"epochs": 1, "batch": 8, "lr": 0.05}
    engine = {"vectorise": "off"}  # augmented training is never stacked
    plain, moved = (
        simulate(tiny(strategy="afind+", train={**train, "augment": kind}, engine=engine))
        for kind in ("none", "crop_flip")
    )
    for simulation in (plain, moved):
        simulation.round()
    a, b = plain.peers["peer-00"], moved.peers["peer-00"]
    assert not torch.equal(a.trained, b.trained)
    cards = [simulation.seats["peer-00"].card for simulation in (plain, moved)]
    assert cards[0] is not None
    assert cards[1] is not None
    assert torch.equal(cards[0].sketch, cards[1].sketch)
    losses = [
        s.world.learner.loss(s.world.initial, p.data.train) for s, p in ((plain, a), (moved, b))
    ]
    assert losses[0] == losses[1]


# -- the command line


def test_data_list_shows_what_is_there_and_how_to_get_the_rest(
    call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMITY_DATA", "nowhere")
    monkeypatch.setenv("XDG_CACHE_HOME", "nothing")
    code, out, _ = call("data list")
    assert code == 0
    assert "amity data get cifar10" in out
    assert "built in" in out


def test_data_show_draws_samples_and_the_partition(call: Any) -> None:
    code, out, _ = call("data show digits peers=6 out=d.html")
    assert (code, out) == (0, "picture: d.html\n")
    assert Path("d.html").read_text().count("<svg") == 2


@pytest.mark.parametrize("words", ["data=digits", "digits", ""])
def test_data_show_takes_a_dataset_by_name_by_key_or_the_default(words: str, call: Any) -> None:
    code, out, _ = call(f"data show {words} peers=6 out=here")
    assert (code, out) == (0, "picture: here.html\n")
    code, out, _ = call(f"data show {words} peers=6")
    assert (code, out) == (0, "picture: digits.html\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("digits out=d.png", "out: a page is written, expected FILE.html, got d.png"),
        ("digits out=folder", "out: folder is a folder, expected FILE.html"),
        ("digits data=cifar10", "data: is given twice"),
        ("data=digts", "unknown dataset 'digts'; did you mean 'digits'?"),
    ],
)
def test_data_show_refuses_what_it_cannot_draw_or_write(
    words: str, message: str, call: Any
) -> None:
    Path("folder").mkdir()
    code, _, error = call(f"data show {words}")
    assert (code, " ".join(error.split())) == (2, f"amity: {message}")


def test_data_get_says_leafs_own_steps_and_refuses_unknown_names(call: Any) -> None:
    code, _, err = call("data get femnist")
    assert code == 1
    assert "./preprocess.sh -s niid" in err
    code, _, err = call("data get cifar11")
    assert code == 2
    assert "did you mean 'cifar10" in err
