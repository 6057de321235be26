"""What peers send each other: every kind arrives as it was sent, and whatever is wrong is refused,
with the right word."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given, settings
from hypothesis import strategies as st

from amity._version import __version__
from amity.core import Card, Share
from amity.facts import Losses, Offer, Similarity
from amity.net import wire
from amity.net.board import RETURN, Board, Notice, read_notice
from amity.net.trust.identity import Identity
from amity.net.trust.roster import Member, Roster
from amity.net.wire import (
    BLOCK,
    DOMAIN,
    LARGEST_HEADER,
    LARGEST_MANIFEST,
    LARGEST_SKETCH,
    MAGIC,
    PROTOCOL,
    SKEW_MS,
    CardData,
    Expected,
    Format,
    Kind,
    Manifest,
    Refused,
    ShareData,
    Stamp,
    Terms,
    VisitData,
    WireSchema,
    check_body,
    decode_share,
    decode_sketch,
    dequantise,
    encode_share,
    encode_sketch,
    frame,
    losses_of,
    open_head,
    quantise,
    said,
    unframe,
)

Array = np.ndarray[Any, Any]
FORMATS: tuple[Format, ...] = ("fp32", "bf16", "int8")
ALL_KINDS: tuple[Kind, ...] = ("card", "share", "start", "probe", "visit", "ask", "answer")


def somebody(name: str) -> Identity:
    secret = int.from_bytes(name.encode(), "big")
    return Identity(name, Path(name), ec.derive_private_key(secret, ec.SECP256R1()))


ANN, BEN, EVE = (somebody(name) for name in ("ann", "ben", "eve"))
ROSTER = Roster.of("trial", [Member(one.name, "", one.fingerprint) for one in (ANN, BEN)])
"""Ann receives, Ben sends, and Eve does not belong to it."""
SCHEMA = WireSchema(size=4, masked=False, sketch=3, probe=2, digest="5c" * 32, max_norm=100.0)
STAMP = Stamp(BEN, "trial", SCHEMA.digest)


def expect(*kinds: Kind, schema: WireSchema = SCHEMA, **other: Any) -> Expected:
    return replace(Expected(me="ann", schema=schema, kinds=kinds, sender="ben"), **other)


def sign(manifest: bytes, who: Identity = BEN) -> bytes:
    """A head whose manifest may be anything."""
    return frame(who.sign(DOMAIN + manifest), manifest)


def fields_of(head: bytes) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(unframe(head)[1])
    return fields


def receive(
    data: bytes, want: Expected, steps: list[str] | None = None
) -> tuple[Manifest, Any, Any]:
    """A message as Ann's courier reads it: manifest, what its data says, and its body; `steps`
    tells how far it came."""
    steps = [] if steps is None else steps
    manifest, body = open_head(data, ROSTER, want)
    steps.append("believed")
    if manifest.kind in ("ask", "answer"):
        return manifest, losses_of(manifest) if manifest.kind == "answer" else manifest.data, None
    if manifest.kind == "card":
        said(CardData, manifest)
        if body:
            check_body(manifest, body)
            steps.append("body")
        notice = read_notice(manifest, body, want.schema)
        return manifest, notice.data, notice.sketch
    found = said(ShareData if manifest.kind in ("share", "start") else VisitData, manifest)
    check_body(manifest, body)
    steps.append("body")
    if manifest.kind == "probe":
        return manifest, found, decode_sketch(body, want.schema.probe)
    return manifest, found, decode_share(manifest, body, want.schema)


def refusal(act: Callable[..., object], *given: object) -> Refused:
    with pytest.raises(Refused) as caught:
        act(*given)
    return caught.value


def safetensors_of(header: object, data: bytes = b"") -> bytes:
    """A body whose header may be anything."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(raw).to_bytes(8, "little") + raw + data


