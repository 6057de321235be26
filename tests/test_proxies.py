"""Proxies: what every one of them keeps to, what stays secret, own ones, and cards of signs."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from amity.config import Config, load
from amity.core import Card, Share
from amity.data.samples import Samples
from amity.errors import ConfigError, StrategyError
from amity.facts import Offer, Similarity
from amity.geometry import cosines
from amity.methods.dispfl import Dispfl
from amity.net.wire import (
    Refused,
    WireSchema,
    decode_share,
    decode_sketch,
    encode_share,
    encode_sketch,
)
from amity.net.wire.manifest import Manifest
from amity.peer.peer import Peer
from amity.peer.privacy import PrivateGradients, PrivateUpload, uncovered
from amity.peer.proxies import Vectors, proxies
from amity.peer.proxy import CardSpec, Sketcher, directions_of, signs_of
from amity.rng import rng
from amity.round.quality import auc
from amity.simulate import Simulation
from tests.conftest import EVERY_METHOD, simulate, tiny

NAMES = [entry.name for entry in proxies]
FROM_MODELS = [name for name in NAMES if not proxies.made(name).needs_examples]
PUBLISHED = [name for name in NAMES if proxies.made(name).of_published]
every_proxy = pytest.mark.parametrize("name", NAMES)
every_method = pytest.mark.parametrize("method", EVERY_METHOD)


def after_two_rounds(method: str = "finetune", **layers: Any) -> Simulation:
    config: dict[str, Any] = {"strategy": {"name": "gossip", "k": 2}, "method": method}
    simulation = simulate(tiny(**config | layers))
    with simulation:
        simulation.round()
        simulation.round()
        simulation.shard.train(tuple(simulation.names), 2, None)  # cards are of before the mixing
    return simulation


def vectors(peer: Peer) -> Vectors:
    return Vectors(
        peer.start,
        peer.trained,
        peer.world.initial,
        shared=peer.mine,
        shared_start=peer.share_start,
        solo=replace(peer.solo, data=Untouchable()),
    )


class Untouchable(Samples):
    """Examples that nobody may look at."""

    def __init__(self) -> None:
        pass

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"looked at {name} of the examples")


# -- every proxy -----------------------------------------------------------------------------------


@every_proxy
@every_method
def test_phi_is_a_vector_as_long_for_everyone_and_the_same_when_asked_again(
    name: str, method: str
) -> None:
    simulation = after_two_rounds(method)
    spec = CardSpec(name, 0)
    cards = [peer.sketch(spec) for peer in simulation.peers.values()]
    assert len({card.shape for card in cards}) == 1
    for peer, card in zip(simulation.peers.values(), cards, strict=True):
        assert card.dtype == torch.float32
        assert bool(card.isfinite().all())
        assert torch.equal(peer.sketch(spec), card)
        small = replace(spec, sketch=5)
        assert peer.sketch(small).shape == (5 * spec.kind.parts,)
        assert (peer.card_length(spec), peer.card_length(small)) == (len(card), 5 * spec.kind.parts)


@every_proxy
def test_the_length_of_phi_is_known_without_what_a_peer_learns_alone(name: str) -> None:
    (peer, *_) = after_two_rounds().peers.values()
    learner, at = peer.world.learner, replace(vectors(peer), solo=None)
    spec = CardSpec(name, 0)
    phi = spec.phi(at, peer.probe_data, learner)
    assert phi.shape == peer.sketch(spec).shape


@every_proxy
def test_who_says_that_it_needs_no_examples_looks_at_none(name: str) -> None:
    (peer, *_) = after_two_rounds().peers.values()
    spec = CardSpec(name, 0)
    if name in FROM_MODELS:
        phi = spec.phi(vectors(peer), Untouchable(), peer.world.learner)
        assert torch.equal(phi, peer.sketch(spec))
    else:
        with pytest.raises(AssertionError, match="of the examples"):
            spec.phi(vectors(peer), Untouchable(), peer.world.learner)


@pytest.mark.parametrize("name", PUBLISHED)
@every_method
def test_who_looks_at_what_is_published_sees_nothing_else(name: str, method: str) -> None:
    """Everything that others cannot have is not a number, and so would be whatever looked at it."""
    for peer in after_two_rounds(method).peers.values():
        at, nothing = vectors(peer), torch.full_like(peer.start, math.nan)

        def hidden(share: Share, nothing: torch.Tensor = nothing) -> Share:
            if share.mask is None:
                return share
            return Share(torch.where(share.mask, share.theta, nothing), share.mask)

        poisoned = replace(
            at,
            start=nothing,
            trained=nothing,
            shared=hidden(at.shared),
            shared_start=hidden(at.shared_start),
        )
        spec = CardSpec(name, 0)
        phi = spec.phi(poisoned, Untouchable(), peer.world.learner)
        assert torch.equal(phi, peer.sketch(spec))


@pytest.mark.parametrize("name", PUBLISHED)
@every_method
def test_a_private_part_is_on_no_card_that_is_made_of_what_is_published(
    name: str, method: str
) -> None:
    """Another head, personal model or masked coordinate: the same card."""
    (peer, *_) = after_two_rounds(method).peers.values()
    before = peer.sketch(CardSpec(name, 0))
    if peer.share.mask is not None:
        peer.trained[~peer.share.mask] += 1.0
        mask = peer.share_start.mask
        assert mask is not None
        peer.start[~mask & ~peer.share.mask] += 1.0
    if "personal" in peer.rows.state:
        peer.rows.state["personal"].add_(1.0)
        peer.rows.next_state["personal"].add_(1.0)
    assert torch.equal(peer.sketch(CardSpec(name, 0)), before)


def test_what_each_of_them_says() -> None:
    (peer, *_) = after_two_rounds().peers.values()
    layout, at = peer.world.learner.layout, vectors(peer)

    def phi(name: str) -> torch.Tensor:
        return peer.sketch(CardSpec(name, 0))

    assert torch.equal(phi("model_drift"), at.trained - at.initial)
    assert torch.equal(phi("update"), at.trained - at.start)
    assert torch.equal(phi("model_drift")[layout.body], phi("body_drift"))
    assert torch.equal(phi("model_drift")[layout.head], phi("head_drift"))
    assert torch.equal(phi("update")[layout.proxy], phi("delta"))
    assert torch.equal(phi("update")[layout.head], phi("head_update"))
    assert float(phi("body_drift").norm()) > 0


def test_a_head_that_is_kept_is_shown_by_head_drift_alone() -> None:
    (peer, *_) = after_two_rounds("head").peers.values()
    head = peer.world.learner.layout.head
    assert not peer.sketch(CardSpec("model_drift", 0))[head].any()
    assert not peer.sketch(CardSpec("head_update", 0)).any()
    assert peer.sketch(CardSpec("body_drift", 0)).any()
    assert peer.sketch(CardSpec("head_drift", 0)).any(), "as its docstring says"


def test_with_private_uploads_a_card_is_made_of_the_noised_model() -> None:
    privacy = {"name": "upload", "sigma": 0.5}
    (peer, *_) = after_two_rounds(privacy=privacy).peers.values()
    shown = peer.share.theta - peer.world.initial
    assert torch.equal(peer.sketch(CardSpec("model_drift", 0)), shown)
    assert not torch.equal(shown, peer.trained - peer.world.initial)
    asked = [f"Similarity of {name}" for name in ("update", "head_drift", "grad")]
    upload = uncovered(PrivateUpload(), Dispfl(), asked)
    assert upload == ["Similarity of grad", "Similarity of head_drift", "masks"]
    assert uncovered(PrivateGradients(), Dispfl(), asked) == ["Similarity of grad"]


def test_an_attackers_card_is_of_the_model_that_it_hides() -> None:
    attack = {"name": "sign_flip", "fraction": 0.5}
    simulation = after_two_rounds(attack=attack)
    bad = [peer for peer in simulation.peers.values() if peer.attacking]
    assert bad
    for peer in bad:
        assert torch.equal(peer.sketch(CardSpec("update", 0)), peer.trained - peer.start)
        assert not torch.equal(peer.share.theta, peer.trained)


@pytest.mark.parametrize("name", ["head_drift", "model_drift", "body_drift", "update"])
@pytest.mark.parametrize("bits", [1, 32])
def test_groups_that_disagree_about_labels_are_found(name: str, bits: int) -> None:
    """Two groups of the same digits under other names: cards of 64 numbers tell them apart."""
    simulation = simulate(
        tiny(
            strategy="local",
            peers=8,
            partition={"name": "iid", "samples": 40, "test": 10},
            shift={"name": "permute_labels", "groups": 2},
            train={"epochs": 5, "batch": 8, "lr": 0.1},
        )
    )
    with simulation:
        simulation.shard.train(tuple(simulation.names), 0, None)
    peers = list(simulation.peers.values())
    cards = torch.stack([peer.sketch(CardSpec(name, 64, bits)) for peer in peers])  # type: ignore[arg-type]
    groups = np.array([peer.data.group for peer in peers])
    areas = []
    for at in range(len(peers)):
        rest = np.arange(len(peers)) != at
        area = auc(groups[rest] == groups[at], cosines(cards[at], cards[rest]).numpy())
        assert area is not None
        areas.append(area)
    assert np.mean(areas) > 0.9


# -- one's own -------------------------------------------------------------------------------------

OWN = """
from dataclasses import dataclass
import amity

