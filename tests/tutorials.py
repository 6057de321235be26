"""A page of the documentation as a reader would follow it: files are written, commands and code
are run, and what they say is compared with what the page says.

    <!-- file mine.py -->    the block below becomes this file
    <!-- run -->             the block below is run: `python`, or `console` with `$ commands`
    <!-- output -->          the block below is what the code before has printed

In an output `...` stands for anything. Words must be the same; numbers may differ as much as they
do between kinds of machines.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MARKED = re.compile(r"<!-- (run|output|file (\S+)) -->\n\n?```(\w*)\n(.*?)```", re.S)
NUMBER = re.compile(r"[-+−±]?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?")
NEAR, SHARE = 5.0, 0.25


@dataclass
class Page:
    """One page, run from its top to its end in the current folder."""

    text: str
    amity: Callable[[str], tuple[int, str, str]]
    """The command line: exit code, standard output and error of `amity LINE`."""
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "page"})
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)
    printed: str = ""

    def follow(self) -> Iterator[tuple[str, str, str]]:
        """What was shown, what it says on the page, what it really said."""
        for what, file, kind, block in MARKED.findall(self.text):
            if file:
                Path(file).parent.mkdir(parents=True, exist_ok=True)
                Path(file).write_text(block, encoding="utf-8")
            elif what == "output":
                yield "the code above", block, self.printed
            elif kind == "python":
                self.printed = self._python(block)
            else:
                for command, said in commands(block):
                    yield command, said, self._console(command)

    def _python(self, block: str) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(block, "page.py", "exec"), self.names)
        return out.getvalue()

    def _console(self, command: str) -> str:
        words = shlex.split(command)
        if words == ["wait"]:
            codes = [process.wait(300) for process in self.started]
            assert codes == [0] * len(codes), command
            return ""
        if words[-1] == "&":
            self.started.append(subprocess.Popen([*program(words[:-1])], stdout=subprocess.DEVNULL))
            return ""
        if words[0] == "amity":
            code, out, error = self.amity(" ".join(words[1:]))
            assert code == 0, f"{command}: {error}"
            return out
        shell = "|" in words or ">" in words or ">>" in words
        done = subprocess.run(
            command if shell else program(words), shell=shell, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def stop(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()


def program(words: list[str]) -> list[str]:
    """The same interpreter as that of the tests."""
    ours = {"python": [sys.executable], "amity": [sys.executable, "-m", "amity"]}
    return [*ours.get(words[0], [words[0]]), *words[1:]]


def commands(block: str) -> Iterator[tuple[str, str]]:
    """Commands of a console block, and what each says; a command goes on after a backslash."""
    whole = block.replace("\\\n", " ")
    for part in re.split(r"^\$ ", whole, flags=re.M)[1:]:
        command, _, said = part.partition("\n")
        yield command.partition("  #")[0].strip(), said


def same(said: str, really: str) -> bool:
    """Whether an output is what the page says."""
    wanted, found = said.split(), really.split()
    at = 0
    for place, word in enumerate(wanted):
        if word == "...":
            rest = wanted[place + 1 :]
            if not rest:
                return True
            tail = " ".join(rest)
            return any(same(tail, " ".join(found[k:])) for k in range(at, len(found)))
        if at >= len(found) or not alike(word, found[at]):
            return False
        at += 1
    return at == len(found)


def alike(word: str, found: str) -> bool:
    """Two words that are equal, but for the size of their numbers."""
    mine, theirs = NUMBER.findall(word), NUMBER.findall(found)
    if NUMBER.sub("#", word) != NUMBER.sub("#", found):
        return False
    return all(near(value(a), value(b)) for a, b in zip(mine, theirs, strict=True))


def value(number: str) -> float:
    return float(number.replace(",", "").replace("−", "-").lstrip("±"))


def near(a: float, b: float) -> bool:
    return abs(a - b) <= max(NEAR, SHARE * abs(a))
