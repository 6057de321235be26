"""Heads: sealed by their sender, and opened only if all of what they say can be believed."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import TypeAdapter

from amity.core import in_force
from amity.net.trust.identity import Identity, fingerprint_of, verify
from amity.net.trust.roster import Roster
from amity.net.wire.manifest import Format, Kind, Manifest, Refused, WireSchema

MAGIC: Final = b"AMT1"
DOMAIN: Final = b"amity signed message, version 1\n"
LARGEST_MANIFEST = 4096
SKEW_MS = 5 * 60 * 1000
"""A clock may run ahead of mine by so much."""
_SIZES = struct.Struct(">4sHI")
_MANIFEST = TypeAdapter(Manifest)


@dataclass(frozen=True)
class Stamp:
    """Who signs, for which network and with which schema."""

    identity: Identity
    network: str
    schema: str
    later: tuple[tuple[int, str], ...] = ()
    """From which round on which schema holds instead."""

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
            "schema": in_force(self.schema, self.later, round),
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
        other = magic[:2] == MAGIC[:2]
        raise Refused("malformed", f"not a message of {'this version of ' * other}Amity")
    if signed > 128 or said_ > LARGEST_MANIFEST:
        raise Refused("malformed", "head too long")
    start, end = _SIZES.size + signed, _SIZES.size + signed + said_
    if len(data) < end:
        raise Refused("malformed", "head cut off")
    return data[_SIZES.size : start], data[start:end], data[end:]


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What a head must say to be believed here."""

    me: str
    schema: WireSchema
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
    _check_address(manifest, roster, want)
    _check_age(manifest, want.max_age)
    schema = want.schema.at(manifest.round)
    if manifest.schema_ != schema.digest and not want.any_schema:
        raise Refused(
            "wrong schema",
            f"{manifest.sender} has other inputs, classes, model, proxy, seed, optimiser, schedule"
            " or changes",
        )
    if manifest.length > schema.longest(manifest.kind):
        raise Refused("too long", f"{manifest.length} bytes for a {manifest.kind}")


def _check_address(manifest: Manifest, roster: Roster, want: Expected) -> None:
    """What it is, from whom and for whom, and what it answers."""
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


def _check_age(manifest: Manifest, most: float) -> None:
    age = time.time() * 1000 - manifest.at
    if age < -SKEW_MS:
        raise Refused("clock", f"signed {-age / 1000:.0f} s in the future")
    if age > 1000 * most + SKEW_MS:
        raise Refused("too old", f"signed {age / 1000:.0f} s ago")


def check_body(manifest: Manifest, body: bytes | bytearray) -> None:
    if len(body) != manifest.length:
        raise Refused("wrong length", f"{len(body)} bytes, the manifest says {manifest.length}")
    if hashlib.sha256(body).hexdigest() != manifest.sha256:
        raise Refused("wrong hash", "the body is not the one that was signed")
