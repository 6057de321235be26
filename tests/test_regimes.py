"""The map of regimes: its worlds, the arithmetic of regret, its pictures, and the page in plain
words."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from amity.config import resolve
from amity.differences import Difference
from amity.errors import MissingData
from amity.reproduce import PRESETS, RunTable, tables
from amity.reproduce.experiment import Scope
from amity.reproduce.experiments.regimes import MINE, SEEDS, landscape
from amity.reproduce.record import CellRecord, TableHead
from amity.reproduce.regimes import KINDS, LONERS, loners, regimes
from amity.reproduce.regret import (
    ALONE,
    ANYONE,
    EVERYONE,
    FRIENDS,
    UNKNOWN,
    Regret,
    gap_of,
    much_harmed,
    what_pays,
)
from amity.reproduce.verdicts import HOLDS, NOT, PARTLY
from amity.reproduce.when import NUMBERS, numbers
from amity.round.build import deal_out, load_data
from amity.topology import peer_names
from tests.conftest import Call

MAP = tables()["regimes"]
CHOSEN_ON = {1, 2, 3}
"""Seeds of the default's settings."""


# -- worlds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", MAP.presets)
def test_every_world_can_be_and_is_reported_on_seeds_of_its_own(preset: str) -> None:
    asked = MAP.at("regimes", preset)
    assert not CHOSEN_ON & set(asked.seeds)
    assert not set(range(100, 200)) & set(asked.seeds)
    for name, world in regimes(PRESETS[preset]).items():
        config = asked.config(("", "Gossip", name), asked.seeds[0])
        grouped = config.shift.name != "none"
        assert (config.data.name, grouped or config.partition.name == "groups") == (
            world.data,
            world.kind.grouped,
        )
        assert config.partition.options["samples"] == world.samples
        if grouped:
            assert sum(config.shift.common.counts(config.peers)) == config.peers
        if world.data == "digits":
            dealt = deal_out(config, load_data(config), peer_names(config.peers))
            assert len({mine.group for mine in dealt.values()}) == (
                len(config.shift.common.counts(config.peers)) if grouped else 1
            )


def test_the_map_has_every_kind_of_world() -> None:
    small, large = (regimes(PRESETS[preset]).values() for preset in ("cpu", "paper"))
    assert {world.called for world in large} == {*KINDS, LONERS}
    assert {world.data for world in small} == {"digits", "fashionmnist", "cifar10", "femnist"}
    assert {world.samples for world in small} == {50, 100, 200, 500}
    turned = {"rotate", "zoom", "permute_pixels"}
    shifts = {"permute_labels", *turned, "invert", "scale", "corrupt"}
    assert {world.kind.shift.get("name") for world in small} == {*shifts, None}
    assert loners(20).shift["sizes"] == "8,8,1,1,1,1"


