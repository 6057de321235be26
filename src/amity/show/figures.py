"""How pictures look, and how they become SVG text. Colours are told apart by colour-blind readers,
and lines by their dashes."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from amity.data import Dataset

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
    "pdf.fonttype": 42,
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


def axes_of(width: float = 6.4, height: float = 3.8) -> tuple[Figure, Axes]:
    """A picture of one plot."""
    figure = Figure(figsize=(width, height))
    return figure, figure.subplots()


def broken(label: str, width: int = 24) -> str:
    """A long label on several lines, broken after its separators: a name is never cut."""
    lines = [""]
    for part in re.findall(r"[^:,/@ ]*[:,/@ ]*", label):
        if lines[-1] and len((lines[-1] + part).rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


def heat_table(
    rows: Sequence[str],
    columns: Sequence[str],
    value: Array,
    weight: Sequence[Sequence[float | None]],
) -> Figure:
    """Accuracies as a coloured table; the small figures are the share of an honest peer's row that
    attackers obtain."""
    figure, axes = axes_of(0.95 * len(columns) + 1.8, 0.42 * len(rows) + 1)
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
    channels, height, width = dataset.sides
    sheet = np.full((shown * (height + 2), columns * (width + 2), 3), 1.0)
    labels = dataset.labels[dataset.train]
    for row in range(shown):
        for column, at in enumerate(dataset.train[labels == row][:columns]):
            image = dataset.pixels.x[int(at)].float().numpy()
            image = (image - image.min()) / max(float(np.ptp(image)), 1e-12)
            picture = np.repeat(image[:1], 3, 0) if channels < 3 else image[:3]
            top, left = row * (height + 2), column * (width + 2)
            sheet[top : top + height, left : left + width] = picture.transpose(1, 2, 0)
    figure, axes = axes_of(8.0, 8.0 * sheet.shape[0] / sheet.shape[1])
    axes.imshow(sheet, interpolation="nearest")
    names = dataset.names or tuple(map(str, range(dataset.classes)))
    axes.set_yticks(
        [row * (height + 2) + height / 2 for row in range(shown)], names[:shown], fontsize=7
    )
    axes.set_xticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    return figure
