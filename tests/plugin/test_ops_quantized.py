# SPDX-License-Identifier: BSD-3-Clause
"""Products of integers, and products with quantized weights."""

import pytest
import torch

from ops import no_fallback, values

HALVES = [torch.float16, torch.bfloat16]
TYPES = [torch.float32, *HALVES]


def integers(*size, dtype=torch.int8, seed=0):
    info = torch.iinfo(dtype)
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(info.min, info.max + 1, size, dtype=dtype, generator=generator)


def wide(a, b):
    return (a.long() @ b.long()).int()


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (17, 32, 20), (3, 70, 1000), (130, 65, 64), (4, 5, 0), (0, 3, 4)])
def test_int_mm(dtype, m, n, k):
    a, b = integers(m, k, dtype=dtype), integers(k, n, seed=1)
    with no_fallback():
        x, y = a.openreg(), b.openreg()
        got = torch._int_mm(x, y)
        across = torch._int_mm(x.t().contiguous().t(), y.t().contiguous().t())
        out = torch.full((m, n), 7, dtype=torch.int32, device="openreg")
        torch._int_mm(x, y, out=out)
        gaps = torch._int_mm(x[:, ::2], y[::2, ::2])
    want = wide(a, b)
    for result in (got, across, out):
        assert result.dtype == torch.int32
        assert torch.equal(result.cpu(), want)
    assert torch.equal(gaps.cpu(), wide(a[:, ::2], b[::2, ::2]))


def test_int_mm_is_the_cpus():
    a, b = integers(33, 300), integers(300, 24, seed=1)
    assert torch.equal(torch._int_mm(a.openreg(), b.openreg()).cpu(), torch._int_mm(a, b))


def test_int_mm_wraps():
    """A sum beyond 31 bits wraps, as that of the CPU's instructions does."""
    k = 140000
    a = torch.full((2, k), -128, dtype=torch.int8)
    b = torch.full((k, 3), -128, dtype=torch.int8)
    got = torch._int_mm(a.openreg(), b.openreg()).cpu()
    want = (128 * 128 * k + 2**31) % 2**32 - 2**31
    assert torch.equal(got, torch.full((2, 3), want, dtype=torch.int32))


def test_int_mm_refuses():
    a, b = integers(17, 8).openreg(), integers(8, 16).openreg()
    for call, text in [
        (lambda: torch._int_mm(a[0], b), "Expected self to be of dimension 2 but got 1"),
        (lambda: torch._int_mm(a, b[0]), "Expected mat2 to be of dimension 2 but got 1"),
        (lambda: torch._int_mm(a, b[:7]), r"self.size\(1\) needs to match mat2.size\(0\) but got 8 and 7"),
        (lambda: torch._int_mm(a.float(), b), "Expected self dtype to be of type int8 or uint8 but got float"),
        (lambda: torch._int_mm(a, b.int()), "Expected mat2 dtype to be of type int8 but got int"),
        (lambda: torch._int_mm(a, b, out=a.new_empty(17, 16)), "Expected result dtype to be of type kInt"),
        (lambda: torch._int_mm(a, b, out=a.new_empty(17, 15, dtype=torch.int32)), r"Expected result.size\(1\) to be 16 but got 15"),
        (lambda: torch._int_mm(a, b.cpu()), "Expected all tensors to be on the same device"),
    ]:
        with pytest.raises(RuntimeError, match=text):
            call()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("m", [1, 2, 5, 16, 17, 64])
@pytest.mark.parametrize("n, k", [(1, 1), (48, 64), (30, 333), (515, 512)])
def test_int8pack_mm(dtype, m, n, k):
    a, b = values(m, k, dtype=dtype, low=-1, high=1), integers(n, k)
    scales = values(n, dtype=dtype, low=0.001, high=0.01)
    with no_fallback():
        got = torch._weight_int8pack_mm(a.openreg(), b.openreg(), scales.openreg())
    want = (a.double() @ b.double().t() * scales.double()).to(dtype)
    near = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}[dtype]
    assert got.dtype == dtype
    torch.testing.assert_close(got.cpu(), want, rtol=near, atol=near * k**0.5 / 4)


