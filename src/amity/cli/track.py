"""`amity track`: what is on disk, into somebody's tracker."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from amity.console import out_console, status
from amity.errors import AmityError, ConfigError, Failure, RunDirError, brief

if TYPE_CHECKING:
    from amity.events import Sink
    from amity.lab.replay import Replay
    from amity.sinks import Opens

Where = Annotated[
    Path, typer.Argument(help="A run, a comparison, a sweep, a swarm or a peer's folder.")
]
Keys = Annotated[list[str] | None, typer.Argument(metavar="to=NAME [KEY=VALUE]...")]


def track(path: Where, words: Keys = None) -> None:
    """Put runs that are on disk into trackers: to=tensorboard, mlflow, wandb or any other sink.

    Options of the sink are further keys (to=tensorboard dir=tb), or stand with its name where there
    are several: to=tensorboard:dir=tb,wandb. Rounds that a tracker has already are not doubled.
    """
    chosen = _chosen(words or [])
    with status(f"reading {path}"):
        found = _replays(path)
    if not any(replay.result.rounds for replay in found):
        raise RunDirError(f"{path}: no round is done yet")
    names = ", ".join(chosen)
    with status(f"telling {names}"):
        rounds = _tell(found, chosen)
    what = f"{len(found)} run{'s' * (len(found) != 1)}, {rounds} round{'s' * (rounds != 1)}"
    out_console.print(f"{path}: {what} told to {names}", markup=False, soft_wrap=True)


def _chosen(words: Sequence[str]) -> dict[str, Opens]:
    """The sinks that were asked for, by name; nothing is opened yet."""
    from amity.config import parse, read_spec, split_list
    from amity.sinks import sinks

    values = parse(words)
    asked = split_list(values.pop("to", ""))
    if not asked:
        raise ConfigError("to: say where to, as in to=tensorboard, to=mlflow or to=wandb")
    if values and len(asked) > 1:
        key = next(iter(values))
        raise ConfigError(f"{key}: with several names, options stand with one: to=NAME:{key}=...")
    chosen: dict[str, Opens] = {}
    for spec in asked:
        options = read_spec(spec, sinks, "to") | values
        name = str(options.pop("name"))
        if name in chosen:
            raise ConfigError(f"to: {name!r} is named twice")
        chosen[name] = sinks[name].build(options)
    return chosen


def _replays(path: Path) -> list[Replay]:
    """All runs of a folder. Each peer of a real network is one, as it is while it runs; a swarm's
    own folder adds the whole network."""
    from amity.lab.replay import Replay, replays
    from amity.lab.result import Result
    from amity.net.ops.collect import peers_in
    from amity.store import read_config

    one = any((path / name).is_file() for name in ("peer.toml", "audit.jsonl"))
    group = "" if one else str(path)
    found = [
        Replay.of(Result(state, read_config(state)), label=name, group=group)
        for name, state in peers_in(path).items()
        if (state / "config.toml").is_file()
    ]
    if not found:
        return replays(path)
    if not one and (path / "rounds.jsonl").is_file():
        found.append(Replay.of(Result(path, read_config(path)), group=group))
    return found


def _tell(found: Iterable[Replay], chosen: Mapping[str, Opens]) -> int:
    """Tell all events to all sinks; returns how many rounds that were."""
    from amity.events import RoundDone

    rounds = 0
    with ExitStack() as stack:
        opened: dict[str, Sink] = {}
        for name, entry in chosen.items():
            with _blamed(name):
                opened[name] = stack.enter_context(closing(entry.open()))
        for event in itertools.chain.from_iterable(replay.events() for replay in found):
            rounds += isinstance(event, RoundDone)
            for name, sink in opened.items():
                with _blamed(name):
                    sink.take(event)
    return rounds


@contextmanager
def _blamed(name: str) -> Iterator[None]:
    """Whatever goes wrong in somebody else's library is one line with its name."""
    try:
        yield
    except AmityError:
        raise
    except Exception as error:
        raise Failure(f"sink {name}: {brief(error)}") from error
