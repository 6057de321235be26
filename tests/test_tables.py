"""Tables as hospitals have them: columns in any order, categories, holes, dates, and all that can
be wrong with them."""

from __future__ import annotations

import datetime
import decimal
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import amity
from amity.config import load
from amity.data import Dataset
from amity.data.cells import Cells, encode, values_of
from amity.data.kinds import Wish, kinds_of, natural
from amity.data.scaling import scaling
from amity.data.schema import Column, Schema, read_schema
from amity.errors import ConfigError, DataError, RunDirError
from tests.conftest import Call

SMALL: dict[str, Any] = {
    "rounds": 2,
    "peers": 3,
    "train.epochs": 1,
    "train.batch": 16,
    "partition.test": 20,
}


def hospital(seed: int = 0, count: int = 120, classes: int = 3) -> pd.DataFrame:
    """Numbers with holes, a category, a date, an id, a note and a diagnosis."""
    draw = np.random.default_rng(seed)
    y = draw.integers(classes, size=count)
    day = np.datetime64("2020-01-01") + draw.integers(0, 900, count)
    frame = pd.DataFrame(
        {
            "age": 40 + 10 * y + draw.integers(0, 9, count),
            "bmi": 22 + 3 * y + draw.normal(size=count),
            "sex": draw.choice(["f", "m"], count),
            "seen": day.astype(str),
            "patient_id": 1000 + np.arange(count),
            "note": [f"text {k}" for k in range(count)],
            "diagnosis": np.array(["benign", "malignant", "unclear"])[y],
        }
    )
    frame.loc[draw.choice(count, 7, replace=False), "bmi"] = np.nan
    return frame


KEYS = {
    "data.label": "diagnosis",
    "data.drop": "patient_id,note",
    "data.dates": "days",
    "data.missing": "median",
}
WORDS = " ".join(f"{key}={value}" for key, value in KEYS.items())


def loaded(frame: pd.DataFrame, name: str = "t.csv", **keys: Any) -> Dataset:
    """The table as a file, and read by a config."""
    frame.to_csv(name, index=False) if name.endswith("csv") else frame.to_parquet(name)
    dataset: Dataset = load(None, {"data": name, **keys}).data.instance.load()
    return dataset


def refused(frame: pd.DataFrame, **keys: Any) -> str:
    with pytest.raises(DataError) as error:
        loaded(frame, **keys)
    assert "\n" not in str(error.value)
    return str(error.value)


# -- order


@given(st.permutations(list(hospital().columns)))
@settings(max_examples=10, deadline=None)
def test_the_order_of_columns_in_a_file_does_not_matter(names: list[str]) -> None:
    one, other = loaded(hospital(), **KEYS), loaded(hospital()[names], **KEYS)
    assert torch.equal(one.pixels.x, other.pixels.x)
    assert torch.equal(one.pixels.mean, other.pixels.mean)
    assert one.schema == other.schema


def test_columns_are_inputs_in_the_natural_order_of_their_names() -> None:
    names = ["f10", "f9", "B", "a", "f1", "A"]
    assert sorted(names, key=natural) == ["A", "a", "B", "f1", "f9", "f10"]
    frame = pd.DataFrame(np.arange(60.0).reshape(20, 3), columns=["f10", "f2", "b"])
    dataset = loaded(frame.assign(label=[0, 1] * 10))
    assert dataset.schema.inputs == ("b", "f2", "f10")
    assert dataset.pixels.x[0].tolist() == [2.0, 1.0, 0.0]


@given(st.lists(st.text(max_size=6), unique=True))
def test_no_two_names_have_the_same_place_in_the_natural_order(names: list[str]) -> None:
    assert len({natural(name) for name in names}) == len(names)


# -- what becomes of values


def test_a_category_is_one_input_for_each_of_its_values_and_is_not_scaled() -> None:
    frame = hospital()
    dataset = loaded(frame, **KEYS)
    assert dataset.schema.inputs == ("age", "bmi", "seen", "sex=f", "sex=m")
    expected = np.stack([frame["sex"] == "f", frame["sex"] == "m"], 1)
    assert dataset.pixels.x[:, 3:].numpy().tolist() == expected.astype(float).tolist()
    assert dataset.pixels.mean.flatten()[3:].tolist() == [0, 0]
    assert dataset.pixels.std.flatten()[3:].tolist() == [1, 1]


