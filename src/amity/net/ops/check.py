"""Before a peer starts: everything that would otherwise fail later, silently or on another machine.

The network tells refused certificates, wrong names and closed ports apart for nobody; here each has
its own sentence.
"""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from amity.errors import AmityError, IdentityError
from amity.net.ops.reach import Finding, hidden, meet, print_of, reach
from amity.net.trust.identity import Identity, hosts_of, load_certificates, renewal
from amity.net.trust.passes import enrolled, my_entry
from amity.net.trust.roster import Roster, split_address

SOON = timedelta(days=14)
EARLIEST = datetime(2026, 1, 1, tzinfo=UTC)
"""Older than this program: no clock that says so is right."""
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


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
        listed = f"{len(roster.members)} {'dialled first' if roster.any_signed else 'members'}"
        whoever = ", whoever is signed is a member" * roster.any_signed
        yield Finding("roster", True, f"network {roster.network}{whoever}, {listed}")
    except AmityError as error:
        yield Finding("roster", False, str(error))
    if identity and roster:
        if roster.any_signed:
            roster = enrolled(roster, {}, my_entry(identity, roster, listen), None)
        yield from _entry(identity, roster, roster_path)
    yield _clock(identity_folder)
    yield _port(identity, listen)
    if identity and roster:
        yield from reach(identity, roster)
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
        yield hidden("address", own, roster)
        return
    host, hosts = split_address(own.address)[0], hosts_of(load_certificates(identity.cert_path)[0])
    covered = f"others dial {own.address}, which the certificate covers"
    missing = (
        f"others dial {host}, but the certificate covers only {', '.join(hosts) or 'no host'};"
        f" {renewal(identity.folder)}"
    )
    yield Finding("address", host in hosts, covered if host in hosts else missing)


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
            and print_of(meet(identity, _ANYWHERE.get(host, host), port, ssl.CERT_NONE)[0])
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


def _data(load_data: Callable[[], str]) -> Finding:
    try:
        return Finding("data", True, load_data())
    except AmityError as error:
        return Finding("data", False, str(error))
