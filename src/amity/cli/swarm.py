"""`amity swarm`: a real network on this machine, to try it."""

from __future__ import annotations

from typing import Annotated

import typer

from amity.cli.common import Words, say_data, sinks_of
from amity.console import complain, err_console, say, status
from amity.errors import needs_peers


def swarm(
    words: Words = None,
    peers: Annotated[int, typer.Option(help="How many; also peers=N.", min=2, max=256)] = 8,
) -> None:
    """A real network on this machine: certificates, one process per peer, a live table, the same
    report. Own keys: out=DIR sinks=A,B.

    Keys are those of `amity run`, and net.*: `amity swarm --peers 8 rounds=5 net.transfer=bf16
    out=runs/s`.
    """
    from amity.config import load, out_path, split_words
    from amity.lab.reports import write_report
    from amity.lab.run import new_dir
    from amity.lab.swarm import gathered, make_swarm, running
    from amity.show.terminal import show_run
    from amity.sinks.stream import Stream

    with needs_peers():
        from amity.net.setup import split_net
    file, given, mine = split_words(words or [], "out", "sinks")
    values, net = split_net(given)
    out = out_path(mine) if "out" in mine else new_dir("swarm")
    config = load(file, {"peers": peers, **values})
    stream = Stream(sinks_of(mine, file, default="peers"))
    with status(f"reading {config.data.name}; keys and certificates"):
        crowd = make_swarm(config, out, net, stream)
    say_data(crowd.dataset)
    label, name = crowd.config.label, crowd.config.dataset_label
    say(
        f"{label}: {name}, {crowd.config.peers} peers, {crowd.config.rounds} rounds, each peer a"
        f" process; {out}"
    )
    try:
        with stream, running(crowd):
            crowd.wait()
    except KeyboardInterrupt:
        err_console.print("ending the peers; the same command with the same out= goes on")
        raise
    with status("drawing the report"):
        result = gathered(crowd)
    show_run(result, write_report(out))
    for peer, error in crowd.failed.items():
        complain(f"{peer} failed: {error}")
    if crowd.failed:
        raise SystemExit(1)
