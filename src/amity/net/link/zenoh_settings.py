"""Zenoh's own config: whom to dial, TLS with certificates on both sides, and who may say what.

Zenoh's access control lets a certificate's name publish only below its own name and ask only in its
own name:

    amity/NETWORK/OWNER/card              put by OWNER
    amity/NETWORK/OWNER/live              liveliness token of OWNER
    amity/NETWORK/OWNER/rpc/ASKER/METHOD  queries, by ASKER only
    amity/NETWORK/OWNER/door/ASKER        queries by anybody whom the authority signed, where that
                                          suffices: ASKER shows its pass, OWNER its own
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from amity.net.trust.identity import Identity
from amity.net.trust.roster import Member, Roster

LARGEST_MESSAGE = 4 << 20
"""Bytes of one message on a link; models travel in chunks, so nothing honest is longer."""
HEARD = [
    *("put", "delete", "reply", "query", "declare_queryable", "declare_subscriber"),
    *("liveliness_token", "liveliness_query", "declare_liveliness_subscriber"),
]
SAID = ["put", "delete", "reply", "declare_queryable", "liveliness_token"]
SHOWN = ["query", "reply", "declare_queryable"]
ANYBODY = "*"
"""No name: whoever has a link has a certificate of the authority."""
FOLLOW = ["declare_subscriber", "declare_liveliness_subscriber", "liveliness_query"]


def settings(identity: Identity, roster: Roster, listen: str, lease: float) -> dict[str, Any]:
    """Zenoh's own config. Everyone dials every member that stands before it in the roster (links
    that are only learnt by gossip are never dialled again), those whom it must dial first, and the
    relay; a peer that nobody can dial is a client of the relay."""
    direct = [
        member.address
        for name, member in roster.members.items()
        if member.address and name != identity.name
        if name < identity.name or name in roster.first
    ]
    relay = [roster.relay.address] if roster.relay and roster.relay.name != identity.name else []
    hidden = not listen
    return {
        "mode": "client" if hidden else "peer",
        "listen": {"endpoints": [] if hidden else [f"tls/{listen}"]},
        "connect": dialling(relay if hidden else direct + relay),
        "scouting": {"multicast": {"enabled": False}, "gossip": {"enabled": False}, "delay": 0},
        "transport": transport(identity, lease),
        "access_control": access(roster, f"amity/{roster.network}"),
    }


def listening(
    identity: Identity, roster: Roster, listen: str, lease: float, most: int
) -> dict[str, Any]:
    """Of a session that dials nobody, and takes so many links from others."""
    config = settings(identity, roster, listen, lease)
    config["transport"]["unicast"] = {"max_sessions": most}
    return config | {"connect": dialling([])}


def calling(identity: Identity, roster: Roster, member: Member, lease: float) -> dict[str, Any]:
    """Of a session for one member alone: whoever else answers there may say nothing. It is a peer
    and no client, for whom the other would pass on what its neighbours say."""
    two = replace(roster, members={member.name: member}, relay=None, first=frozenset())
    config = settings(identity, two, "", lease)
    return config | {"mode": "peer", "connect": dialling([member.address])}


def dialling(addresses: list[str]) -> dict[str, Any]:
    return {
        "endpoints": [f"tls/{address}" for address in addresses],
        "timeout_ms": -1,
        "exit_on_failure": False,
        "retry": {"period_init_ms": 200, "period_max_ms": 1000, "period_increase_factor": 2},
    }


def transport(identity: Identity, lease: float) -> dict[str, Any]:
    key, cert, ca = (
        str(Path(path).resolve())
        for path in (identity.key_path, identity.cert_path, identity.ca_path)
    )
    return {
        "link": {
            "protocols": ["tls"],
            "tx": {"lease": int(lease * 1000), "keep_alive": 4},
            "rx": {"max_message_size": LARGEST_MESSAGE},
            "tls": {
                "root_ca_certificate": ca,
                "enable_mtls": True,
                "verify_name_on_connect": True,
                "listen_private_key": key,
                "listen_certificate": cert,
                "connect_private_key": key,
                "connect_certificate": cert,
                "close_link_on_expiration": True,
            },
        },
        "shared_memory": {"enabled": False},
    }


def access(roster: Roster, root: str) -> dict[str, Any]:
    """Default: nothing. Each name on the roster may speak below its own name and ask in its own
    name; a relay passes on what others said, so its word is worth what their signatures are
    worth."""
    granted = {name: _member(name, root) for name in roster.names}
    if roster.relay is not None:
        granted[roster.relay.name] = _relay(roster.relay.name, root)
    subjects = [{"id": name, "cert_common_names": [name]} for name in granted]
    if roster.any_signed:
        granted[ANYBODY] = _door(root)
        subjects.append({"id": ANYBODY})
    return {
        "enabled": True,
        "default_permission": "deny",
        "rules": [rule for rules in granted.values() for rule in rules],
        "subjects": subjects,
        "policies": [
            {"rules": [rule["id"] for rule in rules], "subjects": [name]}
            for name, rules in granted.items()
        ],
    }


def _allow(id: str, flow: str, keys: list[str], messages: list[str]) -> dict[str, Any]:
    return {
        "id": id,
        "permission": "allow",
        "flows": [flow],
        "key_exprs": keys,
        "messages": messages,
    }


def _member(name: str, root: str) -> list[dict[str, Any]]:
    return [
        _allow(f"own-{name}", "ingress", [f"{root}/{name}/**"], SAID),
        _allow(
            f"ask-{name}",
            "ingress",
            [f"{root}/*/rpc/{name}/**", f"{root}/*/door/{name}"],
            ["query"],
        ),
        _allow(f"follow-{name}", "ingress", [f"{root}/*/card", f"{root}/*/live"], FOLLOW),
        _allow(f"out-{name}", "egress", [f"{root}/**"], HEARD),
    ]


def _relay(name: str, root: str) -> list[dict[str, Any]]:
    return [
        _allow(f"relay-{flow}-{name}", flow, [f"{root}/**"], HEARD)
        for flow in ("ingress", "egress")
    ]


def _door(root: str) -> list[dict[str, Any]]:
    return [
        _allow(f"door-{flow}", flow, [f"{root}/*/door/*"], SHOWN) for flow in ("ingress", "egress")
    ]
