"""Tables of experiments: their numbers, their files, their verdicts, and that they go on where they
were."""

from __future__ import annotations

import csv
import importlib.util
import multiprocessing
import os
import signal
import sys
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import amity.reproduce.experiments
from amity.data.cifar import CIFAR10
from amity.data.fashionmnist import FASHION
from amity.data.published import find
from amity.differences import Difference, paired
from amity.errors import ConfigError, DataError
from amity.events import Event, RunDone
from amity.files import csv_text
from amity.lab.result import Result
from amity.reproduce import RunTable, reproduce, tables
from amity.reproduce.choice import part_of
from amity.reproduce.design import Design
from amity.reproduce.experiment import Scope
from amity.reproduce.experiments import NAMES
from amity.reproduce.experiments.theorem import bound
from amity.reproduce.kinds import CardKind
from amity.reproduce.leak_claims import BODIES, TWINS
from amity.reproduce.leakage import Leak
from amity.reproduce.record import CellRecord, TableHead, read_records, write_records
from amity.reproduce.registry import experiments, in_order
from amity.reproduce.table import at_bytes
from amity.reproduce.todo import RunsTodo, cells_of
from amity.reproduce.verdicts import (
    HOLDS,
    MISSING,
    NOT,
    OPEN,
    PARTLY,
    SO_FAR,
    UNJUDGED,
    weigh,
)
from amity.store import read_config
from tests.conftest import Call

SMALL: dict[str, Any] = {
    "data": "digits",
    "model": "mlp",
    "peers": 5,
    "rounds": 2,
    "partition.samples": 12,
    "partition.test": 20,
    "train.epochs": 1,
}
WORDS = " ".join(f"{key}={value}" for key, value in SMALL.items())
TABLES = tables()
RESULTS = Path(__file__).resolve().parent.parent / "results"


def design(name: str, preset: str = "cpu") -> Design:
    return TABLES[name].at(name, preset)


def prepare(name: str, preset: str, **more: Any) -> RunsTodo:
    return TABLES[name].prepare(Scope(name=name, preset=preset, **more))


# -- what is run -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "preset"), [(name, preset) for name in TABLES for preset in TABLES[name].presets]
)
def test_every_cell_of_every_experiment_has_a_config_of_its_own(name: str, preset: str) -> None:
    asked = design(name, preset)
    keyed = cells_of(asked, [0], Path("x"))
    assert len(keyed) == len(asked.panels) * len(asked.rows) * len(asked.columns)
    assert len({(key, cell.seed) for key, cell in keyed}) == len(keyed)
    for _, cell in keyed:
        assert cell.path.name == cell.config.digest[:20]
    if preset != "smoke":  # there one dataset stands in for all, so that columns may coincide
        assert len({cell.path for _, cell in keyed}) == len(keyed)
    if preset == "paper":
        sizes = {(c.config.train.epochs, c.config.rounds) for _, c in keyed}
        own = {"theorem": {(1, 100)}, "regimes": {(5, 200)}, "liars": {(5, 30)}}
        assert sizes == own.get(name, {(5, 500)})
        assert len(asked.seeds) >= 2
    if preset == "cpu":
        assert len(asked.seeds) >= 3 or name == "study"


def test_the_papers_sizes_are_those_it_prints() -> None:
    asked = design("table1", "paper")
    key = ("finetune", "Gossip", "CIFAR-100 c=5")
    config = asked.config(key, 0)
    assert (config.peers, config.rounds, config.model.name, config.data.name) == (
        100,
        500,
        "resnet18_gn",
        "cifar100",
    )
    assert (config.train.epochs, config.train.batch, config.train.lr) == (5, 128, 0.01)
    assert config.optimiser.to_dict() == {"name": "sgd", "momentum": 0.9, "weight_decay": 0.0}
    assert config.strategy.options["k"] == 10
    assert config.partition.to_dict()["classes"] == 5
    assert asked.seeds == (0, 1, 2)
    femnist = design("convergence", "paper").config(("", "AFIND+", "FEMNIST"), 0)
    assert (femnist.train.batch, femnist.train.lr, femnist.partition.name) == (32, 0.1, "natural")


def test_a_night_is_for_the_cifar_10_columns_of_table_1() -> None:
    asked = design("table1", "mid")
    assert list(asked.columns) == list(part_of(design("table1"), [], ["CIFAR-10"], []).columns)
    assert {"Local", "FedAvg", "Gossip", "PENS", "FedeRiCo", "oracle"} < set(asked.rows)
    config = asked.config(("finetune", "AFIND+ (paper)", "CIFAR-10 c=2"), 0)
    assert (config.peers, config.rounds, config.partition.options["samples"]) == (40, 100, 500)
    assert (config.model.name, config.train.precision) == ("fedavg_cnn", "bf16")
    assert [name for name in NAMES if "mid" in experiments[name].cls.presets] == ["table1"]


def test_the_most_informative_cells_come_first() -> None:
    keyed = cells_of(design("table1"), [0, 1], Path("x"))
    rows = list(dict.fromkeys(key[1] for key, cell in keyed if cell.seed == 0))
    assert rows[:2] == ["AFIND+", "Gossip"]
    assert [cell.seed for _, cell in keyed] == sorted(cell.seed for _, cell in keyed)


def test_columns_are_chosen_by_whole_words() -> None:
    asked = design("table1")
    assert len(part_of(asked, [], ["CIFAR-10"], []).columns) == 4
    assert list(part_of(asked, [], ["c=2"], []).columns) == ["CIFAR-10 c=2"]
    assert list(part_of(asked, [], [], ["head"]).panels) == ["head"]


