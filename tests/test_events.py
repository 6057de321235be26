"""The one stream of events: what is told, in which order, and to whom, whatever runs."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import amity
from amity.config import load
from amity.errors import ConfigError, Failure
from amity.events import (
    CellId,
    Event,
    PeerEvent,
    Progress,
    RoundDone,
    RunDone,
    RunFailed,
    RunQueued,
    RunStarted,
    Sink,
)
from amity.net.ops.swarm import Swarm
from amity.net.options import Net
from amity.sinks.jsonl import JsonLines
from amity.sinks.stream import Stream
from amity.store import read_lines
from tests.conftest import Call, tiny

FAILING = """
import os, signal
from dataclasses import dataclass
import amity

@dataclass(frozen=True)
class Failing(amity.Cardless):
    how: str = "raise"

    def decide(self, view, row):
        yield from ()
        if view.round == 1 and self.how == "exit":
            raise SystemExit(3)
        if view.round == 1 and self.how == "raise":
            raise ValueError("a mistake")
        if view.round == 1 and self.how == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        return amity.Decision({view.me: 1.0})

    def pulls(self, neighbours):
        return 0
"""


@dataclass
class Memory:
    """A sink that keeps everything."""

    events: list[Event] = field(default_factory=list)
    closed: int = 0

    def take(self, event: Event) -> None:
        assert not self.closed
        self.events.append(event)

    def close(self) -> None:
        self.closed += 1

    def of(self, label: str, seed: int = 0) -> list[Event]:
        """What was told of one cell."""
        return [e for e in self.events if (e.cell.label, e.cell.seed) == (label, seed)]


def shape(events: Sequence[Event]) -> list[str]:
    """`start 0`, `round 0`, ...: what a cell tells, without what depends on the clock."""
    names = {RunQueued: "planned", RunDone: "done", RunFailed: "failed"}
    told = []
    for event in events:
        if isinstance(event, RunStarted):
            told.append(f"start {event.first}")
        elif isinstance(event, RoundDone):
            told.append(f"round {event.report.round}")
        elif not isinstance(event, Progress | PeerEvent):
            told.append(names[type(event)])
    return told


def timeless(event: Event) -> str:
    """An event without its seconds and folders: the same for the same run."""
    cell = dataclasses.replace(event.cell, path="", group="")
    event = dataclasses.replace(event, cell=cell)
    if isinstance(event, RoundDone):
        report = dataclasses.replace(event.report, seconds=dict.fromkeys(event.report.seconds, 0.0))
        event = dataclasses.replace(event, report=report)
    return repr(event)


# -- what is told ----------------------------------------------------------------------------------


def test_a_run_tells_its_start_every_round_with_its_report_and_its_end() -> None:
    heard = Memory()
    result = amity.run(tiny(strategy="gossip"), "r", heard)
    assert shape(heard.events) == ["start 0", "round 0", "round 1", "round 2", "done"]
    start = heard.events[0]
    assert isinstance(start, RunStarted)
    assert start.cell == CellId(label="gossip", seed=0, path="r")
    assert start.config == load(Path("r/config.toml")).to_dict()
    assert (start.rounds, start.reference) == (3, False)
    reports = [event.report for event in heard.events if isinstance(event, RoundDone)]
    assert [report.network for report in reports] == result.rounds
    assert [record for report in reports for record in report.peers.values()] == result.metrics
    assert heard.closed == 1


def test_a_round_is_on_the_disk_before_it_is_told() -> None:
    seen = []

    class Reads(Memory):
        def take(self, event: Event) -> None:
            super().take(event)
            if isinstance(event, RoundDone):
                lines = [read_lines(Path(event.cell.path) / f"{f}.jsonl") for f in FILES]
                seen.append([len(found) for found in lines])

    FILES = ("rounds", "metrics", "edges", "timings")
    amity.run(tiny(), "r", Reads())
    assert seen == [[t, 6 * t, 6 * t, t] for t in (1, 2, 3)]


class Interrupts(Memory):
    """Ctrl-C in the middle of a round's events."""

    def take(self, event: Event) -> None:
        if isinstance(event, RoundDone) and event.report.round == 1:
            raise KeyboardInterrupt


