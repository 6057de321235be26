"""Every example and config runs, as a user would run it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from amity.config import load


def run_example(repository: Path, name: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(repository / "examples" / name), *words],
        capture_output=True,
        text=True,
        timeout=900,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_own_strategy_of_under_30_lines_takes_part_in_compare(repository: Path) -> None:
    assert len((repository / "examples" / "own_strategy.py").read_text().splitlines()) < 30
    out = run_example(repository, "own_strategy.py")
    assert [line.split()[0] for line in out.splitlines()] == ["local", "gossip", "Nearest:k=2"]


def test_quickstart_prints_rows_that_sum_to_one(repository: Path) -> None:
    out = run_example(repository, "quickstart.py")
    rows = [line for line in out.splitlines() if "<-" in line]
    assert len(rows) == 16
    for row in rows:
        assert sum(map(float, re.findall(r" (0\.\d\d|1\.00)", row))) == pytest.approx(1, abs=0.1)


def configs(repository: Path) -> list[Path]:
    return sorted((repository / "configs").glob("*.toml"))


def test_every_config_is_valid_and_the_smoke_config_runs(repository: Path) -> None:
    import amity

    assert len(configs(repository)) > 1
    for path in configs(repository):
        load(path)
    assert amity.run(repository / "configs" / "smoke.toml", "r").complete


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("regression.py", r"friends: RMSE \d\.\d+ MW, gain [+-]"),
        ("diagnoses.py", r"AUROC: \d\d\.\d %"),
        ("text.py", r"Dov: perplexity 1\.\d\d, \d\d % right"),
    ],
)
def test_every_task_has_an_example_of_under_60_lines(
    repository: Path, name: str, said: str
) -> None:
    assert len((repository / "examples" / name).read_text().splitlines()) < 60
    assert re.search(said, run_example(repository, name))


def test_own_data_trains_and_names_the_hospitals(repository: Path) -> None:
    out = run_example(repository, "own_data.py")
    found = dict(re.findall(r"\((\w+)\): (\d\.\d\d)", out))
    assert found.keys() == {"north", "south", "west"}
    assert all(0 <= float(accuracy) <= 1 for accuracy in found.values())


def test_the_example_of_real_peers_ends_with_the_simulators_models(repository: Path) -> None:
    out = run_example(repository, "real_peers.py")
    assert "all models are equal to the bit" in out
    simulated, between = re.findall(r"(\d+\.\d+) %", out)
    assert simulated == between


def test_an_own_model_learns(repository: Path) -> None:
    found = re.fullmatch(r"make: (\d+) %\n", run_example(repository, "own_model.py"))
    assert found is not None
    assert int(found[1]) > 30, "ten classes: guessing is right in a tenth of the cases"


def test_a_model_of_the_transformers_library_learns(repository: Path) -> None:
    pytest.importorskip("transformers", reason="pip install transformers")
    assert len((repository / "examples" / "hugging_face.py").read_text().splitlines()) < 60
    found = re.fullmatch(r"accuracy (\d+) %\n", run_example(repository, "hugging_face.py"))
    assert found is not None
    assert int(found[1]) > 60, "three classes: guessing is right in a third of the cases"


def test_adapters_travel_instead_of_the_model(repository: Path) -> None:
    pytest.importorskip("peft", reason="pip install 'amity[lora]'")
    assert len((repository / "examples" / "lora.py").read_text().splitlines()) < 60
    out = run_example(repository, "lora.py")
    accuracy = re.search(r"accuracy (\d+) %", out)
    assert accuracy is not None
    assert int(accuracy[1]) > 50, "four classes: guessing is right in a quarter of the cases"
    adapters, models = (int(n.replace(",", "")) for n in re.findall(r"([\d,]+) as", out))
    assert 20 * adapters < models
