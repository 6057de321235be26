"""Who takes part: the one list that all members of a network share.

A certificate only says that the authority knows a peer; the roster says that it belongs to this
network and with which key. A roster may leave that to the authority (`members = "any-signed"`):
then whoever has its certificate is a member, once it has shown it (`passes.py`), and those who are
listed are dialled first.
"""

from __future__ import annotations

import ipaddress
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import tomli_w

from amity.errors import IdentityError, brief, unknown

NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
FINGERPRINT = re.compile(r"[0-9a-f]{64}")
LISTED, ANY_SIGNED = "listed", "any-signed"
"""Who are the members: those who are listed, or whoever has a certificate of the authority."""
_ADDRESS = re.compile(r"(?:\[([^\[\]]+)\]|([^\[\]:]+)):([1-9][0-9]{0,4})")
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_DNS = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")


def check_name(name: str, what: str = "name") -> str:
    """Names become keys of the network and common names of certificates: no separators, no
    wildcards, one spelling."""
    if not NAME.fullmatch(name):
        raise IdentityError(
            f"{what}: {name!r} is no name; use 1 to 63 of a-z, 0-9 and -, not at the ends, such as"
            " peer-00"
        )
    return name


def check_host(host: str) -> str:
    """The one spelling of a host: an IP address in its short form, or a DNS name in lower case."""
    try:
        if "%" not in host:
            return str(ipaddress.ip_address(host))
    except ValueError:
        numeric = host.rpartition(".")[2].isdigit()
        if _DNS.fullmatch(host) and len(host) <= 253 and not numeric:
            return host.lower()
    raise IdentityError(
        f"{host!r} is no host; expected an IP address or a DNS name, such as 10.0.0.1 or"
        " peer.example.org"
    )


def split_address(address: str) -> tuple[str, int]:
    """Host and port of "host:port" or "[v6]:port"."""
    match = _ADDRESS.fullmatch(address)
    if match is None or int(match[3]) > 65535:
        raise IdentityError(
            f"address {address!r} is not host:port; expected such as 10.0.0.1:7447 or"
            " [fd00::1]:7447"
        )
    host = check_host(match[1] or match[2])
    if bool(match[1]) != (":" in host):
        raise IdentityError(f"address {address!r}: brackets are for IPv6, such as [fd00::1]:7447")
    return host, int(match[3])


@dataclass(frozen=True)
class Member:
    """One of us. Without an address it cannot be dialled and is reached through the relay alone."""

    name: str
    address: str
    fingerprint: str

    def __post_init__(self) -> None:
        check_name(self.name)
        if not FINGERPRINT.fullmatch(self.fingerprint):
            raise IdentityError(
                f"fingerprint of {self.name}: {self.fingerprint!r} is not 64 hex digits in lower"
                " case; copy the one that `amity ca sign` shows"
            )
        if self.address and split_address(self.address)[0] in ("0.0.0.0", "::"):  # noqa: S104
            raise IdentityError(
                f"address of {self.name}: {self.address} cannot be dialled; give the host by which"
                " others know this peer"
            )


