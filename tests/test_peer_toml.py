"""What peer.toml can say about data: as the README does, dotted or nested, and told apart."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amity.config import load
from amity.errors import ConfigError
from amity.net.setup import Setup, data_of, read_setup
from amity.registry import take_over
from amity.round.build import load_data
from amity.store import read_lines, schema_of
from amity.toml import read_toml
from tests.conftest import Call
from tests.test_peers import check, found, running
from tests.test_tables import hospital

PEER = '[peer]\nname = "h"\n'
FORMS = {
    "as the README has it": 'data = "a.csv"\ndata.label = "y"  # the classes\n',
    "the other way round": 'data.label = "y"\nrounds = 5\ndata = "a.csv"\n',
    "quoted": 'data = "a.csv"\n"data.label" = "y"\n',
    "dotted": 'data.path = "a.csv"\ndata.label = "y"\n',
    "inline": 'data = {path = "a.csv", label = "y"}\n',
    "nested": '[run.data]\npath = "a.csv"\nlabel = "y"\n',
    "nested with a name": '[run.data]\nname = "table"\npath = "a.csv"\nlabel = "y"\n',
    "nested with the file as name": '[run.data]\nname = "a.csv"\nlabel = "y"\n',
    "a name and a section": 'data = "a.csv"\nrounds = 5\n[run.data]\nlabel = "y"\n',
}


def setup_of(run: str, peer: str = PEER) -> Setup:
    Path("h").mkdir(exist_ok=True)
    Path("h/peer.toml").write_text(f"{peer}[run]\n{run}")
    return read_setup(Path("h"))


@pytest.mark.parametrize("form", FORMS)
def test_a_table_is_named_beside_peer_toml_in_every_form(form: str) -> None:
    options = setup_of(FORMS[form]).config.data.to_dict()
    assert (options["name"], options["path"], options["label"]) == ("table", "h/a.csv", "y")


def test_other_sections_have_names_beside_options_too_and_so_have_other_files() -> None:
    run = 'strategy = "afind+"\nstrategy.tau = 0.3\n'
    assert setup_of(run).config.strategy.instance.tau == 0.3  # type: ignore[attr-defined]
    Path("run.toml").write_text(run)
    assert load("run.toml").strategy.instance.tau == 0.3  # type: ignore[attr-defined]


def test_folders_functions_and_schemas_lie_beside_peer_toml() -> None:
    Path("h/scans").mkdir(parents=True)
    assert setup_of('data = "scans"\n').config.data.to_dict()["path"] == "h/scans"
    Path("h/mine.py").write_text("def toy(): return [[1.0], [2.0]] * 9, [0, 1] * 9\n")
    take_over("h/mine.py:toy")
    assert load_data(setup_of('data = "mine.py:toy"\n').config).classes == 2
    schema = setup_of('data = "a.csv"\ndata.schema = "s.toml"\n').config.data.to_dict()["schema"]
    assert schema == "h/s.toml"
    Path("h/digits").mkdir()
    assert setup_of('data = "digits"\n').config.data.name == "digits"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '[peer]\nname = "h"\ndata = "a.csv"\n',
            r"\[peer\] data says whose .* got 'a.csv'; which data it is stands under \[run\]",
        ),
        ('[peer]\nname = "h"\ndata = {path = "a.csv"}\n', r"\[peer\] data says whose"),
        (f"{PEER}[data]\n", r"unknown section \[data\]; .* `amity run` takes stands under \[run"),
        (f"{PEER}[colour]\n", r"unknown section \[colour\]; sections are [^;]*$"),
        (f'{PEER}[run]\ndata.path = "a.txt"\n', r"data.path: cannot tell what 'h/a.txt' is"),
        (
            f'{PEER}[run]\ndata.label = "y"\n',
            r"does not say where the data lies, only label: add path",
        ),
        (f"{PEER}[run]\ndata = \n", r"is not valid TOML \(TOMLDecodeError: Invalid value"),
        (f"{PEER}[run]\nseed = 1\nseed = 2\n", r"is not valid TOML \(.* overwrite a value"),
    ],
)
def test_what_peer_toml_cannot_mean_is_told_in_one_line(text: str, said: str) -> None:
    Path("h").mkdir()
    Path("h/peer.toml").write_text(text)
    with pytest.raises(ConfigError, match=said):
        read_setup(Path("h"))


@given(st.text(alphabet='ab.=[]"\n #', max_size=30))
def test_any_text_is_read_or_refused_as_toml(text: str) -> None:
    path = Path("any.toml")
    path.write_text(text)
    try:
        found = read_toml(path)
    except ConfigError:
        return
    assert isinstance(found, dict)


def test_the_example_of_a_table_that_peer_init_writes_works_when_uncommented(call: Call) -> None:
    assert call("peer init h name=h host=127.0.0.1 port=7447")[0] == 0
    path = Path("h/peer.toml")
    text = path.read_text()
    assert read_setup(Path("h")).config.data.name == "digits"
    hospital().to_csv("h/table.csv", index=False)
    text = re.sub(r'data = "digits".*\n', "", text)
    text = re.sub(r"(?m)^# (data\b.*)$", r"\1", text)
    table = re.sub(r"(?m)^data.schema.*$", "", text)
    path.write_text(table)
    setup = read_setup(Path("h"))
    dataset, mine = data_of(setup, load_data(setup.config))
    assert dataset.schema.inputs == ("age", "bmi", "seen", "sex=f", "sex=m")
    assert len(mine.train) + len(mine.test) + len(mine.validation) == 120
    words = "data.label=diagnosis data.drop=patient_id,note data.dates=days out=h/schema.toml"
    assert call(f"data schema h/table.csv {words}")[0] == 0
    path.write_text(re.sub(r"(?m)^data.(missing|dates).*$", "", text))
    setup = read_setup(Path("h"))
    assert load_data(setup.config).schema.digest == dataset.schema.digest


# -- real peers


def plane(seed: int, classes: tuple[str, ...]) -> pd.DataFrame:
    """Which side of u = v a point is on: with u and v mixed up, everything is wrong."""
    draw = np.random.default_rng(seed)
    y = np.arange(80) % len(classes)
    u = draw.normal(size=80)
    v = u + np.where(y == 0, 2.0, -2.0) + draw.normal(size=80) * 0.2
    frame = pd.DataFrame({"u": 100 + u, "v": v, "smokes": draw.choice(["yes", "no"], 80)})
    frame.loc[[2, 3], "u"] = np.nan
    return frame.assign(label=np.array(classes)[y])


def test_hospitals_with_another_order_of_columns_holes_and_a_class_less_learn_together(
    call: Call, tmp_path: Path
) -> None:
    peers = found(call, tmp_path, ("a", "b", "c"))
    plane(1, ("ill", "well")).to_csv("a/mine.csv", index=False)
    plane(2, ("ill", "well"))[["label", "smokes", "v", "u"]].to_csv("b/mine.csv", index=False)
    plane(3, ("ill", "well")).query("label == 'ill'").to_csv("c/mine.csv", index=False)
    run = [
        'data = "mine.csv"',
        'data.schema = "schema.toml"',
        'strategy = "gossip"',
        "strategy.k = 2",
        'stages = "none"',
        "model.hidden = 8",
        "rounds = 4",
        "train.lr = 0.1",
        "train.batch = 8",
    ]
    assert call("data schema a/mine.csv b/mine.csv out=schema.toml")[0] == 0
    for name, folder in peers.items():
        who = re.sub(r"(?s)\[run\].*", "", (folder / "peer.toml").read_text())
        who = who.replace("metrics = 9464", "metrics = 0").replace("[net]", "[net]\ngather = 120")
        text = f"{who}[run]\n" + "\n".join(run)
        (folder / "peer.toml").write_text(text)
        (folder / "schema.toml").write_text(Path("schema.toml").read_text())
        assert read_setup(folder).who.name == name
    with running(*peers.values()) as processes:
        outputs = [process.communicate(timeout=900)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], outputs
    for name, output in zip(peers, outputs, strict=True):
        assert re.search(r"the median of the training examples: 'u' [12] of [48]0", output)
        assert re.search(r"round 3: accuracy (9\d|100)\.\d %, took from \w 0.33, \w 0.33", output)
        edges = read_lines(peers[name] / "state" / "edges.jsonl")
        assert all(set(edge["row"]) == {"a", "b", "c"} for edge in edges)
        schema = schema_of(peers[name] / "state")
        assert schema is not None
        assert schema.inputs == ("smokes=no", "smokes=yes", "u", "v")


def test_a_check_names_the_column_in_which_a_running_peer_differs(
    call: Call, tmp_path: Path
) -> None:
    peers = found(call, tmp_path)
    plane(1, ("ill", "well")).to_csv("a/mine.csv", index=False)
    plane(2, ("ill", "well")).rename(columns={"v": "w"}).to_csv("b/mine.csv", index=False)
    for folder in peers.values():
        who = re.sub(r"(?s)\[run\].*", "", (folder / "peer.toml").read_text())
        text = 'data = "mine.csv"\ndata.missing = "median"\nrounds = 3\n'
        (folder / "peer.toml").write_text(who.replace("= 9464", "= 0") + "[run]\n" + text)
    with running(peers["b"]) as (process,):
        stdout: Any = process.stdout
        assert any("listening on" in line for line in iter(stdout.readline, ""))
        code, out = 0, "nobody is running yet"
        early = ("nobody is running yet", "not reachable", "does not answer (no answer)")
        while any(said in out for said in early):
            assert process.poll() is None
            code, out = check(peers["a"])
        process.terminate()
    assert code == 1
    assert "column 'w' is missing here; use one schema file everywhere" in " ".join(out.split())
