# SPDX-License-Identifier: BSD-3-Clause
"""Autograd: its threads and streams, hooks, custom functions, second gradients."""

import threading

import pytest
import torch
import torch.utils.checkpoint
from torch.autograd import Function, functional, grad, gradcheck, gradgradcheck

from ops import no_fallback, values

DEV = "openreg"


class Cube(Function):
    """x ** 3 with a backward that is differentiable itself."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.thread, ctx.device = threading.get_ident(), torch.openreg.current_device()
        return x**3

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        assert torch.openreg.current_device() == x.device.index
        Cube.other_thread = threading.get_ident() != ctx.thread
        return gradient * 3 * x * x


@pytest.mark.parametrize("index", [0, 1])
def test_custom_function(index):
    """Core runs backward in a thread of its device, with this device current."""
    x = values(5).to(f"openreg:{index}").requires_grad_()
    with no_fallback():
        Cube.apply(x).sum().backward()
    torch.testing.assert_close(x.grad.cpu(), 3 * values(5) ** 2)
    assert Cube.other_thread


def test_function_that_changes_its_input():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, gradient):
            return 2 * gradient

    x = torch.ones(3, device=DEV, requires_grad=True)
    y = x.clone()
    Double.apply(y)
    y.sum().backward()
    assert y.tolist() == x.grad.tolist() == [2, 2, 2]


def test_second_gradients():
    x = values(4).to(DEV).requires_grad_()
    with no_fallback():
        (first,) = grad(Cube.apply(x).sum(), x, create_graph=True)
        (second,) = grad((first * first).sum(), x)
    torch.testing.assert_close(second.cpu(), 36 * values(4) ** 3)


def test_numeric_gradients():
    x = values(2, 3, dtype=torch.float64).to(DEV).requires_grad_()
    w = values(3, 2, dtype=torch.float64, seed=1).to(DEV).requires_grad_()
    for function in (lambda x, w: torch.tanh(x @ w), lambda x, w: Cube.apply(x).t() * w):
        assert gradcheck(function, (x, w))
        assert gradgradcheck(function, (x, w))


def test_hooks():
    seen = []
    x = torch.ones(3, device=DEV, requires_grad=True)
    x.register_hook(lambda g: g * 2)
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
    y = x * 3
    y.grad_fn.register_prehook(lambda grads: (grads[0] + 1,))
    y.grad_fn.register_hook(lambda into, out: seen.append(out[0].device.type))
    y.sum().backward()
    assert seen == ["openreg", [12, 12, 12]]


def test_saved_tensors_on_the_cpu():
    x = torch.ones(3, device=DEV, requires_grad=True)
    with torch.autograd.graph.save_on_cpu(pin_memory=True, device_type=DEV):
        y = (x.exp() * x).sum()
    y.backward()
    torch.testing.assert_close(x.grad.cpu(), torch.full((3,), 2 * torch.e))


def test_checkpoint_draws_the_same_numbers():
    x = torch.ones(64, device=DEV, requires_grad=True)

    def run(t):
        return torch.nn.functional.dropout(t, 0.5)

    y = torch.utils.checkpoint.checkpoint(run, x, use_reentrant=False)
    y.sum().backward()
    assert torch.equal(y, x.grad) and 0 < y.count_nonzero() < 64


def test_backward_uses_the_streams_of_forward(gate):
    """The caller's stream waits for all of these streams."""
    side = torch.openreg.Stream()
    x = torch.ones(1 << 16, device=DEV, requires_grad=True)
    side.wait_stream(torch.openreg.current_stream())
    with torch.openreg.stream(side):
        y = (x * 2).exp()
    torch.openreg.current_stream().wait_stream(side)
    loss = y.sum()
    with torch.openreg.stream(side), gate:
        loss.backward()
        assert not side.query()
    torch.openreg.current_stream().wait_stream(side)
    assert torch.allclose(x.grad.cpu(), torch.full((1 << 16,), 2 * torch.e**2))


def test_two_cards_in_one_graph():
    x = torch.ones(3, device="openreg:0", requires_grad=True)
    w = torch.full((3,), 2.0, device="openreg:1", requires_grad=True)
    ((x * 3).to("openreg:1") * w).sum().backward()
    assert x.grad.device.index == 0 and x.grad.tolist() == [6, 6, 6]
    assert w.grad.device.index == 1 and w.grad.tolist() == [3, 3, 3]


def test_jacobians():
    x = values(3)
    torch.testing.assert_close(
        functional.jacobian(Cube.apply, x.to(DEV)).cpu(), torch.diag(3 * x**2)
    )
    hessian = functional.hessian(lambda t: (t**3).sum(), x.to(DEV))
    torch.testing.assert_close(hessian.cpu(), torch.diag(6 * x))


def test_anomaly_mode():
    x = torch.zeros(1, device=DEV, requires_grad=True)
    with torch.autograd.detect_anomaly(check_nan=True), pytest.warns(UserWarning):
        with pytest.raises(RuntimeError, match="SqrtBackward0.* returned nan"):
            (x.sqrt() * 0).backward()


def test_saved_tensor_changed_before_backward():
    x = torch.ones(3, device=DEV, requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
