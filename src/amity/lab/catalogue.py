"""Every option that there is: those of a run, of real peers, of sinks and of proxies. What
`amity list` shows and what reference pages are made of."""

from __future__ import annotations

from collections.abc import Iterator

from amity.config.catalogue import Kind, run_options
from amity.config.catalogue import kinds as kinds_of_run
from amity.errors import ConfigError, needs_peers
from amity.net.options import Net
from amity.peer.proxies import proxies
from amity.registry import Option
from amity.sinks import sinks


def kinds() -> list[Kind]:
    """All parts, those that are no part of a run included."""
    return [*kinds_of_run(), *_others()]


def options() -> Iterator[Option]:
    """Every option: (key, type, default, range, meaning), and the entry that it belongs to."""
    yield from run_options()
    for kind in _others():
        yield from kind.options()


def _others() -> list[Kind]:
    others = [
        Kind(
            "sinks",
            "Who is told what happens in a run, any number at once.",
            sinks,
            default="auto",
            form="{kind}={entry}:{option}",
        ),
        Kind(
            "proxies",
            "What the cards of a strategy show of a peer's data.",
            proxies,
            chosen_by="strategy.proxy",
        ),
        Kind("net", "How a real peer behaves on the network: `amity swarm`, `[net]`.", always=Net),
    ]
    try:
        with needs_peers():
            from amity.net.setup import Who
    except ConfigError:  # real peers are not installed, and nobody here can be one
        return others
    return [*others, Kind("peer", "Who a real peer is: `[peer]` of peer.toml.", always=Who)]
