"""Who can reach whom, round by round: graphs (networkx), redrawn graphs, availability, lost
messages."""

from __future__ import annotations

import csv
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Protocol

import numpy as np
from pydantic import Field

from amity.core import PeerId
from amity.errors import TopologyError
from amity.lazy import networkx as nx
from amity.pace import Pace, speeds
from amity.registry import Registry
from amity.rng import rng

Probability = Annotated[float, Field(ge=0, le=1)]


class Topology(Protocol):
    """Draws an undirected graph over peers 0 .. m−1."""

    def __hash__(self) -> int: ...

    def draw(self, names: tuple[PeerId, ...], rng: np.random.Generator) -> nx.Graph[int]: ...


topologies: Registry[Topology] = Registry("topology", "draw")


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**32))


@topologies.register("full")
@dataclass(frozen=True)
class Full:
    """Everyone reaches everyone."""

    def draw(self, names: tuple[PeerId, ...], rng: np.random.Generator) -> nx.Graph[int]:
        return nx.complete_graph(len(names))


@topologies.register("regular")
@dataclass(frozen=True)
class Regular:
    """A random graph in which everyone has `k` neighbours."""

    k: Annotated[int, Field(ge=1)] = 10
    """Neighbours of everyone; less than the number of peers, and times the peers even."""

    def draw(self, names: tuple[PeerId, ...], rng: np.random.Generator) -> nx.Graph[int]:
        peers = len(names)
        if self.k >= peers:
            raise TopologyError(f"regular: k must be < peers ({peers}), got {self.k}")
        if self.k * peers % 2:
            raise TopologyError(
                f"regular: k x peers must be even, got {self.k} x {peers}; use k={self.k + 1} or"
                f" {self.k - 1}"
            )
        return nx.random_regular_graph(self.k, peers, seed=_seed(rng))


@topologies.register("partial")
@dataclass(frozen=True)
class Partial:
    """Everyone reaches a random half of the others (the paper's partially connected network)."""

    def draw(self, names: tuple[PeerId, ...], rng: np.random.Generator) -> nx.Graph[int]:
        peers = len(names)
        k = (peers - 1) // 2
        k += k * peers % 2
        return nx.random_regular_graph(k, peers, seed=_seed(rng)) if k else nx.empty_graph(peers)


@topologies.register("ring")
@dataclass(frozen=True)
class Ring:
    """Everyone reaches the one before and the one after."""

    def draw(self, names: tuple[PeerId, ...], rng: np.random.Generator) -> nx.Graph[int]:
        peers = len(names)
        graph: nx.Graph[int] = nx.empty_graph(peers)
        graph.add_edges_from((i, (i + 1) % peers) for i in range(peers) if (i + 1) % peers != i)
        return graph


@topologies.register("erdos")
@dataclass(frozen=True)
class Erdos:
    """Erdős–Rényi: each pair is connected with probability `p`; peers may end up alone."""

    p: Probability = 0.5
    """Probability that two peers are connected."""

    def draw(self, names: tuple[PeerId, ...], rng: np.random.Generator) -> nx.Graph[int]:
        return nx.gnp_random_graph(len(names), self.p, seed=_seed(rng))


@topologies.register("small_world")
@dataclass(frozen=True)
class SmallWorld:
    """Watts–Strogatz: a ring of `k` nearest neighbours, each edge rewired with probability `p`."""

    k: Annotated[int, Field(ge=2)] = 4
    """Nearest neighbours in the ring; less than the number of peers."""
    p: Probability = 0.1
    """Probability that an edge is rewired."""

    def draw(self, names: tuple[PeerId, ...], rng: np.random.Generator) -> nx.Graph[int]:
        if self.k >= len(names):
            raise TopologyError(f"small_world: k must be < peers ({len(names)}), got {self.k}")
        return nx.watts_strogatz_graph(len(names), self.k, self.p, seed=_seed(rng))


@topologies.register("exponential")
@dataclass(frozen=True)
class Exponential:
    """Everyone reaches those 1, 2, 4, 8, ... places away."""

    def draw(self, names: tuple[PeerId, ...], rng: np.random.Generator) -> nx.Graph[int]:
        peers = len(names)
        offsets = [2**power for power in range(max(peers - 1, 0).bit_length()) if 2**power < peers]
        graph: nx.Graph[int] = nx.empty_graph(peers)
        graph.add_edges_from(
            (i, (i + step) % peers) for i in range(peers) for step in offsets if step % peers
        )
        return graph


@topologies.register("discover")
@dataclass(frozen=True)
class Discover:
    """Everyone begins with a few random peers and finds the most similar of all, by exchanging
    cards with one of those it knows in every round: docs/DISCOVERY.md."""

    view: Annotated[int, Field(ge=1)] = 20
    """Neighbours that are kept because they are similar."""
    random: Annotated[int, Field(ge=0)] = 5
    """Neighbours at random, besides: liars take them over more slowly than the view."""
    cards: Annotated[int, Field(ge=1)] = 8
    """Cards that one hands to another in an exchange, at most."""
    passed: Annotated[int, Field(ge=0)] = 2
    """How many of them are random members; the rest are the most similar to whom they go to."""
    answers: Annotated[int, Field(ge=1)] = 3
    """Exchanges that a peer answers in a round, at most."""

    def __post_init__(self) -> None:
        if self.passed > self.random or self.passed >= self.cards:
            raise ValueError(
                f"passed should be at most random={self.random} and below cards={self.cards},"
                f" got {self.passed}"
            )

    def draw(self, names: tuple[PeerId, ...], rng: np.random.Generator) -> nx.Graph[int]:
        """Whom everyone knows at first."""
        peers = len(names)
        k = min(self.view, peers - 1)
        k -= k * peers % 2
        return nx.random_regular_graph(k, peers, seed=_seed(rng)) if k else nx.path_graph(peers)


