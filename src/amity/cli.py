"""The command line. Every option is a config key: `amity run data=digits peers=10 strategy=afind+ strategy.tau=0.8`."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer
from rich.console import Console
from rich.table import Table

from amity._version import __version__
from amity.cells import Cell, cores
from amity.cli_data import app as data_app
from amity.compare import DEFAULT_STRATEGIES, Comparison, cells_for, collect
from amity.config import SECTIONS, Config, load, parse, scalar
from amity.core import Reference
from amity.errors import AmityError, ConfigError, unknown
from amity.estimate import estimate
from amity.progress import Board, single
from amity.registry import Entry
from amity.run import Result, load_data, new_dir
from amity.run import resume as resume_run
from amity.run import run as run_config
from amity.store import read_config
from amity.summary import COLUMNS, cells_of, summarise
from amity.sweep import Sweep, cells_of_tries, plan

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Decentralized federated learning in which every peer finds its friends.",
    epilog="Options are config keys: `amity run peers=10 strategy=gossip`. `amity list` shows them all.",
)
app.add_typer(data_app, name="data")
out_console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
err_console = Console(stderr=True, highlight=False)

Words = Annotated[list[str] | None, typer.Argument(metavar="[FILE.toml] [KEY=VALUE]...", show_default=False)]
Where = Annotated[Path, typer.Argument(help="A run directory.")]
Keys = Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", show_default=False)]


def main() -> None:
    """Entry point: one line and an exit code for what users can cause, a traceback only with --debug."""
    debug = "--debug" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--debug"]
    try:
        app()
    except AmityError as error:
        if debug:
            raise
        err_console.print(f"amity: {error}", style="red", markup=False, soft_wrap=True)
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        err_console.print("amity: interrupted; what was finished is kept: the same command with out=, or `amity resume`")
        raise SystemExit(130) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(141) from None


def _version(value: bool) -> None:
    if value:
        out_console.print(f"amity {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Decentralized federated learning in which every peer finds its friends."""


def _read(words: Sequence[str], *own: str) -> tuple[Path | None, dict[str, Any], dict[str, Any]]:
    """File, overrides, and the command's own keys out of `[FILE.toml] key=value ...`."""
    words = list(words)
    file = Path(words.pop(0)) if words and "=" not in words[0] else None
    values = parse(words)
    mine = {key: values.pop(key) for key in own if key in values}
    return file, values, mine


def _split(value: Any) -> list[str]:
    return [part.strip() for part in str(value).split(",") if part.strip()]


def _seeds(value: Any) -> list[int]:
    try:
        return [int(part) for part in _split(value)]
    except ValueError:
        raise ConfigError(f"seeds: expected numbers separated by commas, got {value!r}") from None


def _count(mine: dict[str, Any], key: str) -> int:
    value = mine.get(key, 0)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ConfigError(f"{key}: expected a whole number >= 0, got {value!r}")
    return value


@app.command()
def run(words: Words = None) -> None:
    """Run one experiment. Own key: out=DIR."""
    file, values, mine = _read(words or [], "out")
    config = load(file, values)
    path = (
        Path(str(mine["out"])) if "out" in mine else new_dir(config.strategy.label.replace(":", "-").replace("+", "-plus"))
    )
    _announce([config], 1)
    board, hook = single(out_console, Cell(config.strategy.label, config.seed, config, path))
    with board:
        result = run_config(config, path, hook)
    _show_run(result)


@app.command()
def resume(path: Where) -> None:
    """Go on with a run that was interrupted: the end is bit-identical to an uninterrupted one."""
    config = read_config(path)
    board, hook = single(out_console, Cell(config.strategy.label, config.seed, config, path))
    with board:
        result = resume_run(path, hook)
    _show_run(result)