def test_dates_are_days_since_1970_with_parts_of_a_day() -> None:
    frame = hospital()
    frame["seen"] = "1970-01-02 06:00"
    assert (loaded(frame, **KEYS).pixels.x[:, 2] == 1.25).all()
    frame["seen"] = "1970-01-03T00:00:00+02:00"
    assert torch.allclose(loaded(frame, **KEYS).pixels.x[:, 2], torch.tensor(2 - 2 / 24))


def test_holes_are_filled_with_the_median_of_the_training_rows() -> None:
    frame = hospital()
    dataset = loaded(frame, **KEYS)
    median = frame["bmi"].iloc[dataset.train].median()
    filled = frame["bmi"].fillna(median)
    assert np.allclose(dataset.pixels.x[:, 1], filled, atol=1e-5)
    assert dataset.schema.columns[1].fill == pytest.approx(median)
    assert np.isclose(dataset.pixels.mean.flatten()[1], filled.iloc[dataset.train].mean())


def test_an_indicator_is_one_more_input_that_is_not_scaled() -> None:
    frame = hospital()
    dataset = loaded(frame, **KEYS | {"data.missing": "indicator"})
    assert dataset.schema.inputs[:4] == ("age", "age missing", "bmi", "bmi missing")
    assert dataset.pixels.x[:, 3].tolist() == frame["bmi"].isna().astype(float).tolist()
    x, _ = dataset.pixels.batch(torch.arange(len(frame)))
    assert set(x[:, 3].tolist()) == {0.0, 1.0}


@given(
    st.lists(st.none() | st.floats(-1e3, 1e3, width=32), min_size=4, max_size=12),
    st.lists(st.sampled_from(["a", "b", None]), min_size=12, max_size=12),
    st.sampled_from(["median", "indicator"]),
)
def test_encoding_is_what_ten_lines_of_python_say(
    numbers: list[float | None], words: list[str | None], rule: Any
) -> None:
    words = words[: len(numbers)]
    fill = 7.5
    schema = Schema(
        classes=("0", "1"),
        columns=(
            Column(name="n", missing=rule, fill=fill),
            Column(name="w", kind="category", values=("b", "a"), missing="zeros"),
        ),
    )
    frame = pd.DataFrame({"w": pd.Series(words, dtype=object), "n": numbers, "else": 1})
    expected = []
    for number, word in zip(numbers, words, strict=True):
        hole = [] if rule == "median" else [float(number is None)]
        value = fill if number is None else number
        expected.append([value, *hole, float(word == "b"), float(word == "a")])
    encoded = encode(schema, frame)
    assert encoded.x.dtype == np.float32
    assert encoded.x.tolist() == expected
    assert bool(encoded.notes) == (None in numbers or None in words)


def test_a_new_table_is_read_as_the_training_table_was() -> None:
    frame = hospital()
    dataset = loaded(frame, **KEYS)
    new = frame[sorted(frame, reverse=True)].drop(columns="diagnosis")
    again = encode(dataset.schema, new)
    assert torch.equal(torch.from_numpy(again.x), dataset.pixels.x)
    mean, std = (torch.tensor(part) for part in scaling(dataset.schema))
    assert torch.equal(mean, dataset.pixels.mean.flatten())
    assert torch.equal(std, dataset.pixels.std.flatten())
    assert "'bmi' 7 of 120 rows" in again.notes[0]
    other = frame.assign(sex="x", age="old").drop(columns="bmi")
    with pytest.raises(
        DataError, match=r"new.csv: 2 problems: column 'bmi' is not in the file: .*"
    ):
        encode(dataset.schema, other, "new.csv")


