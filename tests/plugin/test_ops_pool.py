# SPDX-License-Identifier: BSD-3-Clause
"""Pooling, compared with the CPU."""

import pytest
import torch
import torch.nn.functional as F
from ops import FLOATS, check, no_fallback, to_card, values

DEV = "openreg"
MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVG = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
ADAPTIVE_AVG = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}
ADAPTIVE_MAX = {1: F.adaptive_max_pool1d, 2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d}
SIZES = {1: (13,), 2: (13, 10), 3: (7, 6, 9)}


def distinct(*size: int, dtype=torch.float32) -> torch.Tensor:
    """Values of which no two in a window are equal, in any dtype."""
    count = torch.Size(size).numel()
    order = torch.randperm(count, generator=torch.Generator().manual_seed(count))
    return (order % 251 - 125).reshape(size).to(dtype)


def gradients(function, x):
    leaf = x.detach().requires_grad_()
    out = function(leaf)
    grad = values(*out.shape, dtype=out.dtype, low=-2, high=2, seed=3)
    out.backward(grad.to(out.device))
    return [out.detach(), leaf.grad]


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize(
    "keywords",
    [
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": 3, "stride": 1, "padding": 1, "dilation": 2},
        {"kernel_size": 2, "stride": 3},
    ],
)
def test_max(dims, ceil_mode, keywords):
    x = distinct(2, 3, *SIZES[dims])
    check(
        lambda t: MAX[dims](t, **keywords, ceil_mode=ceil_mode, return_indices=True), x
    )
    check(lambda t: gradients(lambda u: MAX[dims](u, **keywords, ceil_mode=ceil_mode), t), x)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("count_include_pad", [False, True])
@pytest.mark.parametrize(
    "keywords",
    [
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": 5, "stride": 1, "padding": 2},
    ],
)
def test_avg(dims, ceil_mode, count_include_pad, keywords):
    x = values(2, 3, *SIZES[dims])
    keywords = {**keywords, "ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
    check(lambda t: gradients(lambda u: AVG[dims](u, **keywords), t), x)
    if dims > 1:
        keywords["divisor_override"] = 7
        check(lambda t: gradients(lambda u: AVG[dims](u, **keywords), t), x)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("output", [1, 3, 5, 20])
def test_adaptive(dims, output):
    x = values(2, 3, *SIZES[dims])
    check(lambda t: gradients(lambda u: ADAPTIVE_AVG[dims](u, output), t), x)
    x = distinct(2, 3, *SIZES[dims])
    check(lambda t: ADAPTIVE_MAX[dims](t, output, return_indices=True), x)
    check(lambda t: gradients(lambda u: ADAPTIVE_MAX[dims](u, output), t), x)


@pytest.mark.parametrize("dtype", FLOATS)
def test_dtypes(dtype):
    tolerance = {} if dtype.itemsize > 2 else {"atol": 3e-2, "rtol": 2e-2}
    for function in (
        lambda t: F.avg_pool2d(t, 3, 2, 1),
        lambda t: F.adaptive_avg_pool2d(t, (3, 4)),
    ):
        check(lambda t: gradients(function, t), values(2, 3, 9, 8, dtype=dtype), **tolerance)
    # The card rounds a sum of gradients in a half type once, the CPU after each addend.
    x = distinct(2, 3, 9, 8, dtype=dtype)
    check(lambda t: F.max_pool2d(t, 3, 2, 1, return_indices=True), x)
    check(lambda t: gradients(lambda u: F.max_pool2d(u, 3, 2, 1), t), x, **tolerance)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
def test_integers(dtype):
    x = distinct(2, 3, 9, 8).abs().to(dtype)
    with no_fallback():
        got, index = F.max_pool2d(x.to(DEV), 2, return_indices=True)
    want, places = F.max_pool2d(x.long(), 2, return_indices=True)
    assert torch.equal(got.cpu(), want.to(dtype))
    assert torch.equal(index.cpu(), places)


def test_averages_of_integers():
    """As on the CPU, only of int64."""
    x = distinct(2, 3, 4, 9, 8).abs().long()
    check(lambda t: F.avg_pool2d(t, 2), x[0])
    check(lambda t: F.avg_pool3d(t, 2), x)
    for dtype in (torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool):
        for function, t in ((F.avg_pool1d, x[0, 0]), (F.avg_pool2d, x[0]), (F.avg_pool3d, x)):
            with pytest.raises(NotImplementedError, match="not implemented for"):
                function(t.to(DEV, dtype), 2)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool])
def test_maxima_of_integers_in_one_dimension(dtype):
    """As on the CPU, refused."""
    for device in ("cpu", DEV):
        with pytest.raises(NotImplementedError, match="not implemented for"):
            F.max_pool1d(torch.ones(2, 3, 8, dtype=dtype, device=device), 2)


def test_bool_is_refused():
    x = torch.ones(1, 1, 4, 4, dtype=torch.bool, device=DEV)
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        F.max_pool2d(x, 2)


def test_without_batch():
    check(lambda t: gradients(lambda u: F.max_pool2d(u, 2), t), distinct(3, 8, 8))
    check(lambda t: gradients(lambda u: F.avg_pool3d(u, 2), t), values(3, 4, 8, 8))
    check(lambda t: gradients(lambda u: F.adaptive_avg_pool2d(u, 3), t), values(3, 8, 8))


def test_empty_batch():
    x = torch.empty(0, 3, 8, 8)
    for function in (
        lambda t: F.max_pool2d(t, 2),
        lambda t: F.avg_pool2d(t, 2),
        lambda t: F.adaptive_avg_pool2d(t, 3),
    ):
        check(lambda t: gradients(function, t), x)


