"""The live page's server: what it tells, to whom, and what it refuses."""

from __future__ import annotations

import http.client
import json
import re
import resource
import shutil
import ssl
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import amity
from amity.errors import ConfigError
from amity.lines import Bookmark, CutBack, about, last_line, of_rounds, read_on
from amity.live.details import peer_of, round_of
from amity.live.finding import Subject
from amity.live.follower import Follower
from amity.live.measure import as_json, leading, quickly, slowly
from amity.live.plan import WorldSeen, binned, bins_of
from amity.live.standing import table_of
from amity.live.tracks import START, RecordTrack, marks_from, marks_to
from amity.live.where import Where
from amity.store import read_lines
from amity.tasks import ACCURACY, metric_of
from tests.conftest import Call, tiny
from tests.pages import Page, until, watching

SMALL: dict[str, Any] = {"shift": {"name": "permute_labels", "groups": 2}, "eval": {"shadow": 1}}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("live") / "r"
    amity.run(tiny(strategy="afind+", **SMALL), path)
    return path


def told(follower: Follower, marks: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """All messages for somebody who stands at these marks."""
    while follower.look(last=True):
        pass
    at: dict[str, Any] = {} if marks is None else marks
    versions: dict[str, int] = {}
    messages: list[bytes] = []
    more = True
    while more:
        found, more = follower.news(at, versions)
        messages += found
    return [json.loads(message) for message in messages]


# -- reading lines that are being written ----------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30)), max_size=25),
    st.sampled_from(["", '{"round": 4, "pe', '{"x": 1']),
)
def test_a_round_is_found_by_halving_the_file(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[int, int]], torn: str
) -> None:
    path = tmp_path_factory.mktemp("lines") / "m.jsonl"
    rounds = sorted(drawn)
    lines = [json.dumps({"x": "y" * n, "round": r, "peer": f"p{n % 3}"}) for r, n in rounds]
    path.write_text("".join(f"{line}\n" for line in lines) + torn)
    for t in range(11):
        wanted = [
            line.encode() for line, (r, _) in zip(lines, rounds, strict=True) if t <= r < t + 2
        ]
        assert list(of_rounds(path, t, t + 2)) == wanted
    mine = [json.loads(line) for line in lines if json.loads(line)["peer"] == "p1"]
    assert about(path, "peer", "p1", 999) == mine
    assert last_line(path).decode() == (lines[-1] if lines else "")


def test_reading_on_gives_whole_lines_once_and_notices_a_file_that_was_cut_back(
    tmp_path: Path,
) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"one\ntwo\nthr")
    place = Bookmark()
    lines = read_on(path, place)
    assert lines == [b"one", b"two"]
    place = place.after(lines)
    path.write_bytes(b"one\ntwo\nthree\n")
    assert read_on(path, place) == [b"three"]
    path.write_bytes(b"one\n")
    with pytest.raises(CutBack):
        read_on(path, place)
    path.write_bytes(b"one\nTWO\nthree\nfour\n")  # written anew, and longer
    with pytest.raises(CutBack):
        read_on(path, place)


# -- what is told ----------------------------------------------------------------------------------


def test_a_finished_run_is_told_round_by_round_as_its_records_say(run: Path) -> None:
    messages = [m for m in told(Follower([run])) if m["t"] == "round"]
    metrics = read_lines(run / "metrics.jsonl")
    assert [m["round"] for m in messages] == [0, 1, 2]
    for message in messages:
        mine = [line for line in metrics if line["round"] == message["round"]]
        scores = [line["accuracy"] for line in mine]
        assert message["spread"][0] == pytest.approx(sum(scores) / len(scores), abs=1e-6)
        assert (message["spread"][1], message["spread"][5]) == pytest.approx(
            (min(scores), max(scores)), abs=1e-6
        )
        assert message["harmed"] == sum(x["accuracy"] < x["accuracy_alone"] for x in mine)
    received = sum(x["card_in"] + x["model_in"] + x["reply_in"] for x in metrics) / 6
    assert messages[-1]["in"] == pytest.approx(received)


