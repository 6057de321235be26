"""Many peers' vectors in one safetensors file, written and read a peer at a time, so that they
never lie in memory twice.

The layout is that of safetensors: the length of a JSON header in 8 bytes, the header with type,
shape and place of every tensor, then the tensors. Reading is left to the library.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import safetensors
import torch

TYPES = {
    torch.float32: "F32",
    torch.float64: "F64",
    torch.bool: "BOOL",
    torch.int64: "I64",
    torch.bfloat16: "BF16",
}
Snapshot = tuple[str, dict[str, torch.Tensor]]


def encode(
    names: Sequence[str], snapshots: Iterable[Snapshot], digest: Callable[[bytes], Any]
) -> Iterator[bytes]:
    """The bytes of a file with `NAME/KEY` for every key of every snapshot; all snapshots have the
    keys of the first."""
    for at, (name, tensors) in enumerate(snapshots):
        for part in _parts(_header(names, tensors) if at == 0 else b"", name, tensors):
            digest(part)
            yield part


def _parts(header: bytes, _name: str, tensors: dict[str, torch.Tensor]) -> Iterator[bytes]:
    if header:
        yield header
    for key in sorted(tensors):
        yield tensors[key].detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()


def _header(names: Sequence[str], example: dict[str, torch.Tensor]) -> bytes:
    entries, at = {}, 0
    for name in names:
        for key in sorted(example):
            tensor = example[key]
            size = tensor.numel() * tensor.element_size()
            entries[f"{name}/{key}"] = {
                "dtype": TYPES[tensor.dtype],
                "shape": list(tensor.shape),
                "data_offsets": [at, at + size],
            }
            at += size
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def digest_of(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@dataclass(frozen=True)
class Archive:
    """A file of snapshots."""

    path: Path

    def of(self, name: str) -> dict[str, torch.Tensor]:
        """The tensors of one peer."""
        with safetensors.safe_open(self.path, "pt") as file:
            keys = self._keys.get(name, [])
            return {key.removeprefix(f"{name}/"): file.get_tensor(key) for key in keys}

    @cached_property
    def _keys(self) -> dict[str, list[str]]:
        with safetensors.safe_open(self.path, "pt") as file:
            keys: dict[str, list[str]] = {}
            for key in file.keys():  # noqa: SIM118  it is no dict
                keys.setdefault(key.rpartition("/")[0], []).append(key)
            return keys