def test_an_interrupted_run_says_so_and_its_resume_begins_where_it_went_on() -> None:
    heard = Memory()
    with pytest.raises(KeyboardInterrupt):
        amity.run(tiny(checkpoint={"every": 1}), "r", [heard, Interrupts()])
    assert shape(heard.events) == ["start 0", "round 0", "round 1", "failed"]
    assert heard.events[-1] == RunFailed(cell=heard.events[0].cell, error="KeyboardInterrupt")
    again, third = Memory(), Memory()
    amity.resume("r", [again])
    assert shape(again.events) == ["start 2", "round 2", "done"]
    amity.resume("r", third)
    assert shape(third.events) == ["start 3", "done"]
    assert heard.closed == again.closed == third.closed == 1


def test_a_run_that_cannot_even_begin_is_told_as_begun_and_failed() -> None:
    heard = Memory()
    with pytest.raises(amity.AmityError, match="use smaller partition"):
        amity.run(tiny(partition={"samples": 900}), "r", heard)
    assert shape(heard.events) == ["start 0", "failed"]


def test_parallel_and_sequential_cells_tell_the_same_events() -> None:
    specs, told = ["local", "gossip:k=2", "oracle"], []
    for out, jobs in (("alone", 1), ("together", 2)):
        heard = Memory()
        amity.compare(specs, [0, 1], tiny(), out, jobs, heard)
        planned = [e for e in heard.events if isinstance(e, RunQueued)]
        assert heard.events[:6] == planned, "all plans come first"
        assert {e.cell.group for e in heard.events} == {out}
        assert {e.cell.label for e in planned if e.reference} == {"oracle"}
        for spec in specs:
            for seed in (0, 1):
                expected = ["planned", "start 0", "round 0", "round 1", "round 2", "done"]
                assert shape(heard.of(spec, seed)) == expected
        told.append(Counter(timeless(e) for e in heard.events if not isinstance(e, Progress)))
    assert told[0] == told[1]


def test_cells_that_were_complete_before_tell_so_and_others_join_them() -> None:
    amity.compare(["local"], [0], tiny(), "c")
    heard = Memory()
    amity.compare(["local", "gossip"], [0], tiny(), "c", 2, heard)
    assert shape(heard.of("local")) == ["planned", "start 3", "done"]
    assert shape(heard.of("gossip"))[:2] == ["planned", "start 0"]


def test_a_sweep_tells_a_cell_for_every_try() -> None:
    heard = Memory()
    result = amity.sweep(
        ["gossip"], {"gossip.k": [1, 2]}, [0, 1], config=tiny(rounds=1), out="s", sinks=heard
    )
    assert {e.cell.label for e in heard.events} == {a_try.label for a_try in result.tries}
    assert all(shape(heard.of(t.label, 1))[-1] == "done" for t in result.tries)


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(("how", "says"), [("raise", "a mistake"), ("exit", "SystemExit: 3")])
def test_a_cell_that_fails_is_told_and_the_others_go_on(jobs: int, how: str, says: str) -> None:
    Path("f.py").write_text(FAILING)
    heard = Memory()
    result = amity.compare(["local", f"f.py:Failing:how={how}"], [0], tiny(), "c", jobs, heard)
    label = f"Failing:how={how}"
    assert shape(heard.of(label)) == ["planned", "start 0", "round 0", "failed"]
    end = heard.of(label)[-1]
    assert isinstance(end, RunFailed)
    assert says in end.error
    assert result.errors == {f"{label} seed 0": end.error}
    assert shape(heard.of("local"))[-1] == "done"


def test_when_a_worker_is_killed_what_was_on_its_way_is_told_as_failed() -> None:
    Path("f.py").write_text(FAILING)
    heard = Memory()
    with pytest.raises(Failure, match="a worker process died"):
        amity.compare(["f.py:Failing:how=die", "local"], [0, 1], tiny(), "c", 2, heard)
    begun = {e.cell for e in heard.events if isinstance(e, RunStarted)}
    ended = {e.cell for e in heard.events if isinstance(e, RunDone | RunFailed)}
    assert begun == ended
    assert shape(heard.of("Failing:how=die"))[-1] == "failed"
    assert heard.closed == 1


# -- sinks that fail -------------------------------------------------------------------------------


@dataclass
class Fails(Memory):
    at: str = ""

    def take(self, event: Event) -> None:
        super().take(event)
        if self.at == "take":
            raise OSError("no space left")

    def close(self) -> None:
        super().close()
        if self.at in ("close", "take"):
            raise RuntimeError("cannot close")


@dataclass(frozen=True)
class FailsToOpen:
    error: BaseException

    def open(self) -> Sink:
        raise self.error


