"""The live page in a real browser: what is seen equals the records, whatever happens meanwhile."""

from __future__ import annotations

import base64
import json
import re
import shutil
import signal
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amity
from amity.config import Config, resolve
from amity.events import Event, RoundDone
from amity.lab.reports import write_report
from amity.live.finding import Subject
from amity.net.ops.swarm import Swarm, free_ports
from amity.net.options import Net
from amity.store import read_lines
from tests.conftest import tiny
from tests.pages import Page, Seen, browser, needs_browser, until, watching

__all__ = ["browser"]
pytestmark = needs_browser
WORLD: dict[str, Any] = {"shift": {"name": "permute_labels", "groups": 2}, "eval": {"shadow": 1}}


class Gate:
    """A sink that lets a run do as many rounds as it is told, and no more."""

    def __init__(self) -> None:
        self._turns = threading.Semaphore(0)
        self.ended = False

    def let(self, rounds: int) -> None:
        for _ in range(rounds):
            self._turns.release()

    def take(self, event: Event) -> None:
        if isinstance(event, RoundDone) and not self.ended:
            self._turns.acquire()

    def close(self) -> None:
        self.ended = True


@contextmanager
def slowly(path: Path, rounds: int) -> Iterator[Gate]:
    """A run of 8 peers in another thread, which waits after each round until it is let on. Its
    first round is done at once."""
    gate = Gate()
    config = tiny(strategy="friends", peers=8, rounds=rounds, **WORLD)
    thread = threading.Thread(target=amity.run, args=(config, path, [gate]))
    thread.start()
    try:
        yield gate
    finally:
        gate.ended = True
        gate.let(rounds)
        thread.join()


def edges_on_disk(path: Path, round: int) -> dict[tuple[str, str], float]:
    lines = [line for line in read_lines(path / "edges.jsonl") if line["round"] == round]
    return {(x["peer"], j): w for x in lines for j, w in x["row"].items() if j != x["peer"]}


def is_of_the_records(seen: Seen, path: Path, round: int) -> None:
    """Edges and numbers of the page, drawn and in words."""
    data = seen.drawn()
    names = data["peers"]
    edges = {(names[i], names[j]): w for i, j, w in data["edges"]}
    assert edges == pytest.approx(edges_on_disk(path, round), rel=1e-4)
    metrics = {x["peer"]: x for x in read_lines(path / "metrics.jsonl") if x["round"] == round}
    assert data["value"] == [metrics[name]["accuracy"] for name in names]
    mean = sum(x["accuracy"] for x in metrics.values()) / len(metrics)
    assert f"{100 * mean:.1f} %" in seen.text("#overview")
    seen.js("document.querySelector('#network details').open = true")
    rows = until(lambda: len(seen.js("[...document.querySelectorAll('#network tbody tr')]")) == 8)
    assert rows
    listed = seen.text("#network tbody")
    assert all(name in listed for name in names)


