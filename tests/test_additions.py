"""To add something, touch one place: tried, as CONTRIBUTING.md promises it.

A strategy, stage or method of one's own is in test_examples and test_stages, an experiment in
test_reproduce, a transport in test_node, an object in a notebook in test_objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

import amity
from amity.errors import ConfigError
from amity.lab.reports import write_report
from amity.registry import Registry
from amity.show.panels import panels
from amity.show.story import Story
from amity.sinks import sinks
from amity.strategies import strategies
from tests.conftest import tiny

FACT = """
from dataclasses import dataclass

import amity


@dataclass(frozen=True)
class Hits(amity.ModelFact):
    "How many of my examples a neighbour's model gets right."

    raw = True

    def on(self, me, models):
        data = me.examples("train")
        return [me.world.learner.score(theta, data).accuracy for theta in models.values()]


@dataclass(frozen=True)
class Best(amity.Cardless):
    def decide(self, view, row):
        hits = yield amity.Ask(Hits(), view.neighbours)
        best = max(hits, key=lambda j: (hits[j], j), default=view.me)
        notes = {"hits": hits.get(best, 0.0)}
        return amity.Decision(amity.spread((view.me, best)), notes=notes)
"""


def test_a_fact_about_models_is_one_class_and_costs_what_it_moves_in_both_runtimes() -> None:
    Path("mine.py").write_text(FACT)
    plain = {"vectorise": "off", "group": 1, "workers": 1}
    config = tiny(strategy="mine.py:Best", peers=3, engine=plain)
    simulated, real = amity.run(config, "simulated"), amity.swarm(config, "real")
    assert [(e.round, e.peer, e.row) for e in simulated.edges] == [
        (e.round, e.peer, e.row) for e in real.edges
    ]
    size = 4 * len(next(iter(simulated.models.values())))
    for record in simulated.metrics:
        assert record.model_in == 2 * size
        assert 0 <= record.notes["hits"] <= 1


@pytest.fixture
def scratch(request: pytest.FixtureRequest) -> Iterator[None]:
    """Registries as they were before."""
    kept = {registry: dict(registry._all()) for registry in (panels, sinks)}
    yield
    for registry, entries in kept.items():
        registry._entries.clear()
        registry._entries.update(entries)  # type: ignore[arg-type]


@pytest.mark.usefixtures("scratch")
def test_a_sink_is_one_class_and_is_named_like_the_others() -> None:
    heard: list[str] = []

    class Ear:
        def take(self, event: amity.Event) -> None:
            heard.append(type(event).__name__)

        def close(self) -> None:
            heard.append("closed")

    @sinks.register("ear")
    @dataclass(frozen=True)
    class Hearing:
        """Remembers the names of events."""

        def open(self) -> amity.Sink:
            return Ear()

    amity.run(tiny(), "r", sinks="ear")
    assert [name for name in heard if name not in ("Progress", "RunQueued")] == [
        "RunStarted",
        "RoundDone",
        "RoundDone",
        "RoundDone",
        "RunDone",
        "closed",
    ]


@pytest.mark.usefixtures("scratch")
def test_a_panel_is_one_class_and_stands_in_every_report() -> None:
    @panels.register("greeting")
    @dataclass(frozen=True)
    class Greeting:
        order: ClassVar[int] = 1

        def html(self, story: Story) -> str:
            return f"<p>hello from {len(story.names)} peers</p>"

    amity.run(tiny(), "r")
    assert "hello from 6 peers" in write_report(Path("r")).read_text()


def test_a_name_that_is_taken_is_refused_and_a_module_that_is_loaded_again_is_not() -> None:
    registry: Registry[Any] = Registry("strategy", "decide")

    def define(module: str) -> type:
        @dataclass(frozen=True)
        class Mine(amity.Cardless):
            """One's own."""

        Mine.__module__ = module
        return Mine

    registry.register("mine")(define("first"))
    registry.register("mine")(define("first"))
    with pytest.raises(ConfigError, match=r"'mine': is the name of first:.*choose another"):
        registry.register("mine")(define("second"))
    taken = strategies["gossip"].cls
    with pytest.raises(ConfigError, match=r"is the name of amity\.strategies\.gossip:Gossip"):
        strategies.register("gossip")(define("elsewhere"))
    assert strategies["gossip"].cls is taken
