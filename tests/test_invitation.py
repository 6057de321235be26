"""Invitations: one file, with which a new member needs nobody to edit a roster."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from amity.errors import IdentityError
from amity.net.membership import Papers
from amity.net.setup import read_setup
from amity.net.trust.certs import CA_KEY, make_key
from amity.net.trust.identity import load_key
from amity.net.trust.invitation import Invitation, open_invitation
from amity.net.trust.roster import Roster
from tests.conftest import Call

FOUND = "port=7001 network=trial members=any-signed"


@pytest.fixture
def invited(call: Call, tmp_path: Path) -> Path:
    """An authority, a member with terms of its own, one that was revoked, and an invitation."""
    assert call("ca init ca name=Trial")[0] == 0
    assert call(f"peer init a name=hospital-a host=10.0.0.1 {FOUND}")[0] == 0
    (tmp_path / "agreed.toml").write_text("# what all agree on\n")
    (tmp_path / "a" / "peer.toml").write_text(
        '[peer]\nname = "hospital-a"\nlisten = "10.0.0.1:7001"\nclasses = ["b", "m"]\n'
        "[net]\nmasked = true\ndeadline = 7\n"
        '[run]\nstrategy = "gossip"\nseed = 4\ndevice = "cpu"\n'
        '[run.data]\npath = "mine.csv"\nlabel = "diagnosis"\nschema = "../agreed.toml"\n'
    )
    key = "f" * 64
    assert call(f"ca revoke ca hospital-x fingerprint={key} network=trial")[0] == 0
    code, out, _ = call("ca invite ca roster=a/roster.toml terms=a/peer.toml")
    assert code == 0
    assert "dial first:  hospital-a" in out
    return tmp_path / "invitation.toml"


def test_a_new_member_is_settled_by_one_file(call: Call, invited: Path, tmp_path: Path) -> None:
    assert b"PRIVATE" not in invited.read_bytes()
    code, out, _ = call(f"peer init d name=hospital-d host=10.0.0.4 port=7004 invitation={invited}")
    assert code == 0
    assert f"authority:   {open_invitation(invited).fingerprint}" in out
    code, out, _ = call("ca sign ca d/identity/request.pem name=hospital-d")
    assert code == 0
    assert 'address = "10.0.0.4:7004"' in out
    peer = tmp_path / "d" / "peer.toml"
    run = tomllib.loads(peer.read_text())["run"]
    assert run["data"] == {"label": "diagnosis", "schema": "schema.toml"}
    assert "device" not in run
    peer.write_text(peer.read_text().replace("[run.data]\n", '[run.data]\npath = "table.csv"\n'))
    papers = Papers.load(setup := read_setup(tmp_path / "d"))
    assert papers.roster.any_signed
    assert papers.roster.first == {"hospital-a", "hospital-d"}
    assert papers.roster.members["hospital-a"].address == "10.0.0.1:7001"
    assert papers.revoked is not None
    assert papers.revoked.keys == {"f" * 64: "hospital-x"}
    assert (setup.who.classes, setup.net.masked, setup.net.deadline) == (("b", "m"), True, 60)
    assert (setup.config.strategy.name, setup.config.seed) == ("gossip", 4)
    assert (tmp_path / "d" / "schema.toml").read_text() == "# what all agree on\n"


def test_an_invitation_that_was_changed_is_none(call: Call, invited: Path, tmp_path: Path) -> None:
    good = invited.read_bytes()
    invited.write_bytes(good.replace(b"10.0.0.1", b"10.6.6.6"))
    with pytest.raises(IdentityError, match="not signed by the authority in it"):
        open_invitation(invited)
    code, _, err = call(f"peer init e name=e host=10.0.0.5 invitation={invited}")
    assert (code, "changed on the way" in err) == (2, True)
    assert not (tmp_path / "e").exists()
    for garbage in (b"", b"\xff", b"signature = 1\n", b"signature = 'zz'\n", good[:300]):
        invited.write_bytes(garbage)
        with pytest.raises(IdentityError, match="is no invitation"):
            open_invitation(invited)
    make_key(tmp_path / "m", "m", ["10.0.0.9"])
    assert call("ca sign ca m/request.pem name=m")[0] == 0
    member = Invitation((tmp_path / "m" / "cert.pem").read_text(), Roster.of("trial", []))
    invited.write_bytes(member.sign(load_key(tmp_path / "m" / "key.pem")))
    with pytest.raises(IdentityError, match="not signed by the authority in it"):
        open_invitation(invited)


def test_what_cannot_be_an_invitation_is_said(call: Call, invited: Path, tmp_path: Path) -> None:
    said = {
        f"peer init b name=hospital-a host=h invitation={invited}": "is a member of trial already",
        f"peer init b name=b host=h network=n invitation={invited}": "network: the invitation says",
        "peer init b name=b host=h members=all": 'expected "listed"',
        "ca invite ca": "roster: is missing",
        "ca invite ca roster=hidden.toml": "nobody on it can be dialled",
    }
    entry = f'[[peer]]\nname = "h"\naddress = ""\nfingerprint = "{"0" * 64}"\n'
    (tmp_path / "hidden.toml").write_text(f'network = "trial"\n{entry}')
    for line, message in said.items():
        code, _, err = call(line)
        assert (code, message in err) == (2, True), (line, err)
    assert not (tmp_path / "b").exists()
    assert load_key(tmp_path / "ca" / CA_KEY)
