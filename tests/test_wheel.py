"""What people install: the wheel, in an environment of its own."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path


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
    words = ["run", "peers=3", "rounds=1", "partition.samples=10", "out=r"]
    done = subprocess.run(
        [home / "bin" / "amity", *words], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "report: r/report.html" in done.stdout
