"""Who is no member any more, signed by the authority: a list that members pass on, so that nobody
has to edit everybody's roster.

Lists have a number. A list with a smaller number never takes the place of one with a larger, so
whoever keeps an old one cannot bring anybody back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from amity.errors import IdentityError
from amity.files import write_atomically
from amity.net.trust.identity import load_certificates, public_of, verify
from amity.net.trust.roster import FINGERPRINT, NAME, Roster, check_name

REVOKED = "revoked.json"
LARGEST = 96 * 1024
"""Bytes of a list: about a thousand names."""
DOMAIN = b"amity revoked members, version 1\n"


@dataclass(frozen=True)
class Revoked:
    """Keys that count no longer, by fingerprint, with the name that they had; and what the
    authority signed, as it passes from hand to hand."""

    network: str
    number: int
    keys: Mapping[str, str]
    signed: bytes

    def strike(self, roster: Roster) -> Roster:
        """The roster without those whose keys were revoked. A relay that was revoked is none."""
        kept = {n: m for n, m in roster.members.items() if m.fingerprint not in self.keys}
        relay = roster.relay
        gone = relay is not None and relay.fingerprint in self.keys
        return replace(roster, members=kept, relay=None if gone else relay)


def sign_revoked(
    key: ec.EllipticCurvePrivateKey, network: str, number: int, keys: Mapping[str, str]
) -> bytes:
    """A list as the authority signs it."""
    fields = {"network": network, "number": number, "keys": dict(keys)}
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    signature = key.sign(DOMAIN + text.encode(), ec.ECDSA(hashes.SHA256()))
    signed = json.dumps({"list": text, "signature": signature.hex()}).encode()
    if len(signed) > LARGEST:
        raise IdentityError(
            f"the list of revoked members is longer than {LARGEST} bytes; found a new authority"
            " with `amity ca init`, and sign those who stay"
        )
    return signed


def open_revoked(signed: bytes, ca_path: Path, where: str) -> Revoked:
    """A list that an authority in `ca_path` signed; IdentityError says why it is none."""
    if len(signed) > LARGEST:
        raise IdentityError(f"{where}: is longer than {LARGEST} bytes, so it is no list of ours")
    try:
        outer = json.loads(signed)
        text, signature = outer["list"].encode(), bytes.fromhex(outer["signature"])
        fields = json.loads(text)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise IdentityError(
            f"{where}: is no list of revoked members; `amity ca revoke` makes one"
        ) from None
    authorities = load_certificates(ca_path)
    if not any(verify(public_of(one), signature, DOMAIN + text) for one in authorities):
        raise IdentityError(f"{where}: is not signed by the authority in {ca_path}")
    return Revoked(*_fields(fields, where), signed)


def _fields(fields: Any, where: str) -> tuple[str, int, dict[str, str]]:
    """What an authority signed may still be of another version."""
    network, number, keys = (fields.get(key) for key in ("network", "number", "keys"))
    good = isinstance(network, str) and isinstance(keys, dict) and type(number) is int
    if not good or not all(
        FINGERPRINT.fullmatch(key) and isinstance(name, str) and NAME.fullmatch(name)
        for key, name in keys.items()
    ):
        raise IdentityError(f"{where}: lacks network, number or keys; is it of another version?")
    return network, number, keys


def load_revoked(path: Path, ca_path: Path) -> Revoked | None:
    """The list in a file; None: there is none."""
    try:
        signed = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise IdentityError(f"{path}: cannot be read ({error.strerror})") from None
    return open_revoked(signed, ca_path, str(path))


def newest_revoked(paths: Sequence[Path], ca_path: Path, network: str) -> Revoked | None:
    """The newest of the lists in some files; None: there is none."""
    found = [one for path in paths if (one := load_revoked(path, ca_path)) is not None]
    for one in found:
        if one.network != network:
            raise IdentityError(
                f"{paths[0]}: is of the network {one.network}, not {network}; use the list of yours"
            )
    return max(found, key=lambda one: one.number, default=None)


def revoke(
    path: Path,
    key: ec.EllipticCurvePrivateKey,
    ca_path: Path,
    *,
    network: str,
    name: str,
    fingerprint: str,
) -> Revoked:
    """One more on the authority's list, which is made if it is the first."""
    check_name(network, "network")
    check_name(name)
    if not FINGERPRINT.fullmatch(fingerprint):
        raise IdentityError(f"fingerprint: {fingerprint!r} is not 64 hex digits in lower case")
    before = load_revoked(path, ca_path)
    if before is not None and before.network != network:
        raise IdentityError(
            f"{path}: is of the network {before.network}, not {network}; use an authority of its"
            " own for each network"
        )
    number, keys = (before.number, before.keys) if before is not None else (0, {})
    if fingerprint in keys:
        raise IdentityError(f"{path}: {keys[fingerprint]} is revoked already, with this key")
    signed = sign_revoked(key, network, number + 1, {**keys, fingerprint: name})
    write_atomically(path, signed)
    return open_revoked(signed, ca_path, str(path))
