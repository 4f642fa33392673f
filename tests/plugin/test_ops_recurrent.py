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
        # Copies: cell.to() moves the gradients that it has.
        grads.append([t.grad.to("cpu", copy=True) for t in (*inputs, *cell.parameters())])
    for have, need in zip(grads[1], grads[0]):
        torch.testing.assert_close(have, need, rtol=1e-4, atol=1e-5)


def test_double_backward():
    torch.manual_seed(0)
    cell = nn.LSTMCell(2, 3).double()
    x = torch.randn(2, 2, dtype=torch.double)
    seconds = []
    for device in ("cpu", DEV):
        cell.to(device)
        y = x.to(device).detach().requires_grad_()
        state = (torch.ones(2, 3, dtype=torch.double, device=device),) * 2
        first = torch.autograd.grad(cell(y, state)[0].sum(), y, create_graph=True)[0]
        seconds.append(torch.autograd.grad((first * first).sum(), y)[0].cpu())
    torch.testing.assert_close(seconds[1], seconds[0])