def test_a_run_is_watched_from_its_first_round_through_a_reload_and_a_lost_server(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path, port = tmp_path / "r", str(free_ports(1)[0])
    with slowly(path, 6) as gate:
        until(lambda: read_lines(path / "rounds.jsonl"))
        with watching(path, "--port", port) as page:
            seen = Seen(browser, page.address)
            until(lambda: seen.round() == 0, "the first round")
            is_of_the_records(seen, path, 0)
            assert "running" in seen.text("#overview")
            gate.let(2)
            until(lambda: seen.round() == 2, "the third round")
            is_of_the_records(seen, path, 2)
            browser.refresh()
            until(lambda: seen.round() == 2, "the third round after a reload")
            is_of_the_records(seen, path, 2)
            page.end(signal.SIGKILL)
        until(lambda: "does not answer" in seen.text("#link"), "that the server is gone")
        gate.let(1)
        until(lambda: len(read_lines(path / "rounds.jsonl")) == 4)
        with watching(path, "--port", port) as page:
            until(lambda: seen.round() == 3, "the round that was done meanwhile")
            is_of_the_records(seen, path, 3)
            assert seen.js("amity.page.store.tracks.values().next().value.rounds.size") == 4
            gate.let(9)
            until(lambda: seen.round() == 5 and "done" in seen.text("#overview"), "the end")
            shutil.rmtree(path)
            until(lambda: "not there any more" in seen.text("#overview"), "that it is gone")
            assert seen.round() == 5
            page.end()
            until(lambda: "has ended" in seen.text("#link"), "that the server has ended")
            assert seen.complaints() == []
    with watching(tmp_path, "--port", port, XDG_STATE_HOME=str(tmp_path / "other")):
        until(lambda: "another token" in seen.text("#link"), "that it is another server")
        assert seen.round() == 5


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "r"
    amity.run(tiny(strategy="afind+", peers=8, **WORLD), path)
    return path


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports whose pictures are empty: drawing them takes most of their time, and other tests look
    at them."""
    empty = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"></svg>'
    monkeypatch.setattr("amity.show.figures.svg", lambda _figure: empty)


@dataclass(frozen=True)
class Served:
    """One server for several tests, each of which has a folder of its own there."""

    home: Path
    page: Page

    def of(self, browser: Any, *parts: str) -> Seen:
        """The page on a run, as soon as the server knows it."""
        id = Subject(label="", path=self.home.joinpath(*parts), kind="run").id
        asked = f"{self.page.base}/api/round?token={self.page.token}&cell={id}&round=2"
        with until(lambda: urllib.request.urlopen(asked, timeout=60), f"{parts} at the server"):
            return Seen(browser, f"{self.page.address}#cell={id}")


@pytest.fixture(scope="module")
def served(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("served")
    shutil.copytree(run, home / "replayed")
    folders = [home / name for name in ("replayed", "strangers", "compared")]
    for folder in folders:
        folder.mkdir(exist_ok=True)
    with watching(*folders) as page:
        yield Served(home, page)


def slide(seen: Seen, round: int) -> None:
    seen.js(
        f"(() => {{ const s = document.querySelector('input[type=range]'); s.value = {round};"
        " s.dispatchEvent(new Event('input')); return 1; })()"
    )


def test_a_finished_run_is_replayed_and_a_peer_says_why(
    browser: Any, run: Path, served: Served
) -> None:
    seen = served.of(browser, "replayed")
    until(lambda: seen.round() == 2)
    slide(seen, 0)
    until(lambda: seen.round() == 0, "the first round of the replay")
    is_of_the_records(seen, run, 0)
    assert "round 1" in seen.text("#network h2")
    browser.refresh()  # what was chosen stays
    until(lambda: seen.round() == 0, "the same round after a reload")
    canvas = browser.find_element("css selector", "#network canvas")
    canvas.send_keys("\ue014")  # right
    canvas.send_keys("\ue007")  # enter
    name = seen.drawn()["peers"][0]
    until(lambda: name in seen.text("#peer h2"), "the peer that was opened by keys")
    row = next(x for x in read_lines(run / "why.jsonl") if (x["round"], x["peer"]) == (2, name))
    told = seen.text("#peer table.numbers tbody tr")
    for other in edges_of(run, 2, name):
        said = f"loss {to_three(row['facts']['loss'][other])}"
        assert said in told, (said, told)
    for name in ("matrix", "bytes"):
        seen.js(f"document.querySelector('[data-view={name}],[data-by={name}]').click()")
    assert "by bytes" in seen.text("#curves h2")
    assert seen.js("!document.querySelectorAll('#network .stage')[1].hidden")
    field = browser.find_element("css selector", "#network input[type=search]")
    for name, title in (("peer-05", "Why peer-05 took"), ("nobody", "No records of nobody")):
        field.clear()
        field.send_keys(name + "\ue007")
        until(lambda title=title: title in seen.text("#peer h2"), "the peer of that name")
    assert seen.complaints() == []


def edges_of(path: Path, round: int, peer: str) -> list[str]:
    return [j for i, j in edges_on_disk(path, round) if i == peer]


def to_three(value: float) -> str:
    """As JavaScript's toPrecision(3)."""
    return f"{value:#.3g}".rstrip(".")


def test_names_of_strangers_are_text_and_nothing_else(
    browser: Any, run: Path, served: Served, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "r"))
    evil = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>\u2028\''
    for name in ("metrics.jsonl", "edges.jsonl", "why.jsonl", "world.json"):
        text = (copy / name).read_text(encoding="utf-8")
        quoted = json.dumps(evil, ensure_ascii=False)
        (copy / name).write_text(text.replace('"peer-03"', quoted), encoding="utf-8")
    config = (copy / "config.toml").read_text()
    named = config.replace('name = "digits"', "name = '<b onclick=hacked()>digits</b>'")
    (copy / "config.toml").write_text(named)
    copy.rename(served.home / "strangers")
    seen = served.of(browser, "strangers")
    until(lambda: seen.round() == 2)
    seen.js("document.querySelector('#network details').open = true")
    until(lambda: evil in seen.text("#network tbody"), "the name as it is")
    seen.js("amity.page.open(arguments[0])", evil)
    until(lambda: evil in seen.text("#peer h2"), "the peer of that name")
    assert "<b onclick" in seen.text("h1")
    named = seen.js("[...document.querySelectorAll('#overview option')].map((o) => o.textContent)")
    assert len(set(named)) == len(named), "two runs of the same name are told apart"
    assert seen.js("document.querySelectorAll('img,b,main script').length") == 0
    assert seen.js("window.hacked ?? null") is None
    assert seen.complaints() == []


