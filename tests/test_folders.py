"""Folders from others: what reads them runs nothing of theirs, what would run them asks first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from amity.registry import yours
from amity.store import read_config
from tests.conftest import Call

CODE = """
from dataclasses import dataclass
from pathlib import Path
import torch
import amity
Path(__file__).with_name("ran").touch()

@dataclass(frozen=True)
class Mine:
    k: int = 1
    card = None
    def decide(self, view, row):
        yield from ()
        return amity.Decision(row)
    def pulls(self, neighbours):
        return 0.0
    def explain(self, notes):
        return "words of my own"
    def sum_up(self, notes):
        return "words of my own"

@dataclass(frozen=True)
class Looks(amity.Proxy):
    lasting = True
    def of(self, at, data, learner):
        return torch.ones(4)

def net(shape, classes, width=4):
    return torch.nn.Sequential(
        torch.nn.Flatten(),
        torch.nn.Linear(int(torch.tensor(shape).prod()), width),
        torch.nn.ReLU(),
        torch.nn.Linear(width, classes),
    )

@dataclass(frozen=True)
class Spy:
    def open(self):
        return self
    def take(self, event):
        pass
    def close(self):
        pass
"""
WORDS = [
    "peers=3",
    "rounds=2",
    "partition=pathological",
    "partition.samples=10",
    "partition.test=20",
    "train.epochs=1",
    "engine.workers=1",
    "sinks=plain",
]


def as_stranger(*words: str, home: Path) -> None:
    """The command line in a process of its own, as somebody else: I have run nothing of it."""
    env = {**os.environ, "XDG_STATE_HOME": str(home)}
    line = [sys.executable, "-m", "amity", *words]
    done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stranger's run with a strategy, a proxy and a network of his own, and its export."""
    home = tmp_path_factory.mktemp("stranger")
    code, out = home / "code.py", home / "run"
    code.write_text(CODE)
    own = [f"strategy={code}:Mine", f"stages=simgate:proxy={code}:Looks", f"model={code}:net"]
    as_stranger("run", *WORDS, *own, f"out={out}", home=home)
    as_stranger("export", str(out), "peer=peer-00", home=home)
    (home / "ran").unlink()
    return home


@pytest.fixture
def folder(theirs: Path) -> Path:
    return theirs / "run"


def test_what_reads_a_folder_never_runs_the_code_that_it_names(call: Call, folder: Path) -> None:
    ran, page = folder.parent / "ran", folder / "report.html"
    assert "words of my own" in page.read_text()
    for words in (
        f"report {folder}",
        f"export-figures {folder} formats=svg",
        f"track {folder} to=jsonl:path=events.jsonl",
    ):
        code, _, err = call(words)
        assert code == 0, (words, err)
        assert not ran.exists(), words
    # all is told but what only the code could tell
    assert "Mine" in page.read_text()
    assert "words of my own" not in page.read_text()
    # and what was read stays unread: nothing that is made of it later runs it
    config = read_config(folder)
    assert config.replace(seed=3).strategy.absent
    assert not ran.exists()


def test_an_exported_model_runs_no_network_but_one_that_is_named(call: Call, theirs: Path) -> None:
    model, ran = theirs / "run" / "export" / "peer-00", theirs / "ran"
    np.save("x.npy", np.zeros((2, 1, 8, 8), np.float32))
    for words in (f"predict {model} x.npy", f"serve {model} port=0"):
        code, _, err = call(words)
        assert code != 0
        assert not ran.exists()
        assert "code.py:net" in err
        assert "network=" in err
        assert len(err.strip().splitlines()) == 1
    code, out, _ = call(f"predict {model} x.npy network={theirs / 'code.py'}:net")
    assert code == 0
    assert len(out.splitlines()) == 3
    assert ran.exists()
    ran.unlink()


def test_what_would_run_a_folders_code_asks_for_trust_once(call: Call, folder: Path) -> None:
    ran, code, config = folder.parent / "ran", folder.parent / "code.py", folder / "config.toml"
    peer, sink = folder.parent / "peer", folder.parent / "sink.toml"
    peer.mkdir()
    (peer / "peer.toml").write_text(f'[peer]\nname = "a"\n[run]\nstrategy = "{code}:Mine"\n')
    sink.write_text(f'rounds = 1\nsinks = ["{code}:Spy"]\n')
    for words in (
        f"resume {folder} rounds=3",
        f"export {folder} out=taken",
        f"run {config} out=again sinks=plain",
        f"run {sink} out=other",
        f"compare {config} strategies=local seeds=0 out=both sinks=plain",
        f"peer run {peer}",
        f"peer check {peer}",
    ):
        status, _, err = call(words)
        assert status != 0, words
        assert not ran.exists(), words
        assert str(code) in err, (words, err)
        assert "--trust" in err, (words, err)
        assert len(err.strip().splitlines()) == 1, err
    # a directory that is in the way is compared, not run
    status, _, err = call(f"run {' '.join(WORDS)} strategy=local out={folder}")
    assert status != 0
    assert "another config" in err
    assert not ran.exists()
    assert call(f"resume {folder} rounds=3 sinks=plain --trust")[0] == 0
    assert not read_config(folder).strategy.absent
    assert call(f"export {folder} out=taken")[0] == 0  # the same file as it was: asked once
    code.write_text(CODE + "\n# something was added\n")
    status, _, err = call(f"run {config} out=again sinks=plain")
    assert status != 0
    assert "--trust" in err


def test_what_you_typed_is_yours_in_later_processes_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("mine.py").write_text(CODE)
    me = tmp_path / "me"
    as_stranger("run", *WORDS, "strategy=mine.py:Mine", "out=run", home=me)
    lines = (me / "amity" / "code.jsonl").read_text().splitlines()
    assert [json.loads(line)["name"] for line in lines] == [f"{tmp_path / 'mine.py'}:Mine"]
    assert not yours("mine.py:Mine")
    monkeypatch.setenv("XDG_STATE_HOME", str(me))
    assert yours("mine.py:Mine")
    # another thing of the same file was never used: a folder cannot choose it
    assert not yours("mine.py:net")
    Path("mine.py").write_text(CODE + "#")
    assert not yours("mine.py:Mine")
    # nor does a torn line help anybody, or harm
    (me / "amity" / "code.jsonl").write_text(lines[0][:-9])
    Path("mine.py").write_text(CODE)
    assert not yours("mine.py:Mine")
