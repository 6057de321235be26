"""Friends: who is taken, by what evidence, at what cost; and what it says about it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import amity
from amity.config import Config, resolve
from amity.core import Answers, Ask, Decision, PeerId, View, drive
from amity.facts import Distance, Fact, Likeness, Pull
from amity.peer.trials import Agreement, Alone
from amity.rng import rng
from amity.strategies.friends import Friends
from tests.conftest import simulate, tiny

Pairs = Mapping[tuple[PeerId, PeerId], float]


class Village:
    """Answers the asks of peer `a`, and remembers them. Who is not in `lost` answers."""

    def __init__(
        self,
        alike: Pairs,
        *,
        far: Mapping[PeerId, float] | None = None,
        alone: float = 0.8,
        agreement: float = 0.2,
        lost: Iterable[PeerId] = (),
    ) -> None:
        self.alike, self.far, self.lost = dict(alike), dict(far or {}), set(lost)
        self.alone, self.agreement, self.asked = alone, agreement, list[Ask]()

    def __call__(self, ask: Ask) -> Answers:
        self.asked.append(ask)
        here = [j for j in ask.peers if j not in self.lost]
        fact = ask.fact
        if isinstance(fact, Likeness):
            return {i: {j: self._pair(i, j) for j in here} for i in here}
        if isinstance(fact, Distance):
            return {j: self.far.get(j, 1.0) for j in here}
        assert isinstance(fact, Pull | Alone | Agreement)
        value = {Pull: 5, Alone: self.alone, Agreement: self.agreement}[type(fact)]
        return dict.fromkeys(here, value)

    def _pair(self, i: PeerId, j: PeerId) -> float:
        return 1.0 if i == j else self.alike.get((i, j), self.alike.get((j, i), 0.2))

    def peers(self, fact: type[Fact]) -> list[tuple[PeerId, ...]]:
        return [ask.peers for ask in self.asked if isinstance(ask.fact, fact)]


def alike(*groups: str) -> Pairs:
    """1 within a group of one-letter names, and 0.2 between groups."""
    return {(i, j): 1.0 for group in groups for i in group for j in group if i < j}


def view(
    near: str, memory: Any = None, round: int = 0, rounds: int = 10, me: str = "a", seed: int = 0
) -> View:
    return View(
        me=me,
        round=round,
        rounds=rounds,
        neighbours=tuple(near),
        examples=5,
        card=None,
        rng=rng(seed, round, me),
        common_rng=rng(seed, round),
        memory=memory or {},
    )


def decide(village: Village, near: str, memory: Any = None, k: int = 5, **where: Any) -> Decision:
    return drive(Friends(k=k).decide(view(near, memory, **where), {"a": 1.0}), village)


def through(village: Village, near: str, rounds: int, **where: Any) -> list[Decision]:
    """The decisions of the first rounds, each with the notebook of the one before."""
    made: list[Decision] = []
    for t in range(rounds):
        made.append(decide(village, near, made[-1].memory if made else None, round=t, **where))
    return made


# -- by hand ---------------------------------------------------------------------------------------

BY_HAND: Pairs = {
    ("a", "b"): 0.9,
    ("a", "c"): 0.95,
    ("a", "d"): 0.85,
    **alike("bcd", "ef"),
}


def test_a_group_by_hand() -> None:
    # b, c and d become one (1.0), and so do e and f. a is like b, c and d by .9 on average, which
    # is at least .8: it joins. Both groups are alike by .2, which is not. Three friends with a mean
    # of .9, at least .88, are taken: a quarter each.
    village = Village(BY_HAND)
    made = decide(village, "bcdef")
    assert made.row == pytest.approx({"a": 0.25, "b": 0.25, "c": 0.25, "d": 0.25})
    assert made.notes == pytest.approx(
        {
            "groups": 2,
            "friends": 3,
            "strangers": 2,
            "likeness": 0.9,
            "company": 1,
            "refused": 0,
        }
    )
    assert village.peers(Likeness) == [("a", "b", "c", "d", "e", "f")]
    assert village.peers(Pull) == village.peers(Distance) == [("b", "c", "d")]
    assert made.scores == pytest.approx({"b": 0.9, "c": 0.95, "d": 0.85, "e": 0.2, "f": 0.2})


def test_the_nearest_part_of_a_crowd_is_no_group_until_the_crowd_has_failed() -> None:
    # with .75 to d the mean is (.9 + .95 + .75)/3 = .867: enough to join, not to be sure
    village = Village(BY_HAND | {("a", "d"): 0.75}, alone=0.8, agreement=0.74)
    first, tried, after = through(village, "bcdef", 3)
    assert len(first.row) == 6
    assert first.notes["company"] == 2
    assert village.peers(Alone) == [("a",)]
    assert {"e", "f"} <= set(village.peers(Pull)[1])
    assert village.peers(Agreement)[0] == ("e", "f"), "friends are no strangers"
    # .74 is less than .8 - .05
    assert tried.notes["company"] == 1
    assert tried.notes["agreement"] == 0.74
    assert set(tried.row) == set(after.row) == {*"abcd"}


def test_a_crowd_that_agrees_is_kept() -> None:
    village = Village({}, alone=0.8, agreement=0.76)
    made = through(village, "bcdef", 10)
    assert all(len(one.row) == 6 for one in made)
    assert made[-1].notes["groups"] == 6
    assert made[-1].notes["company"] == 2


def test_a_loner_leaves_a_crowd_that_does_not_agree() -> None:
    village = Village(alike("bcdef"), alone=0.8, agreement=0.2)
    first, *later = through(village, "bcdef", 10)
    assert len(first.row) == 6
    assert all(one.row == {"a": 1.0} for one in later)
    assert later[-1].notes["company"] == 0
    assert "likeness" not in later[-1].notes
    # of ten rounds .08, .16, .3, .5, .7: the strangers come to each of them, and at no other time
    pulled = [len(peers) for peers in village.peers(Pull)]
    assert pulled == [5, 5, 5, 5, 0, 5, 0, 5, 0, 0]
    assert len(village.peers(Agreement)) == 5
    assert village.peers(Alone) == [("a",)], "trained once"


def test_a_crowd_that_comes_to_agree_is_taken_back_and_trials_are_averaged() -> None:
    village = Village({}, alone=0.8, agreement=0.5)
    before = through(village, "bcdef", 2)[-1]
    assert before.row == {"a": 1.0}
    village.agreement = 1.0
    after = decide(village, "bcdef", before.memory, round=2)
    assert after.notes["agreement"] == 0.75
    assert len(after.row) == 6


def test_where_all_are_alike_there_is_nothing_to_try() -> None:
    village = Village(alike("abcdef"))
    for made in through(village, "bcdef", 10):
        assert len(made.row) == 6
        assert made.notes["groups"] == 1
    assert village.peers(Agreement) == village.peers(Alone) == []


def test_two_friends_are_too_few_to_be_sure_of() -> None:
    village = Village(alike("abc", "def"))
    first, second = through(village, "bcdef", 2)
    assert set(first.row) == {*"abcdef"}
    assert set(second.row) == {*"abc"}, "the trial has said so"


# -- models and cards that should not count --------------------------------------------------------


def test_a_model_that_is_far_off_or_no_number_is_refused() -> None:
    # the middle one of 1, 1, 1, 1.7, 1.8 is 1: up to 1.75 is near enough
    village = Village(alike("abcdef"), far={"e": 1.7, "f": 1.8})
    made = decide(village, "bcdef")
    assert set(made.row) == {*"abcde"}
    assert made.notes["refused"] == 1
    for bad in (math.nan, math.inf):
        made = decide(Village(alike("abcdef"), far={"f": bad}), "bcdef")
        assert set(made.row) == {*"abcde"}
    made = decide(Village(alike("ab"), far={"b": math.nan}), "b")
    assert made.row == {"a": 1.0}


def test_what_is_far_is_told_from_all_rounds_not_from_this_one_alone() -> None:
    memory = decide(Village(alike("abcd")), "bcd").memory
    made = decide(Village(alike("abcd"), far=dict.fromkeys("bcd", 10.0)), "bcd", memory, round=1)
    assert made.row == {"a": 1.0}
    # usual was 1; now at most 1.75 counts, so 10 > 1.75 · 1.75: refused; it is remembered as half
    assert made.memory["far"] == pytest.approx((1 + 1.75) / 2)


def test_a_far_model_takes_no_part_in_a_trial() -> None:
    village = Village({}, far={"f": 5.0})
    through(village, "bcdef", 2)
    assert village.peers(Agreement)[0] == ("b", "c", "d", "e")


def test_who_shows_my_own_card_is_like_nobody_and_a_stranger() -> None:
    """The fact says 0 of a copy: then it is no friend, whoever else is."""
    village = Village(alike("abcd") | dict.fromkeys((("a", "z"), ("b", "z")), 0.0))
    made = decide(village, "bcdz")
    assert set(made.row) == {*"abcd"}


# -- who is there ----------------------------------------------------------------------------------


def test_newcomers_are_looked_at_after_1_2_and_4_rounds() -> None:
    village, memory = Village(alike("abcdefghijklmnop")), None
    looks = []
    for t in range(16):
        before = len(village.peers(Likeness))
        near = "bcdefghijklmnopq"[: t + 1]  # every round somebody new
        memory = decide(village, near, memory, round=t, rounds=100).memory
        if len(village.peers(Likeness)) > before:
            looks.append(t)
    assert looks == [0, 1, 3, 7, 15]


def test_nobody_is_looked_at_twice_while_all_are_known() -> None:
    village = Village(alike("abcdef"))
    through(village, "bcdef", 10)
    assert len(village.peers(Likeness)) == 1


def test_a_lost_card_is_asked_for_again_and_its_owner_is_no_stranger_meanwhile() -> None:
    village = Village(alike("abcde"), lost="e")
    first = decide(village, "bcde")
    assert first.notes["friends"] == 3
    assert set(first.row) <= {*"abcd"}
    village.lost = set()
    second = decide(village, "bcde", first.memory, round=1)
    assert len(village.peers(Likeness)) == 2
    assert second.notes["friends"] == 4
    assert set(second.row) == {*"abcde"}


def test_a_friend_who_is_away_stays_a_friend() -> None:
    memory = decide(Village(BY_HAND), "bcdef").memory
    made = decide(Village({**BY_HAND, ("a", "g"): 0.2}), "befg", memory, round=1)
    assert made.memory["friends"] == [*"bcd"]
    assert set(made.row) == {"a", "b"}


def test_when_all_is_lost_or_nobody_is_there_i_am_alone_and_know_nothing() -> None:
    for made in (decide(Village({}, lost="bcd"), "bcd"), decide(Village({}), "")):
        assert made.row == {"a": 1.0}
        assert made.notes == {
            "groups": 1.0 if made.notes["groups"] else 0.0,
            "friends": 0.0,
            "strangers": 0.0,
            "company": 2.0,
            "refused": 0.0,
        }
    assert Friends().explain(decide(Village({}), "").notes).startswith("it has seen nobody's card")


def test_one_neighbour_is_taken_if_it_is_like_me_or_agrees() -> None:
    assert set(decide(Village(alike("ab")), "b").row) == {"a", "b"}
    assert [len(made.row) for made in through(Village({}), "b", 3)] == [2, 1, 1]
    assert [len(made.row) for made in through(Village({}, agreement=0.9), "b", 3)] == [2, 2, 2]


def test_with_k_0_nobody_is_taken_and_nothing_is_tried() -> None:
    for village in (Village(BY_HAND), Village({})):
        assert all(made.row == {"a": 1.0} for made in through(village, "bcdef", 10, k=0))
        assert {*village.peers(Pull)} == {()}
        assert village.peers(Alone) == []


def test_without_strangers_no_model_is_trained_for_a_trial() -> None:
    """All that could be tried are refused: nothing is known, and nothing was paid."""
    village = Village({}, far=dict.fromkeys("bc", math.nan))
    made = through(village, "bc", 2)[-1]
    assert village.peers(Alone) == []
    assert "alone" not in made.notes


def test_who_has_too_few_examples_to_try_keeps_the_crowd() -> None:
    village = Village({}, alone=math.nan)
    assert all(len(made.row) == 6 for made in through(village, "bcdef", 10))


# -- the ring --------------------------------------------------------------------------------------


@given(peers=st.integers(2, 12), k=st.integers(0, 12), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_where_everyone_reaches_everyone_each_is_taken_as_often_as_it_takes(
    peers: int, k: int, seed: int
) -> None:
    names = "abcdefghijkl"[:peers]
    count: Counter[PeerId] = Counter()
    for me in names:
        near = view(names.replace(me, ""), me=me, seed=seed)
        row = drive(Friends(k=k).decide(near, {me: 1.0}), Village(alike(names))).row
        count.update(j for j in row if j != me)
    assert [count[name] for name in names] == [min(k, peers - 1)] * peers


@given(near=st.sets(st.sampled_from("bcdefghijkl"), min_size=1), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_who_reaches_only_some_goes_round_the_same_ring(near: set[str], seed: int) -> None:
    def taken(reach: str, k: int) -> list[set[PeerId]]:
        village = Village(alike("abcdefghijkl"))
        made = [
            drive(Friends(k=at).decide(view(reach, seed=seed), {"a": 1.0}), village).row
            for at in range(1, k + 1)
        ]
        return [set(row) - {"a"} for row in made]

    whole = taken("bcdefghijkl", 11)
    ring = [min(now - before) for before, now in zip([set[str](), *whole[:-1]], whole, strict=True)]
    some = taken("".join(sorted(near)), len(near))
    mine = [j for j in ring if j in near]
    assert some == [set(mine[: at + 1]) for at in range(len(mine))]


# -- worlds ----------------------------------------------------------------------------------------


def digits(**layers: Any) -> Config:
    base: dict[str, Any] = {
        "peers": 12,
        "rounds": 30,
        "partition": {"name": "iid", "samples": 60, "test": 30},
        "strategy": "friends",
        "engine": {"workers": 1},
        "eval": {"every": 30, "gradients_every": 0},
    }
    return resolve([base, layers])


SMALL: dict[str, Any] = {"rounds": 8, "eval": {"every": 8, "gradients_every": 0}}


@pytest.mark.parametrize("shift", ["permute_labels", "rotate"])
def test_hidden_groups_are_found_exactly(shift: str) -> None:
    config = digits(shift={"name": shift, "groups": 3}, **SMALL)
    with simulate(config) as simulation:
        for _ in range(3):
            report = simulation.round()
            assert report.network.precision == 1.0
            assert {r.notes["groups"] for r in report.peers.values()} == {3.0}
        group = {name: peer.data.group for name, peer in simulation.peers.items()}
        for name in simulation.names:
            mine = [j for j in simulation.names if j != name and group[j] == group[name]]
            assert simulation.memories[name]["friends"] == mine


def test_loners_stay_alone_and_the_others_find_each_other() -> None:
    config = digits(shift={"name": "permute_labels", "sizes": "5,5,1,1"}, **SMALL)
    with simulate(config) as simulation:
        reports = [simulation.round() for _ in range(8)]
        count = Counter(peer.data.group for peer in simulation.peers.values())
        for name, peer in simulation.peers.items():
            loner = count[peer.data.group] == 1
            assert reports[-1].peers[name].notes["company"] == (0.0 if loner else 1.0)
            assert (reports[-1].rows[name] == {name: 1.0}) is loner


def test_peers_of_one_distribution_take_everyone() -> None:
    with simulate(digits(**SMALL)) as simulation:
        report = simulation.round()
    assert {r.notes["company"] for r in report.peers.values()} == {2.0}
    assert {r.taken for r in report.peers.values()} == {5}


def costs(config: Config) -> tuple[int, int]:
    """Bytes received and passes, of all peers in a whole run."""
    received = passes = 0
    with simulate(config) as simulation:
        for _ in range(config.rounds):
            records = simulation.round().peers.values()
            received += sum(r.received for r in records)
            passes += sum(r.passes for r in records)
    return received, passes


@pytest.mark.parametrize("shift", [{}, {"name": "rotate", "sizes": "5,5,1,1"}])
def test_it_costs_hardly_more_than_gossip(shift: dict[str, Any]) -> None:
    layers = {"shift": shift} if shift else {}
    received, passes = costs(digits(**layers))
    usual = costs(digits(strategy={"name": "gossip", "k": 5}, **layers))
    assert received <= 1.1 * usual[0]
    assert passes <= 1.6 * usual[1]


def test_what_training_alone_takes_is_booked() -> None:
    """15 % of 8 · 5 epochs is 6, each on two halves of 30; the loner's trials come on top."""
    config = digits(shift={"name": "permute_labels", "sizes": "4,4,3,1"}, **SMALL)
    with simulate(config) as simulation:
        first, second = simulation.round(), simulation.round()
        grouped = [n for n in simulation.names if first.peers[n].notes["friends"] >= 3]
        (loner,) = [n for n in simulation.names if not first.peers[n].notes["friends"]]
    assert len(grouped) == 8
    card, round = 2 * 30 * 6, 5 * 60
    for name in grouped:
        assert first.peers[name].backward == first.peers[name].forward == round + card
        assert second.peers[name].backward == second.peers[name].forward == round
    # the first trial is in the second round: two more models, either half, and the crowd on all 60
    trial = second.peers[loner]
    assert trial.backward == round + card
    assert trial.forward == round + card + 60 + 60


