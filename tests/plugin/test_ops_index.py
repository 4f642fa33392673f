# SPDX-License-Identifier: BSD-3-Clause
"""Gather, scatter, indexing and embedding, compared with the CPU."""

import packets
import pytest
import torch
from torch.nn import functional as F
from torch_openreg import _C

from ops import ALL, FLOATS, INTS, check, no_fallback, to_card, values
from test_ops_network import with_gradients


def indices(*size, high, low=0, dtype=torch.int64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(low, high, size, generator=generator).to(dtype)


def small(*size, dtype=torch.float32, seed=0):
    """Numbers with sums that are exact in every dtype."""
    return values(*size, dtype=torch.float64, low=-2, high=3, seed=seed).floor().to(dtype)


SHAPES = [  # of self, the dimension, of the index
    ((7,), 0, (5,)),
    ((5, 6), 0, (3, 6)),
    ((5, 6), 1, (5, 40)),
    ((4, 5, 6), 1, (2, 9, 6)),
    ((4, 5, 6), -1, (4, 1, 3)),
    ((2, 3, 4, 5), -3, (2, 70, 3, 4)),
    ((5, 6), 0, (0, 6)),
    ((), 0, ()),
]


@pytest.mark.parametrize("dtype", ALL)
def test_gather(dtype):
    for shape, dim, of_index in SHAPES:
        extent = shape[dim] if shape else 1
        for index_dtype in [torch.int64, torch.int32]:
            index = indices(*of_index, high=extent, dtype=index_dtype)
            check(lambda x, i: x.gather(dim, i), values(*shape, dtype=dtype), index)


def test_gather_of_views():
    x, i = values(6, 5, 4).permute(2, 0, 1), indices(3, 6, 4, high=5)
    check(lambda x, i: x.gather(2, i), x, i)
    check(lambda x, i: x[1:].gather(0, i[:2, ::2, :]), x, i.clamp(max=2))
    check(lambda x, i: x.gather(1, i.transpose(0, 1).expand(-1, -1, 4)), x, i[:, :1, :].clamp(max=3))
    out = torch.empty(0)
    check(lambda x, i, o: torch.gather(x, 2, i, out=o), x, i, out)
    check(lambda x, i: torch.take_along_dim(x, i, 2), x, i[:1])


@pytest.mark.parametrize("dtype", ALL)
def test_scatter(dtype):
    for shape, dim, of_index in SHAPES:
        extent = shape[dim] if shape else 1
        index = indices(*of_index, high=extent)
        x, src = small(*shape, dtype=dtype), small(*of_index, dtype=dtype, seed=1)
        # The CPU does not define which of duplicate indices wins: src needs unique ones.
        check(lambda x, i: x.scatter(dim, i, 1), x, index)
        check(lambda x, i, s: x.scatter_add(dim, i, s), x, index, src)
        unique = torch.arange(extent).flip(0)[: index.size(dim) if shape else 1]
        if shape and index.size(dim) <= extent and index.numel():
            view = [1] * len(shape)
            view[dim] = -1
            unique = unique.view(view).expand(of_index).contiguous()
            check(lambda x, i, s: x.scatter(dim, i, s), x, unique, src)
            check(lambda x, i, s: x.clone().scatter_(dim, i, s), x, unique, src)


def test_the_last_duplicate_wins():
    x, index = torch.zeros(10), indices(5000, high=10)
    src = torch.arange(5000.0)
    want = x.clone()
    for place, value in zip(index.tolist(), src.tolist()):
        want[place] = value
    with no_fallback():
        got = to_card(x).scatter(0, to_card(index), to_card(src))
        put = to_card(x).index_put_((to_card(index),), to_card(src))
        copied = to_card(x).index_copy_(0, to_card(index), to_card(src))
    assert torch.equal(got.cpu(), want)
    assert torch.equal(put.cpu(), want)
    assert torch.equal(copied.cpu(), want)


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce(reduce, include_self):
    for dtype in [*FLOATS, *INTS]:
        if reduce == "mean" and dtype == torch.uint8:
            continue  # the CPU counts in the dtype, which wraps
        for shape, dim, of_index in SHAPES:
            index = indices(*of_index, high=shape[dim] if shape else 1)
            x, src = small(*shape, dtype=dtype), small(*of_index, dtype=dtype, seed=1)
            tolerance = {"rtol": 2e-2, "atol": 1e-2} if dtype.itemsize == 2 else {}
            check(
                lambda x, i, s: x.scatter_reduce(dim, i, s, reduce, include_self=include_self),
                x, index, src, **tolerance,
            )  # fmt: skip


def test_old_scatter_reduce():
    x, i, s = small(5, 6), indices(5, 9, high=6), small(5, 9, seed=1)
    check(lambda x, i, s: x.scatter(1, i, s, reduce="add"), x, i, s)
    check(lambda x, i, s: x.scatter(1, i, s, reduce="multiply"), x, i, s)
    check(lambda x, i: x.scatter(1, i, 2.0, reduce="add"), x, i)
    check(lambda x, i: x.scatter(1, i, 2.0, reduce="multiply"), x, i)
    with pytest.raises(RuntimeError, match="reduce argument must be either add or multiply"):
        to_card(x).scatter(1, to_card(i), to_card(s), reduce="mean")


def test_nan_wins():
    x, i = torch.zeros(3), torch.tensor([0, 0, 1, 2])
    src = torch.tensor([float("nan"), 1.0, 2.0, -3.0])
    for reduce in ["amax", "amin"]:
        check(lambda x, i, s: x.scatter_reduce(0, i, s, reduce), x, i, src)
        check(lambda x, i, s: x.scatter_reduce(0, i, s.flip(0), reduce), x, i, src)


@pytest.mark.parametrize("dtype", ALL)
def test_index_select(dtype):
    x = values(4, 5, 6, dtype=dtype)
    for dim in [0, 1, 2, -1]:
        for index in [indices(9, high=4), indices(0, high=4), torch.tensor(3)]:
            check(lambda x, i: x.index_select(dim, i), x, index)
            check(lambda x, i: x.index_select(dim, i), x, index.int())
            check(lambda x, i: x.permute(2, 0, 1).index_select(dim, i), x, index)
    check(lambda x, i: x.index_select(0, i), x[0, 0, 0], torch.tensor([0]))
    check(lambda x, i, o: torch.index_select(x, 1, i, out=o), x, indices(3, high=5), x.new_empty(0))
    check(lambda x, i: x.index_select(1, i[::2]), x, indices(9, high=5))


@pytest.mark.parametrize("dtype", ALL)
def test_index_add_copy_fill(dtype):
    x, index = small(4, 5, 6, dtype=dtype), indices(9, high=5)
    source = small(4, 9, 6, dtype=dtype, seed=1)
    check(lambda x, i, s: x.index_add(1, i, s), x, index, source)
    check(lambda x, i, s: x.transpose(0, 2).index_add(1, i.int(), s.transpose(0, 2)), x, index, source)
    if dtype != torch.bool:
        check(lambda x, i, s: x.index_add(1, i, s, alpha=2), x, index, source)
    unique = torch.tensor([3, 0, 4])
    check(lambda x, i, s: x.index_copy(1, i, s[:, :3]), x, unique, source)
    check(lambda x, i: x.index_fill(1, i, 1), x, index)
    check(lambda x, i: x.index_fill(1, i - 5, 1), x, index)
    check(lambda x, i, v: x.index_fill(1, i, v), x, index, torch.tensor(1, dtype=dtype))
    check(lambda x, i: x[0, 0, 0].clone().index_fill_(0, i, 1), x, torch.tensor([0]))
    check(lambda x, i, s: x.index_add(0, i, s), x[0, 0], indices(9, high=6), source[0, :, 0])


@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
def test_index_reduce(reduce):
    for dtype in [torch.float32, torch.float64, torch.int64, torch.int16]:
        for include_self in [True, False]:
            check(
                lambda x, i, s: x.index_reduce(1, i, s, reduce, include_self=include_self),
                small(4, 5, 6, dtype=dtype), indices(9, high=5), small(4, 9, 6, dtype=dtype),
            )  # fmt: skip


INDEXINGS = [
    lambda x, i, j: x[i],
    lambda x, i, j: x[:, i],
    lambda x, i, j: x[..., i],
    lambda x, i, j: x[i, j],
    lambda x, i, j: x[i, :, j],
    lambda x, i, j: x[:, i, j],
    lambda x, i, j: x[i[:, None], j],
    lambda x, i, j: x[i[:, None], :, j[None]],
    lambda x, i, j: x[-1 - i, j - 4],
    lambda x, i, j: x[1:, i[None], None, j[:3, None]],
    lambda x, i, j: x[i.int(), 2],
    lambda x, i, j: x[None, i],
    lambda x, i, j: x[i[:0]],
    lambda x, i, j: x[[0, 2, -1]],
    lambda x, i, j: x.transpose(0, 2)[i, j],
]


@pytest.mark.parametrize("n", range(len(INDEXINGS)))
def test_index(n):
    i, j = indices(7, high=4), indices(7, high=4, seed=1)
    for dtype in ALL:
        check(INDEXINGS[n], values(4, 5, 6, dtype=dtype), i, j)


def assign(indexing, accumulate):
    """A function that assigns v to the elements that indexing(x, i, j) reads."""

    def run(x, i, j, v):
        found = []

        class Spy:
            def __getitem__(self, key):
                found.append(key)
                return self

        x = x.clone()
        indexing(Spy(), i, j)
        if accumulate:
            keys = found[0] if isinstance(found[0], tuple) else (found[0],)
            x.index_put_(keys, v, accumulate=True)
        else:
            x[found[0]] = v
        return x

    return run


@pytest.mark.parametrize("dtype", ALL)
def test_index_put(dtype):
    i, j = torch.tensor([3, 0, 2, 1]), torch.tensor([1, 3, 0, 2])
    x = small(4, 5, 6, dtype=dtype)
    for indexing in [*INDEXINGS[:9], INDEXINGS[11]]:
        v = small(*indexing(x, i, j).shape, dtype=dtype, seed=1)
        check(assign(indexing, False), x, i, j, v)
        check(assign(indexing, False), x, i, j, v.flatten()[0])
    check(lambda x, i: x.index_put_((i,), x.new_tensor(1)), x, i)
    many, others = indices(50, high=4), indices(50, high=5, seed=1)
    for keys in [lambda i, j: (i,), lambda i, j: (i, j), lambda i, j: (i[:, None], j[:9])]:
        v = small(*x[keys(many, others)].shape, dtype=dtype, seed=2)
        for value in [v, v[:1]]:
            check(
                lambda x, i, j, v: x.clone().index_put_(keys(i, j), v, accumulate=True),
                x, many, others, value,
            )  # fmt: skip


def test_index_put_of_a_cpu_number():
    x, i = small(4, 5), torch.tensor([3, 0])

    def run(x, i):
        x[i] = 7.0
        x[i, 1] = torch.tensor(3.0)
        return x

    check(run, x, i)


def test_an_index_on_the_cpu():
    x, i = values(5, 6), indices(4, high=5)
    with no_fallback():
        assert torch.equal(to_card(x)[i].cpu(), x[i])


def test_masks():
    x, mask = values(4, 5, 6), values(4, 5, seed=3) > 0
    y, m = to_card(x), to_card(mask)
    z = small(int(mask.sum()), 6)
    with no_fallback():
        assert torch.equal(y[m].cpu(), x[mask])
        assert torch.equal(y[:, m[0]].cpu(), x[:, mask[0]])
        y[m] = to_card(z)
        x[mask] = z
        assert torch.equal(y.cpu(), x)
        y[m] = -1.0
    x[mask] = -1.0
    assert torch.equal(y.cpu(), x)


@pytest.mark.parametrize("dtype", ALL)
def test_take_and_put(dtype):
    x, index = small(4, 5, dtype=dtype), indices(3, 7, low=-20, high=20)
    check(lambda x, i: x.take(i), x, index)
    check(lambda x, i: x.t().take(i[:, ::2]), x, index)
    check(lambda x, i, o: torch.take(x, i, out=o), x, index, x.new_empty(0))
    check(lambda x, i: x.take(i), x, index[:0])
    source = small(7, 3, dtype=dtype, seed=1)
    check(lambda x, i, s: x.clone().put_(i, s, accumulate=True), x, index, source)
    check(lambda x, i, s: x.clone().t().put_(i, s, accumulate=True), x, index, source)
    unique = torch.randperm(20, generator=torch.Generator().manual_seed(0)) - 10
    check(lambda x, i, s: x.clone().put_(i[:7], s[:, 0]), x, unique, source)


@pytest.mark.parametrize("dtype", FLOATS)
def test_embedding(dtype):
    tolerance = {"rtol": 5e-2, "atol": 1e-1} if dtype.itemsize == 2 else {}
    for shape in [(9,), (3, 4), (), (0,), (2, 0)]:
        for width in [1, 5, 700]:
            i, w = indices(*shape, high=11), small(11, width, dtype=dtype)
            check(lambda w, i: F.embedding(i, w), w, i)
            check(lambda w, i: F.embedding(i.int(), w), w, i)
            if i.numel():
                check(lambda w, i: with_gradients(lambda w: F.embedding(i, w))(w), w, i, **tolerance)
    i, w = indices(4, 30, high=11), small(11, 5, dtype=dtype)
    for options in [{"padding_idx": 3}, {"scale_grad_by_freq": True}]:
        check(lambda w, i: with_gradients(lambda w: F.embedding(i, w, **options))(w), w, i, **tolerance)


def test_gradients():
    i, j = indices(7, high=4), indices(7, high=4, seed=1)
    x = values(4, 5, 6)
    for indexing in INDEXINGS[:13]:
        check(lambda x, i, j: with_gradients(lambda x: indexing(x, i, j))(x), x, i, j)
    g = indices(4, 9, 6, high=5)
    s = values(4, 9, 6, seed=1)
    check(lambda x, g: with_gradients(lambda x: x.gather(1, g))(x), x, g)
    check(lambda x, g, s: with_gradients(lambda x, s: x.scatter_add(1, g, s))(x, s), x, g, s)
    check(lambda x, i: with_gradients(lambda x: x.index_select(0, i))(x), x, i)
    check(lambda x, i: with_gradients(lambda x: x.index_fill(0, i, 2))(x), x, i)
    check(lambda x, i: with_gradients(lambda x: x.take(i))(x), x, i)
    check(
        lambda x, i, s: with_gradients(lambda x, s: x.index_add(1, i, s, alpha=3))(x, s),
        x, indices(9, high=5), s,
    )  # fmt: skip
    check(
        lambda x, i, v: with_gradients(lambda x, v: x.index_put((i,), v, accumulate=True))(x, v),
        x, i, values(7, 5, 6, seed=2),
    )  # fmt: skip


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "prod"])
def test_gradcheck(reduce):
    i = to_card(indices(3, 5, high=4))
    x = to_card(values(3, 4, dtype=torch.float64)).requires_grad_()
    s = to_card(values(3, 5, dtype=torch.float64, seed=1)).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: x.gather(1, i), (x,))
    assert torch.autograd.gradcheck(lambda x: x[:, i[0]] * x[i[0, :3].clamp(max=2), :1], (x,))
    if reduce == "prod":
        x = x.detach().abs().add(1).requires_grad_()
        s = s.detach().abs().add(1).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, s: x.scatter_reduce(1, i, s, reduce), (x, s))