@dataclass(frozen=True)
class Roster:
    """A network and its members, by name; nothing in it is double."""

    network: str
    members: Mapping[str, Member]
    relay: Member | None = None
    any_signed: bool = False
    """Whether the authority's signature suffices to be a member."""
    first: frozenset[str] = frozenset()
    """Whom I dial first, where others are found: those whom the file lists."""

    def __post_init__(self) -> None:
        check_name(self.network, "network")
        object.__setattr__(
            self, "members", {name: self.members[name] for name in sorted(self.members)}
        )
        if self.relay and not self.relay.address:
            raise IdentityError("relay: has no address; others must be able to dial it")
        _refuse_doubles("name", ((member.name, member) for member in self.everyone))
        _refuse_doubles("fingerprint", ((member.fingerprint, member) for member in self.everyone))
        _refuse_doubles(
            "address", ((split_address(m.address), m) for m in self.everyone if m.address)
        )

    @classmethod
    def of(
        cls,
        network: str,
        members: Iterable[Member],
        relay: Member | None = None,
        any_signed: bool = False,
    ) -> Roster:
        """From a list, which unlike a mapping can hold a name twice."""
        members = list(members)
        _refuse_doubles("name", ((member.name, member) for member in members))
        by_name = {member.name: member for member in members}
        return cls(network, by_name, relay, any_signed, frozenset(by_name if any_signed else ()))

    @classmethod
    def load(cls, path: Path) -> Roster:
        try:
            return roster_of(tomllib.loads(path.read_text(encoding="utf-8")))
        except OSError as error:
            raise IdentityError(
                f"{path}: cannot be read ({error.strerror}); a roster is a file that all members"
                " share"
            ) from None
        except (ValueError, RecursionError) as error:
            raise IdentityError(f"{path}: is not valid TOML ({brief(error)})") from None
        except IdentityError as error:
            raise IdentityError(f"{path}: {error}") from None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.members)

    @property
    def everyone(self) -> tuple[Member, ...]:
        """The members, and the relay at the end."""
        return (*self.members.values(), *([self.relay] if self.relay else []))

    def find(self, name: str) -> Member:
        """A member or the relay."""
        for member in self.everyone:
            if member.name == name:
                return member
        raise IdentityError(unknown("member", name, (member.name for member in self.everyone)))

    def with_member(self, member: Member) -> Roster:
        """With one more, or with a new entry for a name that is there already."""
        return replace(self, members={**self.members, member.name: member})

    def without(self, name: str) -> Roster:
        if name not in self.members:
            raise IdentityError(unknown("member", name, self.members))
        return replace(
            self, members={key: member for key, member in self.members.items() if key != name}
        )

    def dump(self) -> str:
        out: dict[str, Any] = {"network": self.network}
        if self.any_signed:
            out["members"] = ANY_SIGNED
        if self.relay:
            out["relay"] = asdict(self.relay)
        if self.members:
            out["peer"] = [asdict(member) for member in self.members.values()]
        return tomli_w.dumps(out)


def _refuse_doubles(what: str, keyed: Iterable[tuple[object, Member]]) -> None:
    seen: dict[object, Member] = {}
    for key, member in keyed:
        if key in seen:
            value = getattr(member, what)
            raise IdentityError(
                f"{what} {value} is there twice ({seen[key].name}, {member.name}); each member"
                " needs its own"
            )
        seen[key] = member


def roster_of(table: Mapping[str, Any]) -> Roster:
    """From what a file says."""
    _refuse_unknown("roster", table, ("network", "members", "relay", "peer"))
    network, peers, relay = table.get("network"), table.get("peer", []), table.get("relay")
    if not isinstance(network, str):
        raise IdentityError('network: expected a name, such as network = "trial" in the first line')
    if not isinstance(peers, list):
        raise IdentityError("peer: expected [[peer]] above each entry")
    members = [_member(f"[[peer]] number {at}", entry) for at, entry in enumerate(peers, 1)]
    any_signed = is_any_signed(table.get("members", LISTED))
    relayed = None if relay is None else _member("[relay]", relay)
    return Roster.of(network, members, relayed, any_signed)


def is_any_signed(word: object) -> bool:
    """What `members` says."""
    if word not in (LISTED, ANY_SIGNED):
        raise IdentityError(
            f'members: expected "{LISTED}" (those with a [[peer]] entry) or "{ANY_SIGNED}" (whoever'
            f" has a certificate of the authority), got {word!r}"
        )
    return word == ANY_SIGNED


def _member(where: str, entry: object) -> Member:
    if not isinstance(entry, dict):
        raise IdentityError(f"{where}: expected a table with name, address and fingerprint")
    keys = [field.name for field in fields(Member)]
    where = f"{where} ({entry['name']})" if isinstance(entry.get("name"), str) else where
    _refuse_unknown(where, entry, keys)
    for key in keys:
        if not isinstance(entry.get(key), str):
            hint = (
                ' (address = "" for a peer that only reaches the relay)' if key == "address" else ""
            )
            raise IdentityError(f'{where}: needs {key} = "..."{hint}')
    try:
        return Member(**entry)
    except IdentityError as error:
        raise IdentityError(f"{where}: {error}") from None


def _refuse_unknown(where: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
    for key in sorted(table.keys() - set(known)):
        raise IdentityError(f"{where}: {unknown('key', key, known)}")
