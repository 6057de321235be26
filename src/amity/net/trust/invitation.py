"""One file with all that a new member needs and nobody has to keep secret: the authority's
certificate, whom to dial first, the list of those who are revoked, and what all members must have
in common. The authority signs it; the new member makes its own key, which never leaves it.

    signature = "..."       of everything below this line
    authority = "-----BEGIN CERTIFICATE-----..."
    revoked = "..."         the list, if there is one
    schema = "..."          the text of the schema file, if the members have one
    [roster]                network, whether any signed one is a member, whom to dial first
    [terms.peer], [terms.net], [terms.run]
                            sections of peer.toml, without what is each member's own
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from amity.errors import ConfigError, IdentityError, brief
from amity.net.trust.identity import issuer_of, public_of, verify
from amity.net.trust.roster import Roster, roster_of
from amity.toml import read_toml

INVITATION = "invitation.toml"
LARGEST = 1 << 20
DOMAIN = b"amity invitation, version 1\n"
COMMON = {"peer": ("classes",), "net": ("masked", "crowd", "sync")}
"""Keys of peer.toml that all members have in common; of [run] all but these:"""
OWN = ("device", "engine", "eval", "out")
OWN_DATA = ("name", "path", "dir")
"""Where a member's data lies."""
SCHEMA = "schema.toml"


@dataclass(frozen=True)
class Invitation:
    """What is in the file."""

    authority: str
    """The certificate, in PEM."""
    roster: Roster
    revoked: str = ""
    schema: str = ""
    terms: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """Of the authority's certificate: compare it by telephone."""
        der = x509.load_pem_x509_certificate(self.authority.encode()).public_bytes(Encoding.DER)
        return hashlib.sha256(der).hexdigest()

    def sign(self, key: ec.EllipticCurvePrivateKey) -> bytes:
        """As the authority hands it out."""
        table: dict[str, Any] = {"authority": self.authority}
        table |= {k: v for k in ("revoked", "schema") if (v := getattr(self, k))}
        table |= {"roster": tomllib.loads(self.roster.dump()), "terms": self.terms}
        text = tomli_w.dumps(table).encode()
        signature = key.sign(DOMAIN + text, ec.ECDSA(hashes.SHA256())).hex()
        return f'signature = "{signature}"\n'.encode() + text


def open_invitation(path: Path) -> Invitation:
    """An invitation that the authority in it signed: whoever changed it on the way has made another
    authority's, which `fingerprint` tells."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise IdentityError(f"{path}: cannot be read ({error.strerror})") from None
    if len(data) > LARGEST:
        raise IdentityError(f"{path}: is longer than {LARGEST} bytes, so it is no invitation")
    first, _, text = data.partition(b"\n")
    try:
        signature = bytes.fromhex(tomllib.loads(first.decode())["signature"])
        table = tomllib.loads(text.decode())
        authority = x509.load_pem_x509_certificate(table["authority"].encode())
        roster, terms = roster_of(table["roster"]), table.get("terms", {})
        revoked, schema = (str(table.get(key, "")) for key in ("revoked", "schema"))
    except (IdentityError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise IdentityError(
            f"{path}: is no invitation ({brief(error)}); `amity ca invite` makes one"
        ) from None
    own = issuer_of(authority, [authority]) is not None
    if not own or not verify(public_of(authority), signature, DOMAIN + text):
        raise IdentityError(
            f"{path}: is not signed by the authority in it, so it was changed on the way; ask for"
            " it again"
        )
    return Invitation(table["authority"], roster, revoked, schema, terms)


def terms_of(path: Path) -> tuple[dict[str, dict[str, Any]], str]:
    """What all members must have in common, of a member's peer.toml; and its schema file."""
    given, schema = read_toml(path), ""
    found = {
        section: {key: given[section][key] for key in keys if key in given.get(section, {})}
        for section, keys in COMMON.items()
    }
    run = {k: v for k, v in given.get("run", {}).items() if k.partition(".")[0] not in OWN}
    data = run.pop("data", {})
    if isinstance(data, Mapping):
        if data.get("schema"):
            schema = _text_of(path.parent / data["schema"])
        data = {k: v for k, v in data.items() if k not in OWN_DATA}
        run |= {"data": {**data, **({"schema": SCHEMA} if schema else {})}} if data else {}
    return {key: value for key, value in {**found, "run": run}.items() if value}, schema


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: the schema file cannot be read ({brief(error)})") from None
