"""A new peer's folder: key and request, peer.toml, roster.toml; by an invitation, also what the
others have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from amity.errors import IdentityError
from amity.files import write_atomically
from amity.net.trust.certs import make_key
from amity.net.trust.identity import CA, KEY, fingerprint_of, load_key, public_of
from amity.net.trust.invitation import SCHEMA, Invitation
from amity.net.trust.revoked import REVOKED, open_revoked
from amity.net.trust.roster import Member, Roster

TEMPLATE = """[peer]
name = "{name}"
listen = "{listen}"
roster = "roster.toml"
identity = "identity"
state = "state"
# classes = ["a", "b"]     # the same list at every member, if somebody may lack a class
metrics = 9464             # http://127.0.0.1:9464/metrics; 0: none
# sinks = ["rounds", "jsonl"]   # who is told what happens here; `amity list sinks`

[net]
deadline = 60              # seconds that a round waits for the others' cards
patience = 30              # seconds that an answer may take
# least = 1                # neighbours that must be present, or a round waits; 0: go on alone

[run]                      # keys of `amity run`; model, strategy and seed as at all members
data = "digits"            # yours: "scans.npz", a folder of images, or a table, as in these lines:
# data = "table.csv"             # beside this file; columns are found by name, in any order
# data.label = "diagnosis"       # the column of the classes
# data.drop = "patient_id,note"  # columns that are no inputs
# data.missing = "median"        # or "indicator"; holes are refused unless you say what to do
# data.dates = "days"            # dates as days since 1970
# data.schema = "schema.toml"    # in place of the last two: the file that all members agree on,
#                                # `amity data schema`; `amity data check` shows what is wrong
strategy = "friends"
rounds = 100               # raised later, the peer goes on
# changes = "from=50 train.lr=0.01"   # planned; the same at all members
# eval.shadow = 1          # also train a shadow that learns from nobody: does collaboration help?
"""
INVITED = """# Made from an invitation: [run] is what all members have in common. Say where your
# data lies: path = "table.csv" under [run.data], or data = "scans.npz" under [run].

"""


@dataclass(frozen=True, kw_only=True)
class Newcomer:
    """Who is about to be a member."""

    name: str
    hosts: Sequence[str]
    port: int
    """0: behind NAT."""

    @property
    def address(self) -> str:
        host = f"[{self.hosts[0]}]" if ":" in self.hosts[0] else self.hosts[0]
        return f"{host}:{self.port}" if self.port else ""

    def settle(self, folder: Path, roster: Roster, invited: Invitation | None = None) -> str:
        """Make its folder; what is there already is kept. Returns the fingerprint of its key."""
        if self.name in {member.name for member in roster.everyone}:
            raise IdentityError(
                f"name: {self.name} is a member of {roster.network} already; choose another"
            )
        make_key(folder / "identity", self.name, self.hosts, self.port)
        fingerprint = fingerprint_of(public_of(load_key(folder / "identity" / KEY)))
        me = Member(self.name, self.address, fingerprint)
        files = {"roster.toml": roster.with_member(me).dump(), "peer.toml": self._peer(invited)}
        if invited is not None:
            files |= {f"identity/{CA}": invited.authority, SCHEMA: invited.schema}
        for file, text in files.items():
            if text and not (folder / file).exists():
                write_atomically(folder / file, text.encode())
        if invited is not None and invited.revoked:
            signed, ca = invited.revoked.encode(), folder / "identity" / CA
            open_revoked(signed, ca, "the invitation's list of revoked members")
            write_atomically(folder / REVOKED, signed)
        return fingerprint

    def _peer(self, invited: Invitation | None) -> str:
        """peer.toml."""
        if invited is None or not invited.terms:
            return TEMPLATE.format(name=self.name, listen=self.address)
        mine = {"name": self.name, "listen": self.address, "roster": "roster.toml"}
        table = {section: dict(invited.terms.get(section, {})) for section in ("net", "run")}
        peer: Mapping[str, Any] = {**mine, **invited.terms.get("peer", {})}
        return INVITED + tomli_w.dumps({"peer": peer, **table})
