"""Trackers: what TensorBoard, MLflow and Weights & Biases show is what the run directory says."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
import wandb
from mlflow.tracking import MlflowClient

import amity
from amity.errors import ConfigError
from amity.events import CellId, Event, RoundDone, RunDone, RunFailed, RunStarted, Sink
from amity.files import dump
from amity.lab.replay import Replay, replays, reports
from amity.lab.result import Result
from amity.records import EdgeRecord, Report, RoundRecord, TimingRecord
from amity.sinks import sinks
from amity.store import RunDir
from tests import readers
from tests.conftest import Call, simulate, tiny
from tests.readers import Curves, Seen, Tool, recorded


@pytest.fixture(autouse=True)
def _as_on_a_new_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of whoever runs the tests; see conftest.py for what keeps it off the network."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    for name in ("WANDB_CONFIG_DIR", "WANDB_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path.parent / "of-wandb"))


@pytest.fixture(scope="module", autouse=True)
def _no_service_is_left() -> Iterator[None]:
    yield
    wandb.teardown()


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MLflow takes a while to make one."""
    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    MlflowClient(tracking_uri=f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "nightly"
    amity.compare(["afind+:paper", "gossip:k=2/krum"], [0, 1], tiny(), path, jobs=1)
    return path


@pytest.fixture(params=["tensorboard", "mlflow-file", "mlflow-sqlite", "wandb"])
def tool(request: pytest.FixtureRequest, tmp_path: Path, empty_database: Path) -> Tool:
    """Each tracker with a place of its own. TensorBoard keeps single precision."""
    shutil.copy(empty_database, tmp_path)
    store, database = f"file:{tmp_path / 'mlruns'}", f"sqlite:///{tmp_path / 'mlflow.db'}"
    place = {"dir": str(tmp_path / "there")}
    tools = {
        "tensorboard": lambda: readers.tensorboard(tmp_path / "there"),
        "mlflow-file": lambda: readers.mlflow(store),
        "mlflow-sqlite": lambda: readers.mlflow(database),
        "wandb": lambda: readers.wandb(tmp_path / "there"),
    }
    options: dict[str, Any] = {
        "mlflow-file": {"uri": store},
        "mlflow-sqlite": {"uri": str(tmp_path / "mlflow.db")},
    }
    name = str(request.param)
    exact = 1e-6 if name == "tensorboard" else 1e-12
    return Tool(name.partition("-")[0], options.get(name, place), tools[name], exact)


def opened(tool: Tool, **options: Any) -> Sink:
    return sinks[tool.name].build({**tool.options, **options}).open()


def tell(sink: Sink, events: Iterable[Event]) -> None:
    """All events, then the end."""
    for event in events:
        sink.take(event)
    sink.close()


def same(seen: Curves, expected: Curves, tool: Tool) -> None:
    """Every value of every step, each step once."""
    assert set(seen) == set(expected)
    for name, points in expected.items():
        assert [step for step, _ in seen[name]] == [step for step, _ in points], name
        values = [value for _, value in points]
        assert [value for _, value in seen[name]] == pytest.approx(values, rel=tool.exact), name


def name_in(tool: Tool, name: str) -> str:
    """A run as it is called there: folders take no colons and slashes."""
    return name.replace(":", "_").replace("/", "_") if tool.name == "tensorboard" else name


# -- values ----------------------------------------------------------------------------------------


def test_a_comparison_is_a_group_of_runs_with_all_numbers_of_its_records(
    compared: Path, tool: Tool
) -> None:
    found = replays(compared)
    tell(opened(tool), (event for replay in found for event in replay.events()))
    runs = tool.read()
    names = [f"{label} seed {s}" for label in ("afind+:paper", "gossip:k=2/krum") for s in (0, 1)]
    assert set(runs) == {("nightly", name_in(tool, name)) for name in names}
    for replay in found:
        name = name_in(tool, f"{replay.cell.label} seed {replay.cell.seed}")
        seen = runs["nightly", name]
        same(seen.curves, recorded(replay.result), tool)
        assert seen.status == "done"
        assert {"network/accuracy", "network/precision", "seconds/train"} < set(seen.curves)
        noted = "peers/theta/std" in seen.curves
        assert noted == replay.cell.label.startswith("afind+")


def test_the_keys_of_the_config_are_the_hyperparameters(compared: Path, tool: Tool) -> None:
    replay = next(r for r in replays(compared) if r.cell.label.startswith("gossip"))
    tell(opened(tool), replay.events())
    seen = tool.read()["nightly", name_in(tool, f"gossip:k=2/krum seed {replay.cell.seed}")]
    if tool.name == "wandb":  # nested, as W&B shows them
        assert seen.config == replay.result.config.to_dict()
        return
    assert float(seen.config["train.lr"]) == 0.05
    assert seen.config["strategy.name"] == "gossip"
    assert float(seen.config["strategy.k"]) == 2
    assert seen.config["stages.0.name"] == "krum"


def test_each_peer_has_curves_of_its_own_where_they_are_asked_for(
    compared: Path, tool: Tool
) -> None:
    replay = replays(compared)[0]
    tell(opened(tool, peers=True), replay.events())
    (seen,) = tool.read().values()
    same(seen.curves, recorded(replay.result, peers=True), tool)
    assert f"peer/{replay.result.metrics[0].peer}/train_loss" in seen.curves


def test_live_and_afterwards_the_tool_is_told_the_same(tool: Tool, tmp_path: Path) -> None:
    config = tiny(strategy="afind+", attack={"name": "sign_flip", "fraction": 0.34})
    told: list[Report] = []
    with RunDir.create(tmp_path / "run", config) as directory, simulate(config) as simulation:
        directory.recover(simulation)
        for _ in range(config.rounds):
            told.append(simulation.round())
            directory.append(told[-1])
    replay = Replay.of(Result(tmp_path / "run", config))
    live = replace(replay.cell, path=str(tmp_path / "live"), label="live")
    begin = RunStarted(cell=live, config=config.to_dict(), rounds=config.rounds)
    rounds = [RoundDone(cell=live, report=report) for report in told]
    tell(opened(tool), [begin, *rounds, RunDone(cell=live), *replay.events()])
    runs = {name: seen for (_, name), seen in tool.read().items()}
    assert runs["live seed 0"].curves == runs[name_in(tool, f"{config.label} seed 0")].curves
    same(runs["live seed 0"].curves, recorded(replay.result), tool)


def test_epsilon_never_stands_without_what_it_does_not_cover(tool: Tool, tmp_path: Path) -> None:
    result = amity.run(tiny(strategy="pens", privacy="gradients"), tmp_path / "run")
    tell(opened(tool), Replay.of(result).events())
    (seen,) = tool.read().values()
    assert seen.curves["network/epsilon"][-1][1] == pytest.approx(result.rounds[-1].epsilon)
    assert seen.texts["excluded/Loss"] == "not covered by ε"
    assert not result.rounds[-1].excluded  # it was asked in earlier rounds only


def test_what_is_not_finite_is_left_out(tool: Tool) -> None:
    cell = cell_of("run")
    network = RoundRecord(round=0, accuracy=math.nan, epsilon=math.inf, recall=0.5)
    report = Report(round=0, peers={}, rows={}, network=network, seconds={"train": 0.25})
    tell(opened(tool), [start(cell, 1), RoundDone(cell=cell, report=report), RunDone(cell=cell)])
    (seen,) = tool.read().values()
    names = {"network/recall", "network/taken", "seconds/train", "seconds/round"}
    assert set(seen.curves) == names


# -- many runs, ends, and going on -----------------------------------------------------------------


def cell_of(label: str, seed: int = 0, group: str = "") -> CellId:
    return CellId(label=label, seed=seed, path=f"{group or 'alone'}/{label}-{seed}", group=group)


def round_done(cell: CellId, round: int, accuracy: float) -> RoundDone:
    network = RoundRecord(round=round, accuracy=accuracy)
    report = Report(round=round, peers={}, rows={}, network=network, seconds={})
    return RoundDone(cell=cell, report=report)


def start(cell: CellId, rounds: int, first: int = 0) -> RunStarted:
    return RunStarted(cell=cell, config={"seed": cell.seed}, rounds=rounds, first=first)


def accuracies(seen: Seen) -> list[tuple[int, float]]:
    return [(step, round(value, 6)) for step, value in seen.curves["network/accuracy"]]


def test_cells_that_run_at_once_do_not_mix_and_one_that_fails_is_marked(tool: Tool) -> None:
    cells = [cell_of(label, seed, "runs/both") for label in ("a", "b") for seed in (0, 1)]
    bad = cells[2]

    def life(at: int, cell: CellId) -> list[Event]:
        rounds = [round_done(cell, t, at + t / 10) for t in range(2 if cell == bad else 4)]
        end = RunFailed(cell=cell, error="out of memory") if cell == bad else RunDone(cell=cell)
        return [start(cell, 4), *rounds, end]

    lives = [life(at, cell) for at, cell in enumerate(cells)]
    mixed = [event for turn in zip_longest(*lives) for event in turn if event is not None]
    tell(opened(tool), mixed)
    runs = tool.read()
    assert set(runs) == {("both", f"{cell.label} seed {cell.seed}") for cell in cells}
    for at, cell in enumerate(cells):
        seen, done = runs["both", f"{cell.label} seed {cell.seed}"], 2 if cell == bad else 4
        assert accuracies(seen) == [(t, round(at + t / 10, 6)) for t in range(done)]
        assert seen.status == ("failed" if cell == bad else "done")
        assert ("out of memory" in seen.texts.values()) == (cell == bad)


def test_a_run_that_goes_on_is_the_same_run_and_no_step_is_there_twice(tool: Tool) -> None:
    cell = cell_of("gossip", group="runs/x")
    values = [t / 8 for t in range(6)]
    first = [round_done(cell, t, values[t]) for t in range(4)]
    tell(opened(tool), [start(cell, 6), *first, RunFailed(cell=cell, error="interrupted")])
    (seen,) = tool.read().values()
    assert seen.status == "failed"
    assert "interrupted" in seen.texts.values()
    # the checkpoint was made after round 1: rounds 2 and 3 are done again
    again = [round_done(cell, t, values[t]) for t in range(2, 6)]
    tell(opened(tool), [start(cell, 6, first=2), *again, RunDone(cell=cell)])
    runs = tool.read()
    assert list(runs) == [("x", "gossip seed 0")]
    (seen,) = runs.values()
    assert accuracies(seen) == list(enumerate(values))
    assert seen.status == "done"
    assert "interrupted" not in seen.texts.values()


def test_telling_it_all_again_changes_nothing(compared: Path, tool: Tool) -> None:
    replay = replays(compared)[0]
    for _ in range(2):
        tell(opened(tool), replay.events())
    (seen,) = tool.read().values()
    same(seen.curves, recorded(replay.result), tool)


def test_a_crew_that_was_lost_begins_the_run_again_without_doubling(tool: Tool) -> None:
    cell = cell_of("gossip")
    told = [start(cell, 3), round_done(cell, 0, 0.5), round_done(cell, 1, 0.25)]
    told += [start(cell, 3, first=1), round_done(cell, 1, 0.25), round_done(cell, 2, 0.125)]
    tell(opened(tool), [*told, RunDone(cell=cell)])
    (seen,) = tool.read().values()
    assert accuracies(seen) == [(0, 0.5), (1, 0.25), (2, 0.125)]


def test_a_start_that_fails_at_once_hides_nothing_of_the_run_before(tool: Tool) -> None:
    cell = cell_of("gossip")
    tell(opened(tool), [start(cell, 2), round_done(cell, 0, 0.5)])
    tell(opened(tool), [start(cell, 2), RunFailed(cell=cell, error="another process runs it")])
    (seen,) = tool.read().values()
    assert accuracies(seen) == [(0, 0.5)]


def test_a_cell_that_was_done_before_leaves_no_empty_run(tool: Tool) -> None:
    cell = cell_of("gossip")
    tell(opened(tool), [start(cell, 3, first=3), RunDone(cell=cell)])
    assert not tool.read()


def test_runs_of_one_name_from_two_places_stay_two(tmp_path: Path) -> None:
    for at, place in enumerate(("here", "there", "here")):
        cell = CellId(label="a", seed=0, path=f"{place}/x/a", group=f"{place}/x")
        events = [start(cell, 2), round_done(cell, 0, at / 4), RunDone(cell=cell)]
        tell(sinks["tensorboard"].build({"dir": "tb"}).open(), events)
    runs = readers.tensorboard(Path("tb"))
    found = {name: accuracies(seen) for (_, name), seen in runs.items()}
    assert found == {"a seed 0": [(0, 0.5)], "a seed 0 (2)": [(0, 0.25)]}


@pytest.mark.parametrize(
    ("name", "library"),
    [("tensorboard", "tensorboardX"), ("mlflow", "mlflow.tracking"), ("wandb", "wandb")],
)
def test_a_library_that_is_missing_is_named_with_its_remedy(
    name: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ConfigError) as error:
        sinks[name].build({}).open()
    assert str(error.value) == f"sink {name}: this needs pip install 'amity[{name}]'"


# -- amity track -----------------------------------------------------------------------------------


def test_track_tells_a_comparison_to_several_tools(compared: Path, call: Call) -> None:
    code, out, err = call(f"track {compared} to=tensorboard:dir=tb,wandb:dir=wb:peers=true")
    assert (code, err) == (0, "")
    assert out == f"{compared}: 4 runs, 12 rounds told to tensorboard, wandb\n"
    assert len(readers.tensorboard(Path("tb"))) == len(readers.wandb(Path("wb"))) == 4


def test_track_tells_a_run_with_options_as_keys(compared: Path, call: Call) -> None:
    path = replays(compared)[0].result.path
    code, out, _ = call(f"track {path} to=mlflow uri=db/m.db experiment=mine")
    assert (code, out) == (0, f"{path}: 1 run, 3 rounds told to mlflow\n")
    ((group, name),) = readers.mlflow(f"sqlite:///{Path('db/m.db').resolve()}")
    assert (group, name) == ("mine", f"{replays(path)[0].cell.label} seed 0")


def peer_folder(folder: Path, name: str, source: Result) -> None:
    """What a real peer leaves: its own part of a run."""
    state = folder / "state"
    state.mkdir(parents=True)
    (folder / "peer.toml").write_text(f'[peer]\nname = "{name}"\n')
    (state / "config.toml").write_text(source.config.to_toml())
    files: dict[str, list[Any]] = {"metrics": [], "edges": [], "rounds": [], "timings": []}
    for report in reports(source):
        t, own = report.round, report.peers[name]
        files["metrics"].append(own)
        files["edges"].append(EdgeRecord(round=t, peer=name, row=report.rows[name]))
        files["rounds"].append(RoundRecord(round=t, accuracy=own.accuracy))
        files["timings"].append(TimingRecord(round=t, seconds=1.5, notes={"train": 1.5}))
    for file, records in files.items():
        (state / f"{file}.jsonl").write_bytes(b"".join(dump(r.line()) for r in records))


@pytest.fixture
def source(compared: Path) -> Result:
    return replays(compared)[0].result


def test_track_tells_a_peer_as_a_run_by_its_name(source: Result, call: Call) -> None:
    name = source.metrics[0].peer
    peer_folder(Path("clinic"), name, source)
    code, out, _ = call("track clinic to=tensorboard")
    assert (code, out) == (0, "clinic: 1 run, 3 rounds told to tensorboard\n")
    ((_, run), seen), *rest = readers.tensorboard(Path("tensorboard")).items()
    assert (run, rest) == (f"{name} seed 0", [])
    same(seen.curves, recorded(Result(Path("clinic/state"), source.config)), SINGLE)


SINGLE = Tool("tensorboard", {}, dict, exact=1e-6)


def test_track_tells_a_swarm_as_its_peers_and_the_whole_network(source: Result, call: Call) -> None:
    names = sorted({r.peer for r in source.metrics})
    for name in names:
        peer_folder(Path("swarm/peers") / name, name, source)
    for file in ("config.toml", "metrics.jsonl", "edges.jsonl", "rounds.jsonl"):
        (Path("swarm") / file).write_bytes((source.path / file).read_bytes())
    lines = [
        {"round": t, "seconds": at + 1.0, "train": at + 1.0, "peer": name}
        for t in range(3)
        for at, name in enumerate(names)
    ]
    Path("swarm/timings.jsonl").write_bytes(b"".join(map(dump, lines)))
    code, out, _ = call("track swarm to=tensorboard dir=tb")
    assert (code, out) == (0, "swarm: 7 runs, 21 rounds told to tensorboard\n")
    runs = readers.tensorboard(Path("tb"))
    label = source.config.label.replace(":", "_")
    assert set(runs) == {("swarm", f"{name} seed 0") for name in (*names, label)}
    whole = runs["swarm", f"{label} seed 0"].curves
    assert whole["seconds/train"] == [(t, 3.5) for t in range(3)]  # the mean of 1 to 6
    same(
        {name: curve for name, curve in whole.items() if not name.startswith("seconds/")},
        {k: curve for k, curve in recorded(source).items() if not k.startswith("seconds/")},
        SINGLE,
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("{}", "to: say where to, as in to=tensorboard"),
        ("{} to=tensorbord", "unknown sink 'tensorbord'; did you mean 'tensorboard'?"),
        ("{} to=tensorboard folder=tb", "tensorboard: unknown option 'folder'"),
        ("{} to=tensorboard,wandb dir=tb", "dir: with several names, options stand with one"),
        ("{} to=wandb mode=shared", "wandb: mode should be 'offline' or 'online'"),
        ("nowhere to=tensorboard", "nowhere: holds neither a run"),
    ],
)
def test_mistakes_are_one_line_and_nothing_is_written(
    words: str, said: str, compared: Path, call: Call, tmp_path: Path
) -> None:
    code, out, err = call("track " + words.format(compared))
    assert (code, out) == (2, "")
    assert said in " ".join(err.split())
    assert not list(tmp_path.iterdir())


def test_a_library_that_fails_is_one_line_with_its_name(
    source: Result, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "false")
    code, _, err = call(f"track {source.path} to=mlflow uri=mlruns")
    assert code == 1
    assert err.startswith("amity: sink mlflow: MlflowException: The filesystem tracking backend")