def test_deep_tensors():
    """More dimensions than a packet has, with strides that cannot merge."""
    x = values(*[2] * 11).permute(8, 0, 7, 2, 5, 4, 3, 6, 1, 9, 10)
    i = indices(*[2] * 11, high=2).permute(3, 1, 0, 2, 6, 5, 4, 8, 7, 10, 9)
    check(lambda x, i: x.gather(4, i), x, i)
    check(lambda x, i: x.scatter_add(4, i, x), x, i)
    check(lambda x, i: x.index_select(3, i), x, indices(5, high=2))


def test_large_sums_are_reproducible():
    """Work of many slices, with rounding that depends on the order."""
    index = indices(200000, high=1000)
    source = values(200000, dtype=torch.float32)
    rows = values(5000, 600)
    with no_fallback():
        i, s, r = to_card(index), to_card(source), to_card(rows)
        sums = [torch.zeros(1000, device="openreg").index_add_(0, i, s) for _ in range(3)]
        tables = [
            torch.zeros(1000, 600, device="openreg").index_add_(0, i[:5000], r) for _ in range(3)
        ]
        back = r.index_select(0, i[:5000])
    torch.testing.assert_close(sums[0].cpu(), torch.zeros(1000).index_add_(0, index, source))
    torch.testing.assert_close(
        tables[0].cpu(), torch.zeros(1000, 600).index_add_(0, index[:5000], rows)
    )
    assert torch.equal(back.cpu(), rows[index[:5000]])
    for again in sums[1:]:
        assert torch.equal(again, sums[0])
    for again in tables[1:]:
        assert torch.equal(again, tables[0])


