"""Pieces of a page: one self-contained HTML file, nothing loaded from anywhere."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from amity._version import __version__
from amity.live.bundle import Moving, replay, style
from amity.processes import Aside

STYLE = """
:root{color-scheme:light dark;--paper:#fff;--ink:#222;--soft:#444;--faint:#6b6b6b;--rule:#888;
--stripe:#f4f4f4;--bad:#b00}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:1120px;
margin:2em auto;padding:0 1em;overflow-wrap:break-word}
h1{font-size:1.5em;margin-bottom:.2em} h2{font-size:1.15em;margin:2em 0 .3em}
p{margin:.3em 0;color:var(--soft);max-width:52em}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.6em 0}
th,td{padding:.25em .7em;text-align:right;white-space:nowrap}
th{border-bottom:2px solid var(--rule);font-weight:600;vertical-align:bottom}
th[title]{cursor:help}
td:first-child,th:first-child{text-align:left}
.wide,.picture{overflow-x:auto} .words th,.words td{white-space:normal;text-align:left}
.numbers{font-size:.88em} .numbers td,.numbers th{padding:.25em .55em}
.numbers th{white-space:normal}
tr:nth-child(even){background:var(--stripe)} tr.best td{font-weight:700} td.ref{font-style:italic}
svg{max-width:max(100%,36rem);height:auto} .bad{color:var(--bad)} details{margin:1em 0}
pre{background:var(--stripe);padding:1em;overflow:auto;font-size:12px}
@media(max-width:700px){.numbers td:first-child{white-space:normal;min-width:9em}}
footer{margin-top:3em;color:var(--faint);font-size:.85em} footer code{white-space:pre-wrap}
@media(prefers-color-scheme:dark){
:root{--paper:#1a1a1a;--ink:#e2e2e2;--soft:#c0c0c0;--faint:#9a9a9a;--rule:#777;--stripe:#262626;
--bad:#ff8078}
a{color:#8ab4f8} .picture svg{filter:invert(.9) hue-rotate(180deg)}
.photo svg{filter:none;background:#fff}}
"""
"""In the dark, pictures are turned round: white becomes the page's own dark, and colours keep their
hue. Photographs stay as they are."""


REPLAY = "<!-- replay -->"
"""A part of a page: here stands what can be replayed. Without it, that is at the end."""


def replayed(path: Path) -> Aside[Moving]:
    """What replays the runs of a directory, made while the rest of its page is drawn."""
    return Aside(partial(replay, path))


def page(
    title: str, *parts: str, foot: str = "", replays: Path | Aside[Moving] | None = None
) -> str:
    """The whole file; `foot` is what stands at its end besides our version, as HTML. `replays`: the
    directory whose runs it can replay, where a browser runs its script, which also saves pictures
    and tables."""
    if isinstance(replays, Aside):
        moving = replays.result()
    else:
        moving = replay(replays) if replays is not None else Moving()
    body = "\n".join(parts if REPLAY in parts else [*parts, REPLAY]).replace(REPLAY, moving.html)
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{moving.policy}">'
        f'<meta charset="utf-8"><title>{html.escape(title)}</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<style>{STYLE}</style><style>{style()}</style>"
    )
    end = f"<footer>{foot}{'<br>' if foot else ''}Amity {__version__}</footer>"
    end += f"<script>{moving.script}</script>"
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}{end}</body></html>\n'


def framed(svg: str, title: str, photo: bool = False) -> str:
    """An <svg> in its place. A wide one can be moved on a small screen; a photograph keeps its
    colours in the dark."""
    kind = "picture photo" if photo else "picture"
    return f'<div class="{kind}" role="img" aria-label="{html.escape(title)}">{svg}</div>'


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
