"""Records are the one definition of what stands in a run directory."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amity.facts import Ledger
from amity.files import plain
from amity.lab.run import run
from amity.records import (
    Books,
    EdgeRecord,
    PeerRecord,
    Record,
    RoundRecord,
    TimingRecord,
    WhyRecord,
    table_of,
)
from amity.store import read_records
from tests.conftest import tiny

KINDS = {
    "metrics.jsonl": PeerRecord,
    "rounds.jsonl": RoundRecord,
    "edges.jsonl": EdgeRecord,
    "timings.jsonl": TimingRecord,
    "why.jsonl": WhyRecord,
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.__name__)
def test_the_table_in_the_docs_is_that_of_the_code(kind: type[Record], repository: Path) -> None:
    assert table_of(kind) in (repository / "docs" / "RECORDS.md").read_text(encoding="utf-8")


def test_every_field_has_a_unit_and_says_what_it_is() -> None:
    for kind in KINDS.values():
        for field in dataclasses.fields(kind):
            assert field.metadata["unit"], field.name
            assert field.metadata["about"], field.name


def test_the_books_of_a_round_are_the_fields_of_its_record() -> None:
    assert set(Ledger().as_dict()) == {field.name for field in dataclasses.fields(Books)}


@pytest.mark.parametrize("name", KINDS)
def test_what_a_run_wrote_is_read_back_to_the_same_lines(tmp_path: Path, name: str) -> None:
    privacy = {"name": "gradients", "sigma": 2.0}
    run(tiny(attack={"name": "noise", "fraction": 0.34}, privacy=privacy), tmp_path / "r")
    lines = [json.loads(line) for line in (tmp_path / "r" / name).read_text().splitlines()]
    records = read_records(tmp_path / "r" / name, KINDS[name])
    assert [plain(record.line()) for record in records] == lines


numbers = st.floats(allow_nan=False) | st.none()


@given(st.dictionaries(st.sampled_from(["theta", "mine"]), st.floats(allow_nan=False)), numbers)
def test_a_record_survives_json(notes: dict[str, float], epsilon: float | None) -> None:
    record = PeerRecord(round=3, peer="a", epsilon=epsilon, notes=notes, excluded=("Loss",))
    again = PeerRecord.of(json.loads(json.dumps(plain(record.line()))))
    same = {k: v for k, v in notes.items() if math.isfinite(v)}
    assert {k: again.notes[k] for k in same} == same
    assert all(math.isnan(again.notes[k]) for k in notes.keys() - same.keys())
    assert again.epsilon == (epsilon if epsilon is None or math.isfinite(epsilon) else math.inf)
    assert (again.round, again.peer, again.excluded) == (3, "a", ("Loss",))


def test_lines_of_an_older_version_are_read_with_what_they_have(tmp_path: Path) -> None:
    old = '{"theta": 0.4, "round": 1, "peer": "a", "train_loss": null, "accuracy": 0.5}\n'
    (tmp_path / "metrics.jsonl").write_text(old + '{"torn": ')
    (record,) = read_records(tmp_path / "metrics.jsonl", PeerRecord)
    assert (record.accuracy, record.model_in, record.epsilon) == (0.5, 0, None)
    assert math.isnan(record.train_loss)
    assert record.notes == {"theta": 0.4}
