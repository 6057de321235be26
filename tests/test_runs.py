"""Runs are directories that survive anything: kills, torn lines, broken checkpoints, full disks."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

import amity
from amity.config import Config
from amity.errors import ConfigError, Failure, RunDirError, StorageError
from amity.lab.run import restored
from amity.simulate.engine import Simulation
from amity.store import RunDir, read_lines
from amity.store.reading import LINES, config_digest
from tests.conftest import simulate, tiny

FILES = [*LINES, "config.toml"]


def contents(path: Path) -> dict[str, bytes]:
    return {name: (path / name).read_bytes() for name in FILES}


def final_models(path: Path) -> torch.Tensor:
    return torch.stack([peer.start for peer in restored(path).peers.values()])


@pytest.fixture
def config() -> Config:
    return tiny(rounds=8, checkpoint={"every": 3}, strategy={"name": "afind+"})


@pytest.fixture
def whole(config: Config) -> Path:
    return amity.run(config, "whole").path


class Stop(BaseException):
    """Ends a run from a sink, as a kill would: no error of a sink does that."""


@dataclass(frozen=True)
class StopAfter:
    rounds: int

    def take(self, event: amity.Event) -> None:
        if isinstance(event, amity.RoundDone) and event.report.round + 1 == self.rounds:
            raise Stop

    def close(self) -> None:
        """Nothing to end."""


def interrupted(config: Config, path: str, rounds: int) -> Path:
    """A run that stops dead after so many rounds, as if killed between two writes."""

    with pytest.raises(Stop):
        amity.run(config, path, StopAfter(rounds))
    return Path(path)


@pytest.mark.parametrize("rounds", [1, 3, 4, 7])
def test_a_resumed_run_ends_bit_identical(config: Config, whole: Path, rounds: int) -> None:
    path = interrupted(config, "broken", rounds)
    assert amity.resume(path).complete
    assert contents(path) == contents(whole)
    assert torch.equal(final_models(path), final_models(whole))


@pytest.mark.parametrize("strategy", ["pens", "federico", "afind+", "dac", "facade", "friends"])
@pytest.mark.parametrize("method", ["finetune", "head"])
def test_notebooks_survive_a_resume(strategy: str, method: str) -> None:
    options = {"name": strategy} | ({"proxy": "grad_ref"} if strategy == "afind+" else {})
    config = tiny(rounds=6, checkpoint={"every": 2}, strategy=options, method={"name": method})
    whole = amity.run(config, "whole").path
    path = interrupted(config, "broken", 4)
    amity.resume(path)
    assert contents(path) == contents(whole)


def test_a_notebook_must_be_plain_in_every_round_not_only_in_the_first() -> None:
    late = "return amity.Decision({view.me: 1.0}, {'n': (1, 2) if view.round >= 2 else [1, 2]})"
    Path("mine.py").write_text(STRATEGY % late)
    with pytest.raises(Failure, match=r"peer-00, round 2: .*memory must be plain JSON data"):
        amity.run(tiny(strategy="mine.py:Mine", rounds=5), "r")


def test_a_notebook_of_ones_own_is_the_same_after_a_resume() -> None:
    keeping = """if view.round == 3 and __import__("pathlib").Path("stop").exists():
            raise ValueError("stopped")
        seen = [*view.memory.get("seen", []), [view.round, 0.1 * view.round, None, {"a": True}]]
        return amity.Decision({view.me: 1.0}, {"seen": seen}, {"seen": len(repr(seen))})"""
    Path("mine.py").write_text(STRATEGY % keeping)
    config = tiny(strategy="mine.py:Mine", rounds=5, checkpoint={"every": 2})
    whole = amity.run(config, "whole").path
    Path("stop").touch()
    with pytest.raises(Failure, match="stopped"):
        amity.run(config, "broken")
    Path("stop").unlink()
    assert contents(amity.resume("broken").path) == contents(whole)


def test_resuming_a_finished_run_changes_nothing(whole: Path) -> None:
    before = contents(whole)
    amity.resume(whole)
    assert contents(whole) == before


def _child(config: Config, path: str) -> None:
    amity.run(config, path)


def test_ten_kills_at_random_moments_change_no_bit() -> None:
    """kill -9 at ten random moments of one run, each followed by a resume in a new process."""
    config = tiny(rounds=60, checkpoint={"every": 2}, strategy={"name": "afind+"}, peers=4)
    began = time.monotonic()
    whole = amity.run(config, "whole").path
    length = time.monotonic() - began
    fork, draw, kills = multiprocessing.get_context("fork"), random.Random(7), 0
    path = Path("killed")
    while kills < 10:
        child = fork.Process(target=_child, args=(config, str(path)))
        child.start()
        child.join(draw.uniform(0.02, 0.15) * length)
        if child.exitcode is None:
            assert child.pid is not None
            os.kill(child.pid, signal.SIGKILL)
            child.join()
            kills += 1
        else:
            assert child.exitcode == 0
            shutil.rmtree(path)  # it ended before it could be killed: once more from the start
    amity.resume(path)
    assert contents(path) == contents(whole)
    assert torch.equal(final_models(path), final_models(whole))


def _tear_last_line(path: Path) -> None:
    for name in LINES:
        with open(path / name, "ab") as stream:
            stream.write(b'{"round": 99, "peer": "pe')


def _garble_line(path: Path) -> None:
    data = bytearray((path / "metrics.jsonl").read_bytes())
    data[len(data) // 3] ^= 0xFF
    (path / "metrics.jsonl").write_bytes(data)


def _halve_newest_tensors(path: Path) -> None:
    newest = sorted((path / "checkpoint").glob("*.safetensors"))[-1]
    newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])


def _halve_newest_record(path: Path) -> None:
    newest = sorted((path / "checkpoint").glob("*.json"))[-1]
    newest.write_bytes(newest.read_bytes()[:100])


def _leave_a_half_written_checkpoint(path: Path) -> None:
    (path / "checkpoint" / "round-000007.safetensors.tmp").write_bytes(b"half")
    (path / "checkpoint" / "round-000007.safetensors").write_bytes(b"tensors without a record")


def _break_everything(path: Path) -> None:
    for file in (path / "checkpoint").iterdir():
        file.write_bytes(b"")


def _remove_lines(path: Path) -> None:
    (path / "edges.jsonl").unlink()


@pytest.mark.parametrize(
    "damage",
    [
        _tear_last_line,
        _garble_line,
        _halve_newest_tensors,
        _halve_newest_record,
        _leave_a_half_written_checkpoint,
        _break_everything,
        _remove_lines,
    ],
    ids=lambda f: f.__name__,
)
def test_damage_is_found_and_repaired_never_trusted(
    config: Config, whole: Path, damage: Any
) -> None:
    path = interrupted(config, "broken", 7)
    damage(path)
    amity.resume(path)
    assert contents(path) == contents(whole)
    assert torch.equal(final_models(path), final_models(whole))


def test_a_directory_of_another_config_is_refused_and_untouched(
    config: Config, whole: Path
) -> None:
    before = contents(whole)
    with pytest.raises(
        RunDirError,
        match=r"whole: holds a run of another config \(differs in seed\); choose another out=",
    ):
        amity.run(config, "whole", seed=5)
    assert contents(whole) == before


def test_a_directory_with_something_else_in_it_is_refused(config: Config) -> None:
    Path("mine").mkdir()
    Path("mine/thesis.txt").write_text("years of work")
    with pytest.raises(RunDirError, match="is not empty and holds no run"):
        amity.run(config, "mine")
    assert Path("mine/thesis.txt").read_text() == "years of work"


def test_a_config_that_was_changed_is_refused_and_nothing_is_lost(whole: Path) -> None:
    before = contents(whole)
    text = (whole / "config.toml").read_text()
    (whole / "config.toml").write_text(text.replace("momentum = 0.9", "momentum = 0.8"))
    with pytest.raises(
        RunDirError, match=r"config.toml is not the one that this run was made with; put it back"
    ):
        amity.resume(whole)
    (whole / "config.toml").write_text(text)
    amity.resume(whole)
    assert contents(whole) == before


def test_a_run_of_an_older_version_with_fewer_options_is_taken_up(
    config: Config, whole: Path
) -> None:
    path = interrupted(config, "old", 4)
    for file in (
        "config.toml",
        *(f"checkpoint/{p.name}" for p in (path / "checkpoint").glob("*.json")),
    ):
        text = (path / file).read_text()
        if file == "config.toml":
            old = config_digest(path)
            (path / file).write_text(text.replace('augment = "none"\n', ""))
        else:
            (path / file).write_text(text.replace(old, config_digest(path)))
    began = len(read_lines(path / "timings.jsonl"))
    amity.resume(path)
    # from the checkpoint of round 3, not from the start
    assert len(read_lines(path / "timings.jsonl")) == began + 5
    assert (path / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()


def test_a_directory_that_was_only_half_created_can_be_used(config: Config, whole: Path) -> None:
    Path("half/checkpoint").mkdir(parents=True)
    Path("half/.lock").touch()
    Path("half/config.toml.77.tmp").write_text("peers =")
    amity.run(config, "half")
    assert contents(Path("half")) == contents(whole)


def test_a_removed_checkpoint_folder_is_made_again(config: Config, whole: Path) -> None:
    path = interrupted(config, "broken", 7)
    shutil.rmtree(path / "checkpoint")
    amity.resume(path)
    assert contents(path) == contents(whole)


STRATEGY = """
from dataclasses import dataclass
import sys
import amity
from amity.facts import Pull
from amity.choosing import Cardless

