from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import amity
from amity.errors import ConfigError, Failure, RunDirError
from amity.lab.compare import parse_spec
from amity.lab.comparison import read_comparison
from amity.lab.reports import write_report
from amity.lab.sweep import choose_tries
from amity.strategies.afind import Afind
from amity.strategies.gossip import Gossip
from tests.conftest import tiny
from tests.test_runs import contents

SPECS = ["local", "gossip:k=2", "afind+:paper:tau=0.8", "oracle"]


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> amity.Comparison:
    return amity.compare(SPECS, [0, 1], tiny(), tmp_path_factory.mktemp("cmp") / "c")


def test_one_process_and_two_give_the_same_bits(comparison: amity.Comparison) -> None:
    alone = amity.compare(SPECS, [0, 1], tiny(), "alone", jobs=1)
    for label, runs in comparison.results.items():
        for one, other in zip(runs, alone.results[label], strict=True):
            assert contents(one.path) == contents(other.path)


def test_runs_are_paired_by_seed(comparison: amity.Comparison) -> None:
    for runs in comparison.results.values():
        assert [run.config.seed for run in runs] == [0, 1]
    local, gossip = (comparison.results[label][0] for label in ("local", "gossip:k=2"))
    first = [m.accuracy_local for m in gossip.metrics if m.round == 0]
    assert first == [m.accuracy_local for m in local.metrics if m.round == 0]


def test_the_table_agrees_with_plain_numpy(comparison: amity.Comparison) -> None:
    line = next(line for line in comparison.lines if line.label == "gossip:k=2")
    runs, alone = comparison.results["gossip:k=2"], comparison.results["local"]
    finals = [np.mean([m.accuracy for m in run.metrics if m.round == 2]) for run in runs]
    assert line.accuracy == pytest.approx(np.mean(finals))
    assert line.accuracy_std == pytest.approx(np.std(finals, ddof=1))
    gains = sorted(
        run.final()[peer] - other.final()[peer]
        for run, other in zip(runs, alone, strict=True)
        for peer in run.final()
    )
    assert line.gain == pytest.approx(np.mean(gains))
    assert line.harmed == pytest.approx(np.mean([gain < 0 for gain in gains]))
    assert line.worst_tenth == pytest.approx(gains[0])
    size = 4 * (64 * 12 + 12 + 12 * 10 + 10)
    assert line.megabytes == pytest.approx(3 * 2 * size / 1e6)
    assert line.taken == 2


def test_repeating_a_comparison_takes_up_what_is_there(comparison: amity.Comparison) -> None:
    stamps = {p: p.stat().st_mtime_ns for p in comparison.path.glob("*/seed-*/checkpoint/*.json")}
    again = amity.compare(SPECS, [0, 1], tiny(), comparison.path)
    assert again.rows == comparison.rows
    assert {
        p: p.stat().st_mtime_ns for p in comparison.path.glob("*/seed-*/checkpoint/*.json")
    } == stamps


def test_the_report_is_one_file_that_loads_nothing(comparison: amity.Comparison) -> None:
    page = (comparison.path / "report.html").read_text()
    assert page.count("<svg") == 8
    for title in (
        "Accuracy by round",
        "Accuracy against bytes",
        "Who took from whom",
        "Neighbours taken",
        "Recall by class",
        "Differences, paired by seed",
        "The partition",
    ):
        assert title in page
    assert not re.search(r"""(src|href)=["'](?!#|data:)""", page.replace("xlink:href", "href"))
    assert page.count("<script") == 2  # what can be replayed, and by what; both in the file
    assert "<script>" in page
    assert '<script type="application/json" id="replay-data">' in page
    assert "default-src 'none'; script-src 'sha256-" in page
    assert {p.name for p in comparison.path.iterdir() if p.is_file()} == {
        "report.html",
        "summary.csv",
        "summary.json",
        "comparison.json",
        "commands.jsonl",
    }


def test_a_report_can_be_written_anew(comparison: amity.Comparison) -> None:
    before = (comparison.path / "report.html").read_bytes()
    (comparison.path / "report.html").unlink()
    assert write_report(comparison.path).read_bytes() == before
    run = comparison.results["oracle"][0]
    assert "oracle" in write_report(run.path).read_text()
    with pytest.raises(RunDirError, match="neither a run"):
        write_report(Path("nowhere"))