def test_a_sink_that_fails_is_reported_in_one_line_and_the_run_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before, after, quiet = Memory(), Memory(), tiny(strategy="gossip")
    takes, closes = Fails(at="take"), Fails(at="close")
    broken = [FailsToOpen(RuntimeError("not today")), FailsToOpen(SystemExit(2)), takes, closes]
    result = amity.run(quiet, "r", [before, *broken, after])
    assert result.complete
    assert before.events == after.events
    assert shape(after.events) == ["start 0", "round 0", "round 1", "round 2", "done"]
    assert (len(takes.events), takes.closed, closes.closed) == (1, 1, 1)
    assert [record.getMessage() for record in caplog.records] == [
        "sink 'FailsToOpen' failed: RuntimeError: not today; the run goes on without it",
        "sink 'FailsToOpen' failed: SystemExit: 2; the run goes on without it",
        "sink 'Fails' failed: OSError: no space left; the run goes on without it",
        "sink 'Fails' failed: RuntimeError: cannot close; the run goes on without it",
    ]
    assert amity.run(quiet, "undisturbed").metrics == result.metrics


def test_a_request_that_is_wrong_stops_before_anything_begins() -> None:
    opened = Memory()
    with pytest.raises(ConfigError, match="needs a package"):
        amity.run(tiny(), "r", [opened, FailsToOpen(ConfigError("needs a package"))])
    assert (opened.events, opened.closed) == ([], 1)
    assert not Path("r").exists()
    for wanted, says in (
        ("plian", "unknown sink 'plian'; did you mean 'plain'?"),
        ("plain:evry=3", "plain: unknown option 'evry'; did you mean 'every'?"),
        ("plain:every=-1", "plain: every should be greater than or equal to 0, got -1"),
        (["jsonl", 3], "sinks: 3 is neither a name nor a sink"),
        (Memory, "sinks: Memory is a class; give an instance of it"),
        ({"plain": 1}, "sinks: expected names such as 'plain,jsonl', got"),
    ):
        with pytest.raises(ConfigError) as error:
            amity.run(tiny(), "r", wanted)  # type: ignore[arg-type]
        assert str(error.value).startswith(says)
    assert not Path("r").exists()


# -- which sinks -----------------------------------------------------------------------------------


