"""The worlds of the map of regimes: in which way peers differ, how much, with how many examples, on
which data. Not every combination, but a named list for each preset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from amity.reproduce.presets import Layer, Preset, changed

CALLED = {
    "digits": "digits",
    "fashionmnist": "FashionMNIST",
    "cifar10": "CIFAR-10",
    "femnist": "FEMNIST",
}
AMOUNTS = (50, 100, 200, 500)
"""Training examples of a peer, at preset `paper`."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """In which way peers differ."""

    said: str
    """In plain words."""
    partition: Layer = field(default_factory=lambda: {"name": "iid"})
    shift: Layer = field(default_factory=dict)
    grouped: bool = True
    """Whether there are hidden groups."""


def _shift(said: str, name: str, **options: Any) -> Kind:
    return Kind(said=said, shift={"name": name, **options})


KINDS: Mapping[str, Kind] = {
    "iid": Kind(said="everyone has the same kind of data", grouped=False),
    "α=0.3": Kind(
        said="everyone has all classes, some much more often than others",
        partition={"name": "dirichlet", "alpha": 0.3},
        grouped=False,
    ),
    "3 classes": Kind(
        said="everyone has three classes of ten, by lot",
        partition={"name": "pathological", "classes": 3},
        grouped=False,
    ),
    "writers": Kind(
        said="everyone writes by hand", partition={"name": "natural", "test": 0}, grouped=False
    ),
    "5 groups of classes": Kind(
        said="five groups, each with two classes of ten",
        partition={"name": "groups", "groups": 5},
    ),
    "labels permuted": _shift("four groups that call things by other names", "permute_labels"),
    "some labels permuted": _shift(
        "four groups that disagree about some of the names", "permute_labels", strength=0.3
    ),
    "rotated": _shift("four groups that hold the camera another way", "rotate"),
    "slightly rotated": _shift(
        "four groups that hold the camera a bit askew", "rotate", strength=15.0
    ),
    "zoomed": _shift("four groups that stand nearer or farther", "zoom"),
    "scaled": _shift("four groups whose sensors have other units", "scale"),
    "pixels permuted": _shift("four groups whose sensors are wired differently", "permute_pixels"),
    "inverted": _shift("four groups that see parts of the picture as a negative", "invert"),
    "corrupted": _shift("four groups whose cameras have other faults", "corrupt"),
    "slightly corrupted": _shift(
        "four groups whose cameras have other small faults", "corrupt", strength=1
    ),
}
LONERS = "labels permuted and loners"
"""Its groups depend on the number of peers."""


def loners(peers: int) -> Kind:
    """Two groups of two fifths each; the others have nobody."""
    group = 2 * peers // 5
    sizes = [group] * 2 * bool(group) + [1] * (peers - 2 * group)
    return _shift(
        "two groups that call things by other names, and some who agree with nobody",
        "permute_labels",
        sizes=",".join(map(str, sizes)),
    )


@dataclass(frozen=True, kw_only=True)
class Regime:
    """One world of the map."""

    data: str
    called: str
    """The name of its kind."""
    kind: Kind
    samples: int
    """Training examples of a peer; 0: all that it has."""

    @property
    def name(self) -> str:
        held = f" n={self.samples}" if self.samples else ""
        return f"{CALLED[self.data]} {self.called}{held}"

    @property
    def layer(self) -> Layer:
        shift = {"shift": self.kind.shift} if self.kind.shift else {}
        partition = {**self.kind.partition, "samples": self.samples}
        return {"data": self.data, "partition": partition, **shift}


def _worlds(data: str, peers: int, *named: tuple[str, int]) -> list[Regime]:
    kinds = {**KINDS, LONERS: loners(peers)}
    return [
        Regime(data=data, called=called, kind=kinds[called], samples=samples)
        for called, samples in named
    ]


def _smoke(peers: int) -> list[Regime]:
    pair = {"groups": 2}
    chosen = _worlds("digits", peers, ("iid", 24), ("rotated", 24), ("labels permuted", 24))
    return [
        Regime(
            data=one.data,
            called=one.called,
            samples=one.samples,
            kind=Kind(
                said=one.kind.said.replace("four", "two"),
                shift={**one.kind.shift, **pair} if one.kind.shift else {},
                grouped=one.kind.grouped,
            ),
        )
        for one in chosen
    ]


def _cpu(peers: int) -> list[Regime]:
    clothes = (
        *(("iid", 100), ("iid", 500), ("α=0.3", 100), ("3 classes", 50), ("3 classes", 100)),
        *(("5 groups of classes", 100), ("labels permuted", 100), ("labels permuted", 500)),
        *(("some labels permuted", 100), (LONERS, 100), ("rotated", 50), ("rotated", 200)),
        *(("slightly rotated", 100), ("zoomed", 100), ("scaled", 100), ("pixels permuted", 100)),
        *(("inverted", 100), ("corrupted", 100), ("slightly corrupted", 100)),
    )
    objects = ("3 classes", "5 groups of classes", "labels permuted", "rotated")
    return [
        *_worlds("digits", peers, ("iid", 50), ("pixels permuted", 50)),
        *_worlds("fashionmnist", peers, *clothes),
        *_worlds("cifar10", peers, *((name, 100) for name in objects)),
        *_worlds("femnist", peers, ("writers", 100)),
    ]


def _paper(peers: int) -> list[Regime]:
    every = [(name, n) for name in (*KINDS, LONERS) if name != "writers" for n in AMOUNTS]
    return [
        *_worlds("fashionmnist", peers, *every),
        *_worlds("cifar10", peers, *every),
        *_worlds("femnist", peers, ("writers", 0)),
        *_worlds("digits", 20, ("iid", 50), ("rotated", 50), ("pixels permuted", 50)),
    ]


def regimes(preset: Preset) -> dict[str, Regime]:
    """The worlds of a preset, by name."""
    made = preset.pick(_paper, smoke=_smoke, cpu=_cpu)(sizes(preset)["fashionmnist"]["peers"])
    return {one.name: one for one in made}


# -- sizes -----------------------------------------------------------------------------------------

SMALL: Layer = {
    "peers": 20,
    "rounds": 60,
    "model": {"name": "mlp", "hidden": 64},
    "train": {"epochs": 2, "batch": 20, "lr": 0.05, "momentum": 0.9, "precision": "fp32"},
    "eval": {"every": 20, "gradients_every": 0},
    "partition": {"samples": 100, "test": 200},
    "engine": {"name": "local", "vectorise": "on"},
}
"""Preset `cpu`: seconds a run."""
CONVOLUTIONS: Layer = {"model": "cifar_small", "engine": {"name": "local", "vectorise": "off"}}


def sizes(preset: Preset) -> Mapping[str, Layer]:
    """By dataset: the preset's, with smaller nets and fewer rounds than its other tables have."""
    cpu = {**dict.fromkeys(CALLED, SMALL), "cifar10": {**SMALL, **CONVOLUTIONS}}
    large = {
        data: changed(preset.sizes.get(data, SMALL), rounds=200, train={"epochs": 5})
        for data in CALLED
    }
    smoke = dict.fromkeys(CALLED, preset.sizes["cifar10"])
    return preset.pick(large, smoke=smoke, cpu=cpu)
