"""Pieces of a page: one self-contained HTML file, nothing loaded from anywhere."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from amity._version import __version__

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#222;max-width:1080px;margin:2em auto;padding:0 1em}
h1{font-size:1.5em;margin-bottom:.2em} h2{font-size:1.15em;margin:2em 0 .3em}
p{margin:.3em 0;color:#444;max-width:52em}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.6em 0}
th,td{padding:.25em .7em;text-align:right;white-space:nowrap}
th{border-bottom:2px solid #888;font-weight:600;cursor:help}
td:first-child,th:first-child{text-align:left}
.wide{overflow-x:auto} .words th,.words td{white-space:normal;text-align:left;cursor:auto}
.numbers{font-size:.88em} .numbers th{white-space:normal;vertical-align:bottom;cursor:auto}
tr:nth-child(even){background:#f6f6f6} tr.best td{font-weight:700} td.ref{font-style:italic}
svg{max-width:100%;height:auto} .bad{color:#b00} details{margin:1em 0}
pre{background:#f6f6f6;padding:1em;overflow:auto;font-size:12px}
footer{margin-top:3em;color:#888;font-size:.85em}
"""


def page(title: str, *parts: str) -> str:
    body = "\n".join(parts)
    head = (
        f'<meta charset="utf-8"><title>{html.escape(title)}</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<style>{STYLE}</style>"
    )
    foot = f"<footer>Amity {__version__}</footer>"
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}{foot}</body></html>\n'


def section(title: str, note: str, content: str) -> str:
    return f"<h2>{html.escape(title)}</h2><p>{prose(note)}</p>{content}"


def prose(text: str) -> str:
    """Plain text as HTML; what stands between `backticks` is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


def markdown_table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in rows)


def html_table(head: Sequence[str], lines: Sequence[Sequence[str]], wrap: bool = False) -> str:
    """`**bold**` cells become bold; `wrap` is for text, whose lines break. A wide table scrolls by
    itself."""

    def cell(text: str) -> str:
        safe = html.escape(text)
        return f"<b>{safe[2:-2]}</b>" if text.startswith("**") else safe

    top = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{cell(text)}</td>" for text in cells) + "</tr>" for cells in lines
    )
    return (
        '<div class="wide"><table'
        f' class="{"words" if wrap else "numbers"}"><tr>{top}</tr>{body}</table></div>'
    )
