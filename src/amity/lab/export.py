"""Take models out of a run: of a simulation, of a swarm, or of a real peer."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from amity._version import __version__
from amity.core import PeerId
from amity.data.inputs import Several
from amity.data.own import split_names
from amity.errors import ConfigError, RunDirError, StorageError, needs, unknown
from amity.lab.standing import Standing, Stood, standing
from amity.use.classifier import open_model
from amity.use.modelcard import write_card
from amity.use.modelfile import KINDS, Description, Origin, Which, write_model

NO_VALIDATION = (
    "only the last models: nobody has validation examples on which a best one could be chosen"
    " (partition.validation=0.2; for a real peer `validation = 0.2` under [peer])"
)

TRIED = 256
"""Test examples on which ONNX is compared with torch."""


@dataclass(frozen=True, kw_only=True)
class Taken:
    """The folder of one peer's models."""

    folder: Path
    files: tuple[Path, ...]
    notes: tuple[str, ...] = ()
    """What may surprise, in lines."""


def export(
    path: Path | str,
    peer: str = "",
    out: Path | None = None,
    *,
    onnx: bool = False,
    tell: Callable[[str], None] = lambda _peer: None,
    trust: bool = False,
) -> list[Taken]:
    """Write last.safetensors, best.safetensors (where there are validation examples) and MODEL.md
    for one peer or for all: of a run or a swarm into OUT/PEER/, of a peer's folder into OUT/.
    Code that the run names must be yours already, or you say `trust=True`."""
    path = Path(path)
    found = standing(path, trust)
    base = out or path / "export"
    taken, nothing = [], []
    for name in [_named(peer, found)] if peer else list(found.states):
        tell(name)
        stood = found.last(name)
        if stood is None:
            nothing.append(f"{name}: left out, as it has finished no round yet")
            continue
        found.check_data(name)
        folder = base if found.alone else base / name
        taken.append(_take(found, stood, folder, onnx))
    if not taken:
        raise _nothing(path, found)
    return [replace(taken[0], notes=(*nothing, *taken[0].notes)), *taken[1:]]


def _named(peer: str, found: Standing) -> PeerId:
    """By its own name, or by the one that its owner has in the data: peer-00 may be Nord there."""
    origins = {found.data[name].origin: name for name in found.states if name in found.data}
    origins.pop("", None)
    if peer not in found.states and peer not in origins:
        raise ConfigError(unknown("peer", peer, [*found.states, *origins]))
    return peer if peer in found.states else origins[peer]


def _nothing(path: Path, found: Standing) -> RunDirError:
    if found.real:
        return RunDirError(f"{path}: no round is finished yet; let the peers run first")
    return RunDirError(f"{path}: has no checkpoint yet; `amity resume {path}` goes on with it")


def notes_of(found: Sequence[Taken]) -> list[str]:
    """What may surprise, each once."""
    return list(dict.fromkeys(note for one in found for note in one.notes))


def _take(found: Standing, stood: tuple[Stood, Stood | None], folder: Path, onnx: bool) -> Taken:
    """The models of one peer."""
    _make(folder)
    last, best = stood
    kinds: list[tuple[Which, Stood]] = [("last", last)]
    if best is not None:
        kinds.insert(0, ("best", best))
    notes = [] if best else [_why_only_last(found, last.record.peer)]
    written, files = [], []
    for which, one in kinds:
        theta = found.model(one)
        tensors = found.shard.world.learner.complete(theta)
        written.append(_described(found, which, one, theta))
        files.append(write_model(folder, written[-1], tensors))
        if onnx:
            file, note = _as_onnx(found, files[-1], one.record.peer)
            files.append(file)
            notes.append(note)
    files.append(write_card(folder, written, onnx))
    return Taken(folder=folder, files=tuple(files), notes=tuple(notes))


