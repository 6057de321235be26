"""What trackers were told, read back with each tool's own reader, in one form for all of them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from mlflow.tracking import MlflowClient
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.api_pb2 import Status
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from wandb import teardown
from wandb.proto.wandb_internal_pb2 import Record
from wandb.sdk.internal.datastore import DataStore

from amity.lab.result import Result
from amity.store import read_lines

Curves = dict[str, list[tuple[int, float]]]
"""By name all steps with their values, doubled ones too."""


@dataclass
class Seen:
    """One run as a tool shows it."""

    curves: Curves = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    status: str = "open"


Runs = dict[tuple[str, str], Seen]
"""By group and name."""


@dataclass(frozen=True)
class Tool:
    """A tracker: the sink's name and options, its reader, and how exact its numbers are."""

    name: str
    options: Mapping[str, Any]
    read: Callable[[], Runs]
    exact: float = 0.0


def tensorboard(root: Path) -> Runs:
    runs: Runs = {}
    for folder in sorted({file.parent for file in root.rglob("events.out.tfevents.*")}):
        reader = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
        reader.Reload()
        seen = runs[folder.parent.name, folder.name] = Seen()
        for tag in reader.Tags()["scalars"]:
            seen.curves[tag] = [(event.step, event.value) for event in reader.Scalars(tag)]
        for tag in reader.Tags()["tensors"]:
            if tag.endswith("/text_summary"):
                text = reader.Tensors(tag)[-1].tensor_proto.string_val[0].decode()
                seen.texts[tag.removesuffix("/text_summary")] = text
        for tag, content in reader.PluginTagToContent("hparams").items():
            data = HParamsPluginData.FromString(content)
            if tag.endswith("session_start_info"):
                for key, value in data.session_start_info.hparams.items():
                    seen.config[key] = getattr(value, value.WhichOneof("kind"))
            if tag.endswith("session_end_info"):
                ended = data.session_end_info.status
                names = {Status.Value("STATUS_SUCCESS"): "done"}
                seen.status = names.get(ended, "failed")
    return runs


def mlflow(uri: str) -> Runs:
    client = MlflowClient(tracking_uri=uri)
    runs: Runs = {}
    for experiment in client.search_experiments():
        for run in client.search_runs([experiment.experiment_id]):
            key = experiment.name, run.info.run_name
            assert key not in runs, "two runs of one name"
            curves = {
                name: [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, name)]
                for name in run.data.metrics
            }
            status = {"FINISHED": "done", "FAILED": "failed"}.get(run.info.status, "open")
            runs[key] = Seen(curves, dict(run.data.params), dict(run.data.tags), status)
    return runs


def wandb(root: Path) -> Runs:
    """A run that went on has several folders: they are read in the order of their starts. The files
    are whole when W&B's own process has ended."""
    teardown()
    runs: Runs = {}
    for file in sorted(root.glob("wandb/offline-run-*/*.wandb"), key=_began):
        seen = Seen()
        for kind, record in _records(file):
            if kind == "run":
                seen = runs.setdefault((record.run_group, record.display_name), seen)
                config = {u.key: json.loads(u.value_json) for u in record.config.update}
                seen.config = {k: v for k, v in config.items() if k != "_wandb"}
            elif kind == "history":
                items = {i.nested_key[0]: json.loads(i.value_json) for i in record.item}
                step = items["_step"]
                for name in (name for name in items if not name.startswith("_")):
                    seen.curves.setdefault(name, []).append((step, items[name]))
            elif kind == "summary":
                words = {u.key or u.nested_key[0]: json.loads(u.value_json) for u in record.update}
                seen.texts |= {k: v for k, v in words.items() if isinstance(v, str)}
            elif kind == "exit":
                seen.status = "failed" if record.exit_code else "done"
    return runs


def _began(file: Path) -> tuple[int, int]:
    start = next(record for kind, record in _records(file) if kind == "run").start_time
    return start.seconds, start.nanos


def _records(file: Path) -> Iterator[tuple[str, Any]]:
    store = DataStore()
    store.open_for_scan(str(file))
    try:
        while (data := store.scan_data()) is not None:
            record = Record.FromString(data)
            kind = record.WhichOneof("record_type")
            yield kind, getattr(record, kind)
    finally:
        store._fp.close()


# -- what a tool should show -----------------------------------------------------------------------


def recorded(result: Result, *, peers: bool = False) -> Curves:
    """The curves of a run from its own files, the plain way."""
    curves: Curves = {}

    def add(name: str, step: int, value: Any) -> None:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            curves.setdefault(name, []).append((step, float(value)))

    timings = {line["round"]: line for line in read_lines(result.path / "timings.jsonl")}
    for network in result.rounds:
        t = network.round
        for key, value in network.line().items():
            add(f"network/{key}" if key != "round" else "", t, value)
        lines = [r.line() for r in result.metrics if r.round == t]
        honest = [line for line in lines if not line.get("attacker")]
        for key in dict.fromkeys(key for line in honest for key in line):
            column = [line[key] for line in honest if line.get(key) is not None]
            if key != "round" and isinstance(column[0], int | float):
                finite = [value for value in column if math.isfinite(value)]
                if finite and not isinstance(column[0], bool):
                    add(f"peers/{key}/mean", t, float(np.mean(finite)))
                    add(f"peers/{key}/std", t, float(np.std(finite)))
        for line in lines if peers else []:
            for key, value in line.items():
                add(f"peer/{line['peer']}/{key}" if key != "round" else "", t, value)
        phases = {k: v for k, v in timings[t].items() if k not in ("round", "seconds", "at")}
        for phase, seconds in phases.items():
            add(f"seconds/{phase}", t, seconds)
        add("seconds/round", t, round(sum(phases.values()), 4))
    curves.pop("", None)
    return curves
