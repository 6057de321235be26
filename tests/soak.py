"""Endurance: eight real peers, an hour of faults at random, and nothing may grow.

    python -m tests.soak [MINUTES] [SEED]            # make soak: 60 minutes

Each peer has a network namespace of its own; without root or iproute2 all are on loopback. Their
lines lose 5 % and are late by 200 ms, by netem or, where the kernel has none, by a door in front of
each peer (`tests/lossy.py`). Every few seconds one fault: a kill (the peer is started again), a
hang, a cut between the halves, a link that flaps. Two peers are never killed. At the end everyone
has gone on learning, and memory, open files, threads and checkpoints of those two are as large as
they were after the first third.
"""

from __future__ import annotations

import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from amity.console import say
from amity.net.ops.swarm import Swarm, free_ports
from amity.net.options import Net
from amity.net.trust.roster import Roster, split_address
from tests.lossy import Door, Line, nothing
from tests.namespaces import Lab, sh, why_not
from tests.test_chaos import config, last_line, paced

PEERS, ENDLESS = 8, 10**6
NETEM, LINE = "netem loss 5% delay 200ms", Line(loss=0.05, delay=0.2)
GROWTH = {
    "memory": (1.15, 30e6),
    "files": (1.0, 12),
    "threads": (1.0, 8),
    "checkpoints": (1.2, 1e6),
}
"""So many times as much, and so much more, is flat."""


@dataclass(frozen=True)
class Reading:
    """What one peer holds at one moment."""

    memory: float
    files: float
    threads: float
    checkpoints: float

    @classmethod
    def of(cls, pid: int, state: Path) -> Reading:
        home = Path(f"/proc/{pid}")
        status = dict(
            line.split(":", 1) for line in (home / "status").read_text().splitlines() if ":" in line
        )
        kept = (path for path in state.rglob("*") if path.is_file() and path.suffix != ".jsonl")
        return cls(
            memory=1024 * float(status["VmRSS"].split()[0]),
            files=len(list((home / "fd").iterdir())),
            threads=float(status["Threads"]),
            checkpoints=sum(path.stat().st_size for path in kept),
        )


