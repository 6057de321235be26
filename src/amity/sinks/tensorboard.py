"""TensorBoard: event files, without TensorFlow."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amity.events import CellId, RunStarted, Sink
from amity.sinks.registry import sinks
from amity.sinks.tracking import End, Tracker, flat, group_of, identity, missing, name_of
from amity.tasks import metric_of


def shown(event: RunStarted) -> str:
    """What TensorBoard's page of hyper-parameters shows beside them: the metric that leads."""
    return f"network/{metric_of(event.config).field}"


@sinks.register("tensorboard")
@dataclass(frozen=True)
class TensorBoard:
    """Event files for TensorBoard, in `dir`/GROUP/RUN: `tensorboard --logdir tensorboard`.

    GROUP is the comparison's folder (for a single run: its own), RUN is label and seed. The files
    are flushed after every round. A run that is continued begins another file, which tells
    TensorBoard from which round on it replaces the files before it. `peers` adds the numbers of
    each single peer.
    """

    dir: str = "tensorboard"
    """Where the event files go."""
    peers: bool = False
    """Whether the numbers of each single peer are told too."""

    def open(self) -> Sink:
        try:
            import tensorboardX  # noqa: F401
        except ImportError:
            raise missing("tensorboard") from None
        return Tracker(lambda event: _Files(Path(self.dir), event), peers=self.peers)


class _Files:
    """The event files of one cell. They are written in this thread. Workers are forked while the
    files are open, and would inherit a queue and a lock from tensorboardX's usual writer."""

    known = ()
    """Nothing: what is told again replaces what was there."""

    def __init__(self, root: Path, event: RunStarted) -> None:
        from tensorboardX.summary import hparams

        self._cell, self._last = event.cell, -1
        self._folder = _folder(root, event.cell)
        for end in self._folder.glob(f"*{identity(event.cell)}{END}"):
            end.unlink()
        self._writer = self._file()
        experiment, start, _ = hparams(flat(event.config), {shown(event): 0.0})
        self._write(event.first, summary=experiment)
        self._write(event.first, summary=start)
        self._writer.flush()

    def _file(self, kind: str = "") -> Any:
        """A new file. Its name begins with the time in seconds. What we add keeps files of the same
        second in order, and says whose they are."""
        from tensorboardX.event_file_writer import EventsWriter

        self._folder.mkdir(parents=True, exist_ok=True)
        suffix = f".{time.time_ns()}.{identity(self._cell)}{kind}"
        return EventsWriter(str(self._folder / "events"), suffix)

    def _write(self, step: int, **what: Any) -> None:
        from tensorboardX.proto.event_pb2 import Event

        self._writer.write_event(Event(wall_time=time.time(), step=step, **what))

    def log(self, round: int, values: Mapping[str, float], texts: Mapping[str, str]) -> None:
        from tensorboardX.proto.event_pb2 import SessionLog
        from tensorboardX.proto.summary_pb2 import Summary
        from tensorboardX.summary import text

        if self._last < 0:  # whatever earlier files have from this round on no longer counts
            self._write(round, session_log=SessionLog(status=SessionLog.START))
        scalars = [Summary.Value(tag=key, simple_value=value) for key, value in values.items()]
        self._write(round, summary=Summary(value=scalars))
        for key, words in texts.items():
            self._write(round, summary=text(key, words))
        self._writer.flush()
        self._last = round

    def end(self, outcome: End, error: str = "") -> None:
        """How the run ended is written to its own file: TensorBoard keeps the first end that it
        reads, and a run that failed may be continued."""
        from tensorboardX.summary import text

        self._writer.close()
        if outcome == "stopped":
            return
        self._writer = self._file(END)
        step = max(self._last, 0)
        self._write(step, summary=_ended(failed=outcome == "failed"))
        if error:
            self._write(step, summary=text("error", error))
        self._writer.close()


END = ".end"


def _ended(*, failed: bool) -> Any:
    """The end of a session, as the page of hyper-parameters reads it."""
    from tensorboardX.proto.api_pb2 import Status
    from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData, SessionEndInfo
    from tensorboardX.proto.summary_pb2 import Summary, SummaryMetadata

    status = Status.Value("STATUS_FAILURE" if failed else "STATUS_SUCCESS")
    info = SessionEndInfo(status=status, end_time_secs=time.time())
    content = HParamsPluginData(session_end_info=info).SerializeToString()
    plugin = SummaryMetadata.PluginData(plugin_name="hparams", content=content)
    metadata = SummaryMetadata(plugin_data=plugin)
    return Summary(value=[Summary.Value(tag="_hparams_/session_end_info", metadata=metadata)])


def _folder(root: Path, cell: CellId) -> Path:
    """GROUP/RUN; with a number if a run from elsewhere has this name already."""
    name = re.sub(r"[^\w.,=+@ -]", "_", name_of(cell))
    group = root / (group_of(cell) or Path(cell.path).resolve().name)
    for number in itertools.count(2):
        files = [file.name for file in (group / name).glob("events.out.tfevents.*")]
        if all(f".{identity(cell)}" in file for file in files):
            break
        name = f"{name.removesuffix(f' ({number - 1})')} ({number})"
    return group / name
