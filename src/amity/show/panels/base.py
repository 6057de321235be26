"""Where panels register, and what they have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

from amity.registry import Registry
from amity.show.page import framed, section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from amity.show.story import Story


class Panel(Protocol):
    """A part of a report."""

    order: ClassVar[int]

    def html(self, story: Story) -> str:
        """The part as HTML; empty: there is nothing to show."""


class Picture:
    """Base of panels that are a picture with a title and a note."""

    order: ClassVar[int] = 100
    title: ClassVar[str] = ""

    def note(self, story: Story) -> str:
        """What the picture shows."""
        raise NotImplementedError

    def figure(self, story: Story) -> Figure | None:
        """The picture; None: there is nothing to show."""
        raise NotImplementedError

    def html(self, story: Story) -> str:
        from amity.show.figures import svg

        drawn = self.figure(story)
        if drawn is None:
            return ""
        return section(self.title, self.note(story), framed(svg(drawn), self.title))


panels: Registry[Panel] = Registry("panel", "html", attributes=("order",), home="amity.show.panels")


def html_of(story: Story, since: int = 0, until: int = 1000) -> list[str]:
    """All panels of these orders that have something to show, in their order."""
    every = sorted((entry.build({}) for entry in panels), key=lambda panel: panel.order)
    chosen = [panel for panel in every if since <= panel.order < until]
    return [part for panel in chosen if (part := panel.html(story))]
