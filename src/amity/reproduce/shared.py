"""Rows and columns that several tables share, so that they share cells too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from amity.reproduce.presets import Layer, Preset

GOSSIP = "Gossip"
"""The row whose bytes are the measure of all."""
AFIND = "AFIND+"
RIVALS = (GOSSIP, "PENS", "FedeRiCo")

LOCAL: Layer = {"strategy": {"name": "local"}}
ORACLE: Layer = {"strategy": {"name": "oracle"}}
NEW = "friends"
"""The strategy that is the default."""
BACKBONES: Mapping[str, Layer] = {"finetune": {"method": "finetune"}, "head": {"method": "head"}}


# -- rows ------------------------------------------------------------------------------------------


def _strategy(name: str, **options: Any) -> Layer:
    """With these options, as far as they are given."""
    given = {key: value for key, value in options.items() if value is not None}
    return {"strategy": {"name": name, **given}}


def afind(most: int | None = None, **options: Any) -> Layer:
    """AFIND+ as it is by default, or with so many neighbours at most: as many as rivals take."""
    return _strategy("afind+", max_neighbours=most, **options)


PAPERS = afind(preset="paper")


def blind(most: int) -> Layer:
    """AFIND+ to which everyone looks alike: what it has besides friends."""
    return afind(most, upsilon=1000.0)


def default() -> dict[str, Layer]:
    """The default strategy as it is."""
    return {NEW: {"strategy": {"name": NEW}}}


def gossip(k: int) -> Layer:
    return _strategy("gossip", k=k)


def federico(k: int | None = None) -> Layer:
    return _strategy("federico", k=k)


def rivals(k: int, *, alike: bool = True) -> dict[str, Layer]:
    """Those that a real network could run. Gossip takes `k`; the others as many, or else as many as
    they take by default."""
    others = k if alike else None
    return {
        GOSSIP: gossip(k),
        "PENS": _strategy("pens", k=others, sampled=others),
        "FedeRiCo": federico(others),
    }


def threshold(preset: Preset, tau: float) -> Layer:
    """AFIND+ with this τ and no other bound, measured often enough to tell when it is where."""
    return {**afind(0, tau=tau), "eval": {"every": preset.pick(2, cpu=4), "gradients_every": 0}}


# -- columns ---------------------------------------------------------------------------------------


def dirichlet(data: str, alpha: float) -> Layer:
    return {"data": data, "partition": {"name": "dirichlet", "alpha": alpha}}


def pathological(data: str, classes: int) -> Layer:
    return {"data": data, "partition": {"name": "pathological", "classes": classes}}


CIFAR: Mapping[str, Layer] = {
    "CIFAR-10 α=0.1": dirichlet("cifar10", 0.1),
    "CIFAR-10 α=0.5": dirichlet("cifar10", 0.5),
    "CIFAR-10 c=2": pathological("cifar10", 2),
    "CIFAR-10 c=5": pathological("cifar10", 5),
    "CIFAR-100 α=0.1": dirichlet("cifar100", 0.1),
    "CIFAR-100 α=0.5": dirichlet("cifar100", 0.5),
    "CIFAR-100 c=5": pathological("cifar100", 5),
    "CIFAR-100 c=10": pathological("cifar100", 10),
}
"""The columns of Table 1."""


def of_cifar(names: Iterable[str]) -> dict[str, Layer]:
    """Some of these columns."""
    return {name: CIFAR[name] for name in names}


CIFAR10 = {name: layer for name, layer in CIFAR.items() if layer["data"] == "cifar10"}
"""Those with ten classes."""
TABLE2 = of_cifar(("CIFAR-10 α=0.1", "CIFAR-10 c=5", "CIFAR-100 α=0.1", "CIFAR-100 c=10"))
"""The columns of Tables 2 to 4."""
TWO = of_cifar(("CIFAR-10 α=0.1", "CIFAR-10 c=2"))
"""The columns of what is looked at more closely."""


def half_graph(preset: Preset) -> dict[str, Any]:
    """Everyone is connected to half of the others at random."""
    return {"name": "regular", "k": preset.pick(10, smoke=2, paper=49)}
