"""What a peer of the strategy `friends` says about its decisions: as numbers, and in words."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from amity.strategies.friendbook import Company, FriendBook, agree

CODES: Final[Mapping[Company, float]] = {"alone": 0.0, "friends": 1.0, "everyone": 2.0}
PLANNED: Final = "as planned"
"""Of a peer that takes nobody in the end, which looks like a failure."""
TAKES: Final[Mapping[float, str]] = {0.0: "nobody", 1.0: "its friends", 2.0: "everyone"}


def noted(book: FriendBook, company: Company, refused: int) -> dict[str, float]:
    likeness = [book.alike[j] for j in book.friends]
    notes = {
        "groups": float(book.groups),
        "friends": float(len(likeness)),
        "near": float(book.near),
        "strangers": float(len(book.alike) - len(likeness)),
        "company": CODES[company],
        "refused": float(refused),
        "poor": float(len(book.poor)),
    }
    if likeness:
        notes["likeness"] = statistics.fmean(likeness)
    if book.agreement is not None:
        notes |= {"alone": book.alone, "agreement": book.agreement}
    if book.kin is not None:
        notes |= {"kin": book.kin, "joined": float(book.joined)}
    return notes


def explained(notes: Mapping[str, float]) -> str:
    """What a round's notes say, for people."""
    if "company" not in notes:
        return ""
    said = [_about_groups(notes)]
    if "kin" in notes:
        said.append(_about_kin(notes))
    elif "agreement" in notes:
        with_friends = agree(notes["agreement"], notes["alone"], int(notes["near"]))
        said.append(
            f"strangers {'agree' if with_friends else 'do not agree'}: {notes['agreement']:.0%}"
            f" right on its examples, where learning alone from half of them is"
            f" {notes['alone']:.0%} right"
        )
    if notes["poor"]:
        said.append(f"models of {int(notes['poor'])} are refused, they know too little")
    whom = TAKES[notes["company"]]
    if notes["settled"]:
        end = (
            f"it took {whom}, and in the last fifth of the rounds it makes that its own ({PLANNED})"
        )
        return "; ".join((*said, end))
    return "; ".join((*said, f"it takes {whom}"))


def summed_up(notes: Sequence[Mapping[str, float]]) -> str:
    """How many peers take whom."""
    known = [one for one in notes if "company" in one]
    now = Counter(one["company"] for one in known if not one["settled"])
    took = {code: TAKES[code].removeprefix("its ") for code in sorted(now)}
    said = [f"{now[code]} took {whom}" for code, whom in took.items()]
    settled = sum(one["settled"] > 0 for one in known)
    if settled:
        said.append(
            f"{settled} took nobody any more, after everyone before ({PLANNED}: in the last fifth"
            " of the rounds a peer makes its own what it has from strangers)"
        )
    return ", ".join(said)


def _about_groups(notes: Mapping[str, float]) -> str:
    """Whether there are groups, and what its own is like."""
    friends, strangers = int(notes["friends"]), int(notes["strangers"])
    if not friends and not strangers:
        return "it has seen nobody's card"
    if not strangers:
        return "all cards look alike, so there are no groups"
    if not friends:
        return f"it is like none of {strangers} others"
    return (
        f"of {friends + strangers} others {friends} are like it (likeness"
        f" {notes['likeness']:.2f}; {int(notes['groups'])} groups)"
    )


def _about_kin(notes: Mapping[str, float]) -> str:
    """How its group did beside strangers, and what came of that."""
    beside = (
        f"its friends are {notes['kin']:.0%} right on its examples, strangers"
        f" {notes['agreement']:.0%}"
    )
    if not notes["joined"]:
        return beside
    whose = "its group" if notes["agreement"] > notes["kin"] else "a group of others"
    return f"{beside}; {whose} does badly by itself, and strangers know enough: groups have joined"
