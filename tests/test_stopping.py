"""Early stopping: judged on validation examples alone, the same however a run is done."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import amity
from amity.config import Stop, load
from amity.errors import ConfigError
from amity.events import Event, RoundDone, RunDone, RunStarted
from amity.lab.replay import Replay
from amity.records import RoundRecord
from amity.round.stopping import Stopping
from amity.show.remarks import remarks
from amity.simulate import Simulation
from amity.sinks.tally import Standings
from amity.store import read_config
from tests.conftest import Call, tiny

HELD_OUT = {"partition": {"name": "iid", "samples": 20, "test": 30, "validation": 0.3}}
PLAIN: dict[str, Any] = {
    "strategy": "gossip",
    "rounds": 25,
    "eval": {"gradients_every": 0},
} | HELD_OUT
PATIENT: dict[str, Any] = PLAIN | {"stop": {"patience": 4}}


def naive(values: list[float], patience: int) -> int:
    """How many rounds are done: the plain loop."""
    best, at = -math.inf, 0
    for t, value in enumerate(values):
        if value > best:
            best, at = value, t
        if t - at >= patience:
            return t + 1
    return len(values)


def validation(result: amity.Result) -> list[float]:
    """Mean accuracy on validation examples, by round."""
    by_round: dict[int, list[float]] = {}
    for record in result.metrics:
        assert record.accuracy_validation is not None
        by_round.setdefault(record.round, []).append(record.accuracy_validation)
    return [math.fsum(values) / len(values) for _, values in sorted(by_round.items())]


def test_a_run_ends_where_the_plain_loop_would_and_is_the_beginning_of_the_whole_run() -> None:
    whole = amity.run(tiny(**PLAIN), out="whole")
    ended = amity.run(tiny(**PATIENT), out="ended")
    done = naive(validation(whole), 4)
    assert 4 < done < 25, "a world in which it matters"
    assert len(ended.rounds) == done
    assert ended.complete
    assert [r.validation for r in ended.rounds] == validation(whole)[:done]
    extra = {"validation", "ended", "loss_validation"}
    for mine, others in ((ended.rounds, whole.rounds), (ended.metrics, whole.metrics)):
        for record, other in zip(mine, others, strict=False):
            line = {key: value for key, value in record.line().items() if key not in extra}
            assert line == other.line()
    assert ended.edges == whole.edges[: len(ended.edges)]
    best = max(range(done), key=lambda t: (validation(whole)[t], -t))
    assert ended.rounds[-1].ended == (
        f"accuracy on validation examples is no better than in round {best + 1}"
        f" ({validation(whole)[best]:.4g}), stop.patience=4"
    )
    assert remarks(ended)["ended"].startswith(f"after {done} of 25 rounds: accuracy on validation")
    assert "ended: after" in Path(ended.save("r.html")).read_text()


def test_a_killed_run_ends_in_the_same_round_after_a_resume(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = tiny(**PATIENT, checkpoint={"every": 3})
    whole = amity.run(config, out="whole")
    whole_round, killed_after = Simulation.round, len(whole.rounds) - 2

    def killed(self: Simulation) -> amity.Report:
        if self.next_round == killed_after:
            raise KeyboardInterrupt
        return whole_round(self)

    with monkeypatch.context() as patched:
        patched.setattr(Simulation, "round", killed)
        with pytest.raises(KeyboardInterrupt):
            amity.run(config, out="killed")
    assert not amity.Result(Path("killed"), read_config(Path("killed"))).complete
    amity.resume("killed")
    for name in ("rounds.jsonl", "metrics.jsonl", "edges.jsonl"):
        assert Path("killed", name).read_bytes() == Path("whole", name).read_bytes()
    before = Path("whole/rounds.jsonl").read_bytes()
    assert amity.resume("whole").complete
    assert Path("whole/rounds.jsonl").read_bytes() == before, "nothing is left to do"


def test_workers_do_not_change_when_it_ends() -> None:
    one, two = (
        amity.run(tiny(**PATIENT, engine={"workers": n}), out=f"w{n}").rounds for n in (1, 2)
    )
    assert one == two


class Heard:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def take(self, event: Event) -> None:
        self.events.append(event)

    def close(self) -> None:
        """Nothing is held."""


def test_sinks_hear_of_a_run_that_is_done_then_and_later() -> None:
    heard, again = Heard(), Heard()
    result = amity.run(tiny(**PATIENT), out="r", sinks=heard)
    assert isinstance(heard.events[-1], RunDone)
    tally = Standings()
    for event in heard.events:
        tally.take(event)
    assert (tally.done, tally.rounds) == (len(result.rounds), len(result.rounds))
    amity.resume("r", sinks=again)
    assert [type(event) for event in again.events] == [RunStarted, RunDone]
    replayed = list(Replay.of(result).events())
    assert isinstance(replayed[-1], RunDone)
    assert sum(isinstance(event, RoundDone) for event in replayed) == len(result.rounds)


def test_in_a_comparison_each_run_ends_for_itself_and_is_not_done_again(call: Call) -> None:
    words = (
        "compare peers=6 rounds=40 partition=iid partition.samples=20 partition.test=30"
        " partition.validation=0.3 model.hidden=12 strategies=local,gossip seeds=0,1"
        " stop.patience=3 out=c"
    )
    code, out, err = call(words)
    assert (code, err) == (0, "")
    runs = {
        p: len((p / "rounds.jsonl").read_text().split("\n")) for p in Path("c").glob("*/seed-*")
    }
    assert len(runs) == 4
    assert len(set(runs.values())) > 1
    assert out.count(", ended: after ") == 4
    before = {p: p.stat().st_mtime_ns for p in Path("c").rglob("seed-*/*.jsonl")}
    code, again, _ = call(words)
    assert code == 0
    assert again.count(", ended: after ") == 4
    assert {p: p.stat().st_mtime_ns for p in before} == before


def test_a_resumed_run_says_that_it_was_ended(call: Call) -> None:
    amity.run(tiny(**PATIENT), out="r")
    code, out, _ = call("resume r")
    assert code == 0
    assert "r: was complete already (ended early)" in out
    assert "     ended  after " in out


def test_without_it_a_config_is_what_it_was() -> None:
    config = load()
    assert "stop" not in config.to_dict()
    assert config.replace(**{"partition.validation": 0.2, "stop.patience": 3}).to_dict()[
        "stop"
    ] == {"patience": 3}
    written = config.replace(**{"partition.validation": 0.2, "stop.patience": 3, "stop.after": 9})
    Path("c.toml").write_text(written.to_toml())
    assert load("c.toml") == written


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"stop.patience": 3}, "there are no validation examples to judge by .* set partition.val"),
        ({"stop.metric": "loss"}, "stop: metric means nothing without stop.patience; set it too"),
        ({"stop.after": 3}, "stop: after means nothing without stop.patience; set it too"),
        ({"stop.patience": -1}, "stop: patience should be greater than or equal to 0, got -1"),
        ({"stop.metric": "test"}, "stop: metric should be 'accuracy' or 'loss', got 'test'"),
        ({"stop.patiense": 3}, "stop: unknown option 'patiense'; did you mean 'patience'?"),
        ({"patience": 3}, r"unknown key 'patience'; did you mean stop.patience=3\?"),
        ({"stop": 3}, "stop: expected stop.option=value, got 3"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(None, given)


def test_a_share_that_sets_nobody_s_example_aside_is_refused_before_a_round() -> None:
    part = {"name": "iid", "samples": 10, "test": 30, "validation": 0.01}
    with pytest.raises(ConfigError, match=r"nobody has enough examples to set one aside"):
        amity.run(tiny(partition=part, stop={"patience": 3}), out="r")


def test_held_out_examples_of_a_strategy_serve(call: Call) -> None:
    assert load(None, {"strategy": "fomo", "stop.patience": 3}).stop.patience == 3
    planned = {"strategy": "fomo", "stop.patience": 3, "changes": "from=3 strategy=gossip"}
    assert load(None, planned).partition.instance.validation == 0.1


def test_real_peers_refuse_it_with_a_line(call: Call) -> None:
    pytest.importorskip("zenoh")
    code, _, err = call("swarm --peers 2 stop.patience=3 partition.validation=0.2 out=s")
    assert code == 2
    assert "stop.patience: is for `amity run`, `compare` and `sweep`" in err
    assert not Path("s").exists()


def rounds_until_the_end(stop: Stop, values: list[float | None]) -> int | None:
    stopping = Stopping(stop)
    for t, value in enumerate(values):
        if stopping.verdict(RoundRecord(round=t, validation=value)) is not None:
            return t + 1
    return None


@pytest.mark.parametrize(
    ("stop", "values", "done"),
    [
        (Stop(patience=2), [0.1, 0.2, 0.2, 0.2], 4),
        (Stop(patience=2), [0.1, 0.2, 0.1, 0.3, 0.1], None),
        (Stop(patience=1), [0.5, 0.4], 2),
        (Stop(patience=2, after=6), [0.5, 0.4, 0.4, 0.4, 0.4, 0.4], 6),
        (Stop(patience=2, margin=0.05), [0.50, 0.52, 0.54], 3),
        (Stop(patience=2, margin=0.05), [0.50, 0.52, 0.56], None),
        (Stop(patience=2, metric="loss"), [1.0, 0.9, 0.8, 0.9, 0.8], 5),
        (Stop(patience=2, metric="loss"), [math.nan, math.nan], 2),
        (Stop(patience=2, metric="loss"), [2.0, math.inf, 1.0], None),
        (Stop(patience=3), [0.5, None, None, 0.4, None], 4),
    ],
)
def test_when_it_is_enough(stop: Stop, values: list[float | None], done: int | None) -> None:
    assert rounds_until_the_end(stop, values) == done
