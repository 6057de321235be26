"""`amity swarm`: a real network on this machine, to try it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from amity.cli.common import Trust, Words, going_on, say_data, sinks_of
from amity.cli.watch import NO_PAGE, LivePage, with_live_page
from amity.console import complain, err_console, say, status
from amity.errors import ConfigError, needs_peers

PEERS, MOST = 8, 256
"""How many peers there are where nothing is said, and at most: each is a process."""


@with_live_page
def swarm(
    words: Words = None,
    peers: Annotated[
        int | None, typer.Option(help="How many (8); also peers=N.", show_default=False)
    ] = None,
    page: LivePage = NO_PAGE,
    trust: Trust = False,
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
        from amity.net.setup import on_guard, split_net
    file, given, mine = split_words(words or [], "out", "sinks")
    values, net = split_net(given)
    out = out_path(mine) if "out" in mine else new_dir("swarm")
    config = load(file, values | _crowd(peers, values, file), trust=trust, real=on_guard(net))
    _check_crowd(config.peers)
    stream = Stream(sinks_of(mine, file, default="peers", trust=trust))
    with status(f"reading {config.data.name}; keys and certificates"):
        crowd = make_swarm(config, out, net, stream)
    say_data(crowd.dataset)
    label, name = crowd.config.label, crowd.config.dataset_label
    say(
        f"{label}: {name}, {crowd.config.peers} peers, {crowd.config.rounds} rounds, each peer a"
        f" process; {out}"
    )
    for change in crowd.config.changes:
        say(f"planned: {change}")
    with going_on(out), page.beside([out]), stream, running(crowd):
        try:
            crowd.wait()
        except KeyboardInterrupt:
            err_console.print("ending the peers")
            raise
    with status("drawing the report"):
        result = gathered(crowd)
    show_run(result, write_report(out))
    for peer, error in crowd.failed.items():
        complain(f"{peer} failed: {error}")
    if crowd.failed:
        raise SystemExit(1)


def _crowd(option: int | None, values: Mapping[str, Any], file: Path | None) -> dict[str, int]:
    """How many peers, if the words do not say it: as the option does, else the file, else 8."""
    from amity.config import read_toml

    given = values.get("peers")
    if option is not None and given not in (None, option):
        raise ConfigError(f"peers: --peers {option}, but peers={given}; leave one of them out")
    if option is not None:
        return {"peers": option}
    said = given is not None or (file is not None and "peers" in read_toml(file))
    return {} if said else {"peers": PEERS}


def _check_crowd(peers: int) -> None:
    if not 2 <= peers <= MOST:
        raise ConfigError(
            f"peers: a swarm has 2 to {MOST} peers, a process each, got {peers}; `amity run` takes"
            " any number"
        )