@topologies.register("file")
@dataclass(frozen=True)
class EdgeFile:
    """An edge list: two names of peers a line, by white space or comma; # starts a comment."""

    path: str
    """The file: two names of peers a line."""

    def draw(self, names: tuple[PeerId, ...], rng: np.random.Generator) -> nx.Graph[int]:
        where = {name: i for i, name in enumerate(names)}
        graph: nx.Graph[int] = nx.empty_graph(len(names))
        for number, line in _lines(self.path):
            ends = line.replace(",", " ").split()
            if len(ends) != 2:
                raise TopologyError(f"{self.path}:{number}: expected two peers, got {line!r}")
            for end in ends:
                _known(end, where, self.path, number)
            if ends[0] != ends[1]:
                graph.add_edge(where[ends[0]], where[ends[1]])
        return graph


def _lines(path: str) -> list[tuple[int, str]]:
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise TopologyError(f"{path}: cannot be read ({error})") from None
    lines = ((n, line.partition("#")[0].strip()) for n, line in enumerate(text.splitlines(), 1))
    return [(n, line) for n, line in lines if line]


def _known(name: str, where: dict[PeerId, int], path: str, number: int) -> None:
    if name not in where:
        names = sorted(where)
        raise TopologyError(
            f"{path}:{number}: unknown peer {name!r}; peers are {names[0]} to {names[-1]}"
        )


def read_trace(path: str, names: tuple[PeerId, ...]) -> dict[tuple[PeerId, int], bool]:
    """Availability by file: lines `peer,round,online` (0/1). What is not listed is online."""
    where = {name: i for i, name in enumerate(names)}
    trace = {}
    for number, line in _lines(path):
        try:
            fields = next(csv.reader([line]))
            if [f.strip() for f in fields] == ["peer", "round", "online"]:
                continue
            name, round, online = (
                fields[0].strip(),
                int(fields[1]),
                {"0": False, "1": True}[fields[2].strip()],
            )
        except (IndexError, ValueError, KeyError, csv.Error):
            raise TopologyError(
                f"{path}:{number}: expected peer,round,online with online 0 or 1, got {line!r}"
            ) from None
        _known(name, where, path, number)
        trace[name, round] = online
    return trace


@dataclass(frozen=True)
class Network:
    """The graph of every round, less those who are offline."""

    topology: Topology
    names: tuple[PeerId, ...]
    seed: int
    redraw: int = 0
    """Redraw the graph every so many rounds (0: never)."""
    online: float = 1.0
    """Probability that a peer is online in a round; offline peers train on but reach no one."""
    trace: str = ""
    drop: float = 0.0
    """Probability that an answer is lost."""
    speed: str = ""
    """How fast peers are; empty: all alike."""

    _drawn: dict[int, nx.Graph[int]] = field(default_factory=dict, repr=False, compare=False)
    _traced: dict[tuple[PeerId, int], bool] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.trace:
            self._traced.update(read_trace(self.trace, self.names))
        self.neighbours(0)

    def graph(self, round: int) -> nx.Graph[int]:
        """The graph of a round; only the newest is kept."""
        era = round // self.redraw if self.redraw else 0
        if era not in self._drawn:
            self._drawn.clear()
            self._drawn[era] = self.topology.draw(self.names, rng(self.seed, "topology", era))
        return self._drawn[era]

    @cached_property
    def pace(self) -> Pace | None:
        """Who is ready when; None: everyone, always."""
        return Pace(speeds(self.speed, self.names, self.seed)) if self.speed else None

    def ready(self, round: int) -> Collection[PeerId]:
        """Who takes part in a round; the others are still at work."""
        return self.names if self.pace is None else self.pace.tick(round).ready

    def is_online(self, round: int) -> dict[PeerId, bool]:
        if self.trace:
            return {name: self._traced.get((name, round), True) for name in self.names}
        draws = rng(self.seed, "online", round).random(len(self.names))
        return {
            name: bool(draw < self.online) for name, draw in zip(self.names, draws, strict=True)
        }

    def neighbours(self, round: int, everyone: bool = False) -> dict[PeerId, tuple[PeerId, ...]]:
        """B_i of every peer, sorted; with `everyone` the graph is ignored."""
        ready = frozenset(self.ready(round))
        here = {name: online and name in ready for name, online in self.is_online(round).items()}
        if everyone:
            awake = tuple(name for name in self.names if here[name])
            return {me: tuple(j for j in awake if j != me) if here[me] else () for me in self.names}
        graph, names = self.graph(round), self.names
        return {
            me: (
                tuple(sorted(names[j] for j in graph.neighbors(i) if here[names[j]]))
                if here[me]
                else ()
            )
            for i, me in enumerate(names)
        }

    def delivered(self, round: int, asker: PeerId, peer: PeerId, fact: str) -> bool:
        """Whether this answer arrives."""
        return self.drop == 0 or bool(
            rng(self.seed, "drop", round, asker, peer, fact).random() >= self.drop
        )


def peer_names(count: int) -> tuple[PeerId, ...]:
    """peer-00 .. peer-19: as many digits as needed, so that sorted order is the order of
    numbers."""
    digits = max(2, len(str(count - 1)))
    return tuple(f"peer-{i:0{digits}d}" for i in range(count))
