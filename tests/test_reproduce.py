"""Tables of experiments: their numbers, their files, and that they go on where they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from amity.errors import ConfigError
from amity.labels import SIGMAS, judge, measure_labels, predict
from amity.reproduce import GRIDS, base_of, cells_of_grid, paired, reproduce
from amity.run import Result
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


def test_paired_differences_have_students_interval() -> None:
    ours, theirs = [3.0, 4.5, 5.0], [1.0, 2.0, 4.0]
    mean, half = paired(ours, theirs)
    low, high = stats.ttest_rel(ours, theirs).confidence_interval(0.95)
    assert mean == pytest.approx((low + high) / 2)
    assert half == pytest.approx((high - low) / 2)
    assert paired([3.0], [1.0]) == (2.0, None)


@pytest.mark.parametrize("name", GRIDS)
def test_every_cell_of_every_grid_has_a_config_of_its_own(name: str) -> None:
    grid = GRIDS[name]
    cells = cells_of_grid(grid, base_of(grid, overrides=SMALL), [0, 1], Path("x"))
    assert len(cells) == 2 * len(grid.rows) * len(grid.columns)
    assert len({cell.config.digest for cell in cells}) == len(cells)
    assert len({cell.path for cell in cells}) == len(cells)
    assert all(cell.config.peers == 5 for cell in cells)


def test_the_compatibility_figure_by_one_command(call: Call) -> None:
    code, out, err = call(f"reproduce pfl seeds=0,1 out=p {WORDS}")
    assert (code, err) == (0, "")
    for word in ("Fed-FT", "Ditto", "FOMO", "Dis-PFL", "AFIND+ − Gossip", "report: p/report.html"):
        assert word in out
    entries = json.loads(Path("p/table.json").read_text())
    assert len(entries) == 8
    for entry in entries:
        runs = [
            Result(path, read_config(path))
            for path in sorted(Path("p").glob("*/seed-*"))
            if path.parent.name == f"{entry['row']}_{entry['column']}".replace("+", "-plus") or _is(path, entry)
        ]
        assert entry["accuracy"] == pytest.approx(100 * np.mean([run.accuracy for run in runs]))
    fomo = [entry for entry in entries if entry["row"] == "FOMO"]
    assert fomo[1]["difference"] == pytest.approx(fomo[1]["accuracy"] - fomo[0]["accuracy"])
    page = Path("p/report.html").read_text()
    assert "<svg" in page
    assert Path("p/table.md").read_text().count("|") > 20
    # again: everything is kept, nothing is run
    before = {path: path.stat().st_mtime_ns for path in Path("p").glob("*/seed-*/metrics.jsonl")}
    assert call(f"reproduce pfl seeds=0,1 out=p {WORDS}")[0] == 0
    assert before == {path: path.stat().st_mtime_ns for path in Path("p").glob("*/seed-*/metrics.jsonl")}


def _is(path: Path, entry: dict[str, Any]) -> bool:
    """Whether a run is of this cell, by what it says of itself."""
    config = read_config(path)
    row = {"finetune": "Fed-FT", "ditto": "Ditto", "dispfl": "Dis-PFL"}[config.method.name]
    row = "FOMO" if config.stages else row
    return (row, {"gossip": "Gossip", "afind+": "AFIND+"}[config.strategy.name]) == (entry["row"], entry["column"])


def test_the_table_of_attacks_by_one_call() -> None:
    table = reproduce("attack", [0], "a", **SMALL)
    clean, flipped = table.entry("gossip", "clean"), table.entry("gossip", "sign_flip")
    assert clean is not None
    assert flipped is not None
    assert clean.difference is None
    assert clean.attackers_weight is None
    assert flipped.difference == pytest.approx(flipped.accuracy - clean.accuracy)
    assert flipped.attackers_weight is not None
    assert len(table.entries) == len(table.grid.rows) * len(table.grid.columns)
    assert (Path("a") / "figure.svg").read_text().startswith("<svg")


def test_a_defence_of_ones_own_takes_its_row_among_the_attacks(call: Call, repository: Path) -> None:
    source = (repository / "src/amity/stages/lossgate.py").read_text()
    Path("mine.py").write_text(source.replace('@stages.register("lossgate")\n', ""))
    rows = "rows=gossip,gossip/mine.py:LossGate:factor=2"
    code, out, err = call(f"reproduce attack {rows} seeds=0 out=a attack.fraction=0.4 {WORDS}")
    assert (code, err) == (0, "")
    assert "gossip/mine.py:LossGate:factor=2" in out
    configs = [read_config(path) for path in Path("a").glob("*/seed-0")]
    assert len(configs) == 2 * len(GRIDS["attack"].columns)
    assert {config.attack.extra.fraction for config in configs if config.attack.name != "none"} == {0.4}
    assert {len(config.stages) for config in configs} == {0, 1}


def test_unknown_experiments_are_refused_in_one_line(call: Call) -> None:
    code, _, err = call("reproduce plf")
    assert code == 2
    assert "did you mean 'pfl'" in err
    code, _, err = call(f"reproduce attack strategy.k=3 {WORDS}")
    assert code == 2
    assert "strategy: is what the table of 'attack' varies" in err


def test_a_table_is_not_mixed_into_another_folder(call: Call) -> None:
    assert call(f"compare strategies=local seeds=0 out=c {WORDS}")[0] == 0
    before = Path("c/report.html").read_bytes()
    for name, complaint in (("pfl", "holds another comparison"), ("labels", "holds something else")):
        code, _, err = call(f"reproduce {name} seeds=0 out=c {WORDS.replace('peers=5', 'peers=8')}")
        assert code == 2
        assert complaint in err
    assert Path("c/report.html").read_bytes() == before
    Path("file").write_text("mine")
    assert call(f"reproduce labels seeds=0 out=file {WORDS.replace('peers=5', 'peers=8')}")[0] == 2
    assert call(f"reproduce labels seeds=0,0 out=l {WORDS.replace('peers=5', 'peers=8')}")[0] == 2
    with pytest.raises(ConfigError, match="did you mean 'pfl'"):
        reproduce("pf")


# -- labels ------------------------------------------------------------------------------------------------------------


def test_cards_that_are_the_labels_tell_everything_and_random_ones_nothing() -> None:
    draw = np.random.default_rng(0)
    labels = draw.dirichlet(np.ones(5) * 0.3, size=80)
    shadows = np.arange(80) < 40
    telling = torch.from_numpy(labels - 0.2)
    found, base, leakage, area = judge(telling, labels, shadows, 0.5)
    assert leakage > 0.7
    assert area > 0.8
    assert found > base
    silent = torch.from_numpy(draw.normal(size=(80, 5)))
    assert abs(judge(silent, labels, shadows, 0.5)[2]) < 0.15


def test_the_reader_of_cards_is_ridge_regression() -> None:
    draw = np.random.default_rng(1)
    known, cards = draw.normal(size=(6, 3)), draw.normal(size=(2, 3))
    labels = draw.dirichlet(np.ones(4), size=6)
    got = predict(known, labels, cards)
    mean = labels.mean(0)
    candidates = []
    for ridge in (1e-3, 1e-2, 1e-1, 1.0):  # the primal form of the same regression
        w = np.linalg.solve(known.T @ known + ridge * np.eye(3), known.T @ (labels - mean))
        guess = (mean + cards @ w).clip(0)
        candidates.append(guess / guess.sum(1, keepdims=True))
    assert any(np.allclose(got, candidate) for candidate in candidates)
    np.testing.assert_allclose(got.sum(1), 1)


def test_label_inference_by_one_command(call: Call) -> None:
    words = WORDS.replace("peers=5", "peers=12")
    code, out, err = call(f"reproduce labels seeds=0 out=l {words}")
    assert (code, err) == (0, "")
    assert "report: l/report.html" in out
    rows = Path("l/labels.csv").read_text().splitlines()
    assert rows[0].startswith("seed,round,proxy,sketch,sigma,overlap,baseline,leakage,auc")
    assert len(rows) == 1 + 2 * (5 + 3 + 2 * len(SIGMAS))  # rounds: other proxies, other sizes, noise on two sizes
    assert "<svg" in Path("l/report.html").read_text()
    before = Path("l/seed-0.json").stat().st_mtime_ns
    assert call(f"reproduce labels seeds=0 out=l {words}")[0] == 0
    assert Path("l/seed-0.json").stat().st_mtime_ns == before
    with pytest.raises(ConfigError, match="at least 8 peers"):
        measure_labels(None, SMALL, [0], Path("m"), lambda _: None)