@app.command()
def compare(words: Words = None) -> None:
    """Compare strategies, paired by seed. Own keys: strategies=A,B:preset,C:k=5 seeds=0,1,2 out=DIR jobs=N."""
    file, values, mine = _read(words or [], "strategies", "seeds", "out", "jobs")
    base = load(file, values)
    specs = _split(mine["strategies"]) if "strategies" in mine else list(DEFAULT_STRATEGIES)
    seeds = _seeds(mine.get("seeds", "0,1,2"))
    path = Path(str(mine["out"])) if "out" in mine else new_dir("compare")
    cells = cells_for(base, specs, seeds, path, {})
    comparison = _collect(cells, path, _count(mine, "jobs"))
    _show_table(comparison)
    _finish(comparison)


@app.command()
def sweep(words: Words = None) -> None:
    """A grid over any keys: sweep strategies=gossip,afind+ train.lr=0.01,0.1 afind+.tau=0.2,0.5 budget=4 seeds=0,1 out=DIR.

    Keys with several values separated by commas form the grid; NAME.key=... belongs to strategy NAME alone. Every strategy
    gets the same number of tries: budget=N, or as many as the smallest grid has.
    """
    file, values, mine = _read(words or [], "strategies", "seeds", "out", "jobs", "budget")
    grid = {k: [scalar(part) for part in _split(v)] for k, v in values.items() if isinstance(v, str) and "," in v}
    names = _split(mine.get("strategies", "afind+"))
    for key, value in values.items():
        if key.partition(".")[0] in {name.split(":")[0] for name in names}:
            grid.setdefault(key, [value])
    base = load(file, {key: value for key, value in values.items() if key not in grid})
    tries = plan(names, grid, _count(mine, "budget"), base.seed)
    path = Path(str(mine["out"])) if "out" in mine else new_dir("sweep")
    cells = cells_of_tries(base, tries, _seeds(mine.get("seeds", "0")), path)
    comparison = _collect(cells, path, _count(mine, "jobs"))
    _show_table(comparison)
    result = Sweep(comparison, tries, "validation" if base.partition.thing.validation else "test")
    for name, a_try in result.best.items():
        out_console.print(
            f"best of {name} ({len(tries) // len(names)} tries, by {result.chosen_on} accuracy): {a_try.label}"
        )
    if result.chosen_on == "test":
        out_console.print("chosen on the test set, which flatters; set partition.validation=0.2 to choose on held-out data")
    _finish(comparison)


@app.command()
def report(path: Where) -> None:
    """Write report.html anew, for a run or for a comparison."""
    from amity.report import write_report

    out_console.print(f"report: {write_report(path)}", soft_wrap=True)


@app.command()
def export(path: Where, words: Keys = None) -> None:
    """Take models out of a run: safetensors + config. Own keys: peer=NAME (default: all) out=DIR."""
    from amity.export import export as export_models

    mine = _only(words, "peer", "out")
    with _status("computing the peers' final models"):
        folders = export_models(path, str(mine.get("peer", "")), Path(str(mine["out"])) if "out" in mine else None)
    for folder in folders:
        out_console.print(str(folder), soft_wrap=True)


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="A folder that `amity export` wrote.")],
    examples: Annotated[Path, typer.Argument(help="A .npy file, or a .npz file with x (and y).")],
    words: Keys = None,
) -> None:
    """Classify new examples with an exported model, as CSV. Own key: out=FILE."""
    from amity.export import predict as classify

    mine = _only(words, "out")
    prediction = classify(model, examples)
    if "out" in mine:
        Path(str(mine["out"])).write_text(prediction.to_csv(), encoding="utf-8")
    else:
        sys.stdout.write(prediction.to_csv())
    if prediction.accuracy is not None:
        err_console.print(f"accuracy {100 * prediction.accuracy:.1f} %")


@app.command("list")
def list_entries(kind: Annotated[str, typer.Argument(help="One kind only, such as `strategy`.")] = "") -> None:
    """Show strategies, methods, datasets, partitions, topologies and models with their options."""
    wanted = {name: section for name, section in SECTIONS.items() if kind[:4] == name[:4] or not kind}
    if not wanted:
        raise ConfigError(unknown("kind", kind, SECTIONS))
    for name, section in wanted.items():
        out_console.print(f"\n[bold]{name}=[/bold]")
        for entry in section.registry:
            _show_entry(entry)
        if section.extra is not None:
            out_console.print(f"  [dim]with any of them: {_options(section.extra)}[/dim]")


