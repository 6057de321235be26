"""Make docs/RESULTS.md from the records of runs: tables, pictures and verdicts are never typed.

`python results/publish.py [RUNS]` takes the new records of all tables at preset `cpu` from a folder
that `amity reproduce` wrote (such as runs/reproduce), draws every results/NAME.svg and rewrites, in
docs/RESULTS.md, what stands between `<!-- NAME -->` and `<!-- end -->`.
"""

import re
import sys
from pathlib import Path

from amity.errors import AmityError
from amity.files import write_atomically
from amity.reproduce import RunTable, tables
from amity.reproduce.record import read_records
from amity.show.figures import svg
from amity.show.page import markdown_table

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent / "docs" / "RESULTS.md"
BLOCK = re.compile(r"(<!-- ([a-z0-9]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def published() -> dict[str, Path]:
    """The files of records by experiment, in the order of the experiments."""
    files = {name: HERE / f"{name}.jsonl" for name in tables()}
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
    table = table_of(HERE / f"{name}.jsonl")
    picture = f"![{table.experiment.title}](../results/{name}.svg)"
    return f"```\n{table.head.command}\n```\n\n{table.markdown()}\n{picture}\n"


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


def page(text: str) -> str:
    """The page with every block written anew."""
    return BLOCK.sub(
        lambda found: (
            f"{found[1]}{summary() if found[2] == 'summary' else block(found[2])}{found[3]}"
        ),
        text,
    )


def gathered(root: Path) -> dict[str, Path]:
    """The records of every table in a folder: of the whole one, else of its newest part."""
    if not root.is_dir():
        raise SystemExit(f"{root}: is not a folder")
    found: dict[str, Path] = {}
    for name in tables():
        parts = sorted(
            root.glob(f"{name}-cpu-part*/records.jsonl"), key=lambda path: path.stat().st_mtime
        )
        if choice := [*parts, *root.glob(f"{name}-cpu/records.jsonl")]:
            check(name, choice[-1])
            found[name] = choice[-1]
    return found


def check(name: str, path: Path) -> None:
    """Nothing is taken that the command would not make now, nor fewer runs than are published."""
    head, records = read_records(path)
    design = tables()[head.experiment].at(head.experiment, head.preset)
    for one in records:
        known = one.key in design.whole
        if not known or design.config(one.key, one.seed).digest[:20] != one.digest:
            raise SystemExit(
                f"{path}: {one.key} seed {one.seed} is not a run that the command makes now"
            )
    old = HERE / f"{name}.jsonl"
    if old.exists() and len(records) < len(read_records(old)[1]):
        raise SystemExit(
            f"{path}: has fewer runs than {old.name}; delete that one if this is meant"
        )


def main() -> None:
    try:
        found = [gathered(Path(root)) for root in sys.argv[1:]]
    except AmityError as error:
        raise SystemExit(str(error)) from None
    for name, path in ((name, path) for one in found for name, path in one.items()):
        write_atomically(HERE / f"{name}.jsonl", path.read_bytes())
    for path in sorted(HERE.glob("*.jsonl")):
        table = table_of(path)
        write_atomically(path.with_suffix(".svg"), svg(table.figure()).encode())
        said = "; ".join(f"{v.claim.id}: {v.status}" for v in table.verdicts)
        sys.stdout.write(f"{path.stem}: {len(table.records)} runs. {said}\n")
    write_atomically(DOCS, page(DOCS.read_text(encoding="utf-8")).encode())


if __name__ == "__main__":
    main()
