# SPDX-License-Identifier: BSD-3-Clause
"""Batch, instance, group, layer and RMS normalisation, forward and backward."""

import copy
import itertools

import packets
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from ops import FLOATS, check, no_fallback, to_card, values, with_gradients

CLOSE = {"rtol": 1e-4, "atol": 1e-5}
SHAPES = [(4, 6), (4, 6, 5), (3, 6, 4, 5), (2, 6, 3, 2, 4)]


def batch_norm(shape):
    return {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}[len(shape)]


def step(layer, x):
    x = x.detach().requires_grad_()
    layer.zero_grad()
    out = layer(x)
    weights = torch.linspace(-1, 1, out.numel(), device=out.device).to(out.dtype)
    (out * weights.view(out.shape)).sum().backward()
    return [out.detach(), x.grad, *(p.grad for p in layer.parameters()), *layer.buffers()]


def compare_layers(layer, *inputs, **tolerance):
    """Compares several steps, so that later steps use the layer's statistics."""
    card = copy.deepcopy(layer).to("openreg")
    for x in inputs:
        want = step(layer, x)
        with no_fallback():
            got = step(card, to_card(x))
        for g, w in zip(got, want, strict=True):
            torch.testing.assert_close(g.cpu(), w, **(tolerance or CLOSE))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("momentum", [0.1, None])
def test_batch_norm(shape, momentum):
    layer = batch_norm(shape)(shape[1], momentum=momentum)
    with torch.no_grad():
        layer.weight.copy_(values(shape[1], low=0.5, high=2))
        layer.bias.copy_(values(shape[1], seed=1))
    compare_layers(layer, values(*shape), values(*shape, seed=1) + 3)
    compare_layers(layer.eval(), values(*shape, seed=2))


def test_batch_norm_options():
    x = values(3, 6, 4, 5)
    compare_layers(nn.BatchNorm2d(6, affine=False), x, x + 1)
    compare_layers(nn.BatchNorm2d(6, track_running_stats=False), x)
    compare_layers(nn.BatchNorm2d(6, track_running_stats=False).eval(), x)


def test_batch_norm_keeps_the_memory_format():
    x = values(3, 6, 4, 5).to(memory_format=torch.channels_last)
    compare_layers(nn.BatchNorm2d(6), x)
    with no_fallback():
        out = nn.BatchNorm2d(6).to("openreg")(to_card(x))
    assert out.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("shape", [(4, 6, 5), (3, 6, 4, 5), (2, 6, 3, 4, 5)])
def test_normalization_of_permuted_inputs(shape):
    """The pixels may lie in any order, so that their dimensions do not merge."""
    for order in itertools.permutations(range(len(shape))):
        back = [order.index(d) for d in range(len(shape))]
        x = values(*[shape[d] for d in order]).permute(back)
        c = torch.linspace(0.5, 2, 6)
        for training in (True, False):
            run = with_gradients(
                lambda x, c: F.batch_norm(
                    x, c.detach().clone(), c.detach().clone(), c, c, training=training))
            check(run, x, c, **CLOSE)
        check(with_gradients(lambda x, c: F.group_norm(x, 2, c, c)), x, c, **CLOSE)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_batch_norm_of_halves(dtype):
    x, weight = values(4, 6, 3, 3), values(6, low=0.5, high=2)
    mean, var = torch.zeros(6), torch.ones(6)
    want = F.batch_norm(x.to(dtype).float(), mean, var, weight, training=True)
    card = [to_card(t) for t in (torch.zeros(6), torch.ones(6))]
    with no_fallback():
        got = F.batch_norm(to_card(x.to(dtype)), *card, to_card(weight), training=True)
    assert got.dtype == dtype
    torch.testing.assert_close(got.cpu().float(), want, rtol=2e-2, atol=2e-2)
    for g, w in zip(card, (mean, var)):
        torch.testing.assert_close(g.cpu(), w, **CLOSE)


def test_a_mean_far_from_zero():
    """The card must not compute the variance as a difference of large squares."""
    x = values(8, 3, 16) + 1e4
    check(lambda x: F.batch_norm(x, None, None, training=True), x, rtol=1e-3, atol=1e-3)


def test_statistics_of_a_batch():
    x = values(4, 6, 5)
    for mean, var in [(torch.zeros(6), torch.ones(6))]:
        want = torch.batch_norm_update_stats(x, mean, var, 0.3)
        card = [to_card(torch.zeros(6)), to_card(torch.ones(6))]
        with no_fallback():
            got = torch.batch_norm_update_stats(to_card(x), *card, 0.3)
        for g, w in zip([*got, *card], [*want, mean, var]):
            torch.testing.assert_close(g.cpu(), w, **CLOSE)


def test_batch_norm_errors():
    x = to_card(values(3, 6, 4))
    with pytest.raises(RuntimeError, match="should contain 6 elements not 5"):
        F.batch_norm(x, to_card(torch.zeros(5)), to_card(torch.ones(5)))
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        F.batch_norm(to_card(values(1, 6)), None, None, training=True)


@pytest.mark.parametrize("shape", SHAPES[1:])
def test_instance_norm(shape):
    layer = {3: nn.InstanceNorm1d, 4: nn.InstanceNorm2d, 5: nn.InstanceNorm3d}[len(shape)]
    compare_layers(layer(shape[1], affine=True, track_running_stats=True), values(*shape))


