"""Reports: who leads, how well each class is known, where a run began, and what made it."""

from __future__ import annotations

import csv
import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import amity
from amity.config import Config
from amity.differences import leads, paired
from amity.lab.reports import write_report
from amity.lab.result import Result
from amity.lab.tries import SWEEP, Try, note_tries, read_sweep
from amity.records import RoundRecord
from amity.round.build import deal_out, load_data
from amity.show import curves
from amity.show.classes import of_runs, recalls
from amity.show.columns import columns_of
from amity.show.figures import broken
from amity.show.matrices import heat_maps, name_side
from amity.show.page import STYLE
from amity.show.panels.grid import map_of
from amity.show.story import Story
from amity.show.tried import Tried, Tries
from amity.store import read_commands
from amity.store.commands import typed
from amity.tasks import ACCURACY
from amity.topology import peer_names
from tests.conftest import Call, simulate, tiny

SPECS = ["local", "gossip:k=2", "oracle"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return amity.run(tiny(), tmp_path_factory.mktemp("run") / "r")


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> amity.Comparison:
    out = tmp_path_factory.mktemp("cmp") / "c"
    return amity.compare(SPECS, [0, 1, 2], tiny(), out, jobs=1)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> amity.Sweep:
    out = tmp_path_factory.mktemp("sweep") / "s"
    base = tiny(partition={"validation": 0.3, "samples": 20})
    grid = {"train.lr": [0.1, 0.0001], "gossip.k": [1, 2, 3]}
    return amity.sweep(["gossip"], grid, [0, 1], config=base, out=out, jobs=1)


def scored(values: dict[str, list[float]], reference: str = "oracle") -> Story:
    """A story of runs with these accuracies, by label and seed."""

    def result(label: str, seed: int, accuracy: float) -> Any:
        strategy = tiny(strategy=reference if label == reference else "gossip").strategy
        return SimpleNamespace(
            config=SimpleNamespace(seed=seed, strategy=strategy, metric=ACCURACY),
            accuracy=accuracy,
            score=accuracy,
        )

    return Story(
        {label: [result(label, s, a) for s, a in enumerate(v)] for label, v in values.items()}
    )


# -- who leads -------------------------------------------------------------------------------------


def test_an_interval_is_students_over_the_seeds_that_both_have() -> None:
    gap = paired({0: 3.0, 1: 5.0, 2: 4.0, 7: 99.0}, {0: 1.0, 1: 2.0, 2: 4.0})
    apart = [2.0, 3.0, 0.0]
    assert gap is not None
    assert gap.mean == pytest.approx(np.mean(apart))
    assert gap.half == pytest.approx(4.302652729911275 * np.std(apart, ddof=1) / math.sqrt(3))
    assert (gap.seeds, gap.sign) == (3, 0)


def test_who_is_highest_leads_only_if_all_intervals_exclude_0() -> None:
    ours = {0: 0.80, 1: 0.85, 2: 0.90}
    far = {seed: value - 0.1 - seed / 1000 for seed, value in ours.items()}
    near = {0: 0.85, 1: 0.80, 2: 0.85}
    assert leads("a", {"a": ours, "b": far})
    assert not leads("a", {"a": ours, "b": far, "c": near})
    assert not leads("a", {"a": ours})
    assert not leads("a", {"a": {0: 0.9}, "b": {0: 0.1}}), "one seed has no interval"


@pytest.mark.parametrize(
    ("values", "leader", "said"),
    [
        ({"a": [0.9, 0.91, 0.92], "b": [0.5, 0.51, 0.53]}, "a", "a leads: its differences"),
        (
            {"a": [0.9, 0.5, 0.9], "b": [0.7, 0.7, 0.7], "c": [0.1, 0.1, 0.1]},
            "",
            "a is highest, but does not lead: its 95 % interval, paired by seed, includes 0"
            " against b.",
        ),
        ({"a": [0.9], "b": [0.5]}, "", "Nobody can be said to lead: one seed has no intervals."),
        ({"a": [0.9, 0.91], "oracle": [0.95, 0.96]}, "", ""),
    ],
)
def test_the_sentence_below_a_table_says_no_more_than_the_intervals(
    values: dict[str, list[float]], leader: str, said: str
) -> None:
    story = scored(values)
    assert story.leader == leader
    assert story.standing.startswith(said)
    assert bool(story.standing) == bool(said)
    assert story.top == "a", "a reference is no rival"


def test_the_table_has_paired_differences_with_their_intervals(
    comparison: amity.Comparison,
) -> None:
    top = comparison.story.top
    (other,) = {"local", "gossip:k=2"} - {top}
    line = next(line for line in comparison.lines if line.label == other)
    ours, theirs = (
        np.array([run.accuracy for run in comparison.results[label]]) for label in (other, top)
    )
    apart = ours - theirs
    assert line.vs_top == pytest.approx(apart.mean())
    half = 4.302652729911275 * apart.std(ddof=1) / math.sqrt(3)
    assert line.vs_top_half == pytest.approx(half)
    gossip = next(line for line in comparison.lines if line.label == "gossip:k=2")
    gains = [
        np.mean([run.final()[peer] - alone.final()[peer] for peer in run.final()])
        for run, alone in zip(
            comparison.results["gossip:k=2"], comparison.results["local"], strict=True
        )
    ]
    assert gossip.gain == pytest.approx(np.mean(gains))
    assert gossip.gain_half == pytest.approx(
        4.302652729911275 * np.std(gains, ddof=1) / math.sqrt(3)
    )
    page = (comparison.path / "report.html").read_text(encoding="utf-8")
    assert f"{100 * apart.mean():+.1f} ± {100 * half:.1f}" in page
    assert "mean little" not in page
    assert page.count('class="best"') == bool(comparison.story.leader)
    head = page[page.index("row minus column") :]
    assert head.index("local") < head.index("gossip:k=2") < head.index("oracle")


# -- classes ---------------------------------------------------------------------------------------


def test_the_counts_of_every_class_are_those_of_the_model_on_the_test_examples() -> None:
    simulation = simulate(tiny(rounds=1))
    report = simulation.round()
    for name, record in report.peers.items():
        peer = simulation.peers[name]
        (model,) = simulation.shard.final_models((name,), 0)
        y = peer.data.test.pixels.y[peer.data.test.index]
        x = [peer.data.test.pixels.batch(peer.data.test.index)[0]]
        guess = simulation.shard.world.learner.answers(model, x[0]).argmax(1)
        want = {
            str(c): [int(((guess == c) & (y == c)).sum()), int((y == c).sum())]
            for c in sorted(set(y.tolist()))
        }
        assert record.by_class == want
        right, total = np.array(list(want.values())).sum(0)
        assert record.accuracy == pytest.approx(right / total)
        assert record.balanced == pytest.approx(np.mean([r / n for r, n in want.values()]))


def test_the_untrained_model_is_measured_before_the_first_round_only() -> None:
    simulation = simulate(tiny(rounds=2))
    learner, start = simulation.shard.world.learner, simulation.shard.world.initial.clone()
    first, second = simulation.round(), simulation.round()
    for name, record in first.peers.items():
        score = learner.score(start, simulation.peers[name].data.test)
        assert record.accuracy_start == pytest.approx(score.accuracy)
    assert all(record.accuracy_start is None for record in second.peers.values())


def test_recall_by_class_adds_up_over_peers(run: Result) -> None:
    mine = recalls(run)
    everyone = of_runs([run])
    for label, recall in everyone.items():
        parts = [part[label] for part in mine.values() if label in part]
        assert recall.right == sum(part.right for part in parts)
        assert recall.all == sum(part.all for part in parts)
    data = deal_out(run.config, load_data(run.config), peer_names(run.config.peers))
    assert sum(r.all for r in everyone.values()) == sum(len(d.test) for d in data.values())
    page = run.save("r.html").read_text(encoding="utf-8")
    assert "<h2>Recall by class</h2>" in page
    assert "all peers" in page
    assert ">balanced</th>" in page
    worst = min(everyone.values(), key=lambda r: r.share)
    assert f">{100 * worst.share:.1f}</text>" in page or f">{100 * worst.share:.0f}</text>" in page


def test_runs_of_an_older_version_have_reports_without_what_they_did_not_record(
    comparison: amity.Comparison,
) -> None:
    shutil.copytree(comparison.path, "old")
    for file in Path("old").glob("*/seed-*/metrics.jsonl"):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        for line in lines:
            for key in ("by_class", "accuracy_start", "balanced"):
                line.pop(key, None)
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for file in Path("old").rglob("commands.jsonl"):
        file.unlink()
    page = write_report(Path("old")).read_text(encoding="utf-8")
    assert "Accuracy by round" in page
    assert "Recall by class" not in page
    assert ">balanced</th>" not in page
    assert "round 0 is the untrained model" not in page
    for path in Path("old").glob("local/seed-0"):
        assert "Recall by class" not in write_report(path).read_text(encoding="utf-8")


# -- a single run ----------------------------------------------------------------------------------


def test_a_single_run_has_no_empty_columns_and_a_summary_of_its_own(call: Call) -> None:
    words = "peers=4 rounds=2 partition.samples=10 partition.test=20 model.hidden=8"
    code, out, _ = call(f"run {words} strategy=gossip sinks=plain:every=9 out=r")
    assert code == 0
    page = Path("r/report.html").read_text(encoding="utf-8")
    table = page[page.index("<table") : page.index("</table>")]
    assert "<td>-</td>" not in table
    for absent in ("vs local", "harmed", "vs top", "worst 10%"):
        assert absent not in table
        assert absent not in out
    with open("r/summary.csv", newline="") as stream:
        (row,) = csv.DictReader(stream)
    result = Result(Path("r"), amity.load("r/config.toml"))
    assert row["label"] == "gossip"
    assert float(row["accuracy"]) == pytest.approx(result.accuracy)
    footer = page[page.index("<footer>") :]
    assert f"<code>amity run {words} strategy=gossip out=r</code>" in footer, "without its sinks"
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d to .* UTC: 2 rounds in 1 s", footer)


def test_columns_are_shown_where_any_line_has_something(comparison: amity.Comparison) -> None:
    names = [column.name for column in columns_of(comparison.lines)]
    assert names[:3] == ["strategy", "accuracy", "vs top"]
    assert "vs local" in names
    assert "validation" not in names
    alone = [replace(line, vs_top=None, gain=None) for line in comparison.lines]
    assert not {"vs top", "vs local"} & {column.name for column in columns_of(alone)}


def test_a_resumed_run_has_both_commands_at_its_foot(call: Call) -> None:
    small = "peers=4 rounds=1 partition.samples=10 partition.test=20 model.hidden=8"
    assert call(f"run {small} out=r")[0] == 0
    assert call("resume r")[0] == 0
    said = [line["command"] for line in read_commands(Path("r"))]
    assert said == [f"amity run {small} out=r", "amity resume r"]
    footer = Path("r/report.html").read_text(encoding="utf-8").partition("<footer>")[2]
    assert all(command in footer for command in said)


def test_a_command_is_shown_as_a_shell_takes_it_and_without_its_sinks() -> None:
    assert typed(["/bin/amity", "run", "out=a b", "sinks=wandb:key=1"]) == "amity run 'out=a b'"
    assert typed(["/x/amity/__main__.py", "run"]) == "amity run"
    Path("mine.py").touch()
    assert typed(["mine.py", "--token", "secret"]) == "python mine.py"
    assert typed(["-c"]) == typed([""]) == typed([]) == ""


# -- pictures --------------------------------------------------------------------------------------


def test_curves_begin_at_the_untrained_model_and_axes_at_0(
    run: Result, comparison: amity.Comparison
) -> None:
    (axes,) = run.figure("accuracy").axes
    (line,) = axes.lines
    assert list(line.get_xdata()) == [0, 1, 2, 3]
    assert run.start is not None
    assert line.get_ydata()[0] == pytest.approx(100 * run.start)
    assert (axes.get_xlim()[0], axes.get_ylim()[0]) == (0, 0)
    whole, end = comparison.figure("accuracy").axes
    assert (whole.get_xlim()[0], whole.get_ylim()[0]) == (0, 0)
    assert end.get_ylim()[0] > 0
    (bytes_axes,) = run.figure("bytes").axes
    assert bytes_axes.lines[0].get_xdata()[0] == 0


def test_a_run_that_ended_early_keeps_its_last_value_in_the_mean(
    comparison: amity.Comparison,
) -> None:
    whole, other = comparison.results["gossip:k=2"][:2]
    short = Result(other.path, other.config)
    kept = [RoundRecord(round=0, accuracy=0.25, taken=1.0)]
    object.__setattr__(short, "rounds", kept)
    rounds, accuracy = curves.points([whole, short])
    assert list(rounds) == [0, 1, 2, 3]
    assert list(accuracy[1][1:]) == [25.0, 25.0, 25.0]
    assert curves.neighbours_taken({"a": [whole, short]}).axes[0].lines[0].get_xdata()[-1] == 3


def test_matrices_have_the_names_of_peers_and_a_bar_of_colours(
    comparison: amity.Comparison,
) -> None:
    story = comparison.story
    assert story.friendship is not None
    figure = heat_maps(story.runs, story.friendship)
    matrices = [axes for axes in figure.axes if axes.images]
    bars = [axes for axes in figure.axes if axes not in matrices]
    assert len(matrices) == len(SPECS) + 1
    assert len(bars) >= len(matrices)
    for axes in matrices:
        for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
            assert {label.get_text() for label in labels} == {f"0{k}" for k in range(6)}


def test_there_is_room_for_every_name_that_is_shown() -> None:
    from amity.show.figures import axes_of

    for peers, shown in ((10, 10), (40, 20), (500, 10)):
        _, axes = axes_of()
        name_side(axes, "x", [str(k) for k in range(peers)], 2.2)
        assert len(axes.get_xticks()) == shown


def test_names_are_broken_and_never_cut() -> None:
    label = "afind+:paper:tau=0.8/fomo:eps=0.3@ditto:lam=1, train.lr=0.01"
    lines = broken(label, 24).split("\n")
    assert max(map(len, lines)) <= 24
    assert "".join(lines).replace(" ", "") == label.replace(" ", "")
    assert broken("gossip:k=5") == "gossip:k=5"


def test_a_page_can_be_read_in_the_dark(comparison: amity.Comparison) -> None:
    page = (comparison.path / "report.html").read_text(encoding="utf-8")
    assert "prefers-color-scheme:dark" in page
    # every picture stands where the rule for the dark finds it
    assert page.count("<svg") == page.count('<div class="picture" role="img"')
    # white, turned round by nine tenths, is the dark of the page: pictures have no frame
    dark = STYLE[STYLE.index("prefers-color-scheme:dark") :]
    paper = re.search(r"--paper:#(\w\w)", dark)
    assert paper is not None
    assert int(paper[1], 16) == pytest.approx(0.1 * 255, abs=1)
    assert "invert(.9)" in dark


# -- sweeps ----------------------------------------------------------------------------------------


def test_the_page_of_a_sweep_shows_the_winner_on_validation_and_its_grid(
    sweep: amity.Sweep,
) -> None:
    runs = sweep.comparison.results
    means = {
        a_try.label: np.mean(
            [np.mean(list(r.final("accuracy_validation").values())) for r in runs[a_try.label]]
        )
        for a_try in sweep.tries
    }
    best = max(means, key=lambda label: round(float(means[label]), 12))
    assert sweep.best["gossip"].label == best
    page = (sweep.path / "report.html").read_text(encoding="utf-8")
    winners = page[page.index("<h2>The winners</h2>") : page.index("<h2>The grid</h2>")]
    assert best.partition(", ")[2] in winners
    assert f"{100 * means[best]:.1f}" in winners
    assert "flatters" not in page
    grid = page[page.index("<h2>The grid</h2>") : page.index("<h2>All tries</h2>")]
    assert len(means) == 6
    for mean in means.values():
        assert f">{100 * mean:.1f}</text>" in grid
    table = page[page.index("<h2>All tries</h2>") : page.index("What the columns")]
    assert all(f"<td>{label}</td>" in table for label in means)
    assert table.count('class="best"') == 1
    assert f'class="best"><td>{best}</td>' in table
    with open(sweep.path / "summary.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["label"] for row in rows if row["chosen"] == "True"] == [best]
    assert {row["train.lr"] for row in rows} == {"0.1", "0.0001"}


def test_a_sweep_is_read_back_from_its_folder(sweep: amity.Sweep) -> None:
    before = (sweep.path / "report.html").read_bytes()
    (sweep.path / "report.html").unlink()
    assert write_report(sweep.path).read_bytes() == before
    again = read_sweep(sweep.path)
    assert again.chosen_on == "validation"
    assert again.tried.best.keys() == sweep.tried.best.keys()
    assert [one.label for one in again.tries] == [one.label for one in sweep.tries]


def test_a_second_grid_joins_the_first_in_its_folder() -> None:
    for values in ([0.01, 0.1], [0.1, 0.2]):
        amity.sweep(["local"], {"train.lr": values}, config=tiny(rounds=1), out="s", jobs=1)
    assert [one.label for one in read_sweep(Path("s")).tries] == [
        f"local, train.lr={value}" for value in (0.01, 0.1, 0.2)
    ]
    page = write_report(Path("s")).read_text(encoding="utf-8")
    assert "chosen on the test set, which flatters" in page


def test_values_of_any_kind_are_read_back_under_the_same_name() -> None:
    tries = [Try("local", (("sizes", (2, 1)), ("on", True), ("lr", 0.1)))]
    note_tries(Path(), tries, "test")
    note_tries(Path(), tries, "test")
    found = json.loads(Path(SWEEP).read_bytes())["tries"]
    assert [Try(one["strategy"], tuple(map(tuple, one["values"]))).label for one in found] == [
        tries[0].label
    ]


def test_rounds_that_nobody_finished_leave_no_trace_in_a_curve(run: Result) -> None:
    gap = Result(run.path, run.config)
    object.__setattr__(gap, "rounds", [r for r in run.rounds if r.round != 1])
    (line,) = curves.neighbours_taken({"a": [gap]}).axes[0].lines
    assert list(line.get_xdata()) == [1, 3]


def test_a_grid_of_many_keys_is_one_map_in_which_every_try_has_its_place() -> None:
    tries = [
        Tried(f"{lr}/{k}/{kind}", "s", {"lr": lr, "k": k, "kind": kind}, {0: at / 100, 1: at / 100})
        for at, (lr, k, kind) in enumerate(
            (lr, k, kind) for lr in (0.1, 0.01, 1) for k in (2, 1) for kind in ("b", "a")
        )
    ]
    tried = Tries(tries[:-1], "validation")
    found = map_of(tries[:-1], tried.best["s"])
    assert found is not None
    assert found.columns == ["0.01", "0.1", "1"], "numbers by size"
    assert found.rows == ["k=1, kind=b", "k=1, kind=a", "k=2, kind=b", "k=2, kind=a"]
    places = {one.label: 100 * one.score for one in tries}
    for row, name in enumerate(found.rows):
        k, kind = re.fullmatch(r"k=(\d), kind=(\w)", name).groups()  # type: ignore[union-attr]
        for column, lr in enumerate(found.columns):
            label = f"{lr}/{k}/{kind}"
            value = found.percent[row, column]
            assert math.isnan(value) if label == tries[-1].label else value == places[label]
    assert found.framed == (0, 2), "the best of what was tried"
    second = tried.ahead("s")
    assert second is not None
    assert (second[0].label, str(second[1])) == (tries[-3].label, "+1.0 ± 0.0")


def test_of_equal_tries_the_first_is_chosen() -> None:
    equal = [Tried(name, "s", {"k": name}, {0: 0.1 + 0.2, 1: 0.3}) for name in "ab"]
    equal[1] = Tried("b", "s", {"k": "b"}, {0: 0.3, 1: 0.3 + 1e-16})
    assert Tries(equal, "test").best["s"].label == "a"


def test_a_config_is_not_changed_by_what_reports_need(run: Result) -> None:
    assert isinstance(run.config, Config)
    assert {p.name for p in run.path.iterdir() if p.is_file()} >= {"commands.jsonl"}
    assert "commands" not in (run.path / "config.toml").read_text()
