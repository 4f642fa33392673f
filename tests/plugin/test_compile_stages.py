# SPDX-License-Identifier: BSD-3-Clause
"""torch.compile: reductions and what uses their results are one packet."""

import packets
import pytest
import torch
import torch.nn.functional as F
from compiled import DEV, assert_like_eager, fresh, ints, on_card, randn  # noqa: F401

pytestmark = [pytest.mark.native, pytest.mark.usefixtures("fresh")]

ROWS, MORE = randn(30, 70), randn(30, 70, seed=1)
WEIGHT, BIAS = randn(70, seed=2), randn(70, seed=3)
IMAGES = randn(3, 8, 5, 6)

# function, arguments, packets
CASES = {
    "softmax": (lambda x: (x * 2).softmax(-1), (ROWS,), 1),
    "log_softmax": (lambda x: x.log_softmax(-1), (ROWS,), 1),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (70,), w, b), (ROWS, WEIGHT, BIAS), 1),
    "layer_norm_of_two": (lambda x: F.layer_norm(x, (5, 6)), (IMAGES,), 1),
    "residual_and_norm": (
        lambda x, y, w, b: F.gelu(F.layer_norm(x + y, (70,), w, b)) + x,
        (ROWS, MORE, WEIGHT, BIAS),
        1,
    ),
    "norm_of_gelu": (lambda x, w: F.layer_norm(F.gelu(x), (70,), w), (ROWS, WEIGHT), 1),
    "rms_norm": (lambda x, w: F.rms_norm(x, (70,), w), (ROWS, WEIGHT), 1),
    "group_norm": (
        lambda x, w, b: F.group_norm(x, 4, w, b).relu(),
        (IMAGES, randn(8), randn(8, seed=1)),
        2,
    ),
    "normalize": (lambda x: F.normalize(x, dim=1), (ROWS,), 1),
    "log_sum_exp": (lambda x: x.logsumexp(1), (ROWS,), 1),
    "variance": (lambda x: x.var(1), (ROWS,), 1),
    "deviation_and_mean": (lambda x: torch.std_mean(x, 0), (ROWS,), 1),
    "share_of_the_whole": (lambda x: x / x.sum(), (ROWS,), 1),
    "two_sums": (lambda x, y: ((x * y).sum(1), x.sum(1) + 1), (ROWS, MORE), 1),
    "cosine": (lambda x, y: F.cosine_similarity(x, y), (ROWS, MORE), 1),
    "entropy": (lambda x: -(x.softmax(1) * x.log_softmax(1)).sum(1), (ROWS,), 1),
    "reductions_of_different_rows": (
        lambda x: (x.var(), x.var(-1), x.std((0, 1)), x.sum(0), x.sum((1, 2))),
        (randn(2, 4, 4, 8),),
        5,
    ),
    "five_stages": (lambda x: ((x.softmax(1) + x).softmax(1) * x).softmax(1), (ROWS,), 2),
}


@pytest.mark.parametrize("name", CASES)
def test_packets(name):
    function, args, count = CASES[name]
    assert_like_eager(function, args, tolerance=1e-5)
    with torch.no_grad():
        args = on_card(args, grad=False)
        compiled = torch.compile(function)
        compiled(*args)
        assert packets.launched(lambda: compiled(*args)) == count
    assert torch.openreg.compile_fallbacks() == {}


@pytest.mark.parametrize("dim", [0, 1])
def test_softmax_along_another_dimension_keeps_its_kernel(dim):
    def function(x):
        return (x * 2).softmax(dim)

    args = (randn(4, 7, 5),)
    assert_like_eager(function, args, tolerance=1e-5)
    assert set(torch.openreg.compile_fallbacks()) == {
        "aten._softmax.default",
        "aten._softmax_backward_data.default",
    }


def test_cross_entropy():
    """The gradient is one packet: that of the loss and that of log_softmax."""
    x, y = randn(12, 30).to(DEV), ints(30, 12).to(DEV)
    compiled = torch.compile(lambda x: F.cross_entropy(x * 2, y, ignore_index=3))

    def backward(function):
        given = x.clone().requires_grad_()
        loss = function(given)
        launched = packets.launched(loss.backward)
        return loss.detach(), given.grad, launched

    theirs = backward(lambda x: F.cross_entropy(x * 2, y, ignore_index=3))
    ours = backward(compiled)
    torch.testing.assert_close(ours[:2], theirs[:2])
    assert backward(compiled)[2] <= 2 < theirs[2]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gradient_of_a_loss_with_a_weight_of_another_dtype(dtype):
    def function(grad, x, y, weight):
        return torch.ops.aten.nll_loss_backward(grad, x, y, None, 1, -100, weight)

    args = (torch.tensor(2.0, dtype=dtype), randn(5, 6, dtype=dtype), ints(6, 5))
    args = (*args, torch.tensor(4.0))
    assert_like_eager(function, args, grad=False)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rows_of_halves_that_overflow(dtype):
    """The quotients are beyond a half, but not beyond the float32 of a program's registers."""
    x = randn(8, 40, dtype=dtype)
    found = torch.compile(lambda x: (x / 1e-6).softmax(-1))(x.to(DEV)).cpu()
    torch.testing.assert_close(found, (x.float() / 1e-6).softmax(-1).to(dtype))