def test_tables_share_the_cells_that_they_have_in_common() -> None:
    first = prepare(
        "table1", "cpu", columns=("CIFAR-10 c=5",), panels=("finetune",), rows=("Gossip", "AFIND+")
    )
    second = prepare("ablation", "cpu", columns=("c=5",))
    shared = {cell.path for cell in first.cells} & {cell.path for cell in second.cells}
    assert len(shared) == 2 * 5  # Gossip, and AFIND+ with all of its parts, for five seeds


def test_rows_of_ones_own_stand_beside_those_of_the_table(call: Call, repository: Path) -> None:
    source = (repository / "src/amity/stages/lossgate.py").read_text()
    Path("mine.py").write_text(source.replace('@stages.register("lossgate")\n', ""))
    rows = "rows=Gossip,gossip/mine.py:LossGate:factor=2"
    code, out, err = call(f"reproduce attack {rows} seeds=0 out=a attack.fraction=0.4 {WORDS}")
    assert (code, err) == (0, "")
    assert "gossip/mine.py:LossGate:factor=2" in out
    configs = [read_config(path) for path in Path("a/cells").iterdir()]
    table = design("attack")
    assert len(configs) == 2 * len(table.columns) * len(table.panels)
    assert {
        config.attack.common.fraction for config in configs if config.attack.name != "none"
    } == {0.4}
    assert {len(config.stages) for config in configs} == {0, 1}


OWN = """from dataclasses import dataclass
from amity import Ask, Decision, spread
from amity.facts import Pull
from amity.choosing import Cardless

@dataclass(frozen=True)
class {name}(Cardless):
    def decide(self, view, row):
        yield Ask(Pull(), view.neighbours)
        return Decision({row})
"""


def test_a_strategy_of_ones_own_that_was_changed_is_another_run(call: Call) -> None:
    words = "reproduce table1 --preset smoke rows=mine.py:Mine panels=finetune columns=α=0.1 out=r"

    def accuracies(row: str) -> list[float]:
        Path("mine.py").write_text(OWN.format(name="Mine", row=row))
        code, _, err = call(words)
        assert (code, err) == (0, "")
        _, records = read_records(next(Path("r").glob("table1-*/records.jsonl")))
        return [one.accuracy for one in records]

    alone, together = "{view.me: 1.0}", "spread((view.me, *view.neighbours))"
    first, second = accuracies(alone), accuracies(together)
    assert first != second
    cells = set(Path("r/cells").iterdir())
    assert len(cells) == 2
    assert accuracies(alone) == first, "put back, the old run is there again"
    assert set(Path("r/cells").iterdir()) == cells


def test_a_cell_whose_folder_is_damaged_does_not_take_the_table_along(call: Call) -> None:
    words = "reproduce toy --preset smoke out=r"
    assert call(words)[0] == 0
    cell = next(iter(Path("r/cells").iterdir()))
    good = (cell / "config.toml").read_bytes()
    for damage in (good[:40], b"", None, good + b"# mine"):
        (cell / "config.toml").unlink()
        if damage is not None:
            (cell / "config.toml").write_bytes(damage)
        for more in ("", " --done"):
            code, out, err = call(words + more)
            assert code == 1
            assert f"Delete {cell} and repeat the command" in err
            assert "3 of the table's 4 runs" in out
        (cell / "config.toml").write_bytes(good)
    (cell / "timings.jsonl").write_text("garbage\n{}\n")
    code, out, _ = call(words)
    assert (code, "of the table's" in out) == (0, False)


def test_what_cannot_be_run_is_refused_in_one_line(call: Call) -> None:
    Path("mine.py").write_text(OWN.format(name="Gossip", row="{view.me: 1.0}"))
    Path("file").write_text("mine")
    for words, complaint in (
        ("reproduce plf", "did you mean 'pfl'"),
        ("reproduce pfl --preset cpuu", "did you mean 'cpu'"),
        (
            f"reproduce attack strategy.k=3 {WORDS}",
            "strategy: is what the table of 'attack' varies",
        ),
        ("reproduce table1 columns=CIFAR-11", "columns: unknown name 'CIFAR-11'"),
        (
            "reproduce tau --preset smoke partition.alpha=3",
            "partition: is what the table of 'tau' varies",
        ),
        ("reproduce table1 data=cifar10", "data: is what the table of 'table1' varies"),
        ("reproduce toy peers=5", "peers: is what the table of 'toy' varies"),
        ("reproduce tau --preset smoke seeds=0,0", "seeds: expected different seeds"),
        ("reproduce tau --preset smoke seeds=x", "seeds: expected numbers"),
        ("reproduce tau --preset smoke seeds=", "seeds: expected names or numbers"),
        ("reproduce tau --preset smoke rows=,", "rows: expected names or numbers"),
        ("reproduce tau --preset smoke jobs=x --done", "jobs: expected a whole number"),
        (f"reproduce tau --preset smoke jobs={'9' * 5000}", "jobs: expected a whole number"),
        ("reproduce tau --preset smoke seed=7", "seed: a table has several; use seeds=7"),
        ("reproduce toy --preset smoke panels=x", "panels: the table of 'toy' has none"),
        ("reproduce table1 --preset smoke columns=c=2,c=3", "columns: unknown name 'c=3'"),
        ("reproduce toy --preset smoke rows=alone,alone", "rows: 'alone' is named twice"),
        (
            "reproduce table1 --preset smoke rows=Gosip",
            "the table's own rows: Local, FedAvg, Gossip",
        ),
        (
            "reproduce table1 --preset smoke rows=gossip@ditto",
            "rows: 'gossip@ditto' sets method, which 'finetune'",
        ),
        (
            "reproduce theorem --preset smoke rows=local",
            "rows: 'local' sets strategy, which 'AFIND+'",
        ),
        (
            "reproduce pfl --preset smoke rows=gossip/krum",
            "rows: 'gossip/krum' sets stages, which 'FOMO'",
        ),
        (
            "reproduce table1 --preset smoke rows=mine.py:Gossip",
            "would be called 'Gossip', as a row of the table is",
        ),
        ("reproduce labels --preset paper", "preset: 'labels' does not have 'paper'"),
        ("reproduce labels --preset smoke jobs=2", "jobs: 'labels' is not a table"),
        ("reproduce all --preset cpuu", "did you mean 'cpu'"),
        ("reproduce al", "did you mean 'all'"),
        ("reproduce toy --preset smoke out=file/below", "is not a directory that could be used"),
    ):
        code, _, err = call(words)
        assert code == 2, words
        assert complaint in err
        assert err.count("\n") == 1
    assert call("reproduce tau --preset smoke out=file")[0] == 2
    assert call(f"reproduce labels seeds=0,0 out=l {WORDS.replace('peers=5', 'peers=8')}")[0] == 2
    assert Path("file").read_text() == "mine"
    with pytest.raises(ConfigError, match="did you mean 'pfl'"):
        reproduce("pf")