def test_a_report_replays_its_run_offline_and_is_a_page_without_a_script(
    browser: Any, run: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "r"))
    evil = "</script><script>window.hacked=1</script>"
    world = json.loads((copy / "world.json").read_text(encoding="utf-8")) | {"friend": evil}
    (copy / "world.json").write_text(json.dumps(world), encoding="utf-8")
    page = write_report(copy)
    assert write_report(copy).read_bytes() == page.read_bytes()
    seen = Seen(browser, page.as_uri())
    until(lambda: seen.round() == 2, "the last round")
    is_of_the_records(seen, copy, 2)
    slide(seen, 0)
    until(lambda: seen.round() == 0, "the first round")
    is_of_the_records(seen, copy, 0)
    assert evil in seen.text("#network")
    seen.js("amity.page.open('peer-03')")
    until(lambda: "peer-03" in seen.text("#peer h2"))
    assert seen.js("document.querySelectorAll('.saves button').length") > 3
    prints_one_picture(seen)
    assert "\\begin{tabular}" in seen.js(
        "amity.latex(amity.cellsOf(document.querySelector('body > .wide > table')))"
    )
    assert seen.js("window.hacked ?? null") is None
    assert seen.complaints() == []
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        plain = Seen(browser, page.as_uri())
        assert plain.js("document.querySelector('#replay').hidden")
        assert plain.js("document.querySelectorAll('.picture svg').length") > 2
        assert plain.js("document.querySelectorAll('body > .wide > table').length") > 0
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def prints_one_picture(seen: Seen) -> None:
    """What `print or save as PDF` gives the browser to print: one page of the picture's size."""
    wide = seen.js("document.querySelector('.picture svg').getBoundingClientRect().width")
    seen.js("(window.back = amity.alone(document.querySelector('.picture svg')), 1)")
    made = seen.driver.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
    data = base64.b64decode(made["data"])
    assert data.startswith(b"%PDF")
    assert len(re.findall(rb"/Type ?/Page\b", data)) == 1
    box = re.search(rb"/MediaBox ?\[0 0 ([\d.]+)", data)
    assert box is not None
    assert float(box[1]) == pytest.approx(wide * 0.75, rel=0.02), "a pixel is 3/4 of a point"
    seen.js("(window.back(), 1)")
    assert seen.js("document.querySelectorAll('.alone').length") == 0


@pytest.mark.usefixtures("undrawn")
def test_a_report_of_worlds_replays_each(browser: Any, tmp_path: Path) -> None:
    made = amity.compare_worlds(
        ["permute_labels:groups=2", "none"], ["local", "gossip"], [1], tiny(), tmp_path / "w"
    )
    seen = Seen(browser, (made.path / "report.html").as_uri())
    until(lambda: seen.round() == 2, "the last round")
    names = seen.js("[...document.querySelectorAll('#overview option')].map((o) => o.textContent)")
    assert len(names) == 4
    assert len(set(names)) == 4, "the worlds are told apart"
    for at in range(4):
        seen.js(f"(amity.page.pick(amity.page.choice.options[{at}].value), 1)")
        until(lambda: seen.round() == 2 and len(seen.drawn()["peers"]) == 6)
        world = names[at].partition("(")[2].partition("/")[0]
        folder = next((made.path / world).glob(names[at].partition(",")[0]))
        mean = read_lines(folder / "seed-1" / "rounds.jsonl")[-1]["accuracy"]
        assert f"{100 * mean:.1f} %" in seen.text("#overview")
        until(lambda: len(seen.js("[...document.querySelectorAll('#comparison tbody tr')]")) == 2)
    assert str(tmp_path) not in seen.text("#replay-data")
    assert seen.complaints() == []


@pytest.mark.usefixtures("undrawn")
def test_a_report_of_a_large_run_says_why_it_replays_nothing(
    browser: Any, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "w"))
    monkeypatch.setattr("amity.live.bundle.LARGEST", 1000)
    plain = Seen(browser, write_report(copy).as_uri())
    assert "amity watch w" in plain.text("body")
    assert not plain.js("Boolean(document.querySelector('#replay'))")
    assert plain.js("document.querySelectorAll('.saves button').length") > 3
    assert plain.complaints() == []


