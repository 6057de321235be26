"""The command line. Every option is a config key: `amity run data=digits peers=10 strategy=gossip
strategy.k=3`."""

from __future__ import annotations

import io
import logging
import sys
import traceback
from typing import Annotated, Any

import typer

from amity._version import __version__
from amity.cli import lab
from amity.cli.bench import bench
from amity.cli.ca import app as ca_app
from amity.cli.data import app as data_app
from amity.cli.discovery import discovery
from amity.cli.figures import export_figures
from amity.cli.matrix import matrix
from amity.cli.peer import app as peer_app
from amity.cli.peer import relay
from amity.cli.reproduce import reproduce
from amity.cli.swarm import swarm
from amity.cli.track import track
from amity.cli.use import export, predict, serve
from amity.cli.watch import watch
from amity.console import complain, out_console
from amity.errors import AmityError, brief
from amity.processes import leave

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    help="Decentralized federated learning in which every peer finds its friends.",
    epilog=(
        "Options are config keys: `amity run peers=10 strategy=gossip`. `amity list` shows them"
        " all."
    ),
)
app.command()(lab.run)
app.command()(lab.resume)
app.command()(lab.compare)
app.command()(lab.sweep)
app.command()(reproduce)
app.command()(lab.report)
app.command()(matrix)
app.command("export-figures")(export_figures)
app.command()(watch)
app.command()(track)
app.command()(export)
app.command()(predict)
app.command()(serve)
app.command()(swarm)
app.add_typer(peer_app, name="peer")
app.command()(relay)
app.add_typer(ca_app, name="ca")
app.add_typer(data_app, name="data")
app.command("list")(lab.list_entries)
app.command()(bench)
app.command()(discovery)


ClickException = typer.BadParameter.__mro__[2]
"""The root of typer's own errors, whichever click it brings along."""
OWN_KEYS = ("out", "sinks", "strategies", "seeds", "shifts", "jobs", "budget", "name", "host")
"""Keys that belong to commands, not to a run."""
INTERRUPTED = "interrupted; what was finished is kept: the same command goes on"


class Complaints(logging.Handler):
    """What the package reports while a run goes on, such as a sink that failed."""

    def emit(self, record: logging.LogRecord) -> None:
        complain(record.getMessage())


def main() -> None:
    """Entry point: one line and an exit code for what users can cause, a traceback only with
    --debug."""
    debug = "--debug" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--debug"]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # a terminal without our letters is no reason to stop
            stream.reconfigure(errors="replace")
    logger, handler = logging.getLogger("amity"), Complaints()
    logger.addHandler(handler)
    try:
        code = app(standalone_mode=False) or 0
        if code == 130:  # typer turns Ctrl-C into an exit code
            complain(INTERRUPTED)
        raise SystemExit(code)
    except Exception as error:
        if debug:
            traceback.print_exc()
        raise SystemExit(_tell(error)) from None
    except KeyboardInterrupt:
        complain(INTERRUPTED)
        raise SystemExit(130) from None
    finally:
        logger.removeHandler(handler)


def run() -> None:
    """The process `amity`: as `main`, but where something heavy was loaded it ends at once. Threads
    of Zenoh may still call into Python when the interpreter is half gone, and take the process with
    them, whatever its exit code was; and to take torch apart costs a second."""
    try:
        main()
    except SystemExit as ended:
        code = ended.code
    if not {"zenoh", "torch"} & sys.modules.keys():
        raise SystemExit(code)
    leave(code, wait="zenoh" not in sys.modules)


def _tell(error: Exception) -> int:
    """One line on standard error, and the exit code."""
    if isinstance(error, AmityError):
        complain(str(error))
        return error.exit_code
    if isinstance(error, ClickException):
        told: Any = error
        if told.format_message():
            complain(_key_for(told) or f"{told.format_message()} (amity --help)")
        return int(told.exit_code)
    if isinstance(error, typer.Exit):
        return int(error.exit_code)
    if isinstance(error, typer.Abort):
        complain(INTERRUPTED)
        return 130
    complain(f"unexpected failure, {brief(error)}; --debug shows where")
    return 1


def _key_for(error: Any) -> str:
    """One line for who typed `--peers 10`; empty where no key can have been meant."""
    option = str(getattr(error, "option_name", ""))
    at = next((k for k, word in enumerate(sys.argv) if word.partition("=")[0] == option), 0)
    if not option.startswith("--") or not at:
        return ""
    from amity.config.hints import key_like

    word = option.removeprefix("--")
    meant = key_like(word)
    key = word if word in OWN_KEYS else "" if meant is None else meant.key
    after = next(iter(sys.argv[at + 1 : at + 2]), "-")
    value = sys.argv[at].partition("=")[2] or ("..." if after[0] == "-" else after)
    return f"no such option {option}; keys have no dashes: {key}={value}" if key else ""


def _version(value: bool) -> None:
    if value:
        out_console.print(f"amity {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Decentralized federated learning in which every peer finds its friends."""
