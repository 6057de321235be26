"""The race: Amity against a plain PyTorch loop and other frameworks, on this machine, in one run.

`python benchmarks/race.py --venvs DIR fashion tiny`, with the Python that Amity is installed in.

Each framework gets a virtual environment of its own in DIR (made when it is missing). Racers run
one after the other, each in its own process, all of them once, then all again (`--repeats`), so
that a slow minute of the machine hits everyone; medians are shown. Racers with more than one
sensible setting try each of them first and keep the fastest. A framework that fails is shown as
failed, and the others go on.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
import venv
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from common import CORES, HERE, Workload, load

Line = dict[str, Any]
ONE, ALL = ("--threads", "1"), ("--threads", str(CORES))
EACH = ("--workers", str(CORES), "--threads", "1")


class RacerError(Exception):
    """Why a framework could not be installed or run, in one line."""


@dataclass(frozen=True)
class Racer:
    """A module of `racers` and the settings that it may choose the fastest of."""

    name: str
    settings: tuple[tuple[str, ...], ...] = ((),)


RACERS = (
    Racer("plain", (ONE, ALL)),
    Racer("amity"),
    Racer("flower"),
    Racer("pfl", (ONE, ALL, EACH)),
    Racer("gossipy", (ONE, ALL)),
    Racer("fluke", (ONE, ALL)),
)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no message"


# Installing


def requirements(name: str) -> list[list[str]]:
    """Arguments of the calls of pip that a framework needs."""
    calls = [["-r", f"{HERE}/requirements/{name}.txt"]]
    bare = HERE / "requirements" / f"{name}.nodeps.txt"
    return [*calls, ["--no-deps", "-r", str(bare)]] if bare.exists() else calls


def fingerprint(name: str) -> str:
    files = sorted((HERE / "requirements").glob(f"{name}.*txt"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def install(name: str, venvs: Path) -> Path:
    """The Python of a framework's own environment, made now unless it is there with the same
    requirements."""
    home = venvs / name
    python, ready = home / "bin" / "python", home / "ready"
    if ready.exists() and ready.read_text() == fingerprint(name):
        return python
    say(f"{name}: installing ...")
    venv.create(home, with_pip=True, clear=True)
    env = {**os.environ, "PIP_CONSTRAINT": f"{HERE}/requirements/constraints.txt"}
    for call in requirements(name):
        command = [str(python), "-m", "pip", "install", "--quiet", *call]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            raise RacerError(f"not installed: {last_line(done.stderr)}")
    ready.write_text(fingerprint(name))
    return python


# Running


def run(
    racer: Racer, python: Path, workload: Workload, options: tuple[str, ...], timeout: float
) -> list[Line]:
    """Run a racer once; the lines of JSON that it prints (Amity may print one for each
    precision)."""
    command = [str(python), "-m", f"racers.{racer.name}", workload.name, *options]
    process = subprocess.Popen(  # noqa: S603
        command,
        cwd=HERE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise RacerError(f"not finished after {timeout:.0f} s") from None
    finally:
        end(process)
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    if process.returncode or not lines:
        raise RacerError(f"failed: {last_line(err)}")
    return lines


def end(process: subprocess.Popen[str]) -> None:
    """Leave nothing of a racer behind: it has a session of its own, with all its workers."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


def tune(racer: Racer, python: Path, workload: Workload, timeout: float) -> tuple[str, ...]:
    """The fastest of a racer's settings: two timed rounds each, the better of two tries, because
    machines are noisy."""
    settings = list(dict.fromkeys(racer.settings))
    if len(settings) == 1:
        return settings[0]
    speeds = dict.fromkeys(settings, 0.0)
    for setting in settings * 2:
        line = run(racer, python, workload, (*setting, "--rounds", "2"), timeout)[0]
        speeds[setting] = max(speeds[setting], line["rounds_per_s"])
        say(
            f"{workload.name} {racer.name}: tried {line['setting']}: {line['rounds_per_s']:.3f}"
            " rounds/s"
        )
    return max(speeds, key=speeds.__getitem__)


