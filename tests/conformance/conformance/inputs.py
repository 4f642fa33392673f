# SPDX-License-Identifier: MIT
"""One call of an operator, and the same call on another device or in another form."""

import contextlib
import dataclasses
from typing import Any, Callable

import torch
from torch.testing._internal.common_utils import noncontiguous_like
from torch.utils._pytree import tree_leaves, tree_map


_nudge = None


@contextlib.contextmanager
def nudged(dtype: torch.dtype, seed: int):
    """Inputs copied in this context change as if they had been rounded differently. Those
    widened from dtype to float64 change by half a unit in dtype's last place, those that
    stay in dtype by one unit. Whole numbers keep their value: many functions jump there."""
    global _nudge
    _nudge = dtype, torch.Generator().manual_seed(seed)
    try:
        yield
    finally:
        _nudge = None


def rounded(t: torch.Tensor, before: torch.dtype) -> torch.Tensor:
    """t, changed within nudged() to a value that may have rounded to it in the dtype
    before."""
    if _nudge is None or before != _nudge[0]:
        return t
    dtype, generator = _nudge
    units = torch.finfo(dtype).eps * (1 if t.dtype == dtype else 0.5)
    signs = torch.randint(2, t.shape, generator=generator) * 2 - 1
    return torch.where(t == t.round(), t, t * (1 + units * signs).to(t.dtype))


def _flat(t: torch.Tensor) -> torch.Tensor:
    elements = t.untyped_storage().nbytes() // t.element_size()
    return torch.as_strided(t, (elements,), (1,), 0)


def copy_to(t: torch.Tensor, device, dtype=None) -> torch.Tensor:
    """A copy of t on the device: a leaf with the same memory layout, with gaps and
    overlaps."""
    source = t.detach()
    dtype = dtype or t.dtype
    if t.layout is not torch.strided or t.is_conj() or t.is_neg():
        moved = source.to(device, dtype, copy=True)
    else:
        flat = _flat(source).to(dtype)
        flat = rounded(flat, t.dtype)
        moved = torch.empty(flat.shape, dtype=dtype, device=device).copy_(flat)
        moved = moved.as_strided(t.size(), t.stride(), t.storage_offset())
    return moved.requires_grad_(t.requires_grad)


class Copier:
    """Copies the tensors of an argument tree to the device. A tensor that occurs twice is
    copied once. With wide, tensors and dtypes of this dtype become float64. Tensors for
    which keep(tensor) is true go to the CPU instead."""

    def __init__(self, device, wide=None, keep=None) -> None:
        self.device = torch.device(device)
        self.wide = wide
        self.keep = keep or (lambda tensor: False)
        self._copies: dict = {}

    def __call__(self, tree):
        return tree_map(self._leaf, tree)

    def _leaf(self, value):
        if isinstance(value, torch.Tensor):
            if id(value) not in self._copies:
                to = torch.float64 if value.dtype == self.wide else value.dtype
                where = "cpu" if self.keep(value) else self.device
                self._copies[id(value)] = copy_to(value, where, to)
            return self._copies[id(value)]
        if isinstance(value, torch.dtype) and value == self.wide:
            return torch.float64
        if isinstance(value, torch.device) and value.type == "cpu":
            return self.device
        return str(self.device) if isinstance(value, str) and value == "cpu" else value


@dataclasses.dataclass
class Call:
    input: Any
    args: tuple
    kwargs: dict
    process: Callable
    broadcasts_input: bool = False
    keep: Callable = None  # true for tensor arguments that stay on the CPU

    @classmethod
    def of(cls, sample, keep=None) -> "Call":
        return cls(
            sample.input,
            tuple(sample.args),
            dict(sample.kwargs),
            sample.output_process_fn_grad,
            sample.broadcasts_input,
            keep,
        )

    def tree(self):
        return self.input, self.args, self.kwargs

    def tensors(self) -> list:
        return [t for t in tree_leaves(self.tree()) if isinstance(t, torch.Tensor)]

    def map(self, f) -> "Call":
        given, args, kwargs = f(self.tree())
        return dataclasses.replace(self, input=given, args=args, kwargs=kwargs)

    def on(self, device, wide=None) -> "Call":
        def keep(tensor):
            return self.keep and tensor is not self.input and self.keep(tensor)

        return self.map(Copier(device, wide, keep))

    def noncontiguous(self) -> "Call":
        def spread(t):
            strided = isinstance(t, torch.Tensor) and t.layout is torch.strided
            return noncontiguous_like(t) if strided else t

        return self.map(lambda tree: tree_map(spread, tree))

    def emptied(self, dim: int) -> "Call":
        """The call without elements: sets the dimension to length 0 in every tensor in
        which it is as long as in the first tensor."""
        shaped = [t for t in self.tensors() if t.dim() > 0]
        length = shaped[0].size(dim) if shaped else 0

        def cut(t):
            if not isinstance(t, torch.Tensor) or t.dim() == 0:
                return t
            if t.size(dim) != length:
                return t
            short = t.detach().narrow(dim, 0, 0).clone()
            return short.requires_grad_(t.requires_grad)

        return self.map(lambda tree: tree_map(cut, tree))

    def text(self) -> str:
        """The arguments as text, with sizes instead of tensors, short enough for a table."""

        def leaf(value):
            if isinstance(value, torch.Tensor):
                shape = "x".join(map(str, value.shape))
                contiguous = value.layout is not torch.strided or value.is_contiguous()
                dtype = str(value.dtype).removeprefix("torch.")
                return _Word(f"{dtype}[{shape}]{'' if contiguous else ' strided'}")
            return value

        args = [repr(tree_map(leaf, a)) for a in (self.input, *self.args)]
        args += [f"{k}={tree_map(leaf, v)!r}" for k, v in self.kwargs.items()]
        return ", ".join(args)[:300]


class _Word(str):
    def __repr__(self) -> str:
        return str(self)


def spread_evenly(items: list, most: int) -> list:
    """At most that many items at even distances, with the first and the last."""
    if most <= 0 or len(items) <= most:
        return items
    if most == 1:
        return items[:1]
    step = (len(items) - 1) / (most - 1)
    return [items[round(i * step)] for i in range(most)]
