# SPDX-License-Identifier: BSD-3-Clause
"""flip, roll, and interpolation."""

import pytest
import torch
import torch.nn.functional as F
from ops import ALL, check, no_fallback, to_card, values

SHAPES = [(7,), (3, 5), (2, 3, 4), (1, 4, 1, 6), (0, 3)]


@pytest.mark.parametrize("dtype", ALL)
def test_flip(dtype):
    for shape in SHAPES:
        x = values(*shape, dtype=dtype)
        for dims in [[], [0], [-1], list(range(x.dim()))]:
            check(lambda t, dims=dims: t.flip(dims), x)


def test_flip_of_views():
    x = values(6, 8)
    check(lambda t: t.t().flip(0), x)
    check(lambda t: t[::2, 1:].flip(0, 1), x)
    check(lambda t: t[:1].expand(4, 8).flip(1), x)
    check(lambda t: torch.view_as_real(torch.view_as_complex(t.view(6, 4, 2)).flip(1)), x)
    with pytest.raises(RuntimeError, match="appears multiple times"):
        to_card(x).flip(0, 0)


@pytest.mark.parametrize("dtype", ALL)
def test_roll(dtype):
    for shape in SHAPES:
        x = values(*shape, dtype=dtype)
        for shift in [0, 1, -2, 100]:
            check(lambda t, shift=shift: t.roll(shift), x)
            check(lambda t, shift=shift: t.roll(shift, -1), x)
    x = values(4, 5, 6)
    check(lambda t: t.roll((1, -7, 3), (0, 2, 0)), x)
    check(lambda t: t.permute(2, 0, 1).roll((2, 1), (1, 2)), x)
    with pytest.raises(RuntimeError, match="shifts and dimensions must align"):
        to_card(x).roll((1, 2), 0)


def both(function, x, **tolerance):
    """Compares forward and backward with the CPU."""

    def run(t):
        t = t.detach().requires_grad_()
        y = function(t)
        weight = torch.arange(y.numel(), dtype=y.dtype).reshape(y.shape) / y.numel()
        y.backward(weight.to(y.device))
        return y.detach(), t.grad

    check(run, x, **tolerance)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_nearest(mode):
    for shape in [(2, 3, 7), (2, 3, 5, 7), (1, 2, 3, 4, 5)]:
        x = values(*shape)
        for scale in [2.0, 1.5, 0.7]:
            both(lambda t, s=scale: F.interpolate(t, scale_factor=s, mode=mode), x)
        size = tuple(range(3, 3 + len(shape) - 2))
        both(lambda t, size=size: F.interpolate(t, size=size, mode=mode), x)


@pytest.mark.parametrize("align", [False, True])
def test_bilinear(align):
    for shape in [(2, 3, 5, 7), (1, 1, 1, 1), (1, 2, 8, 3)]:
        x = values(*shape)
        for size in [(10, 14), (3, 4), (1, 1), (5, 9)]:
            both(
                lambda t, size=size: F.interpolate(
                    t, size=size, mode="bilinear", align_corners=align
                ),
                x,
                rtol=1e-5,
                atol=1e-5,
            )
        for scale in [1.7, 1.1]:  # 1.1 keeps small sizes
            both(
                lambda t, s=scale: F.interpolate(
                    t, scale_factor=s, mode="bilinear", align_corners=align
                ),
                x,
                rtol=1e-5,
                atol=1e-5,
            )
