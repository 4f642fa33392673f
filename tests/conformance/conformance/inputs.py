# SPDX-License-Identifier: MIT
"""One call of an operator, and the same call elsewhere or in another form."""

import contextlib
import dataclasses
from typing import Any, Callable

import torch
from torch.testing._internal.common_utils import noncontiguous_like
from torch.utils._pytree import tree_leaves, tree_map


_nudge = None


@contextlib.contextmanager
def nudged(dtype: torch.dtype, seed: int):
    """What is widened to float64 differs by half a unit of dtype's last place, and what
    stays of that dtype by one: each is the number that it was, or the next one. Whole
    numbers stay, for many functions jump there."""
    global _nudge
    _nudge = dtype, torch.Generator().manual_seed(seed)
    try:
        yield
    finally:
        _nudge = None


def rounded(t: torch.Tensor, before: torch.dtype) -> torch.Tensor:
    """t, of another dtype before, as it may have been before it was rounded to that."""
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
    """A leaf on the device that lies in memory as t does, holes and overlaps too."""
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
    """Copies what an argument tree holds; one tensor stays one tensor. With wide,
    tensors and dtypes of that type become float64. keep(tensor) says what stays."""

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
    keep: Callable = None  # arguments that belong on the CPU wherever the input is

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
        """Without elements: the dimension of every tensor that is as long as the
        first one's gets length 0."""
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
        """Sizes and values, short enough for a table."""

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
    """At most that many, the first and the last one among them."""
    if most <= 0 or len(items) <= most:
        return items
    if most == 1:
        return items[:1]
    step = (len(items) - 1) / (most - 1)
    return [items[round(i * step)] for i in range(most)]
