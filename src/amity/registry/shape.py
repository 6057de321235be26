"""What people forget when they write a class of their own."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping

UNDECORATED = "is a class without @dataclass; put @dataclass(frozen=True) above it"


def bare_fields(cls: type) -> Iterator[str]:
    """Fields of a class that inherits from a dataclass and is none itself: they would be no
    options, without a word."""
    if "__dataclass_fields__" not in vars(cls):
        own = [
            name
            for name, hint in inspect.get_annotations(cls).items()
            if "ClassVar" not in str(hint)
        ]
        yield from (f"{cls.__name__}, which has the field {name!r}, {UNDECORATED}" for name in own)


def plain_verbs(cls: type, generators: Mapping[str, str]) -> Iterator[str]:
    """Methods that should yield and never do. One that hands on what another method gives may be a
    plain function; who makes the last value itself has forgotten the yield."""
    for verb, last in generators.items():
        function = getattr(cls, verb, None)
        if not inspect.isfunction(function) or inspect.isgeneratorfunction(function):
            continue
        if last in function.__code__.co_names:
            yield no_yield(f"{cls.__name__}.{verb}")


def no_yield(what: str) -> str:
    """What is wrong with a plan that never asks, and how to write one."""
    return (
        f"{what} has no yield, so it is no generator; if it asks nothing, write `yield from ()`"
        " before its return"
    )
