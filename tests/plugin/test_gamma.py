# SPDX-License-Identifier: BSD-3-Clause
"""Gamma variates: their distribution, and the same numbers for the same seed."""

import math

import pytest
import torch
from ops import FLOATS, no_fallback

DEV = "openreg"
COUNT = 200_000


def draw(alpha, seed=0, dtype=torch.float32):
    torch.openreg.manual_seed(seed)
    with no_fallback():
        return torch._standard_gamma(torch.full((COUNT,), alpha, dtype=dtype, device=DEV)).cpu()


@pytest.mark.parametrize("alpha", [0.05, 0.3, 0.999, 1.0, 1.5, 3.0, 40.0, 1e4])
@pytest.mark.parametrize("dtype", FLOATS[:2])
def test_distribution(alpha, dtype):
    """The share of numbers below some quantiles is within five standard deviations."""
    x = draw(alpha, dtype=dtype).double()
    assert x.dtype == torch.float64 and (x > 0).all() and x.isfinite().all()
    for at in (alpha * 0.2, alpha * 0.9, alpha, alpha * 1.1, alpha + 2 * math.sqrt(alpha)):
        share = torch.special.gammainc(torch.tensor(alpha, dtype=torch.float64), torch.tensor(at, dtype=torch.float64)).item()
        off = 5 * math.sqrt(share * (1 - share) / COUNT) + 1e-6
        assert abs((x <= at).double().mean().item() - share) <= off
    spread = 5 * math.sqrt(alpha / COUNT)
    assert abs(x.mean().item() - alpha) <= spread


@pytest.mark.parametrize("dtype", FLOATS)
def test_types_and_shapes(dtype):
    with no_fallback():
        for shape in [(), (0,), (3, 4)]:
            alpha = torch.full(shape, 2.0, dtype=dtype, device=DEV)
            assert torch._standard_gamma(alpha).shape == shape
        alpha = torch.rand(4, 6, device=DEV).to(dtype).t() + 1
        got = torch._standard_gamma(alpha)
        assert got.dtype == dtype and got.is_contiguous() and (got > 0).all()


def test_seed_repeats():
    assert torch.equal(draw(0.7, 3), draw(0.7, 3))
    assert not torch.equal(draw(0.7, 3), draw(0.7, 4))
    torch.openreg.manual_seed(3)
    first = torch._standard_gamma(torch.full((9,), 0.7, device=DEV))
    second = torch._standard_gamma(torch.full((9,), 0.7, device=DEV))
    assert not torch.equal(first, second)
    generator = torch.Generator(DEV).manual_seed(3)
    assert torch.equal(torch._standard_gamma(torch.full((9,), 0.7, device=DEV), generator), first)


def test_strides_make_no_difference():
    alpha = torch.rand(5, 7, device=DEV) + 0.2
    torch.openreg.manual_seed(1)
    want = torch._standard_gamma(alpha)
    torch.openreg.manual_seed(1)
    assert torch.equal(torch._standard_gamma(alpha.t().contiguous().t()), want)


def test_odd_parameters():
    x = torch._standard_gamma(torch.tensor([0.0, float("nan"), 1e-30, 1e30], device=DEV)).cpu()
    tiny = torch.finfo(torch.float32).tiny
    assert x[0] == tiny and x[1].isnan() and x[2] == tiny and abs(x[3] / 1e30 - 1) < 1e-5


def test_distributions():
    """torch.distributions with gradients; the CPU computes those of the parameters."""
    a = torch.full((50_000,), 2.5, device=DEV, requires_grad=True)
    x = torch.distributions.Gamma(a, 2.0).rsample()
    assert abs(x.mean().item() - 1.25) < 0.02
    x.sum().backward()
    assert a.grad.isfinite().all() and a.grad.mean() > 0
    beta = torch.distributions.Beta(torch.tensor(2.0, device=DEV), 3.0).sample((20_000,))
    assert abs(beta.mean().item() - 0.4) < 0.01
    t = torch.distributions.StudentT(torch.tensor(5.0, device=DEV)).sample((20_000,))
    assert abs(t.mean().item()) < 0.05


def test_more_dimensions_than_a_packet_has():
    alpha = (torch.rand([2] * 9, device=DEV) + 0.5).permute(*range(8, -1, -1))
    torch.openreg.manual_seed(1)
    x = torch._standard_gamma(alpha)
    torch.openreg.manual_seed(1)
    assert torch.equal(x, torch._standard_gamma(alpha.contiguous())) and (x > 0).all()
    assert abs(x.mean().item() - alpha.mean().item()) < 0.2


def test_halves_are_never_zero():
    for dtype in (torch.float16, torch.bfloat16):
        x = torch._standard_gamma(torch.full((10_000,), 0.05, dtype=dtype, device=DEV))
        assert (x >= torch.finfo(dtype).tiny).all() and x.float().mean() < 0.1
