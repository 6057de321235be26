"""MLflow: a database file, or a tracking server."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amity.events import CellId, RunStarted, Sink
from amity.sinks.registry import sinks
from amity.sinks.tracking import (
    ALWAYS,
    End,
    Tracker,
    flat,
    group_of,
    identity,
    missing,
    name_of,
)

CELL = "amity.cell"
"""The tag by which a run that goes on is found again."""
ERROR = "amity.error"
"""The tag that says why a run failed; it goes when the run goes on."""
STATUS: Mapping[End, str] = {"done": "FINISHED", "failed": "FAILED", "stopped": "KILLED"}


@sinks.register("mlflow")
@dataclass(frozen=True)
class Mlflow:
    """Runs in MLflow: `mlflow ui --backend-store-uri sqlite:///mlflow.db`.

    `uri` is a database file such as `runs/mlflow.db` or any tracking URI; empty: what the variable
    MLFLOW_TRACKING_URI says, else `mlflow.db`. A comparison is an experiment, named after its
    folder; single runs are in the experiment `amity`. `experiment` gives one name for all. A run
    that is continued keeps the rounds that MLflow has already. `peers` adds the numbers of each
    single peer.
    """

    uri: str = ""
    """A database file such as runs/mlflow.db, or any tracking URI; empty: MLFLOW_TRACKING_URI, else
    mlflow.db."""
    experiment: str = ""
    """One name for all runs; empty: the folder of the comparison, or `amity`."""
    peers: bool = False
    """Whether the numbers of each single peer are told too."""

    def open(self) -> Sink:
        try:
            from mlflow.tracking import MlflowClient
        except ImportError:
            raise missing("mlflow") from None
        client = MlflowClient(tracking_uri=_tracking_uri(self.uri))
        return Tracker(lambda event: self._run(client, event), peers=self.peers)

    def _run(self, client: Any, event: RunStarted) -> _Run:
        name = self.experiment or group_of(event.cell) or "amity"
        found = client.get_experiment_by_name(name)
        experiment = found.experiment_id if found else client.create_experiment(name)
        return _Run(client, experiment, event)


def _tracking_uri(uri: str) -> str | None:
    """None: MLflow decides. A plain file name is a SQLite database. MLflow keeps it open by its
    URI, so the URI must not depend on the working directory."""
    if not uri.endswith(".db") or "://" in uri:
        return uri or None
    path = Path(uri).resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{path}"


class _Run:
    """One cell. It uses MLflow's client, which has no active run, so any number may be open at
    once."""

    def __init__(self, client: Any, experiment: str, event: RunStarted) -> None:
        from mlflow.entities import Param

        self._client = client
        run = _found(client, experiment, event.cell) or client.create_run(
            experiment, tags=_tags(event.cell), run_name=name_of(event.cell)
        )
        self._id = run.info.run_id
        client.update_run(self._id, status="RUNNING")
        if ERROR in run.data.tags:
            client.delete_tag(self._id, ERROR)
        params = [
            Param(_allowed(key), str(value))
            for key, value in flat(event.config).items()
            if _allowed(key) not in run.data.params  # what is there cannot be changed
        ]
        self._batches("params", params, 100)
        self.known = [metric.step for metric in client.get_metric_history(self._id, ALWAYS)]

    def _batches(self, what: str, entries: Iterable[Any], size: int) -> None:
        """Batches as large as a tracking server accepts."""
        rest = iter(entries)
        while part := list(itertools.islice(rest, size)):
            self._client.log_batch(self._id, **{what: part})

    def log(self, round: int, values: Mapping[str, float], texts: Mapping[str, str]) -> None:
        from mlflow.entities import Metric, RunTag

        at = int(1000 * time.time())
        metrics = [Metric(_allowed(key), value, at, round) for key, value in values.items()]
        self._batches("metrics", metrics, 1000)
        self._batches("tags", [RunTag(key, words) for key, words in texts.items()], 100)

    def end(self, outcome: End, error: str = "") -> None:
        if error:
            self._client.set_tag(self._id, ERROR, error)
        self._client.set_terminated(self._id, STATUS[outcome])


def _found(client: Any, experiment: str, cell: CellId) -> Any:
    """The run of this cell, if there is one."""
    runs = client.search_runs([experiment], f"tags.`{CELL}` = '{identity(cell)}'", max_results=1)
    return next(iter(runs), None)


def _tags(cell: CellId) -> dict[str, str]:
    own = {"label": cell.label, "seed": cell.seed, "path": cell.path, "group": cell.group}
    return {CELL: identity(cell)} | {f"amity.{key}": str(value) for key, value in own.items()}


def _allowed(name: str) -> str:
    """A name with only the characters that MLflow accepts."""
    return re.sub(r"[^\w./ -]", "_", name)
