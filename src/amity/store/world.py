"""world.json: who is in which group and has which labels, for whoever looks at a simulation. No
peer reads it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from amity.files import dump, write_atomically
from amity.round.truth import Friendship

WORLD = "world.json"


def write_world(folder: Path, friendship: Friendship, classes: Sequence[str] = ()) -> None:
    """Once: a run that goes on has the same world."""
    if (folder / WORLD).exists():
        return
    labels = {j: [round(share, 4) for share in shares] for j, shares in friendship.labels.items()}
    world = {
        "friend": friendship.said,
        "groups": {name: int(group) for name, group in friendship.groups.items()},
        "labels": labels,
        "classes": list(classes),
    }
    write_atomically(folder / WORLD, dump(world))