def test_a_model_may_fill_holes_that_its_training_refused() -> None:
    dataset = loaded(hospital(), **KEYS)
    columns = [column | {"missing": "refuse"} for column in dataset.schema.to_dict()["columns"]]
    strict = Schema.from_dict(dataset.schema.to_dict() | {"columns": columns})
    holes = hospital().assign(age=np.nan, sex="x")
    with pytest.raises(DataError, match=r"'age' \(120 of 120 rows, first in row 1\), 'bmi' \(7 of"):
        encode(strict, holes)
    filled = encode(strict, holes, fill=True)
    assert set(filled.x[:, 0]) == {np.float32(dataset.schema.columns[0].fill)}
    assert not filled.x[:, 3:].any()
    assert "'x': 120 of 120 rows" in filled.notes[-1]


# -- whatever type a file gives them


def test_the_same_values_are_the_same_whatever_their_type_in_a_file() -> None:
    words = ["f", "m"] * 15
    plain = pd.DataFrame({"n": [1, 2, 3] * 10, "t": [True, False] * 15, "c": words})
    plain["d"] = "2021-02-03"
    plain["label"] = [0, 1, 1] * 10
    kinds = {
        "nullable": plain.astype({"n": "Int64", "t": "boolean", "c": "category"}),
        "objects": plain.assign(
            n=[decimal.Decimal(n) for n in plain["n"]], d=datetime.date(2021, 2, 3)
        ),
        "times": plain.assign(d=pd.Timestamp("2021-02-03", tz="UTC"), n=plain["n"].astype("f8")),
    }
    keys = {"data.dates": "days"}
    one = loaded(plain, **keys)
    assert one.schema.inputs == ("c=f", "c=m", "d", "n", "t")
    for name, frame in kinds.items():
        other = loaded(frame, f"{name}.parquet", **keys)
        assert torch.equal(one.pixels.x, other.pixels.x), name
        assert not one.schema.difference(other.schema), name


def test_a_category_of_codes_is_the_same_with_holes_and_leading_zeros() -> None:
    rows = {"code": ["01", "2", "2.0", None] * 10, "x": range(40), "label": ["a", "b"] * 20}
    keys = {"data.categories": "code", "data.missing": "median"}
    dataset = loaded(pd.DataFrame(rows), **keys)
    assert dataset.schema.columns[0].values == ("01", "2")
    assert dataset.pixels.x[:4, :2].tolist() == [[1, 0], [0, 1], [0, 1], [0, 0]]
    numbers = pd.DataFrame(rows | {"code": [1, 2, 2, None] * 10})
    assert loaded(numbers, "n.parquet", **keys).schema.columns[0].values == ("1", "2")


def test_words_that_stand_for_nothing_are_holes() -> None:
    frame = hospital()
    frame["bmi"] = frame["bmi"].map(lambda v: "?" if np.isnan(v) else str(v))
    frame.loc[3, "age"] = -9
    dataset = loaded(frame, **KEYS, **{"data.na": "?,-9"})
    assert any("'age' 1, 'bmi' 7 of 120 rows" in note for note in dataset.notes)
    frame["bmi"] = hospital()["bmi"]
    parquet = loaded(frame, "t.parquet", **KEYS, **{"data.na": -9})
    assert torch.equal(parquet.pixels.x, dataset.pixels.x)


def test_semicolons_a_byte_order_mark_and_an_index_are_understood_and_told() -> None:
    frame = hospital()
    frame.to_csv("s.csv", sep=";", encoding="utf-8-sig")
    found = load(None, {"data": "s.csv", **KEYS}).data.instance.load()
    assert torch.equal(found.pixels.x, loaded(frame, **KEYS).pixels.x)
    assert "values are separated by semicolons" in found.notes
    assert "1 columns without a name (an index?) are left out" in found.notes


def test_a_column_that_numbers_the_rows_is_told() -> None:
    dataset = loaded(hospital(), **KEYS | {"data.drop": "note"})
    assert any("data.drop=patient_id" in note for note in dataset.notes)
    assert not any("data.drop=patient_id" in note for note in loaded(hospital(), **KEYS).notes)


