"""The commands that make and run real peers, and what one finds in their directories."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

from amity.core import START
from amity.net.ops.swarm import free_ports
from amity.net.options import Net
from amity.net.setup import read_setup
from amity.net.trust.roster import Member, Roster
from amity.store import read_lines
from tests.conftest import Call
from tests.test_parity import swarm_of


def found(call: Call, tmp: Path, names: tuple[str, ...] = ("a", "b")) -> dict[str, Path]:
    """An authority and some peers, made by the commands that users have."""
    assert call("ca init ca")[0] == 0
    members, ports = [], free_ports(len(names))
    for name, port in zip(names, ports, strict=True):
        code, out, _ = call(
            f"peer init {name} name={name} host=127.0.0.1 port={port} network=trial"
        )
        assert code == 0
        assert call(f"ca sign ca {name}/identity/request.pem name={name}")[0] == 0
        (tmp / name / "identity" / "ca.pem").write_bytes((tmp / "ca" / "ca.pem").read_bytes())
        print_ = re.search(r"[0-9a-f]{64}", out)
        assert print_ is not None
        members.append(Member(name, f"127.0.0.1:{port}", print_[0]))
    for name in names:
        (tmp / name / "roster.toml").write_text(Roster.of("trial", members).dump())
    return {name: tmp / name for name in names}


def configure(
    folder: Path, *, run: dict[str, Any], net: dict[str, Any] | None = None, **peer: Any
) -> None:
    setup = read_setup(folder)
    who = {"name": setup.who.name, "listen": setup.who.listen, **peer}
    (folder / "peer.toml").write_text(tomli_w.dumps({"peer": who, "net": net or {}, "run": run}))


def check(folder: Path) -> tuple[int, str]:
    """`amity peer check` in a process of its own: it opens the network, and after that no process
    may fork peers."""
    command = [sys.executable, "-m", "amity", "peer", "check", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    return done.returncode, done.stdout + done.stderr


@contextmanager
def running(*folders: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """`amity peer run` for each, as an operator would start it."""
    command = [sys.executable, "-m", "amity", "peer", "run"]
    processes = [
        subprocess.Popen(
            [*command, str(folder)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for folder in folders
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def cats_and_dogs(path: Path, classes: list[str], seed: int) -> None:
    draw = np.random.default_rng(seed)
    y = np.array(classes * 20)
    centre = {"cat": -1.0, "dog": 1.0, "fox": 3.0}
    x = np.array([centre[label] for label in y])[:, None] + 0.3 * draw.standard_normal((len(y), 5))
    np.savez(path, x=x.astype(np.float32), y=y)


def test_the_page_of_a_peer_calls_classes_as_its_data_does(call: Call, tmp_path: Path) -> None:
    folder = found(call, tmp_path, ("a",))["a"]
    cats_and_dogs(folder / "mine.npz", ["cat", "dog"], 1)
    configure(folder, run={"data": {"name": "arrays", "path": "mine.npz"}})
    (folder / "state").mkdir(exist_ok=True)
    record = {"round": 0, "peer": "a", "accuracy": 0.625, "by_class": {"0": [4, 4], "1": [1, 4]}}
    (folder / "state" / "metrics.jsonl").write_text(json.dumps(record) + "\n")
    assert call("report a")[0] == 0
    known = (folder / "report.html").read_text().partition("<h2>Recall by class</h2>")[2]
    assert all(f">{text}</text>" in known for text in ("cat", "dog", "100", "25.0"))
    configure(folder, run={"data": {"name": "arrays", "path": "elsewhere.npz"}})
    assert call("report a")[0] == 0, "numbers will do where the data is elsewhere"
    assert ">cat</text>" not in (folder / "report.html").read_text()


def test_two_hospitals_with_their_own_data_and_class_lists_learn_from_each_other(
    call: Call, tmp_path: Path
) -> None:
    peers = found(call, tmp_path)
    cats_and_dogs(tmp_path / "a" / "mine.npz", ["cat", "dog"], 1)
    cats_and_dogs(tmp_path / "b" / "mine.npz", ["cat", "fox"], 2)
    run = {
        "data": {"name": "arrays", "path": "mine.npz"},
        "model": {"name": "mlp", "hidden": 8},
        "rounds": 4,
    }
    run |= {
        "stages": "none",
        "strategy": {"name": "gossip", "k": 1},
        "train": {"lr": 0.1, "epochs": 2, "batch": 8},
    }
    (port,) = free_ports(1)
    for name, folder in peers.items():
        configure(
            folder,
            run=run,
            net={"deadline": 60},
            classes=["cat", "dog", "fox"],
            metrics=port if name == "a" else 0,
        )
    code, out = check(peers["a"])
    assert code == 1
    assert "BAD reach b" in " ".join(out.split()), out
    assert "32 training and 8 test examples, 2 of 3 classes" in out
    with running(*peers.values()) as processes:
        text = ""
        while "amity_round" not in text:
            time.sleep(0.1)
            try:
                text = (
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5)
                    .read()
                    .decode()
                )
            except OSError:
                assert processes[0].poll() is None
        outputs = [process.communicate(timeout=900)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert "round 3: accuracy 100.0 %, took from b 0.50" in outputs[0]
    edges = read_lines(peers["b"] / "state" / "edges.jsonl")
    assert [edge["row"] for edge in edges] == [{"a": 0.5, "b": 0.5}] * 4
    assert call("report a")[0] == 0
    page = (peers["a"] / "report.html").read_text()
    assert "Who took from whom" in page
    known = page[page.index("<h2>Recall by class</h2>") :]
    assert ">cat</text>" in known, "classes have the names of peer.toml"
    assert ">fox</text>" not in known, "a has no fox"
    assert re.search(r"<footer>.*rounds in .*amity peer run", page, re.DOTALL)
    code, out, _ = call("export-figures a formats=svg")
    assert code == 0
    kinds = {line.rpartition("/")[2] for line in out.splitlines()}
    assert {"accuracy.svg", "matrix.svg", "classes.svg", "classes.csv", "peers.tex"} <= kinds
    assert not re.search(r'(src|href)="http|@import|url\(http', page), (
        "nothing is loaded from anywhere"
    )
    (tmp_path / "both").mkdir()
    for name, folder in peers.items():
        (folder / "state").rename(tmp_path / "both" / name)
    assert call("report both")[0] == 0, "state directories alone are enough"
    assert ">b<" in (tmp_path / "both" / "report.html").read_text()


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("cert.pem", "amity ca sign"),
        ("ca.pem", "copy it from the CA"),
        ("key.pem", "amity peer init"),
    ],
)
def test_without_its_key_or_certificate_a_peer_does_not_start_and_says_what_to_do(
    call: Call, tmp_path: Path, what: str, says: str
) -> None:
    found(call, tmp_path, ("a",))
    (tmp_path / "a" / "identity" / what).unlink()
    code, _, err = call("peer run a")
    assert code == 2
    assert says in err
    assert what in err
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "a" / "state").exists()


def test_a_peer_that_is_not_on_the_roster_or_has_another_key_there_does_not_start(
    call: Call, tmp_path: Path
) -> None:
    peers = found(call, tmp_path)
    roster = Roster.load(peers["a"] / "roster.toml")
    (peers["a"] / "roster.toml").write_text(roster.without("a").dump())
    assert "a is not on the roster" in call("peer run a")[2]
    swapped = Roster.of("trial", [Member("a", "127.0.0.1:1", "0" * 64), roster.members["b"]])
    (peers["a"] / "roster.toml").write_text(swapped.dump())
    assert "lists another key for a" in call("peer run a")[2]


def test_a_renewed_certificate_of_the_same_key_needs_no_change_of_the_roster(
    call: Call, tmp_path: Path
) -> None:
    peers = found(call, tmp_path, ("a",))
    before = (peers["a"] / "identity" / "cert.pem").read_bytes()
    assert call("peer request a")[0] == 0
    assert call("ca sign ca a/identity/request.pem name=a days=1")[0] == 0
    assert (peers["a"] / "identity" / "cert.pem").read_bytes() != before
    code, out = check(peers["a"])
    assert code == 0, out
    assert "BAD" not in out


def test_a_shift_is_for_data_that_is_dealt_out_and_no_peer_has_it_over_its_own(
    call: Call, tmp_path: Path
) -> None:
    peers = found(call, tmp_path, ("a",))
    configure(peers["a"], run={"data": "digits", "rounds": 1, "shift": "rotate"})
    code, out = check(peers["a"])
    assert code == 1
    assert "shift=rotate: is laid over data that is dealt out" in " ".join(out.split())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("shift=rotate data.name=digits shift.groups=9", "9 groups for 8 peers"),
        ("shift.groups=2", "there is no shift to which it belongs"),
        ("strategy=oracle", "is a reference"),
        ("strategy=fedavg", "is a reference"),
        ("topology.drop=0.1", "for the simulator"),
        ("topology.online=0.5", "for the simulator"),
        ("net.deadlin=3", "did you mean 'deadline'"),
        ("net.deadline=0", "deadline"),
        ("net.transfer=fp64", "transfer"),
        ("rounds=1 out=", "expected a path"),
        ("peers=2 strategy=gossip out=x net.sync=never", "sync"),
    ],
)
def test_a_swarm_refuses_what_no_network_can_do_in_one_line(
    call: Call, words: str, says: str
) -> None:
    code, _, err = call(f"swarm {words}")
    assert code == 2
    assert says in err
    assert len(err.strip().splitlines()) == 1


def test_the_swarm_command_shows_results_and_the_same_report_and_goes_on_with_the_same_words(
    tmp_path: Path,
) -> None:
    words = ["--peers", "3", "rounds=4", "model.hidden=8", "out=s", "net.gather=30"]
    command = [sys.executable, "-m", "amity", "swarm", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    out, _ = process.communicate(timeout=900)
    assert process.returncode == 0, out
    assert re.search(r"accuracy +\d", out), out
    page = (tmp_path / "s" / "report.html").read_text()
    parts = ("Accuracy by round", "Who took from whom", "The peers", "The partition")
    for part in (*parts, "Recall by class", "amity swarm --peers 3"):
        assert part in page
    assert (tmp_path / "s" / "summary.csv").is_file()
    assert [r["round"] for r in read_lines(tmp_path / "s" / "rounds.jsonl")] == [0, 1, 2, 3]
    again = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert again.returncode == 0, again.stderr
    other = subprocess.run(
        [*command, "seed=3"], capture_output=True, text=True, timeout=900, check=False
    )
    assert other.returncode == 2
    assert "differs in seed" in other.stderr


def test_ctrl_c_ends_all_peers_of_a_swarm_and_it_goes_on_where_it_was(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "amity",
        "swarm",
        "--peers",
        "3",
        "rounds=2000",
        "out=s",
        "train.epochs=20",
    ]
    metrics = tmp_path / "s" / "peers" / "peer-00" / "state" / "metrics.jsonl"
    done = 0
    for _ in range(2):
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        while not (metrics.exists() and len(read_lines(metrics)) >= done + 3):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=900)
        assert process.returncode == 130
        assert "goes on" in err
        for name in ("peer-00", "peer-01", "peer-02"):
            with open(tmp_path / "s" / "peers" / name / "state" / ".lock", "rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # nobody holds it any more
        before, done = done, len(read_lines(metrics))
        assert [r["round"] for r in read_lines(metrics)[:done]] == list(range(done)), (
            "no round twice, none left out"
        )
        assert done >= before + 3


@pytest.mark.parametrize("transfer", ["bf16", "int8"])
def test_models_travel_in_fewer_bytes_and_learn_as_well(tmp_path: Path, transfer: str) -> None:
    layers = {
        "peers": 3,
        "rounds": 6,
        "strategy": {"name": "gossip", "k": 2},
        "model": {"name": "mlp", "hidden": 40},
    }
    layers |= {
        "train": {"epochs": 5, "batch": 8, "lr": 0.05},
        "partition": {"name": "iid", "samples": 60, "test": 100},
    }
    final = {}
    for kind in ("fp32", transfer):
        swarm = swarm_of(tmp_path / kind, Net(transfer=kind), **layers)  # type: ignore[arg-type]
        lines = [read_lines(swarm.folder(name) / "state" / "metrics.jsonl") for name in swarm.names]
        final[kind] = (
            np.mean([part[-1]["accuracy"] for part in lines]),
            sum(r["model_out"] for part in lines for r in part),
        )
    assert final[transfer][1] < final["fp32"][1] * {"bf16": 0.55, "int8": 0.30}[transfer]
    assert abs(final[transfer][0] - final["fp32"][0]) < 0.05


GREET_THEN_FORK = """
from pathlib import Path
from amity.net.ops.greet import greetings
from amity.net.ops.swarm import Swarm
from amity.net.setup import read_setup
from tests.conftest import tiny
swarm = Swarm(Path("s"), tiny(peers=2, rounds=1))
swarm.lay_out()
print([found.detail for found in greetings(read_setup(swarm.folder("peer-00")))])
swarm.start()
"""


def test_a_process_that_has_opened_a_network_itself_refuses_to_fork_peers(tmp_path: Path) -> None:
    """Zenoh's threads do not survive a fork: peers would hang without a word."""
    root = str(Path(__file__).resolve().parent.parent)
    env = os.environ | {"PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, "-c", GREET_THEN_FORK],
        capture_output=True,
        text=True,
        timeout=900,
        env=env,
        check=False,
    )
    assert "nobody is running yet" in done.stdout, done.stderr
    assert done.returncode == 1
    assert "opened a network itself" in done.stderr


def test_a_swarm_with_nothing_wrong_reports_nothing_refused_late_or_missing(tmp_path: Path) -> None:
    swarm = swarm_of(tmp_path / "s", peers=4, rounds=4)
    for name in swarm.names:
        log = read_lines(swarm.folder(name) / "state" / "audit.jsonl")
        assert not [
            e for e in log if e["event"] in ("refused", "late", "missing", "error", "silent")
        ]
        used = {(e["round"], e["peer"]): e["weight"] for e in log if e["event"] == "used"}
        rows = {
            r["round"]: r["row"] for r in read_lines(swarm.folder(name) / "state" / "edges.jsonl")
        }
        mine = (name, START)
        shown = {(t, j): w for t, row in rows.items() for j, w in row.items()}
        assert used == {(t, j): w for (t, j), w in shown.items() if j not in mine}
        assert json.loads(json.dumps(log))[0]["event"] == "start"
