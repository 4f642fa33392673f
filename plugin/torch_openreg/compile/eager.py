# SPDX-License-Identifier: BSD-3-Clause
"""
What no program can express, as torch operators on the card.

The generated code calls loop(), which compiles the lines of a loop, and whole() for the
operators that Inductor does not lower. Both count runs for torch.openreg.compile_fallbacks().
"""

import textwrap
from typing import Any, Callable

import torch

from .._statistics import count_compile_fallback, whole  # noqa: F401
from .values import SHORT_FLOATS


def loop(what: str, reason: str, source: str) -> Callable:
    """Returns the function run() of the source."""
    scope: dict[str, Any] = {"torch": torch, "eager": _HELPERS}
    exec(compile(textwrap.dedent(source), f"<openreg {what}>", "exec"), scope)
    run = scope["run"]

    def counted(*args: Any) -> None:
        count_compile_fallback(what, reason)
        run(*args)

    return counted


class _HELPERS:
    """Functions of the lines. Halves are computed as float32, as in programs."""

    @staticmethod
    def full(value: torch.Tensor) -> torch.Tensor:
        half = value.dtype in SHORT_FLOATS
        return value.float() if half else value

    @staticmethod
    def flat(t: torch.Tensor) -> torch.Tensor:
        """The memory from the tensor's first element on."""
        first = t.storage_offset()
        length = t.untyped_storage().nbytes() // t.element_size() - first
        return t.as_strided((length,), (1,), first)

    @staticmethod
    def view(t: torch.Tensor, size, stride, offset) -> torch.Tensor:
        return t.as_strided(size, stride, t.storage_offset() + offset)

    @staticmethod
    def load(t: torch.Tensor, size, stride, offset) -> torch.Tensor:
        return _HELPERS.full(_HELPERS.view(t, size, stride, offset))

    @staticmethod
    def gather(t: torch.Tensor, index: Any, mask: Any = None) -> torch.Tensor:
        index = torch.as_tensor(index, device=t.device)
        if mask is not None:
            index = torch.where(mask, index, 0)
        return _HELPERS.full(_HELPERS.flat(t)[index])

    @staticmethod
    def scatter(t: torch.Tensor, index: Any, value: torch.Tensor, size, add: bool) -> None:
        index = torch.as_tensor(index, device=t.device).expand(size)
        value = value.to(t.dtype).expand(size)
        _HELPERS.flat(t).index_put_((index,), value, accumulate=add)

    @staticmethod
    def wrap(index: torch.Tensor, size: int, check: bool, wrap: bool, mask: Any = None):
        """An index from data. Negative ones count from the end."""
        index = index.long()
        if wrap:
            index = torch.where(index < 0, index + size, index)
        if check:
            inside = (index >= 0) & (index < size)
            if mask is not None:
                inside = inside | ~mask
            torch._assert_async(inside.all(), f"index out of bounds for size {size}")
        return index

    @staticmethod
    def to(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return _HELPERS.full(value.to(dtype))

    @staticmethod
    def bitcast(value: torch.Tensor, dtype: torch.dtype, source: torch.dtype):
        return _HELPERS.full(value.to(source).view(dtype))

    @staticmethod
    def fold(op: Callable, *values: Any) -> Any:
        """The greatest or the least of numbers and tensors."""
        device = next((v.device for v in values if isinstance(v, torch.Tensor)), "cpu")
        first, *rest = (torch.as_tensor(v, device=device) for v in values)
        for other in rest:
            first = op(first, other)
        return first if device != "cpu" else first.item()

    @staticmethod
    def welford(value: torch.Tensor, dims: tuple) -> tuple:
        mean = value.mean(dims, keepdim=True)
        count = torch.full_like(mean, value.numel() / max(mean.numel(), 1))
        return mean, ((value - mean) ** 2).sum(dims, keepdim=True), count

    @staticmethod
    def position(value: torch.Tensor, dims: tuple, op: str) -> torch.Tensor:
        kept = value.shape[: value.dim() - len(dims)]
        found = getattr(value.reshape(*kept, -1), op)(-1)
        return found.view(*kept, *(1 for _ in dims))
