"""`amity ca`: the authority that decides who takes part in a network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from amity.cli.common import Keys
from amity.console import say
from amity.errors import ConfigError, needs_peers
from amity.files import write_atomically

app = typer.Typer(
    no_args_is_help=True, help="Certificates: found an authority, and sign those who take part."
)
Folder = Annotated[
    Path,
    typer.Argument(metavar="DIR", help="The folder of the authority; its key never leaves it."),
]
RequestFile = Annotated[
    Path,
    typer.Argument(metavar="REQUEST.pem", help="What a peer sent: its name, hosts and public key."),
]
DEFAULT_PORT = 7447
MemberName = Annotated[str, typer.Argument(metavar="NAME", help="Who shall be none any more.")]


def _days(values: dict[str, str], default: float) -> float:
    try:
        return float(values.get("days", default))
    except ValueError:
        raise ConfigError(f"days: expected a number, got {values['days']!r}") from None


@app.command("init")
def init(folder: Folder, words: Keys = None) -> None:
    """Found an authority: a key that stays here, and ca.pem for every member. Own keys: name=,
    days=3650."""
    from amity.config import only

    with needs_peers():
        from amity.net.trust.certs import CA_KEY, ca_init
        from amity.net.trust.identity import CA, expires
    values = only(words or [], "name", "days")
    ca_init(folder, values.get("name", "Amity CA"), _days(values, 3650))
    say(f"key:         {folder / CA_KEY} (keep it secret, and keep a copy)")
    say(
        f"certificate: {folder / CA}, for every member; valid until {expires(folder / CA):%Y-%m-%d}"
    )


@app.command("sign")
def sign(folder: Folder, request: RequestFile, words: Keys = None) -> None:
    """Sign a peer's request. Own keys: name=PEER (who you know sent it), days=90, out=FILE (default
    cert.pem beside it)."""
    from amity.config import only

    with needs_peers():
        from amity.net.trust.certs import asked_port, ca_sign, load_request
        from amity.net.trust.identity import (
            CA,
            CERT,
            common_name,
            expires,
            hosts_of,
            load_certificates,
        )
    values = only(words or [], "name", "days", "out")
    if "name" not in values:
        asks = common_name(load_request(request).subject)
        raise ConfigError(
            f"name: is missing; {request} asks to be {asks!r}: add name={asks} if that is who"
            " sent it"
        )
    out = Path(values["out"]) if "out" in values else request.with_name(CERT)
    fingerprint = ca_sign(folder, request, out, values["name"], _days(values, 90))
    hosts = hosts_of(load_certificates(out)[0])
    say(f"certificate: {out}, to be sent back together with {folder / CA}")
    say(f"hosts:       {', '.join(hosts)}; valid until {expires(out):%Y-%m-%d %H:%M} UTC")
    say(f"fingerprint: {fingerprint}")
    port = asked_port(request)
    say(f"in roster.toml, where members are listed{'' if port else ', with its port'}:\n")
    say(_entry(values["name"], hosts[0], DEFAULT_PORT if port is None else port, fingerprint))


@app.command("revoke")
def revoke(folder: Folder, name: MemberName, words: Keys = None) -> None:
    """Take a member out of the network: a signed list that members pass on. Own keys:
    roster=FILE (which tells its key and the network), peer=DIR (of a peer that knows it), or
    fingerprint= and network=."""
    from amity.config import only

    with needs_peers():
        from amity.net.membership import known_to
        from amity.net.trust.certs import CA_KEY
        from amity.net.trust.identity import CA, load_key
        from amity.net.trust.revoked import REVOKED
        from amity.net.trust.revoked import revoke as put_down
        from amity.net.trust.roster import Roster
    values = only(words or [], "roster", "peer", "fingerprint", "network")
    if "roster" in values or "peer" in values:
        known = Path(values["peer"]) if "peer" in values else None
        roster = Roster.load(Path(values["roster"])) if known is None else known_to(known)
        values |= {"fingerprint": roster.find(name).fingerprint, "network": roster.network}
    for key in ("fingerprint", "network"):
        if not values.get(key):
            raise ConfigError(
                f"{key}: is missing; give roster=FILE, peer=DIR, or fingerprint= and network="
            )
    found = put_down(
        folder / REVOKED,
        load_key(folder / CA_KEY),
        folder / CA,
        network=values["network"],
        name=name,
        fingerprint=values["fingerprint"],
    )
    revoked = ", ".join(sorted(found.keys.values()))
    say(f"list:    {folder / REVOKED}, number {found.number}: {revoked}")
    say("put it beside peer.toml at any member that runs: it tells the others, and all refuse")
    say(f"{name} from then on, also after a restart. Keep the list: the next one goes on from it")


@app.command("invite")
def invite(folder: Folder, words: Keys = None) -> None:
    """One file for a new member: the authority's certificate, whom to dial first, who is revoked,
    and what all members have in common. Own keys: roster=FILE, terms=FILE (a member's peer.toml),
    out=invitation.toml."""
    from amity.config import only

    with needs_peers():
        from amity.net.trust.certs import CA_KEY
        from amity.net.trust.identity import CA, load_key
        from amity.net.trust.invitation import INVITATION, Invitation, terms_of
        from amity.net.trust.revoked import REVOKED, newest_revoked
        from amity.net.trust.roster import Roster
    values = only(words or [], "roster", "terms", "out")
    if "roster" not in values:
        raise ConfigError(
            "roster: is missing; give a member's, such as roster=hospital-a/roster.toml"
        )
    roster, ca = Roster.load(Path(values["roster"])), folder / CA
    terms, schema = terms_of(Path(values["terms"])) if "terms" in values else ({}, "")
    revoked = newest_revoked([folder / REVOKED], ca, roster.network)
    roster = roster if revoked is None else revoked.strike(roster)
    if not any(member.address for member in roster.everyone):
        raise ConfigError(
            f"{values['roster']}: nobody on it can be dialled; list a member's address"
        )
    signed = "" if revoked is None else revoked.signed.decode()
    found = Invitation(ca.read_text(), roster, signed, schema, terms)
    out = Path(values.get("out", INVITATION))
    write_atomically(out, found.sign(load_key(folder / CA_KEY)))
    say(f"invitation:  {out}, to the network {roster.network}; it holds no secret")
    say(f"dial first:  {', '.join(m.name for m in roster.everyone if m.address)}")
    say(f"authority:   {found.fingerprint}: tell it by telephone")
    say(f"there:       amity peer init DIR name=NAME host=HOST invitation={out.name}")
    if not roster.any_signed:
        say('each new member must be added to all rosters: they do not say members = "any-signed"')


def _entry(name: str, host: str, port: int, fingerprint: str) -> str:
    address = (f"[{host}]:{port}" if ":" in host else f"{host}:{port}") if port else ""
    return f'[[peer]]\nname = "{name}"\naddress = "{address}"\nfingerprint = "{fingerprint}"'
