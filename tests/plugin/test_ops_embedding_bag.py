# SPDX-License-Identifier: BSD-3-Clause
"""embedding_bag: its modes, weights, padding and gradients."""

import pytest
import torch
import torch.nn.functional as F
from ops import FLOATS, check, no_fallback, to_card, to_cpu, values

ROWS, WIDTH = 9, 4
TOLERANCE = {
    torch.float32: {"rtol": 1e-5, "atol": 1e-5},
    torch.float64: {},
    torch.float16: {"rtol": 4e-3, "atol": 1e-2},
    torch.bfloat16: {"rtol": 3e-2, "atol": 6e-2},
}
INDICES = torch.tensor([3, 1, 1, 8, 0, 3, 3, 2, 7, 1, 5])
OFFSETS = torch.tensor([0, 2, 2, 5, 10, 11])  # two bags are empty


def run(weight, indices, offsets, factors=None, **keys):
    weight = weight.detach().requires_grad_()
    factors = None if factors is None else factors.detach().requires_grad_()
    out = F.embedding_bag(indices, weight, offsets, per_sample_weights=factors, **keys)
    inputs = [weight] if factors is None else [weight, factors]
    grads = torch.autograd.grad(out, inputs, values(*out.shape, dtype=out.dtype, seed=3).to(out.device))
    return out.detach(), *(g.to_dense() for g in grads)


def same(weight, *args, **keys):
    want = run(weight, *args, **keys)
    with no_fallback():
        got = run(*to_card([weight, *args]), **keys)
    torch.testing.assert_close(to_cpu(list(got)), list(want), equal_nan=True, **TOLERANCE[weight.dtype])
    assert [g.stride() for g in got] == [w.stride() for w in want]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("index", [torch.int64, torch.int32])
@pytest.mark.parametrize("padding", [None, 3, -1])
@pytest.mark.parametrize("last", [False, True])
def test_modes(mode, dtype, index, padding, last):
    weight = values(ROWS, WIDTH, dtype=dtype)
    same(weight, INDICES.to(index), OFFSETS.to(index), mode=mode, padding_idx=padding, include_last_offset=last)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("padding", [None, 3])
def test_weights_of_samples(dtype, padding):
    weight, factors = values(ROWS, WIDTH, dtype=dtype), values(11, dtype=dtype, seed=2)
    same(weight, INDICES, OFFSETS, factors, mode="sum", padding_idx=padding)
    same(weight, INDICES[:10].view(2, 5), None, factors[:10].view(2, 5), mode="sum", padding_idx=padding)


def test_shapes():
    weight = values(ROWS, WIDTH)
    for mode in ["sum", "mean", "max"]:
        same(weight, INDICES[:10].view(5, 2), None, mode=mode)
        same(weight, INDICES[:0], torch.tensor([0, 0]), mode=mode)
        same(weight, INDICES, torch.tensor([0]), mode=mode)
        same(values(WIDTH, ROWS).t(), INDICES, OFFSETS, mode=mode)
        same(weight[:, ::2], INDICES[::2], torch.tensor([0, 3]), mode=mode)
    same(values(1000, 70), (values(500, low=0, high=1000)).long(), torch.arange(0, 500, 7), mode="mean")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_more_indices_than_rows(mode, dtype):
    indices = values(60, low=0, high=ROWS).long()
    for weight in (values(ROWS, WIDTH, dtype=dtype), values(WIDTH, ROWS, dtype=dtype).t()):
        same(weight, indices, torch.arange(0, 60, 7), mode=mode, padding_idx=3)


def test_ties_and_nans():
    weight = torch.tensor([[1.0, 2], [1, 3], [float("nan"), 3]])
    same(weight, torch.tensor([0, 1, 2, 1, 0]), torch.tensor([0, 2, 3]), mode="max")


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_by_frequency_and_sparse(mode):
    weight = values(ROWS, WIDTH)
    same(weight, INDICES, OFFSETS, mode=mode, scale_grad_by_freq=True)
    want = run(weight, INDICES, OFFSETS, mode=mode, sparse=True)
    got = run(*to_card([weight, INDICES, OFFSETS]), mode=mode, sparse=True)
    torch.testing.assert_close(to_cpu(list(got)), list(want))


def test_without_gradients():
    weight = values(ROWS, WIDTH)
    with torch.no_grad():
        check(lambda w, i, o: F.embedding_bag(i, w, o), weight, INDICES, OFFSETS)


def test_layer_trains():
    def losses(device):
        torch.manual_seed(0)
        bag = torch.nn.EmbeddingBag(ROWS, WIDTH, mode="mean").to(device)
        step = torch.optim.SGD(bag.parameters(), lr=0.5)
        found = []
        for _ in range(4):
            step.zero_grad()
            loss = bag(INDICES.to(device), OFFSETS.to(device)).pow(2).sum()
            loss.backward()
            step.step()
            found.append(loss.item())
        return found

    want = losses("cpu")
    with no_fallback():
        got = losses("openreg")
    assert got == pytest.approx(want, rel=1e-4)


BAD = {
    "only supported for mode='sum'": lambda w, i, o: F.embedding_bag(
        i, w, o, mode="mean", per_sample_weights=torch.ones(11, device=w.device)),
    "offsets has to be a 1D Tensor": lambda w, i, o: torch.embedding_bag(w, i, o.view(2, 3)),
    "weight has to be a 2D Tensor": lambda w, i, o: torch.embedding_bag(w[0], i, o),
    "scalar types": lambda w, i, o: torch.embedding_bag(w, i.float(), o),
    "number of offset should be at least 1": lambda w, i, o: torch.embedding_bag(
        w, i, o[:0], False, 0, False, None, True),
}


@pytest.mark.parametrize("text", BAD)
def test_errors(text):
    args = [values(ROWS, WIDTH), INDICES, OFFSETS]
    for given in (args, to_card(args)):
        with pytest.raises((RuntimeError, ValueError, NotImplementedError), match=text):
            BAD[text](*given)


def test_an_index_out_of_range():
    weight = to_card(values(ROWS, WIDTH))
    with pytest.raises(torch.AcceleratorError, match="index 9 is out of bounds for a dimension of size 9"):
        F.embedding_bag(torch.tensor([1, 9], device="openreg"), weight, torch.tensor([0], device="openreg"))
        torch.openreg.synchronize()


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_more_rows_than_one_slice(mode):
    weight = values(300, 256)
    indices = torch.arange(70_000) % 300
    offsets = torch.arange(0, 70_000, 1000)
    want = F.embedding_bag(indices, weight, offsets, mode=mode)
    with no_fallback():
        got = F.embedding_bag(*to_card([indices, weight, offsets]), mode=mode)
    torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-3)


def test_no_index_at_all():
    weight, none, offsets = values(ROWS, WIDTH), INDICES[:0], torch.tensor([0, 0])
    want = F.embedding_bag(none, weight, offsets)
    assert torch.equal(F.embedding_bag(*to_card([none, weight, offsets])).cpu(), want)
