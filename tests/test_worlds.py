"""Worlds with hidden groups of peers: shifts laid over any data, and groups that the data names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import amity
from amity.config import Config, load, parse, resolve
from amity.core import PeerId
from amity.data import Dataset, PeerData, build, shifts, split
from amity.data.columns import Columns, dataset_of
from amity.data.corrupt import CORRUPTIONS
from amity.data.objects import adapt
from amity.data.shift import Always, Grouping, OfImages, Setting, groups_of, members
from amity.data.worlds import Rotate, moved_of, rings, too_few
from amity.errors import ConfigError, DataError
from amity.round.build import deal_out, load_data
from amity.show.matrices import order_of
from amity.show.report import data_html, describe
from amity.show.worlds import groups_said
from amity.topology import peer_names
from tests.conftest import Call, simulate, tiny

World = dict[PeerId, PeerData]
KINDS = [entry.name for entry in shifts if not entry.cls.plain]
OTHERWISE = {"scale"}
"""Whose docstring says that group 0 is changed too."""


def dealt(config: Config) -> World:
    return deal_out(config, load_data(config), peer_names(config.peers))


def unshifted(config: Config) -> World:
    dataset = load_data(config)
    return split(dataset, config.partition.instance, peer_names(config.peers), config.seed)


def seen(data: PeerData, part: str = "train") -> tuple[torch.Tensor, torch.Tensor]:
    samples = getattr(data, part)
    return samples.pixels.x[samples.index], samples.pixels.y[samples.index]


def table(**columns: Any) -> Dataset:
    draw = np.random.default_rng(0)
    y = np.arange(240) % 4
    rows: dict[str, Any] = {"x": draw.normal(size=(240, 6)) + y[:, None], "y": y, **columns}
    return dataset_of("mine", Columns(**rows), 0.25)


def a_table() -> dict[str, Any]:
    dataset = table()
    return {"x": dataset.pixels.x.numpy(), "y": dataset.labels}


# -- what every shift must do


DATA: dict[str, dict[str, Any]] = {
    "digits": {},
    "bytes": {"data": {"name": "synthetic", "shape": "3x6x8", "train": 300, "test": 120}},
    "table": {"data": a_table()},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("data", DATA)
def test_every_shift_either_works_on_a_kind_of_data_or_refuses_it_in_one_line(
    kind: str, data: str
) -> None:
    partition = {"name": "iid", "samples": 20, "test": 20, "validation": 0.2}
    config = resolve([tiny().to_dict(), {**DATA[data], "shift": kind, "partition": partition}])
    if data == "table" and issubclass(shifts[kind].cls, OfImages):
        with pytest.raises(DataError, match=r"needs images, got .* shape \(6,\); use") as refused:
            dealt(config)
        assert "\n" not in str(refused.value)
        return
    world = dealt(config)
    plain = unshifted(config)
    assert sorted(map(len, members(world).values())) == [1, 1, 2, 2]
    pixels = world["peer-00"].train.pixels
    for name, mine in world.items():
        assert mine.train.pixels is pixels, "all lie in one place, for stacked training"
        for part in ("train", "test", "validation"):
            (x, y), (old_x, old_y) = seen(mine, part), seen(plain[name], part)
            assert (x.shape, y.shape) == (old_x.shape, old_y.shape)
            assert torch.isfinite(x.float()).all()
            same = torch.equal(x, old_x) and torch.equal(y, old_y)
            assert same == (mine.group == 0 and kind not in OTHERWISE), (name, part)
        counts = np.bincount(
            torch.cat([seen(mine, part)[1] for part in ("train", "validation")]),
            minlength=len(mine.labels),
        )
        assert mine.labels == pytest.approx(tuple(counts / counts.sum()))
    assert simulate(config).round().network.accuracy is not None


@pytest.mark.parametrize("kind", KINDS)
def test_a_world_follows_from_its_seed(kind: str) -> None:
    worlds = [dealt(tiny(shift=kind, seed=seed, peers=8)) for seed in (3, 3, 4)]
    for name, mine in worlds[0].items():
        again = worlds[1][name]
        assert mine.group == again.group
        assert all(map(torch.equal, seen(mine), seen(again)))
    groups = [{name: mine.group for name, mine in world.items()} for world in worlds]
    assert groups[0] != groups[2]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_done_to_training_examples_is_done_to_test_examples(kind: str) -> None:
    """One example in both parts is the same in both, unless it is noise."""
    entry = shifts[kind].build({"kinds": "blur,contrast"} if kind == "corrupt" else {})
    dataset = load_data(tiny())
    twice = torch.tensor([5, 6, 5, 6])
    for group in range(3):
        x, y = entry.apply(
            dataset.pixels.x[twice],
            dataset.pixels.y[twice],
            Setting(group, 3, dataset, 0),
            np.random.default_rng(0),
        )
        assert torch.equal(x[:2], x[2:])
        assert torch.equal(y[:2], y[2:])


def test_the_bits_do_not_depend_on_workers_or_on_a_kill() -> None:
    layers: dict[str, Any] = {"shift": {"name": "corrupt", "groups": 3}, "rounds": 4}
    layers["checkpoint"] = {"every": 2}
    one = amity.run(tiny(**layers), "one")
    two = amity.run(tiny(**layers, engine={"workers": 2}), "two")
    lines = [(Path(run.path) / "metrics.jsonl").read_bytes() for run in (one, two)]
    assert lines[0] == lines[1]
    rounds = Path("two/metrics.jsonl")
    rounds.write_bytes(rounds.read_bytes()[:-40])
    assert (Path(amity.resume("two").path) / "metrics.jsonl").read_bytes() == lines[0]


def test_an_attack_on_labels_flips_those_of_the_attackers_own_world() -> None:
    config = tiny(shift="permute_labels", attack={"name": "label_flip", "fraction": 0.34}, rounds=1)
    simulation, world = simulate(config), dealt(config)
    assert len(simulation.attackers) == 2
    for name, peer in simulation.peers.items():
        _, y = seen(world[name])
        flipped = name in simulation.attackers
        assert torch.equal(seen(peer.data)[1], 9 - y if flipped else y)
    assert simulation.round().network.attackers_weight is not None


def test_peers_of_the_data_may_be_shifted_too() -> None:
    rows = {**a_table(), "peer": np.repeat(np.arange(8), 30)}
    config = load(None, {"data": rows, "shift": "permute_labels", "shift.groups": 2})
    world = dealt(config)
    assert {mine.origin for mine in world.values()} == set("01234567")
    assert sorted(map(len, members(world).values())) == [4, 4]


# -- each of them


def test_labels_are_renamed_and_nothing_else() -> None:
    config = tiny(shift={"name": "permute_labels", "groups": 3})
    world, plain = dealt(config), unshifted(config)
    for name, mine in world.items():
        names = rings(0, "labels", 3, 10, 10)[mine.group or 0]
        assert torch.equal(seen(mine)[0], seen(plain[name])[0])
        assert np.take(mine.labels, names) == pytest.approx(plain[name].labels)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 12), st.floats(0.01, 1), st.integers(1, 12), st.integers(0, 99))
def test_permutations_are_bijections_and_no_two_groups_have_the_same(
    places: int, strength: float, groups: int, seed: int
) -> None:
    moved = moved_of(strength, places)
    if too_few("classes", places, moved, groups):
        assert groups - 1 > places * (places - 1) // 2 or places < 5
        return
    found = rings(seed, "labels", groups, places, moved)
    assert [sorted(order) for order in found] == [list(range(places))] * groups
    assert [int((order != np.arange(places)).sum()) for order in found] == [0] + [moved] * (
        groups - 1
    )
    assert len({tuple(order) for order in found}) == groups


def test_a_group_has_the_same_lot_however_many_groups_follow() -> None:
    few, many = rings(1, "labels", 3, 10, 10), rings(1, "labels", 9, 10, 10)
    assert all(map(np.array_equal, few, many))


@pytest.mark.parametrize("size", [(7, 7), (6, 8)])
def test_turning_by_resampling_is_turning_by_right_angles(size: tuple[int, int]) -> None:
    image = torch.zeros(1, 1, *size)
    image[..., size[0] // 2 - 2, size[1] // 2] = 1.0
    at = Setting(1, 4, load_data(tiny()), 0)
    nearly, _ = Rotate(strength=89.999).apply(image, torch.zeros(1), at, np.random.default_rng(0))
    turned = torch.rot90(image, 1, (-2, -1))
    middle = [(side - 1) / 2 for side in nearly.shape[-2:]]
    where = [float(v) for v in (nearly[0, 0] > 0.2).nonzero().float().mean(0)]
    expected = [float(v) for v in turned[0, 0].nonzero()[0]]
    offset = [e - (side - 1) / 2 for e, side in zip(expected, turned.shape[-2:], strict=True)]
    assert [w - m for w, m in zip(where, middle, strict=True)] == pytest.approx(offset, abs=0.51)


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_a_corruption_grows_with_its_severity(kind: str) -> None:
    dataset = load_data(tiny())
    x = dataset.pixels.x[:200] / 16
    apart = [
        float((CORRUPTIONS[kind](x, severity, np.random.default_rng(0)) - x).square().mean())
        for severity in range(1, 6)
    ]
    assert apart == sorted(apart)
    assert apart[0] > 0


def test_two_inverted_groups_are_a_picture_and_its_negative() -> None:
    config = resolve(
        [tiny().to_dict(), {**DATA["bytes"], "shift": {"name": "invert", "groups": 2}}]
    )
    world, plain = dealt(config), unshifted(config)
    for name, mine in world.items():
        old = seen(plain[name])[0]
        assert torch.equal(seen(mine)[0], 255 - old if mine.group else old)


# -- groups


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 99))
def test_sizes_add_up_and_everyone_has_a_group(peers: int, groups: int, seed: int) -> None:
    grouping = Grouping(groups=min(groups, peers))
    counts = grouping.counts(peers)
    assert sum(counts) == peers
    assert max(counts) - min(counts) <= 1
    drawn = groups_of(grouping, peer_names(peers), seed)
    assert np.bincount(list(drawn.values()), minlength=len(counts)).tolist() == list(counts)


@pytest.mark.parametrize("sizes", ["3,2,1", "3+2+1", " 3, 2,1", [3, 2, 1], (3, 2, 1)])
def test_sizes_are_one_thing_however_they_are_given(sizes: Any) -> None:
    config = tiny(shift={"name": "rotate", "sizes": sizes})
    assert config.shift.common.sizes == "3,2,1"
    assert resolve([config.to_dict()]).digest == config.digest
    assert groups_said(dealt(config)).startswith("6 peers in 3 groups of 3, 2, 1; loners: peer-")


MISTAKES = [
    ("shift.groups=4", r"shift.groups: there is no shift .* say which: shift=corrupt or invert"),
    ("shift=none shift.sizes=3,3", "shift.sizes: there is no shift to which it belongs"),
    ("shift.strength=0.5", "shift.strength: there is no shift to which it belongs"),
    ("shift=rotate shift.groups=7", "7 groups for 6 peers; use shift.groups<=6 or peers>=7"),
    ("shift=rotate peers=1", "4 groups for 1 peer; use shift.groups<=1 or peers>=4"),
    ("shift=rotate shift.sizes=3,4", "3,4 adds up to 7, not to 6 peers; use other sizes or"),
    ("shift=rotate shift.sizes=3,three", "expected whole numbers above 0 .* got '3,three'"),
    ("shift=rotate shift.sizes=6,0", "expected whole numbers above 0 .* got '6,0'"),
    ("shift=rotate shift.sizes=7,-1", "expected whole numbers above 0 .* got '7,-1'"),
    ("shift=rotate shift.sizes=,", "expected whole numbers above 0"),
    (f"shift=rotate shift.sizes={'9' * 5000}", "expected whole numbers above 0"),
    ("shift=rotate shift.sizes=3", r"write \+ between sizes\) or peers=3"),
    (
        "shift=rotate shift.sizes=3,2,1 shift.groups=2",
        "shift: groups=2, but sizes=3,2,1 makes 3; leave one of the two out",
    ),
    ("shift=rotate shift.sizes=3,2,1 shift.groups=4", "groups=4, but sizes=3,2,1 makes 3"),
    ("shift=rotate shift.sizes=3,2,1 shift.groups=0", "groups should be greater"),
    ("shift=rotate shift.groups=0", "groups should be greater than or equal to 1, got 0"),
    ("shift=rotate shift.strength=361", "strength should be less than or equal to 360, got 361"),
    ("shift=corrupt shift.strength=6", "strength should be less than or equal to 5, got 6"),
    ("shift=corrupt shift.kinds=fog", "should be 'noise', 'blur', 'contrast' or 'brightness'"),
    ("shift=corrupt shift.kinds=blur,blur", "each once, got"),
    ("shift=rotten", "unknown shift 'rotten'"),
    ("shift=permute_labels shift.strength=nan", "should be a finite number, got nan"),
]


@pytest.mark.parametrize(("words", "message"), MISTAKES)
def test_a_world_that_cannot_be_is_refused_with_the_config(words: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        load(None, {"peers": 6, **parse(words.split())})
    assert "\n" not in str(refused.value)


def test_sizes_and_groups_may_both_be_given_if_they_agree() -> None:
    words = {"peers": 6, "shift": "rotate", "shift.sizes": "3,2,1"}
    config = load(None, {**words, "shift.groups": 3})
    assert config.shift.common.counts(6) == (3, 2, 1)
    again = load(None, words)
    assert resolve([again.to_dict()]).digest == again.digest, "the default of groups is none given"
    with pytest.raises(ConfigError, match="leave one of the two out"):
        again.replace(**{"shift.groups": 2})
    assert again.replace(**{"shift.groups": 2, "shift.sizes": ""}).shift.common.counts(6) == (3, 3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("shift=rotate shift.strength=180", "by 180 degrees two of 4 groups are turned alike; use"),
        ("shift=rotate shift.strength=360", "two of 4 groups are turned alike"),
        ("shift=corrupt shift.strength=5 shift.groups=6", "are enough for 5 groups, got 6; use"),
        ("shift=invert shift.strength=1e-6", "groups 0 and 1 would see the same; use a larger"),
        ("shift=permute_pixels shift.strength=1e-6 seed=0", "would see the same; use a larger"),
        ("shift=zoom shift.strength=1e-9", "would see the same; use a larger shift.strength"),
        ("shift=scale shift.strength=1e-12", "would see the same; use a larger shift.strength"),
    ],
)
def test_groups_that_would_be_alike_are_refused_before_training(
    words: str, message: str, call: Call
) -> None:
    code, _, error = call(f"run peers=6 rounds=1 {words} out=r")
    assert code == 2
    assert message in " ".join(error.split())
    assert not Path("r").exists()


def test_two_classes_have_two_groups_of_names_at_most() -> None:
    rows = {"x": np.random.default_rng(0).normal(size=(60, 3)), "y": np.arange(60) % 2}
    words = {"data": rows, "peers": 4, "shift": "permute_labels", "partition": "iid"}
    with pytest.raises(DataError, match="2 of 2 classes can change in fewer ways than 3 groups"):
        dealt(load(None, {**words, "shift.groups": 3}))
    assert len(members(dealt(load(None, {**words, "shift.groups": 2})))) == 2
    with pytest.raises(DataError, match="9 groups need 4 columns of their own"):
        dealt(load(None, {**words, "peers": 9, "shift": "invert", "shift.groups": 9}))


def test_a_run_without_a_shift_is_the_run_that_it_was() -> None:
    assert "shift" not in tiny().to_dict()
    assert tiny(shift="none").digest == tiny().digest
    assert tiny(shift="rotate").replace(shift="none").digest == tiny().digest
    assert all(mine.group is None for mine in dealt(tiny()).values())
    assert members(dealt(tiny())) == {}


@dataclass(frozen=True)
class Dimmed(Always):
    """Each group sees less light."""

    plain: ClassVar[bool] = False
    strength: float = 0.5

    def apply(
        self, x: torch.Tensor, y: torch.Tensor, at: Setting, noise: np.random.Generator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return x * self.strength**at.group, y


def test_a_shift_of_ones_own_is_one_class() -> None:
    config = tiny(shift=Dimmed(strength=0.25)).replace(**{"shift.groups": 2})
    world, plain = dealt(config), unshifted(config)
    for name, mine in world.items():
        assert torch.equal(seen(mine)[0], seen(plain[name])[0] * 0.25 ** (mine.group or 0))
    assert amity.run(config, "r").complete


# -- groups that the data names


def test_own_data_names_the_groups_of_its_peers(tmp_path: Path) -> None:
    import pandas as pd

    peer = np.repeat(["a", "b", "c", "d"], 60)
    group = np.repeat(["north", "south", "north", "west"], 60)
    rows = {**a_table(), "peer": peer, "group": group}
    np.savez("mine.npz", **rows)
    frame = pd.DataFrame(rows["x"], columns=[f"f{k}" for k in range(6)])
    frame.assign(label=rows["y"], town=peer, land=group).to_csv("t.csv", index=False)
    keys: list[dict[str, Any]] = [
        {"data": rows},
        {"data": "mine.npz", "partition": "natural", "peers": 4},
        {
            "data": "t.csv",
            "data.peer": "town",
            "data.group": "land",
            "partition": "natural",
            "peers": 4,
        },
    ]
    for given_keys in keys:
        config = load(None, given_keys)
        world = dealt(config)
        assert [mine.group for mine in world.values()] == [0, 1, 0, 2]
        page, said = data_html(config)
        assert said == "4 peers in 3 groups of 2, 1, 1; loners: peer-01, peer-03"
        assert "The groups of the data" in page
        assert "west" in page
        with pytest.raises(DataError, match="shift=scale: the data names groups of its own; use"):
            dealt(config.replace(shift="scale", **{"shift.groups": 2}))
    assert "group" not in load(None, {"data": "t.csv"}).data.to_dict()
    mixed = load(None, {"data": "mine.npz", "peers": 4, "partition": "iid"})
    assert members(dealt(mixed)) == {}, "peers that are dealt from all are of no group"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"group": ["a"] * 240}, "mine: group names groups of peers; say by peer who holds what"),
        (
            {"peer": np.arange(240) % 3, "group": ["n"] * 239 + ["s"]},
            "mine: peer 2 is in two groups, n and s; a peer has one",
        ),
        ({"peer": np.arange(240) % 3, "group": ["n"] * 5}, "group must be one value for each"),
    ],
)
def test_groups_that_cannot_be_are_refused(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        table(**{key: np.asarray(value) for key, value in columns.items()})


def test_a_mapping_may_name_groups_and_a_built_dataset_too() -> None:
    rows = {**a_table(), "peer": np.arange(240) % 4, "group": np.arange(240) % 2}
    assert adapt("f", rows, 0.2).group_names == ("0", "1")
    made = replace(table(peer=np.arange(240) % 4), groups=np.arange(240) % 2)
    assert load_data(load(None, {"data": made})).groups is not None
    assert (
        build(
            "x",
            np.zeros((4, 2), np.float32),
            np.arange(4) % 2,
            np.arange(2),
            np.arange(2, 4),
            mean=0.0,
            std=1.0,
        ).groups
        is None
    )


# -- how a world is told


def test_a_world_is_drawn_and_said_wherever_its_data_is(call: Call) -> None:
    for words in ("shift=rotate shift.sizes=14,4,1,1", "shift=scale shift.groups=2"):
        code, out, _ = call(f"data show digits {words} out=d.html")
        assert code == 0
        page = Path("d.html").read_text()
        assert page.count("<svg") == 3
        assert "The world: " in page
        assert ("loners: " in out) == ("a loner" in page) == ("sizes" in words)
    np.savez("t.npz", **a_table())
    code, out, _ = call("data show t.npz peers=4 shift=permute_labels partition=iid out=t.html")
    assert "4 peers in 4 groups of 1, 1, 1, 1; loners: peer-0" in out
    assert "Mean of the first columns, by group" in Path("t.html").read_text()
    assert call("data show t.npz peers=4 shift=rotate partition=iid")[0] == 2
    code, out, _ = call("list shifts")
    assert all(kind in out for kind in KINDS)
    assert "sizes" in out
    about = describe([tiny(shift={"name": "rotate", "groups": 3})], [0])
    assert "shift rotate (groups=3)" in about


def test_a_swarm_refuses_a_world_before_any_key_is_made(call: Call) -> None:
    np.savez("t.npz", **a_table())
    code, _, error = call("swarm --peers 4 data=t.npz shift=rotate partition=iid out=s")
    assert code == 2
    assert "needs images" in error
    assert not Path("s").exists()


# -- rulers


def test_friends_are_those_of_ones_group_or_else_those_with_ones_labels() -> None:
    grouped = simulate(tiny(shift={"name": "rotate", "sizes": "3,2,1"}))
    known, names = grouped.friendship, grouped.names
    groups = [grouped.data[name].group for name in names]
    assert known.kind == "group"
    assert known.pairs.tolist() == [[a == b for b in groups] for a in groups]
    assert known.matrix.tolist() == known.pairs.astype(float).tolist()
    assert known.said == (
        "a peer of one's own group (3 groups of 3, 2, 1; a group of 1 is a loner, who has no"
        " friends)"
    )
    ordered = known.group_numbers[order_of(known)].tolist()
    assert ordered == sorted(ordered)
    plain = simulate(tiny(eval={"friend": 0.4})).friendship
    assert plain.kind == "labels"
    assert (plain.pairs == (plain.overlap >= 0.4)).all()
    assert plain.matrix is plain.overlap
    assert plain.said == "a peer whose labels overlap with one's own by 40 % or more"


def test_the_oracle_is_taught_by_groups_where_there_are_groups() -> None:
    config = tiny(shift={"name": "permute_labels", "sizes": "3,2,1"}, strategy="oracle")
    simulation = simulate(config)
    report, by_group = simulation.round(), members(simulation.data)
    for who in by_group.values():
        for name in who:
            assert report.rows[name] == pytest.approx(dict.fromkeys(who, 1 / len(who)))
    network = report.network
    assert (network.precision, network.recall, network.auc) == (1.0, 1.0, 1.0)
    labels = simulate(config.replace(**{"strategy.by": "labels"})).round()
    assert labels.rows != report.rows
    assert labels.network.base_rate == network.base_rate


def test_without_groups_both_oracles_are_the_label_oracle() -> None:
    rows = [
        simulate(tiny(strategy={"name": "oracle", **options})).round().rows
        for options in ({}, {"by": "labels"})
    ]
    assert rows[0] == rows[1]
    assert "by" not in tiny(strategy="oracle").strategy.to_dict(), "old runs stay the same runs"


def test_groups_are_for_references_only() -> None:
    from amity.core import Ask
    from amity.facts import Groups
    from amity.round.deciding import check_ask

    with pytest.raises(TypeError, match=r"Groups\(\) is for references only"):
        check_ask(Ask(Groups(), ("peer-01",)), reference=False)


def test_a_swarm_is_measured_by_the_same_friends_as_a_simulation() -> None:
    layers: dict[str, Any] = {
        "peers": 4,
        "strategy": "gossip",
        "shift": {"name": "invert", "groups": 2},
        "engine": {"workers": 1, "vectorise": "off", "group": 1},
    }
    simulated, real = amity.run(tiny(**layers), "simulated"), amity.swarm(tiny(**layers), "real")
    for ours, theirs in zip(simulated.rounds, real.rounds, strict=True):
        assert (ours.precision, ours.recall) == (theirs.precision, theirs.recall)
        assert ours.base_rate == theirs.base_rate == pytest.approx(1 / 3)
    assert [(e.round, e.peer, e.row) for e in simulated.edges] == [
        (e.round, e.peer, e.row) for e in real.edges
    ]


def test_reports_say_what_a_friend_is_and_show_how_many_are_found(call: Call) -> None:
    base = tiny(shift={"name": "rotate", "sizes": "3,3"})
    comparison = amity.compare(["local", "gossip:k=2", "oracle"], [0], base, out="c", jobs=1)
    page = (comparison.path / "report.html").read_text()
    said = "a peer of one&#x27;s own group (2 groups of 3, 3)"
    assert f"Here a friend is {said}." in page
    assert "Recall of friends by round" in page
    assert "true groups" in page
    assert "true label similarity" not in page
    axes = comparison.figure("recall").axes[0]
    lines = {line.get_label(): line.get_ydata() for line in axes.lines}
    assert list(lines["oracle"]) == [100.0] * 3
    assert list(lines["local"]) == [0.0] * 3
    maps = comparison.figure("matrix")
    assert len(maps.axes) == 8, "every matrix has a scale"
    page = amity.run(tiny(rounds=1), "r").save("r.html").read_text()
    assert "Here a friend is a peer whose labels overlap with one&#x27;s own by 50 %" in page
    assert "true label similarity" in page
    _, out, error = call("compare strategies=local,gossip peers=4 rounds=1 seeds=0 shift=invert")
    assert "here a friend is a peer of one's own group" in " ".join((out + error).split())


def test_where_nobody_has_a_friend_there_is_no_recall_to_show() -> None:
    result = amity.run(tiny(shift={"name": "rotate", "groups": 6}, rounds=1), "r")
    assert result.rounds[0].recall is None
    with pytest.raises(ConfigError, match="nothing to show"):
        result.figure("recall")
    assert "Recall of friends" not in result.save("r.html").read_text()
