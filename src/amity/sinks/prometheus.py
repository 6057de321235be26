"""Figures for Prometheus, by run and seed, on a port that only this machine can reach.

A real peer shows the same gauges beside its own counters (net/audit.py). The counters belong to its
log: they count every message and every refusal, while the stream is told of them at most once per
second.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from amity.errors import ConfigError
from amity.events import Event, Progress, RoundDone, RunStarted, Sink
from amity.sinks.registry import sinks

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

OF_A_RUN = ["run", "seed"]


class Gauges:
    """The figures of runs, kept up to date by their events."""

    def __init__(self, registry: CollectorRegistry) -> None:
        from prometheus_client import Gauge

        self.registry = registry
        gauge = partial(Gauge, registry=registry)
        self._rounds: dict[tuple[str, str], int] = {}
        self._round = gauge("amity_round", "The round that is being done", OF_A_RUN)
        self._accuracy = gauge(
            "amity_accuracy", "Accuracy on the peers' own test examples", OF_A_RUN
        )
        self._score = gauge(
            "amity_score",
            "The metric that leads, on the peers' own test examples, if it is not accuracy",
            OF_A_RUN,
        )
        self._epsilon = gauge(
            "amity_epsilon",
            "What differential privacy has cost so far, where training is private",
            OF_A_RUN,
        )
        self._seconds = gauge(
            "amity_phase_seconds", "Seconds of the last round, by phase", [*OF_A_RUN, "phase"]
        )

    def take(self, event: Event) -> None:
        of = (event.cell.label, str(event.cell.seed))
        if isinstance(event, RunStarted):
            self._rounds[of] = event.rounds
            self._at(of, event.first)
        elif isinstance(event, Progress):
            self._at(of, event.round)
        elif isinstance(event, RoundDone):
            self._at(of, event.report.round + 1)
            self._measured(of, event)

    def _at(self, of: tuple[str, str], round: int) -> None:
        self._round.labels(*of).set(min(round, self._rounds[of] - 1))

    def _measured(self, of: tuple[str, str], event: RoundDone) -> None:
        network = event.report.network
        if network.accuracy is not None:
            self._accuracy.labels(*of).set(network.accuracy)
        if network.score is not None:
            self._score.labels(*of).set(network.score)
        if network.epsilon is not None:
            self._epsilon.labels(*of).set(network.epsilon)
        for phase, seconds in event.report.seconds.items():
            self._seconds.labels(*of, phase).set(seconds)

    def close(self) -> None:
        """Nothing is held."""


class Page:
    """Gauges on a port."""

    def __init__(self, port: int) -> None:
        from prometheus_client import CollectorRegistry, start_http_server

        self._gauges = Gauges(CollectorRegistry())
        try:
            self._server, _thread = start_http_server(port, "127.0.0.1", self._gauges.registry)
        except OSError as error:
            raise ConfigError(
                f"sinks=prometheus: port {port} cannot be used ({error.strerror}); choose another"
            ) from None

    def take(self, event: Event) -> None:
        self._gauges.take(event)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@sinks.register("prometheus")
@dataclass(frozen=True)
class Prometheus:
    """http://127.0.0.1:PORT/metrics: round, accuracy, ε and seconds of every run."""

    port: Annotated[int, Field(ge=1, le=65535)] = 9464
    """Of 127.0.0.1."""

    def open(self) -> Sink:
        try:
            return Page(self.port)
        except ModuleNotFoundError:
            raise ConfigError(
                "sinks=prometheus: needs pip install 'amity[peers]' (prometheus-client)"
            ) from None
