"""Sender and receiver book the same: in a network in which nothing is lost, what all have sent is
what all have received, to the byte, for every kind and format."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from amity.core import Share
from amity.facts import REPLY_BYTES
from amity.net.moment import INLINE
from amity.net.node import Node
from amity.net.ops.collect import merge, records_of
from amity.net.ops.swarm import Swarm
from amity.net.setup import read_setup
from amity.net.wire import Format, encode_share, encode_sketch
from amity.records import PeerRecord
from amity.store import read_records
from tests.test_node import play, untouched
from tests.test_parity import CALM, swarm_of

FORMATS: tuple[Format, ...] = ("fp32", "bf16", "int8")
HIDDEN = 40
SIZE = 64 * HIDDEN + HIDDEN + HIDDEN * 10 + 10
"""Parameters of a model for digits with so many hidden units."""
SPECS: dict[str, dict[str, Any]] = {
    "models": {"strategy": {"name": "gossip", "k": 2}},
    "models, masked": {"strategy": {"name": "gossip", "k": 2}, "method": "dispfl"},
    "losses of models": {"strategy": {"name": "pens"}},
    "cards": {"strategy": {"name": "afind+"}},
    "cards of signs": {"strategy": {"name": "afind+", "bits": 1}},
    "cards, to those who are near": {
        "strategy": {"name": "afind+"},
        "topology": {"name": "regular", "k": 2, "redraw": 1},
    },
    "cards that are fetched": {
        "strategy": {"name": "afind+", "sketch": 0},
        "model": {"name": "mlp", "hidden": 300},
    },
    "losses": {"strategy": {"name": "afind+", "preset": "paper"}},
    "words": {"strategy": {"name": "dac", "k": 2}},
    "visits": {"strategy": {"name": "afind+", "preset": "literal", "include_self": True}},
}
KINDS = ("card", "model", "reply")
CARDS = [what for what in SPECS if not what.startswith(("models", "losses of", "words"))]


def moved(swarm: Swarm) -> dict[str, tuple[int, int]]:
    """What all peers have received and sent, by kind, from the first ask to the last answer."""
    merge(swarm.out, swarm.config)
    records = read_records(swarm.out / "metrics.jsonl", PeerRecord)
    return {
        kind: (
            sum(r.value(f"{kind}_in") for r in records),
            sum(r.value(f"{kind}_out") for r in records),
        )
        for kind in KINDS
    }


def body(transfer: Format) -> int:
    """Bytes of a model as it travels."""
    return len(encode_share(Share(torch.zeros(SIZE)), transfer, np.random.default_rng(0)))


def agreed(swarm: Swarm) -> dict[str, int]:
    found = moved(swarm)
    sent = {kind: out for kind, (_, out) in found.items()}
    assert {kind: received for kind, (received, _) in found.items()} == sent
    return sent


@pytest.mark.parametrize("transfer", FORMATS)
@pytest.mark.parametrize("what", SPECS)
def test_books_of_sender_and_receiver_agree_to_the_byte(
    tmp_path: Path, what: str, transfer: Format
) -> None:
    layers = {"model": {"name": "mlp", "hidden": HIDDEN}, **SPECS[what], "peers": 4, "rounds": 3}
    sent = agreed(play(tmp_path / "net", untouched, replace(CALM, transfer=transfer), **layers))
    assert sent["model"] > 0
    assert (sent["card"] > 0) == (what in CARDS)
    assert sent["reply"] % REPLY_BYTES == 0 or what == "words"
    assert (sent["reply"] > 0) == (what in ("losses", "words", "visits"))


@pytest.mark.parametrize("transfer", FORMATS)
def test_a_model_is_booked_as_the_bytes_of_its_body(tmp_path: Path, transfer: Format) -> None:
    layers: dict[str, Any] = {"model": {"name": "mlp", "hidden": HIDDEN}, **SPECS["models"]}
    swarm = play(tmp_path / "net", untouched, replace(CALM, transfer=transfer), **layers)
    for name in swarm.names:
        for record in records_of(swarm.folder(name) / "state"):
            assert record.model_in == 2 * body(transfer)
    assert agreed(swarm)["model"] == 3 * 3 * 2 * body(transfer)


def test_a_card_is_booked_once_for_each_neighbour(tmp_path: Path) -> None:
    swarm = play(tmp_path / "net", untouched, CALM, strategy={"name": "afind+"})
    schema = Node(read_setup(swarm.folder("peer-00"))).workshop.schema
    size = len(encode_sketch(torch.zeros(schema.sketch)))
    assert size <= INLINE
    assert agreed(swarm)["card"] == 3 * 3 * 2 * size, "rounds, peers, neighbours of each"


def test_a_card_too_large_to_be_published_is_booked_when_somebody_fetches_it(
    tmp_path: Path,
) -> None:
    swarm = play(tmp_path / "net", untouched, CALM, **SPECS["cards that are fetched"])
    schema = Node(read_setup(swarm.folder("peer-00"))).workshop.schema
    size = len(encode_sketch(torch.zeros(schema.sketch)))
    assert size > INLINE
    assert agreed(swarm)["card"] % size == 0


def test_a_part_that_is_lost_or_sent_again_is_booked_by_its_sender_alone(tmp_path: Path) -> None:
    lost: Counter[str] = Counter()

    def cut(source: str, target: str, what: str, data: bytes) -> bytes | None:
        if what == "body reply" and not lost[source]:
            lost[source] += min(len(data), 1024)  # without its seal
            return None
        return data

    layers: dict[str, Any] = {"model": {"name": "mlp", "hidden": HIDDEN}, **SPECS["models"]}
    swarm = play(tmp_path / "net", cut, replace(CALM, chunk=1024), **layers)
    received, sent = moved(swarm)["model"]
    assert sum(lost.values()) == 3 * 1024
    assert received == 3 * 3 * 2 * body("fp32")
    assert sent >= received + sum(lost.values()), "what followed the lost part is sent again too"


@pytest.mark.parametrize(
    ("what", "net"),
    [
        ("visits", replace(CALM, transfer="int8")),
        ("cards", replace(CALM, transfer="bf16")),
        ("cards", replace(CALM, sync="none", staleness=100)),
    ],
    ids=["visits", "cards", "at their own pace"],
)
def test_books_agree_between_processes_too(tmp_path: Path, what: str, net: Any) -> None:
    swarm = swarm_of(tmp_path / "swarm", net, peers=4, rounds=6, **SPECS[what])
    assert agreed(swarm)["card"] > 0