@dataclass(frozen=True)
class Biases(amity.Proxy):
    needs_examples = False
    of_published = True

    def of(self, at, data, learner):
        return at.shared.theta[-10:] - at.initial[-10:]

@dataclass(frozen=True)
class Square(amity.Proxy):
    def of(self, at, data, learner):
        return at.trained[:4].view(2, 2)

@dataclass(frozen=True)
class Stranger:
    def of(self, at, data, learner):
        return at.trained
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(OWN)
    return tmp_path / "mine.py"


def test_a_class_of_ones_own_is_a_proxy_and_its_file_is_recorded(own: Path) -> None:
    config = tiny(strategy={"name": "afind+", "proxy": "mine.py:Biases", "sketch": 0})
    assert list(config.own_code) == ["mine.py"]
    assert tiny().own_code == {}
    with simulate(config) as simulation:
        simulation.round()
        cards = [seat.card for seat in simulation.seats.values()]
    assert all(card is not None and card.sketch.shape == (10,) for card in cards)
    asked = ["Similarity of mine.py:Biases"]
    assert uncovered(PrivateUpload(), object(), asked) == []


def test_a_file_that_is_edited_changes_the_next_config_and_no_run_that_goes_on(own: Path) -> None:
    spec = {"name": "afind+", "proxy": "mine.py:Biases"}
    config = tiny(strategy=spec)
    card = config.decider.card
    assert card is not None
    before, kind = config.own_code, card.kind
    own.write_text("this is no Python")
    assert card.kind is kind
    own.write_text(OWN + "\n")
    assert tiny(strategy=spec).own_code != before


