"""Can the others be reached, and are they who the roster says? A handshake with each tells."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from cryptography import x509

from amity.errors import brief
from amity.net.trust.identity import Identity, common_name, fingerprint_of, hosts_of, public_of
from amity.net.trust.roster import Member, Roster, split_address

TIMEOUT = 3.0
SETTLE = 0.7
"""With TLS 1.3 a server judges our certificate after our handshake is done: silence for so long
means that it took it."""
PARALLEL = 64
_EXPIRED, _TOO_EARLY = 10, 9  # of OpenSSL's X509_V_ERR_*


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    what: str
    good: bool
    detail: str


def hidden(what: str, member: Member, roster: Roster) -> Finding:
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


def reach(identity: Identity, roster: Roster) -> Iterator[Finding]:
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
        return hidden(what, member, roster)
    host, port = split_address(member.address)
    try:
        certificate, took_ours = meet(identity, host, port, ssl.CERT_REQUIRED)
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


def meet(
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


def print_of(certificate: x509.Certificate) -> str:
    return fingerprint_of(public_of(certificate))


def _mismatch(certificate: x509.Certificate, member: Member, host: str) -> str:
    name, hosts, fingerprint = (
        common_name(certificate.subject),
        hosts_of(certificate),
        print_of(certificate),
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
