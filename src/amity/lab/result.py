"""A run on disk, read back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from amity.config import Config
from amity.core import PeerId
from amity.files import csv_text, write_atomically
from amity.peer.privacy import statement
from amity.records import EdgeRecord, PeerRecord, RoundRecord
from amity.round.build import deal_out, load_data
from amity.show.notebook import figure_of, frame, save, short_html
from amity.show.story import Story
from amity.store import commits, read_records
from amity.tasks import Metric
from amity.topology import peer_names

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from amity.store import Crossed

OfRound = TypeVar("OfRound", PeerRecord, EdgeRecord)


@dataclass(frozen=True)
class Result:
    """A run on disk. In a notebook it shows itself; `result.table` is a pandas DataFrame."""

    path: Path
    config: Config

    @cached_property
    def metrics(self) -> list[PeerRecord]:
        """One record per round and peer."""
        return self._whole("metrics.jsonl", PeerRecord)

    def _whole(self, name: str, kind: type[OfRound]) -> list[OfRound]:
        """The lines of rounds that are complete: a killed run may have more of one file than of
        another."""
        last = self.rounds[-1].round if self.rounds else -1
        return [record for record in read_records(self.path / name, kind) if record.round <= last]

    @cached_property
    def rounds(self) -> list[RoundRecord]:
        """One record per round, of the whole network."""
        return read_records(self.path / "rounds.jsonl", RoundRecord)

    @cached_property
    def edges(self) -> list[EdgeRecord]:
        """One record per round and peer: its row."""
        return self._whole("edges.jsonl", EdgeRecord)

    @property
    def complete(self) -> bool:
        """Whether it has done all its rounds, or was ended by `stop`."""
        ended = bool(self.rounds) and self.rounds[-1].ended is not None
        return ended or len(self.rounds) == self.config.rounds

    @property
    def curve(self) -> list[tuple[int, float]]:
        """Round and the leading metric (of classes test accuracy), mean over honest peers, wherever
        it was measured."""
        found = [(r.round, r.lead()) for r in self.rounds]
        return [(round, value) for round, value in found if value is not None]

    @cached_property
    def start(self) -> float | None:
        """The same of the untrained model; None if it was not measured."""
        first = [r.lead("start") for r in self.metrics if r.round == 0 and not r.attacker]
        known = [value for value in first if value is not None]
        return sum(known) / len(known) if known else None

    @property
    def accuracy(self) -> float:
        """The same in the last round; of other tasks than classes it is called `score`, too."""
        return self.curve[-1][1]

    @property
    def score(self) -> float:
        """The leading metric, mean over all honest peers in the last round."""
        return self.accuracy

    @property
    def best(self) -> float:
        """The best of any round: it selects on the test set, as papers do."""
        return self.metric.best(value for _, value in self.curve)

    @cached_property
    def origins(self) -> dict[PeerId, str]:
        """Who each peer is in the data, if the partition is natural; otherwise empty."""
        names = peer_names(self.config.peers)
        data = deal_out(self.config, load_data(self.config), names)
        return {name: data[name].origin for name in names}

    def final(self, key: str = "lead") -> dict[PeerId, float]:
        """A metric of every honest peer in the last round: the leading one (`lead_validation`: on
        validation examples), a field of its record, or one of its further metrics."""
        last = self.rounds[-1].round
        honest = [r for r in self.metrics if r.round == last and not r.attacker]
        return {r.peer: value for r in honest if (value := _value(r, key)) is not None}

    @cached_property
    def metric(self) -> Metric:
        """The one that leads."""
        return self.config.metric

    @property
    def privacy(self) -> str:
        """The largest ε of all peers and what it covers, in one line; empty if nothing is
        private."""
        mechanism = self.config.privacy.instance
        excluded = {name for r in self.rounds for name in r.excluded or ()}
        epsilon = self.rounds[-1].epsilon
        if epsilon is None:
            epsilon = math.inf if mechanism.sigma == 0 else math.nan
        said = statement(mechanism, epsilon, excluded)
        stopped = [r for r in self.rounds if r.stopped]
        if not stopped:
            return said
        first, count = stopped[0].round + 1, stopped[-1].stopped
        return (
            f"{said}; the budget stopped {count} of {self.config.peers} peers, the first after"
            f" round {first}"
        )

    @property
    def models(self) -> dict[PeerId, Tensor]:
        """Every peer's parameters in the newest checkpoint, as one vector each. For a swarm, from
        the newest checkpoint of each peer."""
        folders = [self.path, *sorted(self.path.glob("peers/*/state"))]
        newest = [commit for folder in folders if (commit := next(commits(folder), None))]
        return {
            peer: commit.tensors.of(peer)["start"]
            for commit in newest
            if commit.tensors is not None
            for peer in commit.memory
        }

    def matrix(self, alone: str | Path | None = None) -> Crossed:
        """Every peer's final model on every peer's test examples: `.scores`, `.sentences`, `.rows`.
        `alone` is the folder of a run with strategy=local, for what each would have alone."""
        from amity.lab.matrix import matrix

        return matrix(self.path, alone, trust=True)  # its code is loaded: it is this config's

    # -- showing -----------------------------------------------------------------------------------

    @cached_property
    def story(self) -> Story:
        return Story({self.config.label: [self]})

    @property
    def table(self) -> Any:
        """One line per round and peer: a pandas DataFrame, or a list of dicts without pandas."""
        lines = [record.line() for record in self.metrics]
        return frame(
            [{k: v for k, v in line.items() if k not in ("by_class", "metrics")} for line in lines]
        )

    def figure(self, name: str = "accuracy") -> Figure:
        """A panel of the report as a matplotlib figure: accuracy, bytes, matrix, taken, ..."""
        return figure_of(self.story, name)

    def save(self, path: str | Path | None = None, figure: str = "accuracy") -> Path:
        """Write a picture (.pdf, .png, .svg), the table (.csv, .tex) or the report (.html). Without
        a path, write summary.csv and report.html into the run's own folder. Returns the path that
        was written (without a path: that of the report)."""
        if path is not None:
            return save(self.story, Path(path), figure, self._html, lambda: self.table)
        rows = [line.as_dict() for line in self.story.lines]
        write_atomically(self.path / "summary.csv", csv_text(rows).encode())
        write_atomically(self.path / "report.html", self._html().encode())
        return self.path / "report.html"

    def _html(self) -> str:
        from amity.show.report import run_html

        if not (self.path / "peers").is_dir():
            return run_html(self)
        from amity.net.ops.report import sections

        return run_html(self, sections(self.path))

    def _repr_html_(self) -> str:
        return short_html(self.story)


def _value(record: PeerRecord, key: str) -> Any:
    lead, _, of = key.partition("_")
    if lead == "lead":
        return record.lead(of)
    found = record.value(key)
    return (record.metrics or {}).get(key) if found is None else found
