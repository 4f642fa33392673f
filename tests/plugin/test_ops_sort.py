# SPDX-License-Identifier: BSD-3-Clause
"""sort and operators that use it: topk, kthvalue, median, unique, searchsorted."""

import pytest
import torch

from ops import ALL, FLOATS, INTS, check, no_fallback, to_card, values, with_gradients

SHAPES = [(), (1,), (0,), (7,), (3, 0, 2), (5, 9), (4, 3, 50), (2, 2, 300)]
NAN, INF = float("nan"), float("inf")


def stable(x, dim=-1, descending=False):
    return list(torch.sort(x, stable=True, dim=dim, descending=descending))


def ties(*size, dtype=torch.float32):
    return values(*size, dtype=dtype, low=-3, high=3).round()


def with_nans(*size):
    x = ties(*size)
    return x.masked_fill(values(*size, seed=1) > 2, NAN)


def same_error(function, *args):
    """The call raises on both, with the same type and first line of the error."""
    with pytest.raises(Exception) as want:
        function(*args)
    with no_fallback(), pytest.raises(want.type) as got:
        function(*to_card(args))
    words = str(want.value).split("\n", maxsplit=1)[0]
    assert str(got.value).split("\n", maxsplit=1)[0].replace("openreg:0", "cpu") == words


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("descending", [False, True])
def test_sort(shape, descending):
    for dim in range(-1, max(len(shape) - 1, 0)):
        check(lambda x: stable(x, dim, descending), ties(*shape))
        check(lambda x: torch.sort(x, dim, descending).values, values(*shape))
        check(lambda x: torch.argsort(x, dim=dim, stable=True), ties(*shape))


@pytest.mark.parametrize("dtype", ALL)
def test_sort_of_types(dtype):
    x = values(7, 100, dtype=dtype, low=-100, high=100)
    check(lambda x: stable(x, 1), x)
    check(lambda x: stable(x, 0, True), x)
    check(lambda x: stable(x.t()[::2], 0), x)
    check(torch.msort, x)


def test_nan_is_greatest_and_zeros_are_equal():
    x = torch.tensor([NAN, -0.0, 0.0, -NAN, INF, -INF, -1.0, 0.0, -0.0])
    for dtype in FLOATS:
        check(lambda x: stable(x), x.to(dtype))
        check(lambda x: stable(x, descending=True), x.to(dtype))
    signs = torch.sort(x.to("openreg"), stable=True).values.cpu().signbit()
    assert signs.tolist()[2:6] == [True, False, False, True]
    check(lambda x: stable(x), with_nans(30, 40))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8, torch.float16])
def test_long_rows(dtype):
    x = values(2, 70000, dtype=dtype, low=-1000, high=1000)
    check(lambda x: stable(x), x)
    check(lambda x: stable(x.t().contiguous(), 0, True), x)
    check(lambda x: torch.topk(x, 100).values, x)
    check(lambda x: torch.topk(x, 30000, largest=False).values, x)


def test_sort_into_results():
    x = ties(6, 8)
    want = torch.sort(x, stable=True)
    results = [
        (torch.empty(0), torch.empty(0, dtype=torch.int64)),
        (torch.empty(8, 6).t(), torch.empty(6, 16, dtype=torch.int64)[:, ::2]),
    ]
    for out in results:
        got = to_card(out)
        with no_fallback():
            torch.sort(to_card(x), stable=True, out=got)
        assert torch.equal(got[0].cpu(), want[0]) and torch.equal(got[1].cpu(), want[1])
    card = to_card(x)
    index = torch.empty(0, dtype=torch.int64, device="openreg")
    torch.sort(card, stable=True, out=(card, index))
    assert torch.equal(card.cpu(), want.values) and torch.equal(index.cpu(), want.indices)


def test_many_dimensions():
    x = values(2, 1, 3, 2, 1, 2, 3, 2, 2, 2).permute(9, 1, 3, 2, 4, 0, 6, 7, 8, 5)
    check(lambda x: stable(x, 3), x)
    check(lambda x: stable(x[..., ::2, :, :], 6), x)


