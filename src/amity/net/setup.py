"""peer.toml: who this peer is, where its files lie, how it behaves on the network, and what it
learns.

    [peer]
    name = "peer-00"
    listen = "10.0.0.1:7447"     # empty: behind NAT, reached by way of the relay
    roster = "roster.toml"       # paths are relative to this file
    identity = "identity"        # key.pem, cert.pem, ca.pem
    state = "state"              # a run directory: checkpoint, metrics, log
    data = "mine"                # whose: all of it is mine; "dealt": my part of a common dataset
    classes = ["benign", "malignant"]   # the same everywhere; not needed where all have all, or
                                 # where a schema file names them
    metrics = 9464               # http://127.0.0.1:9464/metrics; 0: none
    sinks = ["rounds", "jsonl"]  # who is told what happens here

    [net]                        # see amity/net/options.py
    deadline = 60

    [run]                        # config keys as in `amity run`
    data = "table.csv"           # which: a file or folder beside this one, or a dataset's name
    data.label = "diagnosis"     # or all of it in a section [run.data], with path = "table.csv"
    strategy = "friends"
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field

from amity.config import (
    PARTS,
    SCALARS,
    SECTIONS,
    Config,
    code_named,
    guarded,
    nested,
    read_toml,
    resolve,
    split_list,
    typed,
)
from amity.core import Reference
from amity.data import Dataset, datasets
from amity.data.own import SUFFIXES
from amity.data.partition import samples_of
from amity.data.samples import PeerData, Pixels
from amity.errors import ConfigError, DataError
from amity.net.options import Net
from amity.net.trust.passes import BOOK
from amity.net.trust.revoked import REVOKED
from amity.net.trust.roster import check_name
from amity.registry import admit
from amity.rng import rng
from amity.round.build import deal_out, in_one_process
from amity.topology import Discover, peer_names

RUN_KEYS = (*SECTIONS, *PARTS, *SCALARS, "stages", "changes")


@dataclass(frozen=True, kw_only=True)
class Who:
    """The section [peer]."""

    name: str
    """As the roster calls me."""
    listen: str = ""
    """HOST:PORT that others dial; empty: behind NAT, reached by way of the relay."""
    roster: str = "roster.toml"
    """The list of members."""
    identity: str = "identity"
    """The folder with key.pem, cert.pem and ca.pem."""
    state: str = "state"
    """The run directory of this peer: checkpoint, records, log."""
    data: Literal["mine", "dealt"] = "mine"
    """`mine`: all examples are mine. `dealt`: my part of a dataset that all have."""
    classes: tuple[str, ...] = ()
    """All classes of the network in their order, the same for everyone; empty: I have them all."""
    metrics: Annotated[int, Field(ge=0, le=65535)] = 0
    """Port for Prometheus on 127.0.0.1; 0: none."""
    sinks: tuple[str, ...] | None = None
    """Who is told what happens here."""
    validation: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of my training examples that is set aside for validation; 0: as partition.validation
    says."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A peer, ready to be opened."""

    folder: Path
    who: Who
    net: Net
    config: Config
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def roster(self) -> Path:
        return self.folder / self.who.roster

    @property
    def revoked(self) -> tuple[Path, Path]:
        """Where lists of revoked members are: what an operator put there, and what others passed
        on."""
        return self.folder / REVOKED, self.state / REVOKED

    @property
    def book(self) -> Path:
        """Where the passes of members are kept, if the authority's signature suffices."""
        return self.state / BOOK

    @property
    def identity(self) -> Path:
        return self.folder / self.who.identity

    @property
    def state(self) -> Path:
        return self.folder / self.who.state


def read_setup(
    folder: Path, overrides: Mapping[str, Any] | None = None, *, trust: bool = False
) -> Setup:
    """From DIR/peer.toml; overrides are config keys, and `net.*`. Code that it names is yours, or
    you trust it."""
    path = folder / "peer.toml"
    if not path.is_file():
        raise ConfigError(
            f"{folder}: is no peer's folder (no peer.toml); `amity peer init {folder} name=...`"
            " makes one"
        )
    given = read_toml(path)
    _check_sections(path, given)
    raw = dict(given.get("peer", {}))
    if isinstance(raw.get("sinks"), str):
        raw["sinks"] = split_list(raw["sinks"])
    for key in ("classes", "sinks"):
        if isinstance(raw.get(key), list):
            raw[key] = tuple(raw[key])
    who = typed("peer", Who, raw)
    check_name(who.name, str(path))
    mine, net = split_net(overrides or {})
    layers = [_run_of(given.get("run", {}), folder), nested(mine)]
    admit(path, code_named(layers, but=mine), trust)
    rules = typed("net", Net, {**given.get("net", {}), **net})
    config = resolve(layers if rules.masked else guarded(layers))
    _check_search(config, rules)
    return Setup(
        folder=folder,
        who=who,
        net=rules,
        config=for_network(config),
        options=given,
    )


def _check_sections(path: Path, given: Mapping[str, Any]) -> None:
    """Sections, and the two keys `data`, which are not the same."""
    for key, value in given.items():
        if key in ("peer", "net", "run") and isinstance(value, Mapping):
            continue
        where = "; what `amity run` takes stands under [run]" if key in RUN_KEYS else ""
        raise ConfigError(
            f"{path}: unknown section [{key}]; sections are [peer], [net] and [run]{where}"
        )
    whose = given.get("peer", {}).get("data", "mine")
    if whose not in ("mine", "dealt"):
        raise ConfigError(
            f'{path}: [peer] data says whose the data is, "mine" (all of it, as usual) or "dealt"'
            f" (my part of a common dataset), got {whose!r}; which data it is stands under [run]"
        )


