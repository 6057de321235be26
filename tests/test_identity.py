"""Who a peer is: keys, certificates, the roster, and the check before a start, against real files
and real TLS servers."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import ssl
import stat
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import amity.net
from amity.cli.ca import app
from amity.errors import ConfigError, DataError, IdentityError, StorageError
from amity.net.ops import check, reach
from amity.net.ops.check import Finding, check_peer
from amity.net.trust import identity
from amity.net.trust.certs import ca_init, ca_sign, make_key, make_request
from amity.net.trust.identity import (
    Identity,
    expires,
    fingerprint_of,
    hosts_of,
    load_certificates,
    public_of,
    verify,
)
from amity.net.trust.roster import Member, Roster, check_host, check_name, split_address

AT_ONCE = 1e-9
"""Days after which a certificate has expired as soon as it is written."""
with_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is the oracle")
PEM, SPKI = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo


def join(
    ca: Path, name: str, hosts: tuple[str, ...] = ("127.0.0.1", "localhost"), days: float = 30
) -> Identity:
    """A member as it comes into being: key, request, signature, ca.pem. It is not loaded, so that
    it may be wrong."""
    folder = ca.parent / f"{ca.name}-{name}-{os.urandom(4).hex()}"
    make_key(folder, name, hosts)
    ca_sign(ca, folder / "request.pem", folder / "cert.pem", name, days)
    (folder / "ca.pem").write_bytes((ca / "ca.pem").read_bytes())
    return Identity(name, folder, identity.load_key(folder / "key.pem"))


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("net") / "ca"
    ca_init(folder)
    return folder


@pytest.fixture(scope="module")
def other_ca(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("other") / "ca"
    ca_init(folder)
    return folder


@pytest.fixture
def me(ca: Path) -> Identity:
    return join(ca, "peer-00")


def refusal(me: Identity, name: str = "peer-00") -> str:
    with pytest.raises(IdentityError) as caught:
        Identity.load(me.folder, name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- identity


@with_openssl
def test_a_signed_member_loads_and_its_fingerprint_is_the_hash_that_openssl_computes(
    me: Identity,
) -> None:
    loaded = Identity.load(me.folder, "peer-00")
    command = ["openssl", "pkey", "-in", str(me.key_path), "-pubout", "-outform", "DER"]
    public = subprocess.run(command, capture_output=True, check=True).stdout
    assert loaded.public == public
    assert loaded.fingerprint == fingerprint_of(public) == hashlib.sha256(public).hexdigest()
    assert "PRIVATE" not in repr(loaded)
    assert "key=" not in repr(loaded)


@with_openssl
def test_openssl_agrees_that_a_certificate_is_for_both_sides_and_from_the_authority(
    me: Identity,
) -> None:
    for purpose in ("sslclient", "sslserver"):
        command = [
            "openssl",
            "verify",
            "-x509_strict",
            "-purpose",
            purpose,
            "-CAfile",
            str(me.ca_path),
            str(me.cert_path),
        ]
        assert subprocess.run(command, capture_output=True, text=True).stdout.endswith(": OK\n")


@with_openssl
def test_a_signature_verifies_with_openssl_and_with_us_and_not_for_other_data_or_keys(
    me: Identity, tmp_path: Path
) -> None:
    data, other = b"weights", ec.generate_private_key(ec.SECP256R1())
    signature = me.sign(data)
    (tmp_path / "data").write_bytes(data)
    (tmp_path / "signature").write_bytes(signature)
    (tmp_path / "public").write_bytes(me.key.public_key().public_bytes(PEM, SPKI))
    command = "openssl dgst -sha256 -verify public -signature signature data"
    assert subprocess.run(command.split(), cwd=tmp_path, capture_output=True).returncode == 0
    assert verify(me.public, signature, data)
    assert not verify(me.public, signature, data + b"x")
    assert not verify(me.public, me.sign(b"other"), data)
    assert not verify(public_of(other), signature, data)


@given(st.binary(max_size=120), st.binary(max_size=80), st.binary(max_size=20))
def test_garbage_is_not_signed_and_does_not_raise(
    public: bytes, signature: bytes, data: bytes
) -> None:
    assert not verify(public, signature, data)
    assert not verify(KNOWN, signature, data)


@given(st.integers(0, 90), st.integers(1, 255))
def test_a_public_key_with_one_byte_changed_does_not_verify(at: int, change: int) -> None:
    broken = bytearray(KNOWN)
    broken[at] ^= change
    assert not verify(bytes(broken), SIGNED, b"data")
    assert verify(KNOWN, SIGNED, b"data")


_KEY = ec.generate_private_key(ec.SECP256R1())
KNOWN, SIGNED = public_of(_KEY), _KEY.sign(b"data", ec.ECDSA(hashes.SHA256()))


def test_only_p256_in_its_one_spelling_verifies() -> None:
    wide, edwards = ec.generate_private_key(ec.SECP384R1()), ed25519.Ed25519PrivateKey.generate()
    assert not verify(public_of(wide), wide.sign(b"data", ec.ECDSA(hashes.SHA256())), b"data")
    assert not verify(
        edwards.public_key().public_bytes(serialization.Encoding.DER, SPKI),
        edwards.sign(b"data"),
        b"data",
    )
    point = _KEY.public_key().public_bytes(
        serialization.Encoding.X962, serialization.PublicFormat.CompressedPoint
    )
    compressed = bytes.fromhex("3039301306072a8648ce3d020106082a8648ce3d030107032200") + point
    assert (
        serialization.load_der_public_key(compressed).public_bytes(serialization.Encoding.DER, SPKI)
        == KNOWN
    )
    assert not verify(compressed, SIGNED, b"data")


def test_a_key_that_others_can_read_is_refused_with_the_command_that_helps(me: Identity) -> None:
    me.key_path.chmod(0o640)
    assert "mode 640" in refusal(me)
    assert f"chmod 600 {me.key_path}" in refusal(me)


@pytest.mark.parametrize(
    ("file", "remedy"),
    [
        ("key.pem", "amity peer init"),
        ("cert.pem", "amity peer request"),
        ("ca.pem", "copy it from the CA"),
    ],
)
def test_each_file_that_is_missing_or_garbage_is_named_with_its_remedy(
    me: Identity, file: str, remedy: str
) -> None:
    (me.folder / file).write_bytes(b"-----BEGIN nothing\xff")
    assert str(me.folder / file) in refusal(me)
    assert remedy in refusal(me)
    (me.folder / file).unlink()
    assert str(me.folder / file) in refusal(me)
    assert remedy in refusal(me)


def test_encrypted_keys_and_keys_of_other_kinds_are_refused(me: Identity) -> None:
    pkcs8, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    secret = serialization.BestAvailableEncryption(b"secret")
    me.key_path.write_bytes(me.key.private_bytes(PEM, pkcs8, secret))
    assert "is encrypted" in refusal(me)
    for key in (ec.generate_private_key(ec.SECP384R1()), rsa.generate_private_key(65537, 2048)):
        me.key_path.write_bytes(key.private_bytes(PEM, pkcs8, plain))
        assert "is no EC P-256 key" in refusal(me)


def test_a_certificate_of_another_key_name_or_authority_is_refused(
    me: Identity, ca: Path, other_ca: Path
) -> None:
    assert "is for 'peer-00', not 'peer-01'" in refusal(me, "peer-01")
    own = me.cert_path.read_bytes()
    me.cert_path.write_bytes(join(ca, "peer-00").cert_path.read_bytes())
    assert "belongs to another key" in refusal(me)
    me.cert_path.write_bytes(own)
    me.ca_path.write_bytes((other_ca / "ca.pem").read_bytes())
    assert "is not signed by the ca.pem" in refusal(me)
    me.ca_path.write_bytes((other_ca / "ca.pem").read_bytes() + (ca / "ca.pem").read_bytes())
    assert Identity.load(me.folder, "peer-00").fingerprint == me.fingerprint, (
        "an authority beside its successor"
    )


def test_an_expired_certificate_says_since_when_and_how_to_renew(ca: Path) -> None:
    late = join(ca, "peer-00", days=AT_ONCE)
    end = expires(late.cert_path)
    assert end.tzinfo is UTC
    assert abs(end - datetime.now(UTC)) < timedelta(seconds=10)
    assert f"expired since {end:%Y-%m-%d %H:%M:%S} UTC" in refusal(late)
    assert f"`amity peer request {late.folder}`, then `amity ca sign`" in refusal(late)


def by_hand(
    me: Identity,
    ca: Path,
    *uses: x509.ObjectIdentifier,
    start: datetime,
    issuer: Path | None = None,
) -> None:
    """Put a certificate in place that our own authority would not issue."""
    key, now = identity.load_key(issuer or ca / "ca-key.pem"), datetime.now(UTC)
    authority = load_certificates(me.ca_path)[0]
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "peer-00")])
    builder = x509.CertificateBuilder(
        authority.subject, subject, me.key.public_key(), 7, start, now + timedelta(days=2)
    )
    if uses:
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    me.cert_path.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(PEM))


def test_a_certificate_for_one_side_only_or_of_tomorrow_is_refused(me: Identity, ca: Path) -> None:
    now, server, client = (
        datetime.now(UTC),
        ExtendedKeyUsageOID.SERVER_AUTH,
        ExtendedKeyUsageOID.CLIENT_AUTH,
    )
    for uses in ((), (server,), (client,)):
        by_hand(me, ca, *uses, start=now - timedelta(hours=1))
        assert "lacks serverAuth or clientAuth" in refusal(me)
    by_hand(me, ca, server, client, start=now - timedelta(hours=1))
    assert Identity.load(me.folder, "peer-00").public == me.public
    by_hand(me, ca, server, client, start=now + timedelta(days=1))
    assert "is valid only from" in refusal(me)
    assert "clock" in refusal(me)


def test_a_member_cannot_play_the_authority(me: Identity, ca: Path) -> None:
    mallory = join(ca, "mallory")
    me.ca_path.write_bytes(mallory.cert_path.read_bytes())
    sides = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
    by_hand(me, ca, *sides, start=datetime.now(UTC) - timedelta(hours=1), issuer=mallory.key_path)
    load_certificates(me.cert_path)[0].verify_directly_issued_by(
        load_certificates(mallory.cert_path)[0]
    )
    assert "is not signed by the ca.pem" in refusal(me)


# --- certificates


def test_keys_are_for_their_owner_alone_and_never_overwritten(ca: Path, tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        make_key(tmp_path / "a", "peer-00", ["10.0.0.1"])
    finally:
        os.umask(old)
    for path in (tmp_path / "a" / "key.pem", ca / "ca-key.pem"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = (tmp_path / "a" / "key.pem").read_bytes()
    with pytest.raises(IdentityError, match="is there already and is kept"):
        make_key(tmp_path / "a", "peer-00", ["10.0.0.1"])
    assert (tmp_path / "a" / "key.pem").read_bytes() == before
    authority = (ca / "ca.pem").read_bytes()
    with pytest.raises(IdentityError, match="is there already and is kept"):
        ca_init(ca)
    (ca / "ca.pem").rename(tmp_path / "ca.pem")
    with pytest.raises(IdentityError, match=r"ca-key.pem: is there already and is kept"):
        ca_init(ca)
    (tmp_path / "ca.pem").rename(ca / "ca.pem")
    assert (ca / "ca.pem").read_bytes() == authority
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot be written"):
        make_key(tmp_path / "file", "peer-00", ["10.0.0.1"])


def test_a_wrong_name_or_host_leaves_no_key_behind(tmp_path: Path) -> None:
    for name, hosts in (
        ("Peer", ["10.0.0.1"]),
        ("peer", []),
        ("peer", ["no host"]),
        ("peer", ["10.0.0.1:7447"]),
    ):
        with pytest.raises(IdentityError):
            make_key(tmp_path / "a", name, hosts)
    assert not (tmp_path / "a").exists()


def test_renewal_keeps_the_fingerprint_and_takes_new_hosts(me: Identity, ca: Path) -> None:
    make_request(me.folder, "peer-00", ["peer.Example.org", "::1", "::1"])
    serial = load_certificates(me.cert_path)[0].serial_number
    assert ca_sign(ca, me.folder / "request.pem", me.cert_path, "peer-00") == me.fingerprint
    certificate = load_certificates(me.cert_path)[0]
    assert hosts_of(certificate) == ("peer.example.org", "::1")
    assert certificate.serial_number != serial
    assert Identity.load(me.folder, "peer-00").fingerprint == me.fingerprint
    ca_sign(ca, me.folder / "request.pem", me.cert_path, "peer-00", hosts=["10.0.0.9"])
    assert hosts_of(load_certificates(me.cert_path)[0]) == ("10.0.0.9",)


def test_a_certificate_holds_what_was_asked_of_the_authority_and_nothing_else(
    me: Identity, ca: Path
) -> None:
    certificate = load_certificates(me.cert_path)[0]
    found = {type(extension.value): extension for extension in certificate.extensions}
    assert found.keys() == {
        x509.SubjectAlternativeName,
        x509.ExtendedKeyUsage,
        x509.KeyUsage,
        x509.BasicConstraints,
        x509.SubjectKeyIdentifier,
        x509.AuthorityKeyIdentifier,
    }
    assert found[x509.BasicConstraints].value == x509.BasicConstraints(ca=False, path_length=None)
    early, end = (
        datetime.now(UTC) - certificate.not_valid_before_utc,
        certificate.not_valid_after_utc,
    )
    assert timedelta(minutes=5) <= early < timedelta(minutes=6)
    assert timedelta(days=30) - timedelta(minutes=1) < end - datetime.now(UTC) < timedelta(days=30)
    authority = load_certificates(ca / "ca.pem")[0]
    limits = authority.extensions.get_extension_for_class(x509.BasicConstraints)
    assert limits.critical
    assert limits.value == x509.BasicConstraints(ca=True, path_length=0)
    usage = authority.extensions.get_extension_for_class(x509.KeyUsage).value
    assert usage.key_cert_sign
    assert usage.crl_sign
    assert not usage.digital_signature


def ask(
    path: Path,
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey,
    *more: x509.ExtensionType,
    cn: str = "peer-00",
) -> Path:
    builder = x509.CertificateSigningRequestBuilder(
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, cn)])
    )
    for extension in more:
        builder = builder.add_extension(extension, critical=True)
    path.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(PEM))
    return path


def test_who_asks_to_be_an_authority_becomes_a_member(ca: Path, tmp_path: Path) -> None:
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    request = ask(tmp_path / "r.pem", _KEY, x509.BasicConstraints(ca=True, path_length=None), names)
    assert ca_sign(ca, request, tmp_path / "cert.pem", "peer-00") == fingerprint_of(KNOWN)
    certificate = load_certificates(tmp_path / "cert.pem")[0]
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_requests_that_are_not_what_they_should_be_are_refused(ca: Path, tmp_path: Path) -> None:
    out, local = tmp_path / "cert.pem", x509.DNSName("localhost")
    uri = x509.UniformResourceIdentifier("spiffe://amity/peer-00")
    star = x509.DNSName("*.example.org")
    cases = {
        "asks to be 'peer-00', not 'peer-01'": (
            ask(tmp_path / "1", _KEY, x509.SubjectAlternativeName([local])),
            "peer-01",
        ),
        "asks for more than hosts": (
            ask(tmp_path / "2", _KEY, x509.SubjectAlternativeName([local, uri])),
            "peer-00",
        ),
        "names no host": (ask(tmp_path / "3", _KEY), "peer-00"),
        "is no host": (ask(tmp_path / "4", _KEY, x509.SubjectAlternativeName([star])), "peer-00"),
        "another kind of key": (
            ask(tmp_path / "5", rsa.generate_private_key(65537, 2048)),
            "peer-00",
        ),
        "is no name": (ask(tmp_path / "6", _KEY, cn="Peer"), "Peer"),
        "cannot be read": (tmp_path / "7", "peer-00"),
        "is no request": (ca / "ca.pem", "peer-00"),
    }
    for message, (request, name) in cases.items():
        with pytest.raises(IdentityError, match=message.replace("*", ".")):
            ca_sign(ca, request, out, name)
    der = x509.load_pem_x509_csr((tmp_path / "1").read_bytes()).public_bytes(
        serialization.Encoding.DER
    )
    changed = x509.load_der_x509_csr(der.replace(b"peer-00", b"peer-01"))
    (tmp_path / "8").write_bytes(changed.public_bytes(PEM))
    with pytest.raises(IdentityError, match="its signature is wrong"):
        ca_sign(ca, tmp_path / "8", out, "peer-01")
    assert not out.exists()


def test_an_authority_signs_only_within_its_own_days_and_over_nothing_else(
    me: Identity, ca: Path, tmp_path: Path
) -> None:
    request = me.folder / "request.pem"
    for days in (0, -1, float("nan"), float("inf"), 1e9):
        with pytest.raises(IdentityError, match="no span of validity"):
            ca_sign(ca, request, tmp_path / "cert.pem", "peer-00", days)
    with pytest.raises(IdentityError, match=r"ca.pem: ends on .*fewer days"):
        ca_sign(ca, request, tmp_path / "cert.pem", "peer-00", 3651)
    for out in (ca / "ca.pem", me.key_path, me.folder):
        with pytest.raises(IdentityError):
            ca_sign(ca, request, out, "peer-00")
    mixed = tmp_path / "mixed"
    ca_init(mixed)
    (mixed / "ca.pem").write_bytes((ca / "ca.pem").read_bytes())
    with pytest.raises(IdentityError, match=r"belongs to another key than ca-key.pem"):
        ca_sign(mixed, request, tmp_path / "cert.pem", "peer-00")
    with pytest.raises(IdentityError, match="name of an authority"):
        ca_init(tmp_path / "b", "x" * 65)


# --- roster

A, B, C = "a" * 64, "b" * 64, "c" * 64
TRIAL = f"""
network = "trial"
[relay]
name = "relay"
address = "relay.example.org:7447"
fingerprint = "{C}"
[[peer]]
name = "peer-01"
address = ""
fingerprint = "{B}"
[[peer]]
name = "peer-00"
address = "[fd00::1]:7447"
fingerprint = "{A}"
"""


def read(text: str) -> Roster:
    Path("roster.toml").write_text(text)
    return Roster.load(Path("roster.toml"))


def test_a_roster_is_read_and_sorted() -> None:
    roster = read(TRIAL)
    assert roster.names == ("peer-00", "peer-01")
    assert roster.members["peer-00"] == Member("peer-00", "[fd00::1]:7447", A)
    assert roster.relay == roster.find("relay") == Member("relay", "relay.example.org:7447", C)
    assert roster == Roster.of("trial", reversed(list(roster.members.values())), roster.relay)
    assert "[[peer]]" in roster.dump()
    assert tomllib.loads(roster.dump())["peer"][1] == {
        "name": "peer-01",
        "address": "",
        "fingerprint": B,
    }


NAMES = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True)
HOSTS = st.one_of(
    st.ip_addresses(v=4).map(str).filter(lambda host: host != "0.0.0.0"),
    st.ip_addresses(v=6).filter(int).map(lambda host: f"[{host}]"),
    st.from_regex(r"[a-z]([a-z0-9-]{0,20}[a-z0-9])?(\.[a-z]{2,6})?", fullmatch=True),
)
ADDRESSES = st.one_of(st.just(""), st.builds("{}:{}".format, HOSTS, st.integers(1, 65535)))
PRINTS = st.binary(min_size=32, max_size=32).map(bytes.hex)
MEMBERS = st.builds(Member, NAMES, ADDRESSES, PRINTS)


def unique(member: Member) -> str:
    return member.address or member.name


@settings(deadline=None)
@given(
    NAMES,
    st.lists(MEMBERS, max_size=6, unique_by=(lambda m: m.name, unique, lambda m: m.fingerprint)),
)
def test_a_roster_comes_back_from_its_file_as_it_was(network: str, members: list[Member]) -> None:
    relay = next((member for member in members if member.address), None)
    roster = Roster.of(network, [member for member in members if member != relay], relay)
    again = read(roster.dump())
    assert again == roster
    assert again.dump() == roster.dump()
    assert again.names == tuple(sorted(member.name for member in members if member != relay))


def test_members_come_go_and_change() -> None:
    roster = read(TRIAL)
    more = roster.with_member(Member("peer-005", "10.0.0.5:1", "d" * 64))
    assert more.names == ("peer-00", "peer-005", "peer-01")
    assert more.without("peer-005") == roster
    moved = roster.with_member(replace(roster.members["peer-00"], address="10.0.0.7:1"))
    assert moved.members["peer-00"].address == "10.0.0.7:1"
    assert len(moved.members) == 2
    with pytest.raises(IdentityError, match="unknown member 'peer-09'"):
        roster.without("peer-09")
    with pytest.raises(IdentityError, match="twice"):
        roster.with_member(Member("peer-02", "", A))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('network = "trial"', "", "network: expected a name"),
        ('"trial"', '"Trial"', "network: 'Trial' is no name"),
        ('network = "trial"', 'network = "trial"\nport = 1', "roster: unknown key 'port'"),
        ("[[peer]]", "[[peers]]", "roster: unknown key 'peers'; did you mean 'peer'"),
        ('name = "peer-01"', 'nme = "peer-01"', "number 1: unknown key 'nme'; did you mean 'name'"),
        (f'fingerprint = "{A}"', "", r"number 2 \(peer-00\): needs fingerprint"),
        ('address = ""', "", r"number 1 \(peer-01\): needs address .*only reaches the relay"),
        ('address = ""', "address = 7447", r"number 1 \(peer-01\): needs address"),
        ('"peer-01"', '"peer-00"', "name peer-00 is there twice"),
        ('"peer-01"', '"relay"', "name relay is there twice"),
        (B, A, r"fingerprint a+ is there twice \(peer-00, peer-01\); each"),
        (
            'address = ""',
            'address = "[fd00:0::1]:7447"',
            r"address \[fd00:0::1\]:7447 is there twice",
        ),
        (A, "A" * 64, "is not 64 hex digits in lower case; copy"),
        (A, "a" * 63, "is not 64 hex digits"),
        ("[fd00::1]:7447", "fd00::1:7447", "is not host:port; expected such as"),
        ("[fd00::1]:7447", "[10.0.0.1]:7447", "brackets are for IPv6"),
        ("[fd00::1]:7447", "10.0.0.1", "is not host:port"),
        ("[fd00::1]:7447", "10.0.0.1:0", "is not host:port"),
        ("[fd00::1]:7447", "10.0.0.1:65536", "is not host:port"),
        ("[fd00::1]:7447", "10.0.0.256:7447", "is no host"),
        ("[fd00::1]:7447", "a b:7447", "is no host"),
        ("[fd00::1]:7447", "0.0.0.0:7447", "cannot be dialled"),
        ("relay.example.org:7447", "", "relay: has no address"),
        ('"peer-00"', '"peer/00"', r"number 2 \(peer/00\): name: 'peer/00' is no name"),
        ("[relay]", "[relay", "is not valid TOML"),
    ],
)
def test_a_wrong_roster_is_refused_with_file_entry_and_remedy(
    old: str, new: str, message: str
) -> None:
    assert old in TRIAL
    with pytest.raises(IdentityError, match=message) as caught:
        read(TRIAL.replace(old, new))
    assert str(caught.value).startswith("roster.toml: ")
    assert "\n" not in str(caught.value)


def test_a_roster_that_is_missing_or_no_text_is_refused() -> None:
    with pytest.raises(IdentityError, match=r"absent.toml: cannot be read"):
        Roster.load(Path("absent.toml"))
    Path("binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(IdentityError, match=r"binary.toml: is not valid TOML"):
        Roster.load(Path("binary.toml"))


def test_names_and_hosts_have_one_spelling() -> None:
    for name in ("a", "peer-00", "0", "a" * 63):
        assert check_name(name) == name
    for name in ("", "-a", "a-", "a" * 64, "A", "a.b", "a/b", "*", "a\n", "ä"):
        with pytest.raises(IdentityError):
            check_name(name)
    for host, one in (
        ("LOCALHOST", "localhost"),
        ("FD00:0:0::1", "fd00::1"),
        ("peer_1.net", "peer_1.net"),
    ):
        assert check_host(host) == one
    for host in ("", "a..b", "-a", "fe80::1%eth0", "1.2.3", "010.0.0.1", "*.b", "a.", "a\n"):
        with pytest.raises(IdentityError):
            check_host(host)
    assert split_address("[::1]:80") == ("::1", 80)


# --- check


@contextmanager
def serving(
    who: Identity | None, trust: Identity | None = None, port: int = 0, newest: bool = True
) -> Iterator[str]:
    """Somebody who listens as a peer does: TLS with a client certificate of its authority required,
    or a plain echo."""
    server = socket.create_server(("127.0.0.1", port))
    server.settimeout(0.05)
    done = threading.Event()

    def answer(plain: socket.socket) -> None:
        plain.settimeout(2)
        if who is None:
            plain.sendall(b"220 welcome\r\n")
            plain.recv(100)
            return
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.maximum_version = ssl.TLSVersion.TLSv1_3 if newest else ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations((trust or who).ca_path)
        context.load_cert_chain(who.cert_path, who.key_path)
        with context.wrap_socket(plain, server_side=True) as stream:
            stream.recv(1)

    def loop() -> None:
        while not done.is_set():
            try:
                plain, _ = server.accept()
            except TimeoutError:
                continue
            with plain:
                try:
                    answer(plain)
                except OSError:
                    continue

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield f"127.0.0.1:{server.getsockname()[1]}"
    finally:
        done.set()
        thread.join()
        server.close()


def free() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def member(who: Identity, address: str) -> Member:
    return Member(who.name, address, who.fingerprint)


def findings(
    me: Identity, *others: Member, relay: Member | None = None, **given: str
) -> dict[str, Finding]:
    listen = given.get("listen", free())
    own = member(me, given.get("address", "127.0.0.1:7447"))
    Path("roster.toml").write_text(Roster.of("trial", [own, *others], relay).dump())
    found = list(
        check_peer(me.folder, me.name, Path("roster.toml"), listen, lambda: "digits, 10 rows")
    )
    assert len({finding.what for finding in found}) == len(found)
    assert not any("\n" in finding.detail for finding in found)
    return {finding.what: finding for finding in found}


@pytest.fixture
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "SETTLE", 0.25)
    monkeypatch.setattr(reach, "TIMEOUT", 1.0)


hurried = pytest.mark.usefixtures("_hurried")


@hurried
def test_a_peer_in_order_finds_everything_good(me: Identity, ca: Path) -> None:
    you, relay = join(ca, "peer-01"), join(ca, "relay")
    with serving(you) as here, serving(relay) as there:
        found = findings(
            me, member(you, here), Member("peer-02", "", C), relay=member(relay, there)
        )
    assert [finding for finding in found.values() if not finding.good] == []
    order = [
        "keys",
        "roster",
        "entry",
        "address",
        "clock",
        "port",
        "reach peer-01",
        "reach peer-02",
        "reach relay",
        "data",
    ]
    assert list(found) == order
    assert found["reach peer-01"].detail.endswith("answers with the right name and key")
    assert "through the relay" in found["reach peer-02"].detail
    assert found["data"].detail == "digits, 10 rows"
    assert "renew" not in found["keys"].detail


@hurried
def test_everyone_who_is_not_as_the_roster_says_is_told_apart(
    me: Identity, ca: Path, other_ca: Path
) -> None:
    names = (
        "foreign",
        "late",
        "named",
        "rekeyed",
        "elsewhere",
        "closed",
        "lost",
        "plain",
        "picky",
        "picky-old",
    )
    who = {name: join(ca, name) for name in names}
    foreign, late = join(other_ca, "foreign"), join(ca, "late", days=AT_ONCE)
    impostor, elsewhere = join(ca, "rekeyed"), join(ca, "elsewhere", ("10.9.9.9",))
    with (
        serving(foreign, me) as at_foreign,
        serving(late) as at_late,
        serving(join(ca, "other")) as at_named,
        serving(impostor) as at_rekeyed,
        serving(elsewhere) as at_elsewhere,
        serving(None) as at_plain,
        serving(who["picky"], foreign) as at_picky,
        serving(who["picky-old"], foreign, newest=False) as at_picky_old,
    ):
        at = (
            at_foreign,
            at_late,
            at_named,
            at_rekeyed,
            at_elsewhere,
            free(),
            "no-such-host.invalid:1",
            at_plain,
            at_picky,
        )
        places = dict(zip(names, (*at, at_picky_old), strict=True))
        who["elsewhere"] = elsewhere
        found = findings(me, *(member(who[name], place) for name, place in places.items()))
    expected = {
        "foreign": "not reachable: its certificate is not from our CA",
        "late": "not reachable: its certificate has expired",
        "named": "name mismatch: 'other' answers there, not 'named'",
        "rekeyed": (
            f"fingerprint mismatch: it has {impostor.fingerprint}, the roster"
            f" {who['rekeyed'].fingerprint}"
        ),
        "elsewhere": "name mismatch: its certificate covers 10.9.9.9, not 127.0.0.1",
        "closed": "not reachable: refused",
        "lost": "not reachable: the host does not resolve",
        "plain": "not reachable: it does not speak TLS",
        "picky": "it refuses our certificate",
        "picky-old": "it refuses our certificate",
    }
    for name, message in expected.items():
        assert message in found[f"reach {name}"].detail, name
        assert not found[f"reach {name}"].good


@hurried
def test_who_does_not_answer_in_time_is_told_so(me: Identity) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        silent = Member("silent", f"127.0.0.1:{server.getsockname()[1]}", B)
        found = findings(me, silent)["reach silent"]
    assert "timed out" in found.detail
    assert not found.good


@hurried
def test_a_port_is_free_or_ours_or_somebody_elses_or_no_port(me: Identity, ca: Path) -> None:
    with serving(me) as here:
        running = findings(me, listen=here)["port"]
        everywhere = findings(me, listen=here.replace("127.0.0.1", "0.0.0.0"))["port"]
    assert running.good
    assert everywhere.good
    assert "peer-00 is already running" in running.detail
    assert "peer-00 is already running" in everywhere.detail
    for stranger in (None, join(ca, "peer-01")):
        with serving(stranger) as here:
            taken = findings(me, listen=here)["port"]
        assert not taken.good
        assert "used by another program" in taken.detail
    assert "is free" in findings(me, listen=here)["port"].detail
    assert "no address of this machine" in findings(me, listen="192.0.2.1:7447")["port"].detail
    assert "is not host:port" in findings(me, listen="7447")["port"].detail
    assert findings(me, listen="")["port"].good


def test_the_own_entry_must_have_our_key_and_an_address_that_the_certificate_covers(
    me: Identity,
) -> None:
    found = findings(me, address="10.1.1.1:7447")["address"]
    assert not found.good
    assert "covers only 127.0.0.1, localhost" in found.detail
    hidden = findings(me, address="")["address"]
    assert not hidden.good
    assert "no relay" in hidden.detail
    Path("roster.toml").write_text(Roster.of("trial", [Member("peer-00", "", C)]).dump())
    found = next(
        one
        for one in check_peer(me.folder, "peer-00", Path("roster.toml"), "", str)
        if one.what == "entry"
    )
    assert not found.good
    assert me.fingerprint in found.detail
    Path("roster.toml").write_text(Roster.of("trial", [Member("peer-01", "", C)]).dump())
    found = next(
        one
        for one in check_peer(me.folder, "peer-00", Path("roster.toml"), "", str)
        if one.what == "entry"
    )
    assert "unknown member 'peer-00'" in found.detail


def test_a_certificate_that_ends_soon_is_good_and_says_so(ca: Path) -> None:
    found = findings(join(ca, "peer-00", days=13))["keys"]
    assert found.good
    assert "only 12 days more; renew soon" in found.detail


def test_a_finding_does_not_keep_the_others_from_being_made(me: Identity) -> None:
    def no_data() -> str:
        raise DataError("there is none")

    me.cert_path.unlink()
    found = list(check_peer(me.folder, "peer-00", Path("absent.toml"), "", no_data))
    assert {finding.what: finding.good for finding in found} == {
        "keys": False,
        "roster": False,
        "clock": True,
        "port": True,
        "reach": False,
        "data": False,
    }
    assert found[-1].detail == "there is none"


def test_a_clock_before_the_certificate_is_told(
    me: Identity, ca: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_hand(me, ca, start=datetime.now(UTC) + timedelta(days=1))
    assert "is before the start of" in findings(me)["clock"].detail
    monkeypatch.setattr(check, "EARLIEST", datetime(2200, 1, 1, tzinfo=UTC))
    assert "set the clock" in findings(me)["clock"].detail


# --- command line

Amity = Callable[[str], str]


@pytest.fixture
def amity_ca() -> Amity:
    def run(line: str) -> str:
        result = CliRunner().invoke(app, line.split(), standalone_mode=False)
        if result.exception:
            raise result.exception
        return result.output

    return run


def test_an_authority_is_founded_and_signs_from_the_command_line(
    amity_ca: Amity, tmp_path: Path
) -> None:
    assert "ca/ca-key.pem (keep it secret" in amity_ca("init ca name=Trial days=100")
    make_key(tmp_path / "p", "peer-00", ["::1", "localhost"])
    text = amity_ca("sign ca p/request.pem name=peer-00 days=9.5")
    (tmp_path / "p" / "ca.pem").write_bytes((tmp_path / "ca" / "ca.pem").read_bytes())
    loaded = Identity.load(tmp_path / "p", "peer-00")
    assert f"fingerprint: {loaded.fingerprint}" in text
    entry = tomllib.loads(text[text.index("[[peer]]") :])["peer"][0]
    assert entry == {"name": "peer-00", "address": "[::1]:7447", "fingerprint": loaded.fingerprint}
    assert timedelta(days=9) < expires(loaded.cert_path) - datetime.now(UTC) < timedelta(days=9.5)
    amity_ca("sign ca p/request.pem name=peer-00 out=other.pem")
    assert expires(tmp_path / "other.pem") > expires(loaded.cert_path)
    for line, message in {
        "sign ca p/request.pem": "asks to be 'peer-00': add name=peer-00",
        "sign ca p/request.pem name=peer-00 days=soon": "days: expected a number",
        "sign ca p/request.pem name=peer-00 day=3": "unknown key 'day'",
    }.items():
        with pytest.raises(ConfigError, match=message):
            amity_ca(line)


def test_without_the_extra_the_commands_say_what_to_install(
    amity_ca: Amity, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [name for name in sys.modules if name.startswith(("amity.net", "cryptography"))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(amity, "net", amity.net)  # not the one that is imported in between
    monkeypatch.setitem(sys.modules, "cryptography", None)
    for line in ("init ca", "sign ca request.pem name=a"):
        with pytest.raises(ConfigError, match=r"pip install 'amity\[peers\]'"):
            amity_ca(line)