@dataclass
class Soak:
    """A swarm, the faults that befall it, and what was read of it."""

    swarm: Swarm
    lab: Lab | None
    doors: dict[str, Door]
    draw: random.Random
    readings: dict[str, list[Reading]] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)

    @property
    def steady(self) -> list[str]:
        """Never killed: only their memory can be compared over time."""
        return [self.swarm.names[0], self.swarm.names[-1]]

    def round_of(self, name: str) -> int:
        return int(last_line(self.swarm.folder(name) / "state" / "metrics.jsonl").get("round", -1))

    def fault(self) -> None:
        """One at random; it is over when this returns."""
        name = self.draw.choice([n for n in self.swarm.names if n not in self.steady])
        kinds = [self.kill, self.hang]
        kinds += [self.cut] if self.lab else []
        kinds += [self.flap] if self.lab or self.doors else []
        kind = self.draw.choice(kinds)
        self.faults[kind.__name__] = self.faults.get(kind.__name__, 0) + 1
        kind(name)

    def kill(self, name: str) -> None:
        self.swarm.kill(name)
        self.swarm.processes[name].join()
        time.sleep(self.draw.uniform(0, 5))
        self.swarm.start([name])

    def hang(self, name: str) -> None:
        self.swarm.kill(name, signal.SIGSTOP)
        time.sleep(self.draw.uniform(1, 8))
        self.swarm.kill(name, signal.SIGCONT)

    def cut(self, name: str) -> None:
        assert self.lab is not None
        self.lab.cut()
        time.sleep(self.draw.uniform(1, 8))
        self.lab.heal()

    def flap(self, name: str) -> None:
        for _ in range(5):
            for up in (False, True):
                self.link(name, up)
                time.sleep(self.draw.uniform(0.1, 1))

    def link(self, name: str, up: bool) -> None:
        """A peer's cable, or else its door."""
        if self.lab is not None:
            sh(f"ip link set {self.lab.space[name]}o {'up' if up else 'down'}")
        elif up:
            self.doors[name].shut.clear()
        else:
            self.doors[name].shut.set()

    def read(self) -> None:
        for name in self.steady:
            pid = self.swarm.processes[name].pid
            assert pid is not None
            state = self.swarm.folder(name) / "state"
            self.readings.setdefault(name, []).append(Reading.of(pid, state))

    def grown(self) -> list[str]:
        """What is larger at the end than after the first third, in words."""
        found = []
        for name, readings in self.readings.items():
            third = max(1, len(readings) // 3)
            for what, (times, more) in GROWTH.items():
                early, late = (
                    statistics.median(getattr(one, what) for one in part)
                    for part in (readings[third : 2 * third] or readings[:1], readings[-third:])
                )
                if late > times * early + more:
                    found.append(f"{name}: {what} grew from {early:g} to {late:g}")
        return found


def soak(minutes: float, seed: int, out: Path) -> Soak:
    """Faults for so many minutes. Raises where somebody stands still or fails."""
    settings = config(ENDLESS, PEERS, checkpoint={"every": 5})
    net = Net(gather=30, deadline=12, patience=8, lease=4)
    with ExitStack() as stack:
        reason, names = why_not(), [f"peer-{i:02d}" for i in range(PEERS)]
        lab = None if reason else stack.enter_context(Lab(names))
        delayed = lab is not None and all(_netem(lab, name) for name in names)
        say(f"{PEERS} peers {f'on loopback: {reason}' if reason else 'in namespaces'}")
        hosts, enter = (lab.hosts, lab.enter) if lab else ({}, None)
        swarm = Swarm(out, settings, net, hosts=hosts, enter=paced(enter))
        swarm.lay_out()
        doors = {} if delayed else _doors(swarm, lab)
        say(f"with {NETEM}" if delayed else f"with {LINE}: no netem here")
        for door in doors.values():
            stack.callback(door.open().close)
        stack.callback(swarm.stop)
        swarm.start()
        run = Soak(swarm, lab, doors, random.Random(seed))
        end, before = time.monotonic() + 60 * minutes, dict.fromkeys(swarm.names, -1)
        looked = time.monotonic()
        while time.monotonic() < end:
            time.sleep(run.draw.uniform(1, 6))
            run.fault()
            assert swarm.failed == {}, swarm.failed
            run.read()
            if time.monotonic() - looked > 120:
                looked = time.monotonic()
                now = {name: run.round_of(name) for name in swarm.names}
                still = [name for name in swarm.names if now[name] <= before[name]]
                assert not still, f"{still} stand still at {now}"
                before = now
                left = max(0.0, end - looked) / 60
                say(f"rounds {min(now.values())} to {max(now.values())}; {left:.0f} min left")
        assert all(run.round_of(name) >= 0 for name in swarm.names)
    return run


def _netem(lab: Lab, name: str) -> bool:
    added = ["tc", "qdisc", "add", "dev", f"{lab.space[name]}o", "root", *NETEM.split()]
    return subprocess.run(added, capture_output=True, check=False).returncode == 0


def _doors(swarm: Swarm, lab: Lab | None) -> dict[str, Door]:
    """A door for everyone, at the address that the roster has from now on."""
    everyone, members, doors = swarm.roster.members.values(), [], {}
    for at, (member, port) in enumerate(zip(everyone, free_ports(PEERS), strict=True)):
        host, inside = split_address(member.address)
        enter = partial(lab.enter, member.name) if lab else nothing
        doors[member.name] = Door((host, port), (host, inside), LINE, enter, seed=at)
        members.append(replace(member, address=f"{host}:{port}"))
    swarm.write_roster(Roster.of(swarm.roster.network, members))
    return doors


def main(minutes: float = 60, seed: int = 1) -> None:
    with tempfile.TemporaryDirectory(prefix="amity-soak-") as folder:
        run = soak(minutes, seed, Path(folder) / "swarm")
    say(f"faults: {', '.join(f'{n} x {kind}' for kind, n in sorted(run.faults.items()))}")
    for name, readings in run.readings.items():
        last = readings[-1]
        say(
            f"{name} at the end: {last.memory / 1e6:.0f} MB, {last.files:.0f} files,"
            f" {last.threads:.0f} threads, {last.checkpoints / 1e6:.2f} MB of checkpoints"
        )
    if grown := run.grown():
        raise SystemExit("\n".join(grown))
    say("nothing has grown, and nobody stood still")


if __name__ == "__main__":
    main(*(kind(word) for kind, word in zip((float, int), sys.argv[1:], strict=False)))