def entry(dtype: str, shape: list[Any], start: Any, end: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def floats(*values: float) -> bytes:
    return np.array(values, "<f4").tobytes()


def by_hand(body: bytes | bytearray, format: str) -> dict[str, Array]:
    """A body read with json and numpy alone: `theta` as numbers, `mask` as bits, `sketch`."""
    length = int.from_bytes(body[:8], "little")
    header = json.loads(bytes(body[8 : 8 + length]))
    header.pop("__metadata__", None)
    raw = {
        name: bytes(body[8 + length :][slice(*one["data_offsets"])]) for name, one in header.items()
    }
    found: dict[str, Array] = {}
    if "sketch" in raw:
        found["sketch"] = np.frombuffer(raw["sketch"], "<f4")
    if "mask" in raw:
        found["mask"] = np.unpackbits(np.frombuffer(raw["mask"], np.uint8)).astype(bool)
    if "theta" in raw and format == "fp32":
        found["theta"] = np.frombuffer(raw["theta"], "<f4")
    elif "theta" in raw and format == "bf16":
        found["theta"] = (np.frombuffer(raw["theta"], "<u2").astype(np.uint32) << 16).view(
            np.float32
        )
    elif "theta" in raw:
        steps, scale = np.frombuffer(raw["theta"], np.int8), np.frombuffer(raw["scale"], "<f4")
        found["theta"] = steps.astype(np.float32) * np.repeat(scale, BLOCK)[: len(steps)]
    return found


# --- round trips


def models(size: int, masked: bool, seed: int) -> Share:
    draw = np.random.default_rng(seed)
    theta = torch.from_numpy(draw.normal(0, 0.1, size).astype(np.float32))
    return Share(theta, torch.from_numpy(draw.random(size) < 0.6) if masked else None)


def bf16(values: Array) -> Array:
    """Round to nearest, ties to even, on the bits."""
    bits = values.astype(np.float32).view(np.uint32)
    return (((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) << 16).view(np.float32)


@pytest.mark.parametrize("kind", ["share", "start", "visit"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("format", FORMATS)
def test_a_model_arrives_as_it_was_sent_up_to_the_format(
    format: Format, masked: bool, kind: Kind
) -> None:
    schema = replace(SCHEMA, size=1000, masked=masked, probe=7)
    share = models(1000, masked, seed=1)
    sketch = torch.linspace(-1, 1, 7) if kind == "visit" else None
    body = encode_share(share, format, np.random.default_rng(2), sketch)
    data = {"examples": 12} | (
        {"degree": 3, "before": 1.5, "after": 0.25} if kind == "visit" else {}
    )
    head = STAMP.seal(kind, 5, body, to="ann", re="ab", format=format, data=data)
    manifest, found, (arrived, came_along) = receive(
        head + body, expect(kind, schema=schema, round=5, re="ab")
    )
    assert (manifest.sender, manifest.round, manifest.format, found.examples) == (
        "ben",
        5,
        format,
        12,
    )
    sent = (
        share.theta.numpy()
        if share.mask is None
        else np.where(share.mask.numpy(), share.theta.numpy(), 0)
    )
    assert arrived.theta.dtype == torch.float32
    if format == "int8":
        step = np.abs(arrived.theta.numpy()).max() / 127
        np.testing.assert_allclose(arrived.theta.numpy(), sent, atol=1.001 * step)
        offered = sent if share.mask is None else sent[share.mask.numpy()]
        read = by_hand(body, "int8")["theta"]
        np.testing.assert_array_equal(arrived.theta.numpy()[sent != 0], read[offered != 0])
    else:
        np.testing.assert_array_equal(
            arrived.theta.numpy(), bf16(sent) if format == "bf16" else sent
        )
    if share.mask is None:
        assert arrived.mask is None
    else:
        assert torch.equal(arrived.mask, share.mask)
    assert (came_along is None) == (sketch is None)
    assert sketch is None or torch.equal(came_along, sketch)


def test_a_body_is_plain_safetensors_with_only_the_offered_numbers() -> None:
    share = Share(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([True, False, True]))
    body = encode_share(share, "fp32", np.random.default_rng(0))
    found = by_hand(body, "fp32")
    assert found["theta"].tolist() == [1.0, 3.0]
    assert found["mask"].tolist() == [True, False, True, False, False, False, False, False]
    length = int.from_bytes(body[:8], "little")
    assert len(body) == 8 + length + 2 * 4 + 1


@pytest.mark.parametrize("format", FORMATS)
def test_a_mask_that_offers_nothing_arrives_as_a_model_of_zeros(format: Format) -> None:
    schema = replace(SCHEMA, size=9, masked=True)
    body = encode_share(
        Share(torch.ones(9), torch.zeros(9, dtype=torch.bool)), format, np.random.default_rng(0)
    )
    head = STAMP.seal("share", 0, body, format=format, data={"examples": 0})
    _, _, (share, _) = receive(head + body, expect("share", schema=schema))
    assert share.theta.tolist() == [0.0] * 9
    assert share.mask.tolist() == [False] * 9


def test_a_card_arrives_with_its_sketch_or_to_be_fetched() -> None:
    sketch = torch.tensor([0.5, -2.0, 1e-30])
    body = encode_sketch(sketch)
    head = STAMP.seal("card", 3, body, data={"examples": 10, "degree": 4, "phase": "ready"})
    manifest, data, arrived = receive(head + body, expect("card"))
    assert (data.examples, data.degree, data.phase) == (10, 4, "ready")
    assert torch.equal(arrived, sketch)
    later = read_notice(manifest, b"", SCHEMA)
    assert later.fetch
    assert later.sketch is None
    assert later.round == 3


@pytest.mark.parametrize(("phase", "sketch"), [("joining", 3), ("done", 3), ("ready", 0)])
def test_a_card_without_a_sketch_is_complete(phase: str, sketch: int) -> None:
    schema = replace(SCHEMA, sketch=sketch)
    data = {"examples": 10, "degree": 4, "phase": phase}
    manifest, _ = open_head(STAMP.seal("card", 0, data=data), ROSTER, expect("card"))
    assert read_notice(manifest, b"", schema) == Notice(
        manifest, CardData.model_validate(data), None
    )
    manifest, body = open_head(
        STAMP.seal("card", 0, b"x", data=data) + b"x", ROSTER, expect("card")
    )
    assert refusal(read_notice, manifest, body, schema).reason == "wrong shape"


def test_a_ready_card_must_have_a_sketch_where_the_strategy_wants_one() -> None:
    manifest, body = open_head(STAMP.seal("card", 0, data=DATA["card"]), ROSTER, expect("card"))
    assert refusal(read_notice, manifest, body, SCHEMA).reason == "wrong shape"


def test_a_probe_brings_back_a_sketch_and_losses() -> None:
    body = encode_sketch(torch.tensor([3.0, 4.0]))
    data = {"examples": 9, "degree": 2, "before": 2, "after": 0.5}
    head = STAMP.seal("probe", 1, body, to="ann", re="0f", data=data)
    _, found, sketch = receive(head + body, expect("probe", re="0f"))
    assert (found.before, found.after) == (2.0, 0.5)
    assert sketch.tolist() == [3.0, 4.0]


def test_an_ask_and_its_answer_belong_together() -> None:
    ask, _ = open_head(
        STAMP.seal("ask", 2, to="ann", data={"method": "losses"}), ROSTER, expect("ask")
    )
    answer = Stamp(ANN, "trial", SCHEMA.digest).seal(
        "answer", 2, to="ben", re=ask.nonce, data={"before": 1.0, "after": 0.5}
    )
    want = expect("answer", me="ben", sender="ann", re=ask.nonce, round=2)
    assert receive(answer, want)[1] == Losses(1.0, 0.5)
    other, _ = open_head(STAMP.seal("ask", 2, to="ann"), ROSTER, expect("ask"))
    assert other.nonce != ask.nonce
    assert refusal(receive, answer, replace(want, re=other.nonce)).reason == "replay"


def test_the_digest_names_model_and_whatever_else_must_be_common() -> None:
    layout, common = {"w": (3, 2), "b": (3,)}, {"classes": 3, "seed": 1}
    digest = wire.digest_of(layout, common)
    text = '{"classes": 3, "model": [["w", [3, 2]], ["b", [3]]], "seed": 1}'
    assert digest == hashlib.sha256(text.encode()).hexdigest()
    others = [
        ({"w": (2, 3), "b": (3,)}, common),
        ({"b": (3,), "w": (3, 2)}, common),
        (layout, common | {"seed": 2}),
    ]
    assert len({digest, *(wire.digest_of(*other) for other in others)}) == 4


# --- int8 and bf16

SIZES = st.integers(1, 3 * BLOCK + 1)


@settings(deadline=None)
@given(SIZES, st.integers(0, 2**32 - 1), st.floats(-30, 30), st.floats(0, 1))
def test_int8_is_never_more_than_one_step_of_its_block_away(
    size: int, seed: int, power: float, zeros: float
) -> None:
    draw = np.random.default_rng(seed)
    theta = (draw.normal(size=size) * 10**power * (draw.random(size) >= zeros)).astype(np.float32)
    found = quantise(torch.from_numpy(theta), np.random.default_rng(seed))
    assert found["theta"].dtype == torch.int8
    assert found["theta"].shape == (size,)
    assert found["scale"].shape == (math.ceil(size / BLOCK),)
    values = dequantise(found).numpy()
    for at in range(0, size, BLOCK):
        block = theta[at : at + BLOCK]
        step = np.abs(block).max() / 127
        assert np.abs(values[at : at + BLOCK] - block).max() <= 1.0001 * step
        assert np.all(values[at : at + BLOCK][block == 0] == 0)


@settings(deadline=None)
@given(SIZES, st.integers(0, 2**32 - 1))
def test_int8_depends_on_the_numbers_and_the_draw_alone(size: int, seed: int) -> None:
    share = models(size, False, seed)
    first, second = (encode_share(share, "int8", np.random.default_rng(seed)) for _ in range(2))
    assert first == second


def test_int8_is_right_on_average() -> None:
    size, draws = 2 * BLOCK + 44, 1000
    theta = models(size, False, seed=3).theta
    draw = np.random.default_rng(4)
    mean = sum(dequantise(quantise(theta, draw)).double().numpy() for _ in range(draws)) / draws
    exact = theta.double().numpy()
    scale = np.concatenate(
        [np.full(len(b), np.abs(b).max() / 127) for b in (exact[:256], exact[256:512], exact[512:])]
    )
    part = exact / scale - np.floor(exact / scale)
    inside = (part > 0.001) & (part < 0.999)
    error = scale * np.sqrt(part * (1 - part) / draws)
    z = (mean - exact)[inside] / error[inside]
    assert inside.sum() > 500
    assert np.abs(z).max() < 5
    assert abs(z.mean()) < 4 / math.sqrt(len(z))
    assert 0.8 < z.std() < 1.2, "two neighbouring steps, each as likely as it is near"


@settings(deadline=None)
@given(st.lists(st.floats(-(2.0**99), 2.0**99, width=32), min_size=1))
def test_bf16_is_torchs_cast(values: list[float]) -> None:
    theta = torch.tensor(values)
    body = encode_share(Share(theta), "bf16", np.random.default_rng(0))
    manifest = open_head(STAMP.seal("share", 0, format="bf16"), ROSTER, expect("share"))[0]
    schema = replace(SCHEMA, size=len(values), max_norm=math.inf)
    arrived = decode_share(manifest, body, schema)[0].theta
    assert torch.equal(arrived, theta.to(torch.bfloat16).float())
    np.testing.assert_array_equal(arrived.numpy(), bf16(theta.numpy()))


# --- refusals

NOW = int(time.time() * 1000)
DAY = 86_400_000
DATA: Mapping[str, Mapping[str, Any]] = {
    "card": {"examples": 10, "degree": 4, "phase": "ready"},
    "share": {"examples": 12},
    "start": {"examples": 12},
    "visit": {"examples": 12, "degree": 3, "before": 1.5, "after": 0.25},
    "probe": {"examples": 12, "degree": 3, "before": 1.5, "after": 0.25},
    "answer": {"before": 1.5, "after": 0.25},
    "ask": {"method": "hello"},
}
BODY = encode_share(Share(torch.tensor([1.0, -2.0, 0.5, 0.0])), "fp32", np.random.default_rng(0))
HEAD = STAMP.seal("share", 3, BODY, to="ann", data=DATA["share"])
WANT = expect("share", round=3)
KEY_OF = {one.name: base64.b64encode(one.public).decode() for one in (ANN, BEN, EVE)}

HEADS: list[tuple[str, dict[str, Any]]] = [
    ("wrong kind", {"kind": "start"}),
    ("wrong network", {"network": "other"}),
    ("wrong network", {"network": ""}),
    ("not on the roster", {"sender": "eve"}),
    ("not on the roster", {"sender": "BEN"}),
    ("not on the roster", {"sender": ""}),
    ("wrong key", {"sender": "ann"}),
    ("wrong key", {"key": KEY_OF["eve"]}),
    ("wrong key", {"key": ""}),
    ("bad signature", {"sender": "ann", "key": KEY_OF["ann"]}),
    ("wrong addressee", {"to": "ben"}),
    ("wrong round", {"round": 2}),
    ("wrong round", {"round": -1}),
    ("clock", {"at": NOW + DAY}),
    ("clock", {"at": 2**53}),
    ("too old", {"at": NOW - DAY - SKEW_MS - 1000}),
    ("too old", {"at": 0}),
    ("wrong schema", {"schema": "0" * 64}),
    ("too long", {"length": LARGEST_HEADER + 8 + 4 * 4 + 2}),
    ("too long", {"length": 2**53}),
    ("wrong length", {"length": len(BODY) + 1}),
    ("wrong length", {"length": 0}),
    ("wrong hash", {"sha256": hashlib.sha256(b"").hexdigest()}),
    ("malformed", {"kind": "pickle"}),
    ("malformed", {"kind": None}),
    ("malformed", {"round": 3.0}),
    ("malformed", {"round": True}),
    ("malformed", {"round": "3"}),
    ("malformed", {"round": 2**31 + 1}),
    ("malformed", {"round": -2}),
    ("malformed", {"round": 10**3500}),
    ("malformed", {"at": -1}),
    ("malformed", {"at": math.nan}),
    ("malformed", {"length": -1}),
    ("malformed", {"length": 2**53 + 1}),
    ("malformed", {"sha256": "0" * 63}),
    ("malformed", {"sha256": "0" * 64 + "\n"}),
    ("malformed", {"schema": "A" * 64}),
    ("malformed", {"nonce": "xyz"}),
    ("malformed", {"nonce": "0" * 33}),
    ("malformed", {"sender": "b" * 64}),
    ("malformed", {"sender": ["ben"]}),
    ("malformed", {"sender": "\ud800"}),
    ("malformed", {"key": "é"}),
    ("malformed", {"key": "A"}),
    ("malformed", {"key": "A" * 257}),
    ("malformed", {"format": "fp64"}),
    ("malformed", {"more": 1}),
    ("malformed", {"data": [1]}),
    ("malformed", {"data": {"examples": {"deep": 1}}}),
    ("malformed", {"data": {str(i): i for i in range(13)}}),
    ("malformed", {"data": {"examples": -1}}),
    ("malformed", {"data": {"examples": 1.0}}),
    ("malformed", {"data": {"examples": True}}),
    ("malformed", {"data": {"examples": 2**53 + 1}}),
    ("malformed", {"data": {"examples": 10**3000}}),
    ("malformed", {"data": {"examples": 1, "x": 1}}),
    ("malformed", {"data": {}}),
]


@pytest.mark.parametrize(
    ("reason", "change"),
    HEADS,
    ids=[f"{reason}-{'-'.join(change)}-{at}" for at, (reason, change) in enumerate(HEADS)],
)
def test_a_head_with_something_wrong_is_refused_with_the_right_word(
    reason: str, change: dict[str, Any]
) -> None:
    receive(HEAD + BODY, WANT)
    manifest = json.dumps(fields_of(HEAD) | change).encode()
    assert refusal(receive, sign(manifest) + BODY, WANT).reason == reason


def test_a_head_that_lacks_something_is_malformed() -> None:
    for key in ("kind", "network", "sender", "round", "at", "nonce", "schema", "key"):
        fields = fields_of(HEAD)
        del fields[key]
        assert refusal(receive, sign(json.dumps(fields).encode()), WANT).reason == "malformed"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        HEAD[:9],
        b"AMT2" + HEAD[4:],
        HEAD[:-1],
        struct.pack(">4sHI", MAGIC, 129, 10) + bytes(200),
        struct.pack(">4sHI", MAGIC, 70, LARGEST_MANIFEST + 1) + bytes(LARGEST_MANIFEST + 200),
        struct.pack(">4sHI", MAGIC, 0, 2**32 - 1),
        sign(b""),
        sign(b"{}"),
        sign(b"[]"),
        sign(b"\xff\xfe"),
        sign(b"[" * 4000),
        sign(b'{"data":' * 500),
        sign(b"1" * 4000),
        sign(json.dumps(fields_of(HEAD)).encode("utf-16")),
    ],
    ids=range(15),
)
def test_bytes_that_are_no_head_are_malformed(data: bytes) -> None:
    assert refusal(receive, data, WANT).reason == "malformed"


def test_what_is_expected_decides() -> None:
    assert refusal(open_head, HEAD, ROSTER, replace(WANT, sender="ann")).reason == "wrong sender"
    assert refusal(open_head, HEAD, ROSTER, replace(WANT, re="ab")).reason == "replay"
    assert refusal(open_head, HEAD, ROSTER, replace(WANT, me="eve")).reason == "wrong addressee"
    assert refusal(open_head, HEAD, ROSTER.without("ben"), WANT).reason == "not on the roster"
    other = replace(SCHEMA, digest="0" * 64)
    assert refusal(open_head, HEAD, ROSTER, replace(WANT, schema=other)).reason == "wrong schema"
    assert (
        open_head(HEAD, ROSTER, replace(WANT, schema=other, any_schema=True))[0].schema_
        == SCHEMA.digest
    )


@pytest.mark.parametrize("shift", [SKEW_MS - 2000, 0, -DAY, -DAY - SKEW_MS + 60_000])
def test_clocks_may_differ_a_little(shift: int) -> None:
    at = int(time.time() * 1000) + shift
    head = sign(json.dumps(fields_of(HEAD) | {"at": at}).encode())
    assert open_head(head, ROSTER, WANT)[0].at == at
    if shift < -SKEW_MS:
        assert refusal(open_head, head, ROSTER, replace(WANT, max_age=60.0)).reason == "too old"


THETA = {"theta": entry("F32", [4], 0, 16)}
FOUR = floats(1, 2, 3, 4)
MASKED = replace(SCHEMA, size=12, masked=True)
"""Two bytes of mask with four unused bits."""
MASK = {"mask": entry("U8", [2], 8, 10)}
TWO = {"theta": entry("F32", [2], 0, 8)}
OFFERED = floats(1, 2) + bytes([0b10000001, 0])
INT8 = {"scale": entry("F32", [1], 0, 4), "theta": entry("I8", [4], 4, 8)}
TWICE = b'{"theta":%s,"th\\u0065ta":%s}' % ((json.dumps(THETA["theta"]).encode(),) * 2)
VISIT = {"theta": entry("F32", [4], 0, 16), "sketch": entry("F32", [2], 16, 24)}

Case = tuple[str, str, bytes, Format, WireSchema, Kind]


def case(
    reason: str,
    says: str,
    body: bytes,
    format: Format = "fp32",
    schema: WireSchema = SCHEMA,
    kind: Kind = "share",
) -> Case:
    return reason, says, body, format, schema, kind


BODIES: list[Case] = [
    case("bad tensors", "no header", b""),
    case("bad tensors", "no header", bytes(7)),
    case("bad tensors", "header too long", (2**63).to_bytes(8, "little") + bytes(8)),
    case("bad tensors", "header too long", safetensors_of(THETA)[:-1]),
    case(
        "bad tensors",
        "header too long",
        safetensors_of(json.dumps(THETA).encode().ljust(LARGEST_HEADER + 1), FOUR),
    ),
    case("bad tensors", "not JSON", safetensors_of(b"theta", FOUR)),
    case("bad tensors", "not JSON", safetensors_of(b"\xff" * 9, FOUR)),
    case("bad tensors", "not JSON", safetensors_of(b"[" * 4000)),
    case("bad tensors", "not JSON", safetensors_of(b'{"theta":' * 450)),
    case("bad tensors", "no table", safetensors_of(b"[]")),
    case("bad tensors", "no table", safetensors_of(b"1" * 4000)),
    case("bad tensors", "expected", safetensors_of({})),
    case(
        "bad tensors", "expected", safetensors_of(THETA | {"more": entry("F32", [0], 16, 16)}, FOUR)
    ),
    case(
        "bad tensors",
        "expected",
        safetensors_of(THETA | {"\ud800": entry("F32", [0], 16, 16)}, FOUR),
    ),
    case("bad tensors", "expected", safetensors_of(THETA | {"__metadata__": {"a": "b"}}, FOUR)),
    case("bad tensors", "expected", safetensors_of(VISIT, FOUR + floats(0, 0))),
    case("bad tensors", "expected", safetensors_of(THETA, FOUR), kind="visit"),
    case("bad tensors", "expected", safetensors_of(THETA, FOUR), "int8"),
    case("bad tensors", "a name twice", safetensors_of(TWICE, FOUR)),
    case(
        "bad tensors",
        "a name twice",
        safetensors_of(json.dumps(THETA).encode().replace(b'"shape"', b'"dtype"'), FOUR),
    ),
    case("bad tensors", "", safetensors_of(json.dumps(THETA).encode("utf-16"), FOUR)),
    case("bad tensors", "", safetensors_of(THETA, FOUR + b"x")),
    case("bad tensors", "", safetensors_of(THETA, FOUR[:-1])),
    case("bad tensors", "", safetensors_of({"theta": entry("F32", [4], 1, 17)}, FOUR + b"x")),
    case("bad tensors", "", safetensors_of({"theta": entry("F32", [4], 16, 0)}, FOUR)),
    case("bad tensors", "", safetensors_of({"theta": entry("F32", [4], 0, 2**64)}, FOUR)),
    case("bad tensors", "", safetensors_of({"theta": entry("F32", [4], -16, 0)}, FOUR)),
    case("bad tensors", "", safetensors_of({"theta": entry("F32", [4], False, 16)}, FOUR)),
    case("bad tensors", "", safetensors_of({"theta": entry("F32", [4.0], 0, 16)}, FOUR)),
    case(
        "bad tensors", "", safetensors_of(json.dumps(THETA).encode().replace(b"[0,", b"[-0,"), FOUR)
    ),
    case("bad tensors", "", safetensors_of({"theta": {"dtype": "F32", "shape": [4]}}, FOUR)),
    case(
        "bad tensors",
        "",
        safetensors_of(INT8 | {"theta": entry("I8", [4], 0, 4)}, bytes(4)),
        "int8",
    ),
    case(
        "wrong shape",
        "theta must be F32 of [4]",
        safetensors_of({"theta": entry("F32", [5], 0, 20)}, FOUR + bytes(4)),
    ),
    case(
        "wrong shape", "theta must be", safetensors_of({"theta": entry("F32", [2, 2], 0, 16)}, FOUR)
    ),
    case(
        "wrong shape", "theta must be", safetensors_of({"theta": entry("F32", [], 0, 4)}, bytes(4))
    ),
    case(
        "wrong shape",
        "theta must be",
        safetensors_of({"theta": entry("F32", [10**3900], 0, 16)}, FOUR),
    ),
    case("wrong shape", "theta must be", safetensors_of({"theta": entry("I32", [4], 0, 16)}, FOUR)),
    case(
        "wrong shape",
        "theta must be",
        safetensors_of({"theta": entry("F64", [4], 0, 32)}, FOUR * 2),
    ),
    case("wrong shape", "theta must be", safetensors_of({"theta": None}, FOUR)),
    case("wrong shape", "theta must be", safetensors_of({"theta": [0, 16]}, FOUR)),
    case("wrong shape", "theta must be BF16", safetensors_of(THETA, FOUR), "bf16"),
    case(
        "wrong shape",
        "scale must be",
        safetensors_of(INT8 | {"scale": entry("F32", [4], 0, 4)}, bytes(8)),
        "int8",
    ),
    case(
        "wrong shape",
        "theta must be F32 of [2]",
        safetensors_of({"theta": entry("F32", [3], 0, 12)} | MASK, OFFERED),
        schema=MASKED,
    ),
    case(
        "wrong shape",
        "mask",
        safetensors_of(TWO | {"mask": entry("U8", [1], 8, 9)}, OFFERED[:-1]),
        schema=MASKED,
    ),
    case(
        "wrong shape",
        "mask",
        safetensors_of(TWO | {"mask": entry("U8", [2], 8, 10**3000)}, OFFERED * 2),
        schema=MASKED,
    ),
    case(
        "wrong shape",
        "mask must be U8",
        safetensors_of(TWO | {"mask": entry("I8", [2], 8, 10)}, OFFERED),
        schema=MASKED,
    ),
    case("bad tensors", "no header", bytes(3), schema=MASKED),
    case("bad tensors", "too long", (2**63).to_bytes(8, "little") + bytes(8), schema=MASKED),
    case("bad tensors", "no mask", safetensors_of(TWO, OFFERED), schema=MASKED),
    case("bad tensors", "no mask", safetensors_of(TWO | {"mask": 1}, OFFERED), schema=MASKED),
    case(
        "bad tensors",
        "no mask",
        safetensors_of(TWO | {"mask": entry("U8", [2], -2, 10)}, OFFERED),
        schema=MASKED,
    ),
    case(
        "bad tensors",
        "no mask",
        safetensors_of(TWO | {"mask": entry("U8", [2], True, 10)}, OFFERED),
        schema=MASKED,
    ),
    case(
        "bad tensors",
        "no mask",
        safetensors_of(TWO | {"mask": entry("U8", [2], 8.0, 10)}, OFFERED),
        schema=MASKED,
    ),
    case(
        "bad tensors",
        "past its end",
        safetensors_of(TWO | MASK, OFFERED[:-1] + b"\x01"),
        schema=MASKED,
    ),
    case(
        "bad tensors",
        "",
        safetensors_of(TWO | {"mask": entry("U8", [2], 7, 9)}, OFFERED),
        schema=MASKED,
    ),
    case("not finite", "model", safetensors_of(THETA, floats(1, math.nan, 0, 0))),
    case("not finite", "model", safetensors_of(THETA, floats(1, -math.inf, 0, 0))),
    case(
        "not finite",
        "model",
        safetensors_of({"theta": entry("BF16", [4], 0, 8)}, b"\x80\x7f" * 4),
        "bf16",
    ),
    case("not finite", "scale", safetensors_of(INT8, floats(math.nan) + bytes(4)), "int8"),
    case("not finite", "scale", safetensors_of(INT8, floats(math.inf) + bytes(4)), "int8"),
    case("not finite", "scale", safetensors_of(INT8, floats(-1) + bytes(4)), "int8"),
    case("not finite", "model", safetensors_of(INT8, floats(3e38) + b"\x7f" * 4), "int8"),
    case("not finite", "sketch", safetensors_of(VISIT, FOUR + floats(math.nan, 0)), kind="visit"),
    case("norm", "model of 100", safetensors_of(THETA, floats(100, 1, 0, 0))),
    case("norm", "model", safetensors_of(THETA, floats(3e38, 3e38, 3e38, 3e38))),
    case("norm", "model of 128", safetensors_of(INT8, floats(1) + b"\x80\0\0\0"), "int8"),
    case("norm", "sketch", safetensors_of(VISIT, FOUR + floats(3e38, 0)), kind="visit"),
]


@pytest.mark.parametrize(
    "case",
    BODIES,
    ids=[f"{one[0]} {one[1]} {one[3]} {number}" for number, one in enumerate(BODIES)],
)
def test_a_signed_body_with_something_wrong_is_refused_with_the_right_word(case: Case) -> None:
    reason, says, body, format, schema, kind = case
    head = STAMP.seal(kind, 3, body, to="ann", format=format, data=DATA[kind])
    refused = refusal(receive, head + body, expect(kind, schema=schema))
    assert refused.reason == reason
    assert says in str(refused)
    str(refused).encode()


def test_a_sketch_is_finite_and_too_small_to_turn_the_similarities_of_others_into_nan() -> None:
    sketch = {"sketch": entry("F32", [3], 0, 12)}
    for value, reason in (
        (math.nan, "not finite"),
        (-math.inf, "not finite"),
        (3e38, "norm"),
        (1.01e18, "norm"),
    ):
        body = safetensors_of(sketch, floats(value, 0, 0))
        assert refusal(decode_sketch, body, 3).reason == reason
    largest = decode_sketch(safetensors_of(sketch, floats(0.99 * LARGEST_SKETCH, 0, 0)), 3)
    others = {name: Offer(1, Card(name, 0, 1, 1, largest)) for name in ("ben", "cal", "dan")}
    mine = Asking(Card("ann", 0, 1, 1, torch.ones(3)))
    assert all(math.isfinite(s) for s in Similarity(centered=True).read(mine, others).values())


class Asking:
    def __init__(self, card: Card) -> None:
        self.card = card

    def loss_of(self, peer: str, share: Share) -> float:
        raise NotImplementedError


@pytest.mark.parametrize("text", ["1e400", "-1e400", "NaN", "Infinity", "-Infinity"])
def test_losses_that_are_not_finite_are_refused(text: str) -> None:
    manifest = json.dumps(
        fields_of(STAMP.seal("answer", 0, data={"before": 1.0, "after": 77.5}))
    ).replace("77.5", text)
    assert refusal(receive, sign(manifest.encode()), expect("answer")).reason == "not finite"


@pytest.mark.parametrize("text", ["true", "null", '"1"', "[1]", "1" + "0" * 400, "1" * 3000])
def test_losses_that_are_no_numbers_are_malformed(text: str) -> None:
    manifest = json.dumps(
        fields_of(STAMP.seal("answer", 0, data={"before": 1.0, "after": 77.5}))
    ).replace("77.5", text)
    assert refusal(receive, sign(manifest.encode()), expect("answer")).reason == "malformed"


@pytest.mark.parametrize(
    ("spoken", "older", "newer"), [(PROTOCOL - 1, "there", "here"), (PROTOCOL + 1, "here", "there")]
)
def test_terms_of_another_protocol_say_both_versions_and_nothing_else_of_them_is_read(
    spoken: int, older: str, newer: str
) -> None:
    text = json.dumps({"protocol": spoken, "version": "9.9.9", "whatever": [1, 2]}).encode()
    refused = refusal(Terms.decode, text)
    assert refused.reason == "other protocol"
    assert f"Amity {__version__} speaks protocol {PROTOCOL} here" in str(refused)
    assert f"Amity '9.9.9' protocol {spoken} there" in str(refused)
    assert f"upgrade the one {older} to that {newer}" in str(refused)


def test_every_word_of_refusal_is_shown_by_a_test_above() -> None:
    files = Path(wire.__file__).parent.glob("*.py")
    source = "".join(path.read_text(encoding="utf-8") for path in files)
    words = set(re.findall(r'Refused\(\s*"([^"]+)"', source))
    shown = (
        {reason for reason, _ in HEADS}
        | {one[0] for one in BODIES}
        | {"wrong sender", "replay", "other protocol"}
    )
    assert words == shown


def test_checks_stand_in_the_order_of_their_price() -> None:
    """A message in which everything is wrong, repaired one fault after the other: the next is
    always dearer."""
    far = expect("share", round=3, re="ab", sender="ben")
    hostile = safetensors_of({"theta": None}, floats(math.nan, 1000, 0, 0))
    fields = fields_of(HEAD) | {
        "kind": "start",
        "network": "other",
        "sender": "eve",
        "to": "eve",
        "round": 2,
        "at": NOW + DAY,
        "schema": "0" * 64,
        "length": 2**50,
        "sha256": "0" * 64,
        "key": "?",
        "data": {"examples": -1},
    }
    signer = EVE
    repairs: list[tuple[str, dict[str, Any]]] = [
        ("malformed", {"key": KEY_OF["eve"]}),
        ("not on the roster", {"sender": "ann"}),
        ("wrong key", {"key": KEY_OF["ann"]}),
        ("bad signature", {}),
        ("wrong kind", {"kind": "share"}),
        ("wrong network", {"network": "trial"}),
        ("wrong sender", {"sender": "ben", "key": KEY_OF["ben"]}),
        ("wrong addressee", {"to": "ann"}),
        ("replay", {"re": "ab"}),
        ("wrong round", {"round": 3}),
        ("clock", {"at": 0}),
        ("too old", {"at": NOW}),
        ("wrong schema", {"schema": SCHEMA.digest}),
        ("too long", {"length": len(hostile) - 1}),
        ("malformed", {"data": {"examples": 1}}),
        ("wrong length", {"length": len(hostile)}),
        ("wrong hash", {"sha256": hashlib.sha256(hostile).hexdigest()}),
    ]
    for reason, repair in repairs:
        message = sign(json.dumps(fields).encode(), signer) + hostile
        assert refusal(receive, message, far).reason == reason
        fields |= repair
        if reason == "bad signature":
            signer = ANN
        if reason == "wrong sender":
            signer = BEN
    for reason, body in [
        ("wrong shape", hostile),
        (
            "bad tensors",
            safetensors_of({"theta": entry("F32", [4], 0, 20)}, floats(math.nan, 1000, 0, 0)),
        ),
        ("not finite", safetensors_of(THETA, floats(math.nan, 1000, 0, 0))),
        ("norm", safetensors_of(THETA, floats(0, 1000, 0, 0))),
    ]:
        fields |= {"length": len(body), "sha256": hashlib.sha256(body).hexdigest()}
        message = sign(json.dumps(fields).encode()) + body
        assert refusal(receive, message, far).reason == reason


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 8 * len(HEAD + BODY) - 1))
def test_one_bit_that_a_relay_turns_is_always_detected(at: int) -> None:
    message = bytearray(HEAD + BODY)
    message[at // 8] ^= 1 << at % 8
    reason = refusal(receive, bytes(message), WANT).reason
    assert (reason == "wrong hash") == (at // 8 >= len(HEAD))


@settings(deadline=None)
@given(st.integers(0, len(HEAD + BODY) - 1), st.binary(min_size=1, max_size=9))
def test_what_a_relay_cuts_off_or_puts_in_is_always_detected(at: int, more: bytes) -> None:
    message = HEAD + BODY
    refusal(receive, message[:at], WANT)
    refusal(receive, message[:at] + more + message[at:], WANT)
    assert refusal(receive, message + more, WANT).reason == "wrong length"


def test_a_member_cannot_speak_for_another_nor_take_up_its_words_in_another_place() -> None:
    signature, manifest, _ = unframe(HEAD)
    for forged in (ANN, EVE):
        assert refusal(open_head, sign(manifest, forged), ROSTER, WANT).reason == "bad signature"
    bare = frame(BEN.sign(manifest), manifest)
    assert refusal(open_head, bare, ROSTER, WANT).reason == "bad signature"
    assert open_head(frame(signature, manifest), ROSTER, WANT)[0].sender == "ben"


# --- board


def notice(name: str, round: int, at: int = 1, phase: str = "ready") -> Notice:
    fields = {
        "kind": "card",
        "network": "trial",
        "sender": name,
        "round": round,
        "at": at,
        "nonce": "",
        "schema": "0" * 64,
    }
    data = CardData.model_validate({"examples": 1, "degree": 1, "phase": phase})
    return Notice(Manifest.model_validate(fields | {"key": ""}), data, None)


def test_a_card_that_was_seen_or_is_older_is_a_replay() -> None:
    board = Board(["ben"])
    assert board.notice("ben") is None
    assert board.newest("ben") == -1
    first, again = notice("ben", 4, at=10), notice("ben", 4, at=11)
    board.post(first)
    for old in (first, notice("ben", 4, at=9), notice("ben", 2, at=99)):
        assert refusal(board.post, old).reason == "replay"
        board.post(old, again=True)  # asked for: no replay, and nothing new
    assert board.notice("ben") is first
    board.post(again)
    assert board.notice("ben") is again


def test_the_cards_of_two_rounds_are_kept_also_if_they_come_out_of_order() -> None:
    board = Board(["ben"])
    cards = {round: notice("ben", round) for round in (3, 5, 4, 7)}
    board.post(cards[3])
    board.post(cards[5])
    assert board.notice("ben", 3) is cards[3]
    board.post(cards[4])
    assert [board.notice("ben", round) for round in (3, 4, 5)] == [None, cards[4], cards[5]]
    assert refusal(board.post, cards[3]).reason == "replay"
    board.post(cards[7])
    assert [board.notice("ben", round) for round in (4, 5, 6, 7)] == [
        None,
        cards[5],
        None,
        cards[7],
    ]
    assert board.notice("ben") is cards[7]
    assert board.newest("ben") == 7


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.data())
def test_fewer_liars_than_half_cannot_push_anybody_on_nor_hold_anybody_back(
    honest: list[int], data: st.DataObject
) -> None:
    lies = data.draw(st.lists(st.sampled_from([0, 5, 2**31]), max_size=len(honest) - 1))
    names = {f"peer-{number}": round for number, round in enumerate(honest + lies)}
    board = Board(names)
    for name, round in names.items():
        board.post(notice(name, round))
        board.live(name, True)
    current = board.current(names)
    assert min(honest) <= current <= max(honest)
    everyone = honest + lies
    assert current == max(
        r for r in everyone if 2 * sum(other >= r for other in everyone) > len(everyone)
    )


def test_who_is_not_here_or_has_shown_no_card_has_reached_no_round_so_one_alone_pushes_nobody() -> (
    None
):
    board = Board(["ann", "ben", "cal", "dan"])
    assert board.current(["ann", "ben"]) == -1
    for name, round in (("ann", 9), ("ben", 2), ("cal", 2)):
        board.post(notice(name, round))
    board.live("ann", True)
    board.live("dan", True)
    assert board.current(["ann", "ben", "cal", "dan"]) == -1
    board.live("ben", True)
    board.live("cal", True)
    assert board.current(["ann", "ben", "cal", "dan"]) == 2


def test_a_card_that_was_asked_for_may_come_by_itself_once() -> None:
    board, card = Board(["ben"]), notice("ben", 4)
    board.post(card, again=True)
    board.post(card)
    assert refusal(board.post, card).reason == "replay"


def test_the_last_card_of_all_does_not_push_the_cards_of_rounds_out() -> None:
    board = Board(["ben"])
    for round in (7, 8):
        board.post(notice("ben", round))
    board.post(notice("ben", 9, phase="done"))
    assert board.newest("ben") == 9
    assert [board.notice("ben", round) is not None for round in (7, 8, 9)] == [True, True, False]


def test_who_lost_its_link_counts_as_here_for_a_moment_and_no_longer() -> None:
    board = Board(["ben", "cal"])
    assert not board.alive("ben")
    board.live("cal", False)
    assert not board.alive("cal", grace=60), "it never was here"
    board.live("ben", True)
    assert board.alive("ben", grace=0)
    board.live("ben", False)
    assert board.alive("ben", grace=60)
    assert not board.alive("ben", grace=0)
    time.sleep(0.05)
    board.live("ben", False)
    assert not board.alive("ben", grace=0.05), "it does not go twice"
    board.live("ben", True)
    assert board.alive("ben", grace=0)


def test_a_new_roster_forgets_who_left_and_waits_to_be_told_who_is_here() -> None:
    board = Board(["ben", "cal"])
    for name in ("ben", "cal"):
        board.live(name, True)
        board.post(notice(name, 1))
    board.reset(["ben"])
    assert board.newest("ben") == 1
    assert board.newest("cal") == -1
    assert board.alive("ben")
    assert not board.alive("ben", grace=-RETURN), "it has so long to be seen again"
    board.live("cal", True)
    assert not board.alive("cal", grace=60)
