"""Bytes to values and back, for what peers send each other. Nothing is believed before it is
checked.

A message is a **head** and, for some kinds, a **body**:

    head = "AMT1" | length of signature (2 bytes) | length of manifest (4 bytes) | signature | manifest (JSON)
    body = safetensors, as long as the manifest says and with the SHA-256 that it says

The sender signs the manifest with the key that the roster lists, so neither a relay nor another
member can alter a message or put words into somebody's mouth. Checks stand in the order of their
price: lengths, manifest, signature, who and when, SHA-256, the body's header, its tensors by name,
type and shape, and last the numbers themselves. There is no pickle here, and no code that a message
could choose to run.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import secrets
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import numpy as np
import safetensors
import safetensors.torch
import torch
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from amity.core import Share
from amity.facts import Losses
from amity.net.trust.identity import Identity, fingerprint_of, verify
from amity.net.trust.roster import Roster

MAGIC: Final = b"AMT1"
DOMAIN: Final = b"amity signed message, version 1\n"
_SIZES = struct.Struct(">4sHI")
LARGEST_MANIFEST = 4096
LARGEST_HEADER = 4096
"""Of a body's safetensors header: we send at most four tensors."""
SKEW_MS = 5 * 60 * 1000
"""A clock may run ahead of mine by so much."""
BLOCK = 256
"""Numbers that share one scale in int8."""
LARGEST_SKETCH = 1e18
"""No sketch of a larger norm is taken: sums and squares of such numbers stay finite, so that
nobody's card can turn the similarities of all others into NaN."""

Kind = Literal["card", "share", "start", "probe", "visit", "ask", "answer"]
Format = Literal["fp32", "bf16", "int8"]
Hex = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Token = Annotated[str, Field(pattern=r"^[0-9a-f]{0,32}$")]
Name = Annotated[str, Field(max_length=63)]
Count = Annotated[int, Field(ge=0, le=2**53)]
Nonnegative = Annotated[float, Field(ge=0)]


class Refused(Exception):
    """A message that is not believed: `reason` is one of a few words to count by, the text says
    more."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Manifest(_Strict):
    """What the sender signs."""

    kind: Kind
    network: Name
    sender: Name
    to: Name = ""
    """For whom it is; empty: for all members."""
    round: Annotated[int, Field(ge=-1, le=2**31)]
    at: Count
    """When it was signed, in milliseconds since 1970."""
    nonce: Token
    re: Token = ""
    """The nonce of the ask that this answers."""
    schema_: Hex = Field(alias="schema")
    length: Count = 0
    sha256: Hex = hashlib.sha256(b"").hexdigest()
    format: Format = "fp32"
    key: Annotated[str, Field(max_length=256)]
    """The sender's public key, whose fingerprint the roster lists."""
    data: Annotated[dict[str, int | float | str], Field(max_length=12)] = Field(
        default_factory=dict
    )


class CardData(_Strict):
    """What stands on a card beside the sketch."""

    examples: Count
    degree: Count
    phase: Literal["joining", "ready", "done"]


class ShareData(_Strict):
    examples: Count


class VisitData(_Strict):
    """The answer of a probe or a visit: losses, and whether a model comes with them."""

    examples: Count
    degree: Count
    before: Nonnegative
    after: Nonnegative


class LossData(_Strict):
    before: Nonnegative
    after: Nonnegative


_MANIFEST = TypeAdapter(Manifest)


def said(model: type[Any], manifest: Manifest) -> Any:
    """The `data` of a manifest as what it must be; numbers must be finite."""
    if not all(
        math.isfinite(value) for value in manifest.data.values() if isinstance(value, float)
    ):
        raise Refused("not finite", manifest.kind)
    try:
        return model.model_validate(manifest.data)
    except ValidationError as error:
        raise Refused("malformed", f"{manifest.kind}: {error.errors()[0]['msg']}") from None