TEXTS = st.text(max_size=5) | st.sampled_from(["1", "2.5", "2021-01-02", "inf", "1,5", "True"])


@given(
    st.lists(
        st.tuples(st.none() | TEXTS, st.none() | TEXTS | st.integers(-5, 5)), min_size=1, max_size=9
    ),
    st.sampled_from(["refuse", "median", "indicator"]),
    st.booleans(),
)
def test_whatever_stands_in_a_column_it_is_an_input_or_a_problem(
    rows: list[Any], rule: Any, dates: bool
) -> None:
    frame = pd.DataFrame(rows, columns=["a", "b"], dtype=object)
    found = values_of(frame)
    columns, problems = kinds_of(found, Wish(missing=rule, dates=dates))
    assert sorted([c.name for c in columns] + [p.column for p in problems]) == ["a", "b"]
    cells = Cells.of(Schema(classes=("0", "1"), columns=tuple(columns)), found)
    if not cells.problems and columns:
        inputs = cells.filled(np.ones(len(frame), bool)).inputs
        assert inputs.shape == (len(frame), len(cells.schema.inputs))
        assert np.isfinite(inputs).all()


# -- all problems at once


def test_all_problems_of_a_file_are_told_at_once_with_counts_and_remedies() -> None:
    frame = hospital().assign(empty=np.nan, comma="1,5", odd="03/04/2021", ward="north")
    frame["big"] = np.inf
    frame["crp"] = ["?" if k % 40 == 3 else str(k) for k in range(120)]
    frame = frame.rename(columns={"ward": "hospital"})
    said = refused(frame, **{"data.label": "diagnosis"})
    assert said.startswith("t.csv: 9 problems: ")
    for part in (
        "column 'empty' has no value at all: leave it out with data.drop=empty",
        "column 'bmi' has no value in some rows (7 of 120 rows, first in line ",
        "say data.missing=median (fills them) or data.missing=indicator",
        "column 'crp' has other things than numbers ('?': 3 of 120 rows, first in line 5 of",
        "data.na=WORD",
        "column 'big' has numbers that are not finite (120 of 120 rows, first in line 2 of",
        "column 'comma' has decimal commas (such as 1,5): write a point",
        "column 'seen' has dates (such as 20",
        "data.dates=days",
        "column 'odd' has dates that can be read in two ways (such as 03/04/2021): write YYYY-MM",
        "column 'hospital' is no number (such as 'north'): say what it names (data.peer=hospital,",
        "column 'note' is text with too many values for a category (120 values in 120 rows: 'text",
        "`amity data check t.csv` shows all",
    ):
        assert part in said, part


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("n,label\n1,a\n2,b\n?,a\n", 4),
        ("n,label\r\n1,a\r\n\r\n2,b\r\n?,a\r\n\r\n", 5),
        ('n,label\n1,"a\nb"\n2,b\n?,c\n', 5),
    ],
    ids=["plain", "empty lines", "a value of two lines"],
)
def test_the_first_bad_row_is_told_by_its_line_of_the_file(text: str, line: int) -> None:
    Path("t.csv").write_bytes(text.encode())
    with pytest.raises(DataError, match=rf"'\?': 1 of 3 rows, first in line {line} of the file"):
        load(None, ["data=t.csv"]).data.instance.load()


def test_many_columns_with_one_problem_are_told_together() -> None:
    frame = pd.DataFrame({f"c{k}": [1.0, np.nan] * 10 for k in range(9)}).assign(label=[0, 1] * 10)
    said = refused(frame)
    assert "9 problems: columns 'c0' (10 of 20 rows, first in line 3 of the file), 'c1' (" in said
    assert " and 5 more have no value in some rows: " in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,a,label\n1,2,x\n3,4,y\n", "column 'a' is named twice"),
        ("a,label\n1,2,x\n3,4,y\n", "its rows have more values than its first line has names"),
        ("a,b\n1,2\n3,4\n", "column 'label' is not in the file: say which column holds the"),
        ("a,label\n1,x\n2,\n3,y\n", "'label' cannot be the label (no value in 1 of 3 rows, f"),
        ("label\nx\ny\n", "no columns are left as inputs"),
        ("a,label\n1,x\n2,x\n", "only one class (x); at least two are needed. Where others hav"),
        ("a,label\n1,x\n2,y,3\n", "cannot be read as a table"),
        ("", "cannot be read as a table"),
    ],
)
def test_files_that_are_no_tables_are_refused_in_one_line(text: str, said: str) -> None:
    Path("t.csv").write_text(text)
    with pytest.raises(DataError) as error:
        load(None, ["data=t.csv"]).data.instance.load()
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_answers_that_are_named_twice_are_refused_and_never_an_input() -> None:
    with pytest.raises(ConfigError, match="label=dx and target=age both name the answers; say one"):
        load(None, ["data=t.csv", "task=regress", "data.label=dx", "data.target=age"])


