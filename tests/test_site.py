"""The site that `make docs` builds: whole, and without the internet."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import amity
from amity.lab.catalogue import kinds, options

ASSETS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src"}
LOADED = (
    "stylesheet",
    "preload",
    "preconnect",
    "dns-prefetch",
    "icon",
    "modulepreload",
    "prefetch",
)


class Loads(HTMLParser):
    """What a page loads when it is opened, and the names of its places."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.assets: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has = {key: value or "" for key, value in attrs}
        self.ids.add(has.get("id", ""))
        if tag in ASSETS:
            self.assets.append(has.get(ASSETS[tag], ""))
        if tag == "link" and set(has.get("rel", "").split()) & set(LOADED):
            self.assets.append(has.get("href", ""))


@pytest.fixture(scope="module")
def site(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make test` has just built; without it, a build of one's own."""
    if os.environ.get("AMITY_SITE"):
        return Path(os.environ["AMITY_SITE"])
    out = tmp_path_factory.mktemp("site")
    words = ["-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    here = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(repository / "src")}
    done = subprocess.run(
        [sys.executable, *words], cwd=repository, capture_output=True, text=True, env=here
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return out


def test_no_page_loads_anything_from_elsewhere_and_all_that_it_loads_is_there(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        for asset in Loads(page.read_text(encoding="utf-8")).assets:
            assert not re.match(r"(\w+:)?//", asset), f"{page.name}: {asset}"
            if page.name != "404.html" and not asset.startswith("data:"):
                assert (page.parent / asset.partition("?")[0].partition("#")[0]).exists(), asset
    for style in site.rglob("*.css"):
        loaded = re.findall(r"(?:url\(|@import )['\"]?([^'\")\s]+)", style.read_text("utf-8"))
        assert [one for one in loaded if re.match(r"(\w+:)?//", one)] == [], style.name


def test_search_works_from_disk(site: Path) -> None:
    """Without a server a browser starts no worker and fetches nothing: a script has the index, and
    a shim stands for the worker."""
    text = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    found = json.loads(text.partition("=")[2])["docs"]
    assert any("Three hospitals" in place["title"] for place in found)
    assert 'src="assets/iframe-worker' in (site / "index.html").read_text(encoding="utf-8")


def test_the_reference_has_every_option_and_every_public_name(site: Path) -> None:
    text = (site / "reference" / "options.html").read_text(encoding="utf-8")
    missing = {option.key for option in options()} - set(re.findall(r"<code>([^<]+)</code>", text))
    assert missing <= {kind.key for kind in kinds()}, "keys that choose an entry are headings"
    named = Loads((site / "reference" / "python.html").read_text(encoding="utf-8")).ids
    assert {name for name in amity.__all__ if f"amity.{name}" not in named} == {"__version__"}


def test_every_public_name_says_what_it_is(site: Path) -> None:
    text = (site / "reference" / "python.html").read_text(encoding="utf-8")
    parts = re.split(r'<div class="doc doc-object', text)[1:]
    silent = [
        found[1]
        for part in parts
        if (found := re.search(r'id="(amity\.\w+)" class="doc doc-heading', part))
        and "<p>" not in part
    ]
    assert silent == []
