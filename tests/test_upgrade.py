"""What Amity 0.1.0 left behind is read and gone on with; what a later version wrote is left alone
(tests/test_owner.py), and so is another version in the network (tests/test_company.py).

state-0.1.0.tar.gz holds the state directories of two real peers, as Amity 0.1.0 wrote them:
`amity swarm --peers 2 rounds=2 strategy=gossip strategy.k=1 partition.samples=10 ...`.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from amity.config import Config, load
from amity.net.ops.swarm import Swarm
from amity.store import commits, owner_of, read_lines
from tests.conftest import Call
from tests.hub import Hub
from tests.test_node import QUICK, lives, row

NAMES = ("peer-00", "peer-01")
LINES = ("metrics.jsonl", "edges.jsonl", "rounds.jsonl")


@pytest.fixture
def old(tmp_path: Path, repository: Path) -> Path:
    with tarfile.open(repository / "tests" / "state-0.1.0.tar.gz") as archive:
        archive.extractall(tmp_path / "old", filter="data")
    return tmp_path / "old"


def laid_out(out: Path, old: Path, config: Config) -> Swarm:
    """Peers of this version, with the state of their former selves."""
    swarm = Swarm(out, config, QUICK)
    swarm.lay_out()
    for name in NAMES:
        (old / name).rename(swarm.folder(name) / "state")
    return swarm


def test_a_state_of_the_first_version_is_shown_and_gone_on_with(
    tmp_path: Path, old: Path, call: Call
) -> None:
    config = load(old / "peer-00" / "config.toml")
    states = {name: tmp_path / "new" / "peers" / name / "state" for name in NAMES}
    swarm = laid_out(tmp_path / "new", old, config.replace(rounds=4))
    before = {(n, f): (states[n] / f).read_bytes() for n in NAMES for f in LINES}
    assert {owner_of(state) for state in states.values()} == {"peer"}
    shown = call(f"peer status {tmp_path / 'new'}")[1]
    assert "peer-00: not running, 2 of 2 rounds done, accuracy " in shown
    assert call(f"report {states['peer-00'].parent}")[0] == 0
    assert set(lives(swarm, Hub()).values()) == {None}
    for name, state in states.items():
        for file in LINES:
            assert (state / file).read_bytes().startswith(before[name, file])
        assert [r["round"] for r in read_lines(state / "metrics.jsonl")] == [0, 1, 2, 3]
        assert row(swarm, name) == {"peer-00": 0.5, "peer-01": 0.5}
        assert read_lines(state / "extended.jsonl")[0]["at"] == 2
        assert json.loads((state / "owner.json").read_bytes())["owner"] == "peer"
        assert next(commits(state)).round == 4


def test_a_state_of_the_first_version_with_another_config_is_refused_in_one_line(
    tmp_path: Path, old: Path, call: Call
) -> None:
    config = load(old / "peer-00" / "config.toml")
    swarm = laid_out(tmp_path / "new", old, config.replace(seed=1))
    code, _, error = call(f"peer run {swarm.folder('peer-00')}")
    assert code == 2
    assert "holds a run of another config (differs in seed); choose another `state`" in error
    assert len(error.strip().splitlines()) == 1