@dataclass(frozen=True)
class Mine(Cardless):
    note: float | None = None

    def decide(self, view, row):
        yield from ()
        %s
"""
BODIES = {
    "raise ValueError('boom')": "ValueError: boom",
    "return 1 / 0": "ZeroDivisionError: division by zero",
    "sys.exit(0)": "SystemExit: 0",
    "return {view.me: 1.0}": "a plan must return a Decision, got dict",
    "yield 5": "a plan must yield Ask(fact, peers), got 5",
    "return amity.Decision(None)": "AttributeError",
    "return amity.Decision({view.me: 'all'})": (
        "ValueError: could not convert string to float: 'all'"
    ),
    "return amity.Decision({view.me: 1.0}, {'a': {1, 2}})": (
        "Object of type set is not JSON serializable"
    ),
    "return amity.Decision({view.me: 1.0}, {'a': (1, 2)})": "memory must be plain JSON data",
    "return amity.Decision({view.me: 1.0}, {}, {'n': object()})": "TypeError",
    "return amity.Decision({view.me: 0.5})": "weights sum to 0.5; they must sum to 1",
    "return amity.Decision({'stranger': 1.0})": (
        "puts weight on stranger, whose model never arrived"
    ),
}


@pytest.mark.parametrize("body", BODIES)
def test_a_strategy_that_misbehaves_is_named_with_its_peer_and_round(body: str) -> None:
    Path("mine.py").write_text(STRATEGY % body)
    with pytest.raises(Failure) as caught:
        amity.run(tiny(strategy="mine.py:Mine"), "r")
    assert BODIES[body] in str(caught.value)
    assert "peer-00" in str(caught.value)
    assert "\n" not in str(caught.value)
    result = amity.compare(["local", "mine.py:Mine"], [0], tiny(), "c")
    assert [line.label for line in result.lines] == ["local"]
    assert BODIES[body] in result.errors["Mine seed 0"]


def test_a_run_goes_on_only_with_the_code_that_it_began_with() -> None:
    mine = STRATEGY % "return amity.Decision({view.me: 1.0})"
    Path("mine.py").write_text(mine)
    config = tiny(strategy="mine.py:Mine")
    amity.run(config, "r")
    Path("mine.py").write_text(mine.replace("1.0", "1"))
    for again in (lambda: amity.run(tiny(strategy="mine.py:Mine"), "r"), lambda: amity.resume("r")):
        with pytest.raises(
            RunDirError, match=r"r: mine.py has changed since this run began; put it back"
        ):
            again()
    Path("r/code.json").write_text("[]")
    amity.resume("r")  # who knows what it does may go on with it
    assert config.own_code != amity.load(overrides={"strategy": "mine.py:Mine"}).own_code, (
        "each knows what it was loaded from"
    )


def test_weights_may_be_any_kind_of_number_and_notes_do_not_overwrite_records() -> None:
    body = (
        "import numpy as np; return amity.Decision({view.me: np.float32(1)}, {}, {'round': -5.0,"
        " 'mine': np.float64(2)})"
    )
    Path("mine.py").write_text(STRATEGY % body)
    record = amity.run(tiny(strategy="mine.py:Mine"), "r").metrics[-1]
    assert (record.round, record.notes["mine"]) == (2, 2.0)


def test_two_processes_cannot_run_one_directory(config: Config, whole: Path) -> None:
    with RunDir.open(whole), pytest.raises(RunDirError, match="another process is running it"):
        amity.resume(whole)


def test_resume_of_nothing_is_refused() -> None:
    with pytest.raises(RunDirError, match=r"holds no run \(no config.toml\)"):
        amity.resume("nowhere")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small disk")
def test_a_full_disk_loses_nothing_and_the_run_goes_on_when_there_is_room(
    config: Config, whole: Path
) -> None:
    disk = Path("disk")
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=120k", "tmpfs", disk], capture_output=True
    ).returncode:
        pytest.skip("this machine does not let us mount a small disk")
    try:
        with pytest.raises(
            StorageError, match=r"cannot be written \(No space left on device\).*amity resume"
        ):
            amity.run(config, disk / "run")
        assert not list(disk.glob("run/checkpoint/*.tmp"))
        kept = [json.loads(p.read_bytes())["round"] for p in disk.glob("run/checkpoint/*.json")]
        assert kept
        subprocess.run(["mount", "-o", "remount,size=20m", disk], check=True)
        amity.resume(disk / "run")
        assert contents(disk / "run") == contents(whole)
    finally:
        subprocess.run(["umount", disk], check=True)


def test_timings_have_a_file_of_their_own(whole: Path) -> None:
    assert len(read_lines(whole / "timings.jsonl")) == 8
    assert b"seconds" not in (whole / "metrics.jsonl").read_bytes()


def test_metrics_hold_what_was_promised(whole: Path) -> None:
    result = amity.Result(whole, amity.load(whole / "config.toml"))
    record = result.metrics[-1]
    promised = (
        "round peer accuracy balanced accuracy_mixed accuracy_local test_loss train_loss available"
        " taken theta effective similarity_min similarity_mean similarity_max card_in card_out"
        " model_in model_out reply_in reply_out forward backward"
    )
    assert set(promised.split()) <= record.line().keys()
    network = result.rounds[-1]
    assert {
        "precision",
        "recall",
        "auc",
        "coreset_error",
        "all_error",
        "consensus",
        "gradient_norm2",
    } <= network.line().keys()
    assert len(result.metrics) == len(result.edges) == 8 * 6
    assert result.best >= result.accuracy


def test_results_fit_into_a_dataframe(whole: Path) -> None:
    import pandas as pd

    frame = pd.DataFrame(amity.Result(whole, amity.load(whole / "config.toml")).metrics)
    assert frame.groupby("round").accuracy.mean().iloc[-1] == pytest.approx(
        amity.Result(whole, amity.load(whole / "config.toml")).accuracy
    )


def test_evaluating_less_often_changes_nothing_else() -> None:
    often = amity.run(tiny(rounds=5), "often")
    seldom = amity.run(tiny(rounds=5, eval={"every": 3, "gradients_every": 0}), "seldom")
    assert [t for t, _ in seldom.curve] == [0, 3, 4]
    assert often.edges == seldom.edges
    assert often.accuracy == seldom.accuracy


def test_a_callers_threads_and_random_state_are_left_alone() -> None:
    """In a process of its own: one that has used two threads cannot fork others that do (other
    tests here fork)."""

    def caller() -> None:
        torch.set_num_threads(2)
        torch.manual_seed(3)
        expected = torch.rand(1)
        torch.manual_seed(3)
        amity.run(tiny(rounds=1), "quiet")
        same = torch.equal(torch.rand(1), expected) and torch.get_num_threads() == 2
        os._exit(0 if same else 1)

    process = multiprocessing.get_context("fork").Process(target=caller)
    process.start()
    process.join(60)
    assert process.exitcode == 0


def test_the_measures_of_the_theorem_agree_with_plain_numpy() -> None:
    simulation: Simulation = simulate(
        tiny(rounds=1, eval={"gradients_every": 1}, strategy={"name": "gossip", "k": 2})
    )
    report = simulation.round()
    theta = torch.stack([peer.start for peer in simulation.peers.values()]).double().numpy()
    mean = theta.mean(0)
    learner = simulation.world.learner
    centre = torch.from_numpy(mean).float()
    grads = {
        n: learner.gradient(centre, p.data.train)[0].double().numpy()
        for n, p in simulation.peers.items()
    }
    chosen = [
        ((grads[me] - grads[j]) ** 2).sum()
        for me, row in report.rows.items()
        for j in row
        if j != me
    ]
    everyone = [((grads[i] - grads[j]) ** 2).sum() for i in grads for j in grads if i != j]
    average = sum(grads.values()) / len(grads)
    assert report.network.coreset_error == pytest.approx(sum(chosen) / len(chosen), rel=1e-3)
    assert report.network.all_error == pytest.approx(sum(everyone) / len(everyone), rel=1e-3)
    assert report.network.gradient_norm2 == pytest.approx(float((average**2).sum()), rel=1e-3)
    assert report.network.consensus == pytest.approx(
        float(((theta - mean) ** 2).sum(1).mean()), rel=1e-3
    )


def test_the_quality_of_a_choice_by_hand() -> None:
    import numpy as np

    from amity.round.quality import auc, choice_quality
    from amity.round.truth import Friendship

    labels = {"a": (1.0, 0.0), "b": (0.8, 0.2), "c": (0.0, 1.0)}
    alike = Friendship(labels=labels, groups={}, least=0.5)
    np.testing.assert_allclose(alike.matrix, [[1, 0.8, 0], [0.8, 1, 0.2], [0, 0.2, 1]])
    rows = {"a": {"a": 0.5, "b": 0.5}, "b": {"b": 0.4, "a": 0.3, "c": 0.3}, "c": {"c": 1.0}}
    near = {"a": ("b", "c"), "b": ("a", "c"), "c": ("a", "b")}
    scores: dict[str, dict[str, float]] = {"a": {}, "b": {"a": 2.0, "c": 1.0}, "c": {}}
    quality = choice_quality(alike, rows, scores, near)
    # Taken: b by a (friend), a and c by b (one friend). Friends: a-b both ways, so 2 of 6 in
    # reach, both taken.
    assert quality == pytest.approx(
        {"taken": 1.0, "precision": 2 / 3, "recall": 1.0, "base_rate": 1 / 3, "auc": 1.0}
    )
    # By group, b and c are friends: taken once, by b; nobody takes from a friend of a.
    groups = replace(alike, groups={"a": 0, "b": 1, "c": 1})
    assert choice_quality(groups, rows, scores, near) == pytest.approx(
        {"taken": 1.0, "precision": 1 / 3, "recall": 1 / 2, "base_rate": 1 / 3, "auc": 0.25}
    )
    np.testing.assert_array_equal(groups.matrix, [[1, 0, 0], [0, 1, 1], [0, 1, 1]])
    assert auc(np.array([True, False, False]), np.array([0.5, 0.5, 0.1])) == 0.75
    assert auc(np.array([True, True]), np.array([1.0, 2.0])) is None


def test_auc_is_that_of_scikit_learn() -> None:
    import numpy as np
    from sklearn.metrics import roc_auc_score

    from amity.round.quality import auc

    draw = np.random.default_rng(0)
    for _ in range(50):
        friend, score = draw.random(30) < 0.3, draw.integers(6, size=30) / 5
        assert auc(friend, score) == pytest.approx(roc_auc_score(friend, score))


def test_a_bad_strategy_name_in_a_run_is_a_config_error() -> None:
    with pytest.raises(ConfigError):
        amity.run(strategy="nobody")
    assert not Path("runs").exists()
