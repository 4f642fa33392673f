# SPDX-License-Identifier: MIT
"""Inputs of about N elements for an operator of op_db: the operator's own samples, enlarged.

Most samples use the sizes S, M and L of torch.testing, so the module sets these first. It
repeats samples with other sizes along one dimension. Every tensor grows in the dimensions
that are as long as this dimension of the first tensor. The CPU must accept the result."""

import itertools
import math
import re
import sys

import torch
from conformance.inputs import Call
from torch.utils._pytree import tree_leaves, tree_map

# Operators with cubic work, which get smaller matrices.
CUBIC = re.compile("linalg|chol|^lu|lu_|svd|qr|det|solve|inverse|matrix_exp|lobpcg|pca")
MOST_SAMPLES = 12  # of one size
LIMIT = 1 << 25  # most elements of a sample


class TooLarge(Exception):
    pass


def elements(call: Call) -> int:
    return max((t.numel() for t in call.tensors()), default=0)


def fits(op, call: Call, target: int) -> bool:
    """True if the results are not much larger than target: operands that broadcast can have
    results of any size. Accepts operators without a meta function."""
    try:
        there = call.on("meta")
        results = op(there.input, *there.args, **there.kwargs)
    except Exception:  # noqa: BLE001
        return True
    sizes = [t.numel() for t in tree_leaves(results) if isinstance(t, torch.Tensor)]
    return sum(sizes) <= 16 * target


class Sizes:
    """Sets S, M, L and XS in all modules of torch.testing. Refuses tensors beyond a limit."""

    NAMES = ("S", "M", "L", "XS")

    def __init__(self) -> None:
        import torch.testing._internal.common_methods_invocations  # noqa: F401

        self.modules = [
            module
            for name, module in list(sys.modules.items())
            if name.startswith("torch.testing._internal")
        ]
        self.make = torch.testing.make_tensor
        self.limit = math.inf
        for module in self.modules:
            if getattr(module, "make_tensor", None) is self.make:
                module.make_tensor = self._make_tensor

    def set(self, size: int, limit: float) -> None:
        self.limit = limit
        for module in self.modules:
            for name in self.NAMES:
                if isinstance(getattr(module, name, None), int):
                    setattr(module, name, size)

    def _make_tensor(self, *shape, **kwargs):
        sizes = shape[0] if shape and not isinstance(shape[0], int) else shape
        if math.prod(sizes) > self.limit:
            raise TooLarge
        return self.make(*shape, **kwargs)


def side(target: int, dims: int) -> int:
    return max(5, round(target ** (1 / dims)))


class Maker:
    def __init__(self) -> None:
        self.sizes = Sizes()
        self.target = 0

    def calls(self, op, dtype, target: int, grad: bool, most: int) -> list:
        """Returns at most `most` calls, with numbers of elements as near to target as possible."""
        best: list = []
        self.target = target
        dims = (3, 4) if CUBIC.search(op.name) else (3, 2)
        for size in dict.fromkeys([*(side(target, d) for d in dims), 5]):
            self.sizes.set(size, 4 * target)
            found = self._samples(op, dtype, grad)
            near = [c for c in found if target / 3 <= elements(c) <= 3 * target]
            if near:
                return near[:1] + near[-1:] if most > 1 and len(near) > 1 else near[:1]
            best += sorted(found, key=elements)[-1:]
        self.sizes.set(5, math.inf)
        for call in sorted(best, key=elements, reverse=True):
            grown = self._grown(op, call, target)
            if grown:
                return [grown]
        return best[:1]

    def _samples(self, op, dtype, grad: bool) -> list:
        torch.manual_seed(0)
        found = []
        try:
            for sample in itertools.islice(
                op.sample_inputs("cpu", dtype, grad), MOST_SAMPLES
            ):
                found.append(Call.of(sample))
        except Exception:  # noqa: BLE001 - the samples cannot be so large
            pass
        return [
            c for c in found if 0 < elements(c) < LIMIT and fits(op, c, self.target)
        ]

    def _grown(self, op, call: Call, target: int):
        first = next((t for t in call.tensors() if t.dim() > 0 and t.numel() > 0), None)
        if first is None:
            return None
        for dim in dict.fromkeys([0, first.dim() - 1, first.dim() // 2]):
            grown = grow(call, first.size(dim), target)
            if grown is None or not fits(op, grown, target):
                continue
            try:
                op(grown.input, *grown.args, **grown.kwargs)
            except Exception:  # noqa: BLE001 - this dimension cannot grow alone
                continue
            return grown
        return None


def grow(call: Call, length: int, target: int):
    """Repeats all tensors along their dimensions of this length."""
    now = elements(call)
    dims = max(
        sum(n == length for n in t.shape)
        for t in call.tensors()
        if t.numel() * 2 > now
    )
    times = round((target / now) ** (1 / dims)) if dims and length else 0
    if times < 2:
        return None

    def more(t):
        if not isinstance(t, torch.Tensor) or length not in t.shape:
            return t
        if t.layout is not torch.strided:
            return t
        repeats = [times if n == length else 1 for n in t.shape]
        large = t.detach().repeat(repeats)
        return large.requires_grad_(t.requires_grad)

    return call.map(lambda tree: tree_map(more, tree))
