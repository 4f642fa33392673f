# SPDX-License-Identifier: MIT
"""Compares the device's results with the CPU's.

The tolerance is torch.testing's for the dtype, or that of the entry's own decorators if
larger. A result outside the tolerance may still be right, in three cases:
- Random operators: the CPU's result changes with the seed. Only sizes, dtypes and devices
  are compared.
- Rounding: the CPU rounds as well. The device is right if its distance from the result in
  float64 is within the tolerance plus twice the CPU's largest error. Alternatively, the
  limit is the tolerance plus twice the effect of rounding the inputs.
- Ties: an operator may choose any of equal elements. Indices of equal values are right."""

import itertools

import torch
from torch.testing import assert_close
from torch.testing._comparison import default_tolerances
from torch.testing._internal.common_device_type import (
    precisionOverride,
    toleranceOverride,
)
from torch.utils._pytree import tree_leaves

# Operators that return uninitialized memory.
UNINITIALIZED = {
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
}
# Operators that leave new elements uninitialized when they make a tensor longer.
GROWS = {"resize_", "resize_as_"}
# Operators that may return the index of any of equal elements, unless called with stable.
TIES = {"argsort", "kthvalue", "median", "mode", "msort", "nanmedian", "sort", "topk"}
# torch's tests that compare as this module does: decorators for them set tolerances.
_TESTS = (
    ("TestCommon", "test_compare_cpu"),
    ("TestCommon", "test_noncontiguous_samples"),
    ("TestCommon", "test_out"),
    ("TestCommon", "test_variant_consistency_eager"),
    ("TestCommon", "test_numpy_ref"),
    ("TestUnaryUfuncs", "test_reference_numerics_normal"),
    ("TestModule", "test_forward"),
    ("TestModule", "test_cpu_gpu_parity"),
    ("TestModule", "test_non_contiguous_tensors"),
    ("TestOptimRenewed", "test_correctness"),
    ("TestOptimRenewed", "test_foreach_matches_forloop"),
    ("TestOptimRenewed", "test_fused_matches_forloop"),
)


class Mismatch(Exception):
    """The results differ; the text says how."""


def tolerance_of(info, device_type: str, dtype: torch.dtype) -> tuple:
    """(rtol, atol): the largest tolerances of the entry's decorators."""
    rtol = atol = 0.0
    places = itertools.product(_TESTS, dict.fromkeys((device_type, "cuda", "cpu")))
    for (cls, test), where in places:
        for decorator in info.get_decorators(cls, test, where, dtype, {}):
            if isinstance(decorator, toleranceOverride) and dtype in decorator.d:
                rtol = max(rtol, decorator.d[dtype].rtol)
                atol = max(atol, decorator.d[dtype].atol)
            elif isinstance(decorator, precisionOverride) and dtype in decorator.d:
                atol = max(atol, decorator.d[dtype])
    return rtol, atol


def _default(dtype: torch.dtype) -> tuple:
    return default_tolerances(torch.empty(0, dtype=dtype))


class Comparer:
    def __init__(self, device, dtype: torch.dtype, override: tuple) -> None:
        self.device = torch.device(device)
        self.dtype = dtype
        self.override = override

    def tolerance(self, dtype: torch.dtype) -> tuple:
        """(rtol, atol) for a result of this dtype: not smaller than for the inputs."""
        rtol, atol = _default(dtype)
        if not dtype.is_floating_point and not dtype.is_complex:
            return rtol, atol
        if self.dtype.is_floating_point:
            of_inputs = _default(self.dtype)
            rtol, atol = max(rtol, of_inputs[0]), max(atol, of_inputs[1])
        return max(rtol, self.override[0]), max(atol, self.override[1])

    def form(self, got, want) -> None:
        """Compares all but the values: structure, types, sizes, dtypes, device."""
        left, right = tree_leaves(got), tree_leaves(want)
        if len(left) != len(right):
            raise Mismatch(f"{len(left)} results instead of {len(right)}")
        for g, w in zip(left, right):
            if isinstance(w, torch.Tensor):
                self._form(g, w)
            elif type(g) is not type(w):
                raise Mismatch(f"a {type(g).__name__}, not a {type(w).__name__}")

    def _form(self, got, want) -> None:
        if not isinstance(got, torch.Tensor):
            raise Mismatch(f"a {type(got).__name__} instead of a tensor")
        for what in ("dtype", "layout", "shape"):
            have, need = getattr(got, what), getattr(want, what)
            if have != need:
                raise Mismatch(f"{what} {have}, not {need}")
        if got.device.type != self.device.type:
            raise Mismatch(f"the result is on {got.device}")

    def values(self, got, want) -> None:
        for g, w in zip(tree_leaves(got), tree_leaves(want)):
            if isinstance(w, torch.Tensor):
                self._close(g.detach().cpu(), w.detach())
            elif isinstance(w, (int, float, complex)) and not isinstance(w, bool):
                self._close(g, w)
            elif isinstance(w, torch.device):
                continue
            elif g != w:
                raise Mismatch(f"{g!r}, not {w!r}")

    def _close(self, got, want) -> None:
        dtype = want.dtype if isinstance(want, torch.Tensor) else self.dtype
        rtol, atol = self.tolerance(dtype)
        try:
            assert_close(
                got, want, rtol=rtol, atol=atol, equal_nan=True, check_stride=False
            )
        except AssertionError as error:
            raise Mismatch(_one_line(str(error))) from None

    def no_worse_than(self, got, cpu, exact, *nudged) -> bool:
        """True if got is about as near to exact, the result in float64, as cpu is, or as
        the results in nudged, which come from rounded inputs."""
        trees = [tree_leaves(t) for t in (got, cpu, exact, *nudged)]
        if len({len(t) for t in trees}) != 1:
            return False
        return all(self._no_worse(*leaves) for leaves in zip(*trees))

    def _no_worse(self, got, cpu, exact, *nudged) -> bool:
        if isinstance(exact, float):
            numbers = [torch.tensor(x, dtype=torch.float64) for x in (exact, *nudged)]
            mine = [torch.tensor(x, dtype=self.dtype) for x in (got, cpu)]
            return self._no_worse(*mine, *numbers)
        if not isinstance(exact, torch.Tensor):
            return got == cpu
        got, cpu = got.detach().cpu(), cpu.detach()
        if not cpu.is_floating_point() or exact.dtype != torch.float64:
            return got.shape == cpu.shape and torch.equal(got, cpu)
        rtol, atol = self.tolerance(cpu.dtype)
        exact = exact.detach()
        # A value that overflows the dtype is rightly infinite.
        rounded = exact.to(cpu.dtype)
        if cpu.dtype.itemsize == 1:  # float8: few functions take it
            got, cpu, rounded = got.float(), cpu.float(), rounded.float()
        same = (got == rounded) | (got.isnan() & rounded.isnan())
        same |= (got == cpu) | (got.isnan() & cpu.isnan())
        finite = exact.isfinite() & got.isfinite() & cpu.isfinite()
        slack = (cpu.double() - exact).abs()[finite]
        most = 2 * slack.max().item() if slack.numel() else 0.0
        # The effect of rounding the inputs counts for each element separately.
        slack = [torch.zeros_like(exact), *((t.detach() - exact).abs() for t in nudged)]
        of_inputs = 2 * torch.stack(slack).nan_to_num(nan=0.0, posinf=0.0).amax(0)
        most = torch.maximum(of_inputs, torch.full_like(exact, most))
        near = (got.double() - exact).abs() <= atol + rtol * exact.abs() + most
        return bool((same | (finite & near)).all())