def _as_onnx(found: Standing, file: Path, name: PeerId) -> tuple[Path, str]:
    """Compared with torch on the peer's own test examples."""
    with needs("onnx", "onnx", "onnxruntime", "onnxscript"):
        from amity.use.onnxfile import write_onnx
    test = found.data[name].test.first(TRIED)
    given = test.pixels.x[test.index]
    parts = given.parts if isinstance(given, Several) else {"": given}
    arrays = {name: part.cpu().numpy() for name, part in parts.items()}
    path, apart = write_onnx(open_model(file), arrays.get("", arrays))
    return path, f"{path}: at most {apart:.1e} from torch, on {len(test)} test examples"


def _make(folder: Path) -> None:
    """A folder without what an export before this one has left."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for kind, ending in itertools.product(KINDS, (".safetensors", ".onnx")):
            (folder / f"{kind}{ending}").unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(
            f"{folder}: cannot be created ({error.strerror}); choose another out="
        ) from None


def _why_only_last(found: Standing, name: PeerId) -> str:
    if len(found.data[name].validation):
        return f"{name}: only the last model; the run is of a version that kept no best one"
    if any(len(data.validation) for data in found.data.values()):
        return f"{name}: only the last model; it has no validation examples"
    return NO_VALIDATION


def _described(found: Standing, which: Which, stood: Stood, theta: torch.Tensor) -> Description:
    config, name = found.config, stood.record.peer
    pixels, schema = found.data[name].test.pixels, found.dataset.schema
    return Description(
        schema=schema,
        pictures=not isinstance(pixels.x, Several) and _are_pictures(pixels.x),
        na=split_names(getattr(config.data.instance, "na", "")),
        model={"name": config.model.name, **config.model.options},
        code=config.model.code,
        **_learnt(found),
        origin=Origin(
            peer=name,
            which=which,
            rounds=stood.record.round + 1,
            planned=config.rounds,
            accuracy=stood.record.lead(),
            validation=stood.record.lead("validation"),
            examples=_examples(found, name),
            until=stood.until,
            run=_run(found, name),
            privacy=found.privacy(name),
            personal=not torch.equal(theta, stood.tensors["start"]),
            version=__version__,
        ),
    )


def _learnt(found: Standing) -> dict[str, Any]:
    """The task of a run, where it is not to tell classes apart as usual."""
    pick, target = found.config.task, found.dataset.target
    known: dict[str, Any] = {}
    if "task" in found.config.to_dict():
        known |= {"learnt": pick.to_dict(), "task_code": pick.code}
    if found.dataset.strata is not None:
        known |= {"task": pick.label, "size": target.size, "places": target.places}
    return known


def _are_pictures(x: torch.Tensor) -> bool:
    """Whether examples are as picture files have them: bytes, grey or in three colours."""
    return x.dtype == torch.uint8 and x.dim() == 4 and x.shape[1] in (1, 3)


def _examples(found: Standing, name: PeerId) -> tuple[int, int, int]:
    data = found.data[name]
    return len(data.train), len(data.validation), len(data.test)


def _network(found: Standing) -> str:
    """The network in words: how large it is, and how much of it was trained."""
    learner = found.shard.world.learner
    every = sum(p.numel() for p in learner.module.parameters())
    trained = sum(slot.numel for slot in learner.layout.slots)
    some = f", {trained:,} of them trained" if trained < every else ""
    return f"{found.config.model.label}, {every:,} parameters{some}"


def _run(found: Standing, name: PeerId) -> dict[str, str]:
    """What was run, in words. No paths: an export is made to be handed on."""
    config, train = found.config, found.config.train
    file = Path(str(config.data.options.get("path", ""))).name
    words = {
        "data": config.dataset_label + (f" ({file})" if file else ""),
        "peers": found.company,
        "strategy": config.label,
        "method": config.method.label,
        "network": _network(found),
        "training": f"lr {train.lr:g}, {train.epochs} epochs a round, batches of {train.batch}",
        "seed": str(config.seed),
    }
    if config.weights_digest:
        words["started from weights"] = f"SHA-256 {config.weights_digest}"
    if found.data[name].origin not in ("", name):
        words["this peer in the data"] = found.data[name].origin
    if not config.attack.instance.harmless:
        words["attack"] = config.attack.label
    return words
