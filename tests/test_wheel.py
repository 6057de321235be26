"""What people install: the wheel, in an environment of its own."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

import amity


def test_the_built_wheel_installs_and_runs(repository: Path, tmp_path: Path) -> None:
    build = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "wheel",
        "-d",
        str(tmp_path / "dist"),
    ]
    subprocess.run(build, cwd=repository, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("amity-*.whl")
    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    (site,) = home.glob("lib/python*/site-packages")
    # The dependencies are those of this environment; the package itself must come from the wheel.
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    install = [python, "-m", "pip", "install", "--no-deps", "--no-index", "--quiet", str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    where = subprocess.run(
        [python, "-c", "import amity, pathlib; print(pathlib.Path(amity.__file__).parent)"],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    ).stdout.strip()
    assert Path(where) == site / "amity"
    assert (site / "amity" / "py.typed").exists()
    web = site / "amity" / "live" / "web"
    ours = repository / "src" / "amity" / "live" / "web"
    shipped = {p.relative_to(web): p.read_bytes() for p in web.rglob("*") if p.is_file()}
    assert shipped == {p.relative_to(ours): p.read_bytes() for p in ours.rglob("*") if p.is_file()}
    assert {p.name for p in shipped} >= {"index.html", "LICENSES.txt", "uPlot-1.6.32.min.js"}
    inside = {p.relative_to(site) for p in (site / "amity").rglob("*") if p.is_file()}
    package = repository / "src"
    data = {p.relative_to(package) for p in (package / "amity").rglob("*") if p.is_file()}
    assert {p for p in data if p.suffix != ".pyc"} <= inside, (
        "templates, tables and pages are in it"
    )
    words = ["run", "peers=3", "rounds=1", "partition.samples=10", "out=r"]
    done = subprocess.run(
        [home / "bin" / "amity", *words], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "report: r/report.html" in done.stdout


def test_every_extra_is_in_the_one_table(repository: Path) -> None:
    named = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    page = (repository / "docs" / "INSTALL.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", page, re.M)
    assert sorted(re.findall(r"\w+", " ".join(rows))) == sorted(named["optional-dependencies"])


def test_the_version_is_the_same_wherever_it_is_named(repository: Path) -> None:
    cited = re.search(r"^version: (\S+)$", (repository / "CITATION.cff").read_text(), re.M)
    newest = re.search(r"^## (\S+)", (repository / "CHANGELOG.md").read_text(), re.M)
    assert cited is not None
    assert newest is not None
    assert {cited[1], newest[1]} == {amity.__version__}
    assert f"amity-{amity.__version__}-py3" in (repository / "docs" / "INSTALL.md").read_text()