# -- running ---------------------------------------------------------------------------------------


PARTS = {
    "study": "panels=finetune",
    "table1": "columns=CIFAR-10",
    "attack": "columns=clean,label_flip,sketch_liar",
}
"""Of the largest tables a part is enough, but for `make test-all`."""


@pytest.mark.parametrize("name", TABLES)
def test_every_experiment_makes_its_table_picture_and_verdicts_at_smoke(
    name: str, call: Call, full: bool
) -> None:
    """Together this is `make reproduce`."""
    words = f"--preset smoke {'' if full else PARTS.get(name, '')}".strip()
    code, out, err = call(f"reproduce {name} {words} out=r")
    assert (code, err) == (0, "")
    path = next(Path("r").glob(f"{name}-smoke*"))
    assert f"report: {path}/report.html" in out
    head, records = read_records(path / "records.jsonl")
    assert (head.experiment, head.preset) == (name, "smoke")
    assert head.command == f"amity reproduce {name} {words}"
    table = RunTable(
        experiment=TABLES[name], design=design(name, "smoke"), head=head, records=records
    )
    shown = len(table.panels) * len(table.rows) * len(table.columns())
    assert len(records) == shown * len(table.seeds)
    assert path.name != f"{name}-smoke" or shown == len(table.design.cell_keys())
    page = (path / "report.html").read_text()
    assert "<svg" in page
    for claim in TABLES[name].claims:
        assert claim.text.split("'")[0] in page
    assert len(table.verdicts) == len(TABLES[name].claims)
    assert all(verdict.status == UNJUDGED for verdict in table.verdicts), (
        "digits stand in, and nothing is missing"
    )
    assert table.design.stand_in in page
    assert all(entry.paper is None for entry in table.entries)
    with (path / "table.csv").open(encoding="utf-8") as lines:
        assert len(list(csv.DictReader(lines))) == shown
    assert (path / "table.md").read_text() == table.markdown()


@pytest.mark.parametrize(
    ("name", "words"),
    [("toy", "seeds=0"), ("table1", "columns=c=2 panels=finetune rows=AFIND+ seeds=0")],
)
def test_two_rounds_at_cpu_on_the_real_data(name: str, words: str, call: Call) -> None:
    try:
        find(FASHION if name == "toy" else CIFAR10)
    except DataError as error:
        pytest.skip(str(error))
    code, _, err = call(f"reproduce {name} --preset cpu rounds=2 out=r {words}")
    assert (code, err) == (0, "")
    assert len(list(Path("r").glob(f"{name}-cpu-part-*/figure.svg"))) == 1


def test_a_record_says_what_the_run_says() -> None:
    table = reproduce(
        "topology", "smoke", out="r", rows=["Gossip", "AFIND+"], columns=["CIFAR-10 c=5"]
    )
    for record in table.records:
        path = Path("r/cells") / record.digest
        run = Result(path, read_config(path))
        assert record.accuracy == pytest.approx(run.accuracy, rel=1e-4)
        assert record.best == pytest.approx(run.best, rel=1e-4)
        assert record.final == pytest.approx(list(run.final().values()), rel=1e-4)
        assert [point[0] for point in record.curve] == [t + 1 for t, _ in run.curve]
        moved = (
            sum(m.card_in + m.model_in + m.reply_in for m in run.metrics) / run.config.peers / 1e6
        )
        assert record.megabytes == pytest.approx(moved, rel=1e-4)
        assert record.curve[-1][1] == pytest.approx(moved, rel=1e-4)
        assert record.taken == pytest.approx(np.mean([r.taken for r in run.rounds]), rel=1e-4)


def test_a_killed_table_goes_on_where_it_was(call: Call) -> None:
    """A child process makes the table and kills itself when the first cell is done. It and its
    workers hold the one end of a pipe: the other end closes when all of them are gone."""
    part: dict[str, Any] = {"rows": ["τ=0.1", "τ=1.5"], "columns": ["c=2"], "seeds": [0, 1]}
    calm = reproduce("tau", "smoke", out="calm", **part, rounds=8)
    ours, theirs = os.pipe()

    class Killer:
        def take(self, event: Event) -> None:
            if isinstance(event, RunDone):
                os.kill(os.getpid(), signal.SIGKILL)

        def close(self) -> None: ...

    def make() -> None:
        reproduce("tau", "smoke", out="r", jobs=2, sinks=Killer(), **part, rounds=8)

    child = multiprocessing.get_context("fork").Process(target=make)
    child.start()
    os.close(theirs)
    assert os.read(ours, 1) == b"", "all are gone"
    os.close(ours)
    child.join()
    assert child.exitcode == -signal.SIGKILL
    left = {key: tuple(value) for key, value in part.items()}
    whole = prepare("tau", "smoke", root=Path("r"), **left, overrides={"rounds": 8}).done
    assert whole, "one at least; nearly always others are not"
    since = {path / "metrics.jsonl": (path / "metrics.jsonl").stat().st_mtime_ns for path in whole}
    words = "rows=τ=0.1,τ=1.5 columns=c=2 seeds=0,1 rounds=8"
    code, out, err = call(f"reproduce tau --preset smoke {words} out=r")
    assert (code, err) == (0, "")
    assert f"4 runs at smoke, {len(whole)} of them done already" in out
    for path, when in since.items():
        assert path.stat().st_mtime_ns == when, "a finished cell is not run again"
    _, disturbed = read_records(next(Path("r").glob("tau-*/records.jsonl")))
    assert [replace(r, seconds=0) for r in calm.records] == [
        replace(r, seconds=0) for r in disturbed
    ]