def test_a_strategy_that_fails_does_not_take_the_others_down(repository: Path) -> None:
    Path("bad.py").write_text(
        "from dataclasses import dataclass\n"
        "import amity\n"
        "from amity.choosing import Cardless\n"
        "@dataclass(frozen=True)\n"
        "class Half(Cardless):\n"
        "    def decide(self, view, row):\n"
        "        yield from ()\n"
        "        return amity.Decision({view.me: 0.5})\n"
        "    def pulls(self, neighbours):\n"
        "        return 0\n"
    )
    result = amity.compare(["local", "bad.py:Half"], [0], tiny(), "c")
    assert [line.label for line in result.lines] == ["local"]
    assert "weights sum to 0.5" in result.errors["Half seed 0"]
    assert "weights sum to 0.5" in (result.path / "report.html").read_text()
    with pytest.raises(Failure, match="no run succeeded"):
        amity.compare(["bad.py:Half"], [0], tiny(), "d")


def test_an_unfinished_comparison_can_be_read(comparison: amity.Comparison) -> None:
    shutil.copytree(comparison.path, "half")
    shutil.rmtree("half/local/seed-1")
    torn = Path("half/oracle/seed-0/rounds.jsonl")
    torn.write_bytes(torn.read_bytes()[:-30])
    read = read_comparison(Path("half"))
    assert {label: len(runs) for label, runs in read.results.items()} == dict.fromkeys(SPECS, 2) | {
        "local": 1,
        "oracle": 1,
    }
    assert write_report(Path("half")).exists()


def test_other_strategies_join_a_comparison_and_other_configs_and_foreign_folders_are_refused() -> (
    None
):
    amity.compare(["local"], [0], tiny(), "c")
    amity.compare(["gossip"], [0], tiny(), "c")
    assert list(read_comparison(Path("c")).results) == ["local", "gossip"]
    before = (Path("c") / "comparison.json").read_bytes()
    with pytest.raises(RunDirError, match="holds a run of another config"):
        amity.compare(["pens", "local"], [0], tiny(peers=3), "c")
    assert (Path("c") / "comparison.json").read_bytes() == before
    with pytest.raises(RunDirError, match="is not empty and holds no comparison"):
        amity.compare(["local"], [0], tiny(), "c/local/seed-0")
    with pytest.raises(
        RunDirError, match="holds a comparison, not a run; repeat its command with out=c"
    ):
        amity.resume("c")


def test_instances_of_one_class_are_told_apart_and_keep_their_options() -> None:
    result = amity.compare([Gossip(k=1), Gossip(k=2), Afind(tau=0.8)], [0], tiny(), "c")
    assert list(result.results) == ["Gossip:k=1", "Gossip:k=2", "Afind:tau=0.8"]
    assert [runs[0].config.strategy.label for runs in result.results.values()] == [
        "gossip",
        "gossip",
        "afind+:custom",
    ]
    assert [line.taken for line in result.lines][:2] == [1, 2]


def test_labels_that_look_alike_or_like_markup_get_folders_of_their_own(repository: Path) -> None:
    Path("m.py").write_text(
        (repository / "examples/own_strategy.py")
        .read_text()
        .replace("k: int = 3", "k: int = 3\n    s: str = ''")
    )
    specs = ["m.py:Nearest:s=a/b", "m.py:Nearest:s=a?b", "m.py:Nearest:s=[/red]"]
    result = amity.compare(specs, [0], tiny(), "c")
    assert not result.errors
    assert len({runs[0].path for runs in result.results.values()}) == 3


