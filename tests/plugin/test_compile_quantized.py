# SPDX-License-Identifier: BSD-3-Clause
"""torch.compile of products with quantized weights: one operator, which reads 8 bits a weight."""

import pytest
import torch
from compiled import DEV, fresh, randn  # noqa: F401
from ops import no_fallback
from torch._inductor.utils import run_and_get_code

pytestmark = [pytest.mark.native, pytest.mark.usefixtures("fresh")]

N, K = 24, 64


def weight():
    return torch.randint(-128, 128, (N, K), dtype=torch.int8, generator=torch.Generator().manual_seed(0))


def scales(*shape, dtype):
    return (randn(*shape).abs() / 100 + 0.001).to(dtype)


def by_linear(x, w, s):
    return torch.nn.functional.linear(x, w.to(x.dtype)) * s


def by_cast_view(x, w, s):
    return torch.mm(x.reshape(-1, K), w.t().to(x.dtype)) * s.to(x.dtype).flatten()


def scale_first(x, w, s):
    return s * torch.mm(x.reshape(-1, K), w.to(x.dtype).t())


def transposed(x, w, s):
    return torch.mm(x.reshape(-1, K), w.to(x.dtype)) * s


FUSED = {
    "linear": (by_linear, (5, K), (N,)),
    "linear of 3 dimensions": (by_linear, (2, 3, K), (N,)),
    "cast of a view": (by_cast_view, (2, 3, K), (N, 1)),
    "one scale": (by_cast_view, (5, K), (1, 1)),
    "scale first": (scale_first, (5, K), (N,)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", FUSED)
def test_one_operator(name, dtype):
    function, shape, scale_shape = FUSED[name]
    args = randn(*shape, dtype=dtype), weight(), scales(*scale_shape, dtype=dtype)
    with no_fallback():
        found, (code,) = run_and_get_code(torch.compile(function), *(a.to(DEV) for a in args))
    assert "_weight_int8pack_mm" in code and "extern_kernels.mm" not in code
    want = function(*(a.double() if a.is_floating_point() else a for a in args))
    near = 1e-4 if dtype == torch.float32 else 3e-2
    torch.testing.assert_close(found.cpu().double(), want, rtol=near, atol=near)
    assert found.dtype == dtype


def test_a_weight_with_columns_first():
    args = randn(5, K), weight().t().contiguous(), scales(N, dtype=torch.float32)
    found, (code,) = run_and_get_code(torch.compile(transposed), *(a.to(DEV) for a in args))
    assert "_weight_int8pack_mm" in code
    torch.testing.assert_close(found.cpu(), transposed(*args), rtol=1e-4, atol=1e-4)


def rows_scaled(x, w, s):
    return torch.mm(x, w.t().to(x.dtype)) * s


def twice(x, w, s):
    product = torch.mm(x, w.t().to(x.dtype))
    return product * s, product + 1



KEPT = {
    "a scale for each row": (rows_scaled, (N, 1)),
    "a full scale": (rows_scaled, (N, N)),
    "another user": (twice, (N,)),
}


@pytest.mark.parametrize("name", KEPT)
def test_other_products_stay(name):
    function, scale_shape = KEPT[name]
    args = randn(N, K), weight(), scales(*scale_shape, dtype=torch.float32)
    found, (code,) = run_and_get_code(torch.compile(function), *(a.to(DEV) for a in args))
    assert "_weight_int8pack_mm" not in code
    want = function(*args)
    torch.testing.assert_close(
        [t.cpu() for t in found] if isinstance(found, tuple) else found.cpu(),
        list(want) if isinstance(want, tuple) else want, rtol=1e-4, atol=1e-4)


def test_out_dtype():
    """torch's operator for products of bytes is _int_mm, and does not cast the matrices."""
    from torch._higher_order_ops.out_dtype import out_dtype

    a, b = weight().to(DEV), weight().t().to(DEV)
    torch.openreg.reset_fallbacks()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        found = out_dtype(torch.ops.aten.mm.default, torch.int32, a, b)
    assert torch.equal(found.cpu(), (weight().int() @ weight().int().t()))
    assert "aten::_int_mm" in {event.name for event in profile.events()}
    wide = out_dtype(torch.ops.aten.mm.default, torch.int32, a.short(), b.short())
    assert torch.equal(wide, found)
