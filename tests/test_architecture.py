"""The house stays as ARCHITECTURE.md draws it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

LEAVES = (
    "_version errors lazy rng files processes geometry registry toml topology units console forward"
    " core facts records events differences lines metric patience pace"
)
LAYERS: list[set[str]] = [
    set(LEAVES.split()),
    {"data"},
    {"tasks"},
    {"learn"},
    {"peer"},
    {"choosing", "strategies", "stages", "methods"},
    {"config"},
    {"round"},
    {"store"},
    {"live"},
    {"simulate", "show", "use"},
    {"sinks"},
    {"net"},
    {"lab"},
    {"reproduce", "bench"},
    {"cli"},
]
"""Packages, lowest first: each may import those of its own line and of those above."""


def census(repository: Path) -> object:
    sys.path.insert(0, str(repository / "tools"))
    try:
        import census as found
    finally:
        sys.path.pop(0)
    return found


@pytest.fixture(scope="module")
def imports(repository: Path) -> dict[str, set[str]]:
    """Which package imports which, by whatever kind of import that runs."""
    found: dict[str, set[str]] = census(repository).take(repository / "src" / "amity").imports  # type: ignore[attr-defined]
    return found


def test_every_package_has_its_place(imports: dict[str, set[str]], repository: Path) -> None:
    known = set().union(*LAYERS)
    there = {p.stem for p in (repository / "src" / "amity").iterdir() if p.stem[:2] != "__"}
    assert {name for name in there if name != "py"} == known


def test_packages_import_only_what_stands_above_them(imports: dict[str, set[str]]) -> None:
    height = {name: at for at, names in enumerate(LAYERS) for name in names}
    wrong = [
        f"{name} imports {other}"
        for name, others in imports.items()
        for other in others
        if height[other] > height[name]
    ]
    assert wrong == []


def test_no_packages_import_each_other_in_a_circle(
    imports: dict[str, set[str]], repository: Path
) -> None:
    assert census(repository).cycles(imports) == []  # type: ignore[attr-defined]


def test_a_public_class_name_means_one_thing(repository: Path) -> None:
    found: dict[str, set[str]] = {}
    for path in (repository / "src" / "amity").rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, set()).add(str(path))
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


def test_a_function_that_tables_share_is_written_once(repository: Path) -> None:
    found: dict[str, set[str]] = {}
    for path in (repository / "src" / "amity" / "reproduce").rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                found.setdefault(node.name, set()).add(path.name)
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


def test_public_names_are_the_same_whatever_was_imported_before() -> None:
    program = """
import importlib, pkgutil, amity
for module in pkgutil.walk_packages(amity.__path__, "amity."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
homes = {name: importlib.import_module(home) for name, home in amity._HOME.items()}
print([name for name in homes if getattr(amity, name) is not getattr(homes[name], name)])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_the_two_runtimes_know_nothing_of_each_other(imports: dict[str, set[str]]) -> None:
    assert "simulate" not in imports["net"]
    assert "net" not in imports["simulate"]


def test_the_map_names_every_package(repository: Path) -> None:
    page = (repository / "ARCHITECTURE.md").read_text(encoding="utf-8")
    house = page[page.index("## The house") : page.index("## How it works")]
    for name in set().union(*LAYERS[1:]) - {"choosing"}:
        assert re.search(rf"\b{name}/", house), name


def test_config_and_estimate_know_no_entry_by_name(repository: Path) -> None:
    """Names of strategies, stages, methods and proxies stand nowhere in their code."""
    from amity.methods import methods
    from amity.peer.proxies import proxies
    from amity.stages import stages
    from amity.strategies import strategies

    kinds = (methods, stages, strategies, proxies)
    names = {entry.name for registry in kinds for entry in registry}
    defaults = {"friends", "finetune", "local"}
    """What a config has if nobody says anything, in sections.py; `local` is an engine."""
    source = repository / "src" / "amity"
    for path in [*(source / "config").glob("*.py"), source / "lab" / "estimate.py"]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        said = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        allowed = defaults if path.name == "sections.py" else set()
        assert said & (names - allowed) == set(), path


LIGHT = ("torch", "matplotlib", "sklearn", "scipy", "pandas", "networkx", "zenoh", "ray")
AT_ONCE = (*LIGHT, "numpy", "pydantic", "amity.config", "amity.data", "amity.registry")
"""What is not needed to say which commands there are."""


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("import amity", AT_ONCE),
        ("import amity.config; amity.config.load()", LIGHT),
        ("import sys; sys.argv = ['amity', '--help']; from amity.cli import main; main()", AT_ONCE),
        ("import sys; sys.argv = ['amity', 'list']; from amity.cli import main; main()", LIGHT),
    ],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(code: str, heavy: tuple[str, ...]) -> None:
    program = f"""
import atexit, sys
atexit.register(lambda: sys.stderr.write(str([m for m in {heavy!r} if m in sys.modules])))
{code}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr == "[]"