def test_int8pack_mm_of_strides():
    """Activations and weights in any layout, and scales of another type."""
    a, b = values(6, 128), integers(20, 128)
    scales = values(40, low=0.001, high=0.01)
    with no_fallback():
        want = torch._weight_int8pack_mm(a.openreg(), b.openreg(), scales[::2].openreg())
        x = a.t().contiguous().openreg().t()
        y = b.t().contiguous().openreg().t()
        got = torch._weight_int8pack_mm(x, y, scales.openreg()[::2])
        few = torch._weight_int8pack_mm(a.openreg()[:, ::2], b.openreg()[:, ::2], scales[::2].bfloat16().openreg())
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-4)
    exact = a[:, ::2] @ b[:, ::2].float().t() * scales[::2].bfloat16().float()
    torch.testing.assert_close(few.cpu(), exact, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("m", [1, 40])
def test_special_scales(m):
    """A scale that is NaN or infinite is in its column, and nowhere else."""
    a, b = torch.ones(m, 64), torch.ones(8, 64, dtype=torch.int8)
    scales = torch.ones(8)
    scales[3], scales[5] = float("nan"), float("inf")
    got = torch._weight_int8pack_mm(a.openreg(), b.openreg(), scales.openreg())
    want = torch.full((m, 8), 64.0) * scales
    torch.testing.assert_close(got.cpu(), want, equal_nan=True)


def test_int8pack_mm_refuses():
    a, b, scales = values(3, 16).openreg(), integers(8, 16).openreg(), values(8).openreg()
    mm = torch._weight_int8pack_mm
    for call, text in [
        (lambda: mm(a.double(), b, scales), "expect A to be either 32-bit or 16-bit float tensor, but got double"),
        (lambda: mm(a[0], b, scales), "expect A to be 2D tensor, but got 1D; flatten"),
        (lambda: mm(a, b.int(), scales), "expect B to be int8 tensor, but got int"),
        (lambda: mm(a, b[0], scales), "expect B to be 2D tensor"),
        (lambda: mm(a, b[:, :8], scales), r"expect B.size\(1\) == 16, but got 8"),
        (lambda: mm(a, b, scales[:7]), r"expect scales to be 1d tensor with size 8, but got \[7\]"),
        (lambda: mm(a, b, scales[None]), r"expect scales to be 1d tensor with size 8, but got \[1, 8\]"),
        (lambda: mm(a, b, scales.double()), "expect scales to be float32, float16 or bfloat16, but got double"),
        (lambda: mm(a, b, scales.cpu()), "Expected all tensors to be on the same device"),
    ]:
        with pytest.raises(RuntimeError, match=text):
            call()


def pack(q, inner):
    """q: values 0 to 15, as [n, k]. Torch has the first of two in the upper bits."""
    pairs = q[:, ::2] << 4 | q[:, 1::2]
    return torch._convert_weight_to_int4pack(pairs.openreg(), inner)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("m", [1, 3, 16, 40])
@pytest.mark.parametrize("n, k, group, inner", [(8, 32, 32, 2), (48, 256, 64, 8), (520, 512, 128, 4), (16, 1024, 256, 8)])
def test_int4pack_mm(dtype, m, n, k, group, inner):
    a = values(m, k, dtype=dtype, low=-1, high=1)
    q = integers(n, k, dtype=torch.uint8) & 15
    scales = torch.stack(
        [values(k // group, n, low=0.01, high=0.1), values(k // group, n, seed=1)], dim=2
    ).to(dtype if dtype in HALVES else torch.bfloat16)
    with no_fallback():
        packed = pack(q, inner)
        got = torch._weight_int4pack_mm(a.openreg(), packed, group, scales.openreg())
    assert packed.shape == (n // 8, k // (inner * 16), 32, inner // 2)
    assert packed.dtype == torch.int32
    scale, zero = (s.double().t().repeat_interleave(group, 1) for s in scales.unbind(2))
    want = (a.double() @ ((q.double() - 8) * scale + zero).t()).to(dtype)
    near = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 2e-2}[dtype]
    torch.testing.assert_close(got.cpu(), want, rtol=near, atol=near * k**0.5 / 4)


def test_int4pack_shapes_are_cores():
    """The sizes are those that core's functions for traces give."""
    for n, k, inner in [(8, 64, 4), (24, 256, 8), (64, 96, 2)]:
        q = torch.zeros(n, k // 2, dtype=torch.uint8)
        want = torch._convert_weight_to_int4pack(q.to("meta"), inner)
        got = torch._convert_weight_to_int4pack(q.openreg(), inner)
        assert (got.shape, got.stride(), got.dtype) == (want.shape, want.stride(), want.dtype)


def test_int4pack_mm_refuses():
    q = torch.zeros(16, 64, dtype=torch.uint8)
    packed, a = pack(q, 2), values(3, 64).openreg()
    scales = torch.zeros(2, 16, 2, device="openreg")
    mm, convert = torch._weight_int4pack_mm, torch._convert_weight_to_int4pack
    q = q.openreg()
    for call, text in [
        (lambda: convert(q[:, :31], 2), "expect K to be dividable by innerKTiles . 16 = 32, but got 62; pad"),
        (lambda: convert(q[:9], 2), "expect N to be dividable by 8, but got 9; pad"),
        (lambda: convert(q, 3), "innerKTiles needs to be 2, 4, or 8, but got 3"),
        (lambda: convert(q.int(), 2), "expect weight to be kByte, with two values in a byte, but got int"),
        (lambda: convert(q[0], 2), "expect weight to be 2D tensor"),
        (lambda: mm(a.double(), packed, 32, scales), "expect A to be either 32-bit or 16-bit float tensor"),
        (lambda: mm(a, packed[0], 32, scales), "expect B to be 4D int32 tensor of _convert_weight_to_int4pack"),
        (lambda: mm(a[:, :32], packed, 32, scales), "with K = 32, as A has it, but its K is 64"),
        (lambda: mm(a, packed, 16, scales), "expect qGroupSize to be 32, 64, 128 or 256, got 16"),
        (lambda: mm(a, packed, 128, scales), "expect K to be divisible by qGroupSize, got K:64, qGroupSize:128"),
        (lambda: mm(a, packed, 32, scales[:1]), r"with sizes \[2, 16, 2\], but got \[1, 16, 2\]"),
        (lambda: mm(a, packed, 32, scales.double()), "expect qScaleAndZeros to be float32, float16 or bfloat16"),
    ]:
        with pytest.raises(RuntimeError, match=text):
            call()
