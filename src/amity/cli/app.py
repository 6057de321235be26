"""The command line. Every option is a config key: `amity run data=digits peers=10 strategy=afind+
strategy.tau=0.8`."""

from __future__ import annotations

import io
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from amity._version import __version__
from amity.cli.bench import bench
from amity.cli.ca import app as ca_app
from amity.cli.data import app as data_app
from amity.cli.peer import app as peer_app
from amity.cli.peer import relay, swarm
from amity.cli.reproduce import reproduce
from amity.cli.track import track
from amity.config import (
    Config,
    count,
    load,
    only,
    out_path,
    scalar,
    seeds_of,
    split_list,
    split_words,
)
from amity.errors import AmityError, ConfigError, brief
from amity.files import write_atomically
from amity.lab.cells import Cell
from amity.lab.compare import DEFAULT_STRATEGIES, Comparison, cells_for, collect, strategy_name
from amity.lab.estimate import estimate
from amity.lab.run import Result, new_dir
from amity.lab.run import resume as resume_run
from amity.lab.run import run as run_config
from amity.lab.store import RunDir, read_config
from amity.lab.sweep import Sweep, cells_of_tries, choose_tries, grid_sizes
from amity.processes import cores
from amity.round.build import load_data
from amity.show.terminal import (
    complain,
    err_console,
    out_console,
    show_entries,
    show_run,
    show_table,
    status,
)
from amity.sinks.progress import Board, single

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Decentralized federated learning in which every peer finds its friends.",
    epilog=(
        "Options are config keys: `amity run peers=10 strategy=gossip`. `amity list` shows them"
        " all."
    ),
)
app.add_typer(data_app, name="data")
app.add_typer(peer_app, name="peer")
app.add_typer(ca_app, name="ca")
app.command()(bench)
app.command()(swarm)
app.command()(relay)
app.command()(reproduce)
app.command()(track)


ClickException = typer.BadParameter.__mro__[2]
"""The root of typer's own errors, whichever click it brings along."""
INTERRUPTED = (
    "interrupted; what was finished is kept: the same command (a run: with its out=, or `amity"
    " resume`) goes on"
)

Words = Annotated[
    list[str] | None, typer.Argument(metavar="[FILE.toml] [KEY=VALUE]...", show_default=False)
]
Where = Annotated[Path, typer.Argument(help="A run directory.")]
Keys = Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", show_default=False)]


def main() -> None:
    """Entry point: one line and an exit code for what users can cause, a traceback only with
    --debug."""
    debug = "--debug" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--debug"]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # a terminal without our letters is no reason to stop
            stream.reconfigure(errors="replace")
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


def _tell(error: Exception) -> int:
    """One line on standard error, and the exit code."""
    if isinstance(error, AmityError):
        complain(str(error))
        return error.exit_code
    if isinstance(error, ClickException):
        told: Any = error
        if told.format_message():
            complain(f"{told.format_message()} (amity --help)")
        return int(told.exit_code)
    if isinstance(error, typer.Exit):
        return int(error.exit_code)
    if isinstance(error, typer.Abort):
        complain(INTERRUPTED)
        return 130
    complain(f"unexpected failure, {brief(error)}; --debug shows where")
    return 1


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


@app.command()
def run(words: Words = None) -> None:
    """Run one experiment. Own key: out=DIR."""
    file, values, mine = split_words(words or [], "out")
    config = load(file, values)
    path = out_path(mine) if "out" in mine else new_dir(config.slug)
    RunDir.check(path, config)
    _announce([config], 1)
    board, hook = single(out_console, Cell(config.label, config.seed, config, path))
    with board:
        result = run_config(config, path, hook, hook.part)
    show_run(result)


@app.command()
def resume(path: Where) -> None:
    """Go on with a run that was interrupted: the end is bit-identical to an uninterrupted one."""
    config = read_config(path)
    if Result(path, config).complete:
        out_console.print(f"{path}: was complete already", soft_wrap=True, markup=False)
    board, hook = single(out_console, Cell(config.label, config.seed, config, path))
    with board:
        result = resume_run(path, hook, hook.part)
    show_run(result)


@app.command()
def compare(words: Words = None) -> None:
    """Compare strategies, paired by seed. Own keys: strategies=A,B:preset,C:k=5 seeds=0,1,2 out=DIR
    jobs=N."""
    file, values, mine = split_words(words or [], "strategies", "seeds", "out", "jobs")
    for key in values:
        if key.partition(".")[0] == "strategy":
            raise ConfigError(
                f"{key}: a comparison names its strategies by strategies=NAME:option=value,..."
            )
    base = load(file, values)
    specs = split_list(mine["strategies"]) if "strategies" in mine else list(DEFAULT_STRATEGIES)
    seeds = seeds_of(mine.get("seeds", "0,1,2"))
    path = out_path(mine) if "out" in mine else new_dir("compare")
    cells = cells_for(base, specs, seeds, path)
    comparison = _collect(cells, path, count(mine, "jobs"))
    show_table(comparison)
    _finish(comparison)