TROUBLE: dict[str, dict[str, Any]] = {
    "head": {"method": "head"},
    "ditto": {"method": "ditto"},
    "dispfl": {"method": "dispfl"},
    "a partial graph": {"topology": {"name": "regular", "k": 5}},
    "people come and go": {"topology": {"online": 0.6}},
    "a fifth is lost": {"topology": {"drop": 0.2}},
}


@pytest.mark.parametrize("what", TROUBLE)
def test_groups_are_found_in_trouble_too(what: str) -> None:
    shift = {"name": "permute_labels", "groups": 2}
    config = digits(shift=shift, **SMALL, **TROUBLE[what])
    with simulate(config) as simulation:
        for _ in range(8):
            report = simulation.round()
        group = {name: peer.data.group for name, peer in simulation.peers.items()}
        found = [
            (group[name] == group[j])
            for name in simulation.names
            for j in simulation.memories[name]["friends"]
        ]
    assert sum(found) >= 20
    assert all(found)
    assert report.network.precision is not None
    assert report.network.precision > 0.8


def test_workers_change_no_bit(tmp_path: Path) -> None:
    layers: dict[str, Any] = {"shift": {"name": "rotate", "sizes": "4,1,1"}, "strategy": "friends"}
    one, two = (
        amity.run(tiny(**layers, rounds=5, engine={"workers": n}), tmp_path / str(n))
        for n in (1, 2)
    )
    assert one.metrics == two.metrics
    assert one.edges == two.edges


