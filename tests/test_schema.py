"""What inputs and classes mean: names, kinds and order, compared in words."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amity.data.schema import Column, Schema, read_schema
from amity.errors import DataError
from amity.net.wire import LARGEST_TERMS, Refused, Terms

AGE = Column(name="age", missing="median", fill=50.0, mean=49.5, std=11.0)
SEX = Column(name="sex", kind="category", values=("f", "m"), missing="zeros")
SEEN = Column(name="seen", kind="date", missing="indicator")
SCHEMA = Schema(
    classes=("benign", "malignant"),
    columns=(AGE, SEX, SEEN),
    shape=(5,),
    label="diagnosis",
    ignore=("note",),
)

NAMES = st.text(min_size=1, max_size=8)


@st.composite
def columns(draw: st.DrawFn) -> Column:
    name, kind = draw(NAMES), draw(st.sampled_from(["number", "category", "date"]))
    numbers = st.none() | st.floats(-1e6, 1e6)
    if kind == "category":
        values = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
        rule = draw(st.sampled_from(["refuse", "zeros"]))
        return Column(name=name, kind="category", values=tuple(values), missing=rule)
    return Column(
        name=name,
        kind=kind,
        missing=draw(st.sampled_from(["refuse", "median", "indicator"])),
        fill=draw(numbers),
        mean=draw(numbers),
        std=draw(st.none() | st.floats(1e-6, 1e6)),
    )


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    return Schema(
        classes=tuple(draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))),
        columns=tuple(draw(st.lists(columns(), max_size=4, unique_by=lambda c: c.name))),
        shape=tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))),
        scale=draw(st.sampled_from(["standard", "none"])),
        agreed=draw(st.booleans()),
        label=draw(NAMES),
    )


@given(schemas())
def test_a_schema_is_plain_data_and_comes_back_as_it_was(schema: Schema) -> None:
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


@given(schemas(), schemas())
def test_no_difference_is_the_same_digest_for_both(one: Schema, other: Schema) -> None:
    assert not one.difference(one)
    assert (one.digest == other.digest) == (not one.difference(other))
    assert bool(one.difference(other)) == bool(other.difference(one))
    assert "\n" not in one.difference(other)


def test_a_schema_file_comes_back_as_it_was_and_is_legible(tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    path.write_text(SCHEMA.to_toml())
    assert read_schema(path) == dataclasses.replace(SCHEMA, shape=())
    assert '[[column]]\nname = "sex"\nkind = "category"' in path.read_text()


def test_inputs_are_named_after_columns_values_and_holes() -> None:
    assert SCHEMA.inputs == ("age", "sex=f", "sex=m", "seen", "seen missing")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"columns": (SEX, AGE, SEEN)}, "column 1 is 'age' here and 'sex' there; use one schema"),
        ({"columns": (AGE, SEX)}, "column 'seen' is missing there; use one schema file"),
        (
            {"columns": (AGE, SEX, SEEN, Column(name="u"), Column(name="v"))},
            "column 'u' (and 1 more) is missing here",
        ),
        (
            {"columns": (AGE, Column(name="sex"), SEEN)},
            "column 'sex' is a category here and a number there",
        ),
        (
            {"columns": (AGE, dataclasses.replace(SEX, values=("f", "m", "x")), SEEN)},
            "column 'sex': value 'x' is missing here",
        ),
        (
            {"columns": (dataclasses.replace(AGE, missing="indicator"), SEX, SEEN)},
            "column 'age': has an input for missing values there and none here: say the same"
            " data.missing everywhere",
        ),
        (
            {"classes": ("benign",)},
            "class 'malignant' is missing there: list the same `classes` under [peer] everywhere",
        ),
        (
            {"classes": ("malignant", "benign")},
            "class 1 is 'benign' here and 'malignant' there: list",
        ),
        ({"scale": "none"}, "inputs are scaled by data.scale=standard here and none there"),
        ({"columns": (), "shape": (1, 8, 8)}, "a table of 3 columns here and (1, 8, 8) there"),
        ({"agreed": True}, "the statistics in the schema files (fill, mean, std) differ"),
    ],
)
def test_a_difference_names_the_first_thing_and_where_to_change_it(
    change: dict[str, Any], said: str
) -> None:
    other = dataclasses.replace(SCHEMA, **change)
    assert said in SCHEMA.difference(other)
    assert SCHEMA.digest != other.digest


def test_ones_own_statistics_and_who_has_holes_make_no_difference_and_are_not_shown() -> None:
    own = dataclasses.replace(AGE, fill=1.0, mean=2.0, std=3.0, missing="refuse")
    other = dataclasses.replace(SCHEMA, columns=(own, SEX, SEEN), label="d", ignore=())
    assert not SCHEMA.difference(other)
    assert SCHEMA.digest == other.digest
    assert not {"fill", "mean", "std"} & set(json.dumps(SCHEMA.common.to_dict()).split('"'))


@pytest.mark.parametrize(
    ("plain", "said"),
    [
        ({"columns": [{"name": "a"}, {"name": "a"}]}, "column 'a' is named twice"),
        ({"columns": [{"name": "a", "kind": "text"}]}, "columns.0.kind should be 'number'"),
        ({"columns": [{"name": "a", "kind": "category"}]}, "a category needs `values`"),
        ({"columns": [{"name": "a", "missing": "zeros"}]}, "missing should be refuse or median"),
        ({"columns": [{"name": "a", "std": 0.0}]}, "std should be greater than 0"),
        ({"columns": [{"name": "a", "colour": "red"}]}, "colour"),
        ({"classes": "ab"}, "classes should be a valid tuple"),
        ({"classes": ["a", "a"]}, "class 'a' is named twice"),
    ],
)
def test_what_is_no_schema_is_refused_in_one_line(plain: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said.replace("(", r"\(")) as refused:
        Schema.from_dict({"classes": ["a", "b"]} | plain, "schema.toml")
    assert str(refused.value).startswith("schema.toml: ")
    assert "\n" not in str(refused.value)


# -- between members


TERMS = Terms(
    data=SCHEMA.common,
    model=(("w", (3, 5)), ("b", (3,))),
    seed=1,
    card=("head_gradient", 256, 16),
    masked=False,
)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"data": dataclasses.replace(SCHEMA, scale="none").common}, "data.scale=standard here"),
        ({"seed": 2}, "seed is 1 here and 2 there: say the same under [run]"),
        ({"card": None}, "cards show head_gradient 256 16 here and nothing there"),
        ({"masked": True}, "models are shared whole here and in part there"),
        (
            {"stepping": "adamw (beta1=0.9)"},
            "training steps by the usual optimiser and schedule here and adamw (beta1=0.9) there",
        ),
        ({"model": (("w", (4, 5)), ("b", (4,)))}, "parameter 'w' of the model is (3, 5) here and"),
        ({"model": (("w", (3, 5)),)}, "parameter 'b' of the model is (3,) here and absent there"),
        ({"model": TERMS.model[::-1]}, "the parameters of the model stand in another order"),
    ],
)
def test_terms_travel_and_differ_in_words(change: dict[str, Any], said: str) -> None:
    other = Terms.decode(dataclasses.replace(TERMS, **change).encode())
    assert other is not None
    assert said in TERMS.difference(other)
    assert TERMS.digest != other.digest
    same = Terms.decode(TERMS.encode())
    assert same == TERMS
    assert not TERMS.difference(TERMS)


def test_terms_that_are_too_long_are_not_told_and_any_other_bytes_are_refused() -> None:
    many = tuple(Column(name=f"column {k}") for k in range(10_000))
    wide = dataclasses.replace(TERMS, data=dataclasses.replace(SCHEMA.common, columns=many))
    assert wide.encode() == b""
    assert Terms.decode(b"") is None
    whole = TERMS.encode()
    assert len(whole) < LARGEST_TERMS
    for bad in (b"{", b"[]", b"7", b'{"data": 3}', b"[" * 50_000, whole.replace(b'"f"', b'"m"')):
        with pytest.raises(Refused, match="malformed"):
            Terms.decode(bad)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_terms_of_any_bytes_are_refused_or_read_and_never_raise_anything_else(text: bytes) -> None:
    try:
        Terms.decode(text)
    except Refused:
        return
    assert text == b""
