"""`amity run`, `compare`, `sweep` and what one does with their directories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from amity.cli.common import Keys, Trust, Where, Words, going_on, say_data, sinks_of
from amity.cli.watch import NO_PAGE, LivePage, with_live_page
from amity.console import complain, say, status
from amity.errors import ConfigError

if TYPE_CHECKING:
    from amity.config import Config
    from amity.lab.cells import Cell
    from amity.lab.compare import Before
    from amity.lab.comparison import Comparison
    from amity.lab.sweep import Grid
    from amity.lab.tries import Sweep
    from amity.lab.worlds import Worlds


@with_live_page
def run(
    words: Words = None,
    trust: Trust = False,
    page: LivePage = NO_PAGE,
) -> None:
    """Run one experiment. Own keys: out=DIR sinks=A,B:option=value."""
    from amity.config import load, out_path, split_words
    from amity.lab.reports import write_report
    from amity.lab.run import new_dir
    from amity.lab.run import run as run_config
    from amity.show.terminal import show_run
    from amity.sinks.stream import choose
    from amity.store import RunDir

    file, values, mine = split_words(words or [], "out", "sinks")
    config, sinks = load(file, values, trust=trust), sinks_of(mine, file, trust=trust)
    path = out_path(mine) if "out" in mine else new_dir(config.slug)
    choose(sinks)  # mistakes are found before anything else is done
    RunDir.check(path, config)
    with going_on(path):
        _announce([config], 1)
        with page.beside([path]):
            result = run_config(config, path, sinks)
        show_run(result, write_report(path))


def resume(path: Where, words: Keys = None, trust: Trust = False) -> None:
    """Go on with a run that was interrupted: the end is bit-identical to an uninterrupted one. With
    rounds=N, go on past its planned end. Own key: sinks=A,B."""
    from amity.config import count
    from amity.lab.reports import write_report
    from amity.lab.run import resume as resume_run
    from amity.show.terminal import show_run
    from amity.sinks.stream import choose
    from amity.store import refuse_others

    refuse_others(path, "simulation")
    mine = _of_resume(words or [])
    choose(sinks_of(mine, None))  # mistakes are found before anything else is done
    rounds = count(mine, "rounds") if "rounds" in mine else None
    _say_how_far(path, rounds)
    resumed = resume_run(path, sinks_of(mine, None), rounds, trust=trust)
    show_run(resumed, write_report(path))


def _of_resume(words: Sequence[str]) -> dict[str, str]:
    """The keys that a run may be continued with."""
    from amity.config import only, parse

    for key in parse(words):
        if key not in ("rounds", "sinks"):
            raise ConfigError(
                f"{key}: a run is continued as it was begun, and resume takes rounds=N and"
                f" sinks=A,B only; for another {key} begin a new run"
            )
    return only(words, "rounds", "sinks")


def _say_how_far(path: Path, rounds: int | None) -> None:
    """That a run is complete, or what it means that it is extended."""
    from amity.lab.result import Result
    from amity.store import commits, read_config

    result = Result(path, read_config(path))
    planned = result.config.rounds
    if result.complete and rounds in (None, planned):
        more = f"; rounds=N with N > {planned} goes on"
        early = " (ended early)" if result.rounds[-1].ended else more
        say(f"{path}: was complete already{early}")
    elif rounds is not None and rounds > planned:
        done = next((commit.round for commit in commits(path)), 0)
        say(
            f"{path}: {done} rounds are done and stay as they are; {planned} were planned, now"
            f" {rounds}. What looks at the number of all rounds (phases of strategies and methods)"
            f" saw {planned} until here, so {rounds} from the start may end elsewhere"
        )


@with_live_page
def compare(
    words: Words = None,
    trust: Trust = False,
    page: LivePage = NO_PAGE,
) -> None:
    """Compare strategies, paired by seed. Own keys: strategies=A,B:preset,C:k=5 seeds=0,1,2 out=DIR
    jobs=N sinks=A,B, and shifts=rotate:groups=2,none for several worlds side by side."""
    from amity.config import count, load, out_path, seeds_of, split_list, split_words
    from amity.lab.compare import DEFAULT_STRATEGIES
    from amity.lab.compare import compare as compare_strategies
    from amity.lab.run import new_dir
    from amity.lab.worlds import compare_worlds
    from amity.show.terminal import show_table, show_worlds

    own = ("strategies", "seeds", "shifts", "out", "jobs", "sinks")
    file, values, mine = split_words(words or [], *own)
    for key in values:
        if key.partition(".")[0] == "strategy":
            raise ConfigError(
                f"{key}: a comparison names its strategies by strategies=NAME:option=value,..."
            )
    base, jobs = load(file, values, trust=trust), count(mine, "jobs")
    several = "shifts" in mine
    shifts = split_list(mine["shifts"]) if several else []
    out = out_path(mine) if "out" in mine else new_dir("worlds" if several else "compare")
    asked = (
        split_list(mine["strategies"]) if "strategies" in mine else DEFAULT_STRATEGIES,
        seeds_of(mine.get("seeds", "0,1,2")),
        base,
        out,
        jobs,
        sinks_of(mine, file, trust=trust),
        _announcing(jobs, shifts),
    )
    if several:
        with going_on(out), page.beside([out]):
            worlds = compare_worlds(shifts, *asked)
        show_worlds(worlds)
        return _finish(worlds)
    with going_on(out), page.beside([out]):
        comparison = compare_strategies(*asked)
    show_table(comparison)
    return _finish(comparison)


@with_live_page
def sweep(
    words: Words = None,
    trust: Trust = False,
    page: LivePage = NO_PAGE,
) -> None:
    """A grid over any keys: sweep strategies=gossip,afind+ train.lr=0.01,0.1 afind+.tau=0.2,0.5
    budget=4 seeds=0,1 out=DIR. Further own keys: jobs=N sinks=A,B.

    Keys with several values separated by commas form the grid; NAME.key=... belongs to strategy
    NAME alone. Every strategy gets the same number of tries: budget=N, or as many as the smallest
    grid has.
    """
    from amity.config import SECTIONS, count, load, out_path, seeds_of, split_list, split_words
    from amity.lab.run import new_dir
    from amity.lab.sweep import sweep as sweep_grid
    from amity.show.terminal import show_sweep

    own = ("strategies", "seeds", "out", "jobs", "budget", "sinks")
    file, values, mine = split_words(words or [], *own)
    names = split_list(mine.get("strategies", SECTIONS["strategy"].default))
    grid = _grid(names, values)
    fixed = {key: value for key, value in values.items() if key not in grid}
    base = load(file, fixed, trust=trust)
    jobs = count(mine, "jobs")
    out = out_path(mine) if "out" in mine else new_dir("sweep")
    with going_on(out), page.beside([out]):
        result = sweep_grid(
            names,
            grid,
            seeds_of(mine.get("seeds", "0")),
            count(mine, "budget"),
            config=base,
            out=out,
            jobs=jobs,
            sinks=sinks_of(mine, file, trust=trust),
            before=_announcing(jobs),
        )
    show_sweep(result)
    _show_best(result, names, grid)
    _finish(result.comparison)


LISTS = ("stages", "data.drop", "data.categories", "data.na")
"""Keys whose values are lists themselves, and no grid."""


def _grid(names: Sequence[str], values: Mapping[str, Any]) -> Grid:
    """Keys with several values, and those of one strategy alone."""
    from amity.config import scalar, split_list, strategy_name

    several = {
        k: v for k, v in values.items() if isinstance(v, str) and "," in v and k not in LISTS
    }
    grid = {k: [scalar(part) for part in split_list(v)] for k, v in several.items()}
    for key, value in values.items():
        if key.partition(".")[0] in {strategy_name(name) for name in names}:
            grid.setdefault(key, [value])
    return grid


def _show_best(result: Sweep, names: Sequence[str], grid: Grid) -> None:
    from amity.lab.sweep import grid_sizes

    tries = len(result.tries) // len(names)
    for name, points in grid_sizes(names, grid).items():
        if points > tries:
            say(f"{name}: {tries} of {points} points tried, as many as everyone")
    metric = result.comparison.config.metric
    for name, a_try in result.best.items():
        say(
            f"best of {name} ({tries} tries, by {result.chosen_on} {metric.called}, "
            f"{metric.text(result.score(a_try))}): {a_try.label}"
        )
    if result.tried.warning:
        say(result.tried.warning)


def report(path: Where) -> None:
    """Write report.html anew: for a run, a comparison, a sweep, a peer's folder, or a folder with
    several peers' folders."""
    from amity.lab.reports import write_report

    with status("drawing the report"):
        page = write_report(path)
    say(f"report: {page}")