@dataclass(frozen=True)
class Schema:
    """What all members must have in common, and what a body must look like. `digest` names it on
    the wire."""

    size: int
    """P: parameters of the model."""
    masked: bool
    """Whether shares leave some coordinates out."""
    sketch: int
    """Numbers on a card; 0 where the strategy needs no cards."""
    probe: int
    """Numbers of the sketch that a probe or a visit brings back."""
    digest: str
    max_norm: float = 1e6
    """No model of a larger norm is taken."""

    def longest(self, kind: str) -> int:
        """The most bytes that a body of a kind can have."""
        model = 4 * self.size + (self.size + 7) // 8
        bodies = {
            "card": 4 * self.sketch,
            "probe": 4 * self.probe,
            "visit": 4 * self.probe + model,
            "ask": 0,
            "answer": 0,
        }
        return LARGEST_HEADER + 8 + bodies.get(kind, model)


def digest_of(layout: Mapping[str, tuple[int, ...]], common: Mapping[str, Any]) -> str:
    """Covers names and shapes of all parameters, and whatever else makes models comparable."""
    plain = {"model": [[name, list(shape)] for name, shape in layout.items()], **common}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


# -- heads -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stamp:
    """Who signs, for which network and with which schema."""

    identity: Identity
    network: str
    schema: str

    def seal(
        self,
        kind: Kind,
        round: int,
        body: bytes = b"",
        *,
        to: str = "",
        re: str = "",
        format: Format = "fp32",
        data: Mapping[str, Any] | None = None,
        nonce: str = "",
    ) -> bytes:
        """A signed head for a body."""
        fields = {
            "kind": kind,
            "network": self.network,
            "sender": self.identity.name,
            "to": to,
            "round": round,
            "at": int(time.time() * 1000),
            "nonce": nonce or secrets.token_hex(16),
            "re": re,
            "schema": self.schema,
            "length": len(body),
            "sha256": hashlib.sha256(body).hexdigest(),
            "format": format,
            "key": base64.b64encode(self.identity.public).decode(),
            "data": dict(data or {}),
        }
        manifest = json.dumps(
            fields, sort_keys=True, separators=(",", ":"), allow_nan=False
        ).encode()
        return frame(self.identity.sign(DOMAIN + manifest), manifest)


def frame(signature: bytes, manifest: bytes) -> bytes:
    return _SIZES.pack(MAGIC, len(signature), len(manifest)) + signature + manifest


def unframe(data: bytes) -> tuple[bytes, bytes, bytes]:
    """Signature, manifest, and what follows."""
    if len(data) < _SIZES.size:
        raise Refused("malformed", "shorter than a head")
    magic, signed, said_ = _SIZES.unpack_from(data)
    if magic != MAGIC:
        raise Refused("malformed", "not a message of Amity")
    if signed > 128 or said_ > LARGEST_MANIFEST:
        raise Refused("malformed", "head too long")
    start, end = _SIZES.size + signed, _SIZES.size + signed + said_
    if len(data) < end:
        raise Refused("malformed", "head cut off")
    return data[_SIZES.size : start], data[start:end], data[end:]


@dataclass(frozen=True)
class Expected:
    """What a head must say to be believed here."""

    me: str
    schema: Schema
    kinds: tuple[Kind, ...]
    sender: str = ""
    round: int | None = None
    re: str | None = None
    max_age: float = 86400.0
    any_schema: bool = False
    """Whether a sender with another model may still speak (greetings, to say so)."""


def open_head(data: bytes, roster: Roster, want: Expected) -> tuple[Manifest, bytes]:
    """The manifest and what follows it, if all of it can be believed."""
    signature, raw, rest = unframe(data)
    try:
        manifest = _MANIFEST.validate_json(raw)
        public = base64.b64decode(manifest.key, validate=True)
    except ValueError as error:  # of pydantic and of base64
        raise Refused("malformed", str(error).splitlines()[0]) from None
    member = roster.members.get(manifest.sender)
    if member is None:
        raise Refused("not on the roster", repr(manifest.sender))
    if fingerprint_of(public) != member.fingerprint:
        raise Refused("wrong key", f"not the key of {manifest.sender} on the roster")
    if not verify(public, signature, DOMAIN + raw):
        raise Refused("bad signature", manifest.sender)
    _check(manifest, roster, want)
    return manifest, rest