def test_clean_columns_are_measured_on_the_peers_that_are_honest_everywhere() -> None:
    table = reproduce(
        "attack",
        "smoke",
        out="a",
        rows=["Gossip"],
        columns=["clean", "sign_flip"],
        panels=["skew"],
        peers=5,
    )
    world = table.panels[0]
    clean, flipped = (table.entry(world, "Gossip", c) for c in ("clean", "sign_flip"))
    assert clean is not None
    assert flipped is not None
    honest = [
        k
        for k, value in enumerate(table.of(world, "Gossip", "sign_flip")[0].final)
        if value is not None
    ]
    assert len(honest) == 4
    alone = table.of(world, "Gossip", "clean")[0].final
    mean = np.mean([value for k, value in enumerate(alone) if k in honest])
    assert clean.accuracy == pytest.approx(100 * mean)
    assert clean.difference is None
    assert flipped.difference == pytest.approx(flipped.accuracy - clean.accuracy)
    assert flipped.attackers_weight is not None
    final = [0.5, 0.5, 0.5, 0.5, 1.0]
    local = [record("Local", "clean", accuracy=0.9, final=final, panel=world)]
    other = replace(table, records=[*table.records, *local])
    bad = {0, 1, 2, 3, 4} - set(honest)
    rest = [value for k, value in enumerate(final) if k not in bad]
    assert other.accuracies(world, "Local", "clean")[0] == pytest.approx(100 * np.mean(rest)), (
        "also in rows not attacked yet"
    )


# -- experiments of one's own ----------------------------------------------------------------------


TINY = '''"""Does anybody need neighbours?"""

from dataclasses import dataclass

from amity.reproduce.design import Design
from amity.reproduce.paper import Claim, Printed
from amity.reproduce.pictures import curves
from amity.reproduce.registry import experiments
from amity.reproduce.shared import LOCAL, gossip
from amity.reproduce.table_of_runs import TableOfRuns
from amity.reproduce.verdicts import weigh


def helps(table):
    return weigh([table.difference(("", "gossip", "digits"), ("", "local", "digits"))])


@dataclass(frozen=True)
class Tiny(TableOfRuns):
    """Does anybody need neighbours?"""

    title = "Neighbours or none"
    against = "local"
    printed = Printed(where="nowhere")
    claims = (Claim("helps", "Neighbours help.", helps),)

    def design(self, preset):
        return Design(
            rows={"local": LOCAL, "gossip": gossip(1)},
            columns={"digits": {"data": "digits"}},
            sizes={"digits": preset.sizes["cifar10"]},
            seeds=(0, 1),
        )

    def picture(self, table):
        return curves(table)
'''


def test_an_experiment_is_one_file_that_is_found_by_itself(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered = TINY.replace("@dataclass", '@experiments.register("tiny")\n@dataclass')
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "tiny.py").write_text(registered)
    folder = [*amity.reproduce.experiments.__path__, str(tmp_path / "more")]
    monkeypatch.setattr(amity.reproduce.experiments, "__path__", folder)
    monkeypatch.setattr(experiments, "_home", amity.reproduce.experiments.__name__)
    monkeypatch.setattr(experiments, "_entries", dict(experiments._entries))
    code, out, err = call("reproduce tiny --preset smoke out=r")
    sys.modules.pop("amity.reproduce.experiments.tiny")
    assert (code, err) == (0, "")
    assert "NOT JUDGED: Neighbours help. The difference is" in out
    made = {path.name for path in Path("r/tiny-smoke").iterdir()}
    assert {"records.jsonl", "table.md", "figure.svg", "report.html"} <= made


def test_every_file_of_the_folder_is_an_experiment_of_that_name() -> None:
    assert tuple(entry.name for entry in experiments) == NAMES
    assert {*TABLES, "labels"} <= set(NAMES)
    assert [entry.name for entry in in_order()][:3] == ["toy", "study", "table1"], "as told"


def test_an_experiment_in_a_file_of_ones_own_is_named_by_its_path(call: Call) -> None:
    Path("mine.py").write_text(TINY)
    words = "reproduce mine.py:Tiny --preset smoke out=r seeds=0,1"
    code, out, err = call(words)
    assert (code, err) == (0, "")
    assert "report: r/Tiny-smoke/report.html" in out
    code, out, _ = call(f"{words} --done")
    assert (code, "of the table's" in out) == (0, False)
    Path("mine.py").write_text(TINY.replace("TableOfRuns)", "object)"))
    assert "has no method 'prepare'" in call(words)[2]


# -- the numbers -----------------------------------------------------------------------------------


def test_paired_differences_have_students_interval() -> None:
    ours, theirs = {0: 3.0, 1: 4.5, 3: 5.0, 7: 9.0}, {1: 2.0, 3: 4.0, 0: 1.0, 8: 9.0}
    found = paired(ours, theirs)
    low, high = stats.ttest_rel([3.0, 4.5, 5.0], [1.0, 2.0, 4.0]).confidence_interval(0.95)
    assert found is not None
    assert found.mean == pytest.approx((low + high) / 2)
    assert found.half == pytest.approx((high - low) / 2)
    assert found.seeds == 3, "those that both have"
    assert paired({4: 3.0}, {4: 1.0}) == Difference(2.0, None, 1)
    assert paired({4: 3.0}, {5: 1.0}) is None