def test_a_file_in_another_encoding_or_of_lists_is_refused() -> None:
    Path("t.csv").write_bytes("größe,label\n1,0\n2,1\n".encode("latin-1"))
    with pytest.raises(DataError, match="is not written in UTF-8; save it as UTF-8"):
        load(None, ["data=t.csv"]).data.instance.load()
    pd.DataFrame({"a": [[1, 2]] * 4, "label": [0, 1] * 2}).to_parquet("t.parquet")
    with pytest.raises(DataError, match="column 'a' is neither numbers nor text"):
        load(None, ["data=t.parquet"]).data.instance.load()


def test_columns_in_another_order_than_in_the_schema_file_are_told_and_found_by_name() -> None:
    frame = pd.DataFrame({"b": range(8), "label": [0, 1] * 4, "a": range(10, 18)})
    frame.to_csv("t.csv", index=False)
    Path("s.toml").write_text(
        'classes = ["0", "1"]\nlabel = "label"\n[[column]]\nname = "a"\n[[column]]\nname = "b"\n'
    )
    found = load(None, ["data=t.csv", "data.schema=s.toml"]).data.instance.load()
    assert found.pixels.x[0].tolist() == [10.0, 0.0]
    said = "columns stand in another order than in s.toml ('b' where 'a' is there)"
    assert any(said in note for note in found.notes)


# -- scaling


def test_inputs_are_scaled_by_the_training_examples_or_not_at_all_and_it_is_said() -> None:
    x = np.arange(400).reshape(100, 4) * 10
    np.savez("mine.npz", x=x, y=np.arange(100) % 2)
    usual, plain = (
        load(None, ["data=mine.npz", *more]).data.instance.load()
        for more in ([], ["data.scale=none"])
    )
    part, _ = usual.pixels.batch(torch.from_numpy(usual.train))
    assert torch.allclose(part.mean(0), torch.zeros(4), atol=1e-5)
    assert usual.notes == (
        "whole numbers are taken for columns of a table; data.kind=tokens takes them for ids of"
        " tokens",
        "whole numbers become floats and are scaled to mean 0 and deviation 1, by the statistics of"
        f" the {len(usual.train)} training examples here; data.scale=none leaves them as they are",
    )
    every, _ = plain.pixels.batch(torch.arange(100))
    assert every.tolist() == x.tolist()
    assert plain.notes[1:] == ("whole numbers become floats and are not scaled",)
    assert "data.scale=standard here and none there" in usual.schema.difference(plain.schema)
    np.savez("mine.npz", x=x + 2**25, y=np.arange(100) % 2)
    rounded = load(None, ["data=mine.npz", "data.scale=none"]).data.instance.load()
    assert "whole numbers above 16,777,216 are rounded to the nearest float" in rounded.notes


def test_every_kind_of_own_data_can_be_left_unscaled() -> None:
    arrays = {"x": np.arange(40.0).reshape(20, 2), "y": np.arange(20) % 2}
    result = amity.run(data=arrays, **{**SMALL, "data.scale": "none", "partition.test": 2}, out="r")
    assert result.config.data.options["scale"] == "none"
    table = loaded(hospital(), **KEYS, **{"data.scale": "none"})
    assert table.pixels.mean.unique().tolist() == [0]
    assert table.schema.columns[0].mean is None


