from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amity.errors import TopologyError
from amity.topology import Network, peer_names, topologies

DRAWN = [entry for entry in topologies if entry.name != "file"]


def network(
    name: str = "full", peers: int = 10, seed: int = 0, options: Any = None, **keys: Any
) -> Network:
    return Network(topologies[name].build(options or {}), peer_names(peers), seed, **keys)


@pytest.mark.parametrize("entry", DRAWN, ids=lambda entry: entry.name)
@pytest.mark.parametrize("peers", [12, 13])
def test_every_graph_is_undirected_without_loops_and_the_same_for_a_seed(
    entry: Any, peers: int
) -> None:
    options = {"k": 4} if entry.name == "regular" else {}
    near = network(entry.name, peers, options=options).neighbours(0)
    assert near == network(entry.name, peers, options=options).neighbours(5)
    for me, others in near.items():
        assert me not in others
        assert list(others) == sorted(others)
        assert all(me in near[j] for j in others)


@pytest.mark.parametrize(
    "entry", [e for e in DRAWN if e.name not in ("regular", "small_world")], ids=lambda e: e.name
)
@pytest.mark.parametrize("peers", [1, 2, 3])
def test_tiny_networks_work(entry: Any, peers: int) -> None:
    assert len(network(entry.name, peers).neighbours(0)) == peers


def degrees(net: Network) -> set[int]:
    return {len(others) for others in net.neighbours(0).values()}


def test_degrees_are_as_named() -> None:
    assert degrees(network("full")) == {9}
    assert degrees(network("ring")) == {2}
    assert degrees(network("ring", 2)) == {1}
    assert degrees(network("regular", options={"k": 3})) == {3}
    assert degrees(network("partial", 100)) == {49}
    assert degrees(network("partial", 20)) == {9}
    assert degrees(network("exponential", 16)) == {7}  # 1, 2, 4 both ways and 8


def test_a_redrawn_graph_changes_only_when_it_is_due() -> None:
    net = network("regular", 20, options={"k": 4}, redraw=3)
    graphs = [net.neighbours(t) for t in range(7)]
    assert graphs[0] == graphs[1] == graphs[2] != graphs[3]
    assert graphs[3] == graphs[5] != graphs[6]


@settings(max_examples=20)
@given(st.floats(0, 1), st.integers(0, 50))
def test_who_is_offline_reaches_nobody_and_is_reached_by_nobody(online: float, round: int) -> None:
    net = network(online=online)
    here, near = net.is_online(round), net.neighbours(round)
    for me, others in near.items():
        assert set(others) == ({j for j in near if here[j] and j != me} if here[me] else set())


def test_availability_follows_its_probability() -> None:
    net = network(peers=50, online=0.7)
    share = sum(sum(net.is_online(t).values()) for t in range(100)) / 5000
    assert share == pytest.approx(0.7, abs=0.03)


def test_a_trace_file_says_who_is_online() -> None:
    Path("trace.csv").write_text("peer,round,online\npeer-01,0,0\npeer-01,2,0\npeer-01,1,1\n")
    net = network(peers=3, trace="trace.csv")
    assert [("peer-01" in net.neighbours(t)["peer-00"]) for t in range(4)] == [
        False,
        True,
        False,
        True,
    ]


def test_an_edge_file_is_read_with_comments_and_either_separator() -> None:
    Path("edges.txt").write_text("# mine\npeer-00 peer-01\npeer-01,peer-02  # and back\n\n")
    near = network("file", 4, options={"path": "edges.txt"}).neighbours(0)
    assert near == {
        "peer-00": ("peer-01",),
        "peer-01": ("peer-00", "peer-02"),
        "peer-02": ("peer-01",),
        "peer-03": (),
    }


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("regular", {"k": 12}, r"k must be < peers \(10\), got 12"),
        ("small_world", {"k": 10}, r"k must be < peers \(10\), got 10"),
        ("file", {"path": "absent.txt"}, "absent.txt: cannot be read"),
        (
            "file",
            {"path": "stranger.txt"},
            r"stranger.txt:1: unknown peer 'bob'; peers are peer-00 to peer-09",
        ),
        ("file", {"path": "three.txt"}, r"three.txt:2: expected two peers"),
    ],
)
def test_graphs_that_cannot_be_are_refused(name: str, options: Any, message: str) -> None:
    Path("stranger.txt").write_text("peer-00 bob\n")
    Path("three.txt").write_text("peer-00 peer-01\npeer-00 peer-01 peer-02\n")
    with pytest.raises(TopologyError, match=message):
        network(name, options=options)


def test_odd_regular_graphs_are_refused_with_the_remedy() -> None:
    with pytest.raises(TopologyError, match="must be even, got 3 x 9; use k=4 or 2"):
        network("regular", 9, options={"k": 3})


@pytest.mark.parametrize("line", ["peer-00,0", "peer-00,zero,1", "peer-00,0,maybe", "ghost,0,1"])
def test_a_broken_trace_is_refused_with_its_line(line: str) -> None:
    Path("trace.csv").write_text(f"peer,round,online\n{line}\n")
    with pytest.raises(TopologyError, match=r"trace.csv:2: "):
        network(trace="trace.csv")


def test_names_sort_like_numbers() -> None:
    names = peer_names(1200)
    assert list(names) == sorted(names)
    assert peer_names(3) == ("peer-00", "peer-01", "peer-02")
