"""What a card tells: friends, and its peer's labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from amity.errors import ConfigError
from amity.facts import likeness
from amity.geometry import units
from amity.peer.proxy import CardSpec
from amity.reproduce import reproduce
from amity.reproduce.kinds import CardKind, kinds_of_cards
from amity.reproduce.leak_claims import BODIES, TWINS, judge_leaks
from amity.reproduce.leakage import Leak, Watch, predict, told_by
from amity.reproduce.verdicts import HOLDS, MISSING, NOT, OPEN, UNJUDGED
from amity.strategies.friends import Friends
from tests.conftest import Call, simulate, tiny

SMALL: dict[str, Any] = {
    "data": "digits",
    "model": "mlp",
    "peers": 12,
    "rounds": 2,
    "partition.samples": 12,
    "partition.test": 20,
    "train.epochs": 1,
}
WORDS = " ".join(f"{key}={value}" for key, value in SMALL.items())


def test_cards_that_are_the_labels_tell_everything_and_random_ones_nothing() -> None:
    draw = np.random.default_rng(0)
    labels = draw.dirichlet(np.ones(5) * 0.3, size=80)
    shadows = np.arange(80) < 40
    friends = np.array([np.minimum(row, labels).sum(1) >= 0.5 for row in labels])
    telling = torch.from_numpy(labels - 0.2)
    found, base, leakage, area = told_by(telling, labels, shadows, friends)
    assert leakage > 0.7
    assert area > 0.8
    assert found > base
    silent = torch.from_numpy(draw.normal(size=(80, 5)))
    assert abs(told_by(silent, labels, shadows, friends)[2]) < 0.15
    groups = np.arange(80)[:, None] % 2 == np.arange(80) % 2
    sides = torch.tensor([[1.0, 0.1], [-1.0, 0.1]]).repeat(40, 1)
    assert told_by(sides, labels, shadows, groups)[3] == 1.0, "in a world with groups they count"


def test_the_reader_of_cards_is_ridge_regression() -> None:
    draw = np.random.default_rng(1)
    known, cards = draw.normal(size=(6, 3)), draw.normal(size=(2, 3))
    labels = draw.dirichlet(np.ones(4), size=6)
    got = predict(known, labels, cards)
    mean = labels.mean(0)
    candidates = []
    for ridge in (1e-3, 1e-2, 1e-1, 1.0):  # the primal form of the same regression
        w = np.linalg.solve(known.T @ known + ridge * np.eye(3), known.T @ (labels - mean))
        guess = (mean + cards @ w).clip(0)
        candidates.append(guess / guess.sum(1, keepdims=True))
    assert any(np.allclose(got, candidate) for candidate in candidates)
    np.testing.assert_allclose(got.sum(1), 1)


def test_label_inference_by_one_command(call: Call) -> None:
    words = WORDS
    code, out, err = call(f"reproduce labels seeds=0 out=l {words}")
    assert (code, err) == (0, "")
    assert "report: l/labels-cpu/report.html" in out
    rows = Path("l/labels-cpu/labels.csv").read_text().splitlines()
    assert rows[0].startswith("world,seed,round,proxy,sketch,bits,sigma,nbytes,overlap,baseline,")
    worlds = {row.partition(",")[0] for row in rows[1:]}
    assert worlds == {"label_skew", "permute_labels", "rotate", "permute_pixels", "invert"}
    most, least = (len(kinds_of_cards(grouped)) for grouped in (False, True))
    assert len(rows) == 1 + 2 * (most + 4 * least), "two rounds"
    table = Path("l/labels-cpu/table.md").read_text()
    assert "| rotate | body_drift | 256 | 32 | 0 | 1040 |" in table
    assert "| rotate | body_drift | 256 | 1 | 0 | 48 |" in table, "the same as signs"
    assert "| rotate | twins | 2 x 256 | 32 | 0 | 2064 |" in table, "numbers of each half"
    assert "**Ours, not the paper's: twins_body" in table
    assert "<svg" in Path("l/labels-cpu/report.html").read_text()
    kept = Path("l/labels-cpu/invert-seed-0.json")
    before = kept.stat().st_mtime_ns
    assert call(f"reproduce labels seeds=0 out=l {words}")[0] == 0
    assert kept.stat().st_mtime_ns == before
    kept.write_text(kept.read_text().replace('"twins"', '"delta"'))
    assert call(f"reproduce labels seeds=0 out=l {words}")[0] == 0
    assert '"twins"' in kept.read_text(), "what was not measured before is measured"
    code, out, _ = call(f"reproduce labels --done seeds=0,1 out=l {words}")
    assert (code, "report: l/labels-cpu/report.html" in out) == (0, True)
    code, _, err = call(f"reproduce labels --done seeds=1 out=l {words}")
    assert (code, "no seed of these is finished in l/labels-cpu" in err) == (1, True)
    with pytest.raises(ConfigError, match="at least 8 peers"):
        reproduce("labels", seeds=[0], out="m", **{**SMALL, "peers": 5})


# -- cards of two halves ---------------------------------------------------------------------------


def test_cards_of_two_halves_are_compared_by_their_likeness() -> None:
    """Two groups with much in common. Peers whose halves differ a lot look strange to everyone by
    cosine, friends included; likeness sets that aside."""
    draw = np.random.default_rng(2)
    common, *own = draw.normal(size=(3, 400))
    group = np.arange(24) % 2
    noise = np.where(np.arange(24) < 12, 0.3, 3.0)
    halves = [
        np.stack([common + 0.7 * own[g] + s * draw.normal(size=400) for _ in range(2)])
        for g, s in zip(group, noise, strict=True)
    ]
    cards = torch.from_numpy(np.stack(halves).reshape(24, -1)).float()
    labels, shadows = np.eye(2)[group] * 0.8 + 0.1, np.arange(24) % 4 < 2
    friends = group[:, None] == group[None]
    by_cosine = told_by(cards, labels, shadows, friends)
    by_likeness = told_by(cards, labels, shadows, friends, parts=2)
    assert by_likeness[3] > by_cosine[3] + 0.05
    assert by_likeness[2] > 0.3, "the reader sees both halves"
    alike, ranked = likeness(cards).numpy(), []
    for me in range(24):  # by hand: of a friend and a stranger, how often is the friend more alike
        mine = [j for j in range(24) if friends[me, j] and j != me]
        other = [j for j in range(24) if not friends[me, j]]
        ranked.append(np.mean([alike[me, j] > alike[me, k] for j in mine for k in other]))
    assert by_likeness[3] == pytest.approx(np.mean(ranked))


def test_the_card_that_the_default_shows_is_measured_as_it_is_shown() -> None:
    shown = Friends().card
    for grouped in (True, False):
        kinds = kinds_of_cards(grouped)
        assert CardKind(shown.proxy, shown.sketch) in kinds
        assert CardKind("twins_body", shown.sketch) in kinds
        assert {k.bits for k in kinds if k.parts == 2} == {32}, "likeness is not made for signs"
        assert len(kinds) == len(set(kinds))
    assert CardKind(shown.proxy, shown.sketch) == TWINS
    simulation = simulate(tiny(strategy="friends"))
    simulation.round()
    peers = [simulation.peers[name] for name in simulation.names]
    watch = Watch.of("here", simulation.config, simulation)
    whole = torch.stack([peer.sketch(CardSpec("twins", 0)) for peer in peers])
    for sketch in (16, shown.sketch):
        cards = watch._cards(CardKind("twins", sketch), whole, 0)
        for card, peer in zip(cards, peers, strict=True):
            mine = peer.sketch(CardSpec("twins", sketch))  # the other may be clipped
            halves = (units(one.reshape(2, -1)) for one in (card, mine))
            torch.testing.assert_close(*halves, rtol=0, atol=1e-6)


def test_cards_that_last_are_computed_once_and_tell_the_same_in_all_rounds() -> None:
    simulation = simulate(tiny(peers=8, strategy="gossip"))
    peers = [simulation.peers[name] for name in simulation.names]
    watch, lasting = Watch.of("here", simulation.config, simulation), dict[str, torch.Tensor]()
    found = []
    for t in range(2):
        simulation.round()
        found.append({leak.kind: leak for leak in watch.leaks(t, peers, lasting)})
    assert set(lasting) == {"grad_ref", "twins", "twins_body"}
    first, second = found
    assert second[TWINS] == replace(first[TWINS], round=2)
    assert second[CardKind("delta")].overlap != first[CardKind("delta")].overlap


# -- what we say of them ---------------------------------------------------------------------------


def leak(kind: CardKind, world: str, seed: int, leakage: float, area: float) -> Leak:
    return Leak(
        world=world,
        seed=seed,
        round=1,
        **vars(kind),
        nbytes=1,
        overlap=0.5,
        baseline=0.4,
        leakage=leakage,
        auc=area,
    )


def leaks_with(gap: float, seeds: int = 3) -> list[Leak]:
    """Cards that tell 0.5, and by `gap` less without the head, up to a hundredth."""
    worlds = ("label_skew", "rotate")
    return [
        leak(kind, world, seed, 0.5 - less * (1 + seed / 10), 0.9 - less)
        for world in worlds
        for seed in range(seeds)
        for kind, less in ((TWINS, 0.0), (BODIES, gap))
    ]


def test_claims_on_cards_are_judged_by_what_was_measured() -> None:
    def status(leaks: list[Leak], stand_in: str = "") -> list[str]:
        return [verdict.status for verdict in judge_leaks(leaks, stand_in)]

    assert status(leaks_with(0.1)) == [HOLDS, HOLDS]
    assert status(leaks_with(-0.1)) == [NOT, NOT]
    assert status(leaks_with(0.1, seeds=1)) == [OPEN, OPEN]
    assert status(leaks_with(0.1), "digits stand in") == [UNJUDGED, UNJUDGED]
    assert status([one for one in leaks_with(0.1) if one.kind == TWINS]) == [MISSING, MISSING]
    first = str(judge_leaks(leaks_with(0.1))[0])
    assert first.startswith("HOLDS HERE: Ours, not the paper's: twins_body")
    assert "label_skew +11.0 ± 2.5;" in first
