"""An exported model says of new examples what the run measured, from its folder alone."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
from PIL import Image

import amity
from amity.errors import ConfigError, DataError, RunDirError
from amity.lab.export import export
from amity.lab.run import restored
from amity.store import best_records
from amity.use.answers import Unfit, answer
from amity.use.classifier import open_model
from amity.use.modelfile import read_model
from amity.use.prediction import Prediction, predict
from tests.conftest import Call, tiny

HELD_OUT = {"name": "pathological", "classes": 5, "samples": 20, "test": 30, "validation": 0.4}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> amity.Result:
    path = tmp_path_factory.mktemp("runs") / "r"
    rough = {"epochs": 1, "batch": 8, "lr": 0.4}  # so that some rounds are worse than others
    config = tiny(partition=HELD_OUT, strategy={"name": "gossip", "k": 2}, rounds=6, train=rough)
    return amity.run(config, path)


def examples_of(path: Path, peer: str, split: str = "test") -> tuple[Any, Any]:
    samples = getattr(restored(path).peers[peer].data, split)
    return samples.pixels.x[samples.index].numpy(), samples.pixels.y[samples.index].numpy()


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


# -- what is exported ------------------------------------------------------------------------------


def test_the_last_and_the_best_model_score_what_the_run_measured(run: amity.Result) -> None:
    taken = export(run.path, out=Path("models"))
    assert len(taken) == 6
    best = best_records(run.metrics)
    assert {record.round for record in best.values()} != {5}, "else nothing is shown"
    for name in run.final():
        for split, key in (("test", "accuracy"), ("validation", "accuracy_validation")):
            x, y = examples_of(run.path, name, split)
            np.savez("new.npz", x=x, y=y)
            for which, record in (("last", run.metrics[-6:]), ("best", [best[name]])):
                (mine,) = [r for r in record if r.peer == name]
                found = predict(Path("models", name), "new.npz", which=which)
                assert found.accuracy == pytest.approx(getattr(mine, key))


def test_the_file_itself_says_what_it_takes_and_gives_and_where_it_comes_from(
    run: amity.Result,
) -> None:
    (one,) = export(run.path, "peer-03", Path("m"))
    assert [file.name for file in one.files] == ["best.safetensors", "last.safetensors", "MODEL.md"]
    with safetensors.safe_open(one.files[1], "pt") as file:
        facts = json.loads(file.metadata()["amity"])
    assert facts["task"] == "classification"
    assert facts["schema"]["classes"] == list("0123456789")
    assert facts["schema"]["shape"] == [1, 8, 8]
    assert facts["schema"]["mean"] == pytest.approx([4.88])
    assert facts["model"] == {"name": "mlp", "hidden": 12, "layers": 1}
    assert (facts["origin"]["which"], facts["origin"]["rounds"]) == ("last", 6)
    page = one.files[2].read_text()
    accuracy = 100 * run.final()["peer-03"]
    for words in (
        "6 of 6",
        f"{accuracy:.1f} %",
        "strategy: gossip",
        "6 simulated peers",
        "1 x 8 x 8",
    ):
        assert words in page
    assert str(run.path) not in page, "an export is handed on, and names no folder"


def test_the_same_run_gives_the_same_files(run: amity.Result) -> None:
    one, two = (export(run.path, "peer-00", Path(out))[0] for out in ("one", "two"))
    for a, b in zip(one.files, two.files, strict=True):
        assert a.read_bytes() == b.read_bytes()


def test_without_validation_only_the_last_is_exported_and_it_is_said_why(call: Call) -> None:
    amity.run(tiny(strategy="local"), "r")
    Path("r/export/peer-00").mkdir(parents=True)
    Path("r/export/peer-00/best.safetensors").write_bytes(b"of an export before this one")
    code, out, err = call("export r peer=peer-00")
    assert (code, out) == (0, "r/export/peer-00: last.safetensors, MODEL.md\n")
    assert err.startswith("only the last models: nobody has validation examples")
    assert not Path("r/export/peer-00/best.safetensors").exists()
    assert "Only the last model" in Path("r/export/peer-00/MODEL.md").read_text()


def test_a_model_that_noise_does_not_cover_says_so() -> None:
    private = {"name": "gradients", "sigma": 2.0}
    for method, covered in (("finetune", False), ("finetune:0", True)):
        options = {"name": "finetune", **({"tune_epochs": 0} if covered else {})}
        config = tiny(strategy="gossip", privacy=private, method=options, rounds=1)
        amity.run(config, method)
        (one,) = export(method, "peer-00")
        page = (one.folder / "MODEL.md").read_text()
        assert "ε = " in page
        assert ("does not cover this" in page) is not covered


def test_a_run_without_a_checkpoint_says_how_to_go_on(run: amity.Result) -> None:
    shutil.copytree(run.path, "r")
    shutil.rmtree("r/checkpoint")
    with pytest.raises(
        RunDirError, match="has no checkpoint yet; `amity resume r` goes on with it"
    ):
        export("r")
    with pytest.raises(ConfigError, match="unknown peer 'peer-9'; did you mean"):
        export(run.path, "peer-9")


# -- new examples ----------------------------------------------------------------------------------


def test_a_folder_alone_is_enough(run: amity.Result) -> None:
    (one,) = export(run.path, "peer-01", Path("m"))
    x, _ = examples_of(run.path, "peer-01")
    np.save("x.npy", x[:, 0])  # without the channel
    here = predict(one.folder, "x.npy")
    shutil.move("m", "elsewhere")
    Path("elsewhere/peer-01/MODEL.md").unlink()
    words = [sys.executable, "-m", "amity", "predict", "elsewhere/peer-01", "x.npy"]
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == here.to_csv()
    rows = rows_of(done.stdout)
    assert [row["example"] for row in rows[:3]] == ["0", "1", "2"]
    for row in rows:
        shares = {name: float(row[f"p_{name}"]) for name in "0123456789"}
        assert sum(shares.values()) == pytest.approx(1, abs=1e-5)
        assert row["label"] == max(shares, key=shares.__getitem__)


def test_an_id_of_arrays_is_kept(run: amity.Result, call: Call) -> None:
    export(run.path, "peer-01", Path("m"))
    x, y = examples_of(run.path, "peer-01")
    names = np.array([f"00{at}" for at in range(len(x))])
    np.savez("x.npz", x=x, y=y, who=names)
    code, out, err = call("predict m/peer-01 x.npz id=who out=p.csv")
    assert (code, out) == (0, f"p.csv: {len(x)} examples\n")
    assert err.startswith("accuracy ")
    assert [row["who"] for row in rows_of(Path("p.csv").read_text())] == names.tolist()


def bad_arrays() -> None:
    np.save("wide.npy", np.zeros((2, 9, 9)))
    np.save("nan.npy", np.full((2, 8, 8), np.nan))
    np.save("objects.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    Path("text.npy").write_text("no array")
    np.save("none.npy", np.zeros((0, 8, 8)))
    np.save("complex.npy", np.zeros((2, 8, 8), complex))
    np.savez("short.npz", x=np.zeros((2, 8, 8)), y=np.array(["a"]))
    np.savez("nox.npz", y=np.array(["a"]))
    Path("torn.npz").write_bytes(Path("short.npz").read_bytes()[:-30])
    Path("x.txt").write_text("1 2 3")
    Path("x.doc").write_text("1 2 3")
    Path("t.csv").write_text("a,b\n1,2\n")
    Path("folder").mkdir()


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        ("wide.npy", r"examples have shape \(1, 9, 9\), the model expects \(1, 8, 8\)"),
        ("nan.npy", "example 0 has NaN or Inf"),
        ("objects.npy", "expected a .npy array"),
        ("text.npy", "expected a .npy array"),
        ("absent.npy", "absent.npy: does not exist"),
        ("none.npy", "expected examples as numbers, got float64 of shape"),
        ("complex.npy", "expected examples as numbers, got complex128"),
        ("short.npz", "y must be one value for each of the 2 examples"),
        ("nox.npz", "expected a .npz file with an array `x`"),
        ("torn.npz", "expected a .npy array"),
        ("x.txt", r"was not trained on characters and reads no text; it takes .* \(1, 8, 8\)"),
        ("x.doc", "expected a folder of images or a file that ends in .csv, .parquet, .npy, .npz"),
        ("t.csv", r"was not trained on a table and knows no columns; it takes arrays of shape"),
        ("folder", "was not trained on images of bytes"),
    ],
)
def test_examples_that_do_not_fit_are_refused_in_one_line(
    run: amity.Result, examples: str, message: str
) -> None:
    (one,) = export(run.path, "peer-00", Path("models"))
    bad_arrays()
    with pytest.raises(DataError, match=message) as caught:
        predict(one.folder, examples)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_model_is_refused_in_one_line(run: amity.Result) -> None:
    (one,) = export(run.path, "peer-00", Path("models"))
    np.save("x.npy", np.zeros((1, 8, 8)))
    for folder, message in (
        ("nowhere", r"expected a folder with best.safetensors or last.safetensors"),
        ("models", r"holds several models; name one, such as models/peer-00"),
    ):
        with pytest.raises(RunDirError, match=message):
            predict(folder, "x.npy")
    with pytest.raises(ConfigError, match="unknown model 'first'"):
        predict(one.folder, "x.npy", which="first")
    other, _ = read_model(one.folder / "best.safetensors")
    for content in (b"broken", b"", (one.folder / "MODEL.md").read_bytes()):
        (one.folder / "best.safetensors").write_bytes(content)
        with pytest.raises(DataError, match="is not a model that `amity export` wrote"):
            predict(one.folder, "x.npy")
    assert predict(one.folder, "x.npy", which="last").classes == other.classes


# -- tables ----------------------------------------------------------------------------------------


def patients(path: Path, count: int, seed: int) -> None:
    """`age` says nearly all; `sex` is a category; `bmi` may be missing."""
    import pandas as pd

    draw = np.random.default_rng(seed)
    ill = np.arange(count) % 2 == 1
    table = pd.DataFrame(
        {
            "patient": [f"{at:04d}" for at in range(count)],
            "age": 50 + 20 * ill + draw.normal(size=count),
            "sex": draw.choice(["f", "m"], count),
            "bmi": 25 + draw.normal(size=count),
            "note": "x",
            "diagnosis": np.where(ill, "ill", "healthy"),
        }
    )
    table.loc[3, "bmi"] = np.nan
    table.to_csv(path, index=False)


@pytest.fixture(scope="module")
def of_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that was trained on a table, and nothing else of the run."""
    folder = tmp_path_factory.mktemp("tables")
    patients(folder / "t.csv", 120, 0)
    data = {"name": "table", "path": str(folder / "t.csv"), "label": "diagnosis"}
    config = amity.load(
        None,
        {
            "data": {**data, "drop": "patient,note", "missing": "median"},
            "peers": 2,
            "rounds": 5,
            "partition": "iid",
            "strategy": "gossip",
            "train.lr": 0.1,
            "train.batch": 8,
            "engine.workers": 1,
        },
    )
    amity.run(config, folder / "r")
    (one,) = export(folder / "r", "peer-00", folder / "m")
    shutil.rmtree(folder / "r")
    (folder / "t.csv").unlink()
    return one.folder