def test_sort_backward():
    x = values(5, 7)
    check(with_gradients(lambda x: torch.sort(x, 0).values), x)
    check(with_gradients(lambda x: torch.sort(x.t(), 1, True).values), x)
    check(with_gradients(torch.msort), x)


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("in_order", [False, True])
def test_topk(largest, in_order):
    def topk(x, k, dim=-1):
        found = torch.topk(x, k, dim, largest, in_order)
        assert torch.equal(x.gather(dim, found.indices), found.values) or x.isnan().any()
        return found.values.sort(dim).values

    for dtype in [*FLOATS, *INTS]:
        check(lambda x: topk(x, 5), values(4, 60, dtype=dtype))
        check(lambda x: topk(x, 3, 0), values(60, 4, dtype=dtype))
    for k in [0, 1, 1000]:
        check(lambda x: topk(x, k), values(3, 1000))
    check(lambda x: topk(x, 6), with_nans(5, 20))
    check(lambda x: list(torch.topk(x, 1, 0, largest)), torch.tensor(3.0))
    check(lambda x: list(torch.topk(x, 0, 0, largest)), torch.tensor(3.0))
    check(lambda x: list(torch.topk(x, 2, 0, largest)), torch.empty(3, 0))
    check(with_gradients(lambda x: torch.topk(x, 3, 1, largest).values), values(4, 6))


def test_topk_is_in_order():
    x = torch.tensor([3.0, 5, 3, 5, 1]).to("openreg")
    assert [t.tolist() for t in torch.topk(x, 4)] == [[5, 5, 3, 3], [1, 3, 0, 2]]
    assert [t.tolist() for t in torch.topk(x, 3, largest=False)] == [[1, 3, 3], [4, 0, 2]]


@pytest.mark.parametrize("keepdim", [False, True])
def test_kthvalue(keepdim):
    for dtype in [torch.float32, torch.float64, *INTS]:
        x = values(6, 40, dtype=dtype, low=-90, high=90)
        for k in [1, 17, 40]:
            check(lambda x: torch.kthvalue(x, k, 1, keepdim).values, x)
        check(lambda x: torch.kthvalue(x.t(), 3, 0, keepdim).values, x)
    x = torch.arange(50.0).view(5, 10).flip(1)
    check(lambda x: list(torch.kthvalue(x, 4, 1, keepdim)), x)
    check(lambda x: list(torch.kthvalue(x, 1, 0, keepdim)), torch.tensor(2.5))
    check(lambda x: list(torch.kthvalue(x, 2, 1, keepdim)), torch.empty(0, 3))
    check(with_gradients(lambda x: torch.kthvalue(x, 4, 1, keepdim).values), values(5, 10))
    check(lambda x: torch.kthvalue(x, 18, 1, keepdim).values, with_nans(4, 20))


@pytest.mark.parametrize("function", [torch.median, torch.nanmedian])
def test_median(function):
    for dtype in [torch.float32, torch.float64, *INTS]:
        for x in [values(3, 9, dtype=dtype), values(8, 5, dtype=dtype, low=-90, high=90)]:
            check(function, x)
            check(lambda x: function(x, 0).values, x)
            check(lambda x: function(x, 1, True).values, x)
    x = torch.arange(60.0).view(6, 10)[:, torch.randperm(10)]
    check(lambda x: list(function(x, 1)), x)
    x[1, 3], x[1, 7], x[4, 0] = NAN, NAN, NAN
    check(lambda x: list(function(x, 1)), x)
    x[5] = NAN
    check(lambda x: function(x, 1).values, x)
    check(lambda x: list(function(x, 0, True)), x)
    check(function, x)
    check(function, torch.full((3,), NAN))
    check(lambda x: list(function(x, 0)), torch.tensor(1.5))
    check(lambda x: list(function(x, 1)), torch.empty(0, 3))
    check(function, torch.empty(0))
    check(with_gradients(lambda x: function(x, 1).values), values(4, 7))
    check(with_gradients(function), values(4, 7))