BAD = [
    (lambda x, i: x[i], "aten::index.Tensor", 12, 10),
    (lambda x, i: x[i], "aten::index.Tensor", -11, 10),
    (lambda x, i: x.gather(0, i), "aten::gather", 12, 10),
    (lambda x, i: x.gather(0, i), "aten::gather", -1, 10),
    (lambda x, i: x.index_select(0, i), "aten::index_select", 10, 10),
    (lambda x, i: x.scatter_(0, i, 1.0), "aten::scatter_.value", 12, 10),
    (lambda x, i: x.scatter_add_(0, i, x[:3].clone()), "aten::scatter_add_", 12, 10),
    (lambda x, i: x.index_add_(0, i, x[:3].clone()), "aten::index_add_", -2, 10),
    (lambda x, i: x.index_put_((i,), x[:3].clone()), "aten::_index_put_impl_", 2**40, 10),
    (lambda x, i: x.take(i), "aten::take", 10, 10),
    (lambda x, i: F.embedding(i, x.view(5, 2)), "aten::index_select", 5, 5),
]


@pytest.mark.parametrize("n", range(len(BAD)))
def test_an_index_out_of_range(n):
    function, op, bad, size = BAD[n]
    x = to_card(values(10))
    i = to_card(torch.tensor([1, bad, 2]))
    with pytest.raises(RuntimeError) as caught:
        function(x, i)
        torch.openreg.synchronize()
    text = str(caught.value)
    assert f"index {bad} is out of bounds for a dimension of size {size}" in text
    assert f"has faulted in {op}:" in text
    torch.openreg.reset()
    assert x[to_card(torch.tensor([3]))].cpu() == values(10)[3]


