# SPDX-License-Identifier: BSD-3-Clause
"""torch.compile: gradients of an embedding whose weight is used once more."""

import pytest
import torch
from compiled import DEV, assert_model_like_eager, fresh, ints  # noqa: F401
from torch import nn
from torch.nn import functional as F

pytestmark = pytest.mark.usefixtures("fresh")

WORDS, WIDTH = 13, 8
IN_PLACE, WHOLE = "aten.index_put_.default", "aten.embedding_dense_backward.default"


class Tied(nn.Module):
    """A language model of one layer. Its last layer is the embedding's weight."""

    def __init__(self, bias=False, **options):
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(WORDS, WIDTH, **options)
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.bias = nn.Parameter(torch.randn(WORDS)) if bias else None

    def forward(self, x):
        return F.linear(self.layer(self.words(x)).tanh(), self.words.weight, self.bias)


def loss_of(run, x):
    return F.cross_entropy(run(x).float().flatten(0, -2), (x.long() % 5).flatten())


def ran():
    return {name for names in torch.openreg.compile_fallbacks() for name in names.split(", ")}


@pytest.mark.parametrize("bias", (False, True))
@pytest.mark.parametrize("padding", (None, 0, 4))
@pytest.mark.parametrize("dtype", (torch.int64, torch.int32))
def test_a_tied_weight(padding, bias, dtype):
    x = ints(WORDS, 3, 7).to(dtype)  # rows occur several times, the padding also does
    assert (x == (padding or 0)).any()
    assert_model_like_eager(Tied(bias, padding_idx=padding), (x,), loss_of, 1e-6)
    assert IN_PLACE in ran() and WHOLE not in ran()


def test_sums_of_whole_numbers_are_exact():
    """Each row's gradient: how often the row is read, and the product's."""
    weight = ints(9, WORDS, WIDTH, low=-4).float()
    x = torch.tensor([[3, 3, 0], [5, 3, 0]])

    def run(weight, x, seen):
        rows = F.embedding(x, weight, padding_idx=0)
        return (rows * 2).sum() + (seen @ weight.t()).sum()

    seen = ints(9, 6, WIDTH, low=-4, seed=1).float()
    ours = weight.to(DEV).requires_grad_()
    torch.compile(run)(ours, x.to(DEV), seen.to(DEV)).backward()
    expected = seen.sum(0).expand(WORDS, WIDTH).clone()
    expected[3] += 6
    expected[5] += 2
    assert torch.equal(ours.grad.cpu(), expected)
    assert IN_PLACE in ran()


def test_a_gradient_that_accumulates():
    x = ints(WORDS, 3, 7).to(DEV)
    theirs, ours = Tied().to(DEV), Tied().to(DEV)
    run = torch.compile(ours)
    for _ in range(3):
        loss_of(theirs, x).backward()
        loss_of(run, x).backward()
    torch.testing.assert_close(ours.words.weight.grad, theirs.words.weight.grad)


@pytest.mark.parametrize("mode", (None, "reduce-overhead"))
def test_training(mode):
    x = ints(WORDS, 3, 7).to(DEV)
    theirs, ours = (Tied(padding_idx=0).to(DEV) for _ in range(2))
    run = torch.compile(ours, mode=mode)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.5) for m in (theirs, ours)]
    for _ in range(6):
        losses = [loss_of(theirs, x), loss_of(run, x)]
        for loss, optimizer in zip(losses, optimizers):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.testing.assert_close(losses[1], losses[0])
    torch.testing.assert_close(ours.words.weight, theirs.words.weight)


def test_other_sizes():
    model = Tied()
    for length in (5, 7, 9, 1, 0):
        x = ints(WORDS, 2, length)
        assert_model_like_eager(model, (x,), lambda run, x: run(x).square().sum(), 1e-5,
                                dynamic=True)
    assert WHOLE not in ran()


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_autocast(dtype):
    """The product is of another dtype than the embedding's gradient."""

    def cast_loss(run, x):
        with torch.autocast("openreg", dtype):
            return loss_of(run, x)

    assert_model_like_eager(Tied(padding_idx=0), (ints(WORDS, 3, 7),), cast_loss, 1e-2)
    assert IN_PLACE in ran() and WHOLE not in ran()


@pytest.mark.parametrize("dtype", (torch.float64, torch.bfloat16))
def test_dtypes(dtype):
    tolerance = 1e-9 if dtype is torch.float64 else 5e-2
    model = Tied(padding_idx=0).to(dtype)
    assert_model_like_eager(
        model, (ints(WORDS, 3, 7),), lambda run, x: run(x).square().mean(), tolerance
    )
    assert (WHOLE if dtype is torch.bfloat16 else IN_PLACE) in ran()


def test_by_frequency():
    assert_model_like_eager(Tied(scale_grad_by_freq=True), (ints(WORDS, 3, 7),), loss_of, 1e-6)
    assert WHOLE in ran() and IN_PLACE not in ran()


def test_a_product_that_is_read_once_more():
    """The product is a result of its own, so nothing is added to its memory."""

    def both(weight, x, a, b):
        product = a @ b
        gradient = torch.ops.aten.embedding_dense_backward(weight, x, WORDS, -1, False)
        return gradient + product, product

    args = (ints(9, 5, WIDTH).float(), ints(WORDS, 5), ints(9, WORDS, 3).float(),
            ints(9, 3, WIDTH, seed=2).float())
    args = [a.to(DEV) for a in args]
    for found, expected in zip(torch.compile(both)(*args), both(*args), strict=True):
        assert torch.equal(found, expected)
    assert IN_PLACE not in ran()


def test_an_input_is_not_written():
    def add(rows, x, other):
        return torch.ops.aten.embedding_dense_backward(rows, x, WORDS, -1, False) + other

    rows, x, other = (t.to(DEV) for t in (
        ints(9, 5, WIDTH).float(), ints(WORDS, 5), ints(9, WORDS, WIDTH, seed=1).float()))
    before = other.clone()
    assert torch.equal(torch.compile(add)(rows, x, other), add(rows, x, before))
    assert torch.equal(other, before)


def test_two_embeddings_of_a_weight():
    class Both(Tied):
        def forward(self, x):
            h = self.layer(self.words(x) + self.words(x.flip(0)).tanh())
            return F.linear(h, self.words.weight)

    assert_model_like_eager(Both(), (ints(WORDS, 3, 7),), loss_of, 1e-6)
