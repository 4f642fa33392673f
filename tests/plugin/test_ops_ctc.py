# SPDX-License-Identifier: BSD-3-Clause
"""ctc_loss: batches with several lengths, and targets that are concatenated or padded."""

import pytest
import torch
import torch.nn.functional as F
from ops import no_fallback, to_card, to_cpu, values

STEPS, BATCH, CLASSES = 12, 5, 6
INPUTS, TARGETS = [12, 7, 12, 9, 3], [4, 3, 0, 2, 5]  # the last input has too few steps


def labels(count, blank, seed=0):
    generator = torch.Generator().manual_seed(seed)
    found = torch.randint(0, CLASSES - 1, (count,), generator=generator)
    return found + (found >= blank).long()


def targets_of(lengths, blank, padded):
    flat = labels(sum(lengths), blank)
    if not padded:
        return flat
    rows = torch.full((len(lengths), max(lengths) + 2), -7)  # padding may have any value
    for row, one in zip(rows, flat.split(lengths)):
        row[: len(one)] = one
    return rows


def run(x, target, inputs, lengths, **keys):
    x = x.detach().requires_grad_()
    loss = F.ctc_loss(x.log_softmax(-1), target, inputs, lengths, **keys)
    grad = values(*loss.shape, dtype=x.dtype, seed=4).to(x.device)
    return loss.detach(), *torch.autograd.grad(loss, x, grad)


def same(x, target, inputs, lengths, **keys):
    want = run(x, target, inputs, lengths, **keys)
    with no_fallback():
        got = run(to_card(x), to_card(target), inputs, lengths, **keys)
    torch.testing.assert_close(to_cpu(list(got)), list(want), rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("blank", [0, 3, CLASSES - 1])
@pytest.mark.parametrize("zero_infinity", [False, True])
def test_equals_the_cpu(dtype, padded, blank, zero_infinity):
    x = values(STEPS, BATCH, CLASSES, dtype=dtype)
    target = targets_of(TARGETS, blank, padded)
    for reduction in ["none", "mean", "sum"]:
        same(x, target, INPUTS, TARGETS, blank=blank, zero_infinity=zero_infinity, reduction=reduction)


def test_shapes():
    one = labels(3, 0)
    same(values(9, CLASSES), one, torch.tensor(9), torch.tensor(3))  # no batch
    same(values(1, 2, CLASSES), labels(2, 0), [1, 1], [1, 1])
    same(values(9, 2, CLASSES), labels(0, 0), [9, 4], [0, 0])
    same(values(9, 2, CLASSES), labels(5, 0), torch.tensor([9, 0]), torch.tensor([5, 0]), reduction="none")
    same(values(9, 2, CLASSES), labels(5, 0), [0, 0], [2, 3], zero_infinity=True)
    same(values(9, 2, CLASSES), labels(0, 0), [0, 0], [0, 0], reduction="sum")
    same(values(50, 2, CLASSES), labels(5, 0), [7, 9], [2, 3])  # all end before the last step
    same(values(9, 2, CLASSES), labels(5, 0).int(), [9, 8], [2, 3])
    same(values(2, 9, CLASSES).transpose(0, 1), labels(5, 0), [9, 8], [2, 3])
    same(values(9, 2, CLASSES), torch.tensor([2, 2, 2, 2, 1]), [9, 6], [4, 1])
    same(values(200, 3, 40), labels(60, 0), [200, 150, 99], [20, 20, 20])


def test_lengths_of_the_card_and_targets_of_the_cpu():
    x = values(STEPS, 2, CLASSES)
    target, inputs, lengths = labels(5, 0), torch.tensor([12, 9]), torch.tensor([2, 3])
    want = F.ctc_loss(x.log_softmax(2), target, inputs, lengths)
    card = to_card(x)
    with no_fallback():
        got = F.ctc_loss(card.log_softmax(2), target, to_card(inputs), to_card(lengths))
        op = torch.ops.aten._ctc_loss.Tensor
        both = op(card.log_softmax(2), to_card(target), to_card(inputs), to_card(lengths))
    torch.testing.assert_close(got.cpu(), want)
    assert both[1].shape == (2, STEPS, 7) and both[1].is_contiguous()


def test_second_gradients_are_refused():
    x = to_card(values(STEPS, 2, CLASSES)).requires_grad_()
    loss = F.ctc_loss(x.log_softmax(2), to_card(labels(5, 0)), [12, 9], [2, 3])
    (grad,) = torch.autograd.grad(loss, x, create_graph=True)
    with pytest.raises(RuntimeError, match="not differentiable twice|not implemented"):
        grad.sum().backward()


BAD = {
    "must be in label range": lambda x, t: F.ctc_loss(x, t, [12, 9], [2, 3], blank=CLASSES),
    "input_lengths must be of size batch_size": lambda x, t: F.ctc_loss(x, t, [12], [2, 3]),
    "target_lengths must be of size batch_size": lambda x, t: F.ctc_loss(x, t, [12, 9], [2]),
    "to have value at most 12": lambda x, t: F.ctc_loss(x, t, [13, 9], [2, 3]),
    "Expected tensor to have size 4": lambda x, t: F.ctc_loss(x, t, [12, 9], [2, 2]),
    "not implemented for 'Half'": lambda x, t: F.ctc_loss(x.half(), t, [12, 9], [2, 3]),
}


@pytest.mark.parametrize("text", BAD)
def test_errors(text):
    x, target = values(STEPS, 2, CLASSES).log_softmax(2), labels(5, 0)
    for args in [(x, target), (to_card(x), to_card(target))]:
        with pytest.raises((RuntimeError, NotImplementedError), match=text):
            BAD[text](*args)
