"""`amity bench`: how fast the engine is on this machine."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from amity.console import blank_table, err_console, out_console
from amity.errors import ConfigError, unknown
from amity.files import write_atomically
from amity.lazy import torch

Names = Annotated[list[str] | None, typer.Argument(metavar="[WORKLOAD]...", show_default=False)]


def bench(
    names: Names = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object per line, nothing else.")
    ] = False,
    precision: Annotated[
        str, typer.Option(help="fp32, bf16 or both (bf16 only where it is native).")
    ] = "both",
    repeats: Annotated[
        int, typer.Option(help="How often everything is measured; medians are shown.", min=1)
    ] = 3,
    scale: Annotated[
        bool, typer.Option("--scale", help="Time and memory from 10 to 1,000 peers instead.")
    ] = False,
    peers: Annotated[
        bool, typer.Option("--peers", help="What the network adds, with four real peers, instead.")
    ] = False,
    frozen: Annotated[
        bool, typer.Option("--frozen", help="What it saves to compute a frozen body once, instead.")
    ] = False,
    whole: Annotated[
        bool, typer.Option("--whole", help="Complete runs, and what their time goes to, instead.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Where the table and the figure go.")] = None,
) -> None:
    """Measure the engine beside the plain PyTorch loop and the machine's matrix products, in one
    go."""
    from amity.bench import workloads
    from amity.lab.run import new_dir

    known = workloads()
    for name in names or []:
        if name not in known:
            raise ConfigError(unknown("workload", name, known))
    folder = out or new_dir("bench")
    if peers:
        _network(folder, as_json)
    elif scale:
        _scale(folder, as_json)
    elif frozen:
        _frozen(folder, as_json)
    elif whole:
        _whole(folder, repeats, as_json)
    else:
        _engine([known[name] for name in names or known], precision, repeats, folder, as_json)


def _engine(
    loads: Sequence[Any], precision: str, repeats: int, folder: Path, as_json: bool
) -> None:
    """The workloads, one after the other; as JSON each is told when it is measured."""
    from amity.bench import measure

    precisions, rows = _precisions(precision), list[Any]()
    with err_console.status("measuring") as status:
        say = status.update if err_console.is_terminal else err_console.print
        for load in loads:
            found = measure(load, precisions, say, repeats)
            rows += found
            if as_json:
                _write_json(found)
    if not as_json:
        out_console.print(_table(rows))
    _tell_figure(_save(folder, rows, "bench"))


def _scale(folder: Path, as_json: bool) -> None:
    """Time and memory by the number of peers."""
    from amity.bench.scale import measure_scale

    with err_console.status("measuring") as status:
        rows = measure_scale(status.update if err_console.is_terminal else err_console.print)
    if as_json:
        _write_json(rows)
    else:
        out_console.print(_scale_table(rows))
    _tell_figure(_save(folder, rows, "scale"))


def _frozen(folder: Path, as_json: bool) -> None:
    """A trained head on a frozen body: a table, and no figure."""
    from amity.bench.frozen import measure_frozen

    with err_console.status("measuring") as status:
        rows = measure_frozen(status.update if err_console.is_terminal else err_console.print)
    ways = ("plain loop", "body every step", "body once a round", "body kept")
    columns = ("model", "frozen", "trained", *(f"{way} (s)" for way in ways))
    table = blank_table((*columns, "x plain loop", "x every step", "x once a round"), (0,))
    for row in rows:
        seconds = (row.seconds_plain, row.seconds_steps, row.seconds_rounds, row.seconds_kept)
        ratios = (row.ratio_to_plain_loop, row.ratio_to_steps, row.ratio_to_rounds)
        sizes = (f"{row.frozen:,}", f"{row.trained:,}")
        times = (f"{t:.3g}" for t in seconds)
        table.add_row(row.model, *sizes, *times, *(f"{ratio:.1f}" for ratio in ratios))
    _tell(folder, rows, table, as_json)


def _whole(folder: Path, repeats: int, as_json: bool) -> None:
    """Complete runs: a table, and no figure."""
    from amity.bench.whole import PARTS, measure_whole

    with err_console.status("measuring") as status:
        say = status.update if err_console.is_terminal else err_console.print
        rows = measure_whole(say, repeats)
    table = blank_table(("run", "seconds", *(f"{part} (%)" for part in PARTS)), (0,))
    for row in rows:
        shares = (f"{100 * row.shares[part]:.0f}" for part in PARTS)
        table.add_row(row.run, f"{row.seconds:.3g}", *shares)
    _tell(folder, rows, table, as_json)


def _tell(folder: Path, rows: Sequence[Any], table: Table, as_json: bool) -> None:
    """Rows as JSON or as a table, and into the folder."""
    if as_json:
        _write_json(rows)
    else:
        out_console.print(table)
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(_plain(row)) + "\n" for row in rows)
    write_atomically(folder / "bench.jsonl", lines.encode())


def _write_json(rows: Sequence[Any]) -> None:
    out_console.file.write("".join(json.dumps(_plain(row)) + "\n" for row in rows))
    out_console.file.flush()


def _tell_figure(path: Path) -> None:
    err_console.print(f"figure: {path}", soft_wrap=True, markup=False)


def _network(folder: Path, as_json: bool) -> None:
    """Real peers: the extra is needed."""
    from amity.errors import needs_peers

    with needs_peers():
        from amity.bench.network import PHASES, measure_network
    with err_console.status("measuring") as status:
        rows = measure_network(status.update if err_console.is_terminal else err_console.print)
    columns = (
        "four peers on loopback",
        *(f"{phase} (s)" for phase in PHASES),
        "network adds",
        "received (MB)",
        "sealing (ms)",
        "p50 (ms)",
        "p95 (ms)",
        "MB/s",
    )
    table = blank_table(columns)
    for row in rows:
        phases = [f"{row.seconds[phase]:.3g}" if row.seconds else "" for phase in PHASES]
        numbers = (row.received_mb, row.sealing_ms, row.p50_ms, row.p95_ms, row.moved_mb_s)
        asks = [f"{value:.3g}" if value else "" for value in numbers]
        table.add_row(
            row.strategy, *phases, f"{100 * row.overhead:.0f} %" if row.seconds else "", *asks
        )
    if as_json:
        _write_json(rows)
    else:
        out_console.print(table)
    _tell_figure(_save(folder, rows, "peers"))


def _precisions(wanted: str) -> tuple[str, ...]:
    from amity.learn.learner import native_bf16

    if wanted not in ("both", "fp32", "bf16"):
        raise ConfigError(f"--precision: expected fp32, bf16 or both, got {wanted!r}")
    if wanted != "both":
        return (wanted,)
    if native_bf16(torch.device("cpu")):
        return ("fp32", "bf16")
    err_console.print(
        "this CPU has no native bf16: fp32 only (--precision bf16 measures its emulation)",
        markup=False,
    )
    return ("fp32",)


def _plain(row: Any) -> dict[str, Any]:
    def short(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: short(part) for key, part in value.items()}
        return float(f"{value:.4g}") if isinstance(value, float) else value

    return {
        key: short(value) for key, value in dataclasses.asdict(row).items() if value is not None
    }


def _table(rows: Sequence[Any]) -> Table:
    columns = (
        "workload",
        "strategy",
        "precision",
        "samples/s",
        "rounds/s",
        "x plain loop",
        "x gossip",
        "GEMM share",
        "peak MB",
    )
    table = blank_table((*columns, "train", "select", "mix", "evaluate (s)"), (0, 1, 2))
    for row in rows:
        gossip = f"{row.ratio_to_gossip:.2f}" if row.ratio_to_gossip is not None else ""
        table.add_row(
            row.workload,
            row.strategy,
            row.precision,
            f"{row.samples_per_s:,.0f}",
            f"{row.rounds_per_s:.3g}",
            f"{row.ratio_to_plain_loop:.2f}",
            gossip,
            f"{100 * row.gemm_share:.0f} %",
            f"{row.peak_mb:,.0f}",
            *(f"{row.seconds[phase]:.3g}" for phase in ("train", "select", "mix", "evaluate")),
        )
    return table


def _scale_table(rows: Sequence[Any]) -> Table:
    columns = (
        "model",
        "graph",
        "peers",
        "ms per peer and round",
        "peak MB",
        "matrix MB",
        "data MB",
        "peak / matrix",
    )
    table = blank_table(columns, (0, 1))
    for row in rows:
        numbers = (
            row.peers,
            1000 * row.seconds_per_peer,
            row.peak_mb,
            row.matrix_mb,
            row.data_mb,
            row.matrices,
        )
        table.add_row(
            row.model, row.graph, *(f"{n:,.2f}" if n < 10 else f"{n:,.0f}" for n in numbers)
        )
    return table


def _save(folder: Path, rows: Sequence[Any], kind: str) -> Path:
    from amity.bench.picture import bench_figure, network_figure, scale_figure

    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(_plain(row)) + "\n" for row in rows)
    write_atomically(folder / "bench.jsonl", lines.encode())
    path = folder / "bench.png"
    draw: Any = {"scale": scale_figure, "bench": bench_figure, "peers": network_figure}[kind]
    draw(rows).savefig(path, dpi=150, bbox_inches="tight")
    return path