def list_entries(
    what: Annotated[
        str,
        typer.Argument(
            help="A part (`strategy`, `train`), an entry (`strategy.afind+`), an option."
        ),
    ] = "",
) -> None:
    """Show strategies, methods, datasets, partitions, shifts, topologies, models and so on with
    their options. `amity list strategy.afind+` and `amity list train` say what each option
    means."""
    from amity.lab.catalogue import kinds
    from amity.show.listing import show_all, show_some

    if what:
        show_some(what, kinds(peer=what.partition(".")[0] == "peer"))
    else:
        show_all(kinds(peer=False))


# -- helpers ---------------------------------------------------------------------------------------


def _announcing(jobs: int, worlds: Sequence[str] = ()) -> Before:
    """Says what is about to be run, and what it will take; of several worlds, in which of them."""
    places = iter([f"world {at} of {len(worlds)}: " for at, _ in enumerate(worlds, 1)])

    def announce(cells: Sequence[Cell]) -> None:
        from amity.processes import cores

        configs = [cell.config for cell in cells]
        _announce(configs, min(jobs or cores(), len(cells)), next(places, ""))

    return announce


def _announce(configs: Sequence[Config], jobs: int, place: str = "") -> None:
    from amity.lab.estimate import estimate
    from amity.round.build import load_data

    config = configs[0]
    with status(f"reading {config.data.name}"):
        dataset = load_data(config)
    say_data(dataset)
    what = f"{len(configs)} runs" if len(configs) > 1 else config.label
    say(
        f"{place}{what}: {config.dataset_label}, {config.peers} peers, {config.rounds} rounds;"
        f" {estimate(configs, jobs)}"
    )


def _finish(comparison: Comparison | Worlds) -> None:
    say(f"report: {comparison.path / 'report.html'}")
    for what, error in comparison.errors.items():
        complain(f"{what} failed: {error}")
    if comparison.errors:
        raise SystemExit(1)
