"""Conformance: every strategy x every method, in every kind of trouble."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from amity import core
from amity.core import START, View, drive
from amity.facts import Fact
from amity.rng import rng as real_rng
from amity.simulate import Simulation
from amity.strategies import strategies
from tests.conftest import EVERY_METHOD, EVERY_STRATEGY, OTHER_PROXIES, simulate, spec_id, tiny

every_strategy = pytest.mark.parametrize("spec", EVERY_STRATEGY, ids=spec_id)
every_method = pytest.mark.parametrize("method", EVERY_METHOD)


def check(simulation: Simulation, rounds: int = 3) -> list[dict[str, core.Row]]:
    """Run, and check what must hold of every round."""
    rows = []
    for _ in range(rounds):
        report = simulation.round()
        rows.append(report.rows)
        for name, row in report.rows.items():
            assert abs(sum(row.values()) - 1) < 1e-6
            assert all(weight > 0 for weight in row.values())
            assert set(row) <= {*simulation.names, START}
            peer = simulation.peers[name]
            assert torch.isfinite(peer.start).all()
            memory = simulation.memories[name]
            assert json.loads(json.dumps(memory)) == memory
            assert 0 <= report.peers[name].accuracy <= 1
    return rows


TROUBLE: dict[str, dict[str, Any]] = {
    "nothing": {},
    "all answers lost": {"topology": {"drop": 1.0}},
    "a third of the answers lost": {"topology": {"drop": 0.33}},
    "half of the peers offline": {"topology": {"online": 0.5}},
    "one peer": {"peers": 1},
    "two peers": {"peers": 2},
    "no neighbours": {"topology": {"name": "erdos", "p": 0.0}},
    "a ring redrawn every round": {"topology": {"name": "ring", "redraw": 1}},
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every strategy x every method, and both of them x every kind of trouble; all three together
    with `--full`."""
    if "trouble" not in metafunc.fixturenames:
        return
    every, count = bool(metafunc.config.getoption("--full")), len(EVERY_METHOD)
    cases = [
        pytest.param(spec, method, trouble, id=f"{trouble}-{method}-{spec_id(spec)}")
        for i, spec in enumerate(EVERY_STRATEGY)
        for j, method in enumerate(EVERY_METHOD)
        for t, trouble in enumerate(TROUBLE)
        if every or t == 0 or (i + j) % count == t % count
    ]
    metafunc.parametrize(("spec", "method", "trouble"), cases)


def test_rows_and_memory_stay_valid(spec: dict[str, Any], method: str, trouble: str) -> None:
    simulation = simulate(tiny(strategy=spec, method={"name": method}, **TROUBLE[trouble]))
    rows = check(simulation)
    alone = trouble in ("all answers lost", "one peer", "no neighbours")
    if alone and spec["name"] != "fedavg":
        # it may find its own training so
        harmful = [{START: 1.0}] if spec["name"] == "fomo" else []
        assert all(
            row in ({name: 1.0}, *harmful) for report in rows for name, row in report.items()
        )


@every_method
@pytest.mark.parametrize("proxy", OTHER_PROXIES)
def test_every_proxy_works_also_with_half_of_the_peers_offline(proxy: str, method: str) -> None:
    spec = {"name": "afind+", "proxy": proxy, "tau": 0.1}
    simulation = simulate(tiny(strategy=spec, method={"name": method}, topology={"online": 0.5}))
    taken = [len(row) > 1 for report in check(simulation) for row in report.values()]
    assert any(taken)


@every_strategy
@every_method
def test_the_order_in_which_peers_are_handled_changes_no_bit(
    spec: dict[str, Any], method: str
) -> None:
    config = tiny(strategy=spec, method={"name": method}, eval={"gradients_every": 0})
    forwards, backwards = simulate(config), simulate(config)
    backwards.names, backwards.units = backwards.names[::-1], backwards.units[::-1]
    backwards.seats = dict(reversed(backwards.seats.items()))
    for _ in range(3):
        assert forwards.round().rows == backwards.round().rows
    for name, peer in forwards.peers.items():
        assert torch.equal(peer.start, backwards.peers[name].start)


BY_LOT = {"dpfl"}
"""Strategies that draw lots among their neighbours, however many they are."""
MORE_EXAMPLES: dict[str, Any] = {
    "friends": {"partition": {"name": "iid", "samples": 40, "test": 30}}
}
"""Where ten examples say too little of a peer, and what is nothing but chance goes by names."""