def test_a_spec_may_name_a_class_in_a_file(own: Path) -> None:
    found = load(None, ["stages=simgate:proxy=mine.py:Biases:least=0.5"]).stages[0].instance
    assert (found.proxy, found.least) == ("mine.py:Biases", 0.5)  # type: ignore[attr-defined]


def test_a_proxy_of_ones_own_must_be_one(own: Path) -> None:
    with pytest.raises(ConfigError, match=r"Stranger must inherit amity\.Proxy"):
        tiny(strategy={"name": "afind+", "proxy": "mine.py:Stranger"})
    config = tiny(strategy={"name": "afind+", "proxy": "mine.py:Square"})
    with (
        simulate(config) as simulation,
        pytest.raises(StrategyError, match=r"Square: `of` must return a vector of float32, got"),
    ):
        simulation.round()


# -- halves of two bytes a number ------------------------------------------------------------------


@pytest.mark.parametrize("numbers", [2, 8, 2048])
def test_directions_travel_in_two_bytes_a_number(numbers: int) -> None:
    drawn = torch.randn(numbers, generator=torch.Generator().manual_seed(2))
    sketch = directions_of(drawn, 2)
    body = encode_sketch(sketch)
    arrived = decode_sketch(body, numbers, 16)
    assert arrived.dtype == torch.float16
    assert torch.equal(arrived, sketch)
    floats, signs = encode_sketch(drawn), encode_sketch(signs_of(drawn, rng(1)))
    assert len(floats) - len(body) >= 2 * numbers - 8, "up to padding"
    for wrong in (
        lambda: decode_sketch(floats, numbers, 16),
        lambda: decode_sketch(signs, numbers, 16),
        lambda: decode_sketch(body, numbers),
        lambda: decode_sketch(body, numbers, 1),
        lambda: decode_sketch(body, numbers + 1, 16),
        lambda: decode_sketch(encode_sketch(sketch.to(torch.bfloat16)), numbers, 16),
    ):
        with pytest.raises(Refused, match="wrong shape"):
            wrong()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_directions_that_are_no_numbers_are_refused(bad: float) -> None:
    sketch = torch.tensor([0.5, bad, 0.5, 0.5], dtype=torch.float16)
    with pytest.raises(Refused, match="not finite"):
        decode_sketch(encode_sketch(sketch), 4, 16)


