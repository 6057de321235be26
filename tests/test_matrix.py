"""Everyone's model on everyone's test examples: what `amity matrix` says is what the models do."""

from __future__ import annotations

import csv
import itertools
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import amity
from amity.core import START
from amity.errors import AmityError
from amity.lab.run import restored
from amity.round.truth import Friendship
from amity.show.crossing import crossing
from amity.show.matrices import order_of
from amity.show.panels import panels
from amity.store import Crossed, read_crossed
from tests.conftest import Call, tiny
from tests.test_parity import swarm_of

SMALL = {"peers": 4, "rounds": 3, "strategy": {"name": "gossip", "k": 2}}


def test_every_entry_and_every_sentence_is_what_models_and_records_say(call: Call) -> None:
    result = amity.run(tiny(**SMALL, eval={"shadow": 1}), "r")
    code, out, err = call("matrix r")
    assert (code, err) == (0, "")
    amity.export("r")
    with open("r/matrix.csv") as stream:
        lines = list(csv.DictReader(stream))
    names = sorted(result.final())
    assert [line["model of"] for line in lines] == names
    peers = restored("r").peers
    for line in lines:
        for name in names:
            test = peers[name].data.test
            x, y = test.pixels.x[test.index].numpy(), test.pixels.y[test.index].numpy()
            np.savez("new.npz", x=x, y=y)
            found = amity.predict(Path("r/export", line["model of"]), "new.npz", which="last")
            assert float(line[name]) == pytest.approx(found.accuracy)
    assert {line["model of"]: float(line[line["model of"]]) for line in lines} == result.final()
    last = {r.peer: r for r in result.metrics if r.round == 2}
    for name, record in last.items():
        (said,) = [line for line in out.splitlines() if line.startswith(f"{name} ")]
        alone, has = 100 * (record.accuracy_alone or 0), 100 * (record.accuracy or 0)
        gain = "better" if has > alone else "worse"
        gained = f"{abs(has - alone):.1f} points {gain}" if has != alone else "the same"
        assert f"would have accuracy {alone:.1f} % alone and has {has:.1f} % ({gained})" in said
        rows = [edge.row for edge in result.edges if edge.peer == name]
        mine = sum(row.get(name, 0) + row.get(START, 0) for row in rows) / len(rows)
        assert f"{100 * mine:.0f} % from itself" in said
        others = {j for row in rows for j in row} - {name, START}
        for other in others:
            share = sum(row.get(other, 0) for row in rows) / len(rows)
            assert f"{100 * share:.0f} % from {other}" in said
    page = Path("r/report.html").read_text()
    assert "Everyone&#x27;s model on everyone&#x27;s test examples" in page
    assert "peer-03 would have" in page


def test_a_stacked_run_and_a_method_of_its_own_have_the_models_that_were_evaluated() -> None:
    config = tiny(**{**SMALL, "peers": 5}, method="ditto", engine={"vectorise": "on", "group": 3})
    result = amity.run(config, "r")
    assert dict(zip(*_diagonal(result.matrix()), strict=True)) == result.final()


def _diagonal(crossed: Crossed) -> tuple[tuple[str, ...], list[float]]:
    return crossed.names, np.diag(crossed.array).tolist()


def test_a_cell_of_a_comparison_knows_its_peers_alone_from_the_runs_of_local(call: Call) -> None:
    table = amity.compare(["local", "gossip:k=2"], [1, 2], tiny(peers=3, rounds=2), "c", jobs=1)
    code, _, err = call("matrix c")
    assert code == 2
    assert "holds several runs; name one of them: c/" in err
    for label, runs in table.results.items():
        for run in runs:
            crossed = run.matrix()
            (alone,) = [one.final() for one in table.alone if one.config.seed == run.config.seed]
            assert crossed.alone == alone
            if label == "local":
                assert all(s.endswith("all of it came from itself.") for s in _said(crossed))
    assert call("report c")[0] == 0
    assert Path("c/report.html").read_text().count('role="img" aria-label="Everyone') == 2


def _said(crossed: Crossed) -> list[str]:
    return list(crossed.sentences.values())


def test_what_is_not_known_is_said_with_a_remedy_that_works(call: Call) -> None:
    amity.run(tiny(**SMALL, stages=["normclip"]), "r")
    code, out, _ = call("matrix r")
    assert code == 0
    assert "peer-00 has" in out
    assert "and what it would have alone is not known" in out
    for command in re.findall(r"`amity ([^`]+)`", out):
        assert call(command)[0] == 0, command
    crossed = read_crossed(Path("r"))
    assert crossed is not None
    assert crossed.alone == amity.Result(Path("r-alone"), amity.load("r-alone/config.toml")).final()
    other = tiny(**{**SMALL, "strategy": "local"}, seed=5)
    amity.run(other, "other")
    code, _, err = call("matrix r alone=other")
    assert code == 2
    assert "alone: other is another run than r (differs in seed)" in err
    code, _, err = call("matrix r alone=r")
    assert code == 2
    assert "alone: r is a run of gossip/normclip; expected one with strategy=local" in err