@pytest.mark.parametrize(
    "spec", [spec for spec in EVERY_STRATEGY if spec["name"] not in BY_LOT], ids=spec_id
)
def test_a_permutation_of_peers_gives_the_permuted_result(
    spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rename the peers; data and randomness follow the peer, not the name. (With 5 neighbours and k
    = 10 nobody samples.)"""
    config = tiny(strategy=spec, **MORE_EXAMPLES.get(spec["name"], {}))
    plain = simulate(config)
    reports = [plain.round() for _ in range(3)]

    names = plain.names
    new_name = dict(zip(names, np.random.default_rng(3).permutation(names).tolist(), strict=True))
    old_name = {new: old for old, new in new_name.items()}

    def follow(seed: int, *parts: str | int) -> np.random.Generator:
        return real_rng(
            seed, *(old_name.get(part, part) if isinstance(part, str) else part for part in parts)
        )

    monkeypatch.setattr("amity.peer.peer.rng", follow)
    monkeypatch.setattr("amity.round.deciding.rng", follow)
    monkeypatch.setattr("amity.strategies.friends.rng", follow)
    renamed = simulate(config)
    for old, new in new_name.items():
        peer, data = renamed.peers[new], plain.peers[old].data
        peer.data, peer.solo = data, replace(peer.solo, data=data.train)
        renamed.seats[new].labels = plain.seats[old].labels
    for report in reports:
        again = renamed.round()
        for old, new in new_name.items():
            row = {new_name.get(j, j): weight for j, weight in report.rows[old].items()}
            assert again.rows[new] == pytest.approx(row, abs=2e-4)


@every_strategy
def test_a_strategy_sees_only_its_view_and_names_only_known_peers(spec: dict[str, Any]) -> None:
    strategy = strategies[spec["name"]].build({k: v for k, v in spec.items() if k != "name"})
    asked: set[str] = set()

    def silence(ask: core.Ask) -> core.Answers:
        assert isinstance(ask.fact, Fact)
        asked.update(ask.peers)
        reference = ask.fact.reference
        if reference:
            return dict.fromkeys(ask.peers, (0.5, 0.5))
        return {j: value for j, value in (("a", _mine(ask.fact)), (START, 2.0)) if j in ask.peers}

    view = View(
        me="a",
        round=0,
        rounds=10,
        neighbours=("b", "c"),
        examples=5,
        card=None,
        rng=real_rng(0),
        common_rng=real_rng(0),
        memory={},
    )
    decision = drive(strategy.decide(view, {"a": 1.0}), silence)
    assert asked <= {"a", "b", "c", START}
    assert decision.row == {"a": 1.0} or spec["name"] == "fedavg"


def _mine(fact: Fact) -> object:
    """What my own answer to a fact looks like when nobody else answers."""
    from amity.facts import Likeness, Losses, Reported
    from amity.peer.trials import Alone
    from amity.tasks import Rightness

    if isinstance(fact, Likeness):
        return {"a": 1.0}
    if isinstance(fact, Alone):
        return Rightness(1.0, 1, 0.5)
    return Losses(1.0, 0.5) if isinstance(fact, Reported) else 1.0


@every_method
def test_the_same_seed_gives_the_same_bits_and_another_seed_others(method: str) -> None:
    thetas = []
    for seed in (0, 0, 1):
        simulation = simulate(tiny(method={"name": method}, seed=seed))
        check(simulation)
        thetas.append(torch.stack([peer.start for peer in simulation.peers.values()]))
    assert torch.equal(thetas[0], thetas[1])
    assert not torch.equal(thetas[0], thetas[2])


def test_the_personal_head_is_never_sent_and_never_moved_by_mixing() -> None:
    simulation = simulate(tiny(method={"name": "head"}, strategy={"name": "gossip"}))
    check(simulation, 2)
    head = simulation.world.learner.layout.head
    for peer in simulation.peers.values():
        assert peer.share.mask is not None
        assert not peer.share.mask[head].any()
        assert not peer.share.theta[head].any()
        # the numbers, and the mask by bits
        assert peer.share.nbytes == 4 * head.start + (head.stop + 7) // 8
        assert torch.equal(peer.start[head], peer.trained[head])


def test_a_plan_may_not_read_labels_unless_it_is_a_reference() -> None:
    from amity.facts import Labels
    from amity.simulate.desk import LocalDesk

    simulation = simulate(tiny(strategy={"name": "gossip"}))
    near = ("peer-01",)
    desk = LocalDesk(
        simulation.seats["peer-00"], near, simulation.seats, simulation.network, simulation.strategy
    )
    with pytest.raises(TypeError, match="references only"):
        desk.open(core.Ask(Labels(), ("peer-01",)))
