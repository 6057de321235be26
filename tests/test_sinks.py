"""What each sink shows, and how events get from other threads and processes to the stream."""

from __future__ import annotations

import io
import os
import re
import signal
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest
from rich.console import Console

from amity.errors import ConfigError
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
    Teller,
)
from amity.forward import HEAD, Inbox, Outbox, PipeSink, pipe
from amity.net.ops.swarm import free_ports
from amity.records import PeerRecord, Report, RoundRecord
from amity.sinks import sinks
from amity.sinks.peers import LinesNowAndThen, LiveTable
from amity.sinks.plain import Lines
from amity.sinks.progress import Terminal
from amity.sinks.prometheus import Prometheus
from amity.sinks.registry import Opens

PHASES = {"train": 0.25, "mix": 0.25}


def report(round: int, accuracy: float, peer: str = "peer-00", epsilon: float = 2.0) -> Report:
    mine = PeerRecord(round=round, peer=peer, accuracy=accuracy, model_in=2500, card_in=500)
    return Report(
        round=round,
        peers={peer: mine},
        rows={peer: {peer: 0.5, "peer-09": 0.5}},
        network=RoundRecord(round=round, accuracy=accuracy, epsilon=epsilon),
        seconds=PHASES,
    )


def story(*labels: str, rounds: int = 4, done: int = 4, reference: str = "") -> Iterator[Event]:
    """Cells that run beside each other, each a little better than the one before."""
    cells = [CellId(label=label, seed=0, path=label, group="g") for label in labels]
    for cell in cells:
        yield RunQueued(cell=cell, rounds=rounds, reference=cell.label == reference)
    for cell in cells:
        yield RunStarted(cell=cell, config={}, rounds=rounds, reference=cell.label == reference)
    for t in range(done):
        for at, cell in enumerate(cells):
            yield Progress(cell=cell, round=t, part=0.5)
            yield RoundDone(cell=cell, report=report(t, 0.5 + at / 10 + t / 100, cell.label))
    for cell in cells if done == rounds else ():
        yield RunDone(cell=cell)


def console(terminal: bool) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, force_terminal=terminal, width=140, color_system=None), file


def feed(sink: Sink, events: Iterator[Event]) -> None:
    for event in events:
        sink.take(event)
    sink.close()


def test_every_entry_has_a_summary_and_opens_what_takes_events() -> None:
    names = {entry.name for entry in sinks}
    assert names >= {"auto", "jsonl", "notebook", "peers", "plain", "progress", "prometheus"}
    for entry in sinks:
        assert entry.summary, entry.name
        assert isinstance(entry.build({}), Opens)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of other people's libraries
