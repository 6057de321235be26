"""Bodies: models and sketches as safetensors, read only as the tensors that they must be."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch

from amity.core import Share
from amity.net.wire.manifest import LARGEST_HEADER, Format, Manifest, Refused, WireSchema

BLOCK = 256
"""Numbers that share one scale in int8."""
LARGEST_SKETCH = 1e18
"""No sketch of a larger norm is taken: sums and squares of such numbers stay finite, so that
nobody's card can turn the similarities of all others into NaN."""
_TYPES = {
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int8: "I8",
    torch.uint8: "U8",
}
_NUMBERS = {"fp32": torch.float32, "bf16": torch.bfloat16, "int8": torch.int8}
Shapes = Mapping[str, tuple[torch.dtype, tuple[int, ...]]]


def read_tensors(body: bytes | bytearray, shapes: Shapes) -> dict[str, torch.Tensor]:
    """Exactly these tensors, of these types and shapes; the header is checked before the library
    parses it."""
    found, _ = _header(body)
    if found.keys() != shapes.keys():
        raise Refused("bad tensors", f"expected {sorted(shapes)}, got {sorted(found)[:8]}")
    for name, (kind, shape) in shapes.items():
        entry = found[name]
        if (
            not isinstance(entry, dict)
            or entry.get("dtype") != _TYPES[kind]
            or entry.get("shape") != list(shape)
        ):
            raise Refused("wrong shape", f"{name} must be {_TYPES[kind]} of {list(shape)}")
    try:
        tensors: dict[str, torch.Tensor] = safetensors.torch.load(bytes(body))
    except safetensors.SafetensorError as error:
        raise Refused("bad tensors", str(error)[:100]) from None
    for name, (
        kind,
        shape,
    ) in shapes.items():  # the library read the header itself: believe only what it made of it
        if tensors[name].dtype != kind or tuple(tensors[name].shape) != shape:
            raise Refused("wrong shape", name)
    return tensors


