"""Membership by certificate: what somebody shows to be a member, where the authority's signature
suffices (`members = "any-signed"`).

A **pass** is a certificate of the authority, and what the key of that certificate signed: the
network, the address at which its holder is dialled, when, and a key to seal an answer to. Anybody
can pass it on; what is believed is the two signatures. The **book** holds the passes of all members
that are known. One name has one key there: another key for it is refused until the authority
revokes the old one.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from amity.errors import IdentityError
from amity.net.trust.identity import (
    Identity,
    common_name,
    fingerprint_of,
    has_both_sides,
    hosts_of,
    issuer_of,
    load_certificates,
    public_of,
    verify,
)
from amity.net.trust.revoked import Revoked
from amity.net.trust.roster import Member, Roster, split_address

BOOK = "members.json"
LARGEST_PASS = 8192
"""Bytes of a pass: one certificate, and a few words."""
DOMAIN = b"amity pass, version 1\n"
EARLY = 5 * 60.0
"""Seconds by which clocks may differ."""
Book = Mapping[str, "Pass"]
"""The passes of members, by name."""


@dataclass(frozen=True)
class Pass:
    """A pass whose two signatures are right."""

    member: Member
    at: int
    """When it was signed, in milliseconds since 1970: of two passes the later one counts."""
    box: bytes
    """The key to which an answer is sealed."""
    start: datetime
    end: datetime
    signed: bytes
    """As it goes from hand to hand."""

    @property
    def valid(self) -> bool:
        """Whether the authority's word holds today."""
        return self.start <= datetime.now(UTC) < self.end

    @property
    def age(self) -> float:
        """Seconds since it was signed."""
        return time.time() - self.at / 1000


def sign_pass(identity: Identity, network: str, address: str, box: bytes) -> bytes:
    """My own pass, signed now."""
    certificate = load_certificates(identity.cert_path)[0]
    fields = {"network": network, "address": address, "at": int(time.time() * 1000)}
    text = json.dumps({**fields, "box": box.hex()}, sort_keys=True, separators=(",", ":"))
    pem = certificate.public_bytes(serialization.Encoding.PEM).decode()
    signature = identity.sign(DOMAIN + text.encode()).hex()
    return json.dumps({"certificate": pem, "pass": text, "signature": signature}).encode()


def open_pass(signed: bytes, authorities: Sequence[x509.Certificate], network: str) -> Pass:
    """A pass that one of these authorities and its holder signed; IdentityError says why not. That
    its certificate has ended is for the caller to see (`valid`)."""
    certificate, text, signature, fields = _parsed(signed)
    name = common_name(certificate.subject)
    who = f"the pass of {name[:63]!r}"
    if issuer_of(certificate, authorities) is None:
        raise IdentityError(f"{who}: its certificate is not signed by our authority")
    if not has_both_sides(certificate):
        raise IdentityError(f"{who}: its certificate is not for serving and dialling")
    if not verify(public_of(certificate), signature, DOMAIN + text):
        raise IdentityError(f"{who}: is not signed with the key of its certificate")
    if fields["network"] != network:
        raise IdentityError(f"{who}: is for the network {str(fields['network'])[:63]!r}")
    address = fields["address"]
    if address and split_address(address)[0] not in hosts_of(certificate):
        raise IdentityError(f"{who}: its certificate does not cover {address}")
    return Pass(
        member=Member(name, address, fingerprint_of(public_of(certificate))),
        at=fields["at"],
        box=bytes.fromhex(fields["box"]),
        start=certificate.not_valid_before_utc,
        end=certificate.not_valid_after_utc,
        signed=signed,
    )


def _parsed(signed: bytes) -> tuple[x509.Certificate, bytes, bytes, dict[str, Any]]:
    """Its parts, of the right types; nothing of it is believed yet."""
    if len(signed) > LARGEST_PASS:
        raise IdentityError(f"a pass: is longer than {LARGEST_PASS} bytes, so it is none")
    try:
        outer = json.loads(signed)
        certificate = x509.load_pem_x509_certificate(outer["certificate"].encode())
        text, signature = outer["pass"].encode(), bytes.fromhex(outer["signature"])
        fields = json.loads(text)
        good = type(fields["at"]) is int and len(bytes.fromhex(fields["box"])) == 32
        good &= isinstance(fields["address"], str) and isinstance(fields["network"], str)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, UnsupportedAlgorithm):
        good = False
    if not good:
        raise IdentityError("a pass: is not in the form of one")
    return certificate, text, signature, fields


