"""The numbers of docs/WHEN.md, which says in plain words when it is worth while to choose one's
friends. All of them are made from the records of the map of regimes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amity.reproduce.experiments.regimes import MINE, landscape
from amity.reproduce.landscape import LOCAL_ROW, NEAR, ORACLE_ROW, Landscape
from amity.reproduce.regimes import CALLED, Regime
from amity.reproduce.regret import ALONE, ANYONE, EVERYONE, FRIENDS, HARM, UNKNOWN
from amity.reproduce.shared import GOSSIP
from amity.reproduce.text import NOTHING
from amity.show.page import markdown_table

if TYPE_CHECKING:
    from amity.reproduce.table import RunTable

SAID = {
    FRIENDS: "friends",
    EVERYONE: "everyone",
    ANYONE: "anyone's; whose more, is open",
    ALONE: "nobody's",
    UNKNOWN: "open: the intervals do not tell",
}
NUMBERS = ("counts", "worlds", "default", "regret")
"""What stands between markers on the page."""


def numbers(table: RunTable) -> dict[str, str]:
    """The page's parts that hold numbers, by name."""
    found = landscape(table)
    made = {
        "counts": _counts(found),
        "worlds": _worlds(found),
        "default": _default(found),
        "regret": _regret(found),
    }
    return {name: made[name] for name in NUMBERS}


def _counts(found: Landscape) -> str:
    total = len(found.pays)
    counts = {kind: list(found.pays.values()).count(kind) for kind in SAID}
    parts = [
        f"friends are worth more than everyone in {counts[FRIENDS]}",
        f"everyone is worth more than friends in {counts[EVERYONE]}",
        f"both are worth more than nobody, and which of them more is open, in {counts[ANYONE]}",
        f"nobody is worth more than either in {counts[ALONE]}",
        f"nothing can be told in {counts[UNKNOWN]}, because the intervals over seeds include 0",
    ]
    return f"Of {total} worlds, {', '.join(parts[:-1])}, and {parts[-1]}.\n"


def _worlds(found: Landscape) -> str:
    head = ["the world", "data, examples each", "alone", "everyone", "true friends"]
    lines = [
        [world.kind.said, _data(world), *_levels(found, world), SAID[found.pays[world.name]]]
        for world in found.worlds
        if world.name in found.pays
    ]
    return markdown_table([*head, "the default", "whose company pays"], lines) + "\n"


def _data(world: Regime) -> str:
    return f"{CALLED[world.data]}, {world.samples or 'all'}"


def _levels(found: Landscape, world: Regime) -> list[str]:
    """Percent alone, and what is gained or lost by company."""
    alone = found.table.entry("", LOCAL_ROW, world.name)
    gains = [found.gain(row, world.name) for row in (GOSSIP, ORACLE_ROW, MINE)]
    level = NOTHING if alone is None else f"{alone.accuracy:.1f} %"
    return [level, *(NOTHING if gain is None else str(gain) for gain in gains)]


def _default(found: Landscape) -> str:
    regret, harm, oracle = found.regret(MINE), found.harm(MINE), found.behind_oracle(MINE)
    ahead = sum(gap.behind.sign < 0 for gap in regret.gaps)
    text = (
        f"Over {len(regret.gaps)} worlds the default (`{MINE}`) is on average"
        f" {regret.mean:.2f} points behind the best other method of each (not always the same one)."
        f" Where it is furthest behind, that is {regret.worst.regret:.1f} points"
        f" ({regret.worst.world}, behind {regret.worst.best}). In {ahead} worlds it is ahead of all"
        " others by more than chance."
    )
    if oracle:
        text += (
            f" In {found.near_oracle(MINE)} of {len(oracle)} worlds with hidden groups it is within"
            f" {NEAR:g} point of somebody who was told the groups."
        )
    if harm:
        text += (
            f" The share of peers that are much harmed, which end more than {100 * HARM:g} points"
            f" below training alone, is at most {100 * max(harm.values()):.0f} % in any world."
        )
    return text + "\n"


def _regret(found: Landscape) -> str:
    _, head, lines = found.regrets()
    return markdown_table(head, lines) + "\n"