@pytest.mark.parametrize("dims", [9, 17])
def test_more_indices_than_a_packet_holds(dims):
    x = small(*[2, 1, 2] * 5, 2, 3)[(0,) * (17 - dims)].transpose(0, 1)
    i = [indices(3, 1, low=-n, high=n, seed=d) for d, n in enumerate(x.shape[:-1])]
    check(lambda x: x[x > 0], x)
    check(lambda x: x[(x > 0).nonzero(as_tuple=True)], x)
    check(lambda x, *i: x[(*i[:-1], i[-1][0])], x, *i)
    check(lambda x, *i: x[(*i, torch.tensor([-3, 2], device=x.device))], x, *i)
    for add in (False, True):
        check(lambda x, *i: x.clone().index_put_(i, x.new_ones(3), accumulate=add), x, *i)
        check(lambda x: x.clone().index_put_((x > 0,), x[x > 0] * 3, accumulate=add), x)
    wrong = to_card(torch.tensor([0, 3])), to_card(torch.tensor([0, 0]))
    with pytest.raises(RuntimeError, match="index 3 is out of bounds for a dimension of size 3"):
        to_card(x)[(wrong[1],) * (dims - 1) + (wrong[0],)].cpu()
    torch.openreg.reset()


def test_empty_source():
    x, i = torch.empty(0, 3), torch.tensor([0])
    for device in ["cpu", "openreg"]:
        y, j = x.to(device), i.to(device)
        with pytest.raises((IndexError, RuntimeError)):
            y[j]
        with pytest.raises((IndexError, RuntimeError)):
            y.index_select(0, j)
        assert y[j[:0]].shape == (0, 3)
        assert y.index_select(0, j[:0]).shape == (0, 3)


