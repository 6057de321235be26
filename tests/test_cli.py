"""The command line as people use it: in this process for speed, and as a real program where that
matters."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from amity.cli.common import again
from amity.cli.swarm import _crowd
from amity.config import load
from amity.lab import worlds
from amity.lab.comparison import Comparison
from amity.learn.models import models
from amity.methods import methods
from amity.store import RunDir
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
    code, out, _ = call(
        f"compare {' '.join(SMALL)} strategies=local,gossip:k=2,oracle seeds=0 out=c"
    )
    assert code == 0
    assert "oracle (reference)" in out
    assert re.search(r"gossip:k=2 +\d+\.\d +(-|[+-]\d+\.\d) +\d+\.\d", out)
    assert "Nobody can be said to lead: one seed has no intervals." in out
    assert "6 of 6 rounds done; highest at round 2: " in out
    assert "report: c/report.html" in out


def test_sweep_names_the_best_try_and_warns_of_choosing_on_the_test_set(call: Call) -> None:
    line = f"sweep {' '.join(SMALL)} strategies=local,gossip train.lr=0.01,0.1 gossip.k=2 out=s"
    code, out, _ = call(line)
    assert code == 0
    assert re.search(
        r"best of gossip \(2 tries, by test accuracy, \d+\.\d %\): gossip, train\.lr=", out
    )
    assert "chosen on the test set, which flatters" in out


def test_list_shows_every_entry_with_its_options(call: Call) -> None:
    code, out, _ = call("list")
    assert code == 0
    for registry in (strategies, methods, models):
        assert all(entry.name in out and entry.summary[:30] in out for entry in registry)
    assert "tau=0.2" in out
    assert "loss_side=requester" in out  # of the preset that is the default
    assert "train.lr=0.01" in out
    code, out, _ = call("list topology")
    assert "small_world" in out
    assert "gossip" not in out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("run strategy=afnd", "unknown strategy 'afnd'; did you mean 'afind'?"),
        (
            "run partition=dirichlet partition.alpha=-1",
            "dirichlet: alpha should be greater than 0, got -1",
        ),
        (
            "run partition.classes=11",
            "pathological: classes must be <= 10, the number that exist, got 11",
        ),
        ("run peers=5000 partition=iid", "1078 training examples for 5000 peers; use fewer peers"),
        (
            "run topology=file topology.path=g.txt",
            "g.txt:1: unknown peer 'nobody'; peers are peer-00 to peer-19",
        ),
        (
            "run data=fashionmnist data.dir=nowhere",
            "were not found in nowhere; `amity data get fashionmnist` gets them",
        ),
        ("run absent.toml", "absent.toml: cannot be read"),
        ("run colour=red", "unknown key 'colour'"),
        ("run model=fedavg_cnn", "images of 8x8 are too small for it; use model=mlp"),
        ("compare seeds=one", "seeds: expected numbers separated by commas"),
        ("compare jobs=-1", "jobs: expected a whole number >= 0"),
        ("compare strategies=local,lokal", "unknown strategy 'lokal'; did you mean 'local'?"),
        ("resume nowhere", "nowhere: holds no run"),
        ("report nowhere", "nowhere: holds neither a run"),
        ("export nowhere", "nowhere: holds no run"),
        ("export nowhere pear=1", "unknown key 'pear'; this command takes peer, out, onnx"),
        ("predict nowhere x.npy", "expected a folder with best.safetensors or last.safetensors"),
        ("list things", "unknown kind 'things'"),
        ("run out=", "out: expected a path, got nothing"),
        ("run out=g.txt", "g.txt: is not a directory that could be used; choose another out="),
        ("run out=g.txt/x", "g.txt/x: is not a directory that could be used; choose another out="),
        ("compare out=g.txt strategies=local", "g.txt: is not a directory that could be used"),
        ("compare strategies=,", "strategies: name at least one"),
        ("compare strategies=:", "unknown strategy ':'"),
        ("compare strategies=gossip:k=1:k=2", "strategies: 'gossip:k=1:k=2' gives k twice"),
        ("compare strategies=gossip:name=pens", "strategies: 'gossip:name=pens' gives name twice"),
        ("compare strategies=afind+:paper:tuned", "gives preset twice"),
        ("compare strategies=boom.py:X", "cannot import 'boom.py' (RuntimeError: boom)"),
        ("compare strategies=exit.py:X", "cannot import 'exit.py' (SystemExit: 0)"),
        (
            "compare strategy.tau=0.8",
            "strategy.tau: a comparison names its strategies by strategies=",
        ),
        (
            "compare out=full strategies=local",
            "full: is not empty and holds no comparison; choose another out=",
        ),
        ("sweep strategies= train.lr=0.1,0.2", "strategies: name at least one"),
        ("sweep train.lr=0.1,0.1", "sweep: train.lr: expected different values, got 0.1, 0.1"),
        ("sweep seed=1,2", "sweep: seed is not a key of the grid; use seeds="),
        ("sweep train.lr=0.1,0.2 seeds=", "seeds: expected different seeds, got []"),
        ("sweep rounds=1", "sweep: there is no grid; give a key several values, as in train.lr="),
        ("sweep strategies=local,gossip gossip.k=3", "sweep: there is no grid"),
        ("sweep train.lr=0.1", "sweep: there is no grid"),
        ("swarm --peers 3 peers=4", "peers: --peers 3, but peers=4; leave one of them out"),
        ("swarm peers=1", "peers: a swarm has 2 to 256 peers, a process each, got 1;"),
        ("swarm --peers 300", "peers: a swarm has 2 to 256 peers, a process each, got 300;"),
        ("run topology.trace=nosuch", "nosuch: cannot be read"),
        ("run peers=99999999999999999999", "peers: should be less than or equal to 1000000"),
        ("run model.hidden=10000000000", "mlp: hidden should be less than or equal to 65536"),
        (
            "run partition.samples=3",
            "pathological: 3 samples cannot hold 4 classes; use partition.samples>=4",
        ),
        ("frobnicate", "No such command 'frobnicate'. (amity --help)"),
        ("run --peers=4", "no such option --peers; keys have no dashes: peers=4"),
        ("run --peers 4 rounds=1", "no such option --peers; keys have no dashes: peers=4"),
        ("run --lr 0.1", "no such option --lr; keys have no dashes: train.lr=0.1"),
        ("run --train-lr 0.1", "no such option --train-lr; keys have no dashes: train.lr=0.1"),
        ("compare --seeds 0,1", "no such option --seeds; keys have no dashes: seeds=0,1"),
        ("run --rounds", "no such option --rounds; keys have no dashes: rounds=..."),
        ("run --frobnicate", "No such option: --frobnicate (amity --help)"),
        ("run log=tensorboard", "unknown key 'log'; did you mean sinks=tensorboard?"),
        ("run tau=0.8", "unknown key 'tau'; did you mean strategy.tau=0.8?"),
        ("run data=afile", "or a file that ends in .csv"),
        ("predict m", "Missing argument"),
    ],
)
def test_misuse_is_one_line_exit_2_and_leaves_nothing_behind(
    call: Call, line: str, message: str
) -> None:
    Path("g.txt").write_text("peer-00 nobody\n")
    Path("boom.py").write_text("raise RuntimeError('boom\\nsecond line')\n")
    Path("exit.py").write_text("raise SystemExit(0)\n")
    Path("full").mkdir()
    Path("full/thesis.txt").write_text("years of work")
    before = {p: p.stat().st_mtime_ns for p in Path().rglob("*") if "__pycache__" not in p.parts}
    code, _, err = call(line)
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert "Traceback" not in err
    assert {
        p: p.stat().st_mtime_ns for p in Path().rglob("*") if "__pycache__" not in p.parts
    } == before


@pytest.mark.parametrize(
    ("option", "word", "file", "count"),
    [(3, 3, 5, 3), (3, None, 5, 3), (None, 4, 5, 4), (None, None, 5, 5), (None, None, None, 8)],
)
def test_a_swarm_has_as_many_peers_as_is_said_last(
    option: int | None, word: int | None, file: int | None, count: int
) -> None:
    Path("c.toml").write_text("rounds = 1\n" + ("" if file is None else f"peers = {file}\n"))
    values = {} if word is None else {"peers": word}
    assert load("c.toml", values | _crowd(option, values, Path("c.toml"))).peers == count


def program(*words: str, **kwargs: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "100"}
    return subprocess.run(
        [sys.executable, "-m", "amity", *words],
        capture_output=True,
        text=True,
        env=environment,
        timeout=900,
        **kwargs,
    )  # type: ignore[call-overload, no-any-return]


def test_the_program_itself_says_its_version_and_answers_misuse() -> None:
    done = program("--version")
    assert done.stdout.startswith("amity 0.")
    bad = program("run", "strategy=afnd")
    assert (bad.returncode, bad.stderr) == (
        2,
        "amity: unknown strategy 'afnd'; did you mean 'afind'?\n",
    )
    debug = program("run", "strategy=afnd", "--debug")
    assert debug.returncode == 2
    assert "Traceback" in debug.stderr


def test_a_terminal_without_our_letters_and_a_reader_that_leaves_are_no_failure() -> None:
    words = ["run", *SMALL, "strategy=gossip", "out=r"]
    plain = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "amity", *words], capture_output=True, env=plain, timeout=900
    )
    assert (done.returncode, done.stderr) == (0, b"")
    listing = f"{sys.executable} -m amity list | head -1; exit ${{PIPESTATUS[0]}}"
    left = subprocess.run(["bash", "-c", listing], capture_output=True, text=True, timeout=900)
    assert left.returncode in (0, 141)
    assert left.stderr == ""


def newest(run: str) -> str:
    return max((p.name for p in Path(run).glob("checkpoint/*.json")), default="")


def workers_of(pid: int) -> list[str]:
    return subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()


def alive(pid: str) -> bool:
    """Whether a process still runs (one that is dead but not yet reaped does not)."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def heed_ctrl_c() -> None:
    """What a shell starts in the background ignores Ctrl-C, and so would what we start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_and_kill_leave_no_worker_behind_and_the_same_command_goes_on() -> None:
    small = [word for word in SMALL if not word.startswith("rounds=")]
    words = [
        "compare",
        *small,
        "rounds=4000",
        "strategies=local,gossip",
        "seeds=0",
        "out=c",
        "checkpoint.every=5",
    ]
    for number, code in (
        (signal.SIGINT, 130),
        (signal.SIGTERM, -signal.SIGTERM),
        (signal.SIGKILL, -signal.SIGKILL),
    ):
        before, pipe = newest("c/gossip/seed-0"), subprocess.PIPE
        command = [sys.executable, "-m", "amity", *words]
        with subprocess.Popen(command, stderr=pipe, stdout=pipe, preexec_fn=heed_ctrl_c) as running:
            deadline = time.monotonic() + 600
            while newest("c/gossip/seed-0") <= before and time.monotonic() < deadline:
                time.sleep(0.05)
            workers = workers_of(running.pid)
            assert len(workers) == 2
            running.send_signal(number)
            _, err = running.communicate(timeout=900)
            assert running.returncode == code
            if number == signal.SIGINT:
                assert err.startswith(b"amity: interrupted; what was finished is kept")
        time.sleep(0.5)
        assert not [pid for pid in workers if alive(pid)]
        assert newest("c/gossip/seed-0") > before
    with RunDir.open(Path("c/gossip/seed-0")):
        pass  # nobody holds its lock


def test_ctrl_c_names_the_command_that_goes_on_in_the_folder_that_was_chosen(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the second of two worlds; the first is not run again."""
    compared, seen = worlds.compared, list[Path]()

    def ctrl_c_in_the_second(*given: Any) -> Comparison:
        seen.append(given[3])
        if len(seen) == 2:
            raise KeyboardInterrupt
        return compared(*given)

    line = f"compare {' '.join(SMALL)} shifts=none,rotate:groups=2 strategies=local,gossip seeds=0"
    with monkeypatch.context() as once:
        once.setattr(worlds, "compared", ctrl_c_in_the_second)
        code, _, err = call(line)
    (chosen,) = Path("runs").iterdir()
    program, *words = shlex.split(err.partition("this goes on where it was: ")[2])
    assert code == 130
    assert [Path(program).name, *words] == ["amity", *line.split(), f"out={chosen}"]
    done = {path: path.stat().st_mtime_ns for path in chosen.glob("none/*/*/metrics.jsonl")}
    assert len(done) == 2
    code, out, err = call(" ".join(words))
    assert (code, err) == (0, "")
    assert f"report: {chosen}/report.html" in out
    assert [*Path("runs").iterdir()] == [chosen]
    assert {path: path.stat().st_mtime_ns for path in done} == done


