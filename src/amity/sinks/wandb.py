"""Weights & Biases: a folder that can be uploaded later, or its servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from amity.events import RunStarted, Sink
from amity.files import write_atomically
from amity.sinks.registry import sinks
from amity.sinks.tracking import End, Tracker, group_of, identity, missing, name_of

LAST = ".round"
"""How the name of a file ends that we keep in a run's folder: the newest round that was told."""


@sinks.register("wandb")
@dataclass(frozen=True)
class Wandb:
    """Runs in Weights & Biases: grouped by comparison, named by label and seed.

    With `mode=offline` nothing leaves this machine and no account is needed: all is written below
    `dir`/wandb, and `wandb sync` uploads it. A run that is continued keeps its id and the rounds
    that were told already. W&B accepts steps in rising order only: what was left out cannot be
    added later. `peers` adds the numbers of each single peer.
    """

    project: str = "amity"
    """Of W&B."""
    entity: str = ""
    """User or team of W&B; empty: as your account says."""
    mode: Literal["offline", "online"] = "offline"
    """`offline`: nothing leaves this machine."""
    dir: str = "."
    """Where the folder `wandb` is made."""
    peers: bool = False
    """Whether the numbers of each single peer are told too."""

    def open(self) -> Sink:
        try:
            import wandb
        except ImportError:
            raise missing("wandb") from None
        return Tracker(lambda event: self._run(wandb, event), peers=self.peers)

    def _run(self, wandb: Any, event: RunStarted) -> _Run | None:
        """None if all rounds were told before: another start would leave an empty folder."""
        told = 0 if self.mode == "online" else self._told(identity(event.cell))
        return _Run(wandb, self, event, told) if told < event.rounds else None

    def _told(self, name: str) -> int:
        """How many rounds the folders of this run have: offline each start makes another folder,
        and they become one run when they are uploaded."""
        files = Path(self.dir).glob(f"wandb/offline-run-*-{name}*/{self.project}{LAST}")
        return max((int(file.read_text()) + 1 for file in files), default=0)


class _Run:
    """One cell: a run object of its own, beside any others that are open."""

    def __init__(self, wandb: Any, options: Wandb, event: RunStarted, told: int) -> None:
        Path(options.dir).mkdir(parents=True, exist_ok=True)
        online = options.mode == "online"
        settings = wandb.Settings(
            silent=not online, console="off", x_disable_stats=True, x_disable_meta=True
        )
        self._run = wandb.init(
            project=options.project,
            entity=options.entity or None,
            group=group_of(event.cell) or None,
            name=name_of(event.cell),
            id=identity(event.cell),
            config=dict(event.config),
            mode=options.mode,
            dir=options.dir,
            reinit="create_new",
            resume="allow" if online else None,
            settings=settings,
        )
        self._last = Path(self._run.dir).parent / f"{options.project}{LAST}"
        self.known = range(max(told, self._run.starting_step))
        if self.known:
            self._run.summary["error"] = ""  # what stopped it before

    def log(self, round: int, values: Mapping[str, float], texts: Mapping[str, str]) -> None:
        self._run.log(dict(values), step=round)
        self._run.summary.update(dict(texts))
        write_atomically(self._last, str(round).encode())

    def end(self, outcome: End, error: str = "") -> None:
        if error:
            self._run.summary["error"] = error
        self._run.finish(exit_code=0 if outcome == "done" else 1)
