"""Friends of friends: the fast form against the simple one, and both against what they promise."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from amity.errors import TopologyError
from amity.round.discovery import (
    HEAD_BYTES,
    Circle,
    Handed,
    Lot,
    at_first,
    hand_out,
    let_in,
    partner,
    take_in,
)
from amity.simulate.crowd import Multitude, lots_of
from amity.topology import Discover, peer_names
from tests.conftest import Call, simulate, tiny

RULE = Discover(view=6, random=3, cards=5, passed=2, answers=2)


def simple(
    rule: Discover, cards: torch.Tensor, salts: np.ndarray, known: torch.Tensor, draws: list
) -> tuple[list[Circle], int]:
    """All rounds, peer by peer, with the functions that a real peer calls."""
    names = peer_names(len(cards))
    at = {name: i for i, name in enumerate(names)}
    norms = cards.float().norm(dim=1).double()

    def alike(me: str, others: set[str]) -> dict[str, float]:
        i = at[me]
        return {
            j: float(
                (cards[i].long() * cards[at[j]].long()).sum().double() / (norms[i] * norms[at[j]])
            )
            for j in others
        }

    def lot(me: str) -> Lot:
        return lambda place, j: int(
            lots_of(np.array([at[j]], dtype=np.uint64), salts[at[me], place : place + 1])[0]
        )

    circles = {
        me: at_first(rule, [names[j] for j in known[at[me]].tolist()], lot(me)) for me in names
    }
    moved = 0
    for draw in draws:
        asked: dict[str, dict[str, float]] = {}
        for me in names:
            other = partner(circles[me], draw[at[me], 0])
            assert other is not None
            asked.setdefault(other, {})[me] = draw[at[me], 1]
        handed: dict[str, list[Handed]] = {me: [] for me in names}
        for other, askers in asked.items():
            for me in let_in(rule, askers):
                for giver, taker, k in ((other, me, 2), (me, other, 3)):
                    circle = circles[giver]
                    given = hand_out(
                        rule,
                        giver,
                        circle,
                        taker,
                        alike(taker, {*circle.all, giver}),
                        draw[at[me], k],
                    )
                    handed[taker].append(given)
                    moved += len(given.best) + len(given.random)
        circles = {
            me: take_in(
                rule,
                me,
                circles[me],
                handed[me],
                alike(
                    me,
                    {*circles[me].all}
                    | {j for one in handed[me] for j in (one.giver, *one.best, *one.random)},
                ),
                lot(me),
            )
            for me in names
        }
    return [circles[me] for me in names], moved


def world(peers: int, groups: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    draw = np.random.default_rng(seed)
    group = np.arange(peers) % groups
    cards = draw.normal(size=(groups, 16))[group] + 0.5 * draw.normal(size=(peers, 16))
    return torch.from_numpy((cards * 30).clip(-127, 127).astype(np.int8)), torch.from_numpy(group)


def circle_of(peers: int, draw: np.random.Generator, k: int) -> torch.Tensor:
    rows = [draw.permutation([j for j in range(peers) if j != i])[:k] for i in range(peers)]
    return torch.from_numpy(np.stack(rows))


@settings(max_examples=5, deadline=None)
@given(st.integers(1, 6), st.integers(8, 40), st.integers(1, 4))
def test_the_fast_form_finds_what_the_simple_one_finds(seed: int, peers: int, groups: int) -> None:
    draw = np.random.default_rng(seed)
    cards, _ = world(peers, groups, seed)
    cards[peers // 2] = cards[0]  # a copy: equal similarities
    salts = draw.integers(2**63, size=(peers, RULE.random)).astype(np.uint64)
    known = circle_of(peers, draw, RULE.view)
    draws = [draw.random((peers, 4)) for _ in range(5)]
    crowd = Multitude(RULE, cards, salts)
    crowd.begin(known)
    moved = sum(crowd.exchange(one) for one in draws)
    circles, count = simple(RULE, cards, salts, known, draws)
    names = peer_names(peers)
    for me, circle in enumerate(circles):
        assert tuple(names[j] for j in crowd.view[me].tolist()) == circle.view
        assert tuple(names[j] for j in crowd.random[me].tolist()) == circle.random
    assert moved == count


def test_views_end_with_the_most_similar_of_all() -> None:
    draw = np.random.default_rng(1)
    cards, group = world(400, 8, 1)
    rule = Discover(view=10, random=3, cards=6)
    crowd = Multitude(rule, cards, draw.integers(2**63, size=(400, 3)).astype(np.uint64))
    crowd.begin(circle_of(400, draw, 10))
    for _ in range(20):
        crowd.exchange(draw.random((400, 4)))
    everyone = torch.arange(400)[None].expand(400, -1)
    alike = crowd.similar(torch.arange(400), everyone)
    alike.fill_diagonal_(-1)
    best = alike.topk(10).values.mean()
    assert (group[crowd.view] == group[:, None]).float().mean() > 0.98
    assert alike.gather(1, crowd.view).mean() > 0.97 * best


def test_who_is_named_more_often_is_no_more_often_a_random_member() -> None:
    """One of twenty names is told a hundred times, the others once: it gets its twentieth."""
    rule = Discover(view=1, random=1, cards=2, passed=1)
    names = peer_names(20)
    chosen = Counter[str]()
    for salt in range(2000):
        salts = np.array([salt * 7919 + 1], dtype=np.uint64)

        def lot(_place: int, j: str, salts: np.ndarray = salts) -> int:
            return int(lots_of(np.array([int(j[-2:])], dtype=np.uint64), salts)[0])

        circle = at_first(rule, names[:1], lot)
        handed = [Handed(names[0], (), (n,)) for n in (*names, *[names[0]] * 100)]
        alike = dict.fromkeys(names, 0.0)
        chosen.update(take_in(rule, "me", circle, handed, alike, lot).random)
    assert chosen[names[0]] / 2000 == pytest.approx(1 / 20, abs=0.02)


def test_names_at_random_are_believed_from_random_members_alone_until_those_are_gone() -> None:
    rule = Discover(view=1, random=1, cards=2, passed=1)
    handed = [Handed("friend", (), ("liar",)), Handed("stranger", (), ("other",))]
    alike = dict.fromkeys(("friend", "liar", "stranger", "other"), 0.5)

    def lot(_place: int, name: str) -> int:
        return ["liar", "other", "friend", "stranger", "gone"].index(name)

    circle = Circle(("friend",), ("stranger",))
    assert take_in(rule, "me", circle, handed, alike, lot).random == ("other",)
    circle = Circle(("friend",), ("gone",))
    assert take_in(rule, "me", circle, handed, alike, lot).random == ("liar",)


def test_who_shows_no_card_gives_way_and_comes_back_only_if_nobody_else_is_there() -> None:
    rule = Discover(view=2, random=1, cards=2, passed=1)
    circle = Circle(("gone", "old"), ("gone",))
    handed = [Handed("new", ("new",), ())]

    def lot(_place: int, name: str) -> int:
        return {"gone": 0, "old": 1, "new": 2}[name]

    after = take_in(rule, "me", circle, handed, {"old": 0.1, "new": 0.2}, lot)
    assert after == Circle(("new", "old"), ("new",))
    assert take_in(rule, "me", circle, [], {}, lot) == Circle(("gone", "old"), ("gone",))


def test_a_circle_is_bounded_and_never_holds_oneself() -> None:
    rule = Discover(view=3, random=2, cards=3, passed=1)
    many = peer_names(30)
    handed = [Handed(j, (j, "me"), ("me",)) for j in many]
    circle = at_first(rule, many[:3], lambda place, j: hash((place, j)))
    after = take_in(rule, "me", circle, handed, dict.fromkeys(many, 0.5), lambda _p, j: int(j[-2:]))
    assert len(after.view) == 3
    assert len(after.random) == 2
    assert "me" not in after.all
    given = hand_out(rule, "me", after, many[0], dict.fromkeys((*many, "me"), 0.1), 0.9)
    assert many[0] not in (*given.best, *given.random)
    assert len(given.best) + len(given.random) <= rule.cards


# -- in the simulator ------------------------------------------------------------------------------

GROUPED = {
    "peers": 24,
    "rounds": 6,
    "partition": {"name": "iid", "samples": 60, "test": 10},
    "shift": {"name": "permute_labels", "groups": 3},
    "topology": {"name": "discover", "view": 5, "random": 2, "cards": 5, "passed": 1},
    "eval": {"gradients_every": 0},
}


@pytest.mark.parametrize("strategy", ["gossip", "friends"])
def test_neighbours_are_found_whether_or_not_the_strategy_has_cards(strategy: str) -> None:
    config = tiny(**GROUPED, strategy={"name": strategy})
    with simulate(config) as simulation:
        shares = [simulation.round().network.base_rate for _ in range(5)]
        near = simulation.finding.near(5)  # type: ignore[union-attr]
        groups = {name: data.group for name, data in simulation.data.items()}
        cards = [seat.ledger.card_out for seat in simulation.seats.values()]
    found = [groups[me] == groups[j] for me, others in near.items() for j in others]
    assert shares[0] < 0.5 < 0.6 < sum(found) / len(found)
    assert all(len(others) <= 7 and me not in others for me, others in near.items())
    assert min(cards) > HEAD_BYTES


def test_circles_survive_a_kill_and_a_resume_to_the_bit() -> None:
    config = tiny(**{**GROUPED, "peers": 12, "rounds": 4}, strategy={"name": "gossip"})
    with simulate(config) as whole:
        for _ in range(2):
            whole.round()
        tensors = {n: {k: v.clone() for k, v in one.items()} for n, one in whole.snapshots()}
        memories = json.loads(json.dumps(whole.memories))
        reports = [whole.round() for _ in range(2)]
    with simulate(config) as other:
        other.restore(2, tensors.__getitem__, memories)
        again = [other.round() for _ in range(2)]
    assert [report.rows for report in reports] == [report.rows for report in again]
    assert [report.peers for report in reports] == [report.peers for report in again]


def test_a_graph_that_is_redrawn_is_refused_where_neighbours_are_found() -> None:
    with pytest.raises(TopologyError, match="redraw: has no meaning with topology=discover"):
        simulate(tiny(**{**GROUPED, "topology": {"name": "discover", "redraw": 2}}))


def test_who_is_offline_is_nobodys_neighbour_and_is_found_again() -> None:
    topology = {**GROUPED["topology"], "online": 0.6, "drop": 0.2}  # type: ignore[dict-item]
    with simulate(tiny(**{**GROUPED, "topology": topology}, strategy={"name": "gossip"})) as here:
        for t in range(4):
            online, near = here.network.is_online(t), here.finding.near(t)  # type: ignore[union-attr]
            assert all(online[me] and online[j] for me, others in near.items() for j in others)
            here.round()


# -- the command -----------------------------------------------------------------------------------


def test_the_command_measures_friends_bytes_and_liars(call: Call, tmp_path: Path) -> None:
    line = "discovery peers=2000 groups=10 rounds=12 noise=0.5 view=12 --json out=found"
    code, out, _ = call(line)
    rows = [json.loads(one) for one in out.splitlines()]
    assert code == 0
    assert [row["kind"] for row in rows[::13]] == ["honest", "copied cards", "perfect cards"]
    honest, copied, perfect = (rows[at] for at in (12, 25, 38))
    assert honest["friends"] > 0.95
    assert honest["similarity"] > 0.9
    assert honest["liars_in_view"] == 0
    # one exchange that a peer starts and one that it answers, eight cards each way
    assert 0 < honest["kilobytes"] <= 2 * 2 * 8 * (HEAD_BYTES + 64) / 1000
    assert 0.1 < copied["liars_in_view"] < 0.5
    assert perfect["liars_in_view"] > 0.9
    assert perfect["liars_at_random"] < 0.16
    assert perfect["eclipsed"] < 0.02
    assert (tmp_path / "found" / "discovery.png").stat().st_size > 10_000
    assert call("discovery peers=many")[0] == 2
    assert call("discovery rule=9")[0] == 2
    assert call("discovery passed=9")[0] == 2