def test_layouts():
    x = distinct(2, 6, 9, 8)
    last = x.contiguous(memory_format=torch.channels_last)
    odd = torch.cat([x, x], 3).transpose(2, 3)[:, ::2]
    for t in (last, odd):
        check(lambda u: gradients(lambda v: F.max_pool2d(v, 3, 2, 1), u), t)
        check(lambda u: gradients(lambda v: F.avg_pool2d(v, 3, 2, 1), u), t)
    assert F.max_pool2d(to_card(last), 2).is_contiguous(memory_format=torch.channels_last)
    assert F.avg_pool2d(to_card(last), 2).is_contiguous(memory_format=torch.channels_last)
    space = values(2, 3, 4, 4, 4).contiguous(memory_format=torch.channels_last_3d)
    for function in (lambda t: F.adaptive_avg_pool3d(t, 2), lambda t: F.avg_pool3d(t, 2)):
        assert function(to_card(space)).stride() == function(space).stride()


def test_nan_and_infinity():
    x = distinct(1, 1, 6, 6)
    x[0, 0, 1, 1] = float("nan")
    x[0, 0, 4:, 4:] = -float("inf")
    check(lambda t: F.max_pool2d(t, 2, return_indices=True), x)


def test_out():
    x = values(2, 3, 8, 8)
    card = to_card(x)
    with no_fallback():
        out = torch.empty(0, device=DEV)
        torch._C._nn.avg_pool2d(card, 2, out=out)
        assert torch.allclose(out.cpu(), F.avg_pool2d(x, 2))
        out = torch.empty(0, device=DEV)
        torch._C._nn.adaptive_avg_pool2d(card, (3, 3), out=out)
        assert torch.allclose(out.cpu(), F.adaptive_avg_pool2d(x, (3, 3)))


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_gradcheck(dims):
    x = torch.randperm(2 * 6**dims).reshape(1, 2, *(6,) * dims).double()
    x = x.to(DEV).requires_grad_()
    for function in (
        lambda t: MAX[dims](t, 3, 2, 1),
        lambda t: AVG[dims](t, 3, 2, 1),
        lambda t: ADAPTIVE_AVG[dims](t, 4),
        lambda t: ADAPTIVE_MAX[dims](t, 4),
    ):
        torch.autograd.gradcheck(function, [x], fast_mode=True)
    torch.autograd.gradgradcheck(lambda t: AVG[dims](t, 3, 2, 1), [x], fast_mode=True)
    torch.autograd.gradgradcheck(lambda t: MAX[dims](t, 3, 2, 1), [x], fast_mode=True)


def test_windows_too_large_for_the_card():
    """On the card, a window has at most 2^20 elements. Larger ones fall back."""
    x = torch.ones(1, 1, 1025, 1025)
    x[0, 0, 700, 800] = 3
    for name, function in (
        ("avg_pool2d", lambda t: F.avg_pool2d(t, 1025)),
        ("adaptive_max_pool2d", lambda t: F.adaptive_max_pool2d(t, 1)),
    ):
        torch.openreg.reset_fallbacks()
        torch.testing.assert_close(function(x.to(DEV)).cpu(), function(x))
        assert torch.openreg.fallbacks() == {f"aten::{name}": 1}
    check(lambda t: F.adaptive_max_pool2d(t, 1, return_indices=True), x[:, :, 1:, 1:])


@pytest.mark.parametrize("batch, channels", [(2, 8000), (1, 16000)])
def test_more_work_than_a_packet_allows(batch, channels):
    """More than 2^36 taps, most of them outside of the input."""
    x = values(batch, channels, 1, 4)
    check(lambda t: F.avg_pool2d(t, (1, 1 << 20), 1, (0, 1 << 19)), x)


def test_errors():
    x = values(2, 3, 8, 8)
    for function in (
        lambda t: F.max_pool2d(t, 3, padding=2),
        lambda t: F.max_pool2d(t, 9),
        lambda t: F.max_pool2d(t, 2, stride=0),
        lambda t: F.avg_pool2d(t, 3, padding=2),
        lambda t: F.avg_pool2d(t, 2, divisor_override=0),
        lambda t: F.max_pool3d(t, 9),
        lambda t: F.max_pool3d(t[0, 0], 2),
        lambda t: F.max_pool3d(t, (2, 2)),
        lambda t: F.max_pool3d(t, 2, stride=(2, 2)),
        lambda t: F.max_pool3d(t, 2, padding=(1, 1)),
        lambda t: F.max_pool3d(t, 2, dilation=(1, 1)),
        lambda t: F.max_pool3d(t, 2, padding=2),
        lambda t: F.adaptive_avg_pool2d(t[0, 0], 2),
        lambda t: F.adaptive_avg_pool2d(t[:, :, :0], 2),
        lambda t: F.adaptive_avg_pool3d(t[:, :0].unsqueeze(-1), 2),
        lambda t: gradients(lambda u: F.adaptive_avg_pool1d(u, 2), t[:, :0, 0]),
        lambda t: gradients(lambda u: F.adaptive_avg_pool2d(u, 2), t[:, :0]),
    ):
        with pytest.raises(RuntimeError) as want:
            function(x)
        with pytest.raises(RuntimeError) as got:
            function(x.to(DEV))
        assert str(got.value) == str(want.value)


def test_elements_of_too_many_windows():
    """The gradient of an element in very many windows falls back to the CPU."""
    x = values(1, 2, 1, 1)
    card = x.to("openreg").requires_grad_()
    x.requires_grad_()
    torch.openreg.reset_fallbacks()
    for t in (x, card):
        F.adaptive_avg_pool2d(t, (400, 400)).square().sum().backward()
    torch.testing.assert_close(card.grad.cpu(), x.grad, rtol=1e-4, atol=1e-4)
    assert any("backward" in name for name in torch.openreg.fallbacks())