def _show_entry(entry: Entry[Any]) -> None:
    reference = " [dim](reference)[/dim]" if issubclass(entry.cls, Reference) else ""
    out_console.print(f"  [bold cyan]{entry.name}[/bold cyan]{reference}  {entry.summary}", soft_wrap=True)
    presets = f"preset={entry.preset} ({', '.join(entry.presets)})  " if entry.presets else ""
    options = _options(entry.cls)
    if presets or options:
        out_console.print(f"      {presets}{options}", soft_wrap=True, markup=False, style="dim")


def _options(cls: type) -> str:
    hints = {f.name: f for f in dataclasses.fields(cls) if f.init}
    return "  ".join(f"{name}={_shown(f.default)}{_choices(cls, name)}" for name, f in hints.items())


def _shown(value: Any) -> str:
    return "(required)" if value is dataclasses.MISSING else str(value) or '""'


def _choices(cls: type, name: str) -> str:
    """The values of a Literal option."""
    hint = get_type_hints(cls).get(name)
    values = [str(value) for value in get_args(hint) if isinstance(value, str)]
    return f" ({'|'.join(values)})" if values else ""


# -- helpers -------------------------------------------------------------------------------------------------------


def _only(words: Sequence[str] | None, *keys: str) -> dict[str, Any]:
    values = parse(words or [])
    for key in values:
        if key not in keys:
            raise ConfigError(f"unknown key {key!r}; this command takes {', '.join(keys)}")
    return values


@contextmanager
def _status(what: str) -> Iterator[None]:
    with err_console.status(what):
        yield


def _announce(configs: Sequence[Config], jobs: int) -> None:
    config = configs[0]
    with _status(f"reading {config.data.name}"):
        load_data(config)
    what = f"{len(configs)} runs" if len(configs) > 1 else f"{config.strategy.label}"
    out_console.print(f"{what}: {config.data.name}, {config.peers} peers, {config.rounds} rounds; ", end="")
    out_console.print(f"{estimate(configs, jobs)}", soft_wrap=True)


def _collect(cells: list[Cell], path: Path, jobs: int) -> Comparison:
    _announce([cell.config for cell in cells], min(jobs or cores(), len(cells)))
    board = Board(out_console, cells)
    with board:
        return collect(cells, path, jobs, board.on_event)


def _show_table(comparison: Comparison) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1))
    for at, column in enumerate(COLUMNS):
        table.add_column(column, justify="left" if at == 0 else "right")
    fair = [
        line
        for line in comparison.lines
        if not isinstance(comparison.results[line.label][0].config.strategy.thing, Reference)
    ]
    best = max(fair or comparison.lines, key=lambda line: line.accuracy).label
    for line in comparison.lines:
        reference = line not in fair
        cells = cells_of(line)
        cells[0] += " (reference)" if reference else ""
        table.add_row(*cells, style="bold green" if line.label == best else "dim" if reference else "")
    out_console.print(table)


def _show_run(result: Result) -> None:
    from amity.report import write_report

    line = summarise(result.config.strategy.label, [result], [])
    for (name, tip), value in zip(COLUMNS.items(), cells_of(line), strict=True):
        if value != "-":
            out_console.print(f"{name:>10}  {value:<14} [dim]{tip}[/dim]", soft_wrap=True)
    out_console.print(f"report: {write_report(result.path)}", soft_wrap=True)


def _finish(comparison: Comparison) -> None:
    with _status("drawing the report"):
        page = comparison.save()
    out_console.print(f"report: {page}", soft_wrap=True)
    for what, error in comparison.errors.items():
        err_console.print(f"amity: {what} failed: {error}", style="red", markup=False, soft_wrap=True)
    if comparison.errors:
        raise SystemExit(1)
