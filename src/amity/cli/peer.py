"""`amity peer` and `amity relay`: real peers, with no server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from amity.cli.common import Keys, Trust, say_data
from amity.cli.watch import NO_PAGE, LivePage, with_live_page
from amity.console import out_console, say, status
from amity.errors import ConfigError, needs_peers

if TYPE_CHECKING:
    from amity.net.trust.invitation import Invitation
    from amity.net.trust.roster import Roster

app = typer.Typer(
    no_args_is_help=True, help="One peer of a real network: keys, checks, and the peer itself."
)
Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="The peer's folder, with its peer.toml.")
]


@app.command("init")
def init(folder: Folder, words: Keys = None) -> None:
    """Make a peer's key, certificate request, peer.toml and roster.toml. Own keys: name= host=
    port=7447 network=amity members=listed, or invitation=FILE in place of the last two.

    host= is where others reach it (an address or a name; several with commas). port=0: behind NAT,
    by way of a relay. members=any-signed: whoever has a certificate of the authority is a member.
    """
    from amity.config import only

    with needs_peers():
        from amity.net.ops.found import Newcomer
        from amity.net.trust.invitation import open_invitation
        from amity.net.trust.roster import LISTED, Roster, check_name, is_any_signed
    values = only(words or [], "name", "host", "port", "network", "members", "invitation")
    for key in ("name", "host"):
        if not values.get(key):
            raise ConfigError(f"{key}: is missing; for example name=hospital-a host=10.0.0.1")
    name, hosts = (
        check_name(values["name"]),
        [host.strip() for host in values["host"].split(",") if host.strip()],
    )
    port = values.get("port", "7447")
    if not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"port: expected 0 to 65535, got {port!r}")
    if "invitation" in values:
        for key in values.keys() & {"network", "members"}:
            raise ConfigError(f"{key}: the invitation says it; leave it out")
        invited = open_invitation(Path(values["invitation"]))
        roster = invited.roster
    else:
        any_signed = is_any_signed(values.get("members", LISTED))
        invited, roster = None, Roster.of(values.get("network", "amity"), [], None, any_signed)
    newcomer = Newcomer(name=name, hosts=hosts, port=int(port))
    _settled(folder, newcomer.settle(folder, roster, invited), roster, invited)


def _settled(folder: Path, fingerprint: str, roster: Roster, invited: Invitation | None) -> None:
    """What is there now, and what is to be done."""
    identity = folder / "identity"
    files = "cert.pem and ca.pem" if invited is None else "cert.pem"
    say(f"key:         {identity / 'key.pem'} (never leaves this machine)")
    say(f"request:     {identity / 'request.pem'}: have the authority sign it (`amity ca sign`),")
    say(f"             and put its {files} into {identity}")
    where = "the authority asks you for it" if roster.any_signed else "for everybody's roster.toml"
    say(f"fingerprint: {fingerprint}: {where}")
    if invited is not None:
        say(f"authority:   {invited.fingerprint}: ask by telephone whether this is right")
    say(f"then edit {folder / 'peer.toml'} and try `amity peer check {folder}`")


@app.command("request")
def request(folder: Folder, words: Keys = None) -> None:
    """A new certificate request for the old key: to renew, or after a move. Own key: host=
    (default: as before)."""
    from amity.config import only

    with needs_peers():
        from amity.net.setup import read_setup
        from amity.net.trust.certs import make_request
        from amity.net.trust.identity import hosts_of, load_certificates
        from amity.net.trust.roster import split_address
    from amity.registry import reading

    values = only(words or [], "host")
    with reading():  # nothing is run
        setup = read_setup(folder)
    hosts = [host.strip() for host in values.get("host", "").split(",") if host.strip()]
    if not hosts and (setup.identity / "cert.pem").exists():
        hosts = list(hosts_of(load_certificates(setup.identity / "cert.pem")[0]))
    if not hosts:
        raise ConfigError("host: is missing; for example host=10.0.0.1")
    port = split_address(setup.who.listen)[1] if setup.who.listen else 0
    make_request(setup.identity, setup.who.name, hosts, port)
    say(
        f"request: {setup.identity / 'request.pem'}; a running peer takes up the new cert.pem by"
        " itself"
    )


@app.command("check")
def check(folder: Folder, trust: Trust = False) -> None:
    """Test keys, clock, ports, reachability, data, and what the others run, before anything
    runs."""
    with needs_peers():
        from amity.net.ops.check import check_peer
        from amity.net.ops.greet import greetings
        from amity.net.ops.status import findings
        from amity.net.setup import data_of, read_setup
    from amity.round.build import load_data

    setup = read_setup(folder, trust=trust)

    notes: list[str] = []

    def described() -> str:
        loaded = load_data(setup.config)
        notes.extend(loaded.notes)
        dataset, data = data_of(setup, loaded)
        held = sum(share > 0 for share in data.labels)
        if dataset.strata is not None:
            return f"{len(data.train)} training and {len(data.test)} test examples"
        return (
            f"{len(data.train)} training and {len(data.test)} test examples, {held} of"
            f" {dataset.classes} classes"
        )

    bad, running = 0, False
    with status("checking"):
        for finding in check_peer(
            setup.identity, setup.who.name, setup.roster, setup.who.listen, described
        ):
            bad += not finding.good
            running |= finding.what == "port" and "running" in finding.detail
            _finding(finding)
        for note in notes:
            say(f"{'':18} {note}")
        if running or not bad:
            for finding in findings(setup.state) if running else greetings(setup):
                bad += not finding.good
                _finding(finding)
    if bad:
        raise SystemExit(1)


def _finding(finding: Any) -> None:
    mark = "[green]ok [/green]" if finding.good else "[red]BAD[/red]"
    out_console.print(f"{mark} [bold]{finding.what:<14}[/bold]", end=" ")
    out_console.print(finding.detail, markup=False, soft_wrap=True)


@app.command("status")
def show_status(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Peers' folders; also a swarm's.")
    ],
) -> None:
    """How peers are doing, running or not: round, who is present, late or refused and why, who was
    taken, the gain over training alone, the certificate, ε."""
    with needs_peers():
        from amity.net.ops.status import details, headline, peers_seen
    for peer in peers_seen(folders):
        out_console.print(f"[bold]{peer.name}[/bold]:", end=" ")
        out_console.print(headline(peer), markup=False, soft_wrap=True)
        for word, said in details(peer):
            out_console.print(f"  {word:<12}{said}", markup=False, soft_wrap=True)


@app.command("run")
@with_live_page
def run(
    folder: Folder,
    words: Keys = None,
    trust: Trust = False,
    page: LivePage = NO_PAGE,
) -> None:
    """Run the peer of a folder, to its last round; started again, it goes on. Own key: sinks=A,B;
    further words are config keys and net.*."""
    from amity.config import parse, split_list
    from amity.round.build import load_data
    from amity.sinks.stream import admit_sinks

    with needs_peers():
        from amity.net.ops.serve import serve
        from amity.net.setup import read_setup

    values = parse(words or [])
    given = values.pop("sinks", None)
    setup = read_setup(folder, values, trust=trust)
    if given is None:
        admit_sinks(folder, list(setup.who.sinks or ()), trust)
    with status(f"reading {setup.config.data.name}"):
        dataset = load_data(setup.config)
    say_data(dataset)
    say(
        f"{setup.who.name}: listening on {setup.who.listen or 'nothing (relay only)'}; log:"
        f" {setup.state / 'audit.jsonl'}"
    )
    for change in setup.config.changes:
        say(f"planned: {change}")
    own = setup.who.sinks if given is None else split_list(given)
    with page.beside([folder]):
        serve(setup, ["rounds"] if own is None else list(own))


def relay(folder: Folder) -> None:
    """Pass on between peers that cannot dial each other (behind NAT). The roster's `relay` must be
    this folder's peer."""
    with needs_peers():
        from amity.net.ops.serve import serve_relay
        from amity.net.setup import read_setup
    from amity.registry import reading

    with reading():  # a relay learns nothing
        setup = read_setup(folder)
    say(f"{setup.who.name}: passing on at {setup.who.listen}")
    serve_relay(setup)
