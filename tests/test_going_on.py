"""A run that goes on past its planned end: what was done stays, to the bit, and the record says
where it was extended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import amity
from amity.config import Config
from amity.errors import RunDirError
from amity.show.remarks import remarks
from amity.simulate import Simulation
from amity.store import RunDir, read_config
from tests.conftest import Call, tiny

FILES = ("rounds.jsonl", "metrics.jsonl", "edges.jsonl")
SHORT: dict[str, Any] = {"rounds": 6, "checkpoint": {"every": 4}}


def lines(run: str | Path) -> dict[str, list[str]]:
    return {name: Path(run, name).read_text().splitlines() for name in FILES}


def began_with(longer: dict[str, list[str]], shorter: dict[str, list[str]]) -> bool:
    return all(longer[name][: len(shorter[name])] == shorter[name] for name in FILES)


STRATEGIES: list[dict[str, Any]] = [
    {"strategy": "gossip"},
    {"strategy": "pens"},
    {"strategy": "friends"},
    {"strategy": "afind+", "method": "dispfl"},
    {"strategy": "gossip", "privacy": {"name": "gradients", "sigma": 2.0}},
]


@pytest.mark.parametrize("what", STRATEGIES, ids=lambda what: "-".join(map(str, what.values())))
def test_the_first_part_is_that_of_the_shorter_run_and_the_rest_follows_from_the_record(
    what: dict[str, Any],
) -> None:
    """A run that knows from the start where it will be extended is the oracle."""
    amity.run(tiny(**what, **SHORT), out="r")
    before = lines("r")
    result = amity.resume("r", rounds=11)
    assert len(result.rounds) == 11
    assert began_with(lines("r"), before)
    oracle = tiny(**what, **SHORT).replace(rounds=11, extended=[[6, 6]])
    amity.run(oracle, out="oracle")
    assert lines("oracle") == lines("r")
    assert read_config(Path("r")).extended == ((6, 6),)
    assert remarks(result)["extended"] == "after 6 rounds, from 6 to 11"
    assert "extended: after 6 rounds, from 6 to 11" in Path(result.save("r.html")).read_text()


def test_where_a_strategy_has_phases_more_rounds_from_the_start_are_another_run() -> None:
    """PENS looks for friends in the first 40 % of all rounds: 3 of 6, and 5 of 11."""
    amity.run(tiny(strategy="pens", **SHORT), out="r")
    amity.resume("r", rounds=11)
    amity.run(tiny(strategy="pens", **SHORT).replace(rounds=11), out="whole")
    assert lines("r") != lines("whole")
    amity.run(tiny(strategy="gossip", **SHORT), out="g")
    amity.resume("g", rounds=11)
    whole = amity.run(tiny(strategy="gossip", **SHORT).replace(rounds=11), out="plain")
    assert amity.Result(Path("g"), read_config(Path("g"))).edges == whole.edges


def killed_in(config: Config | None, round: int, patched: pytest.MonkeyPatch, **more: Any) -> None:
    """Run into `r`, or go on with it, until a round in which everything ends."""
    whole_round = Simulation.round

    def killed(self: Simulation) -> amity.Report:
        if self.next_round == round:
            raise KeyboardInterrupt
        return whole_round(self)

    patched.setattr(Simulation, "round", killed)
    with pytest.raises(KeyboardInterrupt):
        amity.resume("r", **more) if config is None else amity.run(config, out="r")


def test_a_kill_in_the_second_part_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny(strategy="pens", **SHORT)
    amity.run(config, out="r")
    with monkeypatch.context() as patched:
        killed_in(None, 9, patched, rounds=11)
    amity.resume("r")
    amity.run(config.replace(rounds=11, extended=[[6, 6]]), out="oracle")
    assert lines("r") == lines("oracle")


def test_a_run_that_did_not_end_is_extended_from_its_last_checkpoint_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = tiny(strategy="pens", **SHORT)
    amity.run(config, out="whole")
    with monkeypatch.context() as patched:
        killed_in(config, 5, patched)
    result = amity.resume("r", rounds=11)
    each = {"rounds.jsonl": 1, "metrics.jsonl": 6, "edges.jsonl": 6}
    shorter = {name: found[: 4 * each[name]] for name, found in lines("whole").items()}
    assert began_with(lines("r"), shorter)
    assert remarks(result)["extended"] == "after 4 rounds, from 6 to 11"


def test_it_may_be_extended_again() -> None:
    amity.run(tiny(**SHORT), out="r")
    amity.resume("r", rounds=8)
    before = lines("r")
    result = amity.resume("r", rounds=9)
    assert began_with(lines("r"), before)
    said = "after 6 rounds, from 6 to 8; after 8 rounds, from 8 to 9"
    assert remarks(result)["extended"] == said
    assert amity.resume("r", rounds=9).complete, "as many as there are: nothing to do"


def test_the_command_says_what_stays_and_what_may_differ(call: Call) -> None:
    amity.run(tiny(**SHORT), out="r")
    before = lines("r")
    code, out, err = call("resume r rounds=8 sinks=plain")
    assert (code, err) == (0, "")
    assert "r: 6 rounds are done and stay as they are; 6 were planned, now 8. What looks at" in out
    assert "  extended  after 6 rounds, from 6 to 8\n" in out
    assert began_with(lines("r"), before)
    code, out, _ = call("resume r")
    assert "r: was complete already; rounds=N with N > 8 goes on" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("rounds=3", "r: was begun with rounds=6, which can be raised, but not lowered to 3"),
        ("rounds=0", "rounds: should be greater than or equal to 1, got 0"),
        ("rounds=many", "rounds: expected a whole number >= 0, got 'many'"),
        ("rounds", "expected key=value, got 'rounds'"),
        ("train.lr=0.1", "train.lr: a run is continued as it was begun, and resume takes rounds=N"),
        ("rounds=9 seed=3", "seed: a run is continued as it was begun, and resume takes rounds=N"),
        ("strategy=gossip", "strategy: a run is continued as it was begun"),
        ("rounds=9 sinks=nosuch", "unknown sink 'nosuch'"),
    ],
)
def test_nothing_else_can_be_changed(call: Call, words: str, message: str) -> None:
    amity.run(tiny(**SHORT), out="r")
    before = {p: p.read_bytes() for p in Path("r").rglob("*") if p.is_file()}
    code, _, err = call(f"resume r {words}")
    assert code == 2
    assert message in err
    assert {p: p.read_bytes() for p in Path("r").rglob("*") if p.is_file()} == before


def test_what_is_running_or_was_ended_early_is_not_extended() -> None:
    amity.run(tiny(**SHORT), out="r")
    with RunDir.open(Path("r")), pytest.raises(RunDirError, match=r"another process is running it"):
        amity.resume("r", rounds=9)
    assert not Path("r/extended.jsonl").exists()
    part = {"name": "iid", "samples": 20, "test": 30, "validation": 0.3}
    early = amity.run(tiny(partition=part, rounds=60, stop={"patience": 2}), out="e")
    assert len(early.rounds) < 60
    with pytest.raises(RunDirError, match=r"e: was ended early, in round \d+ of 60, by stop.pat"):
        amity.resume("e", rounds=90)
