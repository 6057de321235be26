"""Live pages and browsers for tests: a real server process, a real browser."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
WAIT = 120.0
"""Seconds after which a wait has failed; nothing depends on how long it takes."""
needs_browser = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="no browser here: apt-get install chromium chromium-driver",
)


@dataclass
class Page:
    """`amity watch` as its user would start it."""

    address: str
    process: subprocess.Popen[str]

    @property
    def base(self) -> str:
        return self.address.partition("/?")[0]

    @property
    def token(self) -> str:
        return self.address.rpartition("token=")[2]

    @property
    def port(self) -> int:
        return int(self.base.rpartition(":")[2])

    def end(self, by: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(by)
        code = self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@contextmanager
def watching(*words: str | Path, **environment: str) -> Iterator[Page]:
    """Until the block ends, unless it was ended in it."""
    command = [sys.executable, "-W", "error", "-m", "amity", "watch", *map(str, words)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1", **environment},
    )
    assert process.stdout is not None
    said = process.stdout.readline()
    found = re.search(r"live page: (\S+)", said)
    assert found, said + process.stdout.read()
    page = Page(found[1], process)
    try:
        yield page
    finally:
        if process.poll() is None:
            page.end()


def until(what: Callable[[], Any], told: str = "") -> Any:
    """Wait for something to become true; returns it."""
    end = time.monotonic() + WAIT
    last: Any = None
    while time.monotonic() < end:
        try:
            if last := what():
                return last
        except Exception as error:
            last = error
        time.sleep(0.1)
    raise AssertionError(f"{told or 'it'} did not come: {last}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for a file of tests; whatever its console complains of is an error."""
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("no browser here")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for word in (
        *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
        *("--window-size=1280,1100", "--disable-background-networking", "--no-first-run"),
    ):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


class Seen:
    """What a page shows, asked of the page itself."""

    def __init__(self, driver: Any, address: str) -> None:
        self.driver = driver
        driver.get("about:blank")  # a page that was open still asks its port, which others now have
        driver.get_log("browser")
        driver.get(address)

    def js(self, expression: str, *given: Any) -> Any:
        return self.driver.execute_script(f"return ({expression});", *given)

    def text(self, selector: str) -> str:
        return str(self.js("document.querySelector(arguments[0])?.textContent ?? ''", selector))

    def drawn(self) -> dict[str, Any]:
        """The round that is drawn, as the page has it."""
        return dict(self.js("amity.page.rounds.data ?? {}"))

    def round(self) -> int:
        return int(self.js("amity.page?.rounds.data?.round ?? -1"))

    def complaints(self) -> list[str]:
        """Errors of the console, except that a server was not there."""
        lines = [str(line["message"]) for line in self.driver.get_log("browser")]
        return [line for line in lines if "ERR_" not in line]
