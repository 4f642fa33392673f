# SPDX-License-Identifier: BSD-3-Clause
"""nonzero, masked_select, masked_scatter and indexing by a mask."""

import pytest
import torch

from ops import ALL, FLOATS, check, no_fallback, to_card, values, with_gradients

SHAPES = [(), (1,), (0,), (7,), (1000,), (3, 0, 2), (5, 9), (2, 3, 4, 5)]


def sparse(*size, dtype=torch.float32):
    """Random values, of which about half are zero."""
    x = values(*size, dtype=dtype)
    return x * (values(*size, seed=1) > 0).to(dtype)


@pytest.mark.parametrize("shape", SHAPES)
def test_nonzero(shape):
    check(torch.nonzero, sparse(*shape))
    check(lambda x: torch.nonzero(x, as_tuple=True), sparse(*shape))
    check(torch.nonzero, torch.zeros(shape))
    check(torch.nonzero, torch.ones(shape))


@pytest.mark.parametrize("dtype", ALL)
def test_nonzero_of_types(dtype):
    check(torch.nonzero, sparse(6, 7, dtype=dtype))
    check(torch.nonzero, sparse(6, 7, dtype=dtype).t())


def test_nonzero_of_long_and_strided():
    """The card processes 32768 elements at a time."""
    for x in (sparse(100_003), sparse(300, 7, 60), sparse(70_000, 2)):
        check(torch.nonzero, x)
        check(torch.nonzero, x.transpose(0, -1))
        check(lambda x: x[x > 1], x)
    check(lambda x: x.expand(5, 3000).nonzero(), sparse(5, 1))
    check(torch.nonzero, torch.tensor([float("nan"), -0.0, 0.0, 1e-45]))
    check(torch.nonzero, sparse(2, 1, 3, 1, 2, 1, 2, 1, 2))
    assert sparse(3, 4).to("openreg").nonzero().stride() == sparse(3, 4).nonzero().stride()


def test_nonzero_into_a_result():
    x = sparse(5, 6)
    want = x.nonzero()
    for out in [torch.empty(0, dtype=torch.int64), torch.empty(2, len(want), dtype=torch.int64).t()]:
        got = to_card(out)
        with no_fallback():
            torch.nonzero(to_card(x), out=got)
        assert torch.equal(got.cpu(), want)
    with pytest.raises(RuntimeError, match="scalar type Long"):
        torch.nonzero(to_card(x), out=torch.empty(0, device="openreg"))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_masked_select(shape, dtype):
    x, mask = values(*shape, dtype=dtype), values(*shape, seed=2) > 0
    check(torch.masked_select, x, mask)
    check(torch.masked_select, x, torch.zeros_like(mask))
    check(lambda x, m: x[m], x, mask)


@pytest.mark.parametrize("dtype", FLOATS)
def test_masked_select_broadcasts_and_has_gradients(dtype):
    x, mask = values(4, 1, 6, dtype=dtype), values(5, 1, seed=3) > 0
    # A gradient in a half type may be rounded after each addend, or at the end.
    tolerance = {"rtol": 2e-2, "atol": 2e-2} if dtype.itemsize == 2 else {}
    check(with_gradients(torch.masked_select), x, mask, **tolerance)
    check(with_gradients(torch.masked_select), x.transpose(0, 2), mask, **tolerance)


def test_masked_select_into_a_result():
    x, mask = values(5, 6), values(5, 6, seed=2) > 0
    out = torch.empty(0, device="openreg")
    with no_fallback():
        torch.masked_select(to_card(x), to_card(mask), out=out)
    assert torch.equal(out.cpu(), x[mask])
    with pytest.raises(RuntimeError, match="same scalar type"):
        torch.masked_select(to_card(x), to_card(mask), out=out.int())
    with pytest.raises(RuntimeError, match="expected BoolTensor"):
        torch.masked_select(to_card(x), to_card(mask.int()))


@pytest.mark.parametrize("shape", [s for s in SHAPES if s])
def test_masked_scatter(shape):
    x, mask = values(*shape), values(*shape, seed=2) > 0
    source = values(max(int(mask.sum()), 1) + 3, seed=4)
    check(with_gradients(lambda x, m, s: x.masked_scatter(m, s)), x, mask, source)
    check(lambda x, m, s: x.masked_scatter(m, s), x, torch.zeros_like(mask), source[:0])


def test_masked_scatter_refuses():
    x, mask = values(5, 6), values(5, 6, seed=2) > 0
    a, m = to_card(x), to_card(mask)
    with pytest.raises(RuntimeError, match="number of ones in mask"):
        a.masked_scatter_(m, to_card(values(int(mask.sum()) - 1)))
    with pytest.raises(RuntimeError, match="same dtypes"):
        a.masked_scatter_(m, to_card(values(30, dtype=torch.float64)))
    with pytest.raises(RuntimeError, match="boolean masks"):
        a.masked_scatter_(m.int(), a)
    assert torch.equal(a.cpu(), x)


def test_a_mask_as_an_index():
    x, mask = values(5, 6, 2), values(5, 6, seed=2) > 0

    def write(x, m):
        x = x.clone()
        x[m] = 7
        x[m[:, 0]] += 1
        return x

    check(write, x, mask)
    check(lambda x, m: x[:, m[0]], x, mask)


def test_large():
    x = values(1 << 20)
    check(torch.nonzero, (x > 3.9))
    check(torch.masked_select, x, x > 0)


@pytest.mark.parametrize("n", [(1 << 20) + 1, 3 << 20, (5 << 20) + 77])
def test_long_masks(n):
    """The card numbers the elements of a long mask in blocks; some blocks select none."""
    mask = torch.zeros(n, dtype=torch.bool)
    mask[torch.arange(0, 1 << 20, 3)] = True
    mask[-5:] = True
    x = torch.arange(n, dtype=torch.int32)
    check(torch.nonzero, mask)
    check(torch.masked_select, x, mask)
    check(lambda x, m, s: x.masked_scatter(m, s), x, mask, -x)
    check(lambda x, m: x.masked_scatter(m, x), x, mask)
    with pytest.raises(RuntimeError, match="at least the number of ones"):
        to_card(x).masked_scatter_(to_card(mask), to_card(x[:100]))


def test_memory_of_masks():
    """The operators allocate memory for the selected elements, not for the whole mask."""
    n = 1 << 25
    mask = torch.zeros(n, dtype=torch.bool, device="openreg")
    mask[n // 3] = True
    x = torch.zeros(n, dtype=torch.int8, device="openreg")
    source = torch.ones(1, dtype=torch.int8, device="openreg")
    for use in (mask.nonzero, lambda: x[mask], lambda: x.masked_scatter_(mask, source)):
        use()
        torch.openreg.empty_cache()
        torch.openreg.reset_peak_memory_stats()
        before = torch.openreg.memory_allocated()
        use()
        assert torch.openreg.max_memory_allocated() - before < 3 * n
    assert mask.nonzero().item() == n // 3 and x.nonzero().item() == n // 3