def same_but_for_ties(got, want, source: torch.Tensor) -> bool:
    """True if both are (values, indices) of source along a dimension, or indices alone,
    with the same values, and without an index twice."""
    left, right = tree_leaves(got), tree_leaves(want)
    tensors = [
        [t.detach().cpu() for t in leaves if isinstance(t, torch.Tensor)]
        for leaves in (left, right)
    ]
    rest = [[x for x in t if not isinstance(x, torch.Tensor)] for t in (left, right)]
    if rest[0] != rest[1] or len(tensors[0]) not in (1, 2):
        return False
    if any(t[-1].dtype != torch.int64 for t in tensors):
        return False
    source = source.detach().cpu()
    source = source if source.dim() else source.unsqueeze(0)
    return any(_same_values(*tensors, source, d) for d in range(source.dim()))


def _same_values(got, want, source, dim: int) -> bool:
    found = [_values_at(t[-1], source, dim) for t in (got, want)]
    if found[0] is None or found[1] is None:
        return False
    values = [t[0].reshape(found[0].shape) for t in (got, want) if len(t) == 2]
    return all(_same(found[0], t) for t in (found[1], *values))


def _same(one, other) -> bool:
    return bool(((one == other) | (one != one) & (other != other)).all())


def _values_at(indices, source, dim: int):
    """The values of source at the indices along dim; None if an index is bad or repeats."""
    if indices.dim() == source.dim() - 1:
        indices = indices.unsqueeze(dim)
    others = [n for i, n in enumerate(source.shape) if i != dim]
    if [n for i, n in enumerate(indices.shape) if i != dim] != others:
        return None
    if not bool(((indices >= 0) & (indices < source.size(dim))).all()):
        return None
    once = indices.sort(dim)[0].diff(dim=dim) > 0
    return torch.gather(source, dim, indices) if bool(once.all()) else None


def same_sums_of_ties(got, want, source: torch.Tensor) -> bool:
    """True if the gradients of source agree when those of equal elements along a dimension
    are added up: an operator may give a gradient to any of equal elements."""
    left, right = tree_leaves(got), tree_leaves(want)
    if len(left) != 1 or len(right) != 1 or not source.numel() or not source.dim():
        return False
    grads = [t[0].detach().cpu().double() for t in (left, right)]
    return all(g.shape == source.shape for g in grads) and any(
        _same_sums(*grads, source.detach().cpu(), d) for d in range(source.dim())
    )


def _same_sums(got, want, source, dim: int) -> bool:
    values, order = source.sort(dim)
    sums = [g.gather(dim, order).cumsum(dim) for g in (got, want)]
    last = torch.ones_like(values.narrow(dim, 0, 1), dtype=torch.bool)
    ends = torch.cat([values.diff(dim=dim) != 0, last], dim)
    return torch.allclose(sums[0][ends], sums[1][ends], rtol=1e-9, atol=1e-9)


def _one_line(text: str) -> str:
    return " ".join(text.split()).removeprefix("AssertionError: ")