def record(
    row: str, column: str = "x", seed: int = 0, accuracy: float = 0.5, **more: Any
) -> CellRecord:
    """A run that never was."""
    curve = more.pop("curve", [[1, 0.5, accuracy / 2], [2, 1.0, accuracy]])
    given = {
        "panel": "",
        "megabytes": curve[-1][1],
        "taken": 2.0,
        "precision": 0.5,
        "base_rate": 0.25,
        **more,
    }
    fixed = {
        "digest": "d",
        "best": accuracy,
        "final": [accuracy],
        "seconds": 1.0,
        "rounds": 2,
        "attackers_weight": None,
    }
    return CellRecord(
        row=row, column=column, seed=seed, accuracy=accuracy, curve=curve, **{**fixed, **given}
    )


def table_with(name: str, records: list[CellRecord], **changes: Any) -> RunTable:
    asked = design(name, "smoke")
    columns: dict[str, Any] = {r.column: {} for r in records}
    panels: dict[str, Any] = {r.panel: {} for r in records}
    changes = {
        "columns": columns,
        "panels": panels,
        "stand_in": "",
        "whole": frozenset(),
        **changes,
    }
    head = TableHead(experiment=name, preset="smoke", command="c", sizes="s", machine="m")
    asked = replace(asked, **changes)
    return RunTable(experiment=TABLES[name], design=asked, head=head, records=records)


def test_accuracy_at_equal_bytes_is_read_between_two_measurements() -> None:
    run = record("AFIND+", curve=[[1, 2.0, 0.4], [2, 6.0, 0.8]], accuracy=0.8)
    assert at_bytes(run, 4.0) == pytest.approx(0.6)
    assert at_bytes(run, 6.0) == 0.8
    assert at_bytes(run, 60.0) == 0.8, "who stays below has its last"
    assert at_bytes(run, 1.0) is None, "nobody knows"
    records = [
        record("Gossip", accuracy=0.5),
        record("AFIND+", accuracy=0.8, curve=[[1, 0.0, 0.4], [2, 2.0, 0.8]]),
    ]
    table = table_with("table1", records)
    fair = table.difference(("", "AFIND+", "x"), ("", "Gossip", "x"), equal_bytes=True)
    plain = table.difference(("", "AFIND+", "x"), ("", "Gossip", "x"))
    assert fair is not None
    assert plain is not None
    assert (fair.mean, plain.mean) == (pytest.approx(10), pytest.approx(30))


@given(
    st.lists(st.tuples(st.floats(0, 9), st.floats(0, 1)), min_size=1, max_size=6), st.floats(0, 10)
)
def test_accuracy_at_equal_bytes_lies_between_measured_ones(
    points: list[tuple[float, float]], budget: float
) -> None:
    moved = np.cumsum([m for m, _ in points]).tolist()
    curve = [[k + 1, m, a] for k, (m, (_, a)) in enumerate(zip(moved, points, strict=True))]
    found = at_bytes(record("AFIND+", accuracy=points[-1][1], curve=curve), budget)
    assert (found is None) == (budget < moved[0])
    assert found is None or min(a for _, a in points) <= found <= max(a for _, a in points)


def test_records_come_back_as_they_were_written(tmp_path: Path) -> None:
    records = [
        record("Gossip", final=[0.5, None], series={"consensus": [[1, 0.25]]}),
        record("AFIND+", precision=None),
    ]
    head = TableHead(
        experiment="tau",
        preset="cpu",
        command="amity reproduce tau",
        sizes="small",
        machine="a machine",
    )
    write_records(tmp_path / "r.jsonl", head, records)
    assert read_records(tmp_path / "r.jsonl") == (head, records)
    with pytest.raises(Exception, match=r"is not a file of records"):
        read_records(tmp_path / "nothing.jsonl")


# -- the paper -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
def test_what_the_paper_prints_has_its_place_in_our_table(name: str) -> None:
    asked = design(name, "paper")
    for row, column in TABLES[name].printed.numbers:
        assert row in asked.rows
        assert column in asked.columns


def test_known_inconsistencies_follow_from_the_numbers_in_the_file() -> None:
    printed = TABLES["table1"].printed
    one, two = printed.numbers, TABLES["ablation"].printed.numbers
    ahead = one["AFIND+", "CIFAR-10 α=0.1"][0] - one["FedeRiCo", "CIFAR-10 α=0.1"][0]
    assert ahead == pytest.approx(5.58)
    assert any("5.58" in note for note in printed.known)
    assert two["Gossip", "CIFAR-100 α=0.1"] == one["Local", "CIFAR-100 α=0.1"], (
        "the wrong row's cell"
    )
    others = [column for row, column in two if row == "Gossip" and column != "CIFAR-100 α=0.1"]
    assert all(two["Gossip", column] == one["Gossip", column] for column in others)
    last = {column: two["i+ii+iii", column] for row, column in two if row == "Gossip"}
    assert all(one["AFIND+", column] == value for column, value in last.items())


# -- verdicts --------------------------------------------------------------------------------------


def test_a_claim_holds_only_where_every_interval_says_so() -> None:
    above, unclear, below = Difference(2, 1, 3), Difference(0.5, 1, 3), Difference(-2, 1, 3)
    assert weigh([above, above])[0] == HOLDS
    assert weigh([above, unclear])[0] == PARTLY
    assert weigh([unclear, unclear])[0] == OPEN
    assert weigh([below, unclear])[0] == NOT
    assert weigh([above, above, below])[0] == PARTLY
    assert weigh([Difference(9, None, 1)])[0] == OPEN, "one seed decides nothing"
    with pytest.raises(LookupError):
        weigh([None])