def error_of(function, *args):
    try:
        function(*args)
    except Exception as error:
        return type(error), str(error).replace("openreg:0", "cpu")
    raise AssertionError("no error")


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i: x.gather(2, i),
        lambda x, i: x.gather(0, i.float()),
        lambda x, i: x.gather(0, i[0]),
        lambda x, i: x.scatter(0, i, x.double()),
        lambda x, i: x.scatter_add(0, i.expand(2, 5), x[:1]),
        lambda x, i: x.index_select(0, i),
        lambda x, i: x.index_select(0, i[0].float()),
        lambda x, i: x.index_add(0, i[0], x),
        lambda x, i: x.index_copy(0, i[0], x),
        lambda x, i: x.index_fill(0, i[0].int(), 1),
        lambda x, i: x[i, i, i],
        lambda x, i: x[i[0, :2], i[0, :3]],
        lambda x, i: x[i.float()],
        lambda x, i: x.index_put_((i[0],), x[:3, :3]),
        lambda x, i: x.index_put_((i[0],), x[i[0]].double()),
        lambda x, i: x.take(i.int()),
        lambda x, i: x.put_(i[0], x[0, :2]),
        lambda x, i: x.scatter_reduce(0, i, x, "median"),
    ],
)
def test_errors_are_those_of_the_cpu(function):
    x, i = values(4, 5), torch.tensor([[0, 1, 2, 3, 1]])
    assert error_of(function, to_card(x), to_card(i)) == error_of(function, x, i)


