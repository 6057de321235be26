"""The same comparison in several worlds: one table, one picture, one page."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

import amity
from tests.conftest import tiny

Call = Callable[[str], tuple[int, str, str]]
SHIFTS = ["permute_labels:groups=2", "none"]
SPECS = ["local", "gossip:k=2", "friends", "oracle"]


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> amity.Worlds:
    out = tmp_path_factory.mktemp("worlds") / "w"
    return amity.compare_worlds(SHIFTS, SPECS, [0, 1], tiny(), out, jobs=1)


def test_every_world_is_the_comparison_that_compare_makes(worlds: amity.Worlds) -> None:
    shift = {"name": "permute_labels", "groups": 2}
    alone = amity.compare(SPECS, [0, 1], tiny(shift=shift), "alone", jobs=1)
    assert worlds.comparisons[SHIFTS[0]].rows == alone.rows
    plain = amity.compare(SPECS, [0, 1], tiny(), "plain", jobs=1)
    assert worlds.comparisons["none"].rows == plain.rows


def test_worlds_of_one_seed_differ_in_their_shift_alone(worlds: amity.Worlds) -> None:
    shifted, plain = (c.config.to_dict() for c in worlds.comparisons.values())
    assert shifted.pop("shift")["name"] == "permute_labels"
    assert shifted == plain


def test_the_files_say_what_the_comparisons_say(worlds: amity.Worlds) -> None:
    with open(worlds.path / "summary.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["world"], row["label"]) for row in rows] == [(w, s) for w in SHIFTS for s in SPECS]
    assert [float(row["accuracy"]) for row in rows] == pytest.approx(
        [line.accuracy for c in worlds.comparisons.values() for line in c.lines]
    )
    table = (worlds.path / "summary.md").read_text()
    assert table.count("friends |") == 1, "friends are counted where there are groups"
    page = (worlds.path / "report.html").read_text()
    assert "4 hidden groups" not in page
    assert "2 hidden groups" in page
    assert "no hidden groups" in page
    assert page.count("<h2>Who took from whom</h2>") == len(SHIFTS)
    assert (worlds.path / "worlds.svg").read_text().count("<svg") == 1


@pytest.mark.parametrize(
    ("shifts", "message"),
    [
        ("rotate:sizes=3,2,1,none", "write + between sizes: rotate:sizes=3+2+1"),
        ("none,rotate:sizes=6,2,1", "write + between sizes: rotate:sizes=6+2+1"),
        ("rotate:sizes=3+2+1:groups=4", "groups=4, but sizes=3,2,1 makes 3"),
        ("7", "unknown shift '7'"),
    ],
)
def test_sizes_in_a_list_of_worlds_have_a_plus_between(
    shifts: str, message: str, call: Call
) -> None:
    code, _, error = call(f"compare peers=6 strategies=local shifts={shifts} out=w")
    assert code == 2
    assert message in " ".join(error.split())
    assert not Path("w").exists()


def test_worlds_without_groups_have_a_picture_too() -> None:
    found = amity.compare_worlds(["none"], ["local", "gossip"], [0], tiny(rounds=1), "w", jobs=1)
    assert len(found.figure().axes) == 1


def test_repeating_takes_up_what_is_there_and_the_report_can_be_written_anew(
    worlds: amity.Worlds, call: Call
) -> None:
    stamp = (worlds.path / "none" / "local" / "seed-0" / "rounds.jsonl").stat().st_mtime_ns
    again = amity.compare_worlds(SHIFTS, SPECS, [0, 1], tiny(), worlds.path, jobs=1)
    assert again.rows == worlds.rows
    assert (worlds.path / "none" / "local" / "seed-0" / "rounds.jsonl").stat().st_mtime_ns == stamp
    before = (worlds.path / "report.html").read_text()
    (worlds.path / "report.html").unlink()
    assert call(f"report {worlds.path}")[0] == 0
    assert (worlds.path / "report.html").read_text() == before


def test_the_command_shows_all_worlds_in_one_table(call: Call) -> None:
    code, out, _ = call(
        "compare peers=6 rounds=1 partition=iid partition.samples=10 model.hidden=8"
        " strategies=local,gossip:k=2,oracle shifts=invert:groups=2,none seeds=0 out=w jobs=1"
    )
    assert code == 0
    said = [line.split(": digits")[0] for line in out.splitlines() if line.startswith("world ")]
    assert said == ["world 1 of 2: 3 runs", "world 2 of 2: 3 runs"]
    names, head, *lines = out.splitlines()[-10:]
    assert names.split() == ["invert:groups=2", "none"]
    assert head.split().count("accuracy") == 2
    assert [line.split()[0] for line in lines[:3]] == ["local", "gossip:k=2", "oracle"]
    assert "(reference)" in lines[2]
    assert "none: Nobody can be said to lead: one seed has no intervals." in out
    assert "invert:groups=2: here a friend is a peer of one's own group (2 groups of 3, 3)" in out
    assert Path("w/report.html").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("shifts=rotat,none", "unknown shift 'rotat'; did you mean 'rotate'?"),
        ("shifts=rotate,rotate", "shifts: 'rotate' is named twice"),
        ("shifts=rotate:groups=9,none", "shift.groups: 9 groups for 6 peers"),
        ("shifts=, ", "shifts: expected a list such as ['rotate', 'none'], got []"),
        ("shifts=rotate,none shift=invert", "shift: worlds are named by shifts="),
        ("shifts=rotate,none out=full", "full: is not empty and holds no worlds"),
    ],
)
def test_misuse_is_one_line_before_anything_runs(call: Call, words: str, message: str) -> None:
    Path("full").mkdir()
    Path("full/notes.txt").write_text("mine")
    code, _, err = call(f"compare strategies=local peers=6 rounds=1 seeds=0 {words}")
    assert (code, err.count("\n")) == (2, 1)
    assert message in err
    assert not Path("runs").exists()
