"""A strategy's words for its notes (`Explains`), where it is one of ours.

The config of a run may name a file of somebody's own code. That is not loaded here: whoever looks
at a run does not run it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from amity.live.finding import toml

Sentence = Callable[[Mapping[str, float]], str]


Role = Literal["reference", "alone", "strategy"]


def role_of(name: str) -> Role:
    """Whether a strategy is one that no real network could run, or takes from nobody."""
    from amity.core import Reference
    from amity.strategies import strategies
    from amity.strategies.local import Local

    if name not in strategies:
        return "strategy"
    found = strategies[name].cls
    if issubclass(found, Local):
        return "alone"
    return "reference" if issubclass(found, Reference) else "strategy"


def _nothing(_notes: Mapping[str, float]) -> str:
    return ""


def sentence_of(*folders: Path) -> Sentence:
    """What turns the notes of a round into a sentence; empty where there are no words."""
    options = next((found for at in folders if (found := toml(at / "config.toml"))), {})
    chosen = options.get("strategy", {})
    if not isinstance(chosen, dict):
        return _nothing
    from amity.core import Explains
    from amity.errors import AmityError
    from amity.strategies import strategies

    name = str(chosen.get("name", ""))
    if name not in strategies:
        return _nothing
    strategy: object = None
    try:
        strategy = strategies[name].build({k: v for k, v in chosen.items() if k != "name"})
    except (AmityError, TypeError, ValueError):
        return _nothing
    if not isinstance(strategy, Explains):
        return _nothing
    explain = strategy.explain

    def sentence(notes: Mapping[str, float]) -> str:
        try:
            return explain(notes)
        except (KeyError, TypeError, ValueError, ArithmeticError):  # notes of another version
            return ""

    return sentence
