"""Pages that explain what Amity shows, beside what it shows."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from amity.records import Report
from amity.show.panels.base import Picture, panels
from amity.sinks.rounds import took
from tests.conftest import Call

SMALL = "peers=6 rounds=2 partition.samples=10 partition.test=20 model.hidden=8 seeds=0"


def test_the_page_about_the_report_has_its_headings_in_their_order(
    call: Call, repository: Path
) -> None:
    line = f"compare {SMALL} strategies=local,gossip,friends shift=permute_labels:groups=2 out=c"
    assert call(line)[0] == 0
    found = re.findall("<h2>(.*?)</h2>", Path("c/report.html").read_text(encoding="utf-8"))
    shown = [
        re.sub(r"Why \S+ took whom it took: .*", "Why a peer took whom it took", h) for h in found
    ]
    page = (repository / "docs/tutorials/report.md").read_text(encoding="utf-8")
    assert re.findall("^### (.*)$", page, re.MULTILINE) == shown


def test_the_page_about_the_report_names_every_picture(repository: Path) -> None:
    page = " ".join((repository / "docs/tutorials/report.md").read_text(encoding="utf-8").split())
    titles = [entry.cls.title for entry in panels if issubclass(entry.cls, Picture)]
    assert "Neighbours taken" in titles
    assert [title for title in titles if title not in page] == []


def test_the_start_page_explains_every_column_of_the_table_that_it_shows(repository: Path) -> None:
    page = (repository / "docs/index.md").read_text(encoding="utf-8")
    head = re.findall(r"^strategy +(accuracy .*)$", page, re.MULTILINE)[0]
    explained = re.findall(r"^\| `(.+?)` \| \S", page, re.MULTILINE)
    assert re.split(" {2,}", head) == explained


def test_who_takes_nobody_in_the_end_as_planned_is_not_told_like_a_failure() -> None:
    def told(**notes: float) -> str:
        row, record = {"a": 1.0}, SimpleNamespace(notes=notes)
        return took(cast(Report, SimpleNamespace(peers={"a": record}, rows={"a": row})))

    assert told() == told(settled=0.0) == "nobody"
    assert told(settled=1.0).startswith("nobody (as planned: ")