def test_a_round_has_the_edges_of_the_records_and_a_peer_its_reasons(run: Path) -> None:
    follower = Follower([run])
    told(follower)
    (cell,) = follower.cells.values()
    found = round_of(cell, 2)
    rows = {
        line["peer"]: line["row"] for line in read_lines(run / "edges.jsonl") if line["round"] == 2
    }
    names = found["peers"]
    edges = {(names[i], names[j]): w for i, j, w in found["edges"]}
    assert edges == {
        (i, j): pytest.approx(w, rel=1e-4)
        for i, row in rows.items()
        for j, w in row.items()
        if i != j
    }
    groups = {name: found["colours"][at] for at, name in enumerate(names)}
    assert list(groups.values()) == sorted(groups.values())  # side by side
    assert groups == json.loads((run / "world.json").read_text())["groups"]
    history = peer_of(cell, "peer-01")["rounds"]
    assert [one["round"] for one in history] == [0, 1, 2]
    facts = history[-1]["facts"]
    assert set(facts) == {"similarity", "loss"}
    assert rows["peer-01"].keys() - {"peer-01"} <= facts["similarity"].keys()


def test_a_viewer_goes_on_where_it_was_also_with_another_server(run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "r"))
    whole = (copy / "rounds.jsonl").read_bytes().splitlines(keepends=True)
    (copy / "rounds.jsonl").write_bytes(b"".join(whole[:2]))
    marks: dict[str, Any] = {}
    assert [m["round"] for m in told(Follower([copy]), marks) if m["t"] == "round"] == [0, 1]
    place = marks_to(marks)
    (copy / "rounds.jsonl").write_bytes(b"".join(whole))
    again = marks_from(place)
    assert [m["round"] for m in told(Follower([copy]), again) if m["t"] == "round"] == [2]
    (copy / "rounds.jsonl").write_bytes(whole[0].replace(b"0.", b"1.") + whole[2])  # another past
    kinds = [(m["t"], m.get("round")) for m in told(Follower([copy]), marks_from(place))]
    assert [k for k in kinds if k[0] in ("reset", "round")] == [
        ("reset", None),
        ("round", 0),
        ("round", 2),
    ]


@given(st.lists(st.text("ab09f-_.,x é", max_size=12), max_size=6))
def test_whatever_a_viewer_says_about_its_place_is_no_error(parts: list[str]) -> None:
    found = marks_from(",".join(parts))
    assert marks_from(marks_to(found)) == found, "what was understood is a place"
    track = RecordTrack(Subject(label="r", path=Path("r"), kind="run"), "", Path("r"))
    assert all(track.holds(mark) == (mark == START) for mark in found.values())


def test_damage_and_loss_are_said_and_the_rest_goes_on(run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "r"))
    lines = (copy / "rounds.jsonl").read_bytes().splitlines(keepends=True)
    (copy / "rounds.jsonl").write_bytes(lines[0] + lines[1][:20] + b"\n" + lines[2])
    metrics = (copy / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (copy / "metrics.jsonl").write_bytes(metrics[0][:40] + b"\n" + b"".join(metrics[1:]))
    follower = Follower([copy])
    marks: dict[str, Any] = {}
    rounds = [m for m in told(follower, marks) if m["t"] == "round"]
    assert [m.get("round") for m in rounds] == [0, None, 2]
    assert rounds[1]["trouble"] == "line 2 of rounds.jsonl is damaged"
    (copy / "rounds.jsonl").unlink()  # as in the middle of a deletion
    assert not [m for m in told(follower, marks) if m["t"] in ("round", "reset")]
    shutil.rmtree(copy)
    (state,) = [m for m in told(follower) if m["t"] == "state"]
    assert [one["state"] for one in state["tracks"].values()] == ["gone"]


@pytest.mark.parametrize("value", ["10" * 200, "NaN", '"\\ud800"', "[[]]", '{"a": {}}', "null"])
def test_whatever_stands_in_a_record_is_no_error(run: Path, tmp_path: Path, value: str) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "r"))
    for name in ("rounds.jsonl", "metrics.jsonl", "edges.jsonl", "why.jsonl", "world.json"):
        text = (copy / name).read_text()
        for key in ("accuracy", "model_in", "peer-03", "loss", "missing", "taken", "friend"):
            text = re.sub(rf'("{key}": )[^,{{}}\[\]]+', lambda m: m[1] + value, text)
        (copy / name).write_text(text)
    follower = Follower([copy])
    rounds = [m["round"] for m in told(follower) if m["t"] == "round"]
    assert rounds == [0, 1, 2]
    assert follower.trouble == []
    (cell,) = follower.cells.values()
    found = json.loads(as_json(round_of(cell, 2)))
    assert len(found["peers"]) == 6
    assert len(json.loads(as_json(peer_of(cell, "peer-01")))["rounds"]) == 3


