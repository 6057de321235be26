"""The same run between real processes on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amity.config import Config, typed
from amity.errors import Failure, needs_peers
from amity.lab.result import Result
from amity.lab.run import Given, as_config, new_dir, sinks_of
from amity.sinks.stream import Stream, Wanted
from amity.store import note_command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amity.net.ops.swarm import Swarm


def swarm(
    config: Given = None,
    out: str | Path | None = None,
    net: Mapping[str, Any] | None = None,
    sinks: Wanted = None,
    **overrides: Any,
) -> Result:
    """Run real peers, one process and one certificate each: `amity.swarm(peers=4, rounds=5)`.

    `net` are the keys of `net.*` (`{"transfer": "bf16"}`). Real peers are on their guard: where no
    `stages` are named, the strategy's own stage clips what others send (`stages="none"`, and
    `net={"masked": True}`: nothing does). Without privacy noise, the result has the bits of the
    simulator with the same stages. The directory `out` holds a folder for every peer, and the whole
    run as `amity.run` would leave it. A swarm that did not end is continued.
    """
    stream = Stream(sinks_of(config, sinks))
    given = {key.removeprefix("net."): overrides.pop(key) for key in _of_net(overrides)}
    with needs_peers():
        from amity.net.setup import on_guard
    rules, path = {**(net or {}), **given}, Path(out) if out else new_dir("swarm")
    crowd = make_swarm(as_config(config, overrides, real=on_guard(rules)), path, rules, stream)
    with stream, running(crowd):
        crowd.wait()
    result = gathered(crowd)
    for peer, error in crowd.failed.items():
        raise Failure(f"{peer} failed: {error}")
    return result


def _of_net(overrides: Mapping[str, Any]) -> list[str]:
    return [key for key in overrides if key.startswith("net.")]


def make_swarm(config: Config, out: Path, net: Mapping[str, Any], stream: Stream) -> Swarm:
    """Peers with keys, certificates and folders; nothing runs yet."""
    with needs_peers():
        from amity.net.ops.swarm import Swarm
        from amity.net.options import Net
    crowd = Swarm(out, config, typed("net", Net, net), tell=stream.take)
    crowd.lay_out()
    note_command(crowd.out)
    return crowd


@contextmanager
def running(crowd: Swarm) -> Iterator[None]:
    """Inside, the peers run; whatever happens, none is left behind."""
    crowd.start()
    try:
        yield
    finally:
        crowd.stop()


def gathered(crowd: Swarm) -> Result:
    """What all peers wrote of themselves, put together as one run."""
    from amity.net.ops.collect import merge

    merge(crowd.out, crowd.config)
    return Result(crowd.out, crowd.config)
