# SPDX-License-Identifier: BSD-3-Clause
"""Losses of images and of probabilities, compared with the CPU."""

import pytest
import torch
from torch.nn import functional as F

from ops import check, no_fallback, to_card, values, with_gradients


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses_of_images(reduction):
    scores, target = values(2, 5, 3, 4), values(2, 3, 4, low=0, high=4.99).long()
    weight = values(5, low=0.5, high=2, seed=1)
    target[0, 1] = 2
    for options in [{}, {"ignore_index": 2}, {"weight": weight}]:
        wants = with_gradients(
            lambda s: F.nll_loss(s, target, reduction=reduction, **options))(scores)
        card = {k: to_card(v) for k, v in options.items()}
        with no_fallback():
            gots = with_gradients(
                lambda s: F.nll_loss(s, to_card(target), reduction=reduction, **card)
            )(to_card(scores))
        for got, want in zip(gots, wants):
            torch.testing.assert_close(got.cpu(), want)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", [(260, 257), (4, 100, 20, 9), (70000,)])
def test_losses_of_many_scores(reduction, shape):
    scores, pixels = values(*shape), (*shape[:1], *shape[2:]) if shape[1:] else ()
    classes = shape[1] if shape[1:] else shape[0]
    target = values(*pixels, low=0, high=classes - 0.01, seed=2).long()
    weight = values(classes, low=0.5, high=2, seed=1)
    flat = target.view(-1)
    for ignored in (-100, 2):
        if flat.numel() > 1:
            flat[1::3] = ignored
        for options in ({}, {"weight": weight}):
            card = {k: to_card(v) for k, v in options.items()}
            options = {"ignore_index": ignored, "reduction": reduction, **options}
            wants = with_gradients(lambda s: F.nll_loss(s, target, **options))(scores)
            with no_fallback():
                gots = with_gradients(
                    lambda s: F.nll_loss(s, to_card(target), **{**options, **card})
                )(to_card(scores))
            for got, want in zip(gots, wants):
                torch.testing.assert_close(got.cpu(), want)
        flat.clamp_(min=0)


def test_targets_out_of_range_of_many_scores():
    scores, target = values(300, 300), torch.arange(300)
    target[5], target[7] = 300, -2
    x = to_card(scores).requires_grad_()
    got = F.nll_loss(x, to_card(target), reduction="none")
    assert got.isnan().nonzero().flatten().tolist() == [5, 7]
    got.sum().backward()
    want = -torch.eye(300)
    want[5], want[7] = 0, 0
    assert torch.equal(x.grad.cpu(), want)


def test_targets_of_bytes_for_many_scores():
    scores, target = values(1000, 100), torch.arange(1000).remainder(100).byte()
    loss = with_gradients(lambda s, t: F.nll_loss(s, t, ignore_index=3))
    for got, want in zip(loss(to_card(scores), to_card(target)), loss(scores, target)):
        torch.testing.assert_close(got.cpu(), want)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_binary_cross_entropy(reduction):
    x, y = values(6, 5, low=0, high=1), values(6, 5, low=0, high=1, seed=1)
    x[0, 0], x[0, 1] = 0, 1
    check(lambda x, y: F.binary_cross_entropy(x, y, reduction=reduction), x, y)
    x = x.clamp(0.01, 0.99)
    check(with_gradients(lambda x: F.binary_cross_entropy(x, torch.full_like(x, 0.3))), x)
    weight = values(5, low=0.5, high=2)
    check(lambda x, y, w: F.binary_cross_entropy(x, y, w, reduction=reduction), x, y, weight)


@pytest.mark.parametrize("name", ["mse_loss", "huber_loss", "smooth_l1_loss", "l1_loss",
                                  "binary_cross_entropy", "soft_margin_loss"])
def test_strides_of_a_loss(name):
    """The result lies in memory as the inputs do, as that of other elementwise operators."""
    x, y = (values(4, 5, 6, low=0, high=1, seed=seed).permute(2, 0, 1) for seed in (0, 1))
    for a, b in ((x, y), (x, y.contiguous()), (x.contiguous(), y), (x[::2], y[::2])):
        want = getattr(F, name)(a, b, reduction="none")
        got = getattr(F, name)(to_card(a), to_card(b), reduction="none")
        assert got.stride() == want.stride()
        torch.testing.assert_close(got.cpu(), want)


def test_smooth_l1_refuses_negative_beta():
    x = values(4).to("openreg")
    with pytest.raises(RuntimeError, match="negative values for beta"):
        F.smooth_l1_loss(x, x, beta=-1.0)


def test_a_gradient_of_rows_that_do_not_merge():
    x, y = values(2, 3, 4, 5), torch.arange(40).view(2, 4, 5) % 3
    w = values(4, 2, 5, seed=1)

    def run(x, y, w):
        return (F.nll_loss(x, y, reduction="none").transpose(0, 1) * w).sum()

    check(with_gradients(run), x, y, w)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_more_dimensions_than_a_packet_has(reduction):
    x = values(*[2] * 8, 3, low=0, high=1)
    y = values(*[2] * 8, 3, low=0, high=1, seed=1).permute(6, 4, 2, 0, 1, 3, 5, 7, 8)
    z = values(2, 1, 2, 1, 2, 1, 2, 1, 3, low=0, high=1)
    for name in ["mse_loss", "huber_loss", "smooth_l1_loss", "l1_loss"]:
        for target in (y, z.transpose(0, 2)):
            check(lambda x, y: getattr(F, name)(x, y.expand_as(x), reduction=reduction), x, target)
    check(lambda x, y: F.binary_cross_entropy(x, y, reduction=reduction), x, y)
    check(lambda x, y, z: F.binary_cross_entropy(x, y, z, reduction=reduction), x, y, z)
