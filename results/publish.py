"""Make docs/RESULTS.md and docs/WHEN.md from the records of runs: tables, pictures and verdicts are
never typed.

`python results/publish.py [RUNS]` takes the new records of all tables at presets `cpu` and `mid`
from a folder that `amity reproduce` wrote (such as runs/reproduce) and adds them to those that are
published; a run that is there already is replaced. It draws every results/NAME.svg and rewrites, on
both pages, what stands between `<!-- NAME -->` and `<!-- end -->`. A table at preset `mid` is
called NAME-mid. `labels`, which is no table of runs, has its readings in results/labels.csv.
"""

import csv
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from pydantic import TypeAdapter

from amity.errors import AmityError
from amity.files import write_atomically
from amity.reproduce import RunTable, tables
from amity.reproduce.leakage import Leak
from amity.reproduce.leaks import Leaks
from amity.reproduce.page import pictures
from amity.reproduce.record import read_records, write_records
from amity.reproduce.todo import sizes_of
from amity.reproduce.when import NUMBERS, numbers
from amity.show.page import markdown_table

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent / "docs" / "RESULTS.md"
WHEN = DOCS.with_name("WHEN.md")
BLOCK = re.compile(r"(<!-- ([a-z0-9-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
LABELS = HERE / "labels.csv"
SUFFIXES = {"cpu": "", "mid": "-mid"}
"""Of published files, by preset."""


def published() -> dict[str, Path]:
    """The files of records by name, in the order of the experiments."""
    names = [f"{name}{suffix}" for name in tables() for suffix in SUFFIXES.values()]
    files = {name: HERE / f"{name}.jsonl" for name in names}
    return {name: path for name, path in files.items() if path.exists()}


def table_of(path: Path) -> RunTable:
    """A published table, from its records alone."""
    head, records = read_records(path)
    experiment = tables()[head.experiment]
    return RunTable(
        experiment=experiment,
        design=experiment.at(head.experiment, head.preset),
        head=head,
        records=records,
    )


def block(name: str) -> str:
    """What the page says of one experiment, from its records."""
    path = HERE / f"{name}.jsonl"
    if not path.exists():
        experiment, _, preset = name.partition("-")
        return not_yet(experiment, preset or "cpu")
    table = table_of(path)
    return f"```\n{table.head.command}\n```\n\n{table.markdown()}\n{drawn(name)}\n"


def drawn(name: str) -> str:
    """The pictures of one experiment: NAME.svg, and further ones NAME.WHAT.svg."""
    title = tables()[name.partition("-")[0]].title
    files = sorted((path.name for path in HERE.glob(f"{name}.*svg")), key=len)
    return "\n".join(f"![{title}](../results/{file})" for file in files)


def summary() -> str:
    """All claims with their verdicts."""
    lines = []
    for name, path in published().items():
        table = table_of(path)
        runs = len(table.design.whole) * len(table.design.seeds)
        where, link = table.experiment.printed.where, f"[{name}](#{name})"
        lines += [
            [link, where, v.claim.text, f"**{v.status}**", f"{len(table.records)} of {runs}"]
            for v in table.verdicts
        ]
    head = ["experiment", "in the paper", "claim", "verdict", "runs made"]
    return markdown_table(head, lines) + "\n"


def not_yet(experiment: str, preset: str = "cpu") -> str:
    return f"Not run yet: `amity reproduce {experiment} --preset {preset}` makes it.\n"


def when() -> dict[str, str]:
    """The parts of docs/WHEN.md, from the records of the map of regimes."""
    path = HERE / "regimes.jsonl"
    if not path.exists():
        return dict.fromkeys((*NUMBERS, "pictures"), not_yet("regimes"))
    parts = {name: unbroken(text) for name, text in numbers(table_of(path)).items()}
    return {**parts, "pictures": f"{drawn('regimes')}\n"}


def unbroken(text: str) -> str:
    """With numbers that keep what belongs to them on their line: `3.6 ± 0.6`, `15 %`."""
    return re.sub(r" (?=[±%])|(?<=±) ", "\u00a0", text)


def leaks(path: Path) -> Leaks | None:
    """What was read from cards; None if it was written before there were several worlds."""
    with path.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    if "world" not in rows[0]:
        return None
    known = TypeAdapter(list[Leak])
    found = known.validate_python([{**row, "bits": int(row["bits"])} for row in rows])
    seeds = tuple(dict.fromkeys(leak.seed for leak in found))
    return Leaks(title="", worlds={}, seeds=seeds, leaks=found)


def labels() -> str:
    """What the page says of cards: the first of the tables, the verdicts and the picture."""
    found, picture = leaks(LABELS), "![Leakage by proxy, size and noise](../results/labels.svg)"
    if found is None:
        return f"{picture}\n"
    said = f"Seeds {', '.join(map(str, found.seeds))}; ± is the standard deviation over them."
    return f"{said}\n\n{found.markdown(tables=1)}\n{picture}\n"


def publish_labels(root: Path) -> None:
    """Take the readings of a folder, unless they are of fewer seeds than those published."""
    new = root / "labels-cpu" / LABELS.name
    if not new.exists():
        return
    mine, old = leaks(new), leaks(LABELS)
    if mine is None or (old is not None and len(mine.seeds) < len(old.seeds)):
        raise SystemExit(
            f"{new}: has fewer seeds than {LABELS.name}; delete that one if this is meant"
        )
    write_atomically(LABELS, new.read_bytes())
    write_atomically(LABELS.with_suffix(".svg"), mine.picture().encode())


def page(text: str) -> str:
    """A page with every block written anew."""
    special = {**when(), "labels": labels()}

    def written(found: re.Match[str]) -> str:
        name = found[2]
        if name == "summary":
            special[name] = summary()
        return f"{found[1]}{special[name] if name in special else block(name)}{found[3]}"

    return BLOCK.sub(written, text)


def gathered(root: Path) -> dict[str, list[Path]]:
    """The records of every table in a folder: of its parts, the oldest first, then of the whole."""
    if not root.is_dir():
        raise SystemExit(f"{root}: is not a folder")
    found: dict[str, list[Path]] = {}
    for name, (preset, suffix) in product(tables(), SUFFIXES.items()):
        parts = sorted(
            root.glob(f"{name}-{preset}-part*/records.jsonl"), key=lambda path: path.stat().st_mtime
        )
        if files := [*parts, *root.glob(f"{name}-{preset}/records.jsonl")]:
            for path in files:
                check(path)
            found[f"{name}{suffix}"] = files
    return found


def check(path: Path) -> None:
    """Nothing is taken that the command would not make now."""
    head, records = read_records(path)
    design = tables()[head.experiment].at(head.experiment, head.preset)
    for one in records:
        known = one.key in design.whole
        if not known or design.config(one.key, one.seed).digest[:20] != one.digest:
            raise SystemExit(
                f"{path}: {one.key} seed {one.seed} is not a run that the command makes now"
            )


def take(name: str, new: Sequence[Path]) -> None:
    """Add records to the published ones. A run that is there already is replaced, and those that
    the command no longer makes are dropped."""
    old = HERE / f"{name}.jsonl"
    heads, kept = [], {}
    for path in (*([old] if old.exists() else []), *new):
        head, records = read_records(path)
        heads.append(head)
        kept |= {(one.key, one.seed): one for one in records}
    design = tables()[heads[-1].experiment].at(heads[-1].experiment, heads[-1].preset)
    runs = {
        (key, seed): design.config(key, seed) for key in design.cell_keys() for seed in design.seeds
    }
    records = [
        kept[cell]
        for cell, config in runs.items()
        if cell in kept and kept[cell].digest == config.digest[:20]
    ]
    made = sizes_of([runs[one.key, one.seed] for one in records])
    command = f"amity reproduce {heads[-1].experiment} --preset {heads[-1].preset}"
    write_records(old, replace(heads[-1], command=command, sizes=made), records)


def main() -> None:
    try:
        found = [gathered(Path(root)) for root in sys.argv[1:]]
    except AmityError as error:
        raise SystemExit(str(error)) from None
    for root in sys.argv[1:]:
        publish_labels(Path(root))
    for one in found:
        for name, files in one.items():
            take(name, files)
    for path in sorted(HERE.glob("*.jsonl")):
        table = table_of(path)
        for what, picture in pictures(table).items():
            own = path.with_suffix(".svg" if what == "figure" else f".{what}.svg")
            write_atomically(own, picture.encode())
        said = "; ".join(f"{v.claim.id}: {v.status}" for v in table.verdicts)
        sys.stdout.write(f"{path.stem}: {len(table.records)} runs. {said}\n")
    for docs in (DOCS, WHEN):
        write_atomically(docs, page(docs.read_text(encoding="utf-8")).encode())


if __name__ == "__main__":
    main()
