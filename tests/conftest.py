"""What the tests share: tiny configs on real digits, and specs that cover every strategy and
preset."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from amity import cli
from amity.config import Config, resolve
from amity.methods import methods
from amity.peer.proxies import proxies
from amity.round.build import load_data
from amity.simulate import Simulation
from amity.strategies import strategies

torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"
os.environ |= {  # trackers look at these when they are imported: nothing leaves this machine
    "DO_NOT_TRACK": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_DISABLE_AGENT_HINT": "true",
    "WANDB_ERROR_REPORTING": "false",
    "WANDB_BASE_URL": "http://127.0.0.1:9",
}

TINY: Mapping[str, Any] = {
    "peers": 6,
    "rounds": 3,
    "partition": {"name": "pathological", "classes": 5, "samples": 10, "test": 30},
    "model": {"name": "mlp", "hidden": 12},
    "train": {"epochs": 1, "batch": 8, "lr": 0.05},
    "eval": {"gradients_every": 2},
    "engine": {"workers": 1},
}

OTHER_PROXIES = tuple(entry.name for entry in proxies if not entry.cls.probed)
EVERY_STRATEGY: list[dict[str, Any]] = [
    *({"name": entry.name} for entry in strategies),
    {"name": "afind+", "preset": "literal"},
    {"name": "afind+", "preset": "paper"},
    {"name": "afind+", "preset": "paper", "proxy": "grad_asker"},
    {"name": "afind+", "protocol": "visit", "include_self": False},
]
EVERY_METHOD = [entry.name for entry in methods]


def tiny(**overrides: Any) -> Config:
    """A config that runs in a tenth of a second; keyword arguments are layers on top."""
    return resolve([TINY, overrides])


def simulate(config: Config) -> Simulation:
    return Simulation(config, load_data(config))


def spec_id(spec: Mapping[str, Any]) -> str:
    return ":".join(str(value) for value in spec.values())


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--full",
        action="store_true",
        help="the complete chaos, stranger and fuzz runs, as in make test-all",
    )


@pytest.fixture(scope="session")
def full(request: pytest.FixtureRequest) -> bool:
    """Whether to run the long form: `make test-all`."""
    return bool(request.config.getoption("--full"))


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True, scope="session")
def _with_a_memory_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What is run in tests is not remembered as the user's."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session")
def repository() -> Path:
    return Path(__file__).resolve().parent.parent


Call = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """The command line in this process: exit code, standard output and error of `amity LINE`."""

    def amity(line: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["amity", *line.split()])
        code = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return amity