def test_a_swarm_has_the_simulators_matrix_and_leaves_out_who_has_no_round(call: Call) -> None:
    swarm = swarm_of(Path("sw"), peers=3, rounds=2, strategy={"name": "gossip", "k": 2})
    simulated = amity.run(swarm.config, "r").matrix()
    assert amity.matrix("sw").scores == simulated.scores
    code, _, err = call("matrix sw/peers/peer-00")
    assert code == 2
    assert "holds real peers, whose test examples lie with them" in err
    shutil.rmtree("sw/peers/peer-02/state/checkpoint")
    left = amity.matrix("sw")
    assert (left.names, left.missing) == (("peer-00", "peer-01"), ("peer-02",))
    assert left.scores == tuple(row[:2] for row in simulated.scores[:2])


NET = """
from pathlib import Path
from torch import nn
Path("ran").touch()
def make(shape, classes):
    layers = nn.Linear(64, 5), nn.ReLU(), nn.Linear(5, classes)
    return nn.Sequential(nn.Flatten(), *layers)
"""


def test_code_that_a_run_names_is_not_run_without_trust(call: Call) -> None:
    Path("net.py").write_text(NET)
    amity.run(tiny(**SMALL, model="net.py:make"), "r")
    Path("net.py").write_text(NET + "# another file, so that it would be imported again\n")
    Path("r/code.json").unlink()
    Path("ran").unlink()
    code, _, err = call("matrix r")
    assert code == 2
    assert f"r: would run {Path('net.py').resolve()} (SHA-256 " in err
    assert "for 'net.py:make', which you have not run before as it is now" in err
    assert not Path("ran").exists()
    assert call("matrix r --trust")[0] == 0
    assert Path("ran").exists()
    assert call("matrix r")[0] == 0, "from now on it is mine"


@pytest.mark.parametrize(
    ("file", "text", "refused"),
    [
        ("extended.jsonl", json.dumps({"at": 1, "method": "evil.py:Method"}) + "\n", "would run"),
        ("peers/peer-00/peer.toml", 'data = "evil.py:load"\n', "no checkpoint"),
        ("peers/peer-00/state/config.toml", '[strategy]\nname = "evil:Net"\n', "no checkpoint"),
    ],
)
def test_code_is_not_run_wherever_a_directory_names_it(
    file: str, text: str, refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    amity.run(tiny(**SMALL), "r")
    monkeypatch.syspath_prepend(Path.cwd())
    Path("evil.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    Path("r", file).parent.mkdir(parents=True, exist_ok=True)
    Path("r", file).write_text(text)
    with pytest.raises(AmityError, match=refused):
        amity.matrix("r")
    assert not Path("ran").exists()


def test_what_cannot_be_done_is_said_in_one_line(call: Call) -> None:
    rows = [f"{i % 7},{i % 5},{'ab'[i % 2]},{i % 3}" for i in range(90)]
    Path("t.csv").write_text("\n".join(["x,z,label,peer", *rows, ""]))
    ran = amity.run(tiny(data="t.csv:peer=peer", partition="natural", peers=3, rounds=2), "r")
    assert ran.matrix().called("peer-02") == "peer-02 (2)"
    shutil.copytree("r", "torn")
    Path("t.csv").rename("away.csv")
    for words, said in {
        "matrix r": "t.csv: does not exist",
        "matrix nowhere": "nowhere: is no directory; expected that of a run or a swarm",
        "matrix .": "holds no run (no config.toml)",
    }.items():
        code, _, err = call(words)
        assert (code, len(err.splitlines())) == (2, 1)
        assert said in err
    Path("away.csv").rename("t.csv")
    Path("torn/matrix.json").write_text('{"names": ["a"], "scores": []}')
    code, _, err = call("report torn")
    assert code == 2
    assert "matrix.json: is damaged; `amity matrix torn` writes it anew" in err
    shutil.rmtree("torn/checkpoint")
    code, _, err = call("matrix torn")
    assert code == 2
    assert "torn: has no checkpoint yet; `amity resume torn` goes on with it" in err


def test_a_run_that_has_gone_on_says_that_its_matrix_is_old() -> None:
    amity.run(tiny(**SMALL), "r").matrix()
    longer, panel = amity.resume("r", rounds=5), panels["crossed"].build({})
    said = "after round 3, and the run has gone on to 5: <code>amity matrix r</code>"
    assert said in panel.html(longer.story)
    longer.matrix()
    assert "has gone on" not in panel.html(longer.story)


@pytest.mark.parametrize("peers", [2, 25, 100])
def test_the_picture_has_the_order_of_the_other_matrices_and_room_for_its_names(peers: int) -> None:
    names = tuple(f"peer-{at:02d}" for at in range(peers))
    scores = np.random.default_rng(0).random((peers, peers))
    crossed = Crossed(
        names=names,
        scores=tuple(map(tuple, scores.tolist())),
        tests=(9,) * peers,
        rounds=(1,) * peers,
    )
    groups = {name: at % 3 for at, name in enumerate(names)}
    labels = dict.fromkeys(names, (0.5, 0.5))
    friendship = Friendship(labels=labels, groups=groups, least=0.5)
    figure = crossing(crossed, friendship)
    axes = figure.axes[0]
    order = order_of(friendship)
    assert np.allclose(axes.images[0].get_array(), 100 * scores[np.ix_(order, order)])
    assert len(axes.texts) == (peers**2 if peers <= 24 else 0)
    figure.canvas.draw()
    boxes = [tick.get_window_extent() for tick in axes.get_xticklabels()]
    assert len(boxes) >= 2
    assert all(a.x1 <= b.x0 + 1 for a, b in itertools.pairwise(boxes))