@dataclass
class Race:
    """All results so far: lines by workload and label, or the reason why there are none."""

    args: argparse.Namespace
    lines: dict[tuple[str, str], list[Line]]
    failures: dict[tuple[str, str], str]

    def pythons(self, racers: list[Racer]) -> dict[str, Path]:
        found = {}
        for racer in racers:
            try:
                found[racer.name] = (
                    self.args.amity
                    if racer.name == "amity"
                    else install(racer.name, self.args.venvs)
                )
            except (RacerError, OSError, subprocess.SubprocessError) as error:
                self.failures |= {
                    (workload.name, racer.name): last_line(str(error))
                    for workload in self.args.workloads
                }
                say(f"{racer.name}: {last_line(str(error))}")
        return found

    def go(self, racers: list[Racer]) -> None:
        """Install, tune, then all racers one after the other, as often as was asked for."""
        pythons = self.pythons(racers)
        pairs = [
            (workload, racer)
            for workload in self.args.workloads
            for racer in racers
            if racer.name in pythons
        ]
        settings: dict[tuple[str, str], tuple[str, ...]] = {}
        for turn in range(self.args.repeats):
            for workload, racer in pairs:
                key = (workload.name, racer.name)
                if key in self.failures:
                    continue
                try:
                    if key not in settings:
                        settings[key] = tune(
                            racer, pythons[racer.name], workload, self.args.timeout
                        )
                    self.add(
                        run(racer, pythons[racer.name], workload, settings[key], self.args.timeout),
                        turn,
                    )
                except (RacerError, OSError) as error:
                    self.failures[key] = last_line(str(error))
                    say(f"{workload.name} {racer.name}: {self.failures[key]}")

    def add(self, lines: list[Line], turn: int) -> None:
        for line in lines:
            label = (
                f"amity ({line['setting']})" if line["framework"] == "amity" else line["framework"]
            )
            self.lines[line["workload"], label].append(line)
            say(
                f"{line['workload']} {label}, run {turn + 1} of {self.args.repeats}:"
                f" {line['rounds_per_s']:.3f} rounds/s"
            )

    def rows(self, workload: str) -> list[Line]:
        """One row for each racer that finished, fastest first, with its ratios to the plain loop
        and to Amity."""
        rows = [
            summary(label, lines) for (name, label), lines in self.lines.items() if name == workload
        ]
        plain = next((row["rounds_per_s"] for row in rows if row["framework"] == "plain"), None)
        amity = next((row["rounds_per_s"] for row in rows if row["framework"] == "amity"), None)
        for row in rows:
            row["times_plain"] = row["rounds_per_s"] / plain if plain else None
            row["amity_times"] = amity / row["rounds_per_s"] if amity else None
        return sorted(rows, key=lambda row: -row["rounds_per_s"])


def middle(lines: list[Line], key: str) -> float | None:
    values = [line[key] for line in lines if line[key] is not None]
    return median(values) if values else None


def summary(label: str, lines: list[Line]) -> Line:
    """The median of the repeats; that the work was equal must hold in all of them."""
    rates = [line["rounds_per_s"] for line in lines]
    medians = ("seconds_per_round", "rounds_per_s", "samples_per_s", "startup_s", "peak_mb")
    return {
        **lines[0],
        **{key: middle(lines, key) for key in medians},
        "label": label,
        "slowest": min(rates),
        "fastest": max(rates),
        "repeats": len(lines),
        "equal_work": (
            None if lines[0]["equal_work"] is None else all(line["equal_work"] for line in lines)
        ),
    }


# Showing

COLUMNS: dict[str, Callable[[Line], str]] = {
    "framework": lambda row: row["label"],
    "version": lambda row: row["version"],
    "setting": lambda row: row["setting"],
    "rounds/s": lambda row: f"{row['rounds_per_s']:.3g}",
    "from - to": lambda row: f"{row['slowest']:.3g} - {row['fastest']:.3g}",
    "samples/s": lambda row: f"{row['samples_per_s']:,.0f}",
    "x plain loop": lambda row: ratio(row["times_plain"]),
    "Amity is x times faster": lambda row: ratio(row["amity_times"]),
    "start-up s": lambda row: "-" if row["startup_s"] is None else f"{row['startup_s']:.0f}",
    "peak MB": lambda row: f"{row['peak_mb']:,.0f}",
    "steps a round": lambda row: steps(row),
}


def ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def steps(row: Line) -> str:
    """Counted and expected steps; never silent about unequal work."""
    if row["equal_work"] is None:
        return "not counted"
    return f"{row['steps_per_round']:g} of {row['expected_steps']}" + (
        "" if row["equal_work"] else ": UNEQUAL WORK"
    )