@app.command()
def sweep(words: Words = None) -> None:
    """A grid over any keys: sweep strategies=gossip,afind+ train.lr=0.01,0.1 afind+.tau=0.2,0.5
    budget=4 seeds=0,1 out=DIR.

    Keys with several values separated by commas form the grid; NAME.key=... belongs to strategy
    NAME alone. Every strategy gets the same number of tries: budget=N, or as many as the smallest
    grid has.
    """
    file, values, mine = split_words(words or [], "strategies", "seeds", "out", "jobs", "budget")
    several = {k: v for k, v in values.items() if isinstance(v, str) and "," in v and k != "stages"}
    grid = {k: [scalar(part) for part in split_list(v)] for k, v in several.items()}
    names = split_list(mine.get("strategies", "afind+"))
    for key, value in values.items():
        if key.partition(".")[0] in {strategy_name(name) for name in names}:
            grid.setdefault(key, [value])
    base = load(file, {key: value for key, value in values.items() if key not in grid})
    tries = choose_tries(names, grid, count(mine, "budget"), base.seed)
    path = out_path(mine) if "out" in mine else new_dir("sweep")
    cells = cells_of_tries(base, tries, seeds_of(mine.get("seeds", "0")), path)
    comparison = _collect(cells, path, count(mine, "jobs"))
    show_table(comparison)
    for name, points in grid_sizes(names, grid).items():
        if points > len(tries) // len(names):
            out_console.print(
                f"{name}: {len(tries) // len(names)} of {points} points tried, as many as everyone",
                markup=False,
            )
    result = Sweep(
        comparison, tries, "validation" if base.partition.instance.validation else "test"
    )
    for name, a_try in result.best.items():
        out_console.print(
            f"best of {name} ({len(tries) // len(names)} tries, by {result.chosen_on} accuracy, "
            f"{100 * result.score(a_try):.1f} %): {a_try.label}",
            markup=False,
            soft_wrap=True,
        )
    if result.chosen_on == "test":
        out_console.print(
            "chosen on the test set, which flatters; set partition.validation=0.2 to choose on"
            " held-out data"
        )
    _finish(comparison)


@app.command()
def report(path: Where) -> None:
    """Write report.html anew: for a run, a comparison, a peer's folder, or a folder with several
    peers' folders."""
    from amity.show.report import write_report

    out_console.print(f"report: {write_report(path)}", soft_wrap=True, markup=False)


@app.command()
def export(path: Where, words: Keys = None) -> None:
    """Take models out of a run: safetensors + config. Own keys: peer=NAME (default: all)
    out=DIR."""
    from amity.lab.export import export as export_models

    mine = only(words or [], "peer", "out")
    with status("computing the peers' final models"):
        folders = export_models(
            path, mine.get("peer", ""), out_path(mine) if "out" in mine else None
        )
    for folder in folders:
        out_console.print(str(folder), soft_wrap=True, markup=False)


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="A folder that `amity export` wrote.")],
    examples: Annotated[Path, typer.Argument(help="A .npy file, or a .npz file with x (and y).")],
    words: Keys = None,
) -> None:
    """Classify new examples with an exported model, as CSV. Own key: out=FILE."""
    from amity.lab.export import predict as classify

    mine = only(words or [], "out")
    prediction = classify(model, examples)
    if "out" in mine:
        write_atomically(out_path(mine), prediction.to_csv().encode())
    else:
        sys.stdout.write(prediction.to_csv())
    if prediction.accuracy is not None:
        err_console.print(f"accuracy {100 * prediction.accuracy:.1f} %")


@app.command("list")
def list_entries(
    kind: Annotated[str, typer.Argument(help="One kind only, such as `strategy`.")] = "",
) -> None:
    """Show strategies, methods, datasets, partitions, topologies and models with their options."""
    show_entries(kind)


# -- helpers ---------------------------------------------------------------------------------------


def _announce(configs: Sequence[Config], jobs: int) -> None:
    config = configs[0]
    with status(f"reading {config.data.name}"):
        load_data(config)
    what = f"{len(configs)} runs" if len(configs) > 1 else config.label
    line = (
        f"{what}: {config.data.name}, {config.peers} peers, {config.rounds} rounds;"
        f" {estimate(configs, jobs)}"
    )
    out_console.print(line, soft_wrap=True, markup=False)


def _collect(cells: list[Cell], path: Path, jobs: int) -> Comparison:
    _announce([cell.config for cell in cells], min(jobs or cores(), len(cells)))
    board = Board(out_console, cells)
    with board:
        return collect(cells, path, jobs, board.on_event)


def _finish(comparison: Comparison) -> None:
    with status("drawing the report"):
        page = comparison.save()
    out_console.print(f"report: {page}", soft_wrap=True, markup=False)
    for what, error in comparison.errors.items():
        complain(f"{what} failed: {error}")
    if comparison.errors:
        raise SystemExit(1)