def test_new_options_leave_configs_that_do_not_use_them_as_they_were() -> None:
    for source in ("mine.npz", "t.csv"):
        said = load(None, [f"data={source}"]).to_dict()["data"]
        assert not {"scale", "missing", "dates", "categories", "na", "schema"} & said.keys()


# -- the schema that members agree on


def write(*names: str, **frames: pd.DataFrame) -> None:
    for name, frame in zip(names, frames.values(), strict=True):
        frame.to_csv(name, index=False)


def three_hospitals() -> None:
    """The second has another order and more values, the third lacks a class and a measurement."""
    b = hospital(2, 150)
    b.loc[3, "sex"], b.loc[5, "sex"] = "x", None
    c = hospital(3, 100, classes=2).assign(bmi=np.nan)
    write("a.csv", "b.csv", "c.csv", a=hospital(1), b=b[sorted(b, reverse=True)], c=c)


def test_one_schema_makes_three_hospitals_learn_together(call: Call) -> None:
    three_hospitals()
    code, out, err = call(f"data schema a.csv b.csv c.csv {WORDS.rpartition(' ')[0]}")
    assert (code, err) == (0, "")
    assert "missing values are filled with the median: 'bmi'" in out
    assert "missing values are refused: 'age', 'seen'" in out
    schema = read_schema(Path("schema.toml"))
    assert schema.classes == ("benign", "malignant", "unclear")
    assert [c.values for c in schema.columns] == [(), (), (), ("f", "m", "x")]
    assert [c.missing for c in schema.columns] == ["refuse", "median", "refuse", "zeros"]
    assert (schema.label, schema.ignore) == ("diagnosis", ("patient_id", "note"))
    parts = {
        name: load(None, {"data": name, "data.schema": "schema.toml"}).data.instance.load()
        for name in ("a.csv", "b.csv", "c.csv")
    }
    digests = {part.schema.digest for part in parts.values()}
    assert len(digests) == 1
    assert parts["c.csv"].classes == 3
    assert set(parts["c.csv"].labels) == {0, 1}
    x, _ = parts["c.csv"].pixels.batch(torch.arange(100))
    assert not x[:, 1].any(), "a column without any value says nothing"
    code, out, _ = call("data check a.csv b.csv c.csv data.schema=schema.toml")
    assert code == 0
    assert "ok  c.csv and a.csv can learn together" in out
    assert "benign" in out
    code, _, err = call("data schema a.csv data.label=diagnosis")
    assert code == 2
    assert "out: schema.toml exists" in err


def test_without_a_schema_the_check_says_in_what_files_differ(call: Call) -> None:
    three_hospitals()
    hospital(3, 100, classes=2).to_csv("c.csv", index=False)
    code, out, _ = call(f"data check a.csv b.csv c.csv {WORDS}")
    assert code == 1
    assert "BAD b.csv (here) and a.csv (there): column 'sex': value 'x' is missing there" in out
    assert "BAD c.csv (here) and a.csv (there): class 'unclear' is missing here: list" in out


def test_agreed_statistics_are_those_of_all_rows_and_all_members_use_them(call: Call) -> None:
    three_hospitals()
    words = WORDS.rpartition(" ")[0]
    assert call(f"data schema a.csv b.csv c.csv statistics=true {words}")[0] == 0
    schema = read_schema(Path("schema.toml"))
    everyone = pd.concat([pd.read_csv(f"{name}.csv") for name in "abc"])
    bmi = schema.columns[1]
    filled = everyone["bmi"].fillna(everyone["bmi"].median())
    assert schema.agreed
    assert bmi.fill == pytest.approx(everyone["bmi"].median())
    assert (bmi.mean, bmi.std) == pytest.approx((filled.mean(), filled.std(ddof=0)), rel=1e-5)
    one, other = (
        load(None, {"data": name, "data.schema": "schema.toml"}).data.instance.load()
        for name in ("a.csv", "c.csv")
    )
    assert torch.equal(one.pixels.mean, other.pixels.mean)
    assert one.schema.digest == other.schema.digest
    assert any("by the statistics in the schema file" in note for note in one.notes)
    text = Path("schema.toml").read_text()
    Path("schema.toml").write_text(text.replace(f"std = {bmi.std}\n", ""))
    with pytest.raises(DataError, match="column 'bmi' has no std, and `agreed` says"):
        read_schema(Path("schema.toml"))