def test_halves_of_median_and_kthvalue():
    x = values(6, 31)
    for dtype in [torch.float16, torch.bfloat16]:
        half = x.to(dtype)
        card = half.to("openreg")
        with no_fallback():
            assert torch.equal(card.median(1).values.cpu(), half.float().median(1).values.to(dtype))
            assert torch.equal(
                card.kthvalue(5, 1).values.cpu(), half.float().kthvalue(5, 1).values.to(dtype)
            )


def test_quantile():
    x = values(8, 21)
    for q in [0.0, 0.3, 1.0]:
        check(lambda x: torch.quantile(x, q, 1), x)
    check(lambda x: torch.nanquantile(x, 0.7, 0), with_nans(6, 9))


def test_errors():
    x = values(3, 5)
    same_error(lambda x: torch.sort(x, 2), x)
    same_error(lambda x: torch.topk(x, 6), x)
    same_error(lambda x: torch.topk(x, -1), x)
    same_error(lambda x: torch.kthvalue(x, 0, 1), x)
    same_error(lambda x: torch.kthvalue(x, 6, 1), x)
    same_error(lambda x: torch.kthvalue(x, 1, 1), torch.empty(3, 0))
    same_error(lambda x: torch.median(x, 1), torch.empty(3, 0))
    same_error(lambda x: torch.median(x, 3), x)
    same_error(lambda x, v, i: torch.sort(x, 1, out=(v, i)), x, x.long(), x.long())
    same_error(lambda x, v, i: torch.kthvalue(x, 1, out=(v, i)), x, x.long(), x.long())
    same_error(lambda x, v, i: torch.kthvalue(x, 1, out=(v, i)), x, x[:, 0], x[:, 0])
    # The rest of this text contains a type name that depends on the device.
    card = x.to("openreg")
    for out in [(card[0], card[0]), (card[0].long(), card[0].long())]:
        with pytest.raises(RuntimeError, match="checking arguments for median"):
            torch.median(card, 1, out=out)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS])
def test_unique(dtype):
    for x in [ties(40, dtype=dtype), ties(5, 8, dtype=dtype).t(), torch.empty(0, 3, dtype=dtype)]:
        check(torch.unique, x)
        check(lambda x: list(torch.unique(x, return_inverse=True, return_counts=True)), x)
        check(lambda x: list(x.unique_consecutive(return_inverse=True, return_counts=True)), x)
    check(lambda x: torch.unique(x, sorted=False, return_counts=True)[1].sum(), ties(9, 9))


def test_unique_of_few():
    for x in [torch.tensor(3.0), torch.ones(70000), torch.tensor([True, False, True])]:
        check(lambda x: list(torch.unique(x, return_inverse=True, return_counts=True)), x)
    check(lambda x: list(torch.unique_consecutive(x, return_counts=True, dim=0)), ties(50))


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_unique_slices(dim):
    wanted = {"dim": dim, "return_inverse": True, "return_counts": True}
    few = (values(20, 3, 20) > 0).float()[:, :, :3]
    for x in [few.long(), few[:, 0], few.movedim(0, 2)[:, :1], torch.ones(4, 5)]:
        check(lambda x: list(torch.unique(x, **wanted)), x)
        check(lambda x: list(torch.unique_consecutive(x, **wanted)), x)
        check(lambda x: torch.unique(x, dim=dim), x)
    for x in [torch.empty(0, 3), torch.empty(3, 0), torch.empty(0, 0)]:
        for function in [torch.unique, torch.unique_consecutive]:
            if x.size(dim) == 0 and x.numel() == 0 and sum(x.shape) > 0:
                check(lambda x: list(function(x, **wanted)), x)
            else:
                same_error(lambda x: function(x, **wanted), x)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS])
@pytest.mark.parametrize("right", [False, True])
def test_searchsorted(dtype, right):
    sequence, x = ties(3, 13, dtype=dtype).sort(1).values, ties(3, 7, dtype=dtype)
    check(lambda s, x: torch.searchsorted(s, x, right=right), sequence, x)
    check(lambda s, x: torch.searchsorted(s[1], x, right=right, out_int32=True), sequence, x)
    check(lambda s, x: torch.bucketize(x, s[0], right=right), sequence, x)
    check(lambda s: torch.searchsorted(s[2], 1, right=right), sequence)
    check(lambda s: torch.bucketize(1, s[2], right=right), sequence)


