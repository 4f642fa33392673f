# SPDX-License-Identifier: MIT
"""Operators with faults on the device, or odd but right results, for --own-ops."""

import os
import time

import torch
from torch.testing import make_tensor
from torch.testing._internal.common_dtype import floating_types
from torch.testing._internal.opinfo.core import ErrorInput, OpInfo, SampleInput


def on_device(t: torch.Tensor) -> bool:
    return t.device.type != "cpu"


def samples(op, device, dtype, requires_grad, **_):
    for shape in ((4,), (3, 4), ()):
        yield SampleInput(
            make_tensor(
                shape, device=device, dtype=dtype, requires_grad=requires_grad, low=1
            )
        )


def right(x):
    return x + 1


def wrong_value(x):
    return x + (2 if on_device(x) else 1)


def wrong_when_strided(x):
    return x + (2 if on_device(x) and not x.is_contiguous() else 1)


def wrong_dtype(x):
    return (x + 1).to(torch.float64) if on_device(x) else (x + 1).to(torch.float32)


def wrong_device(x):
    return (x + 1).cpu()


def nearly(x):
    """Differs in the last bits, like a sum in another order."""
    return x * (1 + 1e-7) if on_device(x) else x * 1


def steep(x):
    """Differs as much as the rounding of the input can change the result."""
    return (8 * x.double() * (1 + 6e-8 if on_device(x) else 1)).exp().to(x.dtype)


def too_steep(x):
    return (8 * x * (1 + 3e-6 if on_device(x) else 1)).exp()


def tied(op, device, dtype, requires_grad, **_):
    for rows in ([2, 1, 2, 1], [[3, 3, 4], [1, 0, 0]]):
        yield SampleInput(torch.tensor(rows, device=device, dtype=dtype))


def topk(x):
    """The minimum of each row and its index; of equal minima the last on the device, the
    first on the CPU."""
    values, indices = torch.sort(x, stable=True)
    at = values.eq(values[..., :1]).sum(-1, keepdim=True) - 1
    at = at if on_device(x) else at * 0
    return values.gather(-1, at), indices.gather(-1, at)


def max_of_rows(x):
    """The same as topk, but its name is not in TIES, so its index must be the CPU's."""
    return topk(x)


def kthvalue(x):
    values, indices = topk(x)
    return values, (indices + 1) % x.size(-1) if on_device(x) else indices


class WrongGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.on_device = on_device(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * (3 if ctx.on_device else 2)


def wrong_in_place(x):
    return x + 1 if on_device(x) else x.add_(1)


def out_of_nothing(x, out=None):
    """Returns None with out=, like split_copy."""
    if out is None:
        return x + 1
    torch.add(x, 1, out=out)
    return None


def left_by_the_cpu(x, out=None):
    """With out=, returns a wrong result on both sides, but the same."""
    return x + 1 if out is None else out.zero_()


def wrong_out(x, out=None):
    if out is None:
        return x + 1
    if on_device(x):
        return x + 1  # does not write to out
    return torch.add(x, 1, out=out)


def crash(x):
    if on_device(x):
        os.abort()
    return x + 1


def hang(x):
    while on_device(x):
        time.sleep(1)
    return x + 1


def crash_on_cpu(x):
    if not on_device(x):
        os.abort()
    return x + 1


def missing(x):
    if on_device(x):
        raise NotImplementedError("no kernel for this")
    return x + 1


def refused(x):
    raise RuntimeError("not for this type")


def extra(x):
    if not on_device(x):
        raise RuntimeError("not on the CPU")
    return x + 1


def random(x):
    if on_device(x):
        torch.rand(1)
    return torch.rand(x.shape, dtype=x.dtype).to(x.device)


def picky(x):
    if not on_device(x) and x.dim() > 2:
        raise ValueError("too many dimensions")
    return x + 1


def odd_sizes_of_the_cpu(x):
    return x + 1 if x.numel() or on_device(x) else x.new_zeros(1)


def broadcast_by_the_cpu(x):
    """For an empty matrix: one element on the CPU, a row of three elsewhere."""
    if x.numel() or x.dim() < 2:
        return x + 1
    return x.new_ones(()) if x.device.type == "cpu" else x.new_ones(3)


def wrong_when_broadcast(x):
    if x.numel() or x.dim() < 2:
        return x + 1
    if x.device.type == "cpu":
        return x.new_ones(())
    return x.new_full((3,), 2 if x.device.type != "meta" else 1)


def wrong_sizes(x):
    return x + 1 if x.numel() or x.device.type in ("cpu", "meta") else x.new_empty(0, 9)


def bad_arguments(op, device, **_):
    yield ErrorInput(SampleInput(torch.ones(1, 1, 1)), error_regex="too many")


def info(f, **more) -> OpInfo:
    more.setdefault("sample_inputs_func", samples)
    more.setdefault("supports_out", False)
    more.setdefault("inplace_variant", None)
    return OpInfo(
        f"fake.{f.__name__}",
        op=f,
        dtypes=floating_types(),
        **more,
    )


def wrong_gradient(x):
    return WrongGradient.apply(x)


def in_place(x):
    return x + 1


op_db = [
    *map(info, (right, wrong_value, wrong_when_strided, wrong_dtype, wrong_device)),
    *map(info, (nearly, crash, hang, crash_on_cpu, missing, refused, extra, random)),
    *map(info, (odd_sizes_of_the_cpu, wrong_sizes, wrong_gradient)),
    *map(info, (broadcast_by_the_cpu, wrong_when_broadcast, steep, too_steep)),
    info(max_of_rows, sample_inputs_func=tied, supports_autograd=False),
    info(topk, sample_inputs_func=tied, supports_autograd=False),
    info(kthvalue, sample_inputs_func=tied, supports_autograd=False),
    info(picky, error_inputs_func=bad_arguments),
    info(in_place, inplace_variant=wrong_in_place),
    info(wrong_out, supports_out=True),
    info(out_of_nothing, supports_out=True),
    info(left_by_the_cpu, supports_out=True),
]