@pytest.mark.usefixtures("undrawn")
def test_a_comparison_shows_the_table_of_its_records(browser: Any, served: Served) -> None:
    specs = ["local", "gossip:k=2", "friends", "oracle"]
    done = amity.compare(specs, [1, 2, 3], tiny(), served.home / "compared")
    seen = served.of(browser, "compared", "oracle", "seed-3")

    def rows() -> list[list[str]]:
        found: list[list[str]] = seen.js(
            "[...document.querySelectorAll('#comparison tbody tr')].map((row) =>"
            " [...row.cells].map((cell) => cell.textContent))"
        )
        return found

    until(lambda: "at round 3," in seen.text("#comparison h2"), "the last round")
    until(lambda: [row[-2:] for row in rows()] == [["3 of 3", "100 %"]] * 4, "all seeds")
    shown = {row[0]: row for row in rows()}
    for line in done.lines:
        assert shown[line.label][1] == f"{100 * line.accuracy:.1f} %"
        if line.vs_top is not None and line.vs_top_half is not None:
            gap = f"{100 * line.vs_top:+.1f} ± {100 * line.vs_top_half:.1f}"
            assert shown[line.label][2] == gap.replace("-", "−")
    assert ("leads with" in seen.text("#comparison p")) == bool(done.story.leader)
    lines = seen.js("amity.page.curves.lines.map((line) => [line.label, line.seeds])")
    assert lines == [[spec, 3] for spec in specs]
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True},
    )
    try:
        until(lambda: seen.js("innerWidth") == 390)
        until(lambda: seen.js("document.documentElement.scrollWidth") <= 390, "a phone's width")
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert seen.complaints() == []


def of_numbers(folder: Path) -> Config:
    """Three peers that learn a number, where less is better."""
    draw = np.random.default_rng(3)
    x = draw.normal(size=(90, 4)).astype(np.float32)
    split = np.where(np.arange(90) % 5, "train", "test")
    y, peer = 50 + 10 * x[:, 0], np.repeat(np.arange(3), 30)
    np.savez(folder / "numbers.npz", x=x, y=y, peer=peer, split=split)
    return resolve(
        [
            {
                "data": {"name": "arrays", "path": str(folder / "numbers.npz")},
                "task": {"name": "regress", "unit": "kW"},
                "model": {"name": "mlp", "hidden": 5},
                "partition": {"name": "natural"},
                "peers": 3,
                "strategy": "friends",
                "rounds": 3000,
            }
        ]
    )


def test_a_swarm_shows_a_peer_that_is_killed_and_comes_back(browser: Any, tmp_path: Path) -> None:
    swarm = Swarm(tmp_path / "s", of_numbers(tmp_path), Net(show="names"))
    swarm.lay_out()
    swarm.start()
    try:
        with watching(tmp_path / "s") as page:
            seen = Seen(browser, page.address)

            def said(name: str) -> str:
                rows = seen.js(
                    "[...document.querySelectorAll('#members tbody tr')].map((row) =>"
                    " row.textContent)"
                )
                return next((row for row in rows if row.startswith(name)), "")

            until(lambda: all("running" in said(name) for name in swarm.names), "three that run")
            until(lambda: "card" in said("peer-00") and "days" in said("peer-00"), "its papers")
            until(lambda: "kW" in said("peer-00"), "the metric of its task")
            swarm.kill("peer-01")
            until(lambda: "stopped" in said("peer-01"), "that one is gone")
            before = seen.js("amity.page.store.last(amity.page.id)")
            until(
                lambda: seen.js("amity.page.store.last(amity.page.id)") > before + 2, "the others"
            )
            swarm.processes["peer-01"].join()
            swarm.start(["peer-01"])
            until(lambda: "running" in said("peer-01"), "that it is back")
            assert seen.complaints() == []
        with watching(tmp_path / "s" / "peers" / "peer-00") as page:
            seen = Seen(browser, page.address)
            until(lambda: "peer-02" in seen.text("#members table ~ h3, #members h3 + div"), "names")
    finally:
        swarm.stop()
    told = read_lines(tmp_path / "s" / "peers" / "peer-00" / "state" / "shown.jsonl")
    theirs = tmp_path / "s" / "peers" / "peer-02" / "state"
    rows = {line["round"]: line["row"] for line in read_lines(theirs / "edges.jsonl")}
    shown = [line for line in told if line["peer"] == "peer-02"]
    assert shown
    assert all(line["row"] == pytest.approx(rows[line["round"]]) for line in shown)
    scores = {line["round"]: line["score"] for line in read_lines(theirs / "metrics.jsonl")}
    assert all(line["value"] == scores[line["round"]] for line in shown)
    kinds = {line["kind"] for line in read_lines(theirs / "disclosed.jsonl")}
    assert "shown" in kinds