SCHEMA = """classes = ["a", "b"]
label = "y"
[[column]]
name = "n"
[[column]]
name = "c"
kind = "category"
values = ["u", "v"]
"""


def by_schema(rows: dict[str, Any], text: str = SCHEMA, **keys: Any) -> Dataset:
    Path("schema.toml").write_text(text)
    return loaded(pd.DataFrame(rows), **{"data.schema": "schema.toml", **keys})


ROWS: dict[str, Any] = {"c": ["u", "v"] * 10, "n": range(20), "y": ["b", "b"] * 10}


def test_a_schema_file_says_what_is_read_and_one_class_is_enough() -> None:
    dataset = by_schema(ROWS | {"more": 1})
    assert (dataset.names, set(dataset.labels)) == (("a", "b"), {1})
    assert dataset.schema.inputs == ("n", "c=u", "c=v")
    assert "not in schema.toml, left out: 'more'" in dataset.notes


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"n": ["?", 1] * 10}, "column 'n' has other things than numbers ('?': 10 of 20 rows"),
        ({"n": [None, 1] * 10}, "column 'n' has no value in some rows (10 of 20 rows, first in"),
        ({"c": ["u", "w"] * 10}, "column 'c' has values that schema.toml does not name ('w': 10"),
        ({"y": ["a", "z"] * 10}, "class 'z' is not in the list of the schema, ['a', 'b']"),
    ],
)
def test_what_a_schema_does_not_know_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError) as error:
        by_schema(ROWS | change)
    assert said in str(error.value)


def test_a_column_that_a_schema_names_must_be_there() -> None:
    with pytest.raises(DataError, match=r"columns 'n', 'c' are not in the file: add what"):
        by_schema({"y": ["a", "b"] * 10, "x": 1})
    with pytest.raises(ConfigError, match=r"data.missing: stands in the schema; change it"):
        by_schema(ROWS, **{"data.missing": "median"})
    with pytest.raises(DataError, match=r"has no \[\[column\]\]"):
        by_schema(ROWS, 'classes = ["a", "b"]')
    with pytest.raises(ConfigError, match=r"gone.toml: cannot be read"):
        loaded(pd.DataFrame(ROWS), **{"data.schema": "gone.toml"})


def test_unknown_values_are_counted_and_told_where_the_rule_takes_them_as_missing() -> None:
    dataset = by_schema(ROWS | {"c": ["u", "w"] * 10}, SCHEMA + 'missing = "zeros"\n')
    assert dataset.pixels.x[:2, 1:].tolist() == [[1, 0], [0, 0]]
    said = "column 'c': values that the schema does not name ('w': 10 of 20 rows, first in line 3"
    assert f"{said} of the file)" in dataset.notes


def test_tables_that_cannot_agree_are_refused(call: Call) -> None:
    write(
        "a.csv",
        "b.csv",
        a=pd.DataFrame({"k": range(20), "label": [0, 1] * 10}),
        b=pd.DataFrame({"k": ["u", "v"] * 10, "label": [0, 1] * 10}),
    )
    code, _, err = call("data schema a.csv b.csv")
    assert code == 2
    assert "column 'k' is a number in a.csv and a category in b.csv" in err
    assert not Path("schema.toml").exists()
    hospital().to_csv("b.csv", index=False)
    code, _, err = call("data schema b.csv")
    assert code == 2
    assert "b.csv: 3 problems: " in err
    code, _, err = call("data schema label=x b.csv")
    assert (code, "label: expected keys of the data, such as data.label=" in err) == (2, True)


# -- on the screen


