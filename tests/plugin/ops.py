# SPDX-License-Identifier: BSD-3-Clause
"""Helpers of the operators' tests: run the same call on the CPU and on the card."""

import contextlib

import torch

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
ALL = [*FLOATS, *INTS, torch.bool]


def values(*size: int, dtype=torch.float32, low=-4.0, high=4.0, seed=0) -> torch.Tensor:
    """Values spread over the range, the same in every run."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.rand(size, generator=generator, dtype=torch.float64)
    numbers = numbers * (high - low) + low
    if dtype == torch.bool:
        return numbers > (low + high) / 2
    if dtype == torch.uint8:
        return numbers.abs().to(dtype)
    return numbers.to(dtype)


def to_card(value):
    """Copies tensors, also in lists and tuples, to the card with their strides. Returns
    any other value unchanged."""
    if isinstance(value, torch.Tensor):
        copy = torch.empty_strided(
            value.size(), value.stride(), dtype=value.dtype, device="openreg"
        )
        return copy.copy_(value)
    if isinstance(value, (list, tuple)):
        return type(value)(to_card(v) for v in value)
    return value


def to_cpu(value):
    if isinstance(value, torch.Tensor):
        return value.cpu()
    if isinstance(value, (list, tuple)):
        return [to_cpu(v) for v in value]
    return value


def as_list(value):
    return [as_list(v) for v in value] if isinstance(value, (list, tuple)) else value


@contextlib.contextmanager
def no_fallback():
    """A context in which a fallback to the CPU is an error."""
    before = torch.openreg.set_fallback("error")
    try:
        yield
    finally:
        torch.openreg.set_fallback(before)


def check(function, *args, **tolerance) -> None:
    """function(*args) has the same result on the card as on the CPU, without fallbacks."""
    want = function(*args)
    with no_fallback():
        got = function(*(to_card(a) for a in args))
    torch.testing.assert_close(
        as_list(to_cpu(got)), as_list(want), equal_nan=True, **tolerance
    )


def with_gradients(function):
    """A function that returns the outputs, and the gradients of all floating-point and
    complex inputs."""

    def differs(a):
        return torch.is_tensor(a) and (a.is_floating_point() or a.is_complex())

    def run(*args):
        args = [
            a.detach().requires_grad_() if differs(a) else a
            for a in args
        ]
        out = function(*args)
        inputs = [a for a in args if torch.is_tensor(a) and a.requires_grad]
        weights = torch.linspace(-1, 1, out.numel(), dtype=out.dtype, device=out.device)
        total = (out * weights.view(out.shape)).sum()
        total = total.real + total.imag if total.is_complex() else total
        return out.detach(), *torch.autograd.grad(total, inputs)

    return run