def _check(manifest: Manifest, roster: Roster, want: Expected) -> None:
    if manifest.kind not in want.kinds:
        raise Refused("wrong kind", f"{manifest.kind}, expected {' or '.join(want.kinds)}")
    if manifest.network != roster.network:
        raise Refused("wrong network", repr(manifest.network))
    if want.sender and manifest.sender != want.sender:
        raise Refused("wrong sender", f"{manifest.sender} speaks for {want.sender}")
    if manifest.to not in ("", want.me):
        raise Refused("wrong addressee", repr(manifest.to))
    if want.re is not None and manifest.re != want.re:
        raise Refused("replay", "answers another ask")
    if want.round is not None and manifest.round != want.round:
        raise Refused("wrong round", f"{manifest.round}, expected {want.round}")
    age = time.time() * 1000 - manifest.at
    if age < -SKEW_MS:
        raise Refused("clock", f"signed {-age / 1000:.0f} s in the future")
    if age > 1000 * want.max_age + SKEW_MS:
        raise Refused("too old", f"signed {age / 1000:.0f} s ago")
    if manifest.schema_ != want.schema.digest and not want.any_schema:
        raise Refused(
            "wrong schema", f"{manifest.sender} has another model, classes, proxy or seed"
        )
    if manifest.length > want.schema.longest(manifest.kind):
        raise Refused("too long", f"{manifest.length} bytes for a {manifest.kind}")


def check_body(manifest: Manifest, body: bytes | bytearray) -> None:
    if len(body) != manifest.length:
        raise Refused("wrong length", f"{len(body)} bytes, the manifest says {manifest.length}")
    if hashlib.sha256(body).hexdigest() != manifest.sha256:
        raise Refused("wrong hash", "the body is not the one that was signed")


# -- bodies ----------------------------------------------------------------------------------------

_TYPES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.int8: "I8", torch.uint8: "U8"}
_NUMBERS = {"fp32": torch.float32, "bf16": torch.bfloat16, "int8": torch.int8}
Shapes = Mapping[str, tuple[torch.dtype, tuple[int, ...]]]


def read_tensors(body: bytes | bytearray, shapes: Shapes) -> dict[str, torch.Tensor]:
    """Exactly these tensors, of these types and shapes; the header is checked before the library
    parses it."""
    found, _ = _header(body)
    if found.keys() != shapes.keys():
        raise Refused("bad tensors", f"expected {sorted(shapes)}, got {sorted(found)[:8]}")
    for name, (kind, shape) in shapes.items():
        entry = found[name]
        if (
            not isinstance(entry, dict)
            or entry.get("dtype") != _TYPES[kind]
            or entry.get("shape") != list(shape)
        ):
            raise Refused("wrong shape", f"{name} must be {_TYPES[kind]} of {list(shape)}")
    try:
        tensors: dict[str, torch.Tensor] = safetensors.torch.load(bytes(body))
    except safetensors.SafetensorError as error:
        raise Refused("bad tensors", str(error)[:100]) from None
    for name, (
        kind,
        shape,
    ) in shapes.items():  # the library read the header itself: believe only what it made of it
        if tensors[name].dtype != kind or tuple(tensors[name].shape) != shape:
            raise Refused("wrong shape", name)
    return tensors


