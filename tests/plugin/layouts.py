# SPDX-License-Identifier: BSD-3-Clause
"""Compares the layout of an operator's results with that of core's meta function."""

import torch
from torch._subclasses.fake_tensor import (
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedFakeTensorException,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only

aten = torch.ops.aten

# Operators without a layout to compare with:
# - core's fake mode refuses or replaces lift_fresh and lift_fresh_copy itself;
# - the last result of log_sigmoid_forward is a buffer for a backward on the CPU.
WITHOUT_META = {
    aten.lift_fresh.default,
    aten.lift_fresh_copy.default,
    aten.log_sigmoid_forward.default,
}
TAGS_WITHOUT_META = {
    torch.Tag.dynamic_output_shape,
    torch.Tag.data_dependent_output,
    torch.Tag.inplace_view,
}


def layout(t: torch.Tensor):
    """The strides of the dimensions with more than one element."""
    if t.layout != torch.strided:
        return t.layout
    if t.numel() == 0:
        return ()
    return tuple(s for n, s in zip(t.shape, t.stride()) if n > 1)


def describe(value) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype)[6:]}{tuple(value.shape)}:{value.stride()}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(describe(v) for v in value) + "]"
    return str(value)


class Layouts(TorchDispatchMode):
    """Collects the operators with results that differ in layout from the meta function's."""

    def __init__(self):
        super().__init__()
        self.calls = 0
        self.differences: dict[str, str] = {}
        self.fake = FakeTensorMode()

    def expected(self, func, args, kwargs):
        if func in WITHOUT_META or any(
            t.layout != torch.strided
            for t in tree_leaves((args, kwargs))
            if isinstance(t, torch.Tensor)
        ):
            return None
        if not TAGS_WITHOUT_META.intersection(func.tags):
            try:
                with self.fake:
                    return func(
                        *tree_map_only(torch.Tensor, self.fake.from_tensor, args),
                        **tree_map_only(torch.Tensor, self.fake.from_tensor, kwargs),
                    )
            except (UnsupportedFakeTensorException, DynamicOutputShapeException, NotImplementedError):
                pass
        return None

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        want = error = None
        try:
            want = self.expected(func, args, kwargs)
        except Exception as e:  # noqa: BLE001 # the card must raise too
            error = e
        got = func(*args, **kwargs)
        if error is not None:
            self.note(func, args, kwargs, f"meta raises {type(error).__name__}: {error}")
        if want is not None:
            self.compare(func, args, kwargs, tree_leaves(got), tree_leaves(want))
        return got

    def compare(self, func, args, kwargs, got, want):
        self.calls += 1
        if len(got) != len(want):
            self.note(func, args, kwargs, f"{len(got)} results, not {len(want)}")
            return
        for g, w in zip(got, want):
            if not isinstance(g, torch.Tensor) or not isinstance(w, torch.Tensor):
                continue
            if g.shape != w.shape or g.dtype != w.dtype or layout(g) != layout(w):
                self.note(func, args, kwargs, f"{describe(g)}, meta {describe(w)}")
            elif g.device != w.device:
                self.note(func, args, kwargs, f"is on {g.device}, meta on {w.device}")

    def note(self, func, args, kwargs, text):
        call = ", ".join([*map(describe, args), *(f"{k}={describe(v)}" for k, v in kwargs.items())])
        self.differences.setdefault(str(func), f"({call}) is {text}")


def transposed(t):
    order = tuple(reversed(range(t.dim())))
    return t.permute(order).contiguous().permute(order)


def channels_last(t):
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return t.contiguous(memory_format=formats[t.dim()]) if t.dim() in formats else t


def expanded(t):
    return t[:1].expand(t.shape) if t.dim() > 0 and t.shape[0] > 1 else t


VARIANTS = [lambda t: t, transposed, channels_last, expanded]


def to_card(t):
    """A copy on the card with the same values and strides."""
    if not isinstance(t, torch.Tensor):
        return torch.device("openreg") if t == "cpu" or isinstance(t, torch.device) else t
    if t.layout != torch.strided or t.is_nested:
        return t.detach().to("openreg").requires_grad_(t.requires_grad)
    base = t.detach()
    for d, (n, stride) in enumerate(zip(t.shape, t.stride())):
        base = base.narrow(d, 0, 1) if stride == 0 and n > 1 else base
    copy = torch.empty_strided(base.shape, base.stride(), dtype=t.dtype, device="openreg")
    return copy.copy_(base).expand(t.shape).requires_grad_(t.requires_grad)


def strides(tree):
    return tuple(
        t.stride()
        for t in tree_leaves(tree)
        if isinstance(t, torch.Tensor) and t.layout == torch.strided
    )


def variants(sample):
    """The sample's arguments in every layout of VARIANTS: of all tensors, or of the first."""
    given = (sample.input, *sample.args), sample.kwargs
    first = next((t for t in tree_leaves(given) if isinstance(t, torch.Tensor)), None)
    seen = set()
    for change in VARIANTS:
        for only_first in (False, True):

            def changed(t, change=change, only_first=only_first):
                if only_first and t is not first or t.layout != torch.strided or t.is_nested:
                    return t
                return change(t.detach()).requires_grad_(t.requires_grad)

            new = tree_map_only(torch.Tensor, changed, given)
            if strides(new) not in seen:
                seen.add(strides(new))
                yield tree_map(to_card, new)


def differences(op, dtype, samples: int) -> dict[str, str]:
    """The operators that op calls, forward and backward, with results that differ in layout
    from core's meta functions. Runs at most so many of op's samples."""
    differentiable = op.supports_autograd and dtype.is_floating_point
    inputs = list(op.sample_inputs("cpu", dtype, requires_grad=differentiable))
    found = {}
    for sample in inputs[:: max(1, len(inputs) // samples)][:samples]:
        for args, kwargs in variants(sample):
            mode = Layouts()
            try:
                with mode:
                    out = op.op(*args, **kwargs)
                    if differentiable:
                        gradients(out, (args, kwargs))
            except torch.AcceleratorError:
                raise
            except Exception:  # noqa: S110 # other tests check what the card refuses
                pass
            found = mode.differences | found
    return found


def gradients(out, inputs):
    outs, ins = (
        [t for t in tree_leaves(tree) if isinstance(t, torch.Tensor) and t.requires_grad]
        for tree in (out, inputs)
    )
    if outs and ins:
        torch.autograd.grad(outs, ins, [torch.ones_like(o) for o in outs], allow_unused=True)