def test_the_command_that_goes_on_is_one_that_a_shell_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "own bin" / "amity"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    argv, out = [str(program), "run", "peers=4"], Path("runs/a")
    assert again(argv, out) == "'own bin/amity' run peers=4 out=runs/a"
    monkeypatch.setenv("PATH", str(program.parent))
    assert again(argv, out) == "amity run peers=4 out=runs/a"
    assert again([*argv, "out=b"], out) == "amity run peers=4 out=b"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make a process number 1")
def test_workers_run_also_when_amity_is_process_number_1_as_in_a_container() -> None:
    inside = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-m", "amity"]
    if subprocess.run([*inside[:4], "true"], capture_output=True).returncode:
        pytest.skip("this machine does not let us make a process namespace")
    words = ["compare", *SMALL, "strategies=local,gossip", "seeds=0", "out=c"]
    done = subprocess.run([*inside, *words], capture_output=True, text=True, timeout=900)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_line_of_the_readme_with_a_strategy_of_ones_own_runs(
    call: Call, repository: Path
) -> None:
    line = (
        f"compare {' '.join(SMALL)}"
        f" strategies=local,{repository}/examples/own_strategy.py:Nearest:k=3 seeds=0 out=c"
    )
    code, out, err = call(line)
    assert (code, err) == (0, "")
    assert re.search(r"Nearest:k=3 +\d", out)
    assert not Path("runs").exists()


