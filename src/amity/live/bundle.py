"""The parts of the live page in one file: a report that replays its runs, offline.

What the page would be told and would ask for is written into the report as data. A long run is
thinned, and a very large one left to `amity watch`, which the report then says. Every report has
the script that saves its pictures and tables.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from amity.files import json_text
from amity.live.details import peer_of, round_of
from amity.live.follower import Follower
from amity.live.standing import table_of
from amity.live.tracks import Mark
from amity.live.watched import Watched

WEB = Path(__file__).parent / "web"
SCRIPTS = (
    *("vendor/uPlot-1.6.32.min", "vendor/d3-dispatch-3.0.2.min", "vendor/d3-timer-3.0.2.min"),
    *("vendor/d3-quadtree-3.0.2.min", "vendor/d3-force-3.0.1.min", "dom", "store", "curves"),
    *("network", "matrix", "round", "peer", "table", "members", "main", "report"),
)
SAVING = ("dom", "report")
"""Scripts of a page that replays nothing."""
STYLES = ("vendor/uPlot-1.6.32.min.css", "parts.css")
LARGEST = 1 << 25
"""Bytes of records beyond which a report has no replay."""
ROOM = 1_500_000
"""Bytes of rounds in a report, for each of its runs together."""
MOST_RUNS = 12
"""Runs whose rounds can be looked at one by one; of all others there are the curves."""
MOST_HISTORY = 1200
"""Peers times rounds up to which each peer can be opened."""


@dataclass(frozen=True)
class Moving:
    """The part of a report that moves, as HTML, and the scripts that it needs."""

    html: str = ""
    scripts: Sequence[str] = SAVING

    @property
    def script(self) -> str:
        return script(tuple(self.scripts))

    @property
    def policy(self) -> str:
        """What a browser may do with the report: run this script and no other, and load nothing."""
        digest = base64.b64encode(hashlib.sha256(self.script.encode()).digest()).decode()
        return (
            f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src"
            " data:; base-uri 'none'; form-action 'none'"
        )


@cache
def script(names: Sequence[str]) -> str:
    """Several as one; it holds nothing that would end it."""
    parts = [(WEB / f"{name}.js").read_text(encoding="utf-8") for name in names]
    return "\n;\n".join(parts).replace("</script", "<\\/script")


@cache
def style() -> str:
    return "\n".join((WEB / name).read_text(encoding="utf-8") for name in STYLES)


def replay(path: Path) -> Moving:
    """The part of a report that replays what a directory holds. Where that is too much for a file,
    it says so; where there is nothing, it is empty."""
    size = sum(file.stat().st_size for file in path.rglob("*.jsonl") if file.is_file())
    if size > LARGEST:
        return Moving(
            f"<h2>Round by round</h2><p>Not in this file: there are {size / 1e6:.0f} MB of records,"
            f" and a report takes up to {LARGEST / 1e6:.0f} MB. <code>amity watch"
            f" {html.escape(path.absolute().name)}</code> shows every round of them.</p>"
        )
    follower = Follower([path])
    while follower.look():
        pass
    cells = list(follower.cells.values())
    if not any(track.messages for cell in cells for track in cell.tracks.values()):
        return Moving()
    text = json_text(_written(follower, cells, path), (",", ":"))
    for sign in "<>&\u2028\u2029":  # nothing in it can be taken for HTML
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Moving(
        '<div id="replay" hidden><h2>Round by round</h2><p>The same runs to look into: move the'
        " slider, point at a peer, click on it. Drag in a curve to zoom.</p><main></main></div>"
        f'<script type="application/json" id="replay-data">{text}</script>',
        SCRIPTS,
    )


def _written(follower: Follower, cells: list[Watched], base: Path) -> dict[str, Any]:
    messages: list[bytes] = []
    marks: dict[str, Mark] = {}
    versions: dict[str, int] = {}
    more = True
    while more:
        found, more = follower.news(marks, versions)
        messages += found
    told = [_timeless(json.loads(message), base) for message in messages]
    begun = [cell for cell in cells if any(t.messages for t in cell.tracks.values())]
    shown = _one_of_each(begun)[:MOST_RUNS]
    groups: dict[str, list[Watched]] = {}
    for cell in cells:
        groups.setdefault(str(cell.about.get("group", "")), []).append(cell)
    return {
        "messages": told,
        "rounds": {c.found.id: dict(_rounds(c, ROOM // len(shown))) for c in shown},
        "peers": {c.found.id: _peers(c) for c in shown},
        "tables": {
            _below(base, group): table_of(members)
            for group, members in groups.items()
            if group and len(members) > 1
        },
    }


def _one_of_each(cells: list[Watched]) -> list[Watched]:
    """The first run of each label, then the others."""
    first = {cell.found.label: cell for cell in reversed(cells)}.values()
    return [*reversed(first), *(cell for cell in cells if cell not in first)]


def _below(base: Path, path: str) -> str:
    return os.path.relpath(path, base) if path else ""


def _timeless(message: dict[str, Any], base: Path) -> dict[str, Any]:
    """Without what differs from look to look, and with places as seen from the report: the same
    runs give the same report."""
    if message["t"] == "state":
        tracks: Mapping[str, Any] = message["tracks"]
        done = {track: {"state": "done", "rounds": one["rounds"]} for track, one in tracks.items()}
        return {**message, "tracks": done, "peers": {}}
    if message["t"] == "cell":
        return {**message, **{key: _below(base, message[key]) for key in ("path", "group")}}
    return message


def _rounds(cell: Watched, room: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Details of the rounds for which there is room, evenly over the run and with the last."""
    known = sorted({t for track in cell.tracks.values() for t in track.values})
    if not known:
        return
    last = round_of(cell, known[-1])
    size = len(json_text(last))
    count = max(1, min(len(known), room // max(1, size)))
    step = (len(known) - 1) / max(1, count - 1) if count > 1 else 1.0
    chosen = {known[-1 - round(at * step)] for at in range(count)}
    for t in sorted(chosen):
        yield t, last if t == known[-1] else round_of(cell, t)


def _peers(cell: Watched) -> dict[str, Any]:
    known = {t for track in cell.tracks.values() for t in track.values}
    last = round_of(cell, max(known)) if known else {}
    names = last.get("peers", [])
    if not names or len(names) * len(known) > MOST_HISTORY:
        return {}
    return {name: {**peer_of(cell, name), "log": []} for name in names}