def test_a_verdict_needs_more_than_one_seed_and_all_cells() -> None:
    toy = {"alone": 0.5, "with 1": 0.6, "with 3": 0.4, "with 1 and 3": 0.5}
    runs = [record(row, seed=s, accuracy=a + s / 1000) for row, a in toy.items() for s in (0, 1)]
    whole = frozenset(("", row, "x") for row in toy)
    assert [v.status for v in table_with("toy", runs, whole=whole).verdicts] == [HOLDS, HOLDS]
    more = whole | {("", "alone", "another column")}
    assert [v.status for v in table_with("toy", runs, whole=more).verdicts] == [SO_FAR, SO_FAR]
    thin = [r for r in runs if r.seed == 0 or r.row != "with 1 and 3"]
    assert [v.status for v in table_with("toy", thin, whole=whole).verdicts] == [
        SO_FAR,
        SO_FAR,
    ], "a cell with one seed"
    one = table_with("toy", [r for r in runs if r.seed == 0], whole=whole).verdicts
    assert [(v.status, v.evidence[:9]) for v in one] == [(OPEN, "One seed ")] * 2
    taus = {f"τ={t}": 5 - t for t in (1.5, 0.1, 0.8)}
    mixed = table_with(
        "tau",
        [record(row, seed=s, taken=n) for row, n in taus.items() for s in (0, 1)],
        rows=dict(taus),
    )
    assert verdict(mixed, "fewer") == HOLDS, "whatever the order in which rows were asked for"
    alone = table_with("tau", [r for r in mixed.records if r.row == "τ=0.8"])
    assert {v.status for v in alone.verdicts} == {MISSING}


def verdict(table: RunTable, claim: str) -> str:
    return next(v.status for v in table.verdicts if v.claim.id == claim)


def test_verdicts_follow_the_numbers_and_turn_with_them() -> None:
    def table1(ours: float, precision: float) -> RunTable:
        rows = {
            "Local": 0.4,
            "FedAvg": 0.4,
            "Gossip": 0.5,
            "PENS": 0.5,
            "FedeRiCo": 0.55,
            "AFIND+": ours,
        }
        return table_with(
            "table1",
            [
                record(row, seed=s, accuracy=a + s / 1000, precision=precision)
                for row, a in rows.items()
                for s in (0, 1, 2)
            ],
        )

    good, bad = table1(0.6, 0.6), table1(0.45, 0.2)
    assert "| AFIND+ | 60 % (25 %) |" in good.markdown()
    for claim in ("best-everywhere", "margin", "equal-bytes", "friends"):
        assert verdict(good, claim) == HOLDS
        assert verdict(bad, claim) == NOT
    taken = {f"τ={t}": 5 - t for t in (0.1, 0.2, 0.5, 0.8, 1.0, 1.5)}
    falling = [record(row, seed=s, taken=n) for row, n in taken.items() for s in (0, 1)]
    assert verdict(table_with("tau", falling), "fewer") == HOLDS
    assert verdict(table_with("tau", [replace(r, taken=-r.taken) for r in falling]), "fewer") == NOT
    toy = {"alone": 0.5, "with 1": 0.6, "with 3": 0.4, "with 1 and 3": 0.5}
    played = table_with(
        "toy",
        [record(row, seed=s, accuracy=a + s / 1000) for row, a in toy.items() for s in (0, 1)],
    )
    assert [v.status for v in played.verdicts] == [HOLDS, HOLDS]
    swapped = [
        replace(r, row={"with 1": "with 3", "with 3": "with 1"}.get(r.row, r.row))
        for r in played.records
    ]
    assert [v.status for v in table_with("toy", swapped).verdicts] == [NOT, NOT]


def cells(by_key: dict[tuple[str, str, str], float], **more: Any) -> list[CellRecord]:
    """Three seeds of each (panel, row, column), a hair apart."""
    return [
        record(row, column, seed, accuracy + seed / 1000, panel=panel, **more)
        for (panel, row, column), accuracy in by_key.items()
        for seed in (0, 1, 2)
    ]


def row_of(**accuracies: float) -> dict[tuple[str, str, str], float]:
    return {
        ("", row.replace("_", " ").replace("plus", "+"), "x"): value
        for row, value in accuracies.items()
    }