def test_searchsorted_of_all_kinds():
    sequence, x = ties(4, 10), values(4, 6)
    order = sequence.argsort(1)
    check(lambda s, x, o: torch.searchsorted(s, x, sorter=o), sequence, x, order)
    sequence = sequence.sort(1).values
    check(lambda s, x: torch.searchsorted(s, x.long(), side="right"), sequence, x)
    check(lambda s, x: torch.searchsorted(s, x[:, :0]), sequence, x)
    check(lambda s, x: torch.searchsorted(s[:, :0], x), sequence, x)
    special = torch.tensor([NAN, INF, -INF, 0.0])
    check(torch.searchsorted, sequence[0].contiguous(), special)
    check(torch.searchsorted, torch.tensor([0.0, 1.0, NAN, NAN]), special)
    for n in range(1, 20):
        check(torch.searchsorted, torch.arange(n) * 2, torch.arange(-1, 2 * n + 1))
    same_error(torch.searchsorted, sequence, x[:2])
    same_error(lambda s, x: torch.searchsorted(s, x, side="middle"), sequence, x)
    same_error(lambda s, x: torch.bucketize(x, s), sequence, x)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.float32])
def test_randperm(dtype):
    with no_fallback():
        for n in [0, 1, 2, 1000, 40000]:
            x = torch.randperm(n, dtype=dtype, device="openreg")
            assert x.dtype == dtype
            assert torch.equal(x.cpu().sort().values, torch.arange(n, dtype=dtype))
        generator = torch.Generator("openreg").manual_seed(5)
        first = torch.randperm(100, generator=generator, device="openreg")
        assert not torch.equal(first, torch.randperm(100, generator=generator, device="openreg"))
        generator.manual_seed(5)
        assert torch.equal(first, torch.randperm(100, generator=generator, device="openreg"))
    with pytest.raises(RuntimeError, match="negative"):
        torch.randperm(-1, device="openreg")


def test_randperm_sorts_random_keys():
    """randperm() sorts the elements by random keys: signed 64-bit numbers."""
    device = torch.device("openreg")
    torch.manual_seed(11)
    order = torch.randperm(500, device=device)
    torch.manual_seed(11)
    keys = torch.empty(500, dtype=torch.int64, device=device).random_(-(2**63), None)
    assert torch.equal(order.cpu(), keys.cpu().sort(stable=True).indices)


def test_randperm_is_uniform():
    torch.manual_seed(3)
    rows = torch.stack([torch.randperm(4, device="openreg") for _ in range(2000)]).cpu()
    counts = torch.stack([(rows == i).sum(0) for i in range(4)])
    assert (counts - 500).abs().max() < 5 * (2000 * 0.25 * 0.75) ** 0.5


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial(dtype, replacement):
    weights = torch.tensor([[0.0, 1, 2, 0, 5, 0], [4, 0, 0, 4, 0, 8]], dtype=dtype)
    torch.manual_seed(6)
    with no_fallback():
        card = weights.to("openreg")
        x = torch.multinomial(card, 2, replacement).cpu()
        one = torch.multinomial(card[0], 1, replacement).cpu()
        many = torch.multinomial(card, 8000, True).cpu()
    assert x.shape == (2, 2) and one.shape == (1,) and x.dtype == torch.int64
    assert (weights.gather(1, x) > 0).all()
    assert replacement or (x[:, 0] != x[:, 1]).all()
    share = torch.stack([(many == i).sum(1) for i in range(6)], 1) / 8000
    want = weights.double() / weights.double().sum(1, keepdim=True)
    assert (share - want).abs().max() < 0.03
    assert (share[want == 0] == 0).all()


def test_assertions():
    """torch._assert_async() raises as on the CPU."""
    for value in [0.0, 1.0, True, False]:
        x = torch.tensor(value)
        for call in [torch._assert_async, lambda x: torch._assert_async(x, "so it is not")]:
            if value:
                with no_fallback():
                    call(x.to("openreg"))
            else:
                same_error(call, x)