def test_a_visit_brings_directions_along() -> None:
    schema = WireSchema(size=3, masked=False, sketch=8, probe=8, digest="5c" * 32, bits=16)
    sketch, theta = directions_of(torch.linspace(-1, 1, 8), 2), torch.tensor([1.0, 2.0, 3.0])
    body = encode_share(Share(theta), "fp32", rng(0), sketch)
    manifest = Manifest.model_construct(kind="visit", format="fp32", round=0)
    share, arrived = decode_share(manifest, body, schema)
    assert torch.equal(share.theta, theta)
    assert arrived is not None
    assert torch.equal(arrived, sketch)
    whole = replace(schema, bits=32)
    assert whole.longest("card") - schema.longest("card") == 2 * 8


def test_a_card_of_directions_is_booked_at_two_bytes_a_number() -> None:
    """Of 910 numbers a quarter, for either half, from each of five others: once."""
    with simulate(tiny(strategy="friends")) as simulation:
        reports = [simulation.round() for _ in range(2)]
        cards = [seat.card for seat in simulation.seats.values()]
    assert all(card is not None and card.sketch.dtype == torch.float16 for card in cards)
    first, second = ({r.value("card_in") for r in one.peers.values()} for one in reports)
    assert first == {5 * (2 * 2 * 228 + 16)}
    assert second == {0}


# -- signs -----------------------------------------------------------------------------------------

SIGNS: dict[str, Any] = {"name": "afind+", "proxy": "update", "sketch": 64, "bits": 1}


