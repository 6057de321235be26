"""A run that goes on past its planned end, or with a change that was planned later.

config.toml stays as it was. `extended.jsonl` has a line for each extension: before which round it
was made, the number of rounds and the changes from then on. What was done before stays as it is, to
the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from amity.config import Change, Config
from amity.errors import RunDirError
from amity.files import dump, write_atomically
from amity.store.checks import differences
from amity.store.reading import EXTENDED, commits, load_config, read_lines

KEYS = ("changes", "extended", "rounds")
"""In which a config may differ from the one that it extends."""
SHADOW = "eval.shadow"
"""In this too: nothing that is learnt depends on it."""


def extension(path: Path, config: Config) -> Config | None:
    """This config as an extension of the one that a directory has; None if it is the same, or
    differs in anything else. Raises if it would alter what is done."""
    old = load_config(path)
    new = config.completed(old)
    old = old.completed(new)
    differing = {key.partition(".")[0] for key in differences(old, new) if key != SHADOW}
    if not differing and old.eval.shadow == new.eval.shadow:
        return None
    if not differing <= set(KEYS):
        return None
    done = _done(path)
    _check(path, old, new, done)
    pair = () if new.rounds == old.rounds else ((done, old.rounds),)
    return new.replace(extended=[*old.extended, *pair])


def _done(path: Path) -> int:
    """Rounds that are done here; of a swarm, by any of its peers."""
    folders = (path, *(path / "peers").glob("*/state"))
    return max((commit.round for folder in folders for commit in commits(folder)), default=0)


def _check(path: Path, old: Config, new: Config, done: int) -> None:
    if new.rounds < old.rounds:
        raise RunDirError(
            f"{path}: was begun with rounds={old.rounds}, which can be raised, but not lowered to"
            f" {new.rounds}"
        )
    if _past(old.changes, done) != _past(new.changes, done):
        raise RunDirError(
            f"{path}: {done} rounds are done, and `changes` would alter one of them; only what"
            f" changes from={done} or later can be planned now"
        )


def _past(changes: Sequence[Change], done: int) -> list[Change]:
    """Those that hold in a round that is done."""
    return [change for change in changes if change.start < done]


def extend(path: Path, config: Config) -> None:
    """Write down that the run of a directory is extended to this config."""
    plain = config.to_dict()
    line = {"at": _done(path), **{key: plain.get(key, []) for key in KEYS}}
    line[SHADOW] = config.eval.shadow
    write_atomically(path / EXTENDED, map(dump, [*read_lines(path / EXTENDED), line]))
