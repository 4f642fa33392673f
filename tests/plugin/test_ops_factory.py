# SPDX-License-Identifier: BSD-3-Clause
"""Creating and joining tensors on the card, compared with the CPU."""

import math

import pytest
import torch

from ops import ALL, FLOATS, INTS, check, no_fallback, to_card, values


def same(make, **tolerance):
    """make(device) returns the same tensor on the CPU and on the card."""
    with no_fallback():
        got = make("openreg")
    assert got.device.type == "openreg"
    torch.testing.assert_close(got.cpu(), make("cpu"), **tolerance)


@pytest.mark.parametrize("dtype", ALL)
def test_constants(dtype):
    same(lambda d: torch.zeros(3, 4, dtype=dtype, device=d))
    same(lambda d: torch.ones(3, 4, dtype=dtype, device=d))
    same(lambda d: torch.full((3, 4), 1, dtype=dtype, device=d))
    same(lambda d: torch.eye(3, 5, dtype=dtype, device=d))
    same(lambda d: torch.ones(5, 6, dtype=dtype, device=d)[1::2, ::3].zero_())


def test_fill():
    x = torch.zeros(4, 6, device="openreg")
    with no_fallback():
        x[:, 1::2].fill_(2.5)
        x[0].fill_(torch.tensor(7.0))
        x.t()[2].fill_(to_card(torch.tensor(-1.0)))
    want = torch.zeros(4, 6)
    want[:, 1::2] = 2.5
    want[0] = 7
    want.t()[2] = -1
    torch.testing.assert_close(x.cpu(), want)
    torch.zeros(0, device="openreg").fill_(3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64,
                                   torch.float8_e4m3fn, torch.float8_e5m2, torch.int8,
                                   torch.int32, torch.complex64])
def test_fill_with_a_number_too_large(dtype):
    """A single half becomes infinite; several, and other types, refuse the number. The CPU
    does the same."""
    for value in (300, 1e5, -1e5, 1e6, 1e40, -1e40, math.inf, math.nan):
        for shape in ((), (1,), (2,), (3, 4)):
            try:
                want = torch.zeros(shape, dtype=dtype).fill_(value)
            except RuntimeError:
                with pytest.raises(RuntimeError):
                    torch.zeros(shape, dtype=dtype, device="openreg").fill_(value)
                continue
            got = torch.full(shape, value, dtype=dtype, device="openreg").cpu()
            torch.testing.assert_close(got, want, equal_nan=True, rtol=0, atol=0)


@pytest.mark.parametrize(
    "dtype",
    [torch.complex32, torch.complex64, torch.complex128, torch.uint16, torch.uint32,
     torch.uint64, torch.float8_e4m3fn],
)
def test_the_card_clears_types_that_it_lacks(dtype):
    with no_fallback():
        assert not torch.zeros(3, 5, dtype=dtype, device="openreg").cpu().view(torch.uint8).any()
    x = (torch.arange(24) + 1).to(torch.uint8).view(torch.uint8)
    x = x.repeat(16)[: 24 * dtype.itemsize].view(dtype).view(4, 6)
    y = to_card(x)
    with no_fallback():
        y[1::2, ::3].zero_()
    want = x.clone()
    want.view(torch.uint8).view(4, 6, -1)[1::2, ::3] = 0
    assert torch.equal(y.cpu().view(torch.uint8), want.view(torch.uint8))


def test_fill_with_its_own_element():
    x = to_card(values(64))
    with no_fallback():
        x.fill_(x[7])
    assert torch.equal(x.cpu(), values(64)[7].expand(64))


def test_fill_with_a_tensor_of_another_device():
    number = to_card(torch.tensor(2.0))
    assert torch.zeros(3).fill_(number).tolist() == [2, 2, 2]
    assert torch.zeros(3, device="openreg:1").fill_(number).tolist() == [2, 2, 2]


def test_a_split_triangle_counts_once():
    x = to_card(values(*[2] * 11)).permute(8, 0, 7, 2, 5, 4, 3, 6, 1, 9, 10)
    torch.openreg.reset_op_counts()
    y = x.triu()
    assert torch.openreg.op_counts()["aten::triu"] == 1
    assert torch.equal(y.cpu(), x.cpu().triu())


def test_ranges():
    for dtype in [*INTS, *FLOATS]:
        same(lambda d: torch.arange(10, dtype=dtype, device=d))
        same(lambda d: torch.arange(3, 40, 7, dtype=dtype, device=d))
    same(lambda d: torch.arange(0, 1, 0.1, device=d))
    same(lambda d: torch.arange(5, -5, -2, device=d))
    same(lambda d: torch.arange(0, device=d))
    same(lambda d: torch.linspace(-1, 1, 9, device=d))
    same(lambda d: torch.linspace(3, 7, 5, dtype=torch.float64, device=d))
    with pytest.raises(RuntimeError, match="step"):
        torch.arange(0, 5, -1, device="openreg")


def test_triangles():
    for x in [values(5, 7), values(2, 3, 4, 4), values(6, 4).t(), values(4, 4, dtype=torch.bool)]:
        for diagonal in [-2, 0, 1]:
            check(lambda x: x.tril(diagonal), x)
            check(lambda x: x.triu(diagonal), x)
    x = to_card(values(4, 4))
    torch.testing.assert_close(x.triu_(1).cpu(), values(4, 4).triu(1))


def test_joining():
    a, b = values(2, 3, 4), values(2, 5, 4, seed=1)
    check(lambda a, b: torch.cat([a, b], 1), a, b)
    check(lambda a, b: torch.cat([a, b.double()], 1), a, b)
    check(lambda a, b: torch.cat([a.transpose(0, 2), b.transpose(0, 2)], 1), a, b)
    check(lambda a: torch.stack([a, a + 1], -1), a)
    check(lambda a, b: torch.cat([a[0], b[0, :0], b[0]]), a, b)
    check(lambda a: torch.cat([torch.empty(0, device=a.device), a]), a)
    with pytest.raises(RuntimeError, match="Sizes of tensors must match"):
        torch.cat([to_card(a), to_card(b)])


def test_shapes_need_no_kernel():
    x = values(4, 6)
    with no_fallback():
        y = to_card(x)
        assert torch.equal(y.view(2, 12).cpu(), x.view(2, 12))
        assert torch.equal(y.t().reshape(-1).cpu(), x.t().reshape(-1))
        assert torch.equal(y.unfold(0, 2, 1).contiguous().cpu(), x.unfold(0, 2, 1))
        assert torch.equal(torch.stack(y.chunk(2, 1)).cpu(), torch.stack(x.chunk(2, 1)))


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.complex64], ids=str)
def test_large_fills(dtype):
    x = torch.full((600, 1000), 3, dtype=dtype, device="openreg")
    want = torch.full((600, 1000), 3, dtype=dtype)
    for t in (x, want):
        t[:, ::2].fill_(-7)
    assert torch.equal(x.cpu(), want)
    assert not x.zero_().cpu().any()


def test_large_fills_keep_the_bits():
    x = torch.empty(300000, device="openreg")
    assert x.fill_(-0.0).cpu().signbit().all()
    assert x.fill_(float("nan")).cpu().isnan().all()
