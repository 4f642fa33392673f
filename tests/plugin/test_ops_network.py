# SPDX-License-Identifier: BSD-3-Clause
"""Softmax, losses, layer normalisation, attention: forward and backward."""

import pytest
import torch
from torch.nn import functional as F

from ops import FLOATS, check, to_card, values, with_gradients


@pytest.mark.parametrize("function", [F.softmax, F.log_softmax, F.softmin])
def test_softmax(function):
    for dtype in FLOATS:
        tolerance = {"rtol": 2e-2, "atol": 1e-2} if dtype.itemsize == 2 else {}
        for dim in [0, 1, -1]:
            check(with_gradients(lambda x: function(x, dim)), values(3, 4, 5, dtype=dtype), **tolerance)
    check(lambda x: function(x, 0), values(5, 6).t())
    check(lambda x: function(x, 0), torch.tensor(3.0))
    check(lambda x: function(x, 1, dtype=torch.float32), values(3, 4, dtype=torch.float16))
    check(lambda x: function(x * 1e4, 1), values(3, 4))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_nll_loss(reduction):
    scores, target = values(6, 5), torch.tensor([0, 4, 2, 2, 1, 3])
    weight = values(5, low=0.5, high=2, seed=1)
    for options in [{}, {"ignore_index": 2}]:
        loss = with_gradients(lambda s: F.nll_loss(s, t, reduction=reduction, **options))
        t = target
        want = loss(scores)
        t = to_card(target)
        got = loss(to_card(scores))
        for g, w in zip(got, want):
            torch.testing.assert_close(g.cpu(), w)
    check(lambda s, t, w: F.nll_loss(s, t, w, reduction=reduction), scores, target, weight)
    check(lambda s, t: F.cross_entropy(s, t, reduction=reduction), scores, target)
    check(lambda s, t: F.cross_entropy(s, t, label_smoothing=0.1), scores, target)
    check(lambda s, t: F.nll_loss(s, t), scores[0], target[0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_nll_loss_of_large_sums_of_halves(dtype):
    """The mean fits into the half type, but the sum for it does not."""
    scores = torch.full((1002, 3), -255.0, dtype=dtype, device="openreg")
    target = to_card(torch.arange(1002) % 3)
    assert F.nll_loss(scores, target).item() == 255
    total = torch.ops.aten.nll_loss_forward(scores, target, None, 1, -100)[1]
    assert torch.equal(total.cpu(), torch.tensor(1002, dtype=dtype))


def test_class_out_of_range():
    """The CPU raises. The card's result is NaN, so that the error is visible."""
    loss = F.nll_loss(to_card(values(3, 4)), to_card(torch.tensor([0, 4, 1])))
    assert loss.isnan().item()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("function", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss])
def test_losses_of_pairs(function, reduction):
    check(with_gradients(lambda a, b: function(a, b, reduction=reduction)),
          values(6, 5), values(6, 5, seed=1))


def test_binary_cross_entropy_with_logits():
    check(with_gradients(F.binary_cross_entropy_with_logits), values(6, 5), values(6, 5, low=0, high=1))


@pytest.mark.parametrize("dtype", FLOATS)
def test_layer_norm(dtype):
    x = values(3, 4, 6, dtype=dtype)
    weight, bias = values(6, dtype=dtype, seed=1), values(6, dtype=dtype, seed=2)
    tolerance = {"rtol": 3e-2, "atol": 3e-2} if dtype.itemsize == 2 else {"rtol": 1e-5, "atol": 1e-5}
    check(with_gradients(lambda x, w, b: F.layer_norm(x, (6,), w, b)), x, weight, bias, **tolerance)
    check(with_gradients(lambda x: F.layer_norm(x, (4, 6))), x, **tolerance)


@pytest.mark.parametrize("device", ["cpu", "openreg"])
def test_layer_norm_with_weights_of_another_shape(device):
    x = values(3, 6).to(device)
    for weight, bias in [(5, 6), (6, 5), (1, 6), (6, 12)]:
        w, b = torch.ones(weight, device=device), torch.zeros(bias, device=device)
        with pytest.raises(RuntimeError, match="to be of same shape as normalized_shape"):
            F.layer_norm(x, (6,), w, b)


def test_layer_norm_backward_with_weights_of_another_shape():
    x = to_card(values(3, 6))
    y, mean, rstd = torch.native_layer_norm(x, (6,), None, None, 1e-5)
    for weight, bias in [(5, 6), (6, 5), (6, 12)]:
        w, b = (torch.ones(n, device="openreg") for n in (weight, bias))
        with pytest.raises(RuntimeError, match="to be of same shape as normalized_shape"):
            torch.ops.aten.native_layer_norm_backward(y, x, (6,), mean, rstd, w, b, [True] * 3)


def test_group_norm_of_any_strides():
    weight, bias = values(6, seed=1), values(6, seed=2)
    for x in [
        values(2, 6, 4, 5),
        values(2, 5, 6, 4).transpose(1, 2),
        values(2, 4, 5, 6).permute(0, 3, 1, 2),
    ]:
        y = to_card(x)
        assert y.stride() == x.stride()
        args = (2, 6, 20, 3, 1e-5)
        want = torch.native_group_norm(x, weight, bias, *args)
        got = torch.native_group_norm(y, to_card(weight), to_card(bias), *args)
        for g, w in zip(got, want):
            torch.testing.assert_close(g.cpu(), w, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal):
    q, k, v = (values(2, 3, 5, 4, seed=s) for s in range(3))
    check(with_gradients(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal)),
          q, k, v, rtol=1e-5, atol=1e-5)


def test_attention_with_a_mask():
    q, k, v = (values(2, 3, 5, 4, seed=s) for s in range(3))
    mask = values(5, 5, dtype=torch.bool) | torch.eye(5, dtype=torch.bool)
    check(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), q, k, v, mask,
          rtol=1e-5, atol=1e-5)