def _run_of(given: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The section [run]. Paths of data are relative to peer.toml, like all others."""
    run: dict[str, Any] = {}
    for key, value in given.items():
        section, _, option = key.partition(".")
        if section != "data":
            run[key] = value
        elif isinstance(value, Mapping):
            run[key] = {name: _beside(name, one, folder) for name, one in value.items()}
        else:
            run[key] = _beside(option or "name", value, folder)
    whole = nested(run)
    data = whole.get("data")
    if isinstance(data, Mapping) and data and not data.keys() & {"name", "path", "dir"}:
        raise ConfigError(
            f"{folder / 'peer.toml'}: does not say where the data lies, only {', '.join(data)}: add"
            ' path = "table.csv" under [run.data], or data = "table.csv" under [run]'
        )
    return whole


def _beside(option: str, value: Any, folder: Path) -> Any:
    """An option of the data that is a path: one beside peer.toml."""
    if not isinstance(value, str) or not value:
        return value
    if option in ("path", "dir", "schema"):
        return str(folder / value)
    if option != "name" or value in datasets:
        return value
    file, of, function = value.partition(".py:")
    if of and (folder / f"{file}.py").exists():
        return f"{folder / file}.py:{function}"
    here = Path(value).suffix in SUFFIXES or (folder / value).is_dir()
    return str(folder / value) if here else value


def split_net(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Config keys, and the keys `net.*` among them."""
    net = {
        key.removeprefix("net."): value for key, value in values.items() if key.startswith("net.")
    }
    return {key: value for key, value in values.items() if not key.startswith("net.")}, net


def on_guard(net: Mapping[str, Any]) -> bool:
    """Whether peers with these keys `net.*` have the strategy's guard by default: it looks at
    single models, which masked sums do not show."""
    return not typed("net", Net, dict(net)).masked


def for_network(config: Config) -> Config:
    """The config as a real peer runs it; what only a simulator can do is refused."""
    for _, phase in config.phases:
        if isinstance(phase.strategy.instance, Reference):
            raise ConfigError(
                f"strategy={phase.strategy.name}: is a reference that sees more than a peer can; it"
                " runs in `amity run` only"
            )
    if not config.attack.instance.harmless:
        raise ConfigError(
            f"attack={config.attack.name}: is for `amity run`; real peers do not attack. Leave"
            " it out"
        )
    if config.stop.patience:
        raise ConfigError(
            "stop.patience: is for `amity run`, `compare` and `sweep`, which see all peers; real"
            " peers end by themselves. Leave it out, and raise rounds= if more are needed"
        )
    own = config.topology.common
    for key, plain in (("online", 1.0), ("drop", 0.0), ("trace", ""), ("speed", "")):
        if getattr(own, key) != plain:
            raise ConfigError(
                f"topology.{key}: is for the simulator; a real network has faults of its own. Leave"
                " it out"
            )
    return in_one_process(config, vectorise="off", group=1)


def _check_search(config: Config, net: Net) -> None:
    """Members of one masked sum are linked to each other, which neighbours that are found need not
    be."""
    if isinstance(config.topology.instance, Discover) and net.masked:
        raise ConfigError(
            "net.masked: needs links between all members; leave topology=discover out, or say"
            " net.masked=false"
        )


def data_of(setup: Setup, dataset: Dataset) -> tuple[Dataset, PeerData]:
    """My examples: all of the dataset, or my part of it."""
    config, who = setup.config, setup.who
    if who.data == "dealt":
        names = peer_names(config.peers)
        if who.name not in names:
            raise DataError(
                f"peer.data=dealt: {who.name} is none of {names[0]} to {names[-1]}; deal with"
                f" peers={config.peers}"
            )
        return dataset, deal_out(config, dataset, names)[who.name]
    if not config.shift.instance.plain:
        raise ConfigError(
            f"shift={config.shift.name}: is laid over data that is dealt out, and this peer holds"
            " its own; leave it out, or use peer.data=dealt"
        )
    dataset = renumbered(dataset, who.classes)
    shuffled = rng(config.seed, "shuffle", who.name).permutation(dataset.train)
    held_out = round((who.validation or config.partition.instance.validation) * len(shuffled))
    counts = np.bincount(dataset.labels[dataset.train], minlength=dataset.classes)
    train, test, validation = (
        samples_of(dataset, index)
        for index in (shuffled[held_out:], dataset.test, shuffled[:held_out])
    )
    return dataset, PeerData(
        train, test, validation, tuple((counts / counts.sum()).tolist()), who.name
    )


def renumbered(dataset: Dataset, classes: tuple[str, ...]) -> Dataset:
    """Classes by the list that all members have in common, whichever of them occur here."""
    if not classes:
        return dataset
    if len(set(classes)) != len(classes):
        raise DataError("peer.classes: a class is named twice")
    here = dataset.names or tuple(map(str, range(dataset.classes)))
    for name in here:
        if name not in classes:
            raise DataError(
                f"peer.classes: the data has a class {name!r} that is not in the list"
                f" {list(classes)}"
            )
    number = torch.tensor([classes.index(name) for name in here])
    pixels: Pixels = dataclasses.replace(dataset.pixels, y=number[dataset.pixels.y])
    return dataclasses.replace(dataset, pixels=pixels, classes=len(classes), names=classes)
