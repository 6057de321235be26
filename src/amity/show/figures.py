"""The pictures of a report, as SVG text. Colours are told apart by colour-blind readers, and lines
by their dashes."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import MaxNLocator
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from amity.core import START
from amity.data import Dataset
from amity.round.truth import Friendship
from amity.show.summary import received_by_round

if TYPE_CHECKING:
    from amity.lab.result import Result

COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
    "#8C6D1F",
    "#7F7F7F",
    "#6A3D9A",
)
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)))
Runs = Mapping[str, "Sequence[Result]"]
Array = np.ndarray[Any, np.dtype[Any]]

mpl.rcParams |= {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "amity",
    "svg.fonttype": "none",
    "figure.max_open_warning": 0,
}


def svg(figure: Figure) -> str:
    """The figure as an <svg> element; the same data gives the same text."""
    stream = io.StringIO()
    figure.savefig(stream, format="svg", bbox_inches="tight", metadata={"Date": None})
    text = stream.getvalue()
    return text[text.index("<svg") :]


STRATEGIES = {
    "afind+": "#0072B2",
    "gossip": "#D55E00",
    "federico": "#009E73",
    "pens": "#CC79A7",
    "afind": "#56B4E9",
    "fedavg": "#E69F00",
    "local": "#7F7F7F",
    "oracle": "#000000",
    "fomo": "#8C6D1F",
    "friends": "#C2003A",
    "dac": "#8FBC3C",
    "dpfl": "#5E4FA2",
    "epidemic": "#F4A582",
    "facade": "#01665E",
    "fedamp": "#B35806",
    "fedsim": "#80CDC1",
    "ifca": "#542788",
    "l2c": "#C2A5CF",
    "metropolis": "#1A9850",
    "morph": "#F1B6DA",
    "pfedgraph": "#003C7E",
}
"""A strategy has the same colour in every picture."""


PARTS = {
    "i": "#9BC8E3",
    "i+ii": STRATEGIES["afind"],
    "i+ii+iii": STRATEGIES["afind+"],
    "blind": "#B8B8B8",
}
"""AFIND+ in the ablation."""
OTHERS = (
    "#332288",
    "#AA4499",
    "#44AA99",
    "#999933",
    "#882255",
    "#DDCC77",
    "#117733",
    "#CC6677",
    "#6699CC",
)
"""For what is no strategy: tasks, rates, strategies of one's own."""


