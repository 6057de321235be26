"""`model.weights`: the model starts from what a safetensors file holds.

Only safetensors: such a file holds numbers and names, while a pickle can run code when it is
opened. All parameters must be there and fit, unless `model.weights_partial` says that some may not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import safetensors
import torch
from torch import nn

from amity.errors import ConfigError, brief
from amity.learn.freezing import names_said, saved_buffers

PICKLED = (".pt", ".pth", ".bin", ".ckpt", ".pkl")


def weights_digest(path: str) -> str:
    """The SHA-256 of a file of weights; empty without one."""
    if not path:
        return ""
    file = _existing(path)
    found = file.stat()
    return _digest(file, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=16)
def _digest(file: Path, _changed: int, _size: int) -> str:
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _existing(path: str) -> Path:
    file = Path(path)
    if file.suffix in PICKLED:
        raise ConfigError(
            f"model.weights: {path} is a pickle, which could run code and is never opened; write it"
            " with safetensors.torch.save_file(module.state_dict(), 'weights.safetensors')"
        )
    if not file.is_file():
        raise ConfigError(f"model.weights: {path} does not exist; expected a safetensors file")
    return file.absolute()


@dataclass(frozen=True)
class _Match:
    """The tensors of a file beside those of a model, by name."""

    path: str
    given: Mapping[str, torch.Tensor]
    wanted: Mapping[str, torch.Tensor]

    @property
    def fits(self) -> list[str]:
        return [name for name in self._known if not self._apart(name)]

    @property
    def _known(self) -> list[str]:
        return sorted(name for name in self.given if name in self.wanted)

    def _apart(self, name: str) -> bool:
        return self.given[name].shape != self.wanted[name].shape

    def misfit(self, needed: set[str]) -> str:
        """What keeps the file from being that of the model, whole; empty: nothing."""
        shapes = [
            f"{name} is {tuple(self.given[name].shape)} there and"
            f" {tuple(self.wanted[name].shape)} in the model"
            for name in self._known
            if self._apart(name)
        ]
        lists = {
            "missing": [n for n in self.wanted if n in needed and n not in self.given],
            "too many": [name for name in self.given if name not in self.wanted],
            "of another shape": shapes,
        }
        said = (
            f"{len(names)} {what} ({names_said(names)})" for what, names in lists.items() if names
        )
        return "; ".join(said)

    def told(self) -> str:
        """What was taken and what was not."""
        lists = {
            "not used": [name for name in self.given if name not in self.fits],
            "still as built": [name for name in self.wanted if name not in self.fits],
        }
        rest = "".join(f"; {what}: {names_said(n)}" for what, n in lists.items() if n)
        return (
            f"model.weights: {len(self.fits)} of {len(self.given)} tensors of {self.path} loaded"
            f" ({names_said(self.fits)}){rest}"
        )


def load_weights(module: nn.Module, path: str, *, partial: bool) -> str:
    """Fill a module with the tensors of a file, by name. Returns what is to be said of it."""
    if not path:
        return ""
    match = _Match(path, _read(_existing(path)), dict(module.state_dict(keep_vars=True)))
    _refuse_broken(path, match.given)
    needed = {n for n, _ in (*module.named_parameters(), *saved_buffers(module))}
    if not partial and (misfit := match.misfit(needed)):
        raise ConfigError(
            f"model.weights: {path} does not fit the model: {misfit}. Use the weights of this very"
            " model, or model.weights_partial=true to take what fits"
        )
    if not match.fits:
        raise ConfigError(
            f"model.weights: nothing in {path} fits the model; it has"
            f" {names_said(list(match.given))}, the model {names_said(list(match.wanted))}"
        )
    with torch.no_grad():
        for name in match.fits:
            match.wanted[name].copy_(match.given[name])
    return match.told() if partial else ""


def _read(file: Path) -> dict[str, torch.Tensor]:
    try:
        with safetensors.safe_open(file, "pt") as opened:
            return {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except (safetensors.SafetensorError, OSError, ValueError, TypeError) as error:
        raise ConfigError(
            f"model.weights: {file} is not a safetensors file ({brief(error)}); write one with"
            " safetensors.torch.save_file(module.state_dict(), ...)"
        ) from None


def _refuse_broken(path: str, given: Mapping[str, torch.Tensor]) -> None:
    for name, tensor in given.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise ConfigError(
                f"model.weights: {name!r} in {path} holds values that are no numbers (NaN or"
                " infinite); use weights of a training that did not diverge"
            )