# Without groups of one element: their gradients consist of rounding errors.
@pytest.mark.parametrize(
    "shape, groups",
    [(SHAPES[0], 1), (SHAPES[0], 3), *itertools.product([*SHAPES[1:], (3, 6, 8, 9)], (1, 3, 6))],
)
def test_group_norm(shape, groups):
    compare_layers(nn.GroupNorm(groups, shape[1]), values(*shape))
    check(with_gradients(lambda x: F.group_norm(x, groups)), values(*shape), **CLOSE)


def test_group_norm_of_channels_last():
    x = values(2, 6, 4, 5).to(memory_format=torch.channels_last)
    compare_layers(nn.GroupNorm(2, 6), x)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(6,), (4, 6)])
def test_rms_norm(dtype, shape):
    x, weight = values(3, 4, 6, dtype=dtype), values(*shape, dtype=dtype, seed=1)
    tolerance = {"rtol": 3e-2, "atol": 3e-2} if dtype.itemsize == 2 else CLOSE
    check(with_gradients(lambda x, w: F.rms_norm(x, shape, w)), x, weight, **tolerance)
    check(with_gradients(lambda x: F.rms_norm(x, shape, eps=0.1)), x, **tolerance)


def test_rms_norm_is_one_operator():
    x = to_card(values(3, 6))
    torch.openreg.reset_op_counts()
    F.rms_norm(x, (6,))
    assert torch.openreg.op_counts() == {"aten::_fused_rms_norm": 1}


def test_empty_inputs():
    check(lambda x: F.layer_norm(x, (4,)), values(0, 4))
    check(lambda x: F.rms_norm(x, (4,)), values(0, 4))
    check(lambda x: F.batch_norm(x, torch.zeros(4, device=x.device), torch.ones(4, device=x.device)),
          values(0, 4, 3))


def test_second_derivatives():
    def twice(x, w):
        out = F.rms_norm(x, (6,), w)
        slope = torch.autograd.grad((out * out).sum(), x, create_graph=True)[0]
        return torch.autograd.grad((slope * slope).sum(), [x, w])

    x, w = values(3, 6, dtype=torch.float64), values(6, dtype=torch.float64, seed=1)
    check(lambda x, w: list(twice(x.requires_grad_(), w.requires_grad_())), x, w)


def test_statistics_that_share_memory():
    x = to_card(values(4, 6))
    mean, var = (torch.ones(1, device="openreg").expand(6) for _ in range(2))
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        F.batch_norm(x, mean, var, training=True)


def test_statistics_of_an_empty_batch():
    mean, var = torch.ones(3, device="openreg"), torch.ones(3, device="openreg")
    torch.batch_norm_update_stats(torch.empty(0, 3, device="openreg"), mean, var, 0.1)
    assert mean.tolist() == var.tolist() == [1, 1, 1]


def layer_norm(x, w, b):
    return F.layer_norm(x, w.shape, w, b)


def group_norm(x, w, b):
    return F.group_norm(x, 2, w, b)


def batch_norm_in_training(x, w, b):
    return F.batch_norm(x, None, None, w, b, training=True)


# Rows of one tile and of many, rows too long for a slice, rows shorter than a vector.
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "norm, shape, parameter",
    [
        (layer_norm, (37, 1024), (1024,)),
        (layer_norm, (3, 5000), (5000,)),
        (layer_norm, (2, 200000), (200000,)),
        (layer_norm, (999, 7), (7,)),
        (layer_norm, (90, 100), (100,)),
        (group_norm, (555, 6, 3), (6,)),
        (group_norm, (3, 6, 700), (6,)),
        (batch_norm_in_training, (50, 20, 70), (20,)),
        (batch_norm_in_training, (700, 30), (30,)),
        (batch_norm_in_training, (40, 3, 4000), (3,)),
    ],
)
def test_rows_of_many_sizes(norm, shape, parameter, dtype):
    x = values(*shape, dtype=torch.float64, low=-3, high=3) + 2
    weight = values(*parameter, dtype=torch.float64, seed=1, low=0.5, high=2)
    bias = values(*parameter, dtype=torch.float64, seed=2)
    slope = values(*shape, dtype=torch.float64, seed=3, low=-1, high=1)

    def run(device, type):
        inputs = [t.to(dtype).to(type).to(device).requires_grad_() for t in (x, weight, bias)]
        out = norm(*inputs)
        return [out, *torch.autograd.grad(out, inputs, slope.to(dtype).to(type).to(device))]

    # The CPU sums halves in their own precision: compare with numbers that are exact.
    for got, want in zip(run("openreg", dtype), run("cpu", torch.float64), strict=True):
        unit = torch.finfo(dtype).eps * (1 if dtype.itemsize == 2 else 100)
        scale = want.abs().max().clamp(min=1).item()
        torch.testing.assert_close(
            got.cpu().double(), want, rtol=2 * unit, atol=2 * unit * scale
        )


@pytest.mark.parametrize(
    "norm, forward, backward",
    [(layer_norm, 1, 2), (group_norm, 1, 2), (batch_norm_in_training, 1, 1)],
)
def test_numbers_of_packets(norm, forward, backward):
    """The card reads a row once for its sums and its normalization."""
    x = to_card(values(8, 6, 70)).requires_grad_()
    size = 70 if norm is layer_norm else 6
    w, b = (to_card(values(size, seed=i)).requires_grad_() for i in (1, 2))
    out = norm(x, w, b)
    slope = torch.ones_like(out)
    assert packets.launched(lambda: norm(x, w, b)) == forward
    assert packets.launched(lambda: torch.autograd.grad(out, [x, w, b], slope)) == backward