def test_a_sweep_may_change_the_number_of_peers(call: Call) -> None:
    words = " ".join(SMALL).replace("peers=4 ", "")
    code, _, err = call(f"sweep {words} strategies=local,gossip peers=3,4 out=s")
    assert (code, err) == (0, "")


def test_bench_tells_one_json_object_a_line_and_draws_a_figure(call: Call) -> None:
    code, out, err = call("bench tiny --json --repeats 1 --precision fp32 --out b")
    assert code == 0, err
    (row,) = [json.loads(line) for line in out.splitlines()]
    keys = (
        "workload precision samples_per_s rounds_per_s ratio_to_plain_loop gemm_share peak_mb"
        " seconds"
    )
    assert set(keys.split()) <= row.keys()
    assert (row["workload"], row["precision"]) == ("tiny", "fp32")
    # a tenth of what it is, so that a busy machine does not fail it
    assert row["ratio_to_plain_loop"] > 5
    assert set(row["seconds"]) == {"train", "select", "mix", "evaluate"}
    assert Path("b/bench.png").stat().st_size > 1000
    assert json.loads(Path("b/bench.jsonl").read_text()) == row


def test_bench_refuses_what_it_does_not_know(call: Call) -> None:
    assert "unknown workload 'fashoin'; did you mean 'fashion'?" in call("bench fashoin")[2]
    assert "--precision: expected fp32, bf16 or both" in call("bench tiny --precision fp8")[2]
