"""`amity export-figures`: a report's pictures and tables as files."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from PIL import Image

import amity
from amity.lab.figures import export_figures
from amity.show.exhibits import sheets_of
from amity.show.latex import escaped, latex_table
from tests.conftest import Call, tiny

SPECS = ["local", "gossip:k=2", "oracle"]
PICTURES = {"accuracy", "bytes", "classes", "matrix", "partition", "recall", "taken"}


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> amity.Comparison:
    out = tmp_path_factory.mktemp("cmp") / "c"
    return amity.compare(SPECS, [0, 1], tiny(), out, jobs=1)


def names(files: list[Path], *endings: str) -> set[str]:
    return {file.stem for file in files if file.suffix in endings}


def test_a_run_gives_its_pictures_as_svg_and_pdf_and_its_tables_as_csv_and_latex(
    call: Call,
) -> None:
    amity.run(tiny(), "r")
    code, out, err = call("export-figures r")
    assert (code, err) == (0, "")
    files = [Path(line) for line in out.splitlines()]
    assert {file.parent for file in files} == {Path("r/figures")}
    assert names(files, ".svg") == names(files, ".pdf") == PICTURES
    assert names(files, ".csv") == names(files, ".tex") == {"summary", "classes", "peers"}
    for file in files:
        assert file.stat().st_size > 100
        kind = {".svg": b"<?xml", ".pdf": b"%PDF"}.get(file.suffix, b"")
        assert file.read_bytes().startswith(kind)


def test_the_tables_say_what_the_records_say(comparison: amity.Comparison) -> None:
    files = export_figures(comparison.path, "f", ["png"])
    assert names(files, ".png") == PICTURES | {"gains"}
    with Image.open("f/accuracy.png") as image:
        assert image.width > 800
    with open("f/peers.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == len(SPECS) * 2 * 6
    for row in rows:
        run = comparison.results[row["strategy"]][int(row["seed"])]
        alone = comparison.results["local"][int(row["seed"])]
        assert float(row["accuracy"]) == run.final()[row["peer"]]
        gain = run.final()[row["peer"]] - alone.final()[row["peer"]]
        assert float(row["vs local"]) == pytest.approx(gain)
    with open("f/differences.csv", newline="") as stream:
        gaps = {(row["strategy"], row["minus"]): row for row in csv.DictReader(stream)}
    assert len(gaps) == 6
    one, other = (gaps[pair] for pair in (("local", "oracle"), ("oracle", "local")))
    assert float(one["points"]) == -float(other["points"])
    table = Path("f/summary.tex").read_text(encoding="utf-8")
    assert table.count(r"\\") == len(SPECS) + 1
    accuracy = next(line.accuracy for line in comparison.lines if line.label == "gossip:k=2")
    assert rf"gossip:k=2 & {100 * accuracy:.1f} $\pm$" in table
    assert not re.search(r"(?<!\\)[%_#]", table.partition("\n")[2])


def test_the_same_runs_give_the_same_files(comparison: amity.Comparison) -> None:
    contents = []
    for out in ("a", "b"):
        written = export_figures(comparison.results["local"][0].path, out, ["svg", "pdf"])
        contents.append({file.name: file.read_bytes() for file in written})
    assert contents[0] == contents[1]


def test_sweeps_and_worlds_have_theirs() -> None:
    base = tiny(rounds=1)
    amity.sweep(["gossip"], {"gossip.k": [1, 2]}, config=base, out="s", jobs=1)
    files = export_figures("s", formats=["svg"])
    assert "grid" in names(files, ".svg")
    assert {"winners", "tries"} <= names(files, ".csv") & names(files, ".tex")
    worlds = ["invert:groups=2", "none"]
    amity.compare_worlds(worlds, ["local", "gossip"], [0], base, "w", jobs=1)
    files = export_figures("w", formats=["svg"])
    assert Path("w/figures/worlds.svg") in files
    assert Path("w/figures/none/accuracy.svg") in files
    assert Path("w/figures/summary.tex") in files


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("export-figures nowhere", "nowhere: holds neither a run"),
        ("export-figures nowhere formats=jpg", "unknown format 'jpg'; did you mean 'png'?"),
        ("export-figures nowhere formats=,", "formats: name at least one of svg, pdf, png"),
        ("export-figures nowhere format=svg", "unknown key 'format'"),
    ],
)
def test_misuse_is_one_line(call: Call, line: str, message: str) -> None:
    code, _, err = call(line)
    assert (code, err.count("\n")) == (2, 1)
    assert message in err


def test_a_table_is_saved_as_latex_from_python_too(comparison: amity.Comparison) -> None:
    text = comparison.save("t.tex").read_text(encoding="utf-8")
    sheet = sheets_of(comparison.story)["summary"]
    assert text == latex_table(sheet.head, sheet.lines)
    with pytest.raises(amity.AmityError, match=r"ends in .pdf, .png, .svg, .csv, .tex, .html"):
        comparison.save("t.doc")


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("50 % & more_of #1", r"50 \% \& more\_of \#1"),
        ("-1.2 ± 0.3", r"$-$1.2 $\pm$ 0.3"),
        ("**+1.2**", r"\textbf{+1.2}"),
        ("-", "-"),
        (
            "ε {a} \\ ~ ^",
            r"$\varepsilon$ \{a\} \textbackslash{} \textasciitilde{}"
            r" \textasciicircum{}",
        ),
    ],
)
def test_whatever_a_label_holds_is_text_for_latex(text: str, latex: str) -> None:
    assert escaped(text) == latex
