"""A page about real peers, from their own directories: how each is doing, who took from whom, who
was refused and why."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from amity.core import START, PeerId
from amity.errors import RunDirError
from amity.net.accounts import Privacy, privacy_of
from amity.net.ops.collect import peers_in, records_of
from amity.records import EdgeRecord, PeerRecord, TimingRecord
from amity.show import figures
from amity.show.page import framed, page, section
from amity.store import read_config, read_lines, read_records


@dataclass(frozen=True, kw_only=True)
class PeerStory:
    """What one peer has written of itself."""

    name: PeerId
    metrics: Sequence[PeerRecord]
    edges: Sequence[EdgeRecord]
    timings: Sequence[TimingRecord]
    log: Sequence[Mapping[str, Any]]
    disclosed: Counter[str]
    privacy: Privacy | None = None

    @classmethod
    def read(cls, name: PeerId, state: Path) -> PeerStory:
        told = Counter(str(record["kind"]) for record in read_lines(state / "disclosed.jsonl"))
        written = (state / "config.toml").is_file()
        return cls(
            name=name,
            metrics=records_of(state),
            edges=read_records(state / "edges.jsonl", EdgeRecord),
            timings=read_records(state / "timings.jsonl", TimingRecord),
            log=read_lines(state / "audit.jsonl"),
            disclosed=told,
            privacy=privacy_of(state, read_config(state)) if written else None,
        )

    def events(self, kind: str) -> Counter[tuple[str, str]]:
        """By peer and reason, how often."""
        counts: Counter[tuple[str, str]] = Counter()
        for record in self.log:
            if record["event"] == kind:
                counts[str(record.get("peer", "")), str(record.get("why", ""))] += int(
                    record.get("count", 1)
                )
        return counts


def stories(folder: Path) -> list[PeerStory]:
    return [PeerStory.read(name, state) for name, state in sorted(peers_in(folder).items())]


def peers_html(folder: Path) -> str:
    """The page of one peer, or of several that were put side by side."""
    found = stories(folder)
    if not any(story.metrics for story in found):
        raise RunDirError(f"{folder}: no peer has finished a round yet")
    names = ", ".join(story.name for story in found)
    return page("Amity: peers", f"<h1>{html.escape(names)}</h1>", *_sections(found))


def sections(folder: Path) -> list[str]:
    """For the page of a swarm, which has pictures of its own."""
    found = stories(folder)
    return [_summary(found), _refusals(found)]


def _sections(found: Sequence[PeerStory]) -> list[str]:
    return [
        _summary(found),
        section(
            "Accuracy by round",
            "Of each peer, on its own test examples.",
            framed(figures.svg(_curves(found)), "Accuracy by round"),
        ),
        section(
            "Who took from whom",
            "Mean weight over all rounds; row: who took.",
            framed(figures.svg(_matrix(found)), "Who took from whom"),
        ),
        _refusals(found),
    ]


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    top = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><tr>{top}</tr>{body}</table>"


HEAD = (
    *("peer", "rounds", "last", "accuracy", "taken", "MB in", "MB out", "s a round"),
    *("late others", "refused", "disclosed"),
)


def _summary(found: Sequence[PeerStory]) -> str:
    note = (
        "What each peer wrote of itself. Late others: cards that did not come in time. Disclosed:"
        " answers that left it."
    )
    table = _table(HEAD, [_row(story) for story in found])
    return section("The peers", note, table + "".join(_privacy(story) for story in found))


def _row(story: PeerStory) -> tuple[object, ...]:
    """One peer, under the words of `HEAD`."""
    metrics, seconds = story.metrics, [r.seconds for r in story.timings]
    scores = [r.accuracy for r in metrics if r.accuracy is not None]
    disclosed = [f"{kind} {count}" for kind, count in sorted(story.disclosed.items())]
    return (
        story.name,
        len(metrics),
        metrics[-1].round if metrics else "-",
        f"{100 * scores[-1]:.1f} %" if scores else "-",
        f"{np.mean([r.taken for r in metrics]):.1f}" if metrics else "-",
        f"{sum(r.received for r in metrics) / 1e6:.2f}",
        f"{sum(r.sent for r in metrics) / 1e6:.2f}",
        f"{np.median(seconds):.2f}" if seconds else "-",
        sum(story.events("late").values()),
        sum(story.events("refused").values()),
        ", ".join(disclosed) or "-",
    )


def _privacy(story: PeerStory) -> str:
    """What differential privacy has cost a peer, where it has any."""
    if story.privacy is None:
        return ""
    return (
        f"<p>{html.escape(story.name)}: {html.escape(story.privacy.statement)}"
        f" ({story.privacy.steps} steps).</p>"
    )


def _refusals(found: Sequence[PeerStory]) -> str:
    rows = [
        (story.name, kind, peer or "(unknown)", why, count)
        for story in found
        for kind in ("refused", "late", "missing", "error")
        for (peer, why), count in sorted(story.events(kind).items())
    ]
    if not rows:
        return section("Refused, late, missing", "Nothing was.", "")
    return section(
        "Refused, late, missing",
        "By whom, about whom, and why.",
        _table(("at", "what", "who", "why", "times"), rows),
    )


def _curves(found: Sequence[PeerStory]) -> Figure:
    figure = Figure(figsize=(6.4, 3.8))
    axes = figure.subplots()
    look = figures.styles(story.name for story in found)
    for story in found:
        points = [(r.round + 1, 100 * r.accuracy) for r in story.metrics if r.accuracy is not None]
        if points:
            axes.plot(*zip(*points, strict=True), label=story.name, **look[story.name])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="round", ylabel="test accuracy (%)")
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _matrix(found: Sequence[PeerStory]) -> Figure:
    rows = [story.name for story in found]
    columns = sorted(
        {*rows, *(j for story in found for edge in story.edges for j in edge.row if j != START)}
    )
    weights = np.zeros((len(rows), len(columns)))
    for at, story in enumerate(found):
        for edge in story.edges:
            for j, weight in edge.row.items():
                weights[at, columns.index(story.name if j == START else j)] += weight / len(
                    story.edges
                )
    figure = Figure(figsize=(1.5 + 0.45 * len(columns), 1.2 + 0.35 * len(rows)))
    axes = figure.subplots()
    image = axes.imshow(weights, cmap="Blues", vmin=0, aspect="auto")
    axes.set_xticks(range(len(columns)), columns, rotation=90)
    axes.set_yticks(range(len(rows)), rows)
    figure.colorbar(image, ax=axes, label="weight")
    return figure
