"""Before a peer starts: everything that would otherwise fail later, silently or on another machine.

The network tells refused certificates, wrong names and closed ports apart for nobody; here each has
its own sentence.
"""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509

from amity.errors import AmityError, IdentityError, brief
from amity.net.trust.identity import (
    Identity,
    common_name,
    fingerprint_of,
    hosts_of,
    load_certificates,
    public_of,
    renewal,
)
from amity.net.trust.roster import Member, Roster, split_address

TIMEOUT = 3.0
SETTLE = 0.7
"""With TLS 1.3 a server judges our certificate after our handshake is done: silence for so long
means that it took it."""
SOON = timedelta(days=14)
EARLIEST = datetime(2026, 1, 1, tzinfo=UTC)
"""Older than this program: no clock that says so is right."""
PARALLEL = 64
_EXPIRED, _TOO_EARLY = 10, 9  # of OpenSSL's X509_V_ERR_*
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    what: str
    good: bool
    detail: str


def check_peer(
    identity_folder: Path, name: str, roster_path: Path, listen: str, load_data: Callable[[], str]
) -> Iterator[Finding]:
    """All findings, as they come. A finding that is not good does not keep the others from being
    made."""
    identity: Identity | None = None
    roster: Roster | None = None
    try:
        identity = Identity.load(identity_folder, name)
        yield _expiry(identity)
    except AmityError as error:
        yield Finding("keys", False, str(error))
    try:
        roster = Roster.load(roster_path)
        yield Finding("roster", True, f"network {roster.network}, {len(roster.members)} members")
    except AmityError as error:
        yield Finding("roster", False, str(error))
    if identity and roster:
        yield from _entry(identity, roster, roster_path)
    yield _clock(identity_folder)
    yield _port(identity, listen)
    if identity and roster:
        yield from _reach(identity, roster)
    else:
        yield Finding("reach", False, "not tried, because keys or roster are not in order")
    yield _data(load_data)


def _expiry(identity: Identity) -> Finding:
    end = load_certificates(identity.cert_path)[0].not_valid_after_utc
    left = end - datetime.now(UTC)
    until = f"valid until {end:%Y-%m-%d %H:%M} UTC"
    if left < SOON:
        until += f", only {left.days} days more; renew soon: {renewal(identity.folder)}"
    return Finding("keys", True, f"{identity.name}, fingerprint {identity.fingerprint}, {until}")


def _entry(identity: Identity, roster: Roster, path: Path) -> Iterator[Finding]:
    """Our own entry in the roster, as the others read it."""
    try:
        own = roster.find(identity.name)
    except IdentityError as error:
        yield Finding(
            "entry", False, f"{path}: {error}; add an entry with fingerprint {identity.fingerprint}"
        )
        return
    same = own.fingerprint == identity.fingerprint
    wrong = (
        f"{path}: says fingerprint {own.fingerprint}, but our key has {identity.fingerprint};"
        " correct the roster"
    )
    yield Finding("entry", same, "our fingerprint is in the roster" if same else wrong)
    if not own.address:
        yield _hidden("address", own, roster)
        return
    host, hosts = split_address(own.address)[0], hosts_of(load_certificates(identity.cert_path)[0])
    covered = f"others dial {own.address}, which the certificate covers"
    missing = (
        f"others dial {host}, but the certificate covers only {', '.join(hosts) or 'no host'};"
        f" {renewal(identity.folder)}"
    )
    yield Finding("address", host in hosts, covered if host in hosts else missing)


def _hidden(what: str, member: Member, roster: Roster) -> Finding:
    if roster.relay:
        return Finding(
            what,
            True,
            f"{member.name} has no address and is reached through the relay {roster.relay.address}",
        )
    return Finding(
        what,
        False,
        f"{member.name} has no address and the roster has no relay; add an address or a [relay]",
    )


def _clock(folder: Path) -> Finding:
    now = datetime.now(UTC)
    starts = [("the release of this program", EARLIEST)]
    for file in ("ca.pem", "cert.pem"):
        try:
            starts.append(
                (
                    f"the start of {folder / file}",
                    load_certificates(folder / file)[0].not_valid_before_utc,
                )
            )
        except IdentityError:
            continue  # which is a finding of the keys already
    for what, start in starts:
        if now < start:
            return Finding(
                "clock",
                False,
                f"{now:%Y-%m-%d %H:%M} UTC is before {what}, {start:%Y-%m-%d %H:%M}; set the clock",
            )
    return Finding("clock", True, f"{now:%Y-%m-%d %H:%M:%S} UTC")


def _port(identity: Identity | None, listen: str) -> Finding:
    if not listen:
        return Finding("port", True, "does not listen: others reach this peer through the relay")
    try:
        host, port = split_address(listen)
        _bind(host, port)
    except IdentityError as error:
        return Finding("port", False, str(error))
    except socket.gaierror:
        return Finding(
            "port",
            False,
            f"{listen}: the host does not resolve; listen on an address of this machine",
        )
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return _taken(identity, listen)
        hint = {
            errno.EADDRNOTAVAIL: "is no address of this machine",
            errno.EACCES: "needs a port above 1023",
        }
        what = hint.get(error.errno or 0, f"cannot be listened on ({error.strerror})")
        return Finding("port", False, f"{listen}: {what}; listen on another address")
    return Finding("port", True, f"{listen} is free")


