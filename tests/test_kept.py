"""What an optimiser remembers from round to round: the same bits wherever and however a run is
done."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import amity
from amity.errors import RunDirError, StrategyError
from amity.learn.learner import Bounds
from amity.net.ops.swarm import Swarm
from amity.net.options import Net
from amity.net.setup import read_setup
from amity.net.workshop import Workshop
from amity.show.report import describe
from amity.store import commits
from amity.store.reading import LINES
from tests.conftest import EVERY_METHOD, simulate, tiny
from tests.test_engine import KILLER, rounds_of, with_workers
from tests.test_parity import models, same_bits
from tests.test_runs import contents, interrupted

ADAMW = {"optimiser": "adamw", "schedule": "warmup", "then": "cosine", "keep": True}
UNEQUAL = {"name": "dirichlet_class", "alpha": 0.5, "samples": 0, "test": 30}


def optimiser_of(path: Path) -> dict[str, torch.Tensor]:
    return {key: value for key, value in models(path).items() if "/optimiser." in key}


@pytest.mark.parametrize("vectorise", ["on", "off"])
@pytest.mark.parametrize("method", EVERY_METHOD)
def test_two_workers_and_a_resume_give_the_bits_of_one_worker(method: str, vectorise: str) -> None:
    layers: dict[str, Any] = {"method": method, "train": ADAMW, "rounds": 4, "partition": UNEQUAL}
    layers |= {"strategy": "gossip", "checkpoint": {"every": 2}}
    ways = {
        count: with_workers(count, engine={"vectorise": vectorise, "group": 3}, **layers)
        for count in (1, 2)
    }
    whole = amity.run(ways[1], "whole").path
    other = amity.run(ways[2], "other").path
    broken = interrupted(ways[2], "broken", 3)
    amity.resume(broken)
    assert optimiser_of(whole)
    for path in (other, broken):
        assert all(contents(path)[name] == contents(whole)[name] for name in LINES)
        ours = models(whole)
        for key, tensor in models(path).items():
            assert torch.equal(tensor, ours.pop(key)), key
        assert not ours


@pytest.mark.parametrize("vectorise", ["on", "off"])
def test_a_training_that_is_done_again_goes_on_from_where_the_first_began(
    tmp_path: Path, vectorise: str
) -> None:
    """A worker is killed when it has trained: it has written what it remembers already."""
    Path("killer.py").write_text(KILLER.format(folder=str(tmp_path)))
    method = {"name": "killer.py:Killer", "times": 0}
    layers: dict[str, Any] = {"train": ADAMW, "engine": {"vectorise": vectorise}}
    _, wanted, _ = rounds_of(with_workers(1, method=method, **layers))
    _, found, simulation = rounds_of(with_workers(2, method=method | {"times": 2}, **layers))
    assert simulation.crew.replaced == 2  # type: ignore[attr-defined]
    assert torch.equal(found, wanted)


def test_each_fit_of_a_round_goes_on_from_its_own_past() -> None:
    """Ditto by hand: the shared model and the personal one have an optimiser each."""
    layers = {"method": "ditto", "strategy": "gossip", "train": ADAMW, "rounds": 3}
    with simulate(tiny(engine={"vectorise": "off"}, **layers)) as simulation:
        peer, world = simulation.peers["peer-00"], simulation.world
        personal = peer.start.clone()
        shared: dict[str, torch.Tensor] = {}
        own: dict[str, torch.Tensor] = {}
        for key, row in peer.rows.moments.items():
            at, _, name = key.partition(".")
            {"0": shared, "1": own}[at][name] = row.clone()
        for t in range(3):
            start = peer.start.clone()
            simulation.round()
            peer.round = t
            ctx = peer.context("train")
            fit = world.learner.fit
            fit(start, ctx.train, ctx.rng, 1, None, t, rounds=3, moments=shared)
            bounds = Bounds(start, 0.5)
            personal = fit(
                personal, ctx.train, ctx.rng, 1, None, t, bounds, rounds=3, moments=own
            ).theta
            assert torch.equal(peer.rows.state["personal"], personal)
            for at, kept in enumerate((shared, own)):
                assert kept.keys() == {"m", "v", "steps"}
                for name, vector in kept.items():
                    assert torch.equal(peer.rows.moments[f"{at}.{name}"], vector)
        assert float(own["steps"]) == 3 * np.ceil(len(peer.data.train) / 8)


def test_a_personal_head_and_its_body_keep_no_more_than_they_are_long() -> None:
    with simulate(tiny(method="head", train={"keep": True})) as simulation:
        layout = simulation.world.learner.layout
        lengths = {k: len(v) for k, v in simulation.peers["peer-00"].rows.moments.items()}
        body, head = layout.body.stop, layout.size - layout.body.stop
        assert lengths == {"0.momentum": head, "0.steps": 1, "1.momentum": body, "1.steps": 1}


def test_fine_tuning_and_guests_begin_afresh_and_leave_what_is_kept_alone() -> None:
    strategy = {"name": "afind+", "preset": "literal"}
    results = []
    for keep in (False, True):
        layers = {"strategy": strategy, "method": "finetune", "train": {**ADAMW, "keep": keep}}
        with simulate(tiny(rounds=2, engine={"vectorise": "off"}, **layers)) as simulation:
            results.append(simulation.round())
            kept = {
                name: {key: row.clone() for key, row in peer.rows.moments.items()}
                for name, peer in simulation.peers.items()
            }
            models = simulation.shard.final_models(simulation.names, 0)
            assert len(models) == 6
            for name, peer in simulation.peers.items():
                assert bool(kept[name]) == keep
                for key, row in peer.rows.moments.items():
                    assert torch.equal(row, kept[name][key])
    fresh, first = results
    assert fresh.rows == first.rows
    assert repr(fresh.peers) == repr(first.peers), "in the first round there is nothing to go on"


def test_what_is_kept_is_never_sent(tmp_path: Path) -> None:
    """As many bytes move with an optimiser that is kept as with a fresh one."""
    moved = []
    for keep in (False, True):
        layers = {"strategy": "gossip", "train": {**ADAMW, "keep": keep}}
        result = amity.run(tiny(**layers), tmp_path / str(keep))
        moved.append([(r.model_in, r.model_out, r.card_in) for r in result.metrics])
    assert moved[0] == moved[1]
    assert any(bytes_in for bytes_in, _, _ in moved[0])


@pytest.mark.parametrize(
    "layers",
    [
        {"method": "ditto", "strategy": "gossip", "train": ADAMW},
        {"method": "head", "strategy": "pens", "train": {"optimiser": "adam", "schedule": "step"}},
        {
            "method": "dispfl",
            "strategy": {"name": "afind+", "preset": "literal"},
            "train": {"keep": True, "schedule": "cosine"},
        },
    ],
    ids=["adamw-kept", "adam-stepped", "sgd-kept"],
)
def test_a_swarm_learns_what_the_simulator_does_to_the_bit(
    tmp_path: Path, layers: dict[str, Any]
) -> None:
    same_bits(tmp_path, {"peers": 3, "rounds": 4, **layers})
    kept = {key.rpartition("/")[2] for key in optimiser_of(tmp_path / "simulated")}
    assert bool(kept) == layers["train"].get("keep", False)


def test_real_peers_that_are_killed_go_on_with_the_optimisers_they_had(tmp_path: Path) -> None:
    Path("killer.py").write_text(KILLER.format(folder=str(tmp_path)))
    method = {"name": str(Path("killer.py").resolve()) + ":Killer", "times": 2}
    layers: dict[str, Any] = {"peers": 2, "rounds": 4, "strategy": "local", "train": ADAMW}
    layers |= {"checkpoint": {"every": 1}, "engine": {"vectorise": "off", "group": 1}}
    swarm = Swarm(tmp_path / "swarm", tiny(method=method, **layers), Net(gather=30, deadline=30))
    swarm.lay_out()
    for codes in ({-signal.SIGKILL}, {0}):
        swarm.start()
        try:
            swarm.wait(60)
        finally:
            swarm.stop()
        assert {process.exitcode for process in swarm.processes.values()} == codes
    amity.run(tiny(method=method, **layers), tmp_path / "simulated")
    ours = models(tmp_path / "simulated")
    for name in swarm.names:
        theirs = models(swarm.folder(name) / "state")
        assert any("/optimiser." in key for key in theirs)
        for key, tensor in theirs.items():
            assert torch.equal(tensor, ours[key]), key


def test_members_with_another_optimiser_or_schedule_have_another_schema(tmp_path: Path) -> None:
    swarm = Swarm(tmp_path / "net", tiny(peers=2, rounds=4, strategy="gossip"), Net())
    swarm.lay_out()
    folder = swarm.folder("peer-00")

    def digest(**train: Any) -> str:
        keys = {f"train.{key}": value for key, value in train.items()}
        return Workshop.of(read_setup(folder, keys)).schema.digest

    usual = digest()
    assert digest(optimiser="sgd", schedule="constant", keep=True, epochs=2) == usual
    others = [
        {"optimiser": "adam"},
        {"optimiser": "adamw"},
        {"optimiser": "adamw", "beta1": 0.8},
        {"momentum": 0.5},
        {"schedule": "cosine"},
        {"schedule": "cosine", "floor": 0.1},
        {"schedule": "step"},
    ]
    assert len({usual, *(digest(**other) for other in others)}) == 1 + len(others)


@pytest.mark.parametrize("optimiser", ["adam", "adamw"])
def test_epsilon_does_not_depend_on_the_optimiser(tmp_path: Path, optimiser: str) -> None:
    base: dict[str, Any] = {"strategy": "gossip", "privacy": {"name": "gradients", "sigma": 2.0}}
    plain = amity.run(tiny(**base), tmp_path / "sgd")
    train = {**ADAMW, "optimiser": optimiser}
    other = amity.run(tiny(**base, train=train), tmp_path / optimiser)
    assert [r.epsilon for r in plain.metrics] == [r.epsilon for r in other.metrics]
    assert all(r.excluded == () for r in other.rounds)


def test_a_peer_whose_budget_is_spent_keeps_what_its_optimiser_was(tmp_path: Path) -> None:
    privacy = {"name": "gradients", "sigma": 2.0, "budget": 2.0}
    layers: dict[str, Any] = {"strategy": "gossip", "rounds": 30, "checkpoint": {"every": 30}}
    result = amity.run(tiny(privacy=privacy, train=ADAMW, **layers), tmp_path / "run")
    assert result.rounds[-1].stopped == 6
    counts = {k: float(v) for k, v in optimiser_of(result.path).items() if k.endswith("steps")}
    assert 0 < max(counts.values()) < 30 * 2


MINE = """
from dataclasses import dataclass
import amity, torch

