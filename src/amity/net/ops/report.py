"""A page about real peers, from their own directories: how each is doing, who took from whom, who
was refused and why."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from amity.core import PeerId
from amity.errors import AmityError, RunDirError
from amity.net.accounts import Privacy, privacy_of
from amity.net.ops.collect import peers_in, records_of
from amity.net.ops.pictures import drawn, names_of, recalls_of
from amity.net.setup import read_setup
from amity.records import EdgeRecord, PeerRecord, TimingRecord
from amity.registry import reading
from amity.round.build import load_data
from amity.show import figures
from amity.show.alone import worth_of
from amity.show.exhibits import Sheet
from amity.show.foot import foot
from amity.show.page import framed, page, section
from amity.store import read_config, read_lines, read_records
from amity.tasks import ACCURACY, Metric


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
    classes: Sequence[str] = ()
    """What the classes are called, if that is known here."""
    metric: Metric = ACCURACY
    """The one that leads."""

    @classmethod
    def read(cls, name: PeerId, state: Path) -> PeerStory:
        told = Counter(str(record["kind"]) for record in read_lines(state / "disclosed.jsonl"))
        config = read_config(state) if (state / "config.toml").is_file() else None
        return cls(
            name=name,
            metrics=records_of(state),
            edges=read_records(state / "edges.jsonl", EdgeRecord),
            timings=read_records(state / "timings.jsonl", TimingRecord),
            log=read_lines(state / "audit.jsonl"),
            disclosed=told,
            privacy=privacy_of(state, config) if config is not None else None,
            metric=ACCURACY if config is None else config.metric,
            classes=_classes(state.parent),
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


def _classes(folder: Path) -> tuple[str, ...]:
    """As a peer's own file and data call them; none where these are elsewhere."""
    if not (folder / "peer.toml").is_file():
        return ()
    try:
        with reading():
            setup = read_setup(folder)
        return setup.who.classes or load_data(setup.config).names
    except AmityError:  # the numbers will do
        return ()


def stories(folder: Path) -> list[PeerStory]:
    return [PeerStory.read(name, state) for name, state in sorted(peers_in(folder).items())]


def peers_html(folder: Path) -> str:
    """The page of one peer, or of several that were put side by side."""
    found = _begun(folder)
    names = ", ".join(story.name for story in found)
    states = list(peers_in(folder).values())
    return page(
        "Amity: peers",
        f"<h1>{html.escape(names)}</h1>",
        _summary(found),
        *(
            section(*SAID[name], framed(figures.svg(figure), SAID[name][0]))
            for name, figure in drawn(found).items()
        ),
        _refusals(found),
        foot=foot(states[0], states, "peers"),
        replays=folder,
    )


SAID = {
    "accuracy": ("Accuracy by round", "Of each peer, on its own test examples."),
    "matrix": ("Who took from whom", "Mean weight over all rounds; row: who took."),
    "classes": (
        "Recall by class",
        "Of the test examples of a class, how many are classified right in the last round that was"
        " measured. Balanced accuracy is a peer's mean over the classes that it has.",
    ),
}


def _begun(folder: Path) -> list[PeerStory]:
    """The peers of a folder, if any of them has done anything."""
    found = stories(folder)
    if not any(story.metrics for story in found):
        raise RunDirError(f"{folder}: no peer has finished a round yet")
    return found


def sections(folder: Path) -> list[str]:
    """For the page of a swarm, which has pictures of its own."""
    found = stories(folder)
    return [_summary(found), _refusals(found)]


def peer_pictures(folder: Path) -> Iterable[tuple[str, Figure]]:
    """The pictures of the page, by name."""
    return drawn(_begun(folder)).items()


def peer_sheets(folder: Path) -> dict[str, Sheet]:
    """The tables of the page, by name."""
    found = _begun(folder)
    lines = [[str(cell) for cell in _row(story)] for story in found]
    rows = [dict(zip(HEAD, line, strict=True)) for line in lines]
    recalls = recalls_of(found)
    names = names_of(found, recalls)
    classes = [
        {"peer": peer, "class": c, "name": names[c], "right": r.right, "all": r.all}
        for peer, part in recalls.items()
        for c, r in part.items()
    ]
    sheets = {
        "peers": Sheet(rows=rows, head=HEAD, lines=lines),
        "classes": Sheet(rows=classes, text=0),
    }
    return {name: sheet for name, sheet in sheets.items() if sheet.rows}


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    top = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table><tr>{top}</tr>{body}</table></div>'


HEAD = (
    *("peer", "rounds", "last", "accuracy", "balanced", "taken", "MB in", "MB out", "s a round"),
    *("late others", "refused", "disclosed"),
)


def _summary(found: Sequence[PeerStory]) -> str:
    note = (
        "What each peer wrote of itself. Late others: cards that did not come in time. Disclosed:"
        " answers that left it."
    )
    called = found[0].metric.called if found else ACCURACY.called
    head = tuple(called if name == ACCURACY.name else name for name in HEAD)
    table = _table(head, [_row(story) for story in found])
    said = [part(story) for part in (_worth, _privacy) for story in found]
    return section("The peers", note, table + "".join(said))


def _row(story: PeerStory) -> tuple[object, ...]:
    """One peer, under the words of `HEAD`."""
    metrics, seconds = story.metrics, [r.seconds for r in story.timings]
    scores = [value for r in metrics if (value := r.lead()) is not None]
    balanced = [r.balanced for r in metrics if r.balanced is not None]
    disclosed = [f"{kind} {count}" for kind, count in sorted(story.disclosed.items())]
    return (
        story.name,
        len(metrics),
        metrics[-1].round if metrics else "-",
        story.metric.text(scores[-1]) if scores else "-",
        f"{100 * balanced[-1]:.1f} %" if balanced else "-",
        f"{np.mean([r.taken for r in metrics]):.1f}" if metrics else "-",
        f"{sum(r.received for r in metrics) / 1e6:.2f}",
        f"{sum(r.sent for r in metrics) / 1e6:.2f}",
        f"{np.median(seconds):.2f}" if seconds else "-",
        sum(story.events("late").values()),
        sum(story.events("refused").values()),
        ", ".join(disclosed) or "-",
    )


def _worth(story: PeerStory) -> str:
    """What collaboration is worth to a peer, where it has a shadow."""
    found = worth_of(story.metrics, story.metric)
    return "".join(f"<p>{html.escape(f'{peer}: {worth}')}.</p>" for peer, worth in found.items())


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