def _header(body: bytes | bytearray) -> tuple[dict[str, Any], int]:
    """The header of a body, and where its data begins."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) != len(pairs):
            raise Refused("bad tensors", "a name twice in the header")
        return dict(pairs)

    if len(body) < 8:
        raise Refused("bad tensors", "no header")
    length = int.from_bytes(body[:8], "little")
    if length > min(LARGEST_HEADER, len(body) - 8):
        raise Refused("bad tensors", "header too long")
    try:
        found = json.loads(bytes(body[8 : 8 + length]), object_pairs_hook=unique)
    except (ValueError, RecursionError):
        raise Refused("bad tensors", "header is not JSON") from None
    if not isinstance(found, dict):
        raise Refused("bad tensors", "header is no table")
    return found, 8 + length


def encode_sketch(sketch: torch.Tensor) -> bytes:
    return safetensors.torch.save({"sketch": sketch.contiguous()})


def decode_sketch(body: bytes | bytearray, numbers: int) -> torch.Tensor:
    sketch = read_tensors(body, {"sketch": (torch.float32, (numbers,))})["sketch"]
    _bounded(sketch, LARGEST_SKETCH, "sketch")
    return sketch


def _bounded(values: torch.Tensor, largest: float, what: str) -> None:
    norm = float(values.double().norm())
    if not math.isfinite(norm):
        raise Refused("not finite", what)
    if norm > largest:
        raise Refused("norm", f"{what} of {norm:.3g}, at most {largest:.3g}")


def encode_share(
    share: Share, format: Format, draw: np.random.Generator, sketch: torch.Tensor | None = None
) -> bytes:
    """A model as it travels: only offered coordinates, in the chosen format; with the sketch of a
    visit, if there is one."""
    tensors: dict[str, torch.Tensor] = {} if sketch is None else {"sketch": sketch.contiguous()}
    theta = share.theta.detach().cpu()
    if share.mask is not None:
        mask = share.mask.cpu()
        theta = theta[mask]
        tensors["mask"] = torch.from_numpy(np.packbits(mask.numpy()))
    if format == "int8":
        tensors |= quantise(theta, draw)
    else:
        tensors["theta"] = theta.to(_NUMBERS[format]).contiguous()
    return safetensors.torch.save(tensors)


def decode_share(
    manifest: Manifest, body: bytes | bytearray, schema: Schema
) -> tuple[Share, torch.Tensor | None]:
    """The model of a body, and the sketch that a visit brings along."""
    count, mask = _mask_of(body, schema) if schema.masked else (schema.size, None)
    shapes: dict[str, tuple[torch.dtype, tuple[int, ...]]] = {
        "theta": (_NUMBERS[manifest.format], (count,))
    }
    if manifest.format == "int8":
        shapes["scale"] = (torch.float32, (-(-count // BLOCK),))
    if mask is not None:
        shapes["mask"] = (torch.uint8, ((schema.size + 7) // 8,))
    if manifest.kind == "visit":
        shapes["sketch"] = (torch.float32, (schema.probe,))
    tensors = read_tensors(body, shapes)
    values = dequantise(tensors) if manifest.format == "int8" else tensors["theta"].float()
    _bounded(values, schema.max_norm, "model")
    sketch = tensors.get("sketch")
    if sketch is not None:
        _bounded(sketch, LARGEST_SKETCH, "sketch")
    if mask is None:
        return Share(values), sketch
    theta = torch.zeros(schema.size)
    theta[mask] = values
    return Share(theta, mask), sketch


def _mask_of(body: bytes | bytearray, schema: Schema) -> tuple[int, torch.Tensor]:
    """The mask says how many numbers there must be, so it is read first."""
    header, data = _header(body)
    entry = header.get("mask")
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    if not (
        isinstance(offsets, list)
        and len(offsets) == 2
        and all(type(at) is int and at >= 0 for at in offsets)
    ):
        raise Refused("bad tensors", "no mask")
    bits = np.frombuffer(bytes(body[data + offsets[0] : data + offsets[1]]), np.uint8)
    if len(bits) != (schema.size + 7) // 8:
        raise Refused("wrong shape", "mask")
    mask = np.unpackbits(bits, count=schema.size).astype(bool)
    if np.packbits(mask).tobytes() != bits.tobytes():
        raise Refused("bad tensors", "mask has bits past its end")
    return int(mask.sum()), torch.from_numpy(mask)


def quantise(theta: torch.Tensor, draw: np.random.Generator) -> dict[str, torch.Tensor]:
    """int8 with one scale for 256 numbers, rounded up or down by chance, so that the mean is right:
    E[q·scale] = θ."""
    blocks = torch.zeros(-(-len(theta) // BLOCK) * BLOCK)
    blocks[: len(theta)] = theta
    blocks = blocks.view(-1, BLOCK)
    scale = blocks.abs().amax(1) / 127
    steps = blocks / torch.where(scale > 0, scale, 1.0)[:, None]
    chance = torch.from_numpy(draw.random(steps.shape, dtype=np.float32))
    low = steps.floor()
    rounded = low + (chance < steps - low)
    return {
        "theta": rounded.clamp(-127, 127).view(-1)[: len(theta)].to(torch.int8).contiguous(),
        "scale": scale,
    }


def dequantise(tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
    values, scale = tensors["theta"].float(), tensors["scale"]
    if not bool(torch.isfinite(scale).all()) or bool((scale < 0).any()):
        raise Refused("not finite", "scale")
    return values * scale.repeat_interleave(BLOCK)[: len(values)]


def losses_of(manifest: Manifest) -> Losses:
    found = said(LossData, manifest)
    return Losses(found.before, found.after)