@dataclass(frozen=True)
class Lion(amity.Optimiser):
    beta: float = 0.9
    rate = 0.003

    @property
    def remembers(self):
        return ("m",)

    def step(self, move):
        kept = move.vectors["m"]
        for at, (p, g) in enumerate(zip(move.parameters, move.gradients)):
            m = kept[at] if kept[at] is not None else torch.zeros_like(p)
            p.sub_(torch.sign(self.beta * m + (1 - self.beta) * g), alpha=move.rate)
            kept[at] = m.mul_(self.beta).add_(g, alpha=1 - self.beta)

@dataclass(frozen=True)
class Wave(amity.Schedule):
    deep: float = 0.5

    def at(self, round, rounds):
        return 1 - self.deep * (round % 2)
"""


def test_an_optimiser_and_a_schedule_of_ones_own_take_part(tmp_path: Path) -> None:
    Path("mine.py").write_text(MINE)
    train = {"optimiser": "mine.py:Lion", "beta": 0.8, "schedule": "mine.py:Wave", "keep": True}
    found = []
    for vectorise in ("on", "off"):
        config = tiny(train=train, strategy="gossip", engine={"vectorise": vectorise})
        assert (config.train.lr, config.optimiser.instance.beta) == (0.003, 0.8)  # type: ignore[attr-defined]
        assert list(config.own_code) == ["mine.py"]
        found.append(models(amity.run(config, tmp_path / vectorise).path))
    assert found[0].keys() == found[1].keys()
    for key, tensor in found[0].items():
        assert (tensor - found[1][key]).abs().mean() < 1e-2
    Path("mine.py").write_text(MINE + "\n# changed\n")
    with pytest.raises(RunDirError, match=r"mine\.py has changed since this run began"):
        amity.resume(tmp_path / "on", trust=True)


WAVERING = """
from dataclasses import dataclass
import amity
from amity.methods.finetune import Finetune