SIGMAS_OF = {("", f"σ={s}", "x"): 0.7 for s in (0, 2, 5, 10)}
CASES: list[tuple[str, str, list[CellRecord], list[CellRecord]]] = [
    (
        "ablation",
        "each-part-helps",
        cells(
            {
                ("", r, "x"): a
                for r, a in (
                    ("Gossip", 0.5),
                    ("blind", 0.5),
                    ("i", 0.6),
                    ("i+ii", 0.7),
                    ("i+ii+iii", 0.8),
                )
            }
        ),
        cells(
            {
                ("", r, "x"): a
                for r, a in (
                    ("Gossip", 0.8),
                    ("blind", 0.8),
                    ("i", 0.7),
                    ("i+ii", 0.6),
                    ("i+ii+iii", 0.5),
                )
            }
        ),
    ),
    (
        "convergence",
        "faster",
        *(cells(row_of(Gossip=0.5, PENS=0.5, FedeRiCo=0.5, AFINDplus=a)) for a in (0.6, 0.4)),
    ),
    ("convergence", "plus", *(cells(row_of(AFIND=0.5, AFINDplus=a)) for a in (0.6, 0.45))),
    ("pfl", "lifts", *(cells(row_of(Gossip=0.5, AFINDplus=a)) for a in (0.53, 0.45))),
    (
        "topology",
        "grows",
        *(
            cells(
                {
                    (panel, r, "x"): 0.5
                    for panel in ("half", "full")
                    for r in ("Gossip", "PENS", "FedeRiCo")
                }
                | {("full", "AFIND+", "x"): 0.55, ("half", "AFIND+", "x"): a}
            )
            for a in (0.6, 0.5)
        ),
    ),
    (
        "privacy",
        "mild",
        cells(SIGMAS_OF),
        cells(SIGMAS_OF | {("", "σ=2", "x"): 0.6, ("", "σ=5", "x"): 0.6}),
    ),
    ("privacy", "loses", *(cells(SIGMAS_OF | {("", "σ=50", "x"): a}) for a in (0.63, 0.7))),
    (
        "dynamic",
        "survives",
        *(
            cells(
                {("", r, c): 0.5 for r in ("AFIND+", "Gossip") for c in ("all there", "50 % away")}
                | {("", "AFIND+", "50 % away"): a}
            )
            for a in (0.5, 0.4)
        ),
    ),
    (
        "cost",
        "cheaper",
        *(
            cells({("", r, "x"): a for r, a in (("Gossip", 0.5), ("AFIND+", ours))})
            for ours in (0.6, 0.4)
        ),
    ),
    (
        "coreset",
        "closer",
        *(
            cells(
                {("", "AFIND+", "x"): 0.5},
                series={"coreset_error": [[1, e], [2, e]], "all_error": [[1, 2.0], [2, 2.0]]},
            )
            for e in (1.0, 3.0)
        ),
    ),
    (
        "attack",
        "within-two",
        *(cells({("", "Gossip", "clean"): 0.7, ("", "Gossip", "noise"): a}) for a in (0.69, 0.5)),
    ),
    (
        "attack",
        "as-wary",
        *(
            cells(
                {
                    ("", "friends", "clean"): 0.7,
                    ("", "friends", "noise"): a,
                    ("", "AFIND+ (wary)", "clean"): 0.6,
                    ("", "AFIND+ (wary)", "noise"): 0.55,
                }
            )
            for a in (0.66, 0.64)
        ),
    ),
    (
        "attack",
        "clipped",
        *(
            cells({("", "friends/normclip", "clean"): 0.7, ("", "friends/normclip", "noise"): a})
            for a in (0.69, 0.68)
        ),
    ),
]


@pytest.mark.parametrize(
    ("name", "claim", "good", "bad"), CASES, ids=[f"{name}-{claim}" for name, claim, *_ in CASES]
)
def test_a_verdict_turns_with_its_numbers(
    name: str, claim: str, good: list[CellRecord], bad: list[CellRecord]
) -> None:
    assert verdict(table_with(name, good), claim) == HOLDS
    assert verdict(table_with(name, bad), claim) == NOT
    assert verdict(table_with(name, [r for r in good if r.seed == 0]), claim) in (
        OPEN,
        PARTLY,
    ), "one seed decides nothing"


@pytest.mark.parametrize(
    ("lost", "expected"),
    [
        ((0.010, 0.011, 0.012), HOLDS),  # 1.1 ± 0.2 points: surely at most 1.5
        ((0.004, 0.010, 0.022), PARTLY),  # 1.2 ± 2.3: by its mean
        ((0.006, 0.016, 0.029), OPEN),  # 1.7 ± 2.9: nobody can tell
        ((0.020, 0.021, 0.022), NOT),  # 2.1 ± 0.2: surely more
    ],
)
def test_what_the_default_may_lose_to_attackers_is_judged_with_its_interval(
    lost: tuple[float, ...], expected: str
) -> None:
    row = "friends/normclip"
    clean = [record(row, "clean", seed, 0.7) for seed in range(3)]
    noise = [record(row, "noise", seed, 0.7 - points) for seed, points in enumerate(lost)]
    table = table_with("attack", [*clean, *noise])
    assert verdict(table, "clipped") == expected
    assert verdict(table, "as-wary") == MISSING


def test_attackers_are_met_in_a_world_with_groups_too() -> None:
    """What was run before, in the world without groups, is a part of the table as it was."""
    whole = design("attack")
    assert list(whole.panels) == ["label skew", "labels permuted"]
    assert {"friends", "friends/normclip", "AFIND+ (wary)"} <= set(whole.rows)
    shifts = {
        panel: whole.config((panel, "friends", "sketch_liar"), 0).shift.name
        for panel in whole.panels
    }
    assert shifts == {"label skew": "none", "labels permuted": "permute_labels"}
    _, records = read_records(RESULTS / "attack.jsonl")
    assert all(whole.config(one.key, one.seed).digest[:20] == one.digest for one in records)


def test_a_smaller_threshold_that_is_worse_is_not_as_claimed() -> None:
    flat = [
        record(f"τ={t}", seed=s, accuracy=0.5 + s / 1000)
        for t in (0.1, 0.5, 1.5)
        for s in (0, 1, 2)
    ]
    rows = {f"τ={t}": {} for t in (0.1, 0.5, 1.5)}
    assert verdict(table_with("tau", flat, rows=rows), "stable") == HOLDS
    tilted = [replace(r, accuracy=r.accuracy + 0.015 * (r.row == "τ=1.5")) for r in flat]
    assert verdict(table_with("tau", tilted, rows=rows), "stable") == PARTLY
    steep = [replace(r, accuracy=r.accuracy + 0.1 * (r.row == "τ=1.5")) for r in flat]
    assert verdict(table_with("tau", steep, rows=rows), "stable") == NOT
    slow = [
        replace(r, curve=[[1, 0, 0.1], [20 if r.row == "τ=0.1" else 4, 1, 0.6], [60, 2, 0.6]])
        for r in flat
    ]
    assert verdict(table_with("tau", slow, rows=rows), "sooner") == HOLDS
    assert verdict(table_with("tau", flat, rows=rows), "sooner") == OPEN, "nobody is sooner"


