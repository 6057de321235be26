"""Nothing but a real network ever writes where its records lie."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from amity.errors import RunDirError
from amity.lab.run import resume, run
from amity.net.node import Node
from amity.net.ops.collect import merge
from amity.net.ops.swarm import Swarm
from amity.net.options import Net
from amity.net.setup import read_setup
from amity.store import RunDir, owner_of
from amity.store.owner import FORMAT, OWNER
from tests.conftest import Call, tiny
from tests.test_parity import swarm_of


def contents(folder: Path) -> dict[str, bytes]:
    """All files below a folder. A report is no record."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("report.html", ".lock")
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A swarm that has run to its end."""
    out = tmp_path_factory.mktemp("owner") / "sw"
    swarm = swarm_of(out, peers=2, rounds=2, strategy={"name": "gossip", "k": 1})
    merge(out, swarm.config)
    return out


def unmarked(copy: Path) -> None:
    """As Amity 0.1.0 left it."""
    for marker in copy.rglob(OWNER):
        marker.unlink()


def records_alone(copy: Path) -> None:
    """Somebody kept the tables, and threw keys and peers away."""
    unmarked(copy)
    for folder in ("peers", "ca", "checkpoint"):
        shutil.rmtree(copy / folder)
    (copy / "roster.toml").unlink()


def as_it_is(copy: Path) -> None:
    assert json.loads((copy / OWNER).read_bytes())["owner"] == "swarm"


@pytest.mark.parametrize("was", [as_it_is, unmarked, records_alone])
def test_no_command_writes_into_the_records_of_a_swarm(
    finished: Path, tmp_path: Path, call: Call, was: object
) -> None:
    out = tmp_path / "sw"
    shutil.copytree(finished, out)
    assert callable(was)
    was(out)
    before = contents(out)
    keys = " ".join(["peers=2", "rounds=2", "strategy=gossip", "strategy.k=1"])
    for command in (
        f"resume {out}",
        f"run {keys} out={out}",
        f"run {out}/config.toml out={out}",
        f"compare {keys.partition(' strategy')[0]} strategies=gossip,local seeds=0 out={out}",
        f"sweep peers=2 rounds=2 strategies=gossip gossip.k=1,2 out={out}",
    ):
        code, _, error = call(command)
        assert code == 2, (command, error)
        assert len(error.strip().splitlines()) == 1, error
        assert contents(out) == before, command
    code, said, error = call(f"resume {out}")
    assert (code, said) == (2, "")
    assert "records of a swarm, which cannot be made again" in error
    with pytest.raises(RunDirError, match=f"`amity swarm` with the same keys and out={out}"):
        resume(out)


def test_the_hint_of_export_does_not_lead_to_a_simulation(finished: Path, call: Call) -> None:
    assert "amity resume" not in "".join(map(str, call(f"export {finished}")))


def test_no_command_writes_into_the_state_of_a_peer(
    finished: Path, tmp_path: Path, call: Call
) -> None:
    folder = tmp_path / "peer"
    shutil.copytree(finished / "peers" / "peer-00", folder)
    for state in (folder / "state", folder):
        unmarked(folder)
        before = contents(folder)
        assert owner_of(state) == "peer"
        for command in (f"resume {state}", f"run {folder}/state/config.toml out={state}"):
            code, _, error = call(command)
            assert code == 2
            assert f"`amity peer run {folder}`" in error
        assert contents(folder) == before


def test_a_swarm_and_a_peer_do_not_take_the_folder_of_a_simulation(tmp_path: Path) -> None:
    config = tiny(peers=2, rounds=1, engine={"workers": 1, "vectorise": "off", "group": 1})
    run(config, tmp_path / "run")
    before = contents(tmp_path / "run")
    with pytest.raises(RunDirError, match="holds a simulated run"):
        Swarm(tmp_path / "run", config)
    swarm = Swarm(tmp_path / "sw", config, Net())
    swarm.lay_out()
    swarm.write_peer("peer-00", "127.0.0.1:1", state=str(tmp_path / "run"))
    with pytest.raises(RunDirError, match="holds a simulated run"):
        Node(read_setup(swarm.folder("peer-00")))
    assert contents(tmp_path / "run") == before


def test_a_folder_of_a_later_version_is_left_alone_and_one_of_the_first_is_taken(
    finished: Path, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    shutil.copytree(finished / "peers" / "peer-00" / "state", state)
    config = read_setup(finished / "peers" / "peer-00").config
    later = {"owner": "peer", "format": FORMAT + 1, "amity": "9.1.0"}
    (state / OWNER).write_text(json.dumps(later))
    before = contents(state)
    with pytest.raises(RunDirError, match=r"written by Amity 9\.1\.0, format 3; .* upgrade it"):
        RunDir.check(state, config, "peer")
    assert contents(state) == before
    (state / OWNER).unlink()
    with RunDir.create(state, config, "peer") as directory:
        assert directory.path == state
    assert json.loads((state / OWNER).read_bytes())["format"] == FORMAT
