"""`amity discovery`: how friends are found in a very large network."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

from amity.cli.common import Keys
from amity.console import blank_table, err_console, out_console, say
from amity.files import write_atomically


def discovery(
    words: Keys = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object per line, nothing else.")
    ] = False,
) -> None:
    """Find friends among 100,000 peers in 50 groups by their cards alone, without and with liars:
    friends in a view by round, similarity over the best, bytes. Own keys: peers=, groups=, rounds=,
    liars=0.1, numbers=, noise=, seed=, out=DIR, and view=, random=, cards=, passed=, answers= as in
    topology=discover."""
    from amity.bench.discovery import Search, search, search_figure
    from amity.config import only, typed
    from amity.lab.run import new_dir
    from amity.topology import Discover

    own, of_rule = ([field.name for field in dataclasses.fields(c)] for c in (Search, Discover))
    own.remove("rule")
    values = only(words or [], *own, *of_rule, "out")
    folder = Path(values.pop("out", "") or new_dir("discovery"))
    rule = {key: values.pop(key) for key in of_rule if key in values}
    wanted = typed("discovery", Search, {**values, "rule": typed("discovery", Discover, rule)})
    with err_console.status("searching") as status:
        rows = search(wanted, status.update if err_console.is_terminal else err_console.print)
    lines = "".join(json.dumps(dataclasses.asdict(row)) + "\n" for row in rows)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "discovery.jsonl", lines.encode())
    search_figure(rows).savefig(folder / "discovery.png", dpi=150)
    if as_json:
        out_console.file.write(lines)
        return
    columns = ("liars show", "round", "friends", "similarity", "kB", "most links")
    table = blank_table((*columns, "liars in view", "at random", "eclipsed", "seconds"))
    for row in rows:
        shares = (row.liars_in_view, row.liars_at_random, row.eclipsed)
        table.add_row(
            row.kind,
            str(row.round),
            f"{100 * row.friends:.1f} %",
            f"{row.similarity:.3f}",
            f"{row.kilobytes:.1f}",
            str(row.links),
            *(f"{100 * share:.2f} %" for share in shares),
            f"{row.seconds:.1f}",
        )
    out_console.print(table)
    say(f"figure: {folder / 'discovery.png'}")
