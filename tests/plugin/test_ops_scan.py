# SPDX-License-Identifier: BSD-3-Clause
"""Scans: cumulative sums, products and extremes, compared with the CPU."""

import pytest
import torch

from ops import ALL, check, values, with_gradients


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 100])
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_scans(name, length):
    for dtype in ALL:
        x = values(3, length, 2, dtype=dtype, low=-1.5, high=1.5)
        tolerance = {torch.float16: {"rtol": 2e-2, "atol": 2e-2},
                     torch.bfloat16: {"rtol": 6e-2, "atol": 6e-2},
                     torch.float32: {"rtol": 1e-4, "atol": 1e-4}}.get(dtype, {})
        check(lambda x: getattr(x, name)(1), x, **tolerance)
        check(lambda x: getattr(x.transpose(0, 2), name)(1), x, **tolerance)
    x = values(length)
    check(lambda x: getattr(x, name)(0, dtype=torch.float64), x)


def test_scans_in_place_and_backward():
    x = values(5, 9)
    check(lambda x: x.clone().cumsum_(1), x, rtol=1e-5, atol=1e-5)
    check(with_gradients(lambda x: x.cumsum(0)), x, rtol=1e-5, atol=1e-5)
    check(with_gradients(lambda x: x.logcumsumexp(1)), x, rtol=1e-4, atol=1e-4)
    x[2, 3] = float("inf")
    x[3, 4] = float("nan")
    for scan in [torch.cumsum, torch.logcumsumexp]:
        check(lambda x: scan(x, 1), x, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("length", [16384, 16385, 50000])
def test_long_rows(length):
    """The card scans rows in pieces of 16384 elements."""
    x = values(3, length, low=-0.1, high=0.1)
    for scan in [torch.cumsum, torch.logcumsumexp]:
        check(lambda x: scan(x, 1), x, rtol=1e-5, atol=1e-5)
        check(lambda x: scan(x.t().contiguous(), 0), x, rtol=1e-5, atol=1e-5)
    check(lambda x: (1 + x / 100).cumprod(1), x, rtol=1e-4, atol=1e-5)
    check(lambda x: list(x.cummax(1)), x)
    check(lambda x: (x > 0).cumsum(1), x)
    check(lambda x: (x * 100).int().cumsum(1, dtype=torch.int16), x)


def test_scans_into_another_dtype():
    x = values(5, 70, low=-3, high=3)
    for dtype in set(ALL) - {torch.bool}:  # the CPU has no cumsum in bool
        check(lambda x: x.cumsum(1, dtype=dtype), x, rtol=2e-2, atol=2e-2)
    out = torch.empty(5, 70, dtype=torch.float64, device="openreg")
    torch.cumsum(x.to("openreg"), 1, out=out)
    assert torch.equal(out.cpu(), torch.cumsum(x.double(), 1))


@pytest.mark.parametrize("function", [torch.cummax, torch.cummin])
def test_running_extremes(function):
    for x in [values(3, 37), values(4, 9).round(), values(3, 8, dtype=torch.int64), torch.tensor(2.0)]:
        check(lambda x: list(function(x, 0)), x)
        check(lambda x: list(function(x, -1)), x)
    x = values(3, 9)
    x[1, 4] = float("nan")
    check(lambda x: list(function(x, 1)), x)
