"""Pictures: a strategy looks the same everywhere."""

from __future__ import annotations

from amity.lab.compare import DEFAULT_STRATEGIES
from amity.show.figures import OTHERS, STRATEGIES, styles
from amity.strategies import strategies


def test_a_strategy_has_its_colour_whatever_it_is_called_and_whoever_else_is_there() -> None:
    alone = styles(["Gossip"])["Gossip"]
    assert alone == {"color": STRATEGIES["gossip"], "linestyle": "-"}
    crowd = styles(["mine.py:X", "afind+:paper", "gossip:k=5", "AFIND+ (paper)", "PENS"])
    assert crowd["gossip:k=5"] == alone
    assert (
        crowd["afind+:paper"]["color"] == crowd["AFIND+ (paper)"]["color"] == STRATEGIES["afind+"]
    )
    assert crowd["mine.py:X"]["color"] in OTHERS
    assert not set(OTHERS) & set(STRATEGIES.values())


def test_no_two_lines_of_a_picture_look_alike() -> None:
    for labels in (
        DEFAULT_STRATEGIES,
        ["Gossip", "i", "i+ii", "i+ii+iii", "blind"],
        [f"gossip:k={k}" for k in range(4)],
    ):
        looks = [tuple(sorted(look.items())) for look in styles(labels).values()]
        assert len(set(looks)) == len(labels)
    assert styles(DEFAULT_STRATEGIES)["afind+:tuned"]["linestyle"] == "-"


def test_every_strategy_has_a_colour_of_its_own() -> None:
    assert {entry.name for entry in strategies} <= set(STRATEGIES)
    assert len(set(STRATEGIES.values())) == len(STRATEGIES)
