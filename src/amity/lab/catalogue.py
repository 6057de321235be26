"""Every option that there is: those of a run, of real peers, of sinks and of proxies. What
`amity list` shows and what reference pages are made of."""

from __future__ import annotations

from collections.abc import Iterator

from amity.config.catalogue import Chapter, run_options
from amity.config.catalogue import kinds as kinds_of_run
from amity.errors import ConfigError, needs_peers
from amity.net.options import Net
from amity.peer.proxies import proxies
from amity.registry import Option
from amity.sinks import sinks


def kinds(*, peer: bool = True) -> list[Chapter]:
    """All parts, those that are no part of a run included. `peer`: also those of peer.toml, for
    which all that a real peer needs is loaded."""
    return [*kinds_of_run(), *_others(), *(_of_peer() if peer else [])]


def options() -> Iterator[Option]:
    """Every option: (key, type, default, range, meaning), and the entry that it belongs to."""
    yield from run_options()
    for kind in (*_others(), *_of_peer()):
        yield from kind.options()


def _others() -> list[Chapter]:
    return [
        Chapter(
            "sinks",
            "Who is told what happens in a run, any number at once.",
            sinks,
            default="auto",
            form="{kind}={entry}:{option}",
        ),
        Chapter(
            "proxies",
            "What the cards of a strategy show of a peer's data.",
            proxies,
            chosen_by="strategy.proxy",
        ),
        Chapter(
            "net", "How a real peer behaves on the network: `amity swarm`, `[net]`.", always=Net
        ),
    ]


def _of_peer() -> list[Chapter]:
    try:
        with needs_peers():
            from amity.net.setup import Who
    except ConfigError:  # real peers are not installed, and nobody here can be one
        return []
    return [Chapter("peer", "Who a real peer is: `[peer]` of peer.toml.", always=Who)]