@dataclass(frozen=True)
class Wavering(Finetune):
    def train(self, state, theta, ctx):
        part = ctx.learner.layout.head if ctx.round == 1 else None
        fitted = yield amity.Fit(theta, ctx.epochs, part)
        return state, fitted.theta, amity.Stats(fitted.loss)
"""


def test_a_method_whose_fits_change_from_round_to_round_is_told_so() -> None:
    Path("own.py").write_text(WAVERING)
    assert amity.run(tiny(method="own.py:Wavering"), "fresh").complete
    line = r"method Wavering: with train\.keep its fits must be .* use train\.keep=false$"
    with pytest.raises(StrategyError, match=line):
        amity.run(tiny(method="own.py:Wavering", train={"keep": True}), "kept")


def test_a_checkpoint_without_what_should_be_kept_is_refused(tmp_path: Path) -> None:
    amity.run(tiny(train={"keep": True}), tmp_path / "run")
    commit = next(commits(tmp_path / "run"))
    assert commit.tensors is not None
    tensors = commit.tensors
    with simulate(tiny(train={"keep": True})) as simulation:
        without = lambda name: {"start": tensors.of(name)["start"]}  # noqa: E731
        with pytest.raises(RunDirError, match="keeps nothing of its optimiser, expected"):
            simulation.restore(commit.round, without, commit.memory)


def test_the_report_says_how_peers_were_trained() -> None:
    config = tiny(train=ADAMW)
    said = describe([config], [0])
    assert "trained by adamw (beta1=0.9, beta2=0.999, eps=1e-08, weight_decay=0.01), warmup" in said
    assert "optimisers kept" in said
    assert "trained" not in describe([tiny()], [0])