@pytest.mark.parametrize("name", [entry.name for entry in sinks])
def test_every_sink_takes_a_whole_run_with_a_failure_and_a_second_start(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setattr("amity.sinks.notebook._in_a_shell", lambda: True)
    options = {"port": free_ports(1)[0]} if name == "prometheus" else {}
    sink = sinks[name].build(options).open()
    for event in story("local", "gossip", done=2):
        sink.take(event)
    cell = CellId(label="gossip", seed=0, path="gossip", group="g")
    sink.take(happened(0, cell))
    sink.take(RunFailed(cell=cell, error="killed"))
    sink.take(RunStarted(cell=cell, config={}, rounds=4, first=2))
    sink.take(RoundDone(cell=cell, report=report(2, 0.5, "gossip")))
    sink.close()


# -- progress --------------------------------------------------------------------------------------


def test_bars_show_every_strategy_its_rounds_and_who_leads() -> None:
    screen, file = console(terminal=True)
    feed(Terminal(screen), story("local", "gossip", "oracle", reference="oracle"))
    last = file.getvalue().rsplit("local", 1)[1]
    assert re.search(r"4/4 +53\.0 %", last)
    assert re.search(r"gossip\S* +\S+ 4/4 +63\.0 %", last)
    assert re.search(r"oracle\S* +\S+ 4/4 +73\.0 %", last), "references are shown, and never lead"
    assert re.search(r"all +\S+ 12/12", last)
    assert "highest at round 4: gossip 63.0 %" in last


def seeded(scores: dict[str, list[float]]) -> Iterator[Event]:
    """One round of every strategy with these accuracies, by seed."""
    cells = {
        CellId(label=label, seed=seed, path=f"{label}/{seed}", group="g"): accuracy
        for label, values in scores.items()
        for seed, accuracy in enumerate(values)
    }
    for cell in cells:
        yield RunQueued(cell=cell, rounds=1)
    for cell, accuracy in cells.items():
        yield RunStarted(cell=cell, config={}, rounds=1)
        yield RoundDone(cell=cell, report=report(0, accuracy))
        yield RunDone(cell=cell)


@pytest.mark.parametrize(
    ("pens", "said"),
    [
        ([0.70, 0.75, 0.80], "leading at round 1: pens 75.0 %"),  # 10 points in every seed
        ([0.62, 0.60, 0.80], "highest at round 1: pens 67.3 %"),  # +2, -5 and +10 points
        ([0.70], "highest at round 1: pens 70.0 %"),
    ],
)
def test_who_is_highest_leads_only_if_the_interval_says_so(pens: list[float], said: str) -> None:
    screen, file = console(terminal=False)
    others = {"local": [0.50, 0.52, 0.51], "gossip": [0.60, 0.65, 0.70]}
    feed(Lines(screen, every=3600), seeded({**others, "pens": pens}))
    assert file.getvalue().splitlines()[-1].endswith(said)


def test_names_are_never_cut_beside_the_bars_of_a_narrow_terminal() -> None:
    labels = [f"afind+, train.lr=0.0{k}, strategy.explore=0.25" for k in (1, 2, 3)]
    file = io.StringIO()
    screen = Console(file=file, force_terminal=True, width=80, color_system=None)
    feed(Terminal(screen), story(*labels))
    last = file.getvalue().rsplit("\x1b[2K", 1)[-1]
    assert "…" not in last
    for k in (1, 2, 3):
        assert f"train.lr=0.0{k}" in last
    assert last.count("strategy.explore=0.25") == 4, "the line beneath names it too"
    assert all(len(line) <= 80 for line in last.splitlines())


def test_a_cell_without_a_plan_gets_its_bar_when_it_starts() -> None:
    screen, file = console(terminal=True)
    events = [event for event in story("gossip") if not isinstance(event, RunQueued)]
    feed(Terminal(screen), iter(events))
    assert re.search(r"gossip +\S+ 4/4 +53\.0 %", file.getvalue())


def test_a_display_that_was_told_nothing_shows_nothing() -> None:
    for make in (Terminal, LiveTable, lambda c: Lines(c, 5), lambda c: LinesNowAndThen(c, 5)):
        screen, file = console(terminal=False)
        make(screen).close()
        assert file.getvalue() == ""


def test_plain_lines_count_rounds_guess_the_time_left_and_name_the_leader() -> None:
    screen, file = console(terminal=False)
    feed(Lines(screen, every=0), story("local", "gossip"))
    shown = file.getvalue().splitlines()
    assert shown[0] == "0 of 8 rounds done"
    assert any(re.fullmatch(r"[1-7] of 8 rounds done, about \d+ s left; .*", s) for s in shown)
    assert shown[-1] == "8 of 8 rounds done; highest at round 4: gossip 63.0 %"


@pytest.mark.parametrize("columns", [("easy",), ("easy", "hard")])
def test_nobody_leads_across_the_columns_of_a_table(columns: tuple[str, ...]) -> None:
    names = [f"{row} | {column}" for column in columns for row in ("local", "gossip")]
    rows = {name: name.partition(" ")[0] for name in names}
    events = [
        replace(event, cell=replace(event.cell, row=rows[event.cell.label]))
        for event in story(*names)
    ]
    screen, file = console(terminal=False)
    feed(Lines(screen, every=0), iter(events))
    bars, drawn = console(terminal=True)
    feed(Terminal(bars), iter(events))
    alone = len(columns) == 1
    assert ("highest" in file.getvalue()) == ("highest" in drawn.getvalue()) == alone
    assert ("%" in drawn.getvalue()) == alone
    total = 8 * len(columns)
    lead = "; highest at round 4: gossip 63.0 %" * alone
    assert file.getvalue().splitlines()[-1] == f"{total} of {total} rounds done{lead}"


def test_rounds_that_were_done_before_say_nothing_about_the_pace() -> None:
    screen, file = console(terminal=False)
    cell = CellId(label="a", seed=0, path="a")
    sink = Lines(screen, every=0)
    sink.take(RunStarted(cell=cell, config={}, rounds=10, first=9))
    assert file.getvalue() == "9 of 10 rounds done\n"
    sink.take(Progress(cell=cell, round=9, part=0.5))
    assert file.getvalue().splitlines()[1] == "9 of 10 rounds done, about 1 s left"


def test_lines_are_seconds_apart_and_a_run_that_ended_early_has_no_last_one() -> None:
    screen, file = console(terminal=False)
    feed(Lines(screen, every=3600), story("local", done=2))
    assert file.getvalue() == ""
    feed(Lines(screen, every=3600), story("local"))
    assert file.getvalue() == "4 of 4 rounds done; accuracy 53.0 %\n"


def test_cells_with_a_row_are_counted_under_it() -> None:
    screen, file = console(terminal=True)
    sink = Terminal(screen)
    for label in ("a | gossip | x", "a | gossip | y"):
        cell = CellId(label=label, seed=0, path=label, row="gossip")
        sink.take(RunQueued(cell=cell, rounds=5))
        sink.take(RunStarted(cell=cell, config={}, rounds=5, first=5))
        sink.take(RunDone(cell=cell))
    sink.close()
    assert re.search(r"gossip +\S+ 10/10", file.getvalue())


# -- a swarm ---------------------------------------------------------------------------------------


def test_the_table_of_a_swarm_has_a_line_for_each_peer_with_its_state() -> None:
    screen, file = console(terminal=True)
    sink = LiveTable(screen)
    for event in story("peer-00", "peer-01", done=2):
        sink.take(event)
    failed = CellId(label="peer-01", seed=0, path="peer-01", group="g")
    sink.take(RunFailed(cell=failed, error="killed"))
    sink.take(RunQueued(cell=CellId(label="peer-02", seed=0, path="x"), rounds=4))
    sink.close()
    last = file.getvalue().rsplit("peer-00", 1)[1]
    assert re.match(r" +2/4 +51\.0 % +09:0\.50 +3 +0\.50 +running", last)
    assert re.search(r"peer-01 +2/4 +61\.0 % +09:0\.50 +3 +0\.50 +failed", last)
    assert re.search(r"peer-02 +- +waiting", last)


def test_without_a_terminal_a_swarm_is_a_line_now_and_then() -> None:
    screen, file = console(terminal=False)
    feed(LinesNowAndThen(screen, every=3600), story("peer-00", "peer-01"))
    assert file.getvalue().splitlines() == [
        "all peers have done 0 of 4 rounds, 1 running",
        "all peers have done 4 of 4 rounds, 0 running; accuracy 58.0 %",
    ]


# -- Prometheus ------------------------------------------------------------------------------------


def test_prometheus_reads_round_accuracy_epsilon_and_seconds_of_every_run() -> None:
    (port,) = free_ports(1)
    page = Prometheus(port).open()
    for event in story("local", "gossip", done=3):
        page.take(event)
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    for line in (
        'amity_round{run="gossip",seed="0"} 3.0',
        'amity_accuracy{run="local",seed="0"} 0.52',
        'amity_epsilon{run="gossip",seed="0"} 2.0',
        'amity_phase_seconds{phase="train",run="local",seed="0"} 0.25',
    ):
        assert line in text.splitlines()
    with pytest.raises(ConfigError, match=f"sinks=prometheus: port {port} cannot be used"):
        Prometheus(port).open()
    page.close()
    Prometheus(port).open().close()


# -- a notebook ------------------------------------------------------------------------------------


def test_in_a_notebook_one_output_is_replaced_as_the_run_goes_on() -> None:
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    from amity.sinks.notebook import NotebookBars

    InteractiveShell.instance()
    try:
        with capture_output() as shown:
            feed(NotebookBars().open(), story("local", "gossip"))
    finally:
        InteractiveShell.clear_instance()
    first, *later = shown.outputs
    assert first.update is False
    assert later
    assert all(output.update for output in later)
    assert len({output.transient["display_id"] for output in shown.outputs}) == 1
    assert "8/8" in later[-1].data["text/html"]
    assert "highest at round 4: gossip 63.0 %" in later[-1].data["text/plain"]


def test_outside_a_notebook_its_bars_are_refused() -> None:
    from amity.sinks.notebook import NotebookBars, in_notebook

    assert not in_notebook()
    with pytest.raises(ConfigError, match="sinks=notebook: is for notebooks"):
        NotebookBars().open()


# -- from other threads and processes --------------------------------------------------------------

CELL = CellId(label="a", seed=0, path="a")


@dataclass
class Gated:
    """A sink as slow as one likes: it takes the next event when the gate is open."""

    gate: threading.Event = field(default_factory=threading.Event)
    events: list[Event] = field(default_factory=list)
    closed: bool = False

    def take(self, event: Event) -> None:
        assert self.gate.wait(60)
        self.events.append(event)

    def close(self) -> None:
        self.closed = True


def happened(number: int, cell: CellId = CELL) -> PeerEvent:
    return PeerEvent(cell=cell, peer="a", what="joined", about=str(number))


def test_a_slow_sink_keeps_nobody_waiting_and_gets_everything_in_order() -> None:
    slow = Gated()
    outbox = Outbox(slow)
    told = [RoundDone(cell=CELL, report=report(t, 0.5)) for t in range(5)]
    for event in told:
        outbox.take(event)  # returns although nothing is taken
    assert slow.events == []
    outbox.close(patience=0)  # nor does the end wait for long
    assert not slow.closed
    slow.gate.set()
    outbox.close(patience=None)
    assert (slow.events, slow.closed) == (told, True)


def test_when_too_much_waits_progress_goes_first_then_what_peers_tell_and_rounds_never() -> None:
    slow = Gated()
    outbox = Outbox(slow, room=4)
    rounds = [RoundDone(cell=CELL, report=report(t, 0.5)) for t in range(6)]
    outbox.take(rounds[0])
    while outbox.waiting:  # the sink has it, and is stuck with it
        pass
    first = [happened(0), Progress(cell=CELL, round=1, part=0.1), happened(1)]
    for event in (*first, Progress(cell=CELL, round=1, part=0.2), rounds[1]):
        outbox.take(event)
    outbox.take(rounds[2])
    outbox.take(rounds[3])
    assert outbox.dropped == 3
    for event in rounds[4:]:
        outbox.take(event)
    slow.gate.set()
    outbox.close(patience=None)
    assert slow.events == rounds
    assert outbox.dropped == 4


def test_a_sink_behind_an_outbox_that_fails_leaves_the_teller_alone() -> None:
    class Broken(Gated):
        def take(self, event: Event) -> None:
            raise SystemExit(141)

    outbox = Outbox(Broken())
    for t in range(3):
        outbox.take(Progress(cell=CELL, round=t, part=0.0))
    outbox.close(patience=None)
    outbox.take(Progress(cell=CELL, round=9, part=0.0))


def forked(inbox: Inbox, sink: PipeSink, last: bytes = b"") -> int:
    """A process that tells three rounds, then a part of a fourth, and is killed."""
    child = os.fork()
    if child == 0:
        try:
            inbox.close()
            for t in range(3):
                sink.take(RoundDone(cell=CELL, report=report(t, 0.5)))
            os.write(sink.fileno(), last)
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    sink.close()
    return child


def test_what_a_killed_process_had_told_whole_arrives_and_the_rest_is_lost() -> None:
    inbox, sink = pipe()
    child = forked(inbox, sink, HEAD.pack(1000) + b"half of it")
    os.waitpid(child, 0)
    events = inbox.take()
    assert [event.report.round for event in events if isinstance(event, RoundDone)] == [0, 1, 2]
    assert inbox.ended
    assert inbox.take() == []
    inbox.close()


def test_reading_never_waits_for_the_rest_of_an_event() -> None:
    inbox, sink = pipe()
    assert inbox.take() == []
    whole = Progress(cell=CELL, round=0, part=0.5)
    sink.take(whole)
    data = os.read(inbox.fileno(), 1 << 16)
    os.write(sink.fileno(), data + data[:7])
    assert inbox.take() == [whole]
    assert not inbox.ended
    os.write(sink.fileno(), data[7:])
    assert inbox.take() == [whole]
    sink.close()
    assert (inbox.take(), inbox.ended) == ([], True)
    inbox.close()


def test_a_teller_that_ends_before_its_last_round_tells_a_failure() -> None:
    told: list[Event] = []
    with Teller(CELL, told.append, config={}, rounds=2) as teller:
        teller.started(0)
        teller.round(report(0, 0.5))
    assert told[-1] == RunFailed(cell=CELL, error="ended before its last round")
