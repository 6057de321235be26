"""Masked sums: the mean is right to the rounding of fixed point, and no receiver can tell a
neighbour's model from noise."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from amity.core import Share
from amity.errors import ConfigError, RowError
from amity.lab.result import Result
from amity.lab.run import run
from amity.net.link.base import AskFailed
from amity.net.moment import Moment, frozen
from amity.net.node import Node
from amity.net.ops.swarm import Swarm
from amity.net.sealed import link as sealed_link
from amity.net.sealed.boxes import Box, name_of
from amity.net.setup import read_setup
from amity.net.sums.masks import Summed, masked
from amity.net.wire import Refused
from amity.peer.fixed import LARGEST, SCALE, term
from amity.peer.mixing import Fixed, mix
from amity.store import read_lines
from tests.conftest import tiny
from tests.hub import Hub
from tests.test_node import CALM, lives, log, play, row
from tests.test_parity import models, rows

MASKED = replace(CALM, masked=True)
FIVE: dict[str, Any] = {
    "peers": 5,
    "rounds": 3,
    "strategy": {"name": "gossip", "k": 4},
    "engine": {"workers": 1, "vectorise": "off", "group": 1},
}


def is_noise(data: bytes) -> bool:
    """Whether 256 bins of bytes are filled as chance does: χ² within five deviations."""
    counts = np.bincount(np.frombuffer(data, np.uint8), minlength=256)
    expected = len(data) / 256
    chi = float(((counts - expected) ** 2 / expected).sum())
    return abs(chi - 255) < 5 * np.sqrt(2 * 255)


# -- fixed point -----------------------------------------------------------------------------------


def test_the_mean_in_fixed_point_is_the_mean_to_its_rounding() -> None:
    draw = torch.Generator().manual_seed(1)
    shares = {f"p{k}": Share(torch.randn(5000, generator=draw)) for k in range(7)}
    shares["p0"].theta[:2] = torch.tensor([LARGEST, -LARGEST])
    weights = {name: (k + 1) / 28 for k, name in enumerate(shares)}
    exact = sum(weights[j] * shares[j].theta.double() for j in shares)
    found = Fixed().mix(weights, shares).theta
    assert float((found.double() - exact).abs().max()) <= 7 * 0.5 / SCALE + 2**-24 * LARGEST / 28
    assert torch.allclose(found, mix(weights, shares).theta, atol=1e-6, rtol=1e-6)
    assert torch.equal(found, Fixed().mix(dict(reversed(weights.items())), shares).theta)
    masks = {j: torch.rand(5000, generator=draw) < 0.5 for j in shares}
    offered = {j: Share(shares[j].theta, masks[j]) for j in shares}
    plain, fixed = mix(weights, offered), Fixed().mix(weights, offered)
    assert plain.mask is not None
    assert fixed.mask is not None
    assert torch.equal(plain.mask, fixed.mask)
    assert torch.allclose(plain.theta[plain.mask], fixed.theta[plain.mask], atol=1e-4)
    for bad in (LARGEST + 1, float("nan"), float("inf")):
        with pytest.raises(RowError, match="mixer fixed: a model has a number above 511"):
            term(0.5, torch.tensor([0.0, bad]))


# -- masks -----------------------------------------------------------------------------------------


def test_masks_cancel_in_the_whole_sum_and_each_term_is_noise() -> None:
    names = [f"p{k}" for k in range(4)]
    boxes = {name: Box() for name in names}
    keys = {name: name_of(box.public).hex() for name, box in boxes.items()}
    rounds = dict.fromkeys(names, 3)
    crowd = Summed.of("net", "me", keys, rounds)
    terms = {name: term(0.25, 0.05 * torch.randn(20_000)) for name in names}
    sent = {
        name: masked(terms[name], name, crowd, lambda k, n=name: boxes[n].shared(boxes[k].public))
        for name in names
    }
    assert np.array_equal(sum(sent.values()), sum(terms.values()))
    assert all(is_noise(words.tobytes()) for words in sent.values())
    assert not is_noise(terms["p0"].tobytes()), "the test does tell a model"
    for some in (names[:1], names[:2], names[1:]):
        left = np.add.reduce([sent[name] for name in some], dtype=np.uint32)
        assert is_noise(left.tobytes()), "a sum that lacks somebody is noise"
    later = replace(crowd, rounds=dict.fromkeys(names, 4))
    for other in (Summed.of("net", "me", keys, rounds), later, replace(crowd, receiver="you")):
        again = masked(terms["p0"], "p0", other, lambda k: boxes["p0"].shared(boxes[k].public))
        assert is_noise((again - sent["p0"]).tobytes()), "another sum, other masks"
    assert Summed.read("net", "me", crowd.number, crowd.text) == crowd
    swapped = " ".join(reversed(crowd.text.split(" ")))
    for number, text in ((crowd.number, swapped), ("x", crowd.text), (crowd.number, "a:b c")):
        with pytest.raises(Refused):
            Summed.read("net", "me", number, text)
    twice = f"{crowd.text.split(' ')[0]} {crowd.text}"
    with pytest.raises(Refused):
        Summed.read("net", "me", crowd.number, twice)


# -- real peers ------------------------------------------------------------------------------------


def test_a_masked_swarm_has_the_simulators_bits_and_a_receiver_reads_noise_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    got: list[bytes] = []
    sent: list[np.ndarray[Any, Any]] = []
    lock, unlock, share = threading.Lock(), sealed_link.unlock, Moment.blob

    def listen(key: bytes, locked: bytes, about: str) -> bytes:
        text = unlock(key, locked, about)
        with lock:
            got.append(text[1:])
        return text

    def noted(weight: float, theta: torch.Tensor) -> Any:
        words = term(weight, theta)
        with lock:
            sent.append(words)
        return words

    def never(self: Moment, kind: str) -> Any:
        assert kind not in ("share", "start"), "no model is ever made ready to leave alone"
        return share(self, kind)

    monkeypatch.setattr(sealed_link, "unlock", listen)
    monkeypatch.setattr("amity.net.sums.giving.term", noted)
    monkeypatch.setattr(Moment, "blob", never)
    layers = {**FIVE, "mixer": "fixed"}
    simulated = run(tiny(**layers), tmp_path / "simulated")
    swarm = Swarm(tmp_path / "net", tiny(**layers), MASKED)
    swarm.lay_out()
    assert set(lives(swarm, Hub()).values()) == {None}
    ours = models(tmp_path / "simulated")
    for name in swarm.names:
        assert not log(swarm, name, "alone") + log(swarm, name, "refused")
        result = Result(swarm.folder(name) / "state", swarm.config)
        wanted = {key: one for key, one in rows(simulated.edges).items() if key[1] == name}
        assert rows(result.edges) == wanted
        for key, tensor in models(result.path).items():
            assert torch.equal(tensor, ours[key]), key
    size = 4 * len(sent[0])
    bodies = [np.frombuffer(text, "<u4") for text in got if len(text) == size]
    assert len(bodies) == len(sent) == 3 * 5 * 4
    assert is_noise(b"".join(body.tobytes() for body in bodies))
    assert not is_noise(b"".join(words.tobytes() for words in sent)), "as they were, they are not"
    heard = b"".join(got)
    for words in sent:
        assert not any(words[at : at + 2].tobytes() in heard for at in range(0, len(words) - 1, 7))
    centred = [one.view(np.int32) - one.view(np.int32).mean() for one in sent]
    for body in bodies:  # no model stands out by its correlation with what came
        mine = body.view(np.int32) - body.view(np.int32).mean()
        rho = [float(mine @ one) / np.linalg.norm(mine) / np.linalg.norm(one) for one in centred]
        assert max(map(abs, rho)) < 6 / np.sqrt(len(mine))


def test_who_breaks_a_sum_costs_one_round_and_is_left_out_then(tmp_path: Path) -> None:
    def spoil(source: str, target: str, kind: str, data: bytes) -> bytes | None:
        bad = kind == "sum reply" and source == "peer-04"
        return data[:-1] + bytes([data[-1] ^ 1]) if bad else data

    swarm = play(tmp_path / "net", spoil, MASKED, **FIVE)
    first = "peer-00"
    assert row(swarm, first, 0) == {first: 1.0}, "nothing can be read of what came"
    assert log(swarm, first, "alone") == {("", "a masked sum broke"): 1}
    assert set(row(swarm, first, 1)) == {"peer-00", "peer-01", "peer-02", "peer-03"}
    assert sum(row(swarm, first, 2).values()) == pytest.approx(1)
    used = [e["peer"] for e in _audit(swarm, first) if e["event"] == "used"]
    assert sorted(set(used)) == ["peer-01", "peer-02", "peer-03"]


def test_with_too_few_for_a_crowd_a_peer_stays_alone_and_says_so(tmp_path: Path) -> None:
    swarm = play(tmp_path / "net", lambda s, t, k, data: data, MASKED, rounds=1)
    assert row(swarm, "peer-00") == {"peer-00": 1.0}
    assert log(swarm, "peer-00", "alone") == {("", "too few for a masked sum"): 1}


def _audit(swarm: Swarm, name: str) -> list[dict[str, Any]]:
    return read_lines(swarm.folder(name) / "state" / "audit.jsonl")


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[list[Any]]:
    """Five peers that show a model of round 0 each, and train nothing."""
    swarm = Swarm(tmp_path / "net", tiny(**FIVE), MASKED)
    swarm.lay_out()
    hub = Hub()
    nodes = [Node(read_setup(swarm.folder(name)), transport=hub) for name in swarm.names]
    with ExitStack() as stack:
        lines = [stack.enter_context(node.connected()) for node in nodes]
        for node, online in zip(nodes, lines, strict=True):
            peer = node.workshop.peer
            peer.trained.copy_(peer.start)
            still = frozen(peer, node.workshop.shard.world, 0)
            online.answers.offer(online.moment(still, None, 4, "ready"))
        yield lines


def test_a_model_is_in_one_sum_for_each_receiver_and_never_alone(crowd: list[Any]) -> None:
    me, courier = crowd[0], crowd[0].courier
    names = [f"peer-0{k}" for k in range(1, 5)]
    keys = {j: me.keys.name_of(j, 5.0) for j in names}

    def ask(j: str, of: dict[str, str], weight: float = 0.25, said: int = 0) -> Any:
        group = Summed.of(me.keys.network, "peer-00", of, dict.fromkeys(of, said))
        return courier.term(j, 0, group.number, group.text, weight)

    for few in (names[:1], names[:2]):
        with pytest.raises(AskFailed, match="small crowd"):
            ask("peer-01", {j: keys[j] for j in few})
    with pytest.raises(AskFailed, match="small crowd"):
        ask("peer-01", keys | {"peer-77": "0" * 16})
    with pytest.raises(AskFailed, match="malformed"):
        ask("peer-01", {j: keys[j] for j in names[1:]})
    with pytest.raises(AskFailed, match="malformed"):
        ask("peer-01", keys, 0.0)
    with pytest.raises(AskFailed, match="malformed"):
        ask("peer-01", keys, said=1)
    with pytest.raises(AskFailed, match="not here"):
        ask("peer-01", keys | {"peer-02": "0" * 16})
    with pytest.raises(AskFailed, match="not alone"):
        courier.model("peer-01", "share", 0)
    with pytest.raises(AskFailed, match="not alone"):
        courier.visit("peer-01", "Visit", 0)
    assert is_noise(ask("peer-01", keys).tobytes())
    with pytest.raises(AskFailed, match="one sum"):
        ask("peer-01", keys)
    with pytest.raises(AskFailed, match="one sum"):
        ask("peer-01", {j: keys[j] for j in names[:3]})
    assert len(ask("peer-02", keys)), "others have not given theirs yet"
    assert crowd[1].spending.told("sum", 0, "peer-00"), "on the disk, so after a restart too"


@pytest.mark.parametrize(
    ("layers", "net", "says"),
    [
        ({"strategy": "friends"}, {}, "Distance() looks at single models"),
        ({"strategy": "afind+"}, {}, "Loss() looks at single models"),
        ({"strategy": "ifca"}, {}, "MixtureLoss() looks at single models"),
        ({"stages": ["krum"]}, {}, "Distances() looks at single models"),
        ({"mixer": "median"}, {}, "mixer=median ranks single models; say mixer=mean or fixed"),
        ({}, {"sync": "none"}, "say net.sync=round"),
        ({}, {"transfer": "int8"}, "not int8; say net.transfer=fp32"),
        ({"method": "dispfl"}, {}, "shares models in part"),
    ],
)
def test_what_needs_single_models_is_refused_at_the_start_in_one_line(
    tmp_path: Path, layers: dict[str, Any], net: dict[str, Any], says: str
) -> None:
    swarm = Swarm(tmp_path / "net", tiny(**{**FIVE, **layers}), replace(MASKED, **net))
    swarm.lay_out()
    with pytest.raises(ConfigError) as refused:
        Node(read_setup(swarm.folder("peer-00")), transport=Hub())
    assert str(refused.value).startswith("net.masked: ")
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "strategy",
    ["gossip", "epidemic", "metropolis", "afind", {"name": "afind+", "ablation": "i+ii"}],
)
def test_what_decides_by_cards_alone_may_start(tmp_path: Path, strategy: Any) -> None:
    swarm = Swarm(tmp_path / "net", tiny(**{**FIVE, "strategy": strategy}), MASKED)
    swarm.lay_out()
    node = Node(read_setup(swarm.folder("peer-00")), transport=Hub())
    plain = replace(node.workshop.terms, sums="")
    assert "in masked sums of 3 or more here and one by one there" in (
        node.workshop.terms.difference(plain)
    )
    assert plain.digest != node.workshop.terms.digest