def table(rows: list[Line]) -> str:
    """A Markdown table, aligned."""
    cells = [list(COLUMNS), *([show(row) for show in COLUMNS.values()] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(COLUMNS))]
    lines = [
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in cells
    ]
    return "\n".join(
        [lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]]
    )


def show(race: Race) -> None:
    for workload in race.args.workloads:
        rows = race.rows(workload.name)
        say(f"\n{workload.name}\n\n{table(rows)}\n")
        for row in rows:
            if row["notes"]:
                say(f"{row['label']}: {row['notes']}")
        for (name, label), reason in race.failures.items():
            if name == workload.name:
                say(f"{label}: FAILED, {reason}")


def cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    return next(
        (line.split(":")[1].strip() for line in lines if line.startswith("model name")),
        platform.processor(),
    )


def machine() -> dict[str, Any]:
    return {
        "cpu": cpu(),
        "cores": CORES,
        "system": platform.system(),
        "python": platform.python_version(),
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def write(race: Race) -> None:
    """race.json with every single run, and the picture."""
    race.args.out.mkdir(parents=True, exist_ok=True)
    found = {
        "machine": machine(),
        "workloads": {workload.name: race.rows(workload.name) for workload in race.args.workloads},
        "runs": [line for lines in race.lines.values() for line in lines],
        "failures": [
            {"workload": w, "framework": f, "reason": reason}
            for (w, f), reason in race.failures.items()
        ],
    }
    (race.args.out / "race.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    draw(race)
    say(f"\nwritten: {race.args.out / 'race.json'}, {race.args.out / 'race.png'}")


def draw(race: Race) -> None:
    """Bars of rounds per second, one panel for each workload, Amity in colour; whiskers from
    slowest to fastest run."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 0.6 + 2.8 * len(race.args.workloads)), layout="constrained")
    panels = figure.subplots(len(race.args.workloads), squeeze=False)[:, 0]
    for axes, workload in zip(panels, race.args.workloads, strict=True):
        rows = race.rows(workload.name)[::-1]
        rates = [row["rounds_per_s"] for row in rows]
        down = [row["rounds_per_s"] - row["slowest"] for row in rows]
        up = [row["fastest"] - row["rounds_per_s"] for row in rows]
        colours = ["#d1495b" if row["framework"] == "amity" else "#8d99ae" for row in rows]
        bars = axes.barh(
            [row["label"] for row in rows], rates, color=colours, xerr=[down, up], ecolor="#404040"
        )
        axes.bar_label(bars, [f" {rate:.3g}" for rate in rates], padding=4)
        axes.set(
            xlabel="rounds per second",
            title=(
                f"{workload.name}: {workload.peers} peers x {workload.samples} examples,"
                f" {workload.model}, {CORES} cores"
            ),
        )
        axes.margins(x=0.12)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(race.args.out / "race.png", dpi=150)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workloads", nargs="*", type=load, default=[load("fashion"), load("tiny")])
    parser.add_argument(
        "--venvs",
        type=Path,
        required=True,
        help="where the frameworks' environments are, or will be",
    )
    parser.add_argument(
        "--only", help="comma-separated: " + ",".join(racer.name for racer in RACERS)
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=900, help="seconds that one run may take")
    parser.add_argument(
        "--amity",
        type=Path,
        default=Path(sys.executable),
        help="the Python that has Amity; this one",
    )
    parser.add_argument("--out", type=Path, default=Path(), help="folder of race.json and race.png")
    args = parser.parse_args()
    args.venvs = args.venvs.resolve()
    return args


def main() -> int:
    # so that the racer that runs is ended too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    args = parse()
    wanted = args.only.split(",") if args.only else [racer.name for racer in RACERS]
    unknown = set(wanted) - {racer.name for racer in RACERS}
    if unknown:
        raise SystemExit(
            f"unknown: {', '.join(sorted(unknown))}; there are"
            f" {', '.join(racer.name for racer in RACERS)}"
        )
    race = Race(args, defaultdict(list), {})
    race.go([racer for racer in RACERS if racer.name in wanted])
    show(race)
    write(race)
    return 0


if __name__ == "__main__":
    sys.exit(main())
