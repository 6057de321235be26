"""Hostile bytes into each layer of the decoder. Whatever comes is refused, or is a value that is in
order.

A member signs what it mutates, so that the fuzzer gets past the signature. Cases are functions of
(layer, seed, number): a failure says which one it was, and `attack(layer, seed, number)` makes it
again.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

from amity.core import Share
from amity.facts import Losses
from amity.net.wire import (
    LARGEST_SKETCH,
    MAGIC,
    Expected,
    Format,
    Kind,
    Manifest,
    Refused,
    WireSchema,
    encode_share,
    encode_sketch,
    frame,
    unframe,
)
from tests.test_wire import (
    ALL_KINDS,
    BEN,
    DATA,
    FORMATS,
    SCHEMA,
    STAMP,
    Array,
    by_hand,
    expect,
    fields_of,
    receive,
    sign,
)

SEEDS = 10
QUICK, FULL = 100, 25_000
"""Cases of one batch; there are four layers of ten batches."""
SLOW = 1.0
"""Seconds of processor time that no case may take."""
SIZE = 300
"""Parameters: two blocks of int8, and four unused bits in the mask."""
MAX_NORM = 50.0


@dataclass(frozen=True)
class Base:
    """An honest message to start from."""

    kind: Kind
    fields: dict[str, Any]
    body: bytes
    schema: WireSchema

    @property
    def want(self) -> Expected:
        return expect(self.kind, schema=self.schema)


def make_bases() -> list[Base]:
    draw = np.random.default_rng(0)

    def numbers(count: int) -> torch.Tensor:
        return torch.from_numpy(draw.normal(0, 0.1, count).astype(np.float32))

    found = []
    for kind in ALL_KINDS:
        for masked in (False, True):
            for format in FORMATS if kind in ("share", "start", "visit") else FORMATS[:1]:
                schema = replace(
                    SCHEMA, size=SIZE, masked=masked, sketch=16, probe=12, max_norm=MAX_NORM
                )
                body = b""
                if kind in ("card", "probe"):
                    body = encode_sketch(numbers(16 if kind == "card" else 12))
                elif kind not in ("ask", "answer"):
                    mask = torch.from_numpy(draw.random(SIZE) < 0.5) if masked else None
                    share = Share(numbers(SIZE), mask)
                    body = encode_share(
                        share, format, draw, numbers(12) if kind == "visit" else None
                    )
                head = STAMP.seal(
                    kind, 3, body, to="ann", re="ab", format=format, data=DATA[kind], nonce="0f"
                )
                found.append(Base(kind, fields_of(head), body, schema))
    return found


BASES = make_bases()
MODELS = [base for base in BASES if base.kind in ("share", "start", "visit")]
WITH_BODY = [base for base in BASES if base.body]


@dataclass(frozen=True)
class Attack:
    """What is sent, and what the receiver expects."""

    data: bytes
    want: Expected


def sealed(fields: dict[str, Any], body: bytes) -> bytes:
    fields = fields | {"length": len(body), "sha256": hashlib.sha256(body).hexdigest()}
    return sign(json.dumps(fields).encode()) + body


# --- mutations


def torn(draw: Random, data: bytes) -> bytes:
    """Bytes with bits turned, a piece cut out, doubled, put in, or overwritten."""
    out = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        at = draw.randrange(len(out) + 1)
        piece = draw.choice((1, 1, 2, 4, 8, 33))
        match draw.randrange(7):
            case 0 | 1 if out:
                out[at % len(out)] ^= 1 << draw.randrange(8)
            case 2:
                del out[at : at + piece]
            case 3:
                out[at:at] = draw.randbytes(piece)
            case 4:
                out[at:at] = out[at : at + piece]
            case 5:
                out[at : at + piece] = draw.choice((b"\0", b"\xff", b"\x80", b"[", b'"')) * piece
            case _:
                del out[at:]
    return bytes(out)


RAW = (
    "1e400",
    "-1e400",
    "-0",
    "-0.0",
    "1E5",
    "NaN",
    "-Infinity",
    '"\\ud800"',
    '"\\u0000"',
    "1" * 3000,
    "01",
    "",
    "tru",
)
WORDS = (
    "",
    "ann",
    "ben",
    "eve",
    "trial",
    "0" * 64,
    "f" * 65,
    "ä",
    "\0",
    "\u202e",
    "😀" * 20,
    "x" * 3000,
    "\ud800",
    "../x",
)
NUMBERS = (
    0,
    1,
    -1,
    3,
    2**31,
    2**31 + 1,
    2**53,
    2**53 + 1,
    2**63,
    2**64,
    10**400,
    10**3800,
    -(10**20),
)
FLOATS = (0.0, -0.0, 0.5, 3.0, 1e308, -1e308, 5e-324, math.nan, math.inf, -math.inf)


def deep(draw: Random) -> str:
    depth = draw.choice((2, 50, 190, 210, 900, 1500))
    return "@" + draw.choice(
        ("[" * depth + "]" * depth, '{"a":' * (depth // 2) + "1" + "}" * (depth // 2), "[" * depth)
    )


def anything(draw: Random, depth: int = 0) -> Any:
    """Any JSON value. A string that begins with @ stands for raw text."""
    match draw.randrange(12 if depth < 3 else 8):
        case 0 | 1:
            return draw.choice(NUMBERS)
        case 2:
            return draw.choice(FLOATS)
        case 3 | 4:
            return draw.choice(WORDS)
        case 5:
            return draw.choice((True, False, None))
        case 6:
            return "@" + draw.choice(RAW)
        case 7:
            return (
                deep(draw)
                if draw.random() < 0.5
                else "".join(chr(draw.randrange(1, 0xD7FF)) for _ in range(5))
            )
        case 8 | 9:
            return [anything(draw, depth + 1) for _ in range(draw.randrange(4))]
        case _:
            return {
                str(draw.choice(WORDS))[:20]: anything(draw, depth + 1)
                for _ in range(draw.randrange(4))
            }


def text_of(value: Any) -> bytes:
    """JSON, with the raw text that `anything` asks for in its place, whether it is JSON or not."""
    text = json.dumps(value)
    return re.sub(r'"@((?:[^"\\]|\\.)*)"', lambda found: json.loads(f'"{found[1]}"'), text).encode(
        "utf-8", "replace"
    )


def near(draw: Random, value: Any) -> Any:
    """Something like a value: what a check could take for it."""
    if isinstance(value, bool) or value is None:
        return anything(draw)
    if isinstance(value, float):
        return draw.choice((-value, "@NaN", "@1e400", "@-Infinity", 10**400, str(value), True, 1))
    if isinstance(value, int):
        return draw.choice(
            (
                value + 1,
                -value,
                f"@{value}.0",
                bool(value),
                str(value),
                [value],
                value + 2**32,
                "@-0",
            )
        )
    if isinstance(value, str):
        return draw.choice(
            (
                value.upper(),
                value + "\n",
                value + "\0",
                value[1:],
                value * 2,
                [value],
                "@" + value,
                "",
            )
        )
    if isinstance(value, list):
        inside = [near(draw, one) for one in value]
        return draw.choice(
            (
                value[::-1],
                value * 2,
                value[:1],
                [],
                [*value, 0],
                inside,
                inside,
                dict.fromkeys("ab"),
            )
        )
    if isinstance(value, dict) and value:
        key = draw.choice(sorted(value))
        return value | {key: near(draw, value[key])}
    return anything(draw)


def changed(draw: Random, table: dict[str, Any]) -> dict[str, Any]:
    """A table with one key changed, taken away, renamed or put in; sometimes in a table within
    it."""
    out = dict(table)
    key = draw.choice(sorted(out) or [""])
    match draw.randrange(8):
        case 0 | 1 | 2:
            out[key] = near(draw, out.get(key))
        case 3:
            out[key] = anything(draw)
        case 4:
            out.pop(key, None)
        case 5:
            out[str(draw.choice((*WORDS, key + " ", "__metadata__")))[:40]] = anything(draw)
        case _:
            inner = sorted(name for name, value in out.items() if isinstance(value, dict))
            if inner:
                name = draw.choice(inner)
                out[name] = changed(draw, out[name])
            else:
                out[key] = near(draw, out.get(key))
    return out


# --- layers


def bytes_layer(draw: Random) -> Attack:
    """Raw bytes where a head should be; some of them signed."""
    base = draw.choice(BASES)
    text = json.dumps(base.fields).encode()
    match draw.randrange(8):
        case 0:
            data = draw.randbytes(draw.randrange(400))
        case 1:
            signed, said = (
                draw.choice((0, 70, 128, 129, 2**16 - 1)),
                draw.choice((0, 1, 300, 4096, 4097, 2**32 - 1)),
            )
            sizes = signed.to_bytes(2, "big") + said.to_bytes(4, "big")
            data = MAGIC + sizes + draw.randbytes(draw.randrange(5000))
        case 2 | 3:
            data = torn(draw, sign(text) + base.body)
        case 4:
            data = sign(draw.randbytes(draw.randrange(300)))
        case 5:
            data = sign(torn(draw, text)) + base.body
        case 6:  # spaces where JSON lets them pass
            parts = re.split(rb"(?<=[,:]) ", text)
            data = (
                sign(
                    b"".join(
                        part + draw.choice((b"", b" ", b"\n", b"\t", b"\r\n  ")) for part in parts
                    )
                )
                + base.body
            )
        case _:
            signature = draw.choice((b"", BEN.sign(b"other"), draw.randbytes(70), bytes(128)))
            data = frame(signature, text) + base.body
    return Attack(data, base.want)


def manifest_layer(draw: Random) -> Attack:
    """Fields of the manifest, signed again by a member."""
    base = draw.choice(BASES)
    if draw.random() < 0.05:
        return Attack(sign(text_of(anything(draw))[:4096]) + base.body, base.want)
    fields = dict(base.fields)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        if draw.random() < 0.4:
            data = fields.get("data")
            fields["data"] = changed(draw, data) if isinstance(data, dict) else anything(draw)
        else:
            fields = changed(draw, fields)
    text = text_of(fields)
    if draw.random() < 0.05:  # a key twice: the last one counts
        text = text[:-1] + b', "%s": %s}' % (
            draw.choice(sorted(base.fields)).encode(),
            text_of(anything(draw)),
        )
    return Attack(sign(text) + base.body, base.want)


def header_of(body: bytes) -> tuple[dict[str, Any], bytes]:
    length = int.from_bytes(body[:8], "little")
    return json.loads(body[8 : 8 + length]), body[8 + length :]


def with_header(header: bytes, data: bytes, length: int | None = None) -> bytes:
    return (len(header) if length is None else length).to_bytes(8, "little") + header + data


def body_layer(draw: Random) -> Attack:
    """Bytes of the body, or its header as JSON; length and SHA-256 are right again, and so is the
    signature."""
    base = draw.choice(WITH_BODY)
    header, data = header_of(base.body)
    text = json.dumps(header).encode()
    match draw.randrange(13):
        case 0:
            body = torn(draw, base.body)
        case 1:
            body = with_header(torn(draw, text), data)
        case 2 | 3:
            body = with_header(text, torn(draw, data))
        case 4:  # only numbers change, not their count
            numbers = bytearray(data)
            for _ in range(draw.randrange(1, 6)):
                numbers[draw.randrange(len(numbers))] = draw.choice(
                    (0, 0x7F, 0x80, 0xFF, draw.randrange(256))
                )
            body = with_header(text, bytes(numbers))
        case 5:
            wrong = (
                0,
                1,
                7,
                len(text) - 1,
                len(text) + 1,
                4096,
                4097,
                len(base.body),
                2**31,
                2**63,
                2**64 - 1,
            )
            body = with_header(text, data, draw.choice(wrong))
        case 6:  # a name twice, in one spelling or two
            name = draw.choice(sorted(header))
            twice = (
                json.dumps(name)
                if draw.random() < 0.5
                else '"' + "".join(f"\\u{ord(c):04x}" for c in name) + '"'
            )
            again = text_of(draw.choice((header[name], near(draw, header[name]))))
            body = with_header(text[:-1] + b", " + twice.encode() + b": " + again + b"}", data)
        case 7:
            plain = text.decode()
            coded = [
                b"\xef\xbb\xbf" + text,
                plain.encode("utf-16"),
                plain.encode("utf-32"),
                text + b"\0",
                b" " + text,
            ]
            coded += [text.ljust(length) for length in (len(text) + 8, 4096, 4097)]
            body = with_header(draw.choice(coded), data)
        case 8:
            body = with_header(text_of(deep(draw) if draw.random() < 0.3 else anything(draw)), data)
        # where a tensor lies: first of all the mask, which is read before the library sees the
        # header
        case 9:
            name = "mask" if "mask" in header else draw.choice(sorted(header))
            offsets = near(draw, header[name]["data_offsets"])
            body = with_header(
                text_of(header | {name: header[name] | {"data_offsets": offsets}}), data
            )
        case _:
            for _ in range(draw.choice((1, 1, 2))):
                header = changed(draw, header)
            body = with_header(text_of(header), data)
    return Attack(sealed(base.fields, body), base.want)


def crossed_layer(draw: Random) -> Attack:
    """Formats, masks and kinds that do not belong together, and numbers at the edge: each tensor is
    well-formed."""
    base, other = draw.choice(MODELS), draw.choice(MODELS)
    honest = draw.random() < 0.4
    format: Format = draw.choice(FORMATS)
    kind, masked = (base.kind, base.schema.masked) if honest else (other.kind, other.schema.masked)
    said = format if honest else draw.choice(FORMATS)
    tensors: dict[str, tuple[str, int, bytes]] = {}
    count = SIZE
    if masked:
        bits = np.frombuffer(draw.randbytes(SIZE), np.uint8) < draw.choice((0, 1, 128, 256))
        packed = bytearray(np.packbits(bits).tobytes())
        if draw.random() < 0.1:
            packed[-1] |= draw.randrange(16)
        tensors["mask"] = ("U8", len(packed), bytes(packed))
        count = int(bits.sum())
    count = max(0, count + draw.choice((0,) * 12 + (1, -1, 256)))
    name, width = {"fp32": ("F32", 4), "bf16": ("BF16", 2), "int8": ("I8", 1)}[format]
    if format == "int8" or draw.random() < 0.3:  # any bits at all
        numbers = draw.randbytes(width * count)
    else:
        uniform = np.frombuffer(draw.randbytes(4 * count), "<i4") / 2**31
        plain = (uniform * draw.choice((0.0, 1e-40, 0.1, 4.0, 6.0))).astype("<f4")
        numbers = (
            plain.tobytes()
            if format == "fp32"
            else (plain.view("<u4") >> 16).astype("<u2").tobytes()
        )
    tensors["theta"] = (name, count, numbers)
    if format == "int8":
        blocks = max(0, -(-count // 256) + draw.choice((0,) * 20 + (1, -1)))
        edges = (
            0.0,
            -0.0,
            1e-45,
            1e-3,
            1e-3,
            1e-3,
            0.02,
            0.03,
            1.0,
            3e38,
            -1e-3,
            math.nan,
            math.inf,
        )
        scale = [draw.choice(edges) for _ in range(blocks)]
        tensors["scale"] = ("F32", blocks, np.array(scale, "<f4").tobytes())
    if kind == "visit":
        edge = draw.choice((1.0, 1.0, 1.0, 1e17, 9.9e17, 1e18, 3e38, math.nan, math.inf))
        tensors["sketch"] = ("F32", 12, np.array([edge, *[0.0] * 11], "<f4").tobytes())
    header, data = {}, b""
    for key in draw.sample(sorted(tensors), len(tensors)):
        dtype, numbers_in, raw = tensors[key]
        header[key] = {
            "dtype": dtype,
            "shape": [numbers_in],
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    fields = base.fields | {"kind": base.kind, "format": said}
    return Attack(sealed(fields, with_header(json.dumps(header).encode(), data)), base.want)


LAYERS: dict[str, Callable[[Random], Attack]] = {
    "bytes": bytes_layer,
    "manifest": manifest_layer,
    "body": body_layer,
    "crossed": crossed_layer,
}


def attack(layer: str, seed: int, number: int) -> Attack:
    return LAYERS[layer](Random(f"{layer} {seed} {number}"))


# --- what an accepted message must be, without the decoder's own checks

HEX, TOKEN = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{0,32}")


def whole(value: object, highest: int = 2**53) -> bool:
    return type(value) is int and 0 <= value <= highest


def check_manifest(manifest: Manifest, raw: bytes, want: Expected) -> None:
    """What was believed is what was signed, and nothing in it is out of bounds."""
    says = json.loads(raw)
    assert manifest.kind == says["kind"] == want.kinds[0]
    assert (
        (says["network"], says["sender"]) == (manifest.network, manifest.sender) == ("trial", "ben")
    )
    assert base64.b64decode(says["key"]) == BEN.public
    assert says.get("to", "") == manifest.to
    assert manifest.to in ("", "ann")
    assert manifest.round == says["round"]
    assert type(says["round"]) is int
    assert -1 <= says["round"] <= 2**31
    assert whole(says["at"])
    assert abs(time.time() * 1000 - says["at"]) < 86_400_000 + 600_001
    assert TOKEN.fullmatch(says["nonce"])
    assert TOKEN.fullmatch(says.get("re", ""))
    assert says["schema"] == want.schema.digest
    assert whole(manifest.length, want.schema.longest(manifest.kind))
    assert HEX.fullmatch(manifest.sha256)
    assert manifest.format in FORMATS
    assert len(manifest.data) <= 12
    assert all(type(value) in (int, float, str) for value in manifest.data.values())


def check_data(kind: str, found: Any) -> None:
    if kind == "ask":
        return
    if kind != "answer":
        assert whole(found.examples)
    if kind in ("card", "visit", "probe"):
        assert whole(found.degree)
    if kind == "card":
        assert found.phase in ("joining", "ready", "done")
    if kind in ("visit", "probe", "answer"):
        assert math.isfinite(found.before)
        assert math.isfinite(found.after)
        assert isinstance(found, Losses) == (kind == "answer")


def check_sketch(sketch: torch.Tensor, numbers: int, sent: Array) -> None:
    values = sketch.numpy()
    assert values.dtype == np.float32
    assert values.shape == (numbers,)
    assert np.linalg.norm(values.astype(np.float64)) <= LARGEST_SKETCH
    np.testing.assert_array_equal(values, sent)


def check_share(manifest: Manifest, share: Share, schema: WireSchema, body: bytes) -> None:
    theta, found = share.theta.numpy(), by_hand(body, manifest.format)
    assert theta.dtype == np.float32
    assert theta.shape == (schema.size,)
    assert np.linalg.norm(theta.astype(np.float64)) <= schema.max_norm * (1 + 1e-9)
    assert (share.mask is not None) == schema.masked
    if share.mask is None:
        np.testing.assert_array_equal(theta, found["theta"])
        return
    mask = share.mask.numpy()
    assert mask.dtype == np.bool_
    assert mask.shape == (schema.size,)
    np.testing.assert_array_equal(mask, found["mask"][: schema.size])
    assert not found["mask"][schema.size :].any()
    np.testing.assert_array_equal(theta[mask], found["theta"])
    assert not theta[~mask].any()


def check(message: Attack, manifest: Manifest, found: Any, value: Any) -> None:
    signature, raw, body = unframe(message.data)
    assert frame(signature, raw) + body == message.data
    check_manifest(manifest, raw, message.want)
    check_data(manifest.kind, found)
    schema = message.want.schema
    if manifest.kind in ("ask", "answer"):
        assert value is None
        return
    if body:
        assert (len(body), hashlib.sha256(body).hexdigest()) == (manifest.length, manifest.sha256)
    if manifest.kind in ("share", "start", "visit"):
        share, sketch = value
        check_share(manifest, share, schema, body)
        assert (sketch is not None) == (manifest.kind == "visit")
        value = sketch
    if value is not None:
        numbers = schema.sketch if manifest.kind == "card" else schema.probe
        check_sketch(value, numbers, by_hand(body, manifest.format)["sketch"])


# --- the tests


def outcome(layer: str, seed: int, number: int) -> tuple[str, str]:
    """How far a message came, and the word with which it was refused. All but a refusal or a good
    value is a failure."""
    message, steps = attack(layer, seed, number), ["sent"]
    replay = f"attack({layer!r}, {seed}, {number}) = {message.data.hex()}"
    begun = time.thread_time()
    try:
        manifest, found, value = receive(message.data, message.want, steps)
    except Refused as refused:
        str(refused).encode()
        word = refused.reason
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of a library in Rust is no Exception
        raise AssertionError(f"{replay}: {error!r}") from error
    else:
        word = "accepted"
    took = time.thread_time() - begun
    assert took < SLOW, f"{replay}: took {took:.2f} s"
    if word == "accepted":
        try:
            check(message, manifest, found, value)
        except Exception as error:
            raise AssertionError(f"{replay}: accepted, but {error!r}") from error
    return steps[-1], word


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("layer", LAYERS)
def test_hostile_bytes_are_refused_or_give_a_value_that_is_in_order(
    layer: str, seed: int, full: bool
) -> None:
    cases = FULL if full else QUICK
    found = Counter(outcome(layer, seed, number) for number in range(cases))
    assert found.total() == cases
    assert len(LAYERS) * SEEDS * cases == (1_000_000 if full else 4_000)
    # the fuzzer gets where it wants to get: past the signature, into the body, and to words of
    # every depth
    believed = sum(count for (step, _), count in found.items() if step != "sent")
    inside = sum(count for (step, _), count in found.items() if step == "body")
    accepted = sum(count for (_, word), count in found.items() if word == "accepted")
    parts, words = REACHED[layer]
    assert believed >= parts[0] * cases, found
    assert inside >= parts[1] * cases, found
    assert accepted >= parts[2] * cases, found
    assert {word for _, word in found} >= words, found


REACHED: dict[str, tuple[tuple[float, float, float], set[str]]] = {
    "bytes": ((0.05, 0.05, 0.05), {"malformed", "bad signature"}),
    "manifest": ((0.1, 0.02, 0.02), {"malformed"}),
    "body": ((0.9, 0.9, 0.05), {"bad tensors", "wrong shape"}),
    "crossed": ((1.0, 1.0, 0.05), {"bad tensors", "wrong shape", "not finite", "norm"}),
}
"""The least parts of all cases that are believed, reach the body, and are accepted; and words that
must have been said."""
