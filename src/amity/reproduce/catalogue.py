"""The experiments: what the paper's tables and figures vary, and three sizes to run them at.

- `smoke`: seconds; the built-in digits stand in for every dataset. It shows that a table can be
  made, nothing else.
- `cpu`: two cores, some 20 seconds a cell, two at a time. 20 peers x 100 examples, 60 rounds of 2
  epochs, a small CNN.
- `paper`: as printed. 100 peers, 500 rounds, 5 epochs; for a GPU (`device=cuda`) or a cluster
  (`engine=ray`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from amity.errors import ConfigError, unknown
from amity.reproduce.experiment import Experiment, Layer

# -- sizes -----------------------------------------------------------------------------------------

SMOKE: Layer = {
    "peers": 4,
    "rounds": 2,
    "model": {"name": "mlp", "hidden": 8},
    "train": {"epochs": 1, "batch": 16, "lr": 0.05, "augment": "none"},
    "eval": {"every": 1, "gradients_every": 0},
    "partition": {"samples": 24, "test": 20},
}
CPU: Layer = {
    "peers": 20,
    "rounds": 60,
    "model": "cifar_small",
    "train": {
        "epochs": 2,
        "batch": 20,
        "lr": 0.02,
        "momentum": 0.9,
        "augment": "none",
        "precision": "fp32",
    },
    "eval": {"every": 10, "gradients_every": 0},
    "partition": {"samples": 100, "test": 100},
    "facts": {"examples": 32},
    "engine": {"name": "local", "vectorise": "on"},
}
PAPER: Layer = {
    "peers": 100,
    "rounds": 500,
    "model": "fedavg_cnn",
    "train": {"epochs": 5, "batch": 128, "lr": 0.01, "momentum": 0.9},
    "eval": {"every": 10, "gradients_every": 0},
    "facts": {"examples": 0},
}
FEMNIST_TRAIN = {"epochs": 5, "batch": 32, "lr": 0.1, "momentum": 0.9}
FASHION: Layer = {
    "data": "fashionmnist",
    "peers": 20,
    "rounds": 20,
    "partition": {"name": "pathological", "classes": 4, "samples": 80, "test": 100},
    "model": "fashion_cnn2",
    "train": {"epochs": 5, "batch": 20, "lr": 0.02, "momentum": 0.9, "precision": "fp32"},
    "eval": {"every": 5, "gradients_every": 0},
}
"""Twenty peers with 80 images of four kinds of clothes each."""
TINY: Layer = {**FASHION, "rounds": 30, "model": {"name": "mlp", "hidden": 24}}
"""The same with a net of 19,000 parameters: for tables of hundreds of runs."""


def _with(layer: Layer, **sections: Any) -> Layer:
    """A layer with some keys of its sections changed."""
    out = dict(layer)
    for key, value in sections.items():
        old = out.get(key)
        out[key] = (
            {**old, **value} if isinstance(old, Mapping) and isinstance(value, Mapping) else value
        )
    return out


@dataclass(frozen=True)
class Preset:
    """Sizes by dataset, how many neighbours rivals take, and the seeds."""

    name: str
    sizes: Mapping[str, Layer]
    k: int
    seeds: tuple[int, ...]
    more: tuple[int, ...]
    """Seeds where a claim rests on the table."""
    over: Layer
    budget: float
    about: str
    stand_in: str = ""


PRESETS: Mapping[str, Preset] = {
    "smoke": Preset(
        "smoke",
        dict.fromkeys(("cifar10", "cifar100", "femnist", "fashionmnist"), SMOKE),
        2,
        (0,),
        (0,),
        {"data": "digits"},
        1.0,
        "digits, 4 peers x 24 examples, 2 rounds, an MLP of 8 units",
        "The built-in digits stand in for every dataset, with 4 peers and a handful of rounds: this"
        " shows that the table can be made, and says nothing about any claim.",
    ),
    "cpu": Preset(
        "cpu",
        {
            "cifar10": CPU,
            "cifar100": CPU,
            "femnist": _with(
                CPU,
                rounds=40,
                partition={"name": "natural", "test": 0, "samples": 100},
                train={"lr": 0.05},
                eval={"every": 4},
            ),
            "fashionmnist": _with(CPU, partition={"samples": 80}),
        },
        5,
        (0, 1, 2),
        (0, 1, 2, 3, 4),
        {},
        30.0,
        "20 peers x 100 examples, 60 rounds x 2 epochs, batch 20, lr 0.02, momentum 0.9, no"
        " augmentation, `cifar_small` (55,698 parameters), rivals take 5 neighbours",
    ),
    "paper": Preset(
        "paper",
        {
            "cifar10": PAPER,
            "cifar100": _with(PAPER, model="resnet18_gn"),
            "femnist": _with(
                PAPER, model="leaf_cnn", train=FEMNIST_TRAIN, partition={"name": "natural"}
            ),
            "fashionmnist": _with(PAPER, model="fashion_cnn2"),
        },
        10,
        (0, 1, 2),
        (0, 1, 2),
        {},
        0.0,
        "100 peers, 500 rounds x 5 epochs, batch 128, lr 0.01, rivals take 10 neighbours",
    ),
}

# -- rows and columns ------------------------------------------------------------------------------

PAPERS: Layer = {"strategy": {"name": "afind+", "preset": "paper"}}
LOCAL: Layer = {"strategy": {"name": "local"}}
BACKBONES: Mapping[str, Layer] = {"finetune": {"method": "finetune"}, "head": {"method": "head"}}


def afind(most: int, **options: Any) -> dict[str, Any]:
    """AFIND+ as we recommend it, with as many neighbours at most as rivals take."""
    return {"strategy": {"name": "afind+", "max_neighbours": most, **options}}


def blind(most: int) -> Layer:
    """AFIND+ to which everyone looks alike: what it has besides friends."""
    return afind(most, upsilon=1000.0)


def gossip(k: int) -> Layer:
    return {"strategy": {"name": "gossip", "k": k}}


def rivals(k: int) -> dict[str, Layer]:
    """Those that a real network could run."""
    return {
        "Gossip": gossip(k),
        "PENS": {"strategy": {"name": "pens", "k": k, "sampled": k}},
        "FedeRiCo": {"strategy": {"name": "federico", "k": k}},
    }


def dirichlet(data: str, alpha: float) -> Layer:
    return {"data": data, "partition": {"name": "dirichlet", "alpha": alpha}}


def pathological(data: str, classes: int) -> Layer:
    return {"data": data, "partition": {"name": "pathological", "classes": classes}}


CIFAR10: Mapping[str, Layer] = {
    "CIFAR-10 α=0.1": dirichlet("cifar10", 0.1),
    "CIFAR-10 α=0.5": dirichlet("cifar10", 0.5),
    "CIFAR-10 c=2": pathological("cifar10", 2),
    "CIFAR-10 c=5": pathological("cifar10", 5),
}
CIFAR100: Mapping[str, Layer] = {
    "CIFAR-100 α=0.1": dirichlet("cifar100", 0.1),
    "CIFAR-100 α=0.5": dirichlet("cifar100", 0.5),
    "CIFAR-100 c=5": pathological("cifar100", 5),
    "CIFAR-100 c=10": pathological("cifar100", 10),
}
FOUR = {**CIFAR10, **CIFAR100}
TABLE2 = {
    key: FOUR[key]
    for key in ("CIFAR-10 α=0.1", "CIFAR-10 c=5", "CIFAR-100 α=0.1", "CIFAR-100 c=10")
}
"""The columns of Tables 2 to 4."""


# -- the experiments -------------------------------------------------------------------------------

Maker = Callable[[Preset], Experiment]
EXPERIMENTS: dict[str, Maker] = {}


def _experiment(make: Maker) -> Maker:
    EXPERIMENTS[make.__name__] = make
    return make


def experiment(name: str, preset: str = "cpu") -> Experiment:
    """An experiment at the sizes of a preset."""
    if name not in EXPERIMENTS:
        raise ConfigError(unknown("experiment", name, EXPERIMENTS))
    if preset not in PRESETS:
        raise ConfigError(unknown("preset", preset, PRESETS))
    chosen = PRESETS[preset]
    made = EXPERIMENTS[name](chosen)
    return replace(
        made,
        over={**chosen.over, **made.over},
        budget=chosen.budget,
        stand_in=chosen.stand_in,
        whole=frozenset(made.keys()),
    )


@_experiment
def toy(p: Preset) -> Experiment:
    """Figure 2: whom should client 2 work with?"""
    near, far = [4, 5, 6, 7], [0, 1, 2, 3]
    groups = {
        "alone": [near],
        "with 1": [near, near],
        "with 3": [near, far],
        "with 1 and 3": [near, near, far],
    }
    rows = {
        name: {
            "peers": len(labels),
            "partition": {"name": "labels", "labels": labels},
            "strategy": {"name": "gossip", "k": 2},
        }
        for name, labels in groups.items()
    }
    sizes = {
        "fashionmnist": (
            p.sizes["fashionmnist"]
            if p.name != "cpu"
            else _with(
                TINY,
                rounds=30,
                model="fashion_cnn2",
                train={"epochs": 2, "batch": 16},
                eval={"every": 3},
                partition={"name": "labels", "samples": 80, "test": 200},
            )
        )
    }
    return Experiment(
        "toy",
        "Whom should client 2 work with?",
        rows,
        {"FashionMNIST": {"data": "fashionmnist"}},
        sizes,
        against="alone",
        seeds=tuple(range(10)) if p.name == "cpu" else p.more,
        first=("alone", "with 1", "with 3"),
        note=(
            "Clients 1 and 2 hold labels 4 to 7, client 3 labels 0 to 3; all average every round."
            " Measured: client 2."
        ),
        picture="curves",
        focus="peer-00",
        called="client 2",
    )


@_experiment
def study(p: Preset) -> Experiment:
    """Which reading of the paper finds friends and gains accuracy? Settings are chosen here, on
    seeds of its own."""
    every = {"upsilon": "auto", "average": 0.8, "reprobe": "all", "sketch": 256}
    mine: dict[str, Any] = {
        "name": "afind+",
        "preset": "paper",
        **every,
        "loss_side": "requester",
        "gamma": 0.0,
    }
    drawn = {
        **mine,
        "tau": 0.2,
        "max_neighbours": p.k,
        "cut": "draw",
        "include_self": False,
        "temperature": 10.0,
    }
    readings: dict[str, dict[str, Any]] = {
        "paper": {"name": "afind+", "preset": "paper"},
        "all cards": mine,
        "all cards: uniform weights": {**mine, "ablation": "i+ii"},
        "drawn: with self": {**drawn, "include_self": True},
        "drawn": drawn,
        "drawn: uniform weights": {**drawn, "ablation": "i+ii"},
        "drawn: T=3": {**drawn, "temperature": 3.0},
        "drawn: neighbour's loss": {**drawn, "loss_side": "neighbour"},
        "drawn: υ=0.3 (tuned)": {**drawn, "upsilon": 0.3},
        "drawn: υ=0.3 T=3": {**drawn, "upsilon": 0.3, "temperature": 3.0},
        "drawn: υ=1000 (blind)": {**drawn, "upsilon": 1000.0},
        "drawn: proxy grad_ref": {**drawn, "proxy": "grad_ref"},
        "drawn: proxy delta": {**drawn, "proxy": "delta"},
        "drawn: proxy feature_mean": {**drawn, "proxy": "feature_mean"},
        "drawn: cards every 10 rounds": {**drawn, "reprobe": "every", "average": 0.0},
        "drawn: threshold softmax_p": {**drawn, "threshold": "softmax_p"},
        "paper: visits": {
            "name": "afind+",
            "preset": "paper",
            "protocol": "visit",
            "max_neighbours": 3,
        },
    }
    rows = {**rivals(p.k), "oracle": {"strategy": {"name": "oracle"}}}
    columns = {
        "CIFAR-10 α=0.5": CIFAR10["CIFAR-10 α=0.5"],
        "CIFAR-10 c=2": CIFAR10["CIFAR-10 c=2"],
        "FashionMNIST c=4": pathological("fashionmnist", 4),
        "FEMNIST": {
            "data": "femnist",
            **({} if p.name == "smoke" else {"partition": {"name": "natural"}}),
        },
    }
    return Experiment(
        "study",
        "Which reading of AFIND+?",
        {**rows, **{name: {"strategy": strategy} for name, strategy in readings.items()}},
        columns,
        p.sizes,
        friends=True,
        panels=BACKBONES,
        against="Gossip",
        seeds=(0,) if p.name == "smoke" else (10, 11),
        first=("Gossip", "drawn", "all cards"),
        note="Settings were chosen on seeds 10 and 11; the other tables are on seeds 0 to 4.",
        picture="dots",
    )


@_experiment
def table1(p: Preset) -> Experiment:
    """Table 1: six methods on CIFAR-10 and CIFAR-100."""
    fedavg = {"strategy": {"name": "fedavg", "fraction": 0.1 if p.name == "paper" else 0.25}}
    rows = {
        "Local": LOCAL,
        "FedAvg": fedavg,
        **rivals(p.k),
        "AFIND+": afind(p.k),
        "AFIND+ (υ=auto)": afind(p.k, upsilon="auto"),
        "AFIND+ (blind)": blind(p.k),
        "AFIND+ (paper)": PAPERS,
    }
    return Experiment(
        "table1",
        "Table 1: AFIND+ and its rivals",
        rows,
        FOUR,
        p.sizes,
        friends=True,
        panels=BACKBONES,
        against="Gossip",
        seeds=p.more,
        first=("AFIND+", "Gossip", "FedeRiCo", "PENS"),
        note=(
            "AFIND+ is the preset `tuned`; (υ=auto) the same with a sharper eye for who is alike;"
            " (blind) with υ = 1000: everyone looks alike, and it draws at random; (paper) the"
            " closest reading of the paper that works. FedAvg is one model for all, fine-tuned like"
            " the others."
        ),
    )


@_experiment
def ablation(p: Preset) -> Experiment:
    """Table 2: identification, threshold, aggregation."""
    parts = {
        "i": afind(p.k, ablation="i", k=p.k),
        "i+ii": afind(p.k, ablation="i+ii"),
        "i+ii+iii": afind(p.k),
    }
    return Experiment(
        "ablation",
        "Table 2: which part of AFIND+ helps?",
        {"Gossip": gossip(p.k), **parts, "blind": blind(p.k)},
        TABLE2,
        p.sizes,
        friends=True,
        against="Gossip",
        seeds=p.more,
        first=("i+ii+iii", "Gossip"),
        note=(
            "i takes a fixed number, drawn by similarity; ii draws only from those whom the"
            " threshold admits; iii weighs them by loss. Blind, not in the paper: all three with υ"
            " = 1000, to which everyone looks alike."
        ),
    )


def threshold(p: Preset, value: float) -> Layer:
    """AFIND+ with this τ and no other bound, measured often enough to tell when it is where."""
    return {
        **afind(0, tau=value),
        "eval": {"every": 4 if p.name == "cpu" else 2, "gradients_every": 0},
    }


@_experiment
def tau(p: Preset) -> Experiment:
    """Figure 8: the global threshold τ."""
    rows = {f"τ={t}": threshold(p, t) for t in (0.1, 0.2, 0.5, 0.8, 1.0, 1.5)}
    return Experiment(
        "tau",
        "The threshold τ: participants, accuracy, rounds",
        rows,
        {key: CIFAR10[key] for key in ("CIFAR-10 α=0.1", "CIFAR-10 c=2")},
        p.sizes,
        friends=True,
        against="τ=0.5",
        seeds=p.seeds,
        first=("τ=0.1", "τ=1.5", "τ=0.5"),
        picture="tau",
    )


@_experiment
def cost(p: Preset) -> Experiment:
    """Accuracy against bytes."""
    few, many = max(1, p.k // 5), 2 * p.k
    rows = {
        "Local": LOCAL,
        f"Gossip k={few}": gossip(few),
        "Gossip": gossip(p.k),
        f"Gossip k={many}": gossip(many),
        "PENS": rivals(p.k)["PENS"],
        f"FedeRiCo k={few}": {"strategy": {"name": "federico", "k": few}},
        "FedeRiCo": rivals(p.k)["FedeRiCo"],
        f"AFIND+ at most {few}": afind(few),
        **{f"AFIND+ τ={t}": threshold(p, t) for t in (0.2, 1.0, 1.5)},
        "AFIND+": afind(p.k),
        "AFIND+ (paper)": PAPERS,
    }
    return Experiment(
        "cost",
        "Accuracy against bytes",
        rows,
        {key: CIFAR10[key] for key in ("CIFAR-10 α=0.1", "CIFAR-10 c=2")},
        p.sizes,
        against="Gossip",
        seeds=p.seeds,
        first=("AFIND+", "Gossip"),
        picture="cost",
    )


def half_graph(p: Preset) -> dict[str, Any]:
    """Everyone is connected to half of the others at random."""
    return {"name": "regular", "k": {"smoke": 2, "cpu": 10, "paper": 49}[p.name]}


@_experiment
def topology(p: Preset) -> Experiment:
    """Table 3: a partially connected graph."""
    half = {"topology": half_graph(p)}
    return Experiment(
        "topology",
        "Table 3: half of the connections",
        {**rivals(p.k), "AFIND+": afind(p.k)},
        TABLE2,
        p.sizes,
        panels={"half": half, "full": {"topology": "full"}},
        printed="half",
        against="Gossip",
        seeds=p.more,
        first=("AFIND+", "Gossip"),
        note="Half: everyone is connected to half of the others at random.",
    )


@_experiment
def privacy(p: Preset) -> Experiment:
    """Table 4: noise on cards."""
    rows = {
        f"σ={s}": {"privacy": {"name": "proxy", "sigma": s, "lot": 128}} for s in (0, 2, 5, 10, 50)
    }
    return Experiment(
        "privacy",
        "Table 4: noise on cards",
        rows,
        TABLE2,
        p.sizes,
        panels={"tuned": afind(p.k), "paper": PAPERS},
        against="σ=0",
        seeds=p.seeds,
        first=("σ=0", "σ=50", "σ=5"),
        note=(
            "A card is clipped to length 1 and gets noise of standard deviation σ/L in each number;"
            " L = 128, the paper's."
        ),
    )


@_experiment
def convergence(p: Preset) -> Experiment:
    """Figure 4: accuracy by round on FEMNIST."""
    rows = {
        **rivals(p.k),
        "AFIND": afind(p.k, ablation="i+ii"),
        "AFIND+": afind(p.k),
        "AFIND+ (paper)": PAPERS,
        "Local": LOCAL,
    }
    return Experiment(
        "convergence",
        "Convergence on FEMNIST",
        rows,
        {"FEMNIST": {"data": "femnist"}},
        p.sizes,
        over=(
            {"partition": {"name": "dirichlet", **SMOKE["partition"]}} if p.name == "smoke" else {}
        ),
        against="Gossip",
        seeds=p.more,
        first=("AFIND+", "Gossip"),
        note="Writers are peers, each with its own test examples.",
        picture="curves",
    )


@_experiment
def pfl(p: Preset) -> Experiment:
    """Figure 5: personalised methods, with Gossip and with AFIND+."""
    methods: dict[str, Layer] = {
        "Fed-FT": {"method": "finetune"},
        "Ditto": {"method": "ditto"},
        "FOMO": {"method": "finetune", "stages": ["fomo"]},
        "Dis-PFL": {"method": "dispfl"},
    }
    return Experiment(
        "pfl",
        "Personalised methods, with Gossip and with AFIND+",
        {"Gossip": gossip(p.k), "AFIND+": afind(p.k)},
        methods,
        p.sizes,
        panels={
            **{key: CIFAR10[key] for key in ("CIFAR-10 α=0.1", "CIFAR-10 c=2")},
            "FashionMNIST c=4": pathological("fashionmnist", 4),
        },
        against="Gossip",
        seeds=p.seeds,
        first=("AFIND+", "Gossip"),
    )


@_experiment
def dynamic(p: Preset) -> Experiment:
    """Peers that come and go, graphs that change."""
    base = CIFAR10["CIFAR-10 α=0.1"]
    columns = {
        "all there": {**base, "topology": "full"},
        **{
            f"{away} % away": {**base, "topology": {"name": "full", "online": 1 - away / 100}}
            for away in (10, 30, 50)
        },
        "half graph": {**base, "topology": half_graph(p)},
        "half graph anew each round": {**base, "topology": {**half_graph(p), "redraw": 1}},
    }
    return Experiment(
        "dynamic",
        "Peers that come and go, and graphs that change",
        {"Gossip": gossip(p.k), "FedeRiCo": rivals(p.k)["FedeRiCo"], "AFIND+": afind(p.k)},
        columns,
        p.sizes,
        against="Gossip",
        seeds=p.seeds,
        first=("AFIND+", "Gossip"),
        note="CIFAR-10, α=0.1. Who is away trains on and is measured, but exchanges nothing.",
    )


ATTACKS = (
    "label_flip",
    "sign_flip",
    "noise",
    "scaled",
    "constant",
    "free_rider",
    "loss_liar",
    "sketch_liar",
)


@_experiment
def attack(p: Preset) -> Experiment:
    """Attackers and defences."""
    some = gossip(p.k)
    return Experiment(
        "attack",
        "Attackers and defences: accuracy of honest peers",
        {
            "Gossip": some,
            "AFIND+": afind(p.k),
            "AFIND+ (paper)": PAPERS,
            "AFIND+ (wary)": {"strategy": {"name": "afind+", "preset": "wary"}},
            "Gossip/normclip": {**some, "stages": ["normclip"]},
            "Gossip/simgate": {**some, "stages": ["simgate"]},
            "Gossip/lossgate": {**some, "stages": ["lossgate"]},
            "Gossip/krum": {**some, "stages": ["krum"]},
            "Gossip + median": {**some, "mixer": "median"},
            "Gossip + trimmed": {**some, "mixer": "trimmed"},
            "AFIND+/normclip": {**afind(p.k), "stages": ["normclip"]},
            "AFIND+/lossgate": {**afind(p.k), "stages": ["lossgate"]},
            "AFIND+/krum": {**afind(p.k), "stages": ["krum"]},
            "AFIND+ + median": {**afind(p.k), "mixer": "median"},
            "Local": LOCAL,
        },
        {"clean": {"attack": "none"}, **{name: {"attack": {"name": name}} for name in ATTACKS}},
        {
            "fashionmnist": {
                **p.sizes["fashionmnist"],
                **({} if p.name == "paper" else TINY if p.name == "cpu" else SMOKE),
            }
        },
        against="|clean",
        seeds=p.seeds,
        first=("Gossip", "AFIND+", "Gossip/normclip"),
        note=(
            "A fifth of the peers attack, unless attack.fraction says otherwise. Bold: within 2"
            " points of the same row without attackers."
        ),
        picture="heat",
    )


@_experiment
def theorem(p: Preset) -> Experiment:
    """Theorem 3.5: the gradient's norm against T and η."""
    base = TINY if p.name == "cpu" else p.sizes["fashionmnist"]
    rounds = 8 if p.name == "smoke" else 100
    rows = {f"η={eta}": {"train": {"lr": eta}} for eta in (0.0025, 0.005, 0.01, 0.02, 0.04)}
    sizes = _with(
        base,
        rounds=rounds,
        eval={"every": rounds // 4, "gradients_every": max(1, rounds // 50)},
        train={"momentum": 0.0, "epochs": 1},
    )
    plain = {key: value for key, value in sizes["train"].items() if key != "lr"}
    rows = {name: {"train": {**plain, **layer["train"]}} for name, layer in rows.items()}
    return Experiment(
        "theorem",
        "Theorem 3.5: the gradient's norm against rounds and learning rate",
        rows,
        {
            "AFIND+": {"data": "fashionmnist", **afind(p.k)},
            "Gossip": {"data": "fashionmnist", **gossip(p.k)},
        },
        {"fashionmnist": sizes},
        seeds=p.seeds,
        picture="theorem",
        note=(
            "The norm is of the mean gradient of all peers at their mean model; SGD without"
            " momentum, one epoch a round."
        ),
    )


@_experiment
def coreset(p: Preset) -> Experiment:
    """Section 3.2: are the gradients of the chosen closer to one's own?"""
    every = {"eval": {"every": 10, "gradients_every": 1 if p.name == "smoke" else 5}}
    rows = {
        **rivals(p.k),
        "AFIND+": afind(p.k),
        "AFIND+ (paper)": PAPERS,
        "oracle": {"strategy": {"name": "oracle"}},
    }
    return Experiment(
        "coreset",
        "Coresets: gradients of the chosen against all",
        {name: {**layer, **every} for name, layer in rows.items()},
        {key: CIFAR10[key] for key in ("CIFAR-10 α=0.1", "CIFAR-10 c=2")},
        p.sizes,
        friends=True,
        against="Gossip",
        seeds=p.seeds,
        first=("AFIND+", "Gossip"),
        note=(
            "‖∇F_i − ∇F_j‖² at the network's mean model, over the chosen j and over all in reach."
            " The oracle reads labels."
        ),
        picture="coreset",
    )
