# SPDX-License-Identifier: BSD-3-Clause
"""make_graphed_callables(): gradients that accumulate, and arguments it cannot take."""

import pytest
import torch
from torch import nn

DEV = "openreg"


@pytest.fixture
def net():
    torch.manual_seed(0)
    return nn.Linear(4, 3).to(DEV)


def graphed(net, **options):
    sample = torch.zeros(2, 4, device=DEV, **options)
    return torch.openreg.make_graphed_callables(net, (sample,))


def gradients(net, inputs):
    for x in inputs:
        net(x).square().sum().backward()
    return [t.grad.clone() for t in (*net.parameters(), *dict.fromkeys(inputs))]


@pytest.mark.parametrize("same", [False, True])
def test_gradients_accumulate(net, same):
    """Those of parameters and of inputs, without zero_grad() between."""
    xs = [torch.rand(2, 4, device=DEV, requires_grad=True) for _ in range(3)]
    if same:
        xs = [xs[0]] * 3
    want = gradients(net, xs)
    for t in (*net.parameters(), *xs):
        t.grad = None
    got = gradients(graphed(net, requires_grad=True), xs)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize(
    "args, error, text",
    [
        ((torch.ones(1, 4),), ValueError, r"tensor 0 .*shape \(1, 4\).*shape \(2, 4\)"),
        ((torch.ones(4),), ValueError, r"tensor 0 .*shape \(4,\)"),
        ((torch.ones(2, 4).double(),), ValueError, "dtype torch.float64.*torch.float32"),
        ((), TypeError, "takes 1 tensors, but got 0"),
        ((torch.ones(2, 4), torch.ones(2, 4)), TypeError, "takes 1 tensors, but got 2"),
        ((3,), TypeError, "tensor 0 .*is a int"),
    ],
)
def test_other_arguments(net, args, error, text):
    call = graphed(net)
    args = [a.to(DEV) if isinstance(a, torch.Tensor) else a for a in args]
    with pytest.raises(error, match=text):
        call(*args)