def test_one_packet_per_call():
    x, i = to_card(values(1000, 64)), to_card(indices(512, high=1000))
    for function in [
        lambda: F.embedding(i, x),
        lambda: x[i],
        lambda: x.index_select(0, i),
        lambda: x.gather(0, i[:, None].expand(-1, 64)),
    ]:
        assert packets.launched(function) == 1


def test_bad_raw_packets():
    x = to_card(values(16))
    i = to_card(torch.zeros(4, dtype=torch.int64))

    def fault(extent, step, mode=0, dtype=packets.F32):
        operands = [
            (x.data_ptr(), packets.F32, (1,)),
            (x.data_ptr(), dtype, (0,)),
            (i.data_ptr(), packets.I64, (1,)),
        ]
        packet = packets.packet(
            packets.INDEX, (4,), operands, (extent, step), arg=bytes([mode])
        )
        _C._launch_raw(packet, 0)
        with pytest.raises(RuntimeError) as caught:
            torch.openreg.synchronize()
        torch.openreg.reset()
        return str(caught.value)

    assert "out of bounds" in fault(1 << 40, 1)
    assert "out of bounds" in fault(1 << 62, 1 << 62)
    assert "out of bounds" in fault(1 << 40, -1)
    assert "bad shape" in fault(-1, 1)
    assert "malformed" in fault(4, 1, mode=6)
    assert "bad dtype" in fault(4, 1, dtype=packets.U8)