def styles(labels: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Colour and dashes of every line of a picture: a strategy's own colour, and dashes for its
    variants."""
    families: dict[str, list[str]] = {}
    others = 0
    for label in (labels := list(dict.fromkeys(labels))):
        colour = PARTS.get(label) or STRATEGIES.get(_name(label))
        if colour is None:
            colour, others = OTHERS[others % len(OTHERS)], others + 1
        families.setdefault(colour, []).append(label)
    out = {}
    for colour, family in families.items():
        plain_first = sorted(
            family, key=lambda label: label.lower() not in (_name(label), f"{_name(label)}:tuned")
        )
        for at, label in enumerate(plain_first):
            out[label] = {"color": colour, "linestyle": DASHES[at % len(DASHES)]}
    return {label: out[label] for label in labels}


def _name(label: str) -> str:
    """`gossip` of `gossip:k=5/krum@ditto` and of `Gossip k=1`."""
    return re.split(r"[:/@ (,]", label.lower())[0]


def _axes(width: float = 6.4, height: float = 3.8) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height))
    return figure, figure.subplots()


def _curves(results: Sequence[Result]) -> tuple[Array, Array]:
    """Rounds, and accuracy in percent: one row a seed."""
    return np.array([t for t, _ in results[0].curve]) + 1, 100 * np.array(
        [[a for _, a in r.curve] for r in results]
    )


def accuracy_curves(runs: Runs) -> Figure:
    """Mean test accuracy by round; the band is one standard deviation over seeds."""
    figure, axes = _axes()
    draw_accuracy(axes, runs)
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def draw_accuracy(axes: Axes, runs: Runs) -> None:
    """The curves of `accuracy_curves`, without a legend."""
    look = styles(runs)
    for label, results in runs.items():
        rounds, accuracy = _curves(results)
        mean, spread = accuracy.mean(0), accuracy.std(0)
        axes.plot(rounds, mean, label=label, **look[label])
        if len(results) > 1:
            axes.fill_between(
                rounds,
                mean - spread,
                mean + spread,
                alpha=0.12,
                color=look[label]["color"],
                linewidth=0,
            )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="round", ylabel="test accuracy, mean over peers (%)")
    _focus(axes, runs)


def _focus(axes: Axes, runs: Runs) -> None:
    """Leave the first steep rise below the picture: the differences are near the end."""
    finals = [100 * result.accuracy for results in runs.values() for result in results]
    lowest = min(
        100 * accuracy for results in runs.values() for r in results for _, accuracy in r.curve
    )
    axes.set_ylim(bottom=max(lowest, min(finals) - 6))


def megabytes_by_round(result: Result) -> Array:
    """Cumulative megabytes received by a peer, at the rounds of the curve."""
    return np.asarray(received_by_round(result)[[t for t, _ in result.curve]])


def accuracy_by_bytes(runs: Runs) -> Figure:
    """The same accuracies against what they cost in traffic."""
    figure, axes = _axes()
    look = styles(runs)
    for label, results in runs.items():
        _, accuracy = _curves(results)
        moved = np.mean([megabytes_by_round(r) for r in results], 0)
        if moved[-1] == 0:
            axes.axhline(
                accuracy.mean(0)[-1], label=f"{label} (moves nothing)", linewidth=1, **look[label]
            )
        else:
            axes.plot(moved, accuracy.mean(0), label=label, **look[label])
            axes.plot(
                moved[-1], accuracy.mean(0)[-1], "o", color=look[label]["color"], markersize=4
            )
    axes.set(xlabel="MB received by a peer so far", ylabel="test accuracy, mean over peers (%)")
    _focus(axes, runs)
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def neighbours_taken(runs: Runs) -> Figure:
    """How many neighbours a peer takes, by round: the mean, and (single runs) the range from least
    to most."""
    figure, axes = _axes()
    look = styles(runs)
    for label, results in runs.items():
        mean = np.mean([[r.taken for r in result.rounds] for result in results], 0)
        rounds = np.arange(1, len(mean) + 1)
        axes.plot(rounds, mean, label=label, **look[label])
        if len(runs) == 1:
            by_round: dict[int, list[int]] = {}
            for r in results[0].metrics:
                by_round.setdefault(r.round, []).append(r.taken)
            low, high = zip(*[(min(v), max(v)) for _, v in sorted(by_round.items())], strict=True)
            axes.fill_between(
                rounds, low, high, alpha=0.15, color=look[label]["color"], linewidth=0
            )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="round", ylabel="neighbours taken, mean over peers")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def recall_of_friends(runs: Runs) -> Figure | None:
    """Which share of all friends in reach was taken, by round, mean over seeds; None where nobody
    has a friend."""
    shares = {
        label: np.array(
            [[np.nan if r.recall is None else r.recall for r in one.rounds] for one in results]
        )
        for label, results in runs.items()
    }
    found = {label: share for label, share in shares.items() if np.isfinite(share).any()}
    if not found:
        return None
    figure, axes = _axes()
    look = styles(runs)
    for label, share in found.items():
        known = np.isfinite(share).any(0)
        rounds = np.arange(1, share.shape[1] + 1)[known]
        axes.plot(rounds, 100 * np.nanmean(share[:, known], 0), label=label, **look[label])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="round", ylabel="friends in reach that were taken (%)", ylim=(-3, 103))
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def mixing_matrix(result: Result, names: Sequence[str], last: float = 0.4) -> Array:
    """W, mean over the last rounds: row i is how much peer i took from whom (its own part on the
    diagonal)."""
    at = {name: i for i, name in enumerate(names)}
    since = int(result.config.rounds * (1 - last))
    matrix, count = np.zeros((len(names), len(names))), np.zeros((len(names), 1))
    for edge in result.edges:
        if edge.round >= since:
            count[at[edge.peer]] += 1
            for j, weight in edge.row.items():
                matrix[at[edge.peer], at[edge.peer if j == START else j]] += weight
    return np.asarray(matrix / count.clip(1))


def similar_order(overlap: Array) -> Array:
    """Peers in an order that puts similar ones side by side."""
    if len(overlap) < 3:
        return np.arange(len(overlap))
    distance = 1 - (overlap + overlap.T) / 2
    np.fill_diagonal(distance, 0)
    return np.asarray(leaves_list(linkage(squareform(distance.clip(0), checks=False), "average")))


def order_of(friendship: Friendship) -> Array:
    """Peers group by group, where there are groups, and similar labels side by side."""
    place = np.argsort(similar_order(friendship.overlap))
    return np.lexsort((place, friendship.group_numbers))


def heat_maps(runs: Runs, friendship: Friendship) -> Figure:
    """Who took from whom (the first seed's last rounds, without the diagonal) beside the truth.
    Every matrix has a scale of its own, from 0 to its largest value."""
    order, truth = order_of(friendship), friendship.matrix
    title = "true groups" if friendship.kind == "group" else "true label similarity"
    panels: list[tuple[str, Array]] = [(title, truth)]
    panels += [
        (label, mixing_matrix(results[0], friendship.names)) for label, results in runs.items()
    ]
    columns = min(5, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(2.3 * columns, 2.25 * rows))
    grid = np.atleast_1d(figure.subplots(rows, columns, squeeze=False)).ravel()
    for axes in grid:
        axes.axis("off")
    for axes, (title, matrix) in zip(grid, panels, strict=False):
        colours = "Greens" if matrix is truth else "Blues"
        heat(figure, axes, matrix[np.ix_(order, order)].copy(), colours)
        axes.set_title(
            title if len(title) < 26 else title[:24] + "…", fontsize=8 if len(title) < 18 else 6
        )
    return figure


def heat(figure: Figure | SubFigure, axes: Axes, shown: Array, colours: str) -> None:
    """One matrix without its diagonal, and its scale."""
    np.fill_diagonal(shown, np.nan)
    most = float(np.nanmax(shown)) if np.nansum(shown) > 0 else 1.0
    image = axes.imshow(shown, cmap=colours, vmin=0, vmax=most, interpolation="nearest")
    bar = figure.colorbar(image, ax=axes, fraction=0.046, pad=0.03, ticks=[0, most])
    bar.ax.set_yticklabels(["0", f"{most:.2g}"], fontsize=6)
    bar.outline.set_visible(False)


def partition_bubbles(friendship: Friendship) -> Figure:
    """Peers x classes: the area of a bubble is the class's share of the peer's training
    examples. Lines stand between groups."""
    order, labels, names = order_of(friendship), friendship.shares, friendship.names
    peers, classes = labels.shape
    figure, axes = _axes(
        max(4.0, min(12.0, 0.28 * peers + 1.5)), max(2.2, min(10.0, 0.22 * classes + 1))
    )
    x, y = np.meshgrid(np.arange(peers), np.arange(classes), indexing="ij")
    size = labels[order] * min(140.0, 6000 / max(peers, classes))
    axes.scatter(x.ravel(), y.ravel(), s=size.ravel(), color=COLOURS[0], alpha=0.75, linewidth=0)
    for edge in np.flatnonzero(np.diff(friendship.group_numbers[order])):
        axes.axvline(edge + 0.5, color="grey", linewidth=0.8)
    axes.set(xlabel="peer (similar ones side by side)", ylabel="class")
    if classes <= 20:
        axes.set_yticks(range(classes))
    if peers <= 40:
        axes.set_xticks(range(peers), [names[i].removeprefix("peer-") for i in order], fontsize=7)
    return figure


def gain_by_peer(gains: Mapping[str, Sequence[float]]) -> Figure:
    """Who gains and who is harmed: the gain over Local of every peer of every seed, by strategy."""
    figure, axes = _axes(6.4, 0.36 * len(gains) + 1)
    for at, (label, values) in enumerate(reversed(list(gains.items()))):
        points = 100 * np.sort(np.array(values))
        jitter = ((np.arange(len(points)) * 0.618) % 1 - 0.5) * 0.5
        harmed = points < 0
        axes.scatter(
            points[~harmed], at + jitter[~harmed], s=9, color=COLOURS[0], alpha=0.5, linewidth=0
        )
        axes.scatter(
            points[harmed], at + jitter[harmed], s=9, color=COLOURS[1], alpha=0.7, linewidth=0
        )
        axes.plot([points.mean()] * 2, [at - 0.35, at + 0.35], color="black", linewidth=1.5)
        axes.text(1.01, at, label, transform=axes.get_yaxis_transform(), va="center", fontsize=8)
    axes.axvline(0, color="grey", linewidth=0.8)
    axes.set(xlabel="gain over Local (points); the bar is the mean", yticks=[])
    return figure


def heat_table(
    rows: Sequence[str],
    columns: Sequence[str],
    value: Array,
    weight: Sequence[Sequence[float | None]],
) -> Figure:
    """Accuracies as a coloured table; the small figures are the share of an honest peer's row that
    attackers obtain."""
    figure, axes = _axes(0.95 * len(columns) + 1.8, 0.42 * len(rows) + 1)
    low = float(np.nanpercentile(value, 10))
    image = axes.imshow(value, cmap="RdYlBu", vmin=low, vmax=float(np.nanmax(value)), aspect="auto")
    middle = (low + float(np.nanmax(value))) / 2
    for r in range(len(rows)):
        for c in range(len(columns)):
            if np.isfinite(value[r, c]):
                far = abs(value[r, c] - middle) > 0.35 * (2 * (middle - low))
                colour = "white" if far else "black"
                axes.text(
                    c,
                    r - 0.12,
                    f"{value[r, c]:.1f}",
                    ha="center",
                    va="center",
                    fontsize=8,
                    color=colour,
                )
                share = weight[r][c]
                if share is not None:
                    axes.text(
                        c,
                        r + 0.28,
                        f"{100 * share:.0f} %",
                        ha="center",
                        va="center",
                        fontsize=6,
                        color=colour,
                    )
    axes.set_xticks(
        range(len(columns)),
        [name.replace("_", " ") for name in columns],
        rotation=30,
        ha="right",
        fontsize=8,
    )
    axes.set_yticks(range(len(rows)), rows, fontsize=8)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, fraction=0.03, pad=0.02, extend="min")
    bar.set_label(
        "accuracy of honest peers (%); small: the weight that attackers obtain", fontsize=8
    )
    return figure


def leakage_panels(
    panels: Sequence[tuple[str, str, list[str], Mapping[str, Sequence[tuple[float, float]]]]],
) -> Figure:
    """Side by side: lines over a few settings, with one standard deviation over seeds."""
    figure = Figure(figsize=(4.2 * len(panels), 3.4))
    for axes, (title, label, ticks, lines) in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True
    ):
        x = np.arange(len(ticks))
        look = styles(lines)
        for name, points in lines.items():
            mean, std = np.array(points).T
            axes.errorbar(
                x, mean, std, marker="o", markersize=4, capsize=3, label=name, **look[name]
            )
        axes.set_xticks(x, ticks)
        axes.set(title=title, xlabel=label, ylim=(-0.05, 1.05))
        axes.title.set_fontsize(9)
        axes.axhline(0, color="grey", linewidth=0.8)
        axes.legend(
            fontsize=7,
            frameon=False,
            ncol=3 if len(lines) > 4 else 2,
            loc="upper center",
            bbox_to_anchor=(0.5, -0.2),
        )
    figure.axes[0].set_ylabel("leakage (0: nothing, 1: everything)")
    figure.tight_layout()
    return figure


def contact_sheet(dataset: Dataset, columns: int = 12, classes: int = 20) -> Figure:
    """The first training images of every class, a row a class."""
    shown = min(classes, dataset.classes)
    channels, height, width = dataset.shape
    sheet = np.full((shown * (height + 2), columns * (width + 2), 3), 1.0)
    labels = dataset.labels[dataset.train]
    for row in range(shown):
        for column, at in enumerate(dataset.train[labels == row][:columns]):
            image = dataset.pixels.x[int(at)].float().numpy()
            image = (image - image.min()) / max(float(np.ptp(image)), 1e-12)
            picture = np.repeat(image[:1], 3, 0) if channels < 3 else image[:3]
            top, left = row * (height + 2), column * (width + 2)
            sheet[top : top + height, left : left + width] = picture.transpose(1, 2, 0)
    figure, axes = _axes(8.0, 8.0 * sheet.shape[0] / sheet.shape[1])
    axes.imshow(sheet, interpolation="nearest")
    names = dataset.names or tuple(map(str, range(dataset.classes)))
    axes.set_yticks(
        [row * (height + 2) + height / 2 for row in range(shown)], names[:shown], fontsize=7
    )
    axes.set_xticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    return figure
