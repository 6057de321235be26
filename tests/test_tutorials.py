"""What the pages show is what happens: every marked block is run, and every command is one."""

from __future__ import annotations

import contextlib
import re
import shlex
import socket
from pathlib import Path

import pytest
import typer

from amity.cli.app import app
from amity.config import load, parse
from amity.errors import AmityError
from tests.conftest import Call
from tests.tutorials import Page, same

ROOT = Path(__file__).resolve().parent.parent
OWN = re.compile(r"(out|sinks|strategies|seeds|shifts|jobs|net\..*)=")
"""Keys that belong to a command, or to real peers."""
PAGES = sorted(
    str(page.relative_to(ROOT))
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
    if "<!-- run -->" in page.read_text(encoding="utf-8")
)


def on_free_ports(text: str) -> str:
    """The page with ports that nobody uses here."""
    with contextlib.ExitStack() as stack:
        for port in ("7451", "7452", "7453"):
            free = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            text = text.replace(port, str(free.getsockname()[1]))
    return text


@pytest.mark.parametrize("name", PAGES)
def test_a_page_does_what_it_says(name: str, call: Call) -> None:
    page = Page(on_free_ports((ROOT / name).read_text(encoding="utf-8")), call)
    try:
        for command, said, really in page.follow():
            if said.strip():
                assert same(said, really), f"{command}\nthe page:\n{said}\nreally:\n{really}"
    finally:
        page.stop()


def test_every_tutorial_runs_something() -> None:
    tutorials = {
        str(page.relative_to(ROOT))
        for page in (ROOT / "docs" / "tutorials").glob("*.md")
        if page.name not in ("index.md", "ray.md")  # a cluster is started in test_cluster.py
    }
    assert len(tutorials) == 7
    assert {"docs/index.md", "README.md", *tutorials} <= set(PAGES)


def shown() -> list[tuple[str, list[str]]]:
    """Every `amity` command in a block of any page: the page, and the words."""
    found = []
    for page in (ROOT / "README.md", ROOT / "deploy" / "README.md", *(ROOT / "docs").rglob("*.md")):
        for block in re.findall(r"```\w*\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
            for line in block.replace("\\\n", " ").splitlines():
                words = line.removeprefix("$ ").partition("  #")[0].partition(" &")[0]
                if words.startswith("amity "):
                    found.append((page.name, shlex.split(words)[1:]))
    return found


def test_every_command_that_a_page_shows_is_one_and_its_keys_are_known() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert len(shown()) > 80
    for page, words in shown():
        command = commands.get(words[0])
        assert command is not None, f"{page}: amity {words[0]}"
        below = getattr(command, "commands", None)
        assert below is None or words[1] in below, f"{page}: amity {' '.join(words[:2])}"
        own_code = any(".py:" in word for word in words)  # it may bring options of its own
        if words[0] in ("run", "compare", "swarm") and not own_code:
            keys = [word for word in words[1:] if "=" in word and not OWN.match(word)]
            try:
                load(None, parse(keys))
            except AmityError as error:
                pytest.fail(f"{page}: amity {' '.join(words)}: {error}")


@pytest.mark.parametrize(
    ("said", "really", "expected"),
    [
        ("local 85.3 ± 0.8", "local  84.9 ± 1.1", True),
        ("local 85.3 ± 0.8", "gossip 85.3 ± 0.8", False),
        ("friends 95 %", "friends 20 %", False),
        ("a ... z", "a b c z", True),
        ("a ... z", "a b c", False),
        ("a", "a b", False),
        ("peer-03 1", "peer-03 1 more", False),
    ],
)
def test_outputs_differ_in_more_than_noise_or_not_at_all(
    said: str, really: str, expected: bool
) -> None:
    assert same(said, really) is expected
