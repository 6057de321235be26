"""The columns of a table of strategies, as text. A column in which no line has anything is left
out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from amity.show.summary import Line
from amity.tasks import ACCURACY, Metric

NONE = "-"


@dataclass(frozen=True)
class Shown:
    """One column: what it is called, what it says, and how a line fills it."""

    name: str
    tip: str
    cell: Callable[[Line], str]
    rank: int = 9
    """Where there is little room, the columns with small ranks are shown."""


def _points(line: Line, value: float | None, half: float | None) -> str:
    """A difference, as the metric has it."""
    if value is None:
        return NONE
    shown = line.metric.number(value, "+")
    shown = "+0.0" if shown == "-0.0" else shown
    return shown + ("" if half is None else f" ± {line.metric.number(half)}")


def _percent(value: float | None) -> str:
    return NONE if value is None else f"{100 * value:.0f} %"


def _tenths(value: float | None) -> str:
    return NONE if value is None else f"{100 * value:.1f}"


def _number(line: Line, value: float | None) -> str:
    return NONE if value is None else line.metric.number(value)


def _spread(line: Line, mean: float, std: float) -> str:
    shown = _number(line, mean)
    return f"{shown} ± {line.metric.number(std)}" if line.seeds > 1 else shown


def _of_company(cell: Callable[[Line], str]) -> Callable[[Line], str]:
    """Who takes nobody is alone: it has no gain over that."""
    return lambda line: NONE if line.taken == 0 else cell(line)


def _epsilon(line: Line) -> str:
    if line.epsilon is None:
        return NONE
    return f"{line.epsilon:.3g}{'*' if line.epsilon_excludes else ''}"


FRIENDS = "friends"
LEAD = "accuracy"
"""The column of the metric that leads, whatever that is."""
COLUMNS = (
    Shown("strategy", "what was compared", lambda x: x.label, 0),
    Shown(
        LEAD,
        "test {metric} in {unit} in the last round, mean over peers ± std over seeds",
        lambda x: _spread(x, x.accuracy, x.accuracy_std),
        1,
    ),
    Shown(
        "vs top",
        "difference to the {best} {metric} among strategies that a real network could run, in"
        " {apart}, paired by seed ± half of the 95 % interval",
        lambda x: _points(x, x.vs_top, x.vs_top_half),
        2,
    ),
    Shown(
        "validation",
        "{metric} in {unit} on examples that are set aside for choosing",
        lambda x: _number(x, x.validation),
        3,
    ),
    Shown(
        "balanced",
        "the accuracy as a mean over the classes that a peer has",
        lambda x: _tenths(x.balanced),
        5,
    ),
    Shown(
        "best",
        "the best round's {metric} (selects on the test set, as papers do)",
        lambda x: _spread(x, x.best, x.best_std),
        11,
    ),
    Shown(
        "vs local",
        "gain over training alone, mean over peers, in {apart} ± half of the 95 % interval over"
        " seeds{less}",
        _of_company(lambda x: _points(x, x.gain, x.gain_half)),
        4,
    ),
    Shown(
        "harmed",
        "share of peers that do worse than alone, by however little",
        _of_company(lambda x: _percent(x.harmed)),
        6,
    ),
    Shown(
        "worst 10%",
        "mean gain of the tenth of peers that gains least, in {apart}",
        _of_company(lambda x: _points(x, x.worst_tenth, None)),
        9,
    ),
    Shown("MB", "received by a peer in the whole run", lambda x: f"{x.megabytes:.2f}", 7),
    Shown(
        "passes",
        "forward and backward passes of a peer, in thousands of examples",
        lambda x: f"{x.passes:.1f}",
        10,
    ),
    Shown("taken", "neighbours taken, mean over rounds and peers", lambda x: f"{x.taken:.1f}", 8),
    Shown(FRIENDS, "share of true friends among those taken", lambda x: _percent(x.precision), 6),
    Shown(
        "attackers' weight",
        "what attackers obtain of an honest peer's row; all else is of honest peers only",
        lambda x: _percent(x.attackers_weight),
        3,
    ),
    Shown(
        "ε",
        "the largest of all peers; * training only: facts that it does not cover were asked",
        _epsilon,
        3,
    ),
)


def columns_of(lines: Sequence[Line], friend: str = "") -> list[Shown]:
    """The columns of a table with these lines: those in which there is anything. `friend` says
    what a friend is in their world."""
    metric = lines[0].metric if lines else ACCURACY
    named = [_named(column, metric) for column in COLUMNS]
    shown = [c for c in named if any(c.cell(line) != NONE for line in lines)]
    return [
        replace(c, tip=f"{c.tip}; a friend is {friend}") if friend and c.name == FRIENDS else c
        for c in shown
    ]


def _named(column: Shown, metric: Metric) -> Shown:
    """With the metric's words in place of the braces."""
    words = {
        "metric": metric.called,
        "unit": metric.unit or "its own numbers",
        "apart": metric.apart or "its own numbers",
        "best": "highest" if metric.more else "lowest",
        "less": "" if metric.more else "; above 0 is better, so that less is a gain",
    }
    if column.name != LEAD:
        return replace(column, tip=column.tip.format(**words))
    head = metric.called if metric.unit == "%" else metric.head
    return replace(column, name=head, tip=column.tip.format(**words))


def cells_of(line: Line, columns: Sequence[Shown] = COLUMNS) -> list[str]:
    """A line as text, in the order of the columns."""
    return [column.cell(line) for column in columns]
