"""The command line as people use it: in this process for speed, and as a real program where that matters."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from amity.methods import methods
from amity.models import models
from amity.strategies import strategies
from tests.conftest import Call

SMALL = ["peers=4", "rounds=2", "partition.samples=10", "partition.test=20", "model.hidden=8"]


def test_run_report_export_predict_and_resume_work_together(call: Call) -> None:
    code, out, err = call(f"run {' '.join(SMALL)} strategy=gossip out=r")
    assert (code, err) == (0, "")
    assert "about" in out
    assert "report: r/report.html" in out
    assert Path("r/report.html").exists()
    for line, expected in (
        ("resume r", "report: r/report.html"),
        ("report r", "report: r/report.html"),
        ("export r peer=peer-01 out=m", "m/peer-01"),
    ):
        code, out, _ = call(line)
        assert code == 0
        assert expected in out
    import numpy as np

    np.save("x.npy", np.zeros((3, 8, 8)))
    code, out, _ = call("predict m/peer-01 x.npy")
    assert code == 0
    assert len(out.splitlines()) == 4


def test_compare_shows_a_table_with_references_marked(call: Call) -> None:
    code, out, _ = call(f"compare {' '.join(SMALL)} strategies=local,gossip:k=2,oracle seeds=0 out=c")
    assert code == 0
    assert "oracle (reference)" in out
    assert re.search(r"gossip:k=2 +\d+\.\d ± 0\.0", out)
    assert "6 of 6 rounds done; leading:" in out
    assert "report: c/report.html" in out


def test_sweep_names_the_best_try_and_warns_of_choosing_on_the_test_set(call: Call) -> None:
    line = f"sweep {' '.join(SMALL)} strategies=local,gossip train.lr=0.01,0.1 gossip.k=2 out=s"
    code, out, _ = call(line)
    assert code == 0
    assert "best of gossip (2 tries, by test accuracy): gossip, train.lr=" in out
    assert "chosen on the test set, which flatters" in out


def test_list_shows_every_entry_with_its_options(call: Call) -> None:
    code, out, _ = call("list")
    assert code == 0
    for registry in (strategies, methods, models):
        assert all(entry.name in out and entry.summary[:30] in out for entry in registry)
    assert "tau=0.5" in out
    code, out, _ = call("list topology")
    assert "small_world" in out
    assert "gossip" not in out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("run strategy=afnd", "unknown strategy 'afnd'; did you mean 'afind'?"),
        ("run partition=dirichlet partition.alpha=-1", "dirichlet: alpha should be greater than 0, got -1"),
        ("run partition.classes=11", "pathological: classes must be <= 10, the number that exist, got 11"),
        ("run peers=5000 partition=iid", "1078 training examples for 5000 peers; use fewer peers"),
        ("run topology=file topology.path=g.txt", "g.txt:1: unknown peer 'nobody'; peers are peer-00 to peer-19"),
        ("run data=fashionmnist data.dir=nowhere", "were not found in nowhere; `amity data get fashionmnist` gets them"),
        ("run absent.toml", "absent.toml: cannot be read"),
        ("run colour=red", "unknown key 'colour'"),
        ("run model=fedavg_cnn", "images of 8x8 are too small for it; use model=mlp"),
        ("compare seeds=one", "seeds: expected numbers separated by commas"),
        ("compare jobs=-1", "jobs: expected a whole number >= 0"),
        ("compare strategies=local,lokal", "unknown strategy 'lokal'; did you mean 'local'?"),
        ("resume nowhere", "nowhere: holds no run"),
        ("report nowhere", "nowhere: holds neither a run"),
        ("export nowhere", "nowhere: holds no run"),
        ("export nowhere pear=1", "unknown key 'pear'; this command takes peer, out"),
        ("predict nowhere x.npy", "expected a folder with model.safetensors"),
        ("list things", "unknown kind 'things'"),
    ],
)
def test_misuse_is_one_line_exit_2_and_leaves_nothing_behind(call: Call, line: str, message: str) -> None:
    Path("g.txt").write_text("peer-00 nobody\n")
    before = sorted(Path().rglob("*"))
    code, _, err = call(line)
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert "Traceback" not in err
    assert sorted(Path().rglob("*")) == before


def program(*words: str, **kwargs: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "100"}
    return subprocess.run(
        [sys.executable, "-m", "amity", *words], capture_output=True, text=True, env=environment, timeout=120, **kwargs
    )  # type: ignore[call-overload, no-any-return]


def test_the_program_itself_says_its_version_and_answers_misuse() -> None:
    done = program("--version")
    assert done.stdout.startswith("amity 0.")
    bad = program("run", "strategy=afnd")
    assert (bad.returncode, bad.stderr) == (2, "amity: unknown strategy 'afnd'; did you mean 'afind'?\n")
    debug = program("run", "strategy=afnd", "--debug")
    assert "Traceback" in debug.stderr