def test_the_check_shows_the_schema_and_every_problem(call: Call) -> None:
    hospital().to_csv("t.csv", index=False)
    code, out, _ = call("data check t.csv")
    assert code == 1
    said = " ".join(out.split())
    assert "BAD column 'label' is not in the file" in said
    assert "diagnosis category benign, malignant, unclear 0 refuse" in said
    assert "BAD column 'bmi' has no value in some rows (7 of 120 rows" in said
    refused = "nothing is done with this data until that is right."
    assert f"{refused} As it stands it would be so: " in said
    assert "missing values are the median" not in said, "nobody said so yet"
    code, out, _ = call(f"data check t.csv {WORDS}")
    assert code == 0
    assert "seen date 2020-01-" in " ".join(out.split())
    assert "120 examples of 3 classes: benign " in out
    assert (
        "data: missing values are the median of the training examples: 'bmi' 7 of 120 rows" in out
    )


def test_the_check_takes_arrays_too(call: Call) -> None:
    np.savez("mine.npz", x=np.zeros((20, 3)), y=np.arange(20) % 2)
    code, out, _ = call("data check mine.npz")
    assert code == 0
    assert "examples of shape (3,)" in out
    assert "20 examples of 2 classes: 0 10, 1 10" in out


def test_a_run_says_what_is_done_to_own_data(call: Call) -> None:
    hospital().to_csv("t.csv", index=False)
    words = " ".join(f"{key}={value}" for key, value in SMALL.items())
    code, out, _ = call(f"run data=t.csv {WORDS} {words} out=r")
    assert code == 0
    assert "data: 4 columns are 5 inputs, in the order of their names: 2 numbers; one input" in out
    assert "training examples here; data.scale=none leaves them as they are" in out


def test_a_list_of_columns_is_no_grid_of_a_sweep(call: Call) -> None:
    hospital().to_csv("t.csv", index=False)
    words = " ".join(f"{key}={value}" for key, value in SMALL.items())
    code, out, err = call(f"sweep data=t.csv {WORDS} {words} train.lr=0.1,0.2 out=s jobs=1")
    assert code == 0, err
    assert "(2 tries, by " in out


# -- a run goes on with data of the same meaning


def test_a_run_goes_on_with_columns_in_another_order_but_not_with_other_ones() -> None:
    frame = hospital()
    frame.to_csv("t.csv", index=False)
    run: Any = {"data": "t.csv", **KEYS, **SMALL, "out": "r"}
    amity.run(**run)
    frame[sorted(frame, reverse=True)].to_csv("t.csv", index=False)
    amity.resume("r")
    frame.rename(columns={"age": "years"}).to_csv("t.csv", index=False)
    with pytest.raises(RunDirError, match=r"its data has changed .* column 'age' is missing here"):
        amity.resume("r")
    frame.to_csv("t.csv", index=False)
    Path("r/schema.json").unlink()
    with pytest.raises(RunDirError, match="began when the columns of a table were inputs in"):
        amity.resume("r")


def test_a_file_that_changed_is_read_again() -> None:
    frame = hospital()
    frame.to_csv("t.csv", index=False)
    run: Any = {"data": "t.csv", **KEYS, **SMALL}
    one = amity.run(**run, out="a")
    assert amity.run(**run, out="b").table["train_loss"].equals(one.table["train_loss"])
    frame.assign(age=-frame["age"]).to_csv("t.csv", index=False)
    assert not amity.run(**run, out="c").table["train_loss"].equals(one.table["train_loss"])


# -- speed


def test_a_large_table_is_read_column_by_column_and_not_cell_by_cell() -> None:
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20_000, 30)))
    found = values_of(frame)
    kinds_of(found, Wish())
    Cells.of(Schema(classes=(), columns=tuple(Column(name=name) for name in found)), found)
    assert not any("_words" in vars(values) for values in found.values()), "no text was made"


def test_names_may_be_a_list_or_look_like_numbers() -> None:
    config = load(None, {"data": {"path": "t.csv", "drop": ["a", "b"], "na": 7}})
    assert (config.data.options["drop"], config.data.options["na"]) == ("a,b", "7")
    assert tomllib.loads(config.to_toml())["data"]["na"] == "7"
