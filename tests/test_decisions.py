"""Why a peer decided as it did: the report says it in words, where the strategy has any."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import amity
from amity.core import Explains
from amity.lab.result import Result
from amity.show.decisions import last_round_said, told
from amity.show.panels.decisions import MOST_LINES
from amity.strategies import strategies
from tests.conftest import Call, tiny

WORLD: dict[str, Any] = {
    "rounds": 8,
    "peers": 8,
    "partition": {"name": "iid", "samples": 40, "test": 30},
    "shift": {"name": "permute_labels", "sizes": "6,1,1"},
    "train": {"epochs": 5, "batch": 8, "lr": 0.1},
    "model": {"name": "mlp", "hidden": 32},
    "eval": {"every": 8, "gradients_every": 0},
}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return amity.run(tiny(**WORLD, strategy="friends"), tmp_path_factory.mktemp("run") / "r")


def test_a_report_says_in_words_why_one_peer_took_whom_it_took(
    result: Result, tmp_path: Path
) -> None:
    one = told(result)
    assert one is not None
    rounds, sentences = zip(*one.said, strict=True)
    assert rounds[0] == 0
    assert list(rounds) == sorted(set(rounds))
    assert len(sentences) > 1, "a loner, whose decision changed"
    assert all(a != b for a, b in pairwise(sentences))
    assert "it is like none of 7 others" in sentences[0]
    assert "strangers do not agree" in sentences[-1]
    page = result.save(tmp_path / "r.html").read_text(encoding="utf-8")
    assert page.count(f"Why {one.peer} took whom it took: friends") == 1
    for round, said in one.said:
        assert f"<td>{round + 1}</td><td>{said}</td>" in page
    assert last_round_said(result) in page


def test_every_sentence_follows_from_the_notes_of_its_round(result: Result) -> None:
    strategy = result.config.strategy.instance
    assert isinstance(strategy, Explains)
    for record in result.metrics:
        said = strategy.explain(record.notes)
        assert said.endswith(("takes nobody", "takes its friends", "takes everyone"))
        if record.taken > 0:
            assert not said.endswith("takes nobody")
    assert last_round_said(result) == "2 took nobody, 6 took friends"


def test_the_terminal_says_in_a_line_who_takes_whom(call: Call, result: Result) -> None:
    line = "run data=digits peers=4 rounds=2 strategy=friends eval.every=2 out=r"
    code, out, _ = call(line)
    assert code == 0
    (found,) = [text for text in out.splitlines() if text.strip().startswith("company")]
    assert "in the last round" in found
    assert last_round_said(result) != ""


def test_a_comparison_shows_those_that_have_words_and_no_others(tmp_path: Path) -> None:
    compared = amity.compare(
        ["gossip", "friends", "friends:k=2"],
        seeds=[0],
        out=tmp_path / "c",
        **{**WORLD, "rounds": 3},
    )
    page = compared.save().read_text(encoding="utf-8")
    assert page.count("took whom it took: friends<") == 1
    assert page.count("took whom it took: friends:k=2<") == 1
    assert "took whom it took: gossip" not in page
    plain = amity.run(tiny(strategy="gossip"), tmp_path / "g")
    assert told(plain) is None
    assert last_round_said(plain) == ""
    report = plain.save(tmp_path / "g.html").read_text(encoding="utf-8")
    # the script of the replay has these words for whoever opens a peer
    assert "took whom it took" not in re.sub(r"<script.*?</script>", "", report, flags=re.DOTALL)


@dataclass(frozen=True)
class Chatty:
    """Says something else in every round."""

    card = None

    def pulls(self, neighbours: int) -> float:
        return 0

    def decide(self, view: amity.View, row: amity.Row) -> amity.Plan:
        yield amity.Ask(amity.Pull(), ())
        return amity.Decision({view.me: 1.0}, {}, {"now": view.round})

    def explain(self, notes: Mapping[str, float]) -> str:
        return f"<it is {notes['now']:.0f}>" if notes["now"] else ""

    def sum_up(self, notes: Sequence[Mapping[str, float]]) -> str:
        return f"{len(notes)} spoke"


def test_a_strategy_of_ones_own_may_have_words_and_a_long_list_is_cut(tmp_path: Path) -> None:
    result = amity.run(tiny(strategy=Chatty(), rounds=MOST_LINES + 4, peers=2), tmp_path / "r")
    page = result.save(tmp_path / "r.html").read_text(encoding="utf-8")
    assert f"<td>{MOST_LINES + 1}</td><td>&lt;it is {MOST_LINES}&gt;</td>" in page
    assert f"it is {MOST_LINES + 1}" not in page
    assert "3 later changes are left out" in page
    assert "in the last round 2 spoke" in page


def test_who_has_words_is_known_by_what_it_can() -> None:
    speaking = {entry.name for entry in strategies if isinstance(entry.build({}), Explains)}
    assert "friends" in speaking
    assert "gossip" not in speaking