def _bind(host: str, port: int) -> None:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as server:
        # as the network does: old connections do not count
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(address)


def _taken(identity: Identity | None, listen: str) -> Finding:
    host, port = split_address(listen)
    try:
        if (
            identity
            and _print(_meet(identity, _ANYWHERE.get(host, host), port, ssl.CERT_NONE)[0])
            == identity.fingerprint
        ):
            return Finding(
                "port",
                True,
                f"{listen}: {identity.name} is already running here; stop it before another start",
            )
    except (OSError, ValueError):
        pass  # who does not speak as we do is a stranger
    return Finding(
        "port", False, f"{listen}: is used by another program; stop it or listen on another port"
    )


def _reach(identity: Identity, roster: Roster) -> Iterator[Finding]:
    """Everybody else at once, told in the order of the roster."""
    others = [member for member in roster.everyone if member.name != identity.name]
    if not others:
        yield Finding("reach", True, "nobody else is in the roster")
        return
    with ThreadPoolExecutor(min(PARALLEL, len(others))) as pool:
        yield from pool.map(lambda member: _visit(identity, roster, member), others)


def _visit(identity: Identity, roster: Roster, member: Member) -> Finding:
    what = f"reach {member.name}"
    if not member.address:
        return _hidden(what, member, roster)
    host, port = split_address(member.address)
    try:
        certificate, took_ours = _meet(identity, host, port, ssl.CERT_REQUIRED)
    except OSError as error:
        return Finding(what, False, f"{member.address}: not reachable: {_why(error)}")
    refusal = (
        ""
        if took_ours
        else "it refuses our certificate; is its ca.pem the same as ours, and its clock right?"
    )
    wrong = _mismatch(certificate, member, host) or refusal
    return Finding(
        what, not wrong, f"{member.address}: {wrong or 'answers with the right name and key'}"
    )


def _meet(
    identity: Identity, host: str, port: int, trust: ssl.VerifyMode
) -> tuple[x509.Certificate, bool]:
    """Who answers to a TLS handshake with our certificate, and whether it took ours. Names are for
    the caller to compare."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = trust
    context.load_verify_locations(identity.ca_path)
    context.load_cert_chain(identity.cert_path, identity.key_path)
    with (
        socket.create_connection((host, port), TIMEOUT) as plain,
        context.wrap_socket(plain, server_hostname=host) as stream,
    ):
        certificate = x509.load_der_x509_certificate(stream.getpeercert(binary_form=True) or b"")
        return certificate, _took(stream)


def _took(stream: ssl.SSLSocket) -> bool:
    stream.settimeout(SETTLE)
    try:
        return stream.recv(1) != b""
    except TimeoutError:
        return True
    except OSError:
        return False


def _print(certificate: x509.Certificate) -> str:
    return fingerprint_of(public_of(certificate))


def _mismatch(certificate: x509.Certificate, member: Member, host: str) -> str:
    name, hosts, fingerprint = (
        common_name(certificate.subject),
        hosts_of(certificate),
        _print(certificate),
    )
    if name != member.name:
        return (
            f"name mismatch: {name!r} answers there, not {member.name!r}; correct the address in"
            " the roster"
        )
    if host not in hosts:
        return (
            f"name mismatch: its certificate covers {', '.join(hosts) or 'no host'}, not {host}; it"
            " must renew with it"
        )
    if fingerprint != member.fingerprint:
        return (
            f"fingerprint mismatch: it has {fingerprint}, the roster {member.fingerprint}; ask its"
            " owner which is right"
        )
    return ""


def _why(error: OSError) -> str:
    """What went wrong, and who can do something about it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        renew = {
            _EXPIRED: "its certificate has expired; it must renew",
            _TOO_EARLY: "its certificate is not valid yet; compare clocks",
        }
        return renew.get(
            error.verify_code,
            f"its certificate is not from our CA ({error.verify_message}); compare ca.pem",
        )
    if isinstance(error, ssl.SSLError):
        refused = "ALERT" in (error.reason or "")
        return (
            f"it {'refuses our certificate' if refused else 'does not speak TLS there'}"
            f" ({brief(error)})"
        )
    if isinstance(error, socket.gaierror):
        return "the host does not resolve; correct the address in the roster or the DNS"
    if isinstance(error, ConnectionRefusedError):
        return "refused: nothing listens there; is that peer running?"
    if isinstance(error, TimeoutError):
        return (
            f"timed out after {TIMEOUT:.0f} s; is the machine up, and does a firewall drop the"
            " port?"
        )
    return brief(error)


def _data(load_data: Callable[[], str]) -> Finding:
    try:
        return Finding("data", True, load_data())
    except AmityError as error:
        return Finding("data", False, str(error))