def test_multinomial_without_replacement_is_fair():
    torch.manual_seed(7)
    weights = torch.tensor([1.0, 2, 5]).expand(6000, 3).to("openreg")
    first = torch.multinomial(weights, 2)[:, 0].cpu()
    share = torch.stack([(first == i).sum() for i in range(3)]) / 6000
    assert (share - torch.tensor([1.0, 2, 5]) / 8).abs().max() < 0.03


@pytest.mark.parametrize("weight", [1e308, 5e-324])
def test_multinomial_of_extreme_weights(weight):
    x = torch.tensor([0.0, weight, weight, 0.0], dtype=torch.float64, device="openreg")
    assert set(torch.multinomial(x, 1000, True).tolist()) == {1, 2}


def test_invalid_out():
    x = values(6, 4).to("openreg")
    row, rows = torch.empty(1, device="openreg"), torch.empty(6, device="openreg:1")
    index = torch.empty(6, dtype=torch.long, device="openreg")
    for call in (torch.median, torch.nanmedian, lambda *a, **k: torch.kthvalue(a[0], 2, a[1], **k)):
        with pytest.raises(RuntimeError, match="single memory location"):
            call(x, 1, out=(row.expand(6), index))
        with pytest.raises(RuntimeError, match="same device|openreg:1"):
            call(x, 1, out=(rows, index))
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.randperm(5, out=torch.empty(1, dtype=torch.long, device="openreg").expand(5))
    torch.openreg.synchronize()


def test_multinomial_errors_and_results():
    x = torch.rand(4, 5)
    same_error(lambda x: torch.multinomial(x, 6), x)
    same_error(lambda x: torch.multinomial(x, 0), x)
    same_error(lambda x: torch.multinomial(x.view(2, 2, 5), 1), x)
    same_error(lambda x: torch.multinomial(x.long(), 1), x)
    for bad in [-1.0, NAN, INF]:
        same_error(lambda x: torch.multinomial(x, 2, True), torch.tensor([1.0, bad, 2.0]))
        same_error(lambda x: torch.multinomial(x, 2), torch.tensor([1.0, bad, 2.0]))
    same_error(lambda x: torch.multinomial(x, 2, True), torch.zeros(3))
    out = torch.empty(0, dtype=torch.int64, device="openreg")
    torch.multinomial(x.to("openreg"), 3, out=out)
    assert out.shape == (4, 3)
    generator = torch.Generator("openreg").manual_seed(5)
    first = torch.multinomial(x.to("openreg"), 3, True, generator=generator)
    generator.manual_seed(5)
    again = torch.multinomial(x.to("openreg"), 3, True, generator=generator)
    assert torch.equal(first.cpu(), again.cpu())


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS])
@pytest.mark.parametrize("shape", [(5, 7), (3000,), (70, 60)])
@pytest.mark.parametrize("others", [1, 40, 5000])
def test_isin(dtype, shape, others):
    x, y = values(*shape, dtype=dtype), values(others, dtype=dtype, seed=1)
    for invert in (False, True):
        check(lambda a, b: torch.isin(a, b, invert=invert), x, y)
        check(lambda a, b: torch.isin(a, b.expand(2, others), invert=invert), x[::2], y)


@pytest.mark.parametrize("n", [1, 6000])
def test_isin_special_values(n):
    """Whichever way the card takes: NaN is in no set, and -0.0 equals 0.0."""
    x = torch.tensor([NAN, -0.0, 0.0, INF, -INF, 1.0, 7.0]).repeat(n)
    y = torch.tensor([NAN, 0.0, INF, 7.0]).repeat(n)
    for a, b in ((x, y), (x, y[:3]), (x, -y), (y, -x), (x, y[:1].repeat(n))):
        for invert in (False, True):
            got = torch.isin(*to_card([a, b]), invert=invert)
            period = 7 if a is x else 4
            want = torch.isin(a[:period], b[:8], invert=invert).repeat(n)
            assert torch.equal(got.cpu(), want)
    a = torch.arange(50000)
    assert torch.equal(torch.isin(*to_card([a, a[::3]])).cpu(), a % 3 == 0)