def test_a_table_may_have_its_columns_in_any_order_and_keeps_its_id(
    of_table: Path, call: Call
) -> None:
    import pandas as pd

    patients(Path("new.csv"), 20, 1)
    table = pd.read_csv("new.csv", dtype={"patient": str})
    mixed = table[["sex", "bmi", "patient", "age"]]
    mixed.to_csv("mixed.csv", index=False)
    mixed.to_csv("semicolons.csv", index=False, sep=";")
    mixed.to_parquet("mixed.parquet")
    code, out, err = call(f"predict {of_table} new.csv id=patient")
    assert code == 0
    filled = "missing values are the median of the training examples: 'bmi' 1 of 20 rows"
    told = [filled, "accuracy 100.0 %"]
    assert err.splitlines() == told, "columns that were dropped in training are no surprise"
    rows = rows_of(out)
    assert [row["patient"] for row in rows] == [f"{at:04d}" for at in range(20)]
    assert [row["label"] for row in rows] == table["diagnosis"].tolist()
    assert list(rows[0]) == ["patient", "label", "p_healthy", "p_ill"]
    for other in ("mixed.csv", "semicolons.csv", "mixed.parquet"):
        assert call(f"predict {of_table} {other} id=patient")[1] == out
    table["weight"] = 80
    table.to_csv("more.csv", index=False)
    assert "not used: weight" in call(f"predict {of_table} more.csv")[2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"age": None, "sex": None}, "needs columns that are not there: 'age', 'sex'"),
        ({"age": "old"}, "column 'age' has other things than numbers ('old': 4 of 4 rows, first"),
        ({"age": float("inf")}, "column 'age' has numbers that are not finite"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_with_everything_that_is_wrong(
    of_table: Path, call: Call, change: dict[str, Any], message: str
) -> None:
    import pandas as pd

    patients(Path("new.csv"), 4, 1)
    table = pd.read_csv("new.csv")
    for name, value in change.items():
        table = table.drop(columns=name) if value is None else table.assign(**{name: value})
    table.to_csv("new.csv", index=False)
    code, out, err = call(f"predict {of_table} new.csv")
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_words_for_missing_values_and_filling_are_said_on_the_command_line(
    tmp_path: Path, call: Call
) -> None:
    import pandas as pd

    patients(Path("t.csv"), 60, 0)
    pd.read_csv("t.csv").drop(columns=["bmi", "note", "patient"]).to_csv("t.csv", index=False)
    words = "peers=2 rounds=1 partition=iid strategy=gossip train.batch=8 out=r"
    assert call(f"run data=t.csv data.label=diagnosis {words}")[0] == 0
    assert call("export r peer=peer-00 out=m")[0] == 0
    Path("new.csv").write_text("age,sex,id\n60,f,NA\nunknown,m,2\n,x,3\n")
    code, _, err = call("predict m/peer-00 new.csv")
    assert code == 2
    for said in ("column 'age' has other things than numbers ('unknown'", "na=WORD names what",
                 "column 'age' has no value (1 of 3", "column 'sex' has values that were not known",
                 "fill=true takes what was usual"):  # fmt: skip
        assert said in err
    code, out, err = call("predict m/peer-00 new.csv na=unknown fill=true")
    assert code == 0
    assert len(rows_of(out)) == 3
    assert "missing values are the median of the training examples: 'age' 2 of 3 rows" in err
    code, _, err = call("predict m/peer-00 new.csv na=unknown fill=true id=id")
    assert code == 2
    assert "new.csv: id: row 1 has none (it is empty, or a word such as NA" in err
    assert (
        "unknown column 'ids'; did you mean 'id'?"
        in call("predict m/peer-00 new.csv na=unknown fill=true id=ids")[2]
    )
    assert "expected true or false, got 'yes'" in call("predict m/peer-00 new.csv fill=yes")[2]
    body = json.dumps({"rows": [{"age": None, "sex": "x"}]}).encode()
    model = open_model(Path("m/peer-00"))
    with pytest.raises(Unfit, match=r"column 'age' has no value .* fill=true takes"):
        answer(model, body)
    assert len(answer(model, body, fill=True)["predictions"]) == 1


def test_data_that_has_changed_since_is_told_and_not_fitted_to(call: Call) -> None:
    patients(Path("t.csv"), 60, 0)
    words = "data.label=diagnosis data.drop=patient,note data.missing=median out=r"
    run = f"run data=t.csv {words} peers=2 rounds=1 partition=iid strategy=gossip"
    assert call(run)[0] == 0
    patients(Path("t.csv"), 62, 0)
    code, _, err = call("export r")
    assert code == 2
    assert "the data has changed since the last round: its mean, deviation or median" in err
    patients(Path("t.csv"), 60, 0)
    assert call("export r")[0] == 0


def test_rows_without_names_are_refused_where_columns_are_not_plain_numbers(of_table: Path) -> None:
    np.save("x.npy", np.zeros((2, 4)))
    with pytest.raises(DataError, match=r"not all plain numbers; give a table .* age, bmi, sex"):
        predict(of_table, "x.npy")


# -- images ----------------------------------------------------------------------------------------


def painted(folder: Path, light: int, count: int, seed: int) -> None:
    folder.mkdir(parents=True)
    draw = np.random.default_rng(seed)
    for at in range(count):
        pixels = np.clip(draw.normal(light, 20, (10, 12, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{at}.png")


def test_folders_of_images_give_the_names_of_files_and_classes(call: Call) -> None:
    for name, light in (("night", 40), ("day", 200)):
        painted(Path("train") / name, light, 30, light)
    run = "data=train data.size=8 model=mlp peers=2 rounds=4 partition=iid strategy=gossip"
    assert call(f"run {run} train.lr=0.1 train.batch=8 out=r")[0] == 0
    assert call("export r peer=peer-00 out=m")[0] == 0
    painted(Path("new/day"), 190, 3, 1)
    painted(Path("new/night"), 50, 3, 2)
    code, out, err = call("predict m/peer-00 new")
    rows = rows_of(out)
    assert (code, err) == (0, "accuracy 100.0 %\n")
    assert [row["file"] for row in rows[:2]] == ["day/0.png", "day/1.png"]
    assert [row["label"] for row in rows] == ["day"] * 3 + ["night"] * 3
    painted(Path("mixed"), 190, 2, 3)
    code, out, err = call("predict m/peer-00 mixed")
    assert (code, err) == (0, ""), "nobody says what these are"
    assert [row["file"] for row in rows_of(out)] == ["0.png", "1.png"]
    Path("mixed/2.png").write_bytes(b"no image")
    code, _, err = call("predict m/peer-00 mixed")
    assert code == 2
    assert "mixed/2.png: is not an image that can be read" in err
    assert call("predict m/peer-00 mixed id=file")[0] == 2


def test_own_labels_that_the_model_does_not_know_are_told() -> None:
    from amity.use.examples import Examples

    examples = Examples(
        x=np.zeros((2, 1)), ids=("0", "1"), id_name="example", labels=("cat", "emu")
    )
    found = Prediction(
        classes=("cat", "dog"), probabilities=np.array([[1.0, 0.0], [0.0, 1.0]]), examples=examples
    )
    assert (found.accuracy, found.strange) == (0.5, ("emu",))


# -- own models ------------------------------------------------------------------------------------


def test_a_model_of_ones_own_is_found_by_its_file(call: Call) -> None:
    Path("mine.py").write_text(
        "from torch import nn\n"
        "def make(shape, classes):\n"
        "    layers = nn.Linear(64, 5), nn.ReLU(), nn.Linear(5, classes)\n"
        "    return nn.Sequential(nn.Flatten(), *layers)\n"
    )
    assert call("run model=mine.py:make peers=4 rounds=1 strategy=gossip out=r")[0] == 0
    assert call("export r peer=peer-00 out=m")[0] == 0
    np.save("x.npy", np.zeros((1, 8, 8)))
    assert call("predict m/peer-00 x.npy")[0] == 0
    text = Path("mine.py").read_text()
    Path("mine.py").write_text(text.replace("ReLU", "Tanh"))
    for words in ("predict m/peer-00 x.npy", "export r"):
        code, _, err = call(words)
        assert code == 2
        changed = ("mine.py has changed since", "you have not run before as it is now")
        assert "mine.py" in err
        assert any(said in err for said in changed)
    Path("mine.py").unlink()
    code, _, err = call("predict m/peer-00 x.npy")
    assert code == 2
    assert "mine.py" in err


def test_a_network_without_a_file_is_of_use_only_where_it_is() -> None:
    from torch import nn

    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 5), nn.ReLU(), nn.Linear(5, 10))
    amity.run(tiny(strategy="local", model=net, rounds=1), "r")
    (one,) = amity.export("r", "peer-00")
    np.save("x.npy", np.zeros((1, 8, 8)))
    assert len(amity.predict(one.folder, "x.npy").labels) == 1
    words = [sys.executable, "-m", "amity", "predict", str(one.folder), "x.npy"]
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == 2
    assert "its network was passed as an object and lies in no file" in done.stderr


def test_an_export_of_an_older_version_says_so(run: amity.Result) -> None:
    Path("old").mkdir()
    Path("old/model.safetensors").write_bytes(b"")
    with pytest.raises(RunDirError, match="is of an older version; export the run again"):
        predict("old", "x.npy")
