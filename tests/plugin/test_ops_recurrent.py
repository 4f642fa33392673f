# SPDX-License-Identifier: BSD-3-Clause
"""Recurrent layers, forward and backward, on the card."""

import pytest
import torch
from ops import no_fallback
from torch import nn

DEV = "openreg"


def run(layer, x, upstream):
    x = x.detach().requires_grad_()
    layer.zero_grad()
    out, state = layer(x)
    states = state if isinstance(state, tuple) else (state,)
    torch.autograd.backward([out, *states], [upstream, *map(torch.ones_like, states)])
    return [out, *states, x.grad, *(p.grad for p in layer.parameters())]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_layers(kind, bias):
    torch.manual_seed(0)
    layer = kind(5, 7, num_layers=2, bidirectional=True, bias=bias)
    x, upstream = torch.randn(4, 3, 5), torch.randn(4, 3, 14)
    want = [t.clone() for t in run(layer, x, upstream)]
    with no_fallback():
        got = run(layer.to(DEV), x.to(DEV), upstream.to(DEV))
    for have, need in zip(got, want):
        torch.testing.assert_close(have.cpu(), need, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("grad_of", [0, 1])
def test_lstm_cell_with_one_gradient(grad_of):
    torch.manual_seed(0)
    cell = nn.LSTMCell(5, 7)
    x, h, c = torch.randn(3, 5), torch.randn(3, 7), torch.randn(3, 7)
    grads = []
    for device in ("cpu", DEV):
        cell.to(device).zero_grad()
        inputs = [t.to(device).detach().requires_grad_() for t in (x, h, c)]
        cell(inputs[0], tuple(inputs[1:]))[grad_of].sum().backward()
        # Copy the gradients: cell.to() moves them in place.
        grads.append([t.grad.to("cpu", copy=True) for t in (*inputs, *cell.parameters())])
    for have, need in zip(grads[1], grads[0]):
        torch.testing.assert_close(have, need, rtol=1e-4, atol=1e-5)


def check_double_backward(layer, x, **state):
    seconds = []
    for device in ("cpu", DEV):
        layer.to(device)
        y = x.to(device).detach().requires_grad_()
        given = {name: tuple(t.to(device) for t in pair) for name, pair in state.items()}
        first = torch.autograd.grad(layer(y, **given)[0].sum(), y, create_graph=True)[0]
        seconds.append(torch.autograd.grad((first * first).sum(), y)[0].cpu())
    torch.testing.assert_close(seconds[1], seconds[0])


def test_double_backward():
    torch.manual_seed(0)
    cell = nn.LSTMCell(2, 3).double()
    ones = torch.ones(2, 3, dtype=torch.double)
    check_double_backward(cell, torch.randn(2, 2, dtype=torch.double), hx=(ones, ones))


KINDS = [(nn.LSTM, {}), (nn.GRU, {}), (nn.RNN, {}), (nn.RNN, {"nonlinearity": "relu"})]


def state_of(layer, *shape, **options):
    state = torch.randn(*shape, **options)
    return (state, -state) if isinstance(layer, nn.LSTM) else state


def gradients(layer, x, state):
    """The gradients of the output y alone: the last states have no gradient."""
    tensors = [x, *(state if isinstance(state, tuple) else (state,))]
    leaves = [t.detach().requires_grad_() for t in tensors]
    given = tuple(leaves[1:]) if isinstance(state, tuple) else leaves[1]
    y = layer(leaves[0], given)[0]
    return [y, *torch.autograd.grad((y * y).sum(), [*leaves, *layer.parameters()])]


@pytest.mark.parametrize(("kind", "options"), KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_given_states(kind, options, dtype):
    torch.manual_seed(0)
    layer = kind(5, 7, batch_first=True, dtype=dtype, **options)
    x, state = torch.randn(3, 6, 5, dtype=dtype), state_of(layer, 1, 3, 7, dtype=dtype)
    want = [t.clone() for t in gradients(layer, x, state)]
    moved = tuple(t.to(DEV) for t in state) if isinstance(state, tuple) else state.to(DEV)
    with no_fallback():
        got = gradients(layer.to(DEV), x.to(DEV), moved)
    tolerance = 1e-1 if dtype == torch.bfloat16 else 1e-4
    for have, need in zip(got, want):
        torch.testing.assert_close(have.cpu(), need, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_layers_twice(kind, options):
    torch.manual_seed(0)
    layer = kind(2, 3, num_layers=2, dtype=torch.double, **options)
    check_double_backward(layer, torch.randn(3, 2, 2, dtype=torch.double))


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_batched_gradients(kind, options):
    torch.manual_seed(0)
    layer = kind(2, 3, **options)
    x, upstreams = torch.randn(4, 2, 2), torch.randn(5, 4, 2, 3)
    found = []
    for device in ("cpu", DEV):
        layer.to(device)
        y = x.to(device).detach().requires_grad_()
        out = layer(y)[0]
        grads = [torch.autograd.grad(out, y, u, retain_graph=True)[0] for u in upstreams.to(device)]
        found.append(torch.stack(grads).cpu())
    batched = torch.autograd.grad(out, y, upstreams.to(DEV), is_grads_batched=True)[0]
    assert not batched.requires_grad
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(batched.cpu(), found[0], rtol=1e-4, atol=1e-5)


def test_projections_and_transforms():
    torch.manual_seed(0)
    narrow = nn.LSTM(4, 6, proj_size=3)
    x = torch.randn(5, 2, 4)
    want = narrow(x)[0]
    torch.testing.assert_close(narrow.to(DEV)(x.to(DEV))[0].cpu(), want, rtol=1e-4, atol=1e-5)
    layer = nn.GRU(4, 6)
    want = torch.func.grad(lambda t: layer(t)[0].sum())(x)
    layer.to(DEV)
    got = torch.func.grad(lambda t: layer(t)[0].sum())(x.to(DEV))
    torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(3, 6, 4), (3, 4, 5), (2, 6, 5)])
def test_bad_states(shape):
    for device in ("cpu", DEV):
        layer = nn.LSTM(4, 6, device=device)
        state = torch.zeros(1, 3, 6, device=device)
        other = torch.zeros(shape, device=device)
        with pytest.raises(RuntimeError):
            torch.lstm(torch.zeros(5, 3, 4, device=device), (state, other), list(layer.parameters()),
                       True, 1, 0.0, False, False, False)
