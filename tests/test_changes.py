"""What is planned to change from a round on, and runs that go on past their planned end: what was
done before stays as it is, to the bit, in both runtimes."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import torch

from amity.config import Config, load, resolve
from amity.errors import ConfigError, Failure, RunDirError
from amity.lab.result import Result
from amity.lab.run import resume, run
from amity.net.ops.swarm import Swarm
from amity.net.options import Net
from amity.net.setup import read_setup
from amity.net.wire import Terms
from amity.records import EdgeRecord
from amity.round.build import load_data
from amity.simulate import Simulation
from amity.store import RunDir, commits, read_config, read_lines, read_records
from tests.conftest import simulate, tiny
from tests.hub import Hub
from tests.test_node import QUICK, lives, log
from tests.test_parity import models, rows, same_bits
from tests.test_schema import TERMS

ONE = {"workers": 1, "vectorise": "off", "group": 1}
GOSSIP = {"name": "gossip", "k": 2}
LATER = "from=2 train.lr=0.2 train.epochs=2; from=3 strategy=pens"


# -- how it is said --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        LATER,
        LATER.split(";"),
        [{"from": 2, "train.lr": 0.2, "train.epochs": 2}, {"from": 3, "strategy": "pens"}],
        [{"from": 3, "strategy": {"name": "pens"}}, {"from": 2, "train": {"lr": 0.2, "epochs": 2}}],
    ],
    ids=["text", "texts", "dotted", "tables"],
)
def test_changes_are_said_as_text_or_as_tables(given: Any) -> None:
    config = tiny(rounds=5, changes=given)
    assert config == tiny(rounds=5, changes=LATER)
    assert [config.at(t).train.lr for t in range(5)] == [0.05, 0.05, 0.2, 0.2, 0.2]
    assert [config.at(t).strategy.name for t in range(5)] == ["friends"] * 3 + ["pens"] * 2
    again = resolve([tomllib.loads(config.to_toml())])
    assert (again, again.digest) == (config, config.digest)
    assert str(config.changes[0]) == "from=2 train.epochs=2 train.lr=0.2"


def test_a_peer_and_a_file_say_them_in_the_same_way(tmp_path: Path) -> None:
    text = 'rounds = 9\n[[changes]]\nfrom = 4\ntrain.lr = 0.5\nstrategy = "local"\n'
    (tmp_path / "run.toml").write_text(text)
    config = load(tmp_path / "run.toml")
    assert config.at(4).strategy.name == "local"
    swarm = Swarm(tmp_path / "s", tiny(peers=2, rounds=9), Net())
    swarm.lay_out()
    path = swarm.folder("peer-00") / "peer.toml"
    path.write_text(path.read_text() + text.partition("\n")[2].replace("changes", "run.changes"))
    assert read_setup(swarm.folder("peer-00")).config.changes == config.changes


def test_a_run_without_changes_is_the_run_that_it_was() -> None:
    assert "changes" not in tiny().to_dict()
    assert "extended" not in tiny().to_dict()
    assert tiny(changes=[]).digest == tiny().digest != tiny(changes="from=1 train.lr=1").digest


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("3", r'expected changes="from=200'),
        (7, r'expected changes="from=200'),
        ("from=2", "from=2: changes nothing"),
        ("train.lr=1", "from should be a round, 1 or later, got None"),
        ("from=0 train.lr=1", "from should be a round, 1 or later, got 0"),
        ("from=3 train.lr=1", r"past the last round, 2; raise rounds="),
        ("from=1 train.lr=1; from=1 train.clip=1", "from=1: is there twice"),
        ("from=1 peers=3", "peers is the same in all rounds; strategy, stages, train can change"),
        ("from=1 train.batch=3", "train.batch is the same in all rounds"),
        ("from=1 train.lr=-1", "from=1: train: lr should be greater than 0"),
        ("from=1 strategy=gosip", "from=1: .*did you mean 'gossip'"),
        ("from=1 strategy=gossip strategy.tau=1", "from=1: .*unknown option 'tau'"),
    ],
)
def test_what_cannot_change_is_refused_in_one_line(given: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        tiny(changes=given)
    assert "\n" not in str(refused.value)


def test_examples_that_a_later_strategy_measures_on_are_set_aside_from_the_start() -> None:
    wanted = tiny(strategy="dpfl").partition.options["validation"]
    assert wanted > 0
    config = tiny(strategy="local", changes="from=1 strategy=dpfl")
    assert config.partition.options["validation"] == wanted


# -- in the simulator ------------------------------------------------------------------------------


def tensors(path: Path, round: int) -> dict[str, torch.Tensor]:
    commit = next(c for c in commits(path) if c.round == round)
    assert commit.tensors is not None
    return {f"{p}/{k}": v for p in commit.memory for k, v in commit.tensors.of(p).items()}


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


@pytest.mark.parametrize("strategy", ["local", "pens", "afind+"])
def test_after_a_change_a_run_is_one_that_has_always_been_so_from_that_state_on(
    tmp_path: Path, strategy: str
) -> None:
    base: dict[str, Any] = {"peers": 4, "rounds": 5, "strategy": strategy, "engine": ONE}
    base["checkpoint"] = {"every": 2}
    plain = run(tiny(**base), tmp_path / "plain")
    changed = run(
        tiny(**base, changes="from=2 train.lr=0.2 train.weight_decay=0.1"), tmp_path / "changed"
    )
    before = [r.line() for r in plain.metrics if r.round < 2]
    assert [r.line() for r in changed.metrics if r.round < 2] == before
    # another run with the new rates, which is put where the old one was after two rounds
    with simulate(tiny(**base)) as probe:
        for _ in range(2):
            probe.round()
        held = {name: {k: v.clone() for k, v in found.items()} for name, found in probe.snapshots()}
        memories = probe.memories
    train = {"epochs": 1, "batch": 8, "lr": 0.2, "weight_decay": 0.1}
    with simulate(tiny(**base, train=train)) as other:
        other.restore(2, held.__getitem__, memories)
        lines = [r.line() for _ in range(3) for r in other.round().peers.values()]
    assert [r.line() for r in changed.metrics if r.round >= 2] == lines


def test_another_strategy_begins_with_an_empty_notebook_and_other_rates_keep_it(
    tmp_path: Path,
) -> None:
    base: dict[str, Any] = {"peers": 4, "rounds": 4, "strategy": "friends", "engine": ONE}
    for changes, kept in (("from=3 train.lr=0.1", True), ("from=3 strategy=pens", False)):
        with simulate(tiny(**base, changes=changes)) as simulation:
            for _ in range(3):
                simulation.round()
            seen: list[Any] = []
            decider = simulation.config.at(3).strategy.instance
            before = dict(simulation.seats["peer-00"].memory)
            assert before
            simulation.on_trained = lambda _t, s=simulation, out=seen: out.append(  # type: ignore[misc]
                s.seats["peer-00"].memory
            )
            simulation.round()
            assert simulation.strategy is decider
            assert seen == [before if kept else {}]


@pytest.mark.parametrize(
    "engine",
    [{"workers": 2, "vectorise": "off", "group": 1}, {"workers": 2, "vectorise": "on", "group": 2}],
    ids=["workers", "stacked"],
)
def test_changes_have_the_same_bits_with_any_number_of_workers_and_after_a_resume(
    tmp_path: Path, engine: dict[str, Any]
) -> None:
    base: dict[str, Any] = {"peers": 4, "rounds": 6, "strategy": "afind+", "changes": LATER}
    base["checkpoint"] = {"every": 2}
    alone = run(tiny(**base, engine={**engine, "workers": 1}), tmp_path / "alone")
    many = run(tiny(**base, engine=engine), tmp_path / "many")
    assert [r.line() for r in many.metrics] == [r.line() for r in alone.metrics]
    for file in sorted((tmp_path / "many" / "checkpoint").glob("round-000006*")):
        file.unlink()
    again = resume(tmp_path / "many")
    assert [r.line() for r in again.metrics] == [r.line() for r in alone.metrics]
    assert equal(models(tmp_path / "many"), models(tmp_path / "alone"))


# -- between real peers ----------------------------------------------------------------------------


def test_a_swarm_changes_as_the_simulator_does_to_the_bit(tmp_path: Path) -> None:
    """From cards of one kind to none, to those of another."""
    changes = "from=2 train.epochs=2 strategy=gossip strategy.k=2; from=4 strategy=friends"
    layers: dict[str, Any] = {"peers": 4, "rounds": 6, "strategy": "afind+", "changes": changes}
    same_bits(tmp_path, layers)


def test_who_was_not_told_of_a_change_is_warned_and_refused_from_that_round_on(
    tmp_path: Path,
) -> None:
    layers: dict[str, Any] = {"peers": 3, "rounds": 5, "strategy": GOSSIP, "engine": ONE}
    swarm = Swarm(tmp_path / "s", tiny(**layers, changes="from=3 train.lr=0.01"), QUICK)
    swarm.lay_out()
    path = swarm.folder("peer-02") / "peer.toml"
    told = tomllib.loads(path.read_text())
    del told["run"]["changes"]
    path.write_text(tomli_w.dumps(told))
    ended = lives(swarm, Hub())
    assert ended["peer-00"] is ended["peer-01"] is None
    assert isinstance(ended["peer-02"], Failure)
    said = "`changes` has 'from=3 train.lr=0.01' there, and not here: say the same changes"
    assert f"peer-00, peer-01: {said}" in str(ended["peer-02"])
    for name in ("peer-00", "peer-01"):
        state = swarm.folder(name) / "state"
        found = rows(read_records(state / "edges.jsonl", EdgeRecord))
        assert {t for (t, _), row in found.items() if "peer-02" in row} == {0, 1, 2}
        assert len(found) == 5
        told_of = log(swarm, name, "differs")
        assert told_of["peer-02", "now"] == 1, "said once"
        assert set(told_of) <= {("peer-02", "now"), ("peer-02", "soon")}
    alone = read_lines(swarm.folder("peer-02") / "state" / "edges.jsonl")
    assert [edge["round"] for edge in alone] == [0, 1, 2], "it does no round alone"


def test_a_change_that_only_one_of_two_knows_makes_no_difference_before_its_round() -> None:
    mine = replace(TERMS, changes=((3, "from=3 train.lr=0.1", None),))
    assert [bool(mine.difference(TERMS, t)) for t in (0, 2, 3, 9)] == [False, False, True, True]
    assert [bool(mine.coming(TERMS, t)) for t in (0, 2, 3, 9)] == [True, True, False, False]
    assert "there, and not here" in TERMS.difference(mine, 3)
    same = [mine.digest_at(t) == TERMS.digest_at(t) for t in (0, 2, 3, 9)]
    assert same == [True, True, False, False]
    assert Terms.decode(mine.encode()) == mine


# -- going on --------------------------------------------------------------------------------------


def extended(path: Path, config: Config) -> Result:
    """A simulated run that is extended to this config, as `amity resume` does it."""
    with Simulation(RunDir.check(path, config, extend=True), load_data(config)) as simulation:
        directory = RunDir.create(path, simulation.config, extend=True)
        with directory:
            directory.recover(simulation)
            while simulation.next_round < config.rounds:
                directory.append(simulation.round())
                directory.checkpoint(simulation)
    return Result(path, read_config(path))


def test_a_peer_whose_rounds_were_raised_goes_on_as_a_simulation_does(tmp_path: Path) -> None:
    """With a strategy that looks at how many rounds there are, and a method that does too."""
    base: dict[str, Any] = {"peers": 4, "strategy": "friends", "method": "dispfl", "engine": ONE}
    base["train"] = {"epochs": 1, "batch": 8, "lr": 0.05, "precision": "fp32"}
    run(tiny(**base, rounds=3), tmp_path / "simulated")
    swarm = Swarm(tmp_path / "s", tiny(**base, rounds=3), QUICK)
    swarm.lay_out()
    assert set(lives(swarm, Hub()).values()) == {None}
    folders = [tmp_path / "simulated", *(swarm.folder(n) / "state" for n in swarm.names)]
    first = {
        f: {n: (f / n).read_bytes() for n in ("metrics.jsonl", "edges.jsonl")} for f in folders
    }
    configs = {folder: (folder / "config.toml").read_bytes() for folder in folders}

    longer = tiny(**base, rounds=6, changes="from=4 train.lr=0.01")
    simulated = extended(tmp_path / "simulated", longer)
    swarm = Swarm(tmp_path / "s", longer, QUICK)
    swarm.lay_out()
    assert set(lives(swarm, Hub()).values()) == {None}
    for folder in folders:
        for name, bytes_ in first[folder].items():
            assert (folder / name).read_bytes().startswith(bytes_), "the first part stays"
        assert (folder / "config.toml").read_bytes() == configs[folder]
        (line,) = read_lines(folder / "extended.jsonl")
        assert (line["at"], line["rounds"], line["extended"]) == (3, 6, [[3, 3]])
        assert read_config(folder).extended == ((3, 3),)
    ours = models(tmp_path / "simulated")
    for name in swarm.names:
        state = swarm.folder(name) / "state"
        assert all(torch.equal(tensor, ours[key]) for key, tensor in models(state).items())
        mine = rows(read_records(state / "edges.jsonl", EdgeRecord))
        assert mine == {key: r for key, r in rows(simulated.edges).items() if key[1] == name}
        assert len(mine) == 6


def test_a_fall_back_to_before_the_extension_gives_the_same_bits(tmp_path: Path) -> None:
    base: dict[str, Any] = {"peers": 4, "strategy": "friends", "engine": ONE}
    base["checkpoint"] = {"every": 3}
    run(tiny(**base, rounds=4), tmp_path / "r")
    for file in (tmp_path / "r" / "checkpoint").glob("round-000004*"):
        file.rename(tmp_path / file.name)
    damaged = tmp_path / "damaged"
    run(tiny(**base, rounds=4), damaged)
    whole = extended(damaged, tiny(**base, rounds=6))
    assert whole.config.extended == ((4, 4),)
    for file in (damaged / "checkpoint").glob("round-*"):
        file.unlink()
    for file in (tmp_path / "r" / "checkpoint").glob("round-000003*"):
        file.rename(damaged / "checkpoint" / file.name)
    before = [r.line() for r in whole.metrics]
    assert [r.line() for r in resume(damaged).metrics] == before


def test_what_is_done_cannot_be_planned_anew_and_rounds_are_not_lowered(tmp_path: Path) -> None:
    base: dict[str, Any] = {"peers": 2, "strategy": "local", "engine": ONE}
    run(tiny(**base, rounds=4, changes="from=2 train.lr=0.1"), tmp_path / "r")
    for layers, says in (
        ({"rounds": 3, "changes": "from=2 train.lr=0.1"}, "can be raised, but not lowered to 3"),
        ({"rounds": 9, "changes": "from=2 train.lr=0.2"}, "4 rounds are done, and `changes` would"),
        ({"rounds": 9}, "4 rounds are done"),
        ({"rounds": 9, "changes": "from=2 train.lr=0.1", "seed": 1}, r"differs in .*seed"),
    ):
        with pytest.raises(RunDirError, match=says):
            RunDir.check(tmp_path / "r", tiny(**{**base, **layers}), extend=True)
    with pytest.raises(RunDirError, match=r"`amity resume .*/r rounds=9` extends it"):
        RunDir.check(tmp_path / "r", tiny(**base, rounds=9, changes="from=2 train.lr=0.1"))
    later = "from=2 train.lr=0.1; from=4 train.lr=0.2"
    assert extended(tmp_path / "r", tiny(**base, rounds=6, changes=later)).complete
