"""The figures of `amity bench`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from amity.bench.measure import Measurement
from amity.bench.scale import ScaleRow
from amity.show.figures import COLOURS

if TYPE_CHECKING:
    from amity.bench.network import Networked


def bench_figure(rows: Sequence[Measurement]) -> Figure:
    """How many times as fast as the plain loop, and what a round's time went to."""
    figure = Figure(figsize=(9, 1 + 0.45 * len(rows)))
    ratios, phases = figure.subplots(1, 2, sharey=True)
    labels = [f"{row.workload} {row.strategy} {row.precision}" for row in rows]
    bars = ratios.barh(labels, [row.ratio_to_plain_loop for row in rows], color=COLOURS[0])
    ratios.bar_label(bars, [f"{row.ratio_to_plain_loop:.1f} x" for row in rows], padding=3)
    ratios.axvline(1, color="black", linewidth=0.8, linestyle="--")
    ratios.set(
        xlabel="speed, plain PyTorch loop = 1",
        xlim=(0, 1.2 * max(row.ratio_to_plain_loop for row in rows)),
    )
    ratios.invert_yaxis()
    left = [0.0] * len(rows)
    for at, phase in enumerate(("train", "select", "mix")):
        share = [row.seconds[phase] * row.rounds_per_s for row in rows]
        phases.barh(labels, share, left=left, color=COLOURS[at], label=phase)
        left = [a + b for a, b in zip(left, share, strict=True)]
    phases.set(xlabel="share of a round's time", xlim=(0, 1))
    phases.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    return figure


def scale_figure(rows: Sequence[ScaleRow]) -> Figure:
    """Time a peer and round, and peak memory over the parameter matrix, by the number of peers."""
    figure = Figure(figsize=(9, 3.2))
    time, memory = figure.subplots(1, 2)
    for at, model in enumerate(dict.fromkeys(row.model for row in rows)):
        mine = [row for row in rows if row.model == model]
        peers = [row.peers for row in mine]
        time.plot(
            peers,
            [1000 * row.seconds_per_peer for row in mine],
            "o-",
            color=COLOURS[at],
            label=model,
        )
        memory.plot(peers, [row.matrices for row in mine], "o-", color=COLOURS[at], label=model)
    time.set(xscale="log", xlabel="peers", ylabel="ms per peer and round", ylim=(0, None))
    memory.set(
        xscale="log", xlabel="peers", ylabel="(peak - data) / parameter matrix", yscale="log"
    )
    memory.axhline(2.5, color="black", linewidth=0.8, linestyle="--")
    time.legend(frameon=False)
    return figure


def network_figure(rows: Sequence[Networked]) -> Figure:
    """What a round's time goes to with real peers."""
    timed = [row for row in rows if row.seconds]
    figure = Figure(figsize=(7, 1 + 0.5 * len(timed)))
    axes = figure.subplots()
    left = [0.0] * len(timed)
    for at, phase in enumerate(timed[0].seconds):
        width = [row.seconds[phase] for row in timed]
        axes.barh([row.strategy for row in timed], width, left=left, color=COLOURS[at], label=phase)
        left = [a + b for a, b in zip(left, width, strict=True)]
    axes.set(xlabel="seconds of a round, four peers on loopback")
    axes.legend(
        ncols=len(timed[0].seconds), loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False
    )
    return figure
