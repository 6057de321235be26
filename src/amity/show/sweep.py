"""The page of a sweep: what was chosen and why, all that was tried, and the winners compared."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from amity.show.page import page, section
from amity.show.panels import html_of
from amity.show.report import describe, details, foot_of, table

if TYPE_CHECKING:
    from amity.lab.tries import Sweep

FIRST = 5
"""Panels of a smaller order are about the whole sweep, others about the winners."""


def sweep_html(sweep: Sweep) -> str:
    """The report of a sweep."""
    every, story = sweep.comparison.story, sweep.story
    seeds = sorted({run.config.seed for runs in every.runs.values() for run in runs})
    chosen = {one.label for one in sweep.best.values()}
    failed = "".join(
        f'<p class="bad">{html.escape(what)}: {html.escape(error)}</p>'
        for what, error in every.errors.items()
    )
    said = f"Bold: chosen by {sweep.chosen_on} {every.metric.called}."
    return page(
        "Amity: sweep",
        "<h1>Which settings?</h1>",
        f"<p>{html.escape(describe([story.config], seeds))}</p>",
        failed,
        *html_of(story, until=FIRST),
        section("All tries", said, table(every, chosen, "")),
        "<h1>The winners, compared</h1>" if len(story.runs) > 1 else "<h1>The winner</h1>",
        *html_of(story, since=FIRST),
        details("Config of the first winner", story.config),
        foot=foot_of(sweep.comparison),
        replays=sweep.path,
    )