def test_a_run_that_cannot_be_shown_is_named_and_the_others_go_on(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        shutil.copytree(run, tmp_path / name)
    poll = RecordTrack.poll

    def fails(self: RecordTrack) -> bool:
        if self.path.name == "a":
            raise RuntimeError("unheard of")
        return poll(self)

    monkeypatch.setattr(RecordTrack, "poll", fails)
    messages = told(Follower([tmp_path]))
    assert [m["round"] for m in messages if m["t"] == "round"] == [0, 1, 2]
    (trouble,) = [m["said"] for m in messages if m["t"] == "trouble"]
    assert trouble == [f"{tmp_path / 'a'}: cannot be shown (RuntimeError: unheard of)"]


def test_a_run_on_a_full_disk_is_told_up_to_there_and_from_there_when_it_goes_on(
    tmp_path: Path,
) -> None:
    """No file may grow beyond a size: the same error as on a full disk, in the same places."""

    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))

    path = tmp_path / "r"
    options = "data=digits peers=4 rounds=8 strategy=gossip train.epochs=1 engine.workers=1"
    words = [sys.executable, "-m", "amity", "run", *options.split(), f"out={path}"]
    done = subprocess.run(words, preexec_fn=full, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "cannot be written (File too large)" in done.stderr
    follower, marks = Follower([path]), dict[str, Any]()
    before = told(follower, marks)
    rounds = [m["round"] for m in before if m["t"] == "round"]
    assert rounds == list(range(len(rounds)))
    assert 0 < len(rounds) < 8
    (state,) = [one for m in before if m["t"] == "state" for one in m["tracks"].values()]
    assert (state["state"], state["last"]) == ("stopped", len(rounds) - 1)
    amity.resume(path)
    after = [m for m in told(follower, marks) if m["t"] in ("round", "reset")]
    cut = [at for at, m in enumerate(after) if m["t"] == "reset"]
    again = after[cut[-1] + 1 :] if cut else after
    assert [m["round"] for m in again] == list(range(0 if cut else len(rounds), 8))
    assert all(m["peers"] == 4 and "trouble" not in m for m in again)


def test_memory_is_bounded_and_a_late_viewer_has_the_newest(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amity.live.follower.MOST_KEPT", 2)
    assert [m["round"] for m in told(Follower([run])) if m["t"] == "round"] == [1, 2]


def test_what_cannot_be_read_at_all_is_told_to_everyone(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        shutil.copytree(run, tmp_path / name)
    monkeypatch.setattr("amity.live.follower.MOST_CELLS", 2)
    follower = Follower([tmp_path], elsewhere=lambda: ["http://there: gone"])
    messages = told(follower)
    assert [m["said"] for m in messages if m["t"] == "trouble"] == [
        ["2 of 3 runs are followed; name fewer folders", "http://there: gone"]
    ]
    assert len([m for m in messages if m["t"] == "cell"]) == 2


def test_two_runs_of_the_same_name_are_two(run: Path, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        shutil.copytree(run, tmp_path / folder / "r")
    cells = [m for m in told(Follower([tmp_path])) if m["t"] == "cell"]
    assert len({cell["id"] for cell in cells}) == 2
    assert len({cell["label"] for cell in cells}) == 1


def test_a_comparison_is_compared_where_all_have_arrived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amity.show.figures.svg", lambda _figure: "")  # its report is not looked at
    specs = ["local", "gossip:k=2", "oracle"]
    done = amity.compare(specs, [1, 2, 3], tiny(), tmp_path / "c")
    slow = tmp_path / "c" / "local" / "seed-2" / "rounds.jsonl"
    follower = Follower([tmp_path / "c"])
    told(follower)
    cells = list(follower.cells.values())
    table = table_of(cells)
    lines = {line.label: line for line in done.lines}
    for row in table["rows"]:
        assert row["value"] == pytest.approx(lines[row["label"]].accuracy, abs=1e-6)
        if row["vs_top"]:
            assert row["vs_top"]["mean"] == pytest.approx(lines[row["label"]].vs_top, abs=1e-6)
            assert row["vs_top"]["half"] == pytest.approx(lines[row["label"]].vs_top_half, abs=1e-6)
    assert [row["reference"] for row in table["rows"]] == [False, False, True]
    assert (table["round"], table["leads"]) == (2, bool(done.story.leader))
    slow.write_bytes(slow.read_bytes().splitlines(keepends=True)[0])
    again = Follower([tmp_path / "c"])
    told(again)
    seeds = {r["label"]: r["compared"] for r in table_of(list(again.cells.values()))["rows"]}
    assert seeds == {"local": 2, "gossip:k=2": 3, "oracle": 3}


def test_many_lines_are_measured_quickly_as_one_by_one(run: Path) -> None:
    """The simple version is `slowly`; whatever is unusual is left to it."""
    lines = (run / "metrics.jsonl").read_bytes().splitlines(keepends=True)[:6] * 20
    text, metric = b"".join(lines), ACCURACY
    quick = quickly(text, metric)
    assert quick == slowly(text, metric)
    assert quick is not None
    assert quick["harmed"] > 0
    named = text.replace(b'"peer-03"', b'"\\"accuracy\\": 9, _in\\": 5"')
    assert quickly(named, metric) == slowly(named, metric)
    more = text.replace(b'"available": 5', b'"available": 5, "mine_in": 5')
    assert quickly(more, metric) == slowly(more, metric)
    unusual = (
        (b'"available": 5', b'"available": 5, "attacker": true'),
        (b'"accuracy":', b'"accuracy_":'),
        (b'"card_in": ', b'"card_in": 0.5, "was": '),
        (b"}\n", b"\n"),
    )
    for old, new in unusual:
        assert quickly(text.replace(old, new, 1), metric) is None
    alone = text.replace(b'"available": 5', b'"available": 0, "missing": 2, "diverged": true', 7)
    assert quickly(alone, metric) == slowly(alone, metric)
    assert slowly(alone, metric)["offline"] == 7


def test_large_networks_are_told_in_bins_that_lose_no_weight() -> None:
    names = [f"p{i:04d}" for i in range(1000)]
    bins = bins_of(names, 160)
    assert (min(bins), max(bins)) == (0, 159)
    edges = [(i, (7 * i + 1) % 1000, 0.25) for i in range(1000)]
    matrix, sizes = binned(edges, bins)
    assert sum(sizes) == 1000
    total = sum(sum(row) * size for row, size in zip(matrix, sizes, strict=True))
    assert total == pytest.approx(250, rel=1e-3)
    places = WorldSeen({name: i % 7 for i, name in enumerate(names)}, {}, [], "").places(names)
    assert len(set(places)) == 1000
    assert max(x * x + y * y for x, y in places) <= 1.1


# -- who may ask -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(run: Path) -> Iterator[Page]:
    with watching(run, "--port", "0") as served:
        yield served


def ask(page: Page, path: str, method: str = "GET", **headers: str) -> tuple[int, Any, bytes]:
    line = http.client.HTTPConnection("127.0.0.1", page.port, timeout=60)
    try:
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        line.request(method, path.replace("TOKEN", page.token), headers=named)
        answer = line.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        line.close()


def test_only_who_has_the_token_and_comes_from_the_page_itself_is_answered(page: Page) -> None:
    good = "/?token=TOKEN"
    assert ask(page, good)[0] == 200
    assert ask(page, good, Sec_Fetch_Site="same-origin", Origin=page.base)[0] == 200
    assert ask(page, "/")[0] == 403
    assert ask(page, "/?token=TOKENx")[0] == 403
    assert ask(page, "/api/round?cell=x&round=0")[0] == 403
    assert ask(page, good, Host="evil.example")[0] == 421
    assert ask(page, good, Host=f"evil.example:{page.port}")[0] == 421
    assert ask(page, good, Origin="http://evil.example")[0] == 403
    assert ask(page, good, Origin="null")[0] == 403
    assert ask(page, good, Host=f"[::1]:{page.port}")[0] == 200
    for host in ("[::1]evil.example", "127.0.0.1@evil.example", "localhost.evil.example", "[::1"):
        assert ask(page, good, Host=host)[0] == 421
    assert ask(page, good, Origin="http://evil.example", origin=page.base)[0] == 403  # both
    assert ask(page, good, Sec_Fetch_Site="cross-site")[0] == 403
    assert ask(page, good, Sec_Fetch_Site="same-site")[0] == 403
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert ask(page, good, method)[0] == 405


def test_answers_tell_browsers_to_run_nothing_from_elsewhere(page: Page) -> None:
    for path in ("/?token=TOKEN", "/static/main.js", "/"):
        heads = ask(page, path)[1]
        policy = heads["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert heads["x-content-type-options"] == "nosniff"
        assert heads["referrer-policy"] == "no-referrer"
        assert heads["cache-control"] == "no-store"
        assert "server" not in heads
    text = ask(page, "/?token=TOKEN")[2].decode()
    assert "<script>" not in text
    assert "http" not in text.replace('<meta http-equiv="', "")


def test_nothing_outside_of_what_is_watched_can_be_had(
    page: Page, run: Path, tmp_path: Path
) -> None:
    cell = Follower([run])
    told(cell)
    ((id, watched),) = cell.cells.items()
    track = watched.tracks[""].id
    ask_for = f"/api/records?token=TOKEN&cell={id}&track={track}&at=0&file="
    assert ask(page, ask_for + "rounds.jsonl")[2] == (run / "rounds.jsonl").read_bytes()
    for file in ("..%2f..%2fetc%2fpasswd", ".lock", "checkpoint", "audit.jsonl", "disclosed.jsonl"):
        assert ask(page, ask_for + file)[0] == 404
    (tmp_path / "secret").write_text("secret")
    (run / "extended.jsonl").symlink_to(tmp_path / "secret")
    try:
        assert ask(page, ask_for + "extended.jsonl")[2] == b""  # a link may point anywhere
    finally:
        (run / "extended.jsonl").unlink()
    assert ask(page, "/static/../serving.py")[0] == 404
    assert ask(page, "/static/%2e%2e/serving.py")[0] == 404
    assert ask(page, f"/api/round?token=TOKEN&cell={id}&round=-1")[0] == 400
    assert ask(page, "/api/peer?token=TOKEN&cell=nobody&peer=x")[0] == 404


def test_other_machines_may_look_only_with_tls_or_if_told_so(tmp_path: Path, call: Call) -> None:
    with pytest.raises(ConfigError, match="--insecure"):
        Where.of("0.0.0.0", 0, [tmp_path], insecure=False, tls=None)
    assert Where.of("0.0.0.0", 0, [tmp_path], insecure=True, tls=None).identity is None
    with pytest.raises(ConfigError, match="no peer's folder"):
        Where.of("127.0.0.1", 0, [], insecure=False, tls=tmp_path)
    code, _, error = call(f"watch {tmp_path} --host 0.0.0.0")
    assert code == 2
    assert "is not this machine alone" in error
    code, _, error = call(f"watch {tmp_path}/nothing")
    assert code == 2
    assert "is no directory" in error


def test_a_peers_certificate_serves_the_page_and_another_machine_can_mirror_it(
    run: Path, tmp_path: Path
) -> None:
    from amity.net.trust.certs import ca_init, ca_sign, make_key

    ca_init(tmp_path / "ca", "test")
    make_key(tmp_path / "p" / "identity", "p", ["127.0.0.1"])
    paper = tmp_path / "p" / "identity" / "cert.pem"
    ca_sign(tmp_path / "ca", paper.with_name("request.pem"), paper, "p", 2.0, ["127.0.0.1"])
    (tmp_path / "p" / "peer.toml").write_text('[peer]\nname = "p"\n')
    with watching(run, "--tls", tmp_path / "p") as served:
        assert served.base.startswith("https://")
        trust = ssl.create_default_context(cafile=str(tmp_path / "ca" / "ca.pem"))
        with urllib.request.urlopen(served.address, context=trust, timeout=60) as answer:
            assert answer.status == 200
        with watching(served.address, "--ca", tmp_path / "ca" / "ca.pem") as mirror:
            story = until(lambda: _story(mirror, "round", 3), "the mirrored rounds")
            assert [m["round"] for m in story if m["t"] == "round"] == [0, 1, 2]
            states = [one for m in story if m["t"] == "state" for one in m["tracks"].values()]
            assert states[-1]["state"] == "done"
            served.end()
            lost = until(lambda: _story(mirror, "trouble", 1), "that the other page is gone")
            assert "trying again" in lost[-1]["said"][0]


def _story(page: Page, kind: str, least: int) -> list[dict[str, Any]]:
    """What a page's stream tells first, up to so many messages of a kind."""
    found: list[dict[str, Any]] = []
    with urllib.request.urlopen(f"{page.base}/api/stream?token={page.token}", timeout=60) as answer:
        for raw in answer:
            line = raw.decode().rstrip("\n")
            if line.startswith("data: "):
                message = json.loads(line[6:])
                found += [message] if "t" in message else []  # hello has none
            if sum(message["t"] == kind for message in found) >= least:
                return found
    return found


def _rounds(page: Page) -> list[dict[str, Any]]:
    return [message for message in _story(page, "round", 3) if message["t"] == "round"]


def _memory(page: Page) -> int:
    status = Path(f"/proc/{page.process.pid}/status").read_text()
    return 1024 * int(status.partition("VmRSS:")[2].split()[0])


def test_fifty_viewers_are_told_the_same_and_take_little_memory(page: Page) -> None:
    first = _rounds(page)
    before, stories = _memory(page), list[Any]([None] * 50)
    gate = threading.Barrier(51)

    def look(at: int) -> None:
        address = f"{page.base}/api/stream?token={page.token}"
        with urllib.request.urlopen(address, timeout=60):  # one that takes nothing
            gate.wait()
            stories[at] = _rounds(page)
            gate.wait()

    threads = [threading.Thread(target=look, args=(at,)) for at in range(50)]
    for thread in threads:
        thread.start()
    gate.wait()
    gate.wait()
    grown = _memory(page) - before
    for thread in threads:
        thread.join()
    assert all(story == first and len(story) == 3 for story in stories)
    assert grown < 50 * (1 << 20), "less than a megabyte for each of a hundred streams"


def test_marks_are_read_back() -> None:
    marks = {"abc": (3, 0xDEADBEEF), "d": START}
    assert marks_from(marks_to(marks)) == marks


@pytest.mark.parametrize(
    ("module", "absent"),
    [("beside", ("numpy", "pydantic", "uvicorn")), ("serving", ("numpy", "pydantic", "torch"))],
)
def test_a_page_loads_only_what_it_needs(module: str, absent: tuple[str, ...]) -> None:
    """Loading is most of what watching costs a short run."""
    asked = f"import sys, amity.live.{module}; print([x for x in {absent} if x in sys.modules])"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_default_task_is_known_without_loading_it() -> None:
    named: list[dict[str, Any]] = [{}, {"task": {"name": "classify"}}]
    for config in named:
        assert leading(config) == metric_of(config)
