"""What has left this peer that tells something of its raw data: written to disk before it leaves.

One line per answer, flushed to the disk, so that neither a crash nor a restart can forget one.
Whoever spends a privacy budget counts from here.
"""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from amity.config import Config
from amity.errors import StorageError
from amity.facts import Probe, Reported, Said, Similarity, Visit
from amity.files import sync_folder
from amity.peer.privacy import Account, statement, uncovered
from amity.records import PeerRecord
from amity.store import read_lines, read_records

DISCLOSED = {
    "card": Similarity(),
    "losses": Reported(),
    "says": Said(),
    "probe": Probe(),
    "visit": Visit(),
}
"""What the facts that look at raw data are called here."""
SHOWN = "metrics shown to members"
"""No fact, but it follows from raw data too (`net.show`)."""


def disclosed_facts(spent: Mapping[str, int], config: Config) -> set[str]:
    """The facts behind what has left, by name, with the cards of any phase."""
    specs = [phase.decider.card for _, phase in config.phases]
    kinds = [fact for kind, fact in DISCLOSED.items() if spent.get(kind)]
    shown = {SHOWN} if spent.get("shown") else set()
    return {fact.name_of(spec) for fact in kinds for spec in specs} | shown


@dataclass(frozen=True)
class Privacy:
    """What differential privacy has cost a peer in its whole life, also while it answered others
    after its last round."""

    steps: int
    epsilon: float
    excluded: tuple[str, ...]
    statement: str


def privacy_of(state: Path, config: Config) -> Privacy | None:
    """From what a peer wrote before anything left, and what it asked; None where nothing is
    private."""
    mechanism = config.privacy.instance
    if not mechanism.about:
        return None
    lines = read_lines(state / "disclosed.jsonl")
    paid = [record for record in lines if record.get("steps")]
    steps, rate = (
        sum(int(record["steps"]) for record in paid),
        max((float(r["rate"]) for r in paid), default=1.0),
    )
    asked = {
        str(name)
        for record in read_records(state / "metrics.jsonl", PeerRecord)
        for name in record.excluded or ()
    }
    asked |= disclosed_facts(Counter(str(record["kind"]) for record in lines), config)
    excluded = uncovered(mechanism, config.method.instance, asked)
    epsilon = Account(mechanism, rate).epsilon(steps)
    return Privacy(steps, epsilon, tuple(excluded), statement(mechanism, epsilon, excluded))


class Accounts:
    """Append-only; `spent` counts by kind over the whole life of the peer."""

    def __init__(self, path: Path) -> None:
        self._lock, self._path = threading.Lock(), path
        self.spent: Counter[str] = Counter()
        self.private = 0
        """Private steps or uploads behind all that has left: what ε is counted from."""
        self._told: set[tuple[str, int, str]] = set()
        try:
            whole = self._repair()
            for line in whole.splitlines():
                record = json.loads(line)
                self.spent[record["kind"]] += 1
                self.private += int(record.get("steps", 0))
                self._told.add((record["kind"], record["round"], record.get("to", "")))
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            sync_folder(path.parent)
        except OSError as error:
            raise StorageError(f"{path}: cannot be written ({error.strerror})") from None
        except (ValueError, KeyError, TypeError):
            raise StorageError(
                f"{path}: is damaged; what this peer has disclosed is unknown. Restore it from a"
                " copy"
            ) from None

    def _repair(self) -> bytes:
        """Cut a torn last line off: its answer never left."""
        if not self._path.exists():
            return b""
        data = self._path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if whole != data:
            with open(self._path, "r+b") as stream:
                stream.truncate(len(whole))
                os.fsync(stream.fileno())
        return whole

    def spend(
        self,
        kind: str,
        round: int,
        to: str = "",
        again: bool = False,
        steps: int = 0,
        rate: float = 1.0,
    ) -> None:
        """Returns when the line is on the disk; raises StorageError if it is not, and then nothing
        may leave. The same bits to the same member (or, published, to all) are one disclosure;
        `again`: these are others each time. `steps` are the private steps behind it, each of which
        saw an example with the chance `rate`."""
        with self._lock:
            if not again and (kind, round, to) in self._told:
                return
            if self._file < 0:
                raise StorageError(f"{self._path}: is closed; nothing was disclosed")
            record = {"at": time.time(), "kind": kind, "round": round} | ({"to": to} if to else {})
            record |= {"steps": steps, "rate": rate} if steps else {}
            self._write(json.dumps(record).encode() + b"\n")
            self.spent[kind] += 1
            self.private += steps
            self._told.add((kind, round, to))

    def told(self, kind: str, round: int, to: str) -> bool:
        """Whether this was disclosed before."""
        with self._lock:
            return (kind, round, to) in self._told

    def _write(self, line: bytes) -> None:
        """All of it, or nothing."""
        end = os.fstat(self._file).st_size
        try:
            if os.write(self._file, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file)
        except OSError as error:
            os.truncate(self._path, end)
            raise StorageError(
                f"{self._path}: cannot be written ({error.strerror}); nothing was disclosed"
            ) from None

    def close(self) -> None:
        with self._lock:
            os.close(self._file)
            self._file = -1
