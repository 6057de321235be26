"""`amity swarm`: a real network on this machine, to try it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from amity.cli.common import Words, sinks_of
from amity.cli.peer import needs_peers
from amity.console import complain, err_console, say, status

if TYPE_CHECKING:
    from amity.net.ops.swarm import Swarm


def swarm(
    words: Words = None,
    peers: Annotated[int, typer.Option(help="How many; also peers=N.", min=2, max=256)] = 8,
) -> None:
    """A real network on this machine: certificates, one process a peer, a live table, the same
    report. Own keys: out=DIR sinks=A,B.

    Keys are those of `amity run`, and net.*: `amity swarm --peers 8 rounds=5 net.transfer=bf16
    out=runs/s`.
    """
    from amity.config import load, out_path, split_words, typed
    from amity.lab.reports import write_report
    from amity.lab.result import Result
    from amity.lab.run import new_dir
    from amity.show.terminal import show_run
    from amity.sinks.stream import Stream

    with needs_peers():
        from amity.net.ops.collect import merge
        from amity.net.ops.swarm import Swarm
        from amity.net.options import Net
        from amity.net.setup import split_net
    file, given, mine = split_words(words or [], "out", "sinks")
    values, net = split_net(given)
    out = out_path(mine) if "out" in mine else new_dir("swarm")
    config = load(file, {"peers": peers, **values})
    stream = Stream(sinks_of(mine, file, default="peers"))
    with status(f"reading {config.data.name}; keys and certificates"):
        crowd = Swarm(out, config, typed("net", Net, net), tell=stream.take)
        crowd.lay_out()
    label, name = crowd.config.label, crowd.config.data.name
    say(
        f"{label}: {name}, {crowd.config.peers} peers, {crowd.config.rounds} rounds, each peer a"
        f" process; {out}"
    )
    with stream:
        _wait(crowd)
    with status("drawing the report"):
        merge(out, crowd.config)
    show_run(Result(out, crowd.config), write_report(out))
    for peer, error in crowd.failed.items():
        complain(f"{peer} failed: {error}")
    if crowd.failed:
        raise SystemExit(1)


def _wait(crowd: Swarm) -> None:
    """Ctrl-C ends all peers, and loses nothing."""
    crowd.start()
    try:
        crowd.wait()
    except KeyboardInterrupt:
        err_console.print("ending the peers; the same command with the same out= goes on")
        raise
    finally:
        crowd.stop()