def test_what_it_asks_about_raw_data_is_named_in_the_statement(tmp_path: Path) -> None:
    layers = {"privacy": {"name": "gradients", "sigma": 1.0}, "strategy": "friends"}
    result = amity.run(tiny(**layers, rounds=3), tmp_path / "run")
    assert "training only, excludes" in result.privacy
    for fact in ("Likeness of twins", "Agreement", "Alone"):
        assert fact in result.privacy
    assert "Distance" not in result.privacy
    assert "Pull" not in result.privacy


# -- in words --------------------------------------------------------------------------------------


def test_every_decision_has_a_sentence() -> None:
    say = Friends().explain
    assert say(decide(Village(BY_HAND), "bcdef").notes) == (
        "of 5 others 3 are like it (likeness 0.90; 2 groups); it takes its friends"
    )
    assert say(decide(Village(alike("abc")), "bc").notes) == (
        "all cards look alike, so there are no groups; it takes everyone"
    )
    loner = through(Village(alike("bcd"), alone=0.8, agreement=0.25), "bcd", 2)[-1]
    assert say(loner.notes) == (
        "it is like none of 3 others; strangers do not agree: right on 25% of its examples, where"
        " learning alone is right on 80%; it takes nobody"
    )
    crowd = through(Village({}, alone=0.8, agreement=0.9), "bcd", 2)[-1]
    assert "strangers agree: right on 90% of its examples" in say(crowd.notes)
    assert say(crowd.notes).endswith("it takes everyone")
    assert say({}) == ""
    some = [loner.notes, crowd.notes, crowd.notes, {}]
    assert Friends().sum_up(some) == "1 took nobody, 2 took everyone"
    assert Friends().sum_up([]) == ""
