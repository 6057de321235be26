"""What a report shows, as single pictures and tables: for papers, slides and other programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING, Any

from amity.show.classes import of_runs
from amity.show.columns import NONE, cells_of, columns_of
from amity.show.panels import Picture, panels
from amity.show.panels.winners import winners
from amity.show.story import Story
from amity.show.summary import apart

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """A table: plain values for programs (CSV), and text for people (LaTeX)."""

    rows: Sequence[Mapping[str, Any]]
    head: Sequence[str] = ()
    lines: Sequence[Sequence[str]] = ()
    """Empty: it is too long for people."""
    text: int = 1
    """How many columns are words."""


def pictures_of(story: Story) -> Iterator[tuple[str, Figure]]:
    """All pictures of the report, by name."""
    for entry in panels:
        panel = entry.build({})
        drawn = panel.figure(story) if isinstance(panel, Picture) else None
        if drawn is not None:
            yield entry.name, drawn


def sheets_of(story: Story) -> dict[str, Sheet]:
    """All tables of the report, by name."""
    found = {
        "summary": summary(story),
        "differences": differences(story),
        "classes": classes(story),
        "peers": peers(story),
    }
    if story.tries is not None:
        head, lines = winners(story)
        rows = [dict(zip(head, line, strict=True)) for line in lines]
        found["winners"] = Sheet(rows=rows, head=head, lines=lines, text=2)
    return {name: sheet for name, sheet in found.items() if sheet.rows}


def summary(story: Story) -> Sheet:
    """One line for each strategy."""
    columns = columns_of(story.lines)
    cells = [cells_of(line, columns) for line in story.lines]
    bold = [
        [f"**{cell}**" if at == 1 and line.label == story.leader else cell for at, cell in row]
        for line, row in zip(story.lines, map(enumerate, cells), strict=True)
    ]
    rows = [line.as_dict() for line in story.lines]
    return Sheet(rows=rows, head=[column.name for column in columns], lines=bold)


def differences(story: Story) -> Sheet:
    """All pairs of strategies, paired by seed, in points."""
    gaps = {
        (one, other): apart(story.runs[one], story.runs[other])
        for one, other in permutations(story.runs, 2)
    }
    rows = [
        {
            "strategy": one,
            "minus": other,
            "points": gap.mean,
            "half of 95 % interval": gap.half,
            "seeds": gap.seeds,
        }
        for (one, other), gap in gaps.items()
        if gap is not None
    ]
    lines = [
        [one, *(str(gaps.get((one, other)) or "") for other in story.runs)] for one in story.runs
    ]
    return Sheet(rows=rows, head=["row minus column", *story.runs], lines=lines)


def classes(story: Story) -> Sheet:
    """Recall by class of each strategy, over all peers and seeds."""
    found = {label: of_runs(runs) for label, runs in story.runs.items()}
    rows = [
        {
            "strategy": label,
            "class": number,
            "name": story.class_names[number],
            "right": recall.right,
            "all": recall.all,
            "recall": recall.share,
        }
        for label, by_class in found.items()
        for number, recall in by_class.items()
    ]
    lines = [
        [
            name,
            *(
                f"{100 * by_class[number].share:.1f}" if number in by_class else NONE
                for by_class in found.values()
            ),
        ]
        for number, name in story.class_names.items()
    ]
    return Sheet(rows=rows, head=["recall (%)", *found], lines=lines)


def peers(story: Story) -> Sheet:
    """Every honest peer of every run in the last round; for people only if it is a single run."""
    named = story.metric.name
    rows: list[dict[str, Any]] = [
        {
            "strategy": label,
            "seed": run.config.seed,
            "peer": peer,
            named: accuracy,
            "balanced": run.final("balanced").get(peer),
            "taken": run.final("taken").get(peer),
            "vs local": None if alone is None else story.metric.gain(accuracy, alone[peer]),
        }
        for label, runs in story.runs.items()
        for run in runs
        for alone in [_alone(story, run.config.seed)]
        for peer, accuracy in run.final().items()
    ]
    head = ("peer", named, "balanced", "taken")
    lines = [
        [
            row["peer"],
            story.metric.number(row[named]),
            _tenths(row["balanced"]),
            str(row["taken"]),
        ]
        for row in rows
        if story.single is not None
    ]
    return Sheet(rows=rows, head=head, lines=lines)


def _tenths(value: float | None) -> str:
    return NONE if value is None else f"{100 * value:.1f}"


def _alone(story: Story, seed: int) -> dict[str, float] | None:
    """Accuracies of the peers that train alone, with the same seed."""
    return next((run.final() for run in story.alone if run.config.seed == seed), None)