def test_worlds_whose_data_are_not_here_are_left_out_in_one_line_each(
    monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    monkeypatch.setenv("AMITY_DATA", "nowhere")
    monkeypatch.setenv("XDG_CACHE_HOME", "nothing")
    todo = MAP.prepare(Scope(name="regimes", preset="cpu"))
    here = {cell.config.data.name for cell in todo.cells}
    lost = {"fashionmnist", "cifar10", "femnist"} - here
    if not lost:
        pytest.skip("all data are in places of the system")
    assert len(todo.design.left_out) == len(lost)
    assert all("\n" not in line and "data get" in line for line in todo.design.left_out)
    assert "digits iid n=50" in todo.design.columns
    gone = next(n for n, w in regimes(PRESETS["cpu"]).items() if w.data == min(lost))
    with pytest.raises(MissingData, match=min(lost)):
        MAP.prepare(Scope(name="regimes", preset="cpu", columns=(gone,)))
    words = "rounds=1 seeds=11 rows=Local,Gossip columns=iid out=r"
    code, out, err = call(f"reproduce regimes {words}")
    assert (code, err) == (0, "")
    assert out.count("left out: 1 columns (FashionMNIST iid n=100)") == ("fashionmnist" in lost)


# -- arithmetic ------------------------------------------------------------------------------------


def test_regret_by_hand() -> None:
    accuracies = {
        "Local": {1: 60.0, 2: 62.0},
        "Gossip": {1: 70.0, 2: 74.0},
        "mine": {1: 71.0, 2: 71.0},
        "oracle": {1: 99.0, 2: 99.0},
    }
    rivals = ["Local", "Gossip"]
    gap = gap_of("w", "mine", accuracies, rivals)
    assert gap is not None
    assert (gap.best, gap.behind.mean, dict(gap.by_seed)) == ("Gossip", 1.0, {1: -1.0, 2: 3.0})
    assert gap.regret == 1.0
    ahead = gap_of("w", "Gossip", accuracies, rivals)
    assert ahead is not None
    assert (ahead.best, ahead.behind.mean, ahead.regret) == ("Local", -11.0, 0.0)
    both = Regret(row="mine", gaps=(gap, replace(gap, world="v", behind=Difference(-3.0, None, 2))))
    assert (both.mean, both.worst.world, both.mean_gap) == (0.5, "w", -1.0)


def test_regret_counts_only_seeds_that_all_have() -> None:
    accuracies = {"Local": {1: 60.0, 2: 90.0}, "Gossip": {1: 70.0}, "mine": {1: 65.0, 2: 10.0}}
    gap = gap_of("w", "mine", accuracies, ["Local", "Gossip"])
    assert gap is not None
    assert (gap.best, dict(gap.by_seed)) == ("Gossip", {1: 5.0})
    assert Regret(row="mine", gaps=(gap,)).interval is None, "one seed has no interval"
    assert gap_of("w", "mine", {"mine": {1: 5.0}}, ["Local"]) is None
    assert gap_of("w", "mine", {"mine": {1: 5.0}, "Local": {2: 5.0}}, ["Local"]) is None


def test_the_interval_of_the_mean_regret_is_around_it_and_never_below_0() -> None:
    values = dict(enumerate((0.5, 1.0, 1.5, 2.0, 2.5)))
    flat = dict.fromkeys(values, 0.0)
    gap = gap_of("w", "mine", {"mine": flat, "Local": values}, ["Local"])
    ahead = gap_of("v", "Local", {"mine": flat, "Local": values}, ["mine"])
    assert gap is not None
    assert ahead is not None
    found = Regret(row="mine", gaps=(gap,)).interval
    assert found is not None
    assert 0.5 <= found[0] < 1.5 < found[1] <= 2.5
    assert Regret(row="Local", gaps=(ahead,)).interval == (0.0, 0.0)


def test_a_peer_is_much_harmed_by_more_than_two_points() -> None:
    alone = {0: [0.5, 0.5, 0.5, None], 1: [0.9, 0.9, 0.9, 0.9]}
    mine = {0: [0.48, 0.479, 0.6, 0.1], 2: [0.0]}
    assert much_harmed(mine, alone) == pytest.approx(1 / 3)
    assert much_harmed({3: [0.5]}, alone) is None


@pytest.mark.parametrize(
    ("everyone", "friends", "apart", "expected"),
    [
        ((8, 1), (9, 1), (1, 2), ANYONE),
        ((2, 1), (7, 1), (5, 1), FRIENDS),
        ((8, 1), (3, 1), (-5, 1), EVERYONE),
        ((-2, 1), (-3, 1), (-1, 2), ALONE),
        ((-2, 1), (3, 1), (5, 1), FRIENDS),
        ((-2, 1), (0.2, 1), (2.2, 1), UNKNOWN),
        ((-2, 1), (-0.5, 1), (1.5, 1), UNKNOWN),
        ((0.5, 1), (0.4, 1), (-0.1, 1), UNKNOWN),
        ((0.5, 1), (2, 1), (1.5, 2), UNKNOWN),
        ((0.5, 1), (2, 3), (1.5, 1), UNKNOWN),
    ],
)
def test_whose_company_pays(
    everyone: tuple[float, float],
    friends: tuple[float, float],
    apart: tuple[float, float],
    expected: str,
) -> None:
    made = [Difference(mean, half, 5) for mean, half in (everyone, friends, apart)]
    assert what_pays(*made) == expected
    assert what_pays(*(Difference(one.mean, None, 1) for one in made)) == UNKNOWN


# -- tables, claims and the page -------------------------------------------------------------------


def made_up(mine: float, harm: float = 0.0) -> RunTable:
    """All worlds of `cpu`: the best rival has 70 %, the oracle 71 %, others 60 %; ours so much, and
    its first peer so much less than alone."""
    asked = MAP.at("regimes", "cpu")
    level = {"FedeRiCo": 0.7, "oracle": 0.71, MINE: mine}

    def record(row: str, column: str, seed: int) -> CellRecord:
        accuracy = level.get(row, 0.6) + seed / 10000
        final: list[float | None] = [accuracy - (harm if row == MINE else 0), accuracy]
        return CellRecord(
            panel="",
            row=row,
            column=column,
            seed=seed,
            digest="d",
            accuracy=accuracy,
            best=accuracy,
            final=final,
            megabytes=1.0,
            seconds=1.0,
            rounds=60,
            taken=1.0,
            precision=None,
            base_rate=None,
            attackers_weight=None,
            curve=[[60, 1.0, accuracy]],
        )

    head = TableHead(experiment="regimes", preset="cpu", command="c", sizes="s", machine="m")
    records = [record(row, column, seed) for _, row, column in asked.cell_keys() for seed in SEEDS]
    return RunTable(experiment=MAP, design=asked, head=head, records=records)


@pytest.mark.parametrize(
    ("mine", "harm", "expected"),
    [
        (0.702, 0.0, {"regret": HOLDS, "oracle": HOLDS, "harm": HOLDS}),
        (0.695, 0.0, {"regret": PARTLY, "oracle": NOT, "harm": HOLDS}),
        (0.60, 0.05, {"regret": NOT, "oracle": NOT, "harm": NOT}),
    ],
)
def test_claims_about_the_default_turn_with_its_numbers(
    mine: float, harm: float, expected: dict[str, str]
) -> None:
    table = made_up(mine, harm)
    assert {v.claim.id: v.status for v in table.verdicts} == expected
    found = landscape(table)
    assert found.regret(MINE).mean == pytest.approx(max(0, 70 - 100 * mine))
    assert found.regret("Local").worst.best == "FedeRiCo", "the oracle is no rival, nor are we"
    assert set(found.harm(MINE).values()) == ({0.5} if harm else {0.0})
    assert set(found.pays.values()) == {FRIENDS}


def test_worlds_stand_one_under_the_other() -> None:
    table = made_up(0.7)
    title, head, lines = table.shown()[0]
    assert (title, head[:3]) == ("", ["", "Local", "Gossip"])
    assert [line[0] for line in lines] == table.columns()
    title, head, lines = table.shown()[-1]
    assert title.startswith("Regret")
    assert lines[0][0] in (MINE, "FedeRiCo"), "the smallest worst regret is first"


def test_the_page_in_plain_words_has_its_numbers_from_the_records() -> None:
    parts = numbers(made_up(0.695))
    assert tuple(parts) == NUMBERS
    assert (
        f"friends are worth more than everyone in {len(regimes(PRESETS['cpu']))}" in parts["counts"]
    )
    assert parts["worlds"].count("\n| ") == 1 + len(regimes(PRESETS["cpu"]))
    assert "0.50 points behind" in parts["default"]
    assert f"| {MINE} | 0.50 |" in parts["regret"]


def test_the_page_and_the_picture_say_what_is_open() -> None:
    table = made_up(0.695)
    one_seed = replace(table, records=[one for one in table.records if one.seed == SEEDS[0]])
    found = landscape(one_seed)
    assert set(found.pays.values()) == {UNKNOWN}
    parts = numbers(one_seed)
    total = len(regimes(PRESETS["cpu"]))
    assert f"nothing can be told in {total}, because the intervals" in parts["counts"]
    assert parts["worlds"].count("| open: the intervals do not tell |") == total
    ahead = made_up(0.72)
    assert f"In {total} worlds it is ahead" in numbers(ahead)["default"]
    unsure = replace(ahead, records=[one for one in ahead.records if one.seed == SEEDS[0]])
    assert "In 0 worlds it is ahead" in numbers(unsure)["default"]
    axes = MAP.picture(one_seed).axes[0]
    assert [text.get_text() for text in axes.texts] == [UNKNOWN] * total
    assert "open: the intervals include 0" in axes.get_xlabel()


def test_the_map_by_one_command_that_goes_on_where_it_was(call: Call) -> None:
    code, _, err = call("reproduce regimes --preset smoke columns=iid,rotated out=r")
    assert (code, err) == (0, "")
    path = next(Path("r").glob("regimes-smoke*"))
    for name in ("figure.svg", "regret.svg"):
        assert (path / name).read_text().startswith("<svg")
    assert (path / "report.html").read_text().count("<svg") == 2
    with (path / "regret.csv").open(encoding="utf-8") as lines:
        records = list(csv.DictReader(lines))
    assert {one["world"] for one in records} == {"digits iid n=24", "digits rotated n=24"}
    assert all(float(one["regret"]) == max(0.0, float(one["gap"])) for one in records)
    done = list(Path("r/cells").glob("*/config.toml"))
    stamps = {path: path.stat().st_mtime_ns for path in done}
    code, again, _ = call("reproduce regimes --preset smoke out=r")
    assert code == 0
    assert f"{len(done)} of them done already" in again
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())


def test_a_part_without_rivals_or_oracle_is_shown_as_far_as_it_goes(call: Call) -> None:
    code, _, err = call("reproduce regimes --preset smoke rows=Gossip columns=iid out=r")
    assert (code, err) == (0, "")
    page = next(Path("r").glob("regimes-smoke*/report.html")).read_text()
    assert "Too few of its runs are there for a picture" in page


def test_a_regime_is_a_config_like_any_other() -> None:
    world: Any = regimes(PRESETS["cpu"])["FashionMNIST labels permuted and loners n=100"]
    config = resolve([world.layer, {"peers": 20}])
    assert config.shift.common.counts(20) == (8, 8, 1, 1, 1, 1)
