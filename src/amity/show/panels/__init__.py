"""Panels of a report, one file each: a file in this folder is found by itself.

A panel is a frozen dataclass with `order` (where it stands) and one of two verbs: `figure(story)`
draws a picture, which `result.figure(NAME)` gives as well; `html(story)` writes anything else.
Either returns nothing where there is nothing to show.
"""

from amity.show.panels.base import Panel, Picture, html_of, panels

__all__ = ["Panel", "Picture", "html_of", "panels"]