@pytest.mark.parametrize(
    ("spec", "label", "options"),
    [
        ("gossip", "gossip", {"strategy": {"name": "gossip"}}),
        (
            "afind+:paper:tau=0.8",
            "afind+:paper:tau=0.8",
            {"strategy": {"name": "afind+", "preset": "paper", "tau": 0.8}},
        ),
        ("my.py:Mine:k=3", "Mine:k=3", {"strategy": {"name": "my.py:Mine", "k": 3}}),
        ("a/my.py:Mine:k=3", "Mine:k=3", {"strategy": {"name": "a/my.py:Mine", "k": 3}}),
        ("pkg.mod:Mine", "Mine", {"strategy": {"name": "pkg.mod:Mine"}}),
        (
            "gossip:k=3/fomo/krum:keep=1@ditto:lam=2",
            "gossip:k=3/fomo/krum:keep=1@ditto:lam=2",
            {
                "strategy": {"name": "gossip", "k": 3},
                "stages": ["fomo", "krum:keep=1"],
                "method": {"name": "ditto", "lam": 2},
            },
        ),
        (
            "afind+@head",
            "afind+@head",
            {"strategy": {"name": "afind+"}, "method": {"name": "head"}},
        ),
    ],
)
def test_specs_are_read(spec: str, label: str, options: dict[str, object]) -> None:
    assert parse_spec(spec) == (label, options)


def test_strategies_must_be_a_list_of_names_or_instances() -> None:
    with pytest.raises(ConfigError, match="expected a list"):
        amity.compare("gossip", [0], tiny(), "c")
    with pytest.raises(ConfigError, match="expected names or instances of a frozen dataclass"):
        amity.compare([3], [0], tiny(), "c")  # type: ignore[list-item]


def test_a_sweep_takes_objects_and_their_own_keys() -> None:
    found = amity.sweep(
        [Gossip(k=1), "local"], {"Gossip.k": [1, 2]}, config=tiny(rounds=1), out="s", budget=1
    )
    assert {a_try.strategy for a_try in found.tries} == {"Gossip:k=1", "local"}
    assert found.best["Gossip:k=1"].values[0][0] == "strategy.k"


def test_a_sweep_over_options_of_a_strategy_with_stages() -> None:
    found = amity.sweep(
        ["gossip/krum@ditto"], {"gossip.k": [1, 2]}, [0], config=tiny(rounds=1), out="s"
    )
    assert sorted(
        run.config.strategy.options["k"]
        for runs in found.comparison.results.values()
        for run in runs
    ) == [1, 2]


def test_mistakes_in_a_comparison_are_found_before_anything_runs() -> None:
    for specs, seeds, message in (
        (["local", "local"], [0], "named twice"),
        (["local"], [0, 0], "expected different seeds"),
        (["local", "afnd"], [0], "did you mean 'afind'"),
        (["gossip:k=-1"], [0], "k should be greater than or equal to 0"),
    ):
        with pytest.raises(ConfigError, match=message):
            amity.compare(specs, seeds, tiny(), "c")
    assert not Path("c").exists()


# -- sweeps


def test_every_strategy_gets_the_same_number_of_tries() -> None:
    grid = {"train.lr": [0.01, 0.1], "afind+.tau": [0.2, 0.5, 0.8], "gossip.k": [1, 2]}
    tries = choose_tries(["gossip", "afind+", "local"], grid, 0, 0)
    assert [t.strategy for t in tries] == ["gossip"] * 2 + ["afind+"] * 2 + ["local"] * 2
    assert len({t.label for t in tries}) == 6
    assert len(choose_tries(["gossip", "afind+"], grid, 4, 0)) == 8
    with pytest.raises(ConfigError, match="budget=9 is more than the smallest grid has"):
        choose_tries(["gossip", "afind+"], grid, 9, 0)
    with pytest.raises(ConfigError, match=r"pens.k is an option of 'pens', which is not among"):
        choose_tries(["gossip"], {"pens.k": [1, 2]}, 0, 0)


def test_a_sweep_chooses_on_validation_data_where_there_is_some() -> None:
    base = tiny(partition={"validation": 0.3, "samples": 20})
    result = amity.sweep(
        ["gossip", "local"], {"train.lr": [0.0001, 0.1]}, [0], config=base, out="s"
    )
    assert result.chosen_on == "validation"
    assert {name: dict(best.values)["train.lr"] for name, best in result.best.items()} == {
        "gossip": 0.1,
        "local": 0.1,
    }
    assert (Path("s") / "report.html").exists()