def test_what_was_not_run_is_said_to_be_missing() -> None:
    assert [v.status for v in table_with("ablation", [record("Gossip"), record("i")]).verdicts] == [
        "not run"
    ]
    lonely = [
        record(row, seed=s, panel="head", precision=None)
        for row in ("AFIND+", "PENS")
        for s in (0, 1)
    ]
    assert {v.claim.id: v.status for v in table_with("table1", lonely).verdicts} == {
        "best-everywhere": "not run",
        "margin": "not run",
        "equal-bytes": "not run",
        "friends": OPEN,
    }
    for name, table in TABLES.items():
        for row in list(design(name, "smoke").rows)[:3]:  # nothing breaks on what is there so far
            assert len(table_with(name, [record(row)]).verdicts) == len(table.claims)


def test_the_bounds_shape_is_found_where_it_is_there() -> None:
    etas, upto = (0.01, 0.02, 0.04, 0.08), range(1, 60)

    def norms(eta: float) -> list[list[float]]:
        """Values whose means over the first T are 3/(ηT) + 5η."""
        total = [t * (3 / (eta * t) + 5 * eta) for t in upto]
        return [[t, total[0] if t == 1 else total[t - 1] - total[t - 2]] for t in upto]

    consensus = {eta: [[1, 7 * eta**2]] for eta in etas}
    records = [
        record(
            f"η={eta}",
            "AFIND+",
            seed,
            series={"gradient_norm2": norms(eta), "consensus": consensus[eta]},
        )
        for eta in etas
        for seed in (0, 1)
    ]
    table = table_with("theorem", records)
    found = bound(table)
    assert found.fit == pytest.approx([3, 5, 0], abs=1e-6)
    assert found.slack == pytest.approx(1)
    assert [v.status for v in table.verdicts] == [HOLDS, HOLDS]


# -- what is published -----------------------------------------------------------------------------


@pytest.fixture
def publish() -> ModuleType:
    spec = importlib.util.spec_from_file_location("publish", RESULTS / "publish.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_of_results_are_what_their_records_say(publish: ModuleType) -> None:
    named = {}
    for path in (publish.DOCS, publish.WHEN):
        text = path.read_text(encoding="utf-8")
        assert publish.page(text) == text, "run `python results/publish.py`"
        named[path] = {found[1] for found in publish.BLOCK.findall(text)}
    assert {*publish.published(), "summary"} <= named[publish.DOCS], "all of it is on the page"
    assert named[publish.WHEN] == publish.when().keys()


def test_what_was_read_from_cards_is_published_from_its_file(
    publish: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def written(path: Path, seeds: int) -> Path:
        kinds = [CardKind("grad"), TWINS, BODIES]
        readings = [
            Leak(
                **{"world": "label_skew", "seed": seed, "round": 1, **vars(kind), "nbytes": 9},
                overlap=0.6,
                baseline=0.4,
                leakage=0.3 + seed / 10,
                auc=0.9,
            )
            for seed in range(seeds)
            for kind in kinds
        ]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(csv_text([asdict(one) for one in readings]))
        return path

    monkeypatch.setattr(publish, "LABELS", tmp_path / "labels.csv")
    publish.LABELS.write_text("seed,round,proxy\n0,1,grad\n")
    assert publish.labels() == "![Leakage by proxy, size and noise](../results/labels.svg)\n"
    written(tmp_path / "runs/labels-cpu/labels.csv", 2)
    publish.publish_labels(tmp_path / "nothing here")
    publish.publish_labels(tmp_path / "runs")
    assert "<svg" in (tmp_path / "labels.svg").read_text()
    said = publish.labels()
    assert "Seeds 0, 1;" in said
    assert "| label_skew | twins | 2 x 1024 | 32 | 0 | 9 | 0.90 ± 0.00 | 0.35 ± 0.07 |" in said
    assert said.count("* **Ours, not the paper's: ") == 2
    written(tmp_path / "fewer/labels-cpu/labels.csv", 1)
    with pytest.raises(SystemExit, match="fewer seeds"):
        publish.publish_labels(tmp_path / "fewer")


def test_new_runs_are_added_to_the_published_ones_or_replace_them(
    publish: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head, records = read_records(RESULTS / "toy.jsonl")
    one, other, *rest = records
    monkeypatch.setattr(publish, "HERE", tmp_path)
    write_records(tmp_path / "toy.jsonl", head, [one, *rest, replace(rest[0], digest="0" * 20)])
    part = tmp_path / "runs/toy-cpu-part1/records.jsonl"
    part.parent.mkdir(parents=True)
    write_records(part, replace(head, command="of a part"), [replace(one, seconds=99.0), other])
    for name, files in publish.gathered(tmp_path / "runs").items():
        publish.take(name, files)
    now, found = read_records(tmp_path / "toy.jsonl")
    assert now == replace(head, command="amity reproduce toy --preset cpu")
    expected = {(r.key, r.seed): r for r in [replace(one, seconds=99.0), other, *rest[1:]]}
    assert {(r.key, r.seed): r for r in found} == expected
    write_records(part, head, [replace(other, digest="0" * 20)])
    with pytest.raises(SystemExit, match="is not a run that the command makes now"):
        publish.gathered(tmp_path / "runs")


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.jsonl")), ids=lambda path: path.stem)
def test_published_records_are_of_runs_that_the_command_makes(path: Path) -> None:
    head, records = read_records(path)
    assert path.stem == {"cpu": head.experiment, "mid": f"{head.experiment}-mid"}[head.preset]
    assert {one.key for one in records} <= set(design(head.experiment, head.preset).cell_keys())
    assert all(len(one.digest) == 20 and len(one.curve) > 1 and one.seconds > 0 for one in records)
    assert len({one.seed for one in records}) >= {"study": 2, "table1-mid": 1}.get(path.stem, 3)
