"""Everyone's model on everyone's test examples, once `amity matrix` has measured it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from matplotlib.figure import Figure

from amity.show.crossing import crossing
from amity.show.figures import svg
from amity.show.page import framed, html_table, section
from amity.show.panels.base import Picture, panels
from amity.show.story import Story
from amity.store import read_crossed

if TYPE_CHECKING:
    from amity.lab.result import Result
    from amity.store import Crossed


@panels.register("crossed")
@dataclass(frozen=True)
class CrossedPanel(Picture):
    """Every peer's final model on every peer's test examples, and a sentence for each peer."""

    order: ClassVar[int] = 42
    title: ClassVar[str] = "Everyone's model on everyone's test examples"

    def figure(self, story: Story) -> Figure | None:
        """Of the first run that has one."""
        for _, _, crossed in _found(story):
            return crossing(crossed, story.friendship)
        return None

    def html(self, story: Story) -> str:
        return "".join(self._one(story, *found) for found in _found(story))

    def _one(self, story: Story, label: str, result: Result, crossed: Crossed) -> str:
        title = self.title if len(story.runs) == 1 else f"{self.title}: {label}"
        lines = [[peer, sentence] for peer, sentence in crossed.sentences.items()]
        picture = framed(svg(crossing(crossed, story.friendship)), title)
        return section(title, _note(result, crossed), picture + html_table(HEAD, lines, wrap=True))


HEAD = ("peer", "what it would have alone, what it has, from whom it came")


def _found(story: Story) -> Iterator[tuple[str, Result, Crossed]]:
    """The first run of each label that was measured."""
    for label, runs in story.runs.items():
        for result in runs:
            crossed = read_crossed(result.path)
            if crossed is not None:
                yield label, result, crossed
                break


def _note(result: Result, crossed: Crossed) -> str:
    done, last = max(crossed.rounds), result.rounds[-1].round + 1
    early = (
        f" They are the models after round {done}, and the run has gone on to {last}:"
        f" `amity matrix {result.path}` measures it anew."
        if done != last
        else ""
    )
    missing = f" Left out, without a round: {', '.join(crossed.missing)}." * bool(crossed.missing)
    return (
        f"Row: whose final model; column: on whose test examples (seed {result.config.seed})."
        " Friends stand side by side; on the diagonal is each peer's own model on its own examples."
        f"{early}{missing} What a peer would have alone: {crossed.alone_said}."
    )
