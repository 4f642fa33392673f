# SPDX-License-Identifier: BSD-3-Clause
"""Bicubic and trilinear interpolation, and the antialias modes with their wide filters."""

import pytest
import torch
import torch.nn.functional as F
from ops import FLOATS, check, no_fallback, to_card, values, with_gradients

SIZES = [(10, 14), (3, 4), (1, 1), (5, 9), (2, 30)]
# The card sums half types in float32; the CPU rounds between the axes.
TOLERANCE = {
    torch.float32: {"rtol": 1e-4, "atol": 5e-4},
    torch.float64: {"rtol": 1e-9, "atol": 1e-9},
    torch.float16: {"rtol": 1e-2, "atol": 2e-2},
    torch.bfloat16: {"rtol": 5e-2, "atol": 1e-1},
}


def both(x, **keys):
    check(lambda t: F.interpolate(t, **keys), x, **TOLERANCE[x.dtype])
    if x.element_size() > 2:
        check(with_gradients(lambda t: F.interpolate(t, **keys)), x, **TOLERANCE[x.dtype])


# Without two kinds: the CPU has no wide filters for half types, and lanczos has no
# align_corners.
KINDS = [("bicubic", False, a, d) for a in (False, True) for d in FLOATS]
KINDS += [(m, True, a, d) for m in ("bilinear", "bicubic") for a in (False, True) for d in FLOATS[:2]]
KINDS += [("lanczos", True, False, d) for d in FLOATS[:2]]


@pytest.mark.parametrize(("mode", "widened", "align", "dtype"), KINDS)
def test_planes(mode, widened, align, dtype):
    keys = {"mode": mode, "align_corners": align, "antialias": widened}
    for shape in [(2, 3, 5, 7), (1, 1, 1, 1), (1, 2, 16, 3)]:
        x = values(*shape, dtype=dtype)
        for size in SIZES:
            both(x, size=size, **keys)
        both(x, scale_factor=1.7, **keys)
        check(lambda t: F.interpolate(t, scale_factor=1.1, **keys), x, **TOLERANCE[dtype])
    wide = values(2, 9, 8, 4, dtype=dtype).permute(0, 3, 1, 2)
    both(wide, size=(5, 11), **keys)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("align", [False, True])
def test_trilinear(align, dtype):
    keys = {"mode": "trilinear", "align_corners": align}
    for shape in [(2, 3, 4, 5, 6), (1, 1, 1, 1, 1), (1, 2, 3, 1, 8)]:
        x = values(*shape, dtype=dtype)
        for size in [(2, 7, 9), (1, 1, 1), (8, 10, 12)]:
            both(x, size=size, **keys)
        both(x, scale_factor=1.6, **keys)
        both(x, scale_factor=1.1, **keys)


@pytest.mark.parametrize(("mode", "widened"), [("bicubic", False), ("bilinear", True)])
def test_gradients_where_a_scale_keeps_the_size(mode, widened):
    """Checked numerically: the CPU's gradients do not belong to its own forward here."""
    x = to_card(values(1, 2, 5, 7, dtype=torch.float64)).requires_grad_()
    keys = {"scale_factor": 1.1, "mode": mode, "antialias": widened}
    assert F.interpolate(x, **keys).shape == x.shape
    assert torch.autograd.gradcheck(lambda t: F.interpolate(t, **keys), x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_wide_filters_of_halves(mode, dtype):
    x = values(2, 3, 9, 7, dtype=dtype)
    keys = {"size": (4, 10), "mode": mode, "antialias": True}
    with no_fallback():
        got = F.interpolate(to_card(x), **keys).cpu()
    assert torch.equal(got, F.interpolate(to_card(x.float()), **keys).cpu().to(dtype))


@pytest.mark.parametrize("widened", [False, True])
def test_nan_does_not_spread(widened):
    x = values(1, 1, 12, 12)
    x[0, 0, 3, 5] = torch.nan
    for size in [(24, 30), (4, 6)]:
        check(
            lambda t, size=size: F.interpolate(t, size=size, mode="bicubic", antialias=widened),
            x,
            rtol=1e-4,
            atol=1e-4,
        )


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_infinity_outside_the_filter(mode):
    """Elements at the edge have fewer taps. An infinity outside of them must not count."""
    x = torch.zeros(1, 1, 4, 12)
    x[0, 0, 0, 0], x[0, 0, 3, 9] = torch.inf, -torch.inf
    for size in [(4, 5), (2, 7)]:
        call = lambda t, size=size: F.interpolate(t, size=size, mode=mode, antialias=True)
        check(call, x)
        grad = torch.zeros(1, 1, *size)
        grad[0, 0, 0, 0] = torch.inf
        leaf = torch.zeros(1, 1, 4, 12, requires_grad=True)
        back = lambda t, g, call=call: torch.autograd.grad(call(t), t, g)[0]
        want = back(leaf, grad)
        with no_fallback():
            got = back(to_card(leaf.detach()).requires_grad_(), to_card(grad)).cpu()
        # The CPU also multiplies infinities by weights of zero, so it may have more NaNs.
        assert not (want.isfinite() & ~got.isfinite()).any() and not got.isfinite().all()


@pytest.mark.parametrize("mode", ["nearest", "bicubic"])
def test_nothing_and_bad_sizes(mode):
    with no_fallback():
        empty = torch.zeros(0, 2, 3, 3, device="openreg")
        assert F.interpolate(empty, scale_factor=2, mode=mode).shape == (0, 2, 6, 6)
    for x in [values(1, 1, 4, 4), to_card(values(1, 1, 4, 4))]:
        with pytest.raises(RuntimeError, match="greater than 0"):
            F.interpolate(x, size=(0, 3), mode=mode)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
@pytest.mark.parametrize("sizes", [((6, 10), (24, 25)), ((32, 3), (8, 7)), ((97, 2), (101, 150))])
def test_periods(mode, sizes):
    """Ratios with runs of one element, of many elements, and with so many runs that an
    index per element is cheaper."""
    small, large = sizes
    for layout in (torch.contiguous_format, torch.channels_last):
        x = values(2, 3, *small).contiguous(memory_format=layout)
        both(x, size=large, mode=mode)
    if mode == "nearest":
        check(lambda t: F.interpolate(t, size=large), values(1, 2, *small).mul(9).byte())