# -- the book --------------------------------------------------------------------------------------


def admit(book: Book, found: Pass, roster: Roster, revoked: Revoked | None) -> Book:
    """The book with one more pass, or with a later one of the same member. IdentityError says why
    it is not let in. `roster` is all whom I know, and whose names and keys it must not take."""
    name, key = found.member.name, found.member.fingerprint
    gone: Iterable[str] = () if revoked is None else revoked.keys
    if key in gone:
        raise IdentityError(f"{name}: its key was revoked by the authority")
    if not found.valid:
        raise IdentityError(f"{name}: its certificate is not valid today")
    if found.age < -EARLY:
        raise IdentityError(f"{name}: its pass was signed {-found.age:.0f} s in the future")
    known = book.get(name)
    for member in (*roster.everyone, *([known.member] if known else [])):
        same = (member.name == name, member.fingerprint == key)
        if any(same) and not all(same) and member.fingerprint not in gone:
            raise IdentityError(
                f"{name}: shows another key than the one that is known"
                if same[0]
                else f"{name}: shows the key of {member.name}"
            )
        if not any(same) and member.address and member.address == found.member.address:
            raise IdentityError(f"{name}: says that it is at {member.address}, as {member.name} is")
    if known is not None and known.member.fingerprint == key:
        news = (known.member, known.start, known.end) != (found.member, found.start, found.end)
        if known.at >= found.at or not news:
            return book
    return {**book, name: found}


def enrolled(roster: Roster, book: Book, me: Member, revoked: Revoked | None) -> Roster:
    """The roster of a file with me, and with all whose passes hold today. Who is listed stays as it
    is listed; who takes another's name, key or address is left out."""
    members = {me.name: me, **roster.members}
    everyone = [*members.values(), *([roster.relay] if roster.relay else [])]
    taken = {part for one in everyone for part in (one.name, one.fingerprint, one.address)} - {""}
    gone: Iterable[str] = () if revoked is None else revoked.keys
    for found in sorted(book.values(), key=lambda one: one.member.name):
        one = found.member
        if not found.valid or one.fingerprint in gone:
            continue
        if not taken & {one.name, one.fingerprint, one.address}:
            members[one.name] = one
            taken |= {one.name, one.fingerprint, one.address} - {""}
    return replace(roster, members=members)


def my_entry(identity: Identity, roster: Roster, listen: str) -> Member:
    """How others find me: as the roster lists me, else where I listen, under a host of my
    certificate."""
    if identity.name in roster.members:
        return roster.members[identity.name]
    if not listen:
        return Member(identity.name, "", identity.fingerprint)
    host, port = split_address(listen)
    hosts = hosts_of(load_certificates(identity.cert_path)[0])
    host = host if host in hosts else hosts[0]
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return Member(identity.name, where, identity.fingerprint)


def digest_of(book: Book) -> str:
    """Two who have the same need not tell each other."""
    known = sorted((n, *astuple(p.member), str(p.end)) for n, p in book.items())
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()


def dump_book(book: Book) -> bytes:
    return json.dumps([book[name].signed.decode() for name in sorted(book)], indent=0).encode()


def load_book(path: Path, ca_path: Path, network: str) -> Book:
    """The passes in a file that the authority's signature still covers; none where there is no
    file."""
    try:
        listed = [one.encode() for one in json.loads(path.read_bytes())]
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise IdentityError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise IdentityError(
            f"{path}: is no list of passes; delete it, and members show theirs again"
        ) from None
    authorities, book = load_certificates(ca_path), dict[str, Pass]()
    for signed in listed:
        try:
            found = open_pass(signed, authorities, network)
        except IdentityError:
            continue  # of an authority that ca.pem does not hold any more
        book[found.member.name] = found
    return book
