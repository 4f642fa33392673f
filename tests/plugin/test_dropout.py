# SPDX-License-Identifier: BSD-3-Clause
"""Dropout in all its forms, without a fallback to the CPU."""

import packets
import pytest
import torch
from torch.nn import functional as F

from ops import FLOATS, no_fallback, to_card, values

DEV = "openreg"


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(99)
    with no_fallback():
        yield


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_native(dtype, p):
    x = values(100, 211, dtype=dtype).t()
    out, mask = torch.native_dropout(to_card(x), p, True)
    assert mask.dtype == torch.bool and out.dtype == dtype
    assert out.stride() == x.stride() == mask.stride()
    mask, out = mask.cpu(), out.cpu()
    n = x.numel()
    assert abs(mask.double().mean() - (1 - p)) <= 4.5 * (p * (1 - p) / n) ** 0.5
    scale = 0.0 if p == 1 else 1 / (1 - p)
    assert torch.equal(out, x.mul(mask).mul_(scale))


def test_not_training():
    x = to_card(values(50))
    for train in (False,):
        out, mask = torch.native_dropout(x, 0.7, train)
        assert torch.equal(out.cpu(), x.cpu()) and mask.cpu().all()
        assert out.data_ptr() != x.data_ptr()
    assert torch.equal(F.dropout(x, 0.7, training=False).cpu(), x.cpu())
    assert F.dropout(x, 0.0).cpu().equal(x.cpu())
    assert not F.dropout(x, 1.0).cpu().any()


def test_dropped_infinity_becomes_nan():
    out, mask = torch.native_dropout(torch.full((1000,), float("inf"), device=DEV), 0.5, True)
    assert torch.equal(out.cpu().isnan(), ~mask.cpu())


@pytest.mark.parametrize("dtype", FLOATS)
def test_gradient(dtype):
    x = to_card(values(64, 65, dtype=dtype)).requires_grad_()
    y = F.dropout(x, 0.3)
    weight = values(64, 65, dtype=dtype, seed=1)
    (y * to_card(weight)).sum().backward()
    kept = (y.detach().cpu() != 0) | (x.detach().cpu() == 0)
    assert torch.equal(x.grad.cpu(), weight.mul(kept).mul_(1 / 0.7))
    assert 0.6 < kept.double().mean() < 0.8


def test_backward_alone():
    grad, mask = values(40, 30), values(40, 30, seed=2) > 0
    want = torch.ops.aten.native_dropout_backward(grad, mask, 1.25)
    got = torch.ops.aten.native_dropout_backward(to_card(grad.t()), to_card(mask.t()), 1.25)
    assert torch.equal(got.cpu(), want.t())
    with pytest.raises(RuntimeError, match="Mask should be Bool"):
        torch.ops.aten.native_dropout_backward(to_card(grad), to_card(grad), 1.0)


def test_second_derivative():
    x = to_card(values(20).double()).requires_grad_()
    torch.manual_seed(6)
    y = F.dropout(x, 0.5).pow(2).sum()
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    first.sum().backward()
    kept = (first.detach().cpu() != 0).double()
    torch.testing.assert_close(x.grad.cpu(), kept * 8)


@pytest.mark.parametrize(
    "form", [F.dropout, F.dropout1d, F.dropout2d, F.alpha_dropout, F.feature_alpha_dropout]
)
def test_forms(form):
    x = torch.ones(64, 32, 6, device=DEV)
    x = x.unsqueeze(3) if form is F.dropout2d else x
    y = form(x.clone().requires_grad_(), p=0.25, training=True)
    y.sum().backward()
    # The result has two values; the rarer one marks the dropped elements.
    found, counts = y.detach().cpu().unique(return_counts=True)
    assert len(found) == 2
    assert 0.18 < counts.min() / y.numel() < 0.32
    z = form(x.clone(), p=0.25, training=True, inplace=True)
    assert z.shape == x.shape


def test_repeats():
    x = torch.ones(1000, device=DEV)
    torch.manual_seed(9)
    a = F.dropout(x, 0.3)
    torch.manual_seed(9)
    b = F.dropout(x, 0.3)
    c = F.dropout(x, 0.3)
    assert torch.equal(a.cpu(), b.cpu()) and not torch.equal(a.cpu(), c.cpu())
    assert 200 < (a.cpu() == 0).sum() < 400


def test_one_packet_each_way():
    x = torch.ones(100, 100, device=DEV)
    grad, mask = torch.native_dropout(x, 0.5, True)
    for call in (
        lambda: torch.native_dropout(x, 0.5, True),
        lambda: torch.ops.aten.native_dropout_backward(grad, mask, 2.0),
    ):
        assert packets.launched(call) == 1