def _header(body: bytes | bytearray) -> tuple[dict[str, Any], int]:
    """The header of a body, and where its data begins."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) != len(pairs):
            raise Refused("bad tensors", "a name twice in the header")
        return dict(pairs)

    if len(body) < 8:
        raise Refused("bad tensors", "no header")
    length = int.from_bytes(body[:8], "little")
    if length > min(LARGEST_HEADER, len(body) - 8):
        raise Refused("bad tensors", "header too long")
    try:
        found = json.loads(bytes(body[8 : 8 + length]), object_pairs_hook=unique)
    except (ValueError, RecursionError):
        raise Refused("bad tensors", "header is not JSON") from None
    if not isinstance(found, dict):
        raise Refused("bad tensors", "header is no table")
    return found, 8 + length


def encode_sketch(sketch: torch.Tensor) -> bytes:
    return safetensors.torch.save({"sketch": _packed(sketch)})


def decode_sketch(body: bytes | bytearray, numbers: int, bits: int = 32) -> torch.Tensor:
    shape = _shape_of_sketch(numbers, bits)
    return _unpacked(read_tensors(body, {"sketch": shape})["sketch"], numbers)


def _packed(sketch: torch.Tensor) -> torch.Tensor:
    """A sketch as it travels: floats, or eight signs (int8) a byte."""
    if sketch.dtype != torch.int8:
        return sketch.contiguous()
    return torch.from_numpy(np.packbits(sketch.numpy() > 0))


def _shape_of_sketch(numbers: int, bits: int) -> tuple[torch.dtype, tuple[int, ...]]:
    if bits == 1:
        return torch.uint8, ((numbers + 7) // 8,)
    return (torch.float16 if bits == 16 else torch.float32), (numbers,)


def _unpacked(packed: torch.Tensor, numbers: int) -> torch.Tensor:
    """The opposite of `_packed`: bounded numbers, or signs and nothing after them."""
    if packed.dtype != torch.uint8:
        _bounded(packed, LARGEST_SKETCH, "sketch")
        return packed
    positive = np.unpackbits(packed.numpy(), count=numbers).astype(bool)
    if np.packbits(positive).tobytes() != packed.numpy().tobytes():
        raise Refused("bad tensors", "sketch has bits past its end")
    return torch.from_numpy(np.where(positive, 1, -1).astype(np.int8))


def _bounded(values: torch.Tensor, largest: float, what: str) -> None:
    norm = float(values.double().norm())
    if not math.isfinite(norm):
        raise Refused("not finite", what)
    if norm > largest:
        raise Refused("norm", f"{what} of {norm:.3g}, at most {largest:.3g}")


def encode_share(
    share: Share, format: Format, draw: np.random.Generator, sketch: torch.Tensor | None = None
) -> bytes:
    """A model as it travels: only offered coordinates, in the chosen format; with the sketch of a
    visit, if there is one."""
    tensors: dict[str, torch.Tensor] = {} if sketch is None else {"sketch": _packed(sketch)}
    theta = share.theta.detach().cpu()
    if share.mask is not None:
        mask = share.mask.cpu()
        theta = theta[mask]
        tensors["mask"] = torch.from_numpy(np.packbits(mask.numpy()))
    if format == "int8":
        tensors |= quantise(theta, draw)
    else:
        tensors["theta"] = theta.to(_NUMBERS[format]).contiguous()
    return safetensors.torch.save(tensors)


def decode_share(
    manifest: Manifest,
    body: bytes | bytearray,
    schema: WireSchema,
    largest: float = math.inf,
) -> tuple[Share, torch.Tensor | None]:
    """The model of a body, of a norm of at most `largest`, and the sketch that a visit brings
    along."""
    schema = schema.at(manifest.round)
    count, mask = _mask_of(body, schema) if schema.masked else (schema.size, None)
    shapes: dict[str, tuple[torch.dtype, tuple[int, ...]]] = {
        "theta": (_NUMBERS[manifest.format], (count,))
    }
    if manifest.format == "int8":
        shapes["scale"] = (torch.float32, (-(-count // BLOCK),))
    if mask is not None:
        shapes["mask"] = (torch.uint8, ((schema.size + 7) // 8,))
    if manifest.kind == "visit":
        shapes["sketch"] = _shape_of_sketch(schema.probe, schema.bits)
    tensors = read_tensors(body, shapes)
    values = dequantise(tensors) if manifest.format == "int8" else tensors["theta"].float()
    _bounded(values, min(schema.max_norm, largest), "model")
    sketch = _unpacked(tensors["sketch"], schema.probe) if "sketch" in tensors else None
    if mask is None:
        return Share(values), sketch
    theta = torch.zeros(schema.size)
    theta[mask] = values
    return Share(theta, mask), sketch


def _mask_of(body: bytes | bytearray, schema: WireSchema) -> tuple[int, torch.Tensor]:
    """The mask says how many numbers there must be, so it is read first."""
    header, data = _header(body)
    entry = header.get("mask")
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    if not (
        isinstance(offsets, list)
        and len(offsets) == 2
        and all(type(at) is int and at >= 0 for at in offsets)
    ):
        raise Refused("bad tensors", "no mask")
    bits = np.frombuffer(bytes(body[data + offsets[0] : data + offsets[1]]), np.uint8)
    if len(bits) != (schema.size + 7) // 8:
        raise Refused("wrong shape", "mask")
    mask = np.unpackbits(bits, count=schema.size).astype(bool)
    if np.packbits(mask).tobytes() != bits.tobytes():
        raise Refused("bad tensors", "mask has bits past its end")
    return int(mask.sum()), torch.from_numpy(mask)


def pack(messages: Sequence[bytes]) -> bytes:
    """Whole messages as one body."""
    return b"".join(struct.pack(">I", len(one)) + one for one in messages)


def unpack(body: bytes | bytearray, count: int) -> list[bytes]:
    """So many messages, and nothing else."""
    found, at = list[bytes](), 0
    for _ in range(count):
        size = int.from_bytes(body[at : at + 4], "big")
        found.append(bytes(body[at + 4 : at + 4 + size]))
        at += 4 + size
        if at > len(body) or not size:
            raise Refused("malformed", "cards that are cut off")
    if at != len(body):
        raise Refused("malformed", "more than the cards that were told")
    return found


def quantise(theta: torch.Tensor, draw: np.random.Generator) -> dict[str, torch.Tensor]:
    """int8 with one scale for 256 numbers, rounded up or down by chance, so that the mean is right:
    E[q·scale] = θ."""
    blocks = torch.zeros(-(-len(theta) // BLOCK) * BLOCK)
    blocks[: len(theta)] = theta
    blocks = blocks.view(-1, BLOCK)
    scale = blocks.abs().amax(1) / 127
    steps = blocks / torch.where(scale > 0, scale, 1.0)[:, None]
    chance = torch.from_numpy(draw.random(steps.shape, dtype=np.float32))
    low = steps.floor()
    rounded = low + (chance < steps - low)
    return {
        "theta": rounded.clamp(-127, 127).view(-1)[: len(theta)].to(torch.int8).contiguous(),
        "scale": scale,
    }


def dequantise(tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
    values, scale = tensors["theta"].float(), tensors["scale"]
    if not bool(torch.isfinite(scale).all()) or bool((scale < 0).any()):
        raise Refused("not finite", "scale")
    return values * scale.repeat_interleave(BLOCK)[: len(values)]
