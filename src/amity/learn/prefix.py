"""What lies below the first layer that is trained: found in any module, and left out of a pass.

A *cut* is a call of a part whose output depends on the input alone, example by example: not on what
is trained, nor on chance, nor on the rest of the batch, nor on whether the module trains. Given the
outputs of some cuts, a pass need not compute them again. Cuts before the last are given as NaN
where the module's answer is the same for it; only the others have to be kept. All of this is found
by trying the module on a few examples, so it holds for anybody's code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

TRIED = 4
"""Examples on which a module is tried."""
MOST = 400
"""Parts beyond which a module is not searched."""


Forward = Callable[[Any], torch.Tensor]


class _Enough(Exception):
    """All outputs that are wanted have been seen."""


@dataclass(frozen=True)
class Cut:
    """One part's output."""

    name: str
    part: nn.Module
    shape: tuple[int, ...]
    """Of one example."""
    dtype: torch.dtype
    last: bool
    """Whether it lies in memory with its channels last."""

    @property
    def nbytes(self) -> int:
        """Of one example."""
        return int(torch.Size(self.shape).numel()) * self.dtype.itemsize

    def empty(self, count: int, make: Callable[..., torch.Tensor]) -> torch.Tensor:
        """Room for so many examples, as the part itself lays them out."""
        if not self.last:
            return make((count, *self.shape), dtype=self.dtype)
        channels, high, wide = self.shape
        return make((count, high, wide, channels), dtype=self.dtype).permute(0, 3, 1, 2)

    def rows(self, outputs: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        """Some examples of many, in memory of their own."""
        if not self.last:
            return outputs.index_select(0, chosen)
        return outputs.permute(0, 2, 3, 1).index_select(0, chosen).permute(0, 3, 1, 2)


@dataclass(frozen=True)
class Prefix:
    """The cuts of a module, in the order of their calls."""

    forward: Forward
    """A whole pass of the module, in its own precision."""
    kept: tuple[Cut, ...]
    skipped: tuple[Cut, ...]
    """Those whose output nobody looks at but for what is kept."""
    blind: bool
    """Whether the input itself is not looked at either."""
    shape: tuple[int, ...]
    """Of one input."""

    @property
    def nbytes(self) -> int:
        """Of one example."""
        return sum(cut.nbytes for cut in self.kept)

    def blank(self, like: torch.Tensor) -> torch.Tensor:
        """An input that nobody looks at, for as many examples as there are outputs."""
        return _blank(len(like), self.shape, torch.float32, like.device)

    @torch.no_grad()
    def outputs(self, x: Any) -> list[torch.Tensor]:
        """What is kept of some examples. The rest of the module does not run."""
        seen: dict[str, torch.Tensor] = {}

        def watch(cut: Cut) -> Any:
            def take(_part: nn.Module, _inputs: Any, output: torch.Tensor) -> None:
                seen[cut.name] = output
                if len(seen) == len(self.kept):
                    raise _Enough

            return cut.part.register_forward_hook(take)

        handles = [watch(cut) for cut in self.kept]
        try:
            self.forward(x)
        except _Enough:
            pass
        finally:
            for handle in handles:
                handle.remove()
        return [seen[cut.name] for cut in self.kept]

    @contextmanager
    def given(self, outputs: Sequence[torch.Tensor]) -> Iterator[None]:
        """Inside, these parts are not computed: their outputs are these."""
        like = outputs[0]
        blanks = [_blank(len(like), cut.shape, cut.dtype, like.device) for cut in self.skipped]
        pairs = [
            *zip(self.kept, outputs, strict=True),
            *zip(self.skipped, blanks, strict=True),
        ]
        for cut, output in pairs:
            cut.part.forward = _saying(output)
        try:
            yield
        finally:
            for cut, _ in pairs:
                del cut.part.forward


def _saying(output: torch.Tensor) -> Callable[..., torch.Tensor]:
    return lambda *_inputs, **_named: output


def _blank(
    count: int, shape: Sequence[int], dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """What stands for numbers that nobody looks at; it takes no room."""
    return torch.full((1,), torch.nan, dtype=dtype, device=device).expand(count, *shape)


def prefix_of(
    module: nn.Module,
    x: Any,
    forward: Forward,
    mode: Callable[[bool], None],
    stir: Callable[[], Any],
) -> Prefix | None:
    """Search a module for cuts, on some examples. `forward` is a whole pass, `mode` switches
    between training and use, and inside `stir()` what is trained has other values. None: there is
    nothing to leave out."""
    cuts = _cuts(module, x, forward, mode, stir)
    if not cuts:
        return None
    mode(True)

    def keeping(kept: Sequence[Cut], blind: bool = False) -> Prefix:
        skipped = tuple(cut for cut in cuts if cut not in kept)
        shape = tuple(x.shape[1:]) if isinstance(x, torch.Tensor) else ()
        return Prefix(forward, tuple(kept), skipped, blind, shape)

    kept = list(cuts)
    if not _same(keeping(kept), x, x):
        return None
    if _same(keeping(cuts[-1:]), x, x):
        kept = cuts[-1:]
    for cut in kept[:-1]:
        rest = [one for one in kept if one is not cut]
        kept = rest if _same(keeping(rest), x, x) else kept
    found = keeping(kept)
    floats = isinstance(x, torch.Tensor) and x.is_floating_point()
    return keeping(kept, floats and _same(found, x, found.blank(x)))


def _seed(seed: int) -> None:
    torch.manual_seed(seed)


@torch.no_grad()
def _same(prefix: Prefix, x: Any, given: Any) -> bool:
    """Whether the module says the same if these parts are not computed."""
    _seed(0)
    expected = prefix.forward(x)
    outputs = prefix.outputs(x)
    _seed(0)
    try:
        with prefix.given(outputs):
            return torch.equal(prefix.forward(given), expected)
    except Exception:  # anybody's module: it may look at a shape, or a value, in any way
        return False


def _cuts(
    module: nn.Module,
    x: Any,
    forward: Forward,
    mode: Callable[[bool], None],
    stir: Callable[[], Any],
) -> list[Cut]:
    """The outermost parts whose output is a function of the examples alone."""
    names = {id(part): name for name, part in module.named_modules() if name}
    if not names or len(names) > MOST:
        return []
    mode(True)
    _seed(0)
    first = _calls(module, lambda: forward(x))
    _seed(1)
    with stir():
        other = _calls(module, lambda: forward(x))
    mode(False)
    used = _calls(module, lambda: forward(x))
    fewer = _calls(module, lambda: forward(x[: TRIED // 2]))
    found: list[Cut] = []
    for name, output in first.items():
        again = (other.get(name), used.get(name))
        if any(name.startswith(cut.name + ".") for cut in found) or output is None:
            continue
        if output.requires_grad or not all(b is not None and torch.equal(output, b) for b in again):
            continue
        if len(output) == len(x) and _by_example(output, fewer.get(name)):
            found.append(_cut(name, module.get_submodule(name), output))
    return found


def _cut(name: str, part: nn.Module, output: torch.Tensor) -> Cut:
    last = output.dim() == 4 and not output.is_contiguous()
    last = last and output.is_contiguous(memory_format=torch.channels_last)
    return Cut(name, part, tuple(output.shape[1:]), output.dtype, last)


def _by_example(output: torch.Tensor, fewer: torch.Tensor | None) -> bool:
    """Whether examples do not depend on each other, as far as rounding lets one see."""
    if fewer is None or fewer.shape[1:] != output.shape[1:] or not output.is_floating_point():
        return False
    step, some = torch.finfo(output.dtype).eps, output[: len(fewer)].float()
    near = max(1e-4, 4 * step * float(some.abs().max()))  # bf16 rounds what other batches round up
    close = torch.allclose(some, fewer.float(), rtol=max(1e-3, 4 * step), atol=near)
    return len(fewer) == TRIED // 2 and close


def _calls(module: nn.Module, run: Callable[[], Any]) -> dict[str, torch.Tensor | None]:
    """What every part said in a pass, in the order in which they were called; None if it was called
    more than once, or said something else than one tensor of examples."""
    said: dict[str, torch.Tensor | None] = {}
    handles = []
    for name, part in module.named_modules():
        if not name:
            continue

        def before(_part: nn.Module, _inputs: Any, name: str = name) -> None:
            said[name] = None if name in said else _WAITING

        def after(_part: nn.Module, _inputs: Any, output: Any, name: str = name) -> None:
            first = said.get(name) is _WAITING
            plain = isinstance(output, torch.Tensor) and output.dim() > 1
            said[name] = output if first and plain else None

        handles += [part.register_forward_pre_hook(before), part.register_forward_hook(after)]
    try:
        run()
    finally:
        for handle in handles:
            handle.remove()
    return said


_WAITING = torch.zeros(0)
"""Stands for a call that has not come back."""