@given(cosine=st.floats(-1, 1), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_the_cosine_is_read_from_signs(cosine: float, seed: int) -> None:
    """Within five standard deviations of what 2048 bins can say."""
    draw, bins = np.random.default_rng(seed), 2048
    one, other = np.linalg.qr(draw.standard_normal((40_000, 2)))[0].T
    other = cosine * one + math.sqrt(1 - cosine**2) * other
    sketcher = Sketcher(seed)
    cards = [
        signs_of(sketcher(torch.from_numpy(v.astype(np.float32)), bins), draw) for v in (one, other)
    ]
    found = float(cosines(cards[0], cards[1][None])[0])
    share = 1 - math.acos(cosine) / math.pi
    spread = math.pi * math.sqrt(1 - cosine**2 + 1e-12) * math.sqrt(share * (1 - share) / bins)
    assert abs(found - cosine) < 5 * spread + 0.01


def test_signs_of_nothing_are_like_nobodys() -> None:
    nothing = torch.zeros(4096)
    one, other = (signs_of(nothing, rng(0, "coins", name)) for name in ("ann", "ben"))
    assert set(one.tolist()) == {-1, 1}
    assert abs(float(cosines(one, other[None])[0])) < 0.1
    assert signs_of(torch.tensor([-2.0, 1e-30]), rng(0)).tolist() == [-1, 1]
    assert set(signs_of(torch.full((64,), math.nan), rng(0)).tolist()) == {-1, 1}


def test_a_card_of_signs_is_booked_at_a_bit_a_number() -> None:
    config = tiny(strategy=SIGNS)
    with simulate(config) as simulation:
        report = simulation.round()
    assert Card("", 0, 0, 0, torch.ones(65, dtype=torch.int8)).nbytes == 9 + 16
    assert {r.value("card_in") for r in report.peers.values()} == {5 * (64 // 8 + 16)}


def test_centered_signs_are_compared_about_their_mean() -> None:
    cards = {n: Offer(1, Card(n, 0, 1, 1, c)) for n, c in zip("bcd", torch.eye(3), strict=True)}
    signs = {
        n: o._replace(card=replace(o.card, sketch=(2 * o.card.sketch - 1).to(torch.int8)))
        for n, o in cards.items()
        if o.card is not None
    }

    class Asking:
        card = signs["b"].card

    found = Similarity(centered=True).read(Asking(), signs)  # type: ignore[arg-type]
    assert found["b"] == pytest.approx(1.0)
    assert found["c"] < 0


def test_an_option_that_is_quiet_is_written_only_where_it_is_set() -> None:
    assert "bits" not in tiny(strategy="afind+").to_dict()["strategy"]
    config = tiny(strategy=SIGNS)
    assert config.to_dict()["strategy"]["bits"] == 1
    again: Config = tiny(**config.to_dict())
    assert again == config


@pytest.mark.parametrize("numbers", [1, 7, 8, 9, 256])
def test_signs_travel_in_bits(numbers: int) -> None:
    sketch = signs_of(torch.randn(numbers, generator=torch.Generator().manual_seed(1)), rng(1))
    body = encode_sketch(sketch)
    arrived = decode_sketch(body, numbers, 1)
    assert arrived.dtype == torch.int8
    assert torch.equal(arrived, sketch)
    floats = encode_sketch(sketch.float())
    assert len(floats) - len(body) >= 4 * numbers - (numbers + 7) // 8 - 8, "up to padding"
    for wrong in (lambda: decode_sketch(floats, numbers, 1), lambda: decode_sketch(body, numbers)):
        with pytest.raises(Refused, match="wrong shape"):
            wrong()


def test_bits_past_the_end_are_refused() -> None:
    body = bytearray(encode_sketch(torch.ones(9, dtype=torch.int8)))
    body[-1] |= 1
    with pytest.raises(Refused, match="past its end"):
        decode_sketch(body, 9, 1)


def test_a_visit_brings_signs_along() -> None:
    schema = WireSchema(size=3, masked=False, sketch=9, probe=9, digest="5c" * 32, bits=1)
    sketch = signs_of(torch.linspace(-1, 1, 9), rng(3))
    theta = torch.tensor([1.0, 2.0, 3.0])
    body = encode_share(Share(theta), "fp32", rng(0), sketch)
    manifest = Manifest.model_construct(kind="visit", format="fp32", round=0)
    share, arrived = decode_share(manifest, body, schema)
    assert torch.equal(share.theta, theta)
    assert arrived is not None
    assert torch.equal(arrived, sketch)
    assert schema.longest("card") < replace(schema, bits=32).longest("card")


def test_liars_know_cards_of_signs_after_a_break_too() -> None:
    """A liar copies the card of the round before, which the checkpoint holds."""
    config = tiny(strategy=SIGNS, attack={"name": "sketch_liar", "fraction": 0.34}, rounds=4)
    whole, broken = simulate(config), simulate(config)
    with whole, broken:
        for _ in range(4):
            last = whole.round()
        for _ in range(2):
            broken.round()
        starts = {name: peer.snapshot() for name, peer in broken.peers.items()}
        kept = {n: {k: v.clone() for k, v in t.items()} for n, t in starts.items()}
        memories = broken.memories
        broken.rewind()
        broken.restore(2, kept.__getitem__, memories)
        broken.round()
        assert broken.round().rows == last.rows