def lines(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_names_entries_and_objects_may_be_mixed_and_all_hear_the_same() -> None:
    Path("mine.py").write_text(
        "from dataclasses import dataclass\n"
        "from amity.sinks.jsonl import LineFile\n"
        "@dataclass(frozen=True)\n"
        "class Mine:\n"
        "    to: str\n"
        "    def open(self):\n"
        "        return LineFile(self.to)\n"
    )
    heard = Memory()
    wanted = ["jsonl", "jsonl:path=a/b.jsonl", JsonLines("c.jsonl"), "mine.py:Mine:to=d", heard]
    amity.run(tiny(), "r", wanted)
    told = [[line["event"] for line in lines(f)] for f in ("r/events.jsonl", "a/b.jsonl", "d")]
    assert told == [[type(e).__name__ for e in heard.events if not isinstance(e, Progress)]] * 3
    assert [line | {"at": 0} for line in lines("c.jsonl")] == [
        line | {"at": 0} for line in lines("d")
    ]


def test_a_line_of_json_has_the_whole_event_with_records_as_in_metrics_jsonl() -> None:
    amity.compare(["local", "gossip"], [0], tiny(), "c", sinks="jsonl")
    told = [line for line in lines("c/events.jsonl") if line["event"] == "RoundDone"]
    mine = [line["report"] for line in told if line["cell"]["label"] == "gossip"]
    assert [record for report in mine for record in report["peers"].values()] == lines(
        "c/gossip/seed-0/metrics.jsonl"
    )
    assert [report["network"] for report in mine] == lines("c/gossip/seed-0/rounds.jsonl")


def test_sinks_stand_in_a_file_and_are_no_part_of_the_run() -> None:
    keys = 'peers = 4\nrounds = 2\npartition = {samples = 10, test = 20, name = "pathological"}\n'
    Path("a.toml").write_text('sinks = ["jsonl:path=told.jsonl"]\n' + keys)
    Path("b.toml").write_text(keys)
    result = amity.run("a.toml", "r")
    assert [line["event"] for line in lines("told.jsonl")][-1] == "RunDone"
    assert "sinks" not in Path("r/config.toml").read_text()
    assert result.config.digest == amity.run("b.toml", "b").config.digest
    Path("told.jsonl").unlink()
    amity.run("a.toml", "r", sinks=[])
    assert not Path("told.jsonl").exists(), "what is asked for goes before what the file says"
    amity.run({"peers": 4, "rounds": 1, "sinks": "jsonl:path=m.jsonl"}, "m")
    assert lines("m.jsonl")[-1]["event"] == "RunDone"


def test_python_is_silent_unless_asked(capsys: pytest.CaptureFixture[str]) -> None:
    amity.run(tiny(), "r")
    assert capsys.readouterr() == ("", "")
    amity.run(tiny(), "s", "plain,rounds")
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("round 0: accuracy ")
    assert out[-1].startswith("3 of 3 rounds done; accuracy ")


# -- the command line ------------------------------------------------------------------------------

SMALL = "peers=4 rounds=2 partition.samples=10 partition.test=20 model.hidden=8"


def test_every_command_that_runs_takes_sinks(call: Call) -> None:
    sinks = "sinks=plain,jsonl:path=e.jsonl"
    for line, cells in (
        (f"run {SMALL} strategy=gossip out=r {sinks}", 1),
        (f"resume r {sinks}", 1),
        (f"compare {SMALL} strategies=local,gossip seeds=0 out=c {sinks}", 2),
        (f"sweep {SMALL} strategies=gossip gossip.k=1,2 out=s {sinks}", 2),
    ):
        code, out, err = call(line)
        assert (code, err) == (0, "")
        assert f"{2 * cells} of {2 * cells} rounds done" in out
        ends = [told for told in lines("e.jsonl") if told["event"] == "RunDone"]
        assert len({told["cell"]["path"] for told in ends}) == cells
        Path("e.jsonl").unlink()


def test_sinks_of_a_file_replace_the_display_and_those_of_the_command_replace_both(
    call: Call,
) -> None:
    Path("a.toml").write_text('sinks = ["jsonl:path=e.jsonl"]\nrounds = 1\npeers = 3\n')
    assert "rounds done" not in call("run a.toml out=a")[1]
    assert len(lines("e.jsonl")) == 3
    assert "1 of 1 rounds done" in call("run a.toml out=b sinks=plain")[1]
    assert "rounds done" not in call("run a.toml out=c sinks=")[1]
    assert len(lines("e.jsonl")) == 3
    assert call("run sinks=plian out=d")[2] == (
        "amity: unknown sink 'plian'; did you mean 'plain'?\n"
    )
    Path("b.toml").write_text("sinks = 3\n")
    assert "b.toml: sinks should be names" in call("run b.toml out=d")[2]
    assert not Path("d").exists()


def test_a_sink_that_fails_is_one_line_on_standard_error(call: Call) -> None:
    code, out, err = call(f"run {SMALL} out=r sinks=jsonl:path=/dev/full,plain")
    assert code == 0
    assert "2 of 2 rounds done" in out
    assert err == (
        "amity: sink 'jsonl' failed: OSError: [Errno 28] No space left on device; the run goes on"
        " without it\n"
    )


def test_a_table_of_the_paper_counts_its_cells_by_row(call: Call) -> None:
    code, out, err = call("reproduce toy --preset smoke out=t sinks=plain,jsonl:path=e.jsonl")
    assert (code, err) == (0, "")
    planned = [told["cell"] for told in lines("e.jsonl") if told["event"] == "RunQueued"]
    assert planned
    assert {cell["row"] for cell in planned} < {
        part for c in planned for part in c["label"].split(" | ")
    }
    assert {cell["group"] for cell in planned} == {"t/toy-smoke"}
    assert "rounds done" in out


# -- real peers ------------------------------------------------------------------------------------


def hear_until(swarm: Swarm, enough: Callable[[], bool]) -> None:
    limit = time.monotonic() + 600
    while not enough():
        assert time.monotonic() < limit, "it was never told"
        swarm.hear()
        time.sleep(0.02)


def test_a_swarm_tells_the_events_of_all_its_peers_also_of_one_that_is_killed(
    tmp_path: Path,
) -> None:
    heard = Memory()
    config, net = tiny(peers=3, rounds=6), Net(gather=30, deadline=30, patience=30)
    swarm = Swarm(tmp_path / "s", config, net, tell=heard.take)
    swarm.lay_out()
    swarm.start()
    try:
        hear_until(swarm, lambda: "round 1" in shape(heard.of("peer-01")))
        swarm.kill("peer-01", signal.SIGKILL)
        hear_until(swarm, lambda: "failed" in shape(heard.of("peer-01")))
        swarm.start(["peer-01"])
        swarm.wait(60)
    finally:
        swarm.stop()
    for name in swarm.names:
        mine = heard.of(name)
        assert {e.cell.path for e in mine} == {str(swarm.folder(name) / "state")}
        assert {e.cell.group for e in mine} == {str(swarm.out)}
        for event in mine:
            if isinstance(event, RoundDone):
                assert list(event.report.peers) == [name]
            if isinstance(event, PeerEvent):
                assert event.peer == name
        if name != "peer-01":
            expected = ["planned", "start 0", *(f"round {t}" for t in range(6)), "done"]
            assert shape(mine) == expected
    killed = shape(heard.of("peer-01"))
    assert killed[:4] == ["planned", "start 0", "round 0", "round 1"]
    assert killed[-1] == "done"
    failed = killed.index("failed")
    assert killed.count("failed") == 1
    assert killed[failed + 1].startswith("start ")
    assert heard.of("peer-01")[-1].cell in {
        e.cell for e in heard.events if isinstance(e, RunFailed) and e.error == "killed by SIGKILL"
    }
    happened = {(e.peer, e.what, e.about) for e in heard.events if isinstance(e, PeerEvent)}
    assert ("peer-00", "joined", "peer-02") in happened
    assert {("peer-00", "left", "peer-01"), ("peer-02", "left", "peer-01")} & happened


def test_a_swarm_peer_that_cannot_start_is_told_with_its_last_words(tmp_path: Path) -> None:
    heard = Memory()
    swarm = Swarm(tmp_path / "s", tiny(peers=2, rounds=1), tell=heard.take)
    swarm.lay_out()
    (swarm.folder("peer-00") / "identity" / "key.pem").unlink()
    swarm.start(["peer-00"])
    swarm.wait(60)
    assert shape(heard.events) == ["planned", "start 0", "failed"]
    end = heard.events[-1]
    assert isinstance(end, RunFailed)
    assert "key.pem" in end.error
    assert swarm.failed == {"peer-00": end.error}


def test_a_real_peer_tells_its_sinks_what_happens_between_peers(tmp_path: Path) -> None:
    net = Net(gather=0.2, deadline=1, patience=1, least=0)
    swarm = Swarm(tmp_path / "s", tiny(peers=2, rounds=2), net)
    swarm.lay_out()
    folder = swarm.folder("peer-00")
    text = (folder / "peer.toml").read_text()
    told = tmp_path / "told.jsonl"
    sinks = f'[peer]\nsinks = ["rounds", "jsonl:path={told}"]\n'
    (folder / "peer.toml").write_text(text.replace("[peer]\n", sinks))
    command = [sys.executable, "-m", "amity", "peer", "run", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=True)
    assert "round 1: accuracy " in done.stdout
    assert "took from nobody" in done.stdout
    events = lines(str(told))
    assert [e["event"] for e in events if e["event"] not in ("PeerEvent", "Progress")] == [
        "RunStarted",
        "RoundDone",
        "RoundDone",
        "RunDone",
    ]
    assert {e["cell"]["label"] for e in events} == {"peer-00"}
    late = [e for e in events if e["event"] == "PeerEvent" and e["what"] == "late"]
    assert [(e["about"], e["round"], e["why"]) for e in late] == [
        ("peer-01", 0, "not reachable"),
        ("peer-01", 1, "not reachable"),
    ]
    again = subprocess.run([*command, "sinks="], capture_output=True, text=True, check=True)
    assert "round" not in again.stdout
    assert lines(str(told)) == events


def test_peers_are_told_of_in_a_live_table_or_by_a_line_now_and_then(call: Call) -> None:
    environment = {**os.environ, "COLUMNS": "120"}
    words = ["swarm", "--peers", "2", "rounds=2", "partition.samples=10", "model.hidden=8", "out=s"]
    done = subprocess.run(
        [sys.executable, "-m", "amity", *words],
        capture_output=True,
        text=True,
        env=environment,
        timeout=900,
        check=True,
    )
    assert "all peers have done 2 of 2 rounds, 0 running; accuracy " in done.stdout
    assert "report: s/report.html" in done.stdout


def test_a_stream_without_sinks_costs_nothing_and_closes_once() -> None:
    with Stream([]) as stream:
        stream.take(RunDone(cell=CellId(label="a", seed=0, path="a")))
    stream.close()
