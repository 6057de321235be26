"""docs/DATA.md: every snippet runs, and says what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parent.parent / "docs" / "DATA.md"
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.S)
NAMES = ("series", "tokens", "next token", "several")


@pytest.mark.parametrize("at", range(len(NAMES)), ids=NAMES)
def test_a_snippet_of_the_page_runs(at: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(SNIPPETS) == len(NAMES)
    Path("snippet.py").write_text(SNIPPETS[at])
    exec(compile(SNIPPETS[at], "snippet.py", "exec"), {"__name__": "snippet"})
    said = re.search(r"# (cnn1d|gru)$", SNIPPETS[at], flags=re.M)
    if said is not None:
        assert capsys.readouterr().out.split()[-1] == said[1]
