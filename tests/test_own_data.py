"""One's own data, in every form and with everything that can be wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import amity
from amity.config import load
from amity.data.columns import Columns, dataset_of
from amity.data.objects import adapt
from amity.errors import DataError

SMALL: dict[str, Any] = {
    "rounds": 2,
    "peers": 3,
    "train.epochs": 1,
    "train.batch": 16,
    "partition.test": 20,
}


def arrays(count: int = 120, peers: bool = True) -> dict[str, Any]:
    draw = np.random.default_rng(0)
    y = draw.integers(3, size=count)
    x = draw.normal(size=(count, 6)) + y[:, None]
    return {"x": x, "y": y} | (
        {"peer": np.repeat(["north", "south", "west"], count // 3)} if peers else {}
    )


def test_an_npz_trains_with_natural_peers_and_their_names() -> None:
    np.savez("mine.npz", **arrays())
    result = amity.run(data="mine.npz", partition="natural", out="r", **SMALL)
    assert result.complete
    assert sorted(result.origins.values()) == ["north", "south", "west"]
    assert amity.resume("r").config.data.options["path"] == "mine.npz"


def test_a_folder_of_arrays_is_the_same_as_an_npz() -> None:
    np.savez("mine.npz", **arrays())
    Path("folder").mkdir()
    for name, values in arrays().items():
        np.save(f"folder/{name}.npy", values)
    one, other = (
        load(None, [f"data={source}"]).data.instance.load() for source in ("mine.npz", "folder")
    )
    assert torch.equal(one.pixels.x, other.pixels.x)
    assert (one.test == other.test).all()


def test_a_given_split_is_kept_and_a_drawn_one_takes_its_share_of_every_peer_and_class() -> None:
    given = np.array(["train"] * 90 + ["test"] * 30)
    kept = dataset_of("m", Columns(**arrays(peers=False), split=given), 0.2)
    assert kept.test.tolist() == list(range(90, 120))
    drawn = dataset_of("m", Columns(**arrays(600)), 0.25)
    assert drawn.writers is not None
    for writer in range(3):
        for label in range(3):
            group = (drawn.writers == writer) & (drawn.labels == label)
            assert abs(group[drawn.test].sum() - 0.25 * group.sum()) <= 1
    again = dataset_of("m", Columns(**arrays(600)), 0.25)
    assert (again.test == drawn.test).all()


def test_every_peer_keeps_examples_for_training_and_for_testing() -> None:
    peer = np.array(["a"] * 2 + ["b"] * 3 + ["c"] * 95)
    columns = Columns(np.zeros((100, 2)) + np.arange(100)[:, None], np.arange(100) % 2, peer)
    dataset = dataset_of("m", columns, 0.2)
    assert dataset.writers is not None
    assert set(dataset.writers[dataset.train]) == set(dataset.writers[dataset.test]) == {0, 1, 2}


def test_labels_may_be_names_or_any_numbers() -> None:
    for labels, names in (
        (["cat", "dog"] * 30, ("cat", "dog")),
        ([7, -2] * 30, ("-2", "7")),
        ([0.0, 1.0] * 30, ("0", "1")),
    ):
        dataset = dataset_of(
            "m", Columns(np.random.default_rng(0).normal(size=(60, 2)), np.array(labels)), 0.2
        )
        assert (dataset.names, dataset.classes) == (names, 2)
        assert set(dataset.labels) == {0, 1}


def test_images_may_have_channels_last_or_none_and_bytes_stay_bytes() -> None:
    y = np.arange(20) % 2
    for shape, expected in (
        ((20, 9, 8, 3), (3, 9, 8)),
        ((20, 3, 9, 8), (3, 9, 8)),
        ((20, 9, 8), (1, 9, 8)),
    ):
        dataset = dataset_of("m", Columns(np.zeros(shape, np.uint8), y), 0.2)
        assert dataset.shape == expected
        assert dataset.pixels.x.dtype == torch.uint8


def test_normalisation_comes_from_the_training_part() -> None:
    dataset = dataset_of("m", Columns(**arrays(peers=False)), 0.2)
    x, _ = dataset.pixels.batch(torch.from_numpy(dataset.train))
    assert torch.allclose(x.mean(0), torch.zeros(6), atol=1e-5)
    assert torch.allclose(x.std(0, correction=0), torch.ones(6), atol=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.linspace(0, 1, 120)}, r"labels look like a regression target \(0.00840336, "),
        ({"y": np.arange(120)}, "120 different labels for 120 examples; these are no classes"),
        ({"y": np.zeros(120, int)}, "only one class"),
        (
            {"y": np.array([None, 1] * 60, dtype=object)},
            "labels must be all numbers or all text, got NoneType, int",
        ),
        ({"y": np.array([1.0, np.nan] * 60)}, r"label of example 1 is missing \(NaN\)"),
        ({"y": np.ones(120, complex)}, "labels must be whole numbers or names, got complex128"),
        (
            {"y": np.zeros((120, 3), int)},
            r"y must be one value for each of the 120 examples, got \(120, 3\)",
        ),
        ({"y": np.arange(119) % 3}, "y must be one value for each"),
        ({"x": np.zeros(120)}, "x must hold one row"),
        ({"x": np.full((120, 2), np.inf)}, "example 0 has NaN or Inf"),
        ({"x": np.array([["a", "b"]] * 120)}, "x must be numbers"),
        ({"peer": np.arange(5)}, "peer must be one value for each"),
        ({"split": np.array(["train", "dev"] * 60)}, "split must be train or test, got 'dev'"),
        (
            {"split": np.array(["train"] * 120)},
            "120 training and 0 test examples; both must be there",
        ),
    ],
)
def test_columns_that_cannot_be_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        dataset_of("mine", Columns(**(arrays() | change)), 0.2)


def test_files_that_are_no_arrays_are_refused() -> None:
    Path("text.npz").write_text("no zip")
    Path("empty.npz").write_bytes(b"")
    np.savez("noy.npz", x=np.zeros((3, 2)))
    np.savez("objects.npz", x=np.array([{"a": 1}], dtype=object), y=np.zeros(1))
    whole = Path("whole.npz")
    np.savez(whole, **{**arrays(), "y": arrays()["y"].astype(np.int64)})
    Path("torn.npz").write_bytes(whole.read_bytes()[:-200])
    for name, message in (
        ("text.npz", "cannot be read as arrays"),
        ("empty.npz", "cannot be read as arrays"),
        ("torn.npz", "cannot be read as arrays"),
        ("noy.npz", "no array 'y'; it has x"),
        ("objects.npz", "cannot be read as arrays"),
        ("absent.npz", "absent.npz: does not exist"),
    ):
        with pytest.raises(DataError, match=message):
            load(None, [f"data={name}"]).data.instance.load()


# -- images


def folder_of_images(root: str, peers: bool = False, splits: bool = False) -> None:
    draw = np.random.default_rng(0)
    for split in ("train", "test") if splits else ("",):
        for peer in ("north", "south") if peers else ("",):
            for label, level in (("dark", 40), ("light", 200)):
                folder = Path(root) / split / peer / label
                folder.mkdir(parents=True)
                for k in range(10):
                    pixels = draw.normal(level, 20, (12, 10, 3)).clip(0, 255).astype(np.uint8)
                    Image.fromarray(pixels).save(folder / f"{k}.png")


@pytest.mark.parametrize(
    ("peers", "splits"), [(False, False), (True, False), (False, True), (True, True)]
)
def test_image_folders_are_read_with_peers_and_splits(peers: bool, splits: bool) -> None:
    folder_of_images("scans", peers, splits)
    dataset = load(None, ["data=scans", "data.size=16"]).data.instance.load()
    assert (dataset.shape, dataset.classes, dataset.names) == ((3, 16, 16), 2, ("dark", "light"))
    assert dataset.writer_names == (("north", "south") if peers else ())
    if splits:
        assert len(dataset.train) == len(dataset.test)
    grey = load(None, ["data=scans", "data.grey=true"]).data.instance.load()
    assert grey.shape == (1, 32, 32)
    bright = grey.pixels.x.float().mean((1, 2, 3))
    assert bright[grey.labels == 1].min() > bright[grey.labels == 0].max()


def test_an_image_folder_trains() -> None:
    folder_of_images("scans", peers=True)
    result = amity.run(
        data="scans", partition="natural", **{**SMALL, "peers": 2, "partition.least": 5}, out="r"
    )
    assert sorted(result.origins.values()) == ["north", "south"]


def test_one_corrupt_image_is_named_and_nothing_passed_over() -> None:
    folder_of_images("scans")
    Path("scans/dark/3.png").write_bytes(Path("scans/dark/3.png").read_bytes()[:60])
    with pytest.raises(DataError, match=r"scans/dark/3.png: is not an image that can be read"):
        load(None, ["data=scans"]).data.instance.load()
    Path("scans/dark/3.png").write_bytes(b"")
    with pytest.raises(DataError, match=r"scans/dark/3.png: is not an image"):
        load(None, ["data=scans"]).data.instance.load()


def test_folders_that_do_not_fit_are_refused() -> None:
    Path("empty").mkdir()
    with pytest.raises(DataError, match="no images; expected CLASS/file or PEER/CLASS/file"):
        load(None, ["data=empty"]).data.instance.load()
    folder_of_images("scans")
    Image.new("RGB", (4, 4)).save("scans/stray.png")
    with pytest.raises(DataError, match=r"stray\.png does not fit"):
        load(None, ["data=scans"]).data.instance.load()


# -- tables


def table() -> Any:
    import pandas as pd

    mine = arrays()
    frame = pd.DataFrame(mine["x"], columns=[f"f{k}" for k in range(6)])
    return frame.assign(
        diagnosis=np.array(["a", "b", "c"])[mine["y"]], hospital=mine["peer"], note="text"
    )


WORDS = ["data.label=diagnosis", "data.peer=hospital", "data.drop=note"]


def test_csv_and_parquet_give_the_same_and_train() -> None:
    table().to_csv("t.csv", index=False)
    table().to_parquet("t.parquet")
    one, other = (
        load(None, [f"data={name}", *WORDS]).data.instance.load() for name in ("t.csv", "t.parquet")
    )
    assert torch.allclose(one.pixels.x, other.pixels.x)
    assert one.names == other.names == ("a", "b", "c")
    assert one.writer_names == ("north", "south", "west")
    values = dict(word.split("=") for word in WORDS)
    assert amity.run(data="t.csv", partition="natural", out="r", **values, **SMALL).complete


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["data.label=diagnos"],
            r"data.label: unknown column 'diagnos'; did you mean 'diagnosis'\?",
        ),
        (["data.label=diagnosis"], "column 'hospital' is no number .* data.drop=hospital"),
        (["data.label=diagnosis", "data.peer=hospitl"], "data.peer: unknown column 'hospitl'"),
        (
            ["data.label=f0", "data.drop=note,hospital,diagnosis"],
            "labels look like a regression target",
        ),
    ],
)
def test_tables_that_do_not_fit_are_refused(words: list[str], message: str) -> None:
    table().to_csv("t.csv", index=False)
    with pytest.raises(DataError, match=message):
        load(None, ["data=t.csv", *words]).data.instance.load()


def test_a_column_of_words_may_name_groups() -> None:
    table().rename(columns={"hospital": "group"}).to_csv("t.csv", index=False)
    words = ["data=t.csv", "data.label=diagnosis", "data.drop=note"]
    with pytest.raises(DataError, match=r"say what it names \(data.group=group, data.peer=group"):
        load(None, words).data.instance.load()
    with pytest.raises(DataError, match=r"say by peer who holds what, .* data.peer=COLUMN"):
        load(None, [*words, "data.group=group"]).data.instance.load()


def test_a_table_with_a_hole_names_its_line() -> None:
    frame = table()
    frame.loc[4, "f2"] = np.nan
    frame.to_csv("t.csv", index=False)
    with pytest.raises(
        DataError, match=r"column 'f2' has no value .*, first in line 6 of the file"
    ):
        load(None, ["data=t.csv", *WORDS]).data.instance.load()
    Path("empty.csv").write_text("")
    with pytest.raises(DataError, match="cannot be read as a table"):
        load(None, ["data=empty.csv"]).data.instance.load()


# -- functions


class Pairs(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return 60

    def __getitem__(self, at: int) -> tuple[torch.Tensor, int]:
        return torch.full((1, 4, 4), float(at % 2)), at % 2


def test_a_function_may_return_arrays_a_mapping_or_a_torch_dataset() -> None:
    mine = arrays()
    for found in ((mine["x"], mine["y"]), (mine["x"], mine["y"], mine["peer"]), mine):
        assert adapt("f", found, 0.2).classes == 3
    dataset = adapt("f", Pairs(), 0.2)
    assert (dataset.shape, dataset.classes, len(dataset.train) + len(dataset.test)) == (
        (1, 4, 4),
        2,
        60,
    )
    for found, message in (
        (7, "returned int, expected"),
        ((1, 2, 3, 4, 5), "returned tuple, expected"),
        ({"x": [1]}, "no array 'y'"),
    ):
        with pytest.raises(DataError, match=message):
            adapt("f", found, 0.2)


def test_a_hugging_face_dataset_works() -> None:
    datasets = pytest.importorskip("datasets", reason="pip install datasets")
    pictures = [Image.new("L", (8, 8), 10 + 200 * (k % 2)) for k in range(40)]
    rows = {
        "image": pictures,
        "label": [k % 2 for k in range(40)],
        "writer": [f"w{k % 4}" for k in range(40)],
    }
    found = datasets.Dataset.from_dict(rows).cast_column("image", datasets.Image())
    dataset = adapt("hf", found, 0.2)
    assert (dataset.shape, dataset.classes, dataset.writer_names) == (
        (1, 8, 8),
        2,
        ("w0", "w1", "w2", "w3"),
    )
    both = datasets.DatasetDict({"train": found, "test": found})
    assert len(adapt("hf", both, 0.2).test) == 40
    with pytest.raises(DataError, match="no label column; expected one of label"):
        adapt("hf", found.rename_column("label", "what"), 0.2)


def test_a_function_in_a_file_is_a_dataset() -> None:
    Path("mine.py").write_text(
        "import numpy as np\ndef toy():\n    y = np.arange(90) % 3\n    return"
        " np.random.default_rng(0).normal(size=(90, 4)) + y[:, None], y, np.repeat(['a', 'b', 'c'],"
        " 30)\n"
    )
    result = amity.run(data="mine.py:toy", partition="natural", out="r", **SMALL)
    assert sorted(result.origins.values()) == ["a", "b", "c"]
    with pytest.raises(
        DataError,
        match=r"natural: of 3 peers in the data, 3 have .*; use peers=3 or .* got peers=4",
    ):
        amity.run(data="mine.py:toy", partition="natural", out="q", **{**SMALL, "peers": 4})
