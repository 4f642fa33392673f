# SPDX-License-Identifier: BSD-3-Clause
"""Matrix products, compared with the CPU."""

import pytest
import torch
from torch.nn import functional as F

from ops import FLOATS, INTS, check, to_card, values

LOOSE = {"rtol": 2e-2, "atol": 1e-1}


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int32, torch.uint8])
def test_products(dtype):
    tolerance = LOOSE if dtype in FLOATS[2:] else {}
    a, b, c = (values(*s, dtype=dtype, seed=i) for i, s in enumerate([(7, 5), (5, 9), (7, 9)]))
    check(torch.mm, a, b, **tolerance)
    check(torch.mm, a.t().contiguous().t(), b, **tolerance)
    check(torch.mm, a, b.t().contiguous().t(), **tolerance)
    check(lambda a, b: a[::2, ::2] @ b[::2, ::3], a, b, **tolerance)
    check(torch.addmm, c, a, b, **tolerance)
    check(lambda c, a, b: torch.addmm(c[0], a, b, beta=2, alpha=3), c, a, b, **tolerance)
    check(torch.mv, a, b[:, 0], **tolerance)
    check(torch.dot, a[0], b[:, 0], **tolerance)
    check(lambda c, a, b: torch.addmv(c[:, 0], a, b[:, 0], beta=2), c, a, b, **tolerance)


def test_batches():
    for dtype in FLOATS:
        tolerance = LOOSE if dtype.itemsize == 2 else {}
        a, b, c = values(3, 4, 5, dtype=dtype), values(3, 5, 6, dtype=dtype), values(
            3, 4, 6, dtype=dtype
        )
        check(torch.bmm, a, b, **tolerance)
        check(torch.bmm, a, b.transpose(1, 2).contiguous().transpose(1, 2), **tolerance)
        check(lambda c, a, b: torch.baddbmm(c, a, b, beta=0.5, alpha=2), c, a, b, **tolerance)
        check(torch.matmul, values(2, 3, 4, 5, dtype=dtype), b, **tolerance)
        check(torch.matmul, a, b[0], **tolerance)


def test_edges():
    check(torch.mm, values(3, 0), values(0, 4))
    check(torch.mm, values(0, 3), values(3, 4))
    check(lambda a, b: torch.addmm(torch.ones((), device=a.device), a, b), values(3, 0), values(0, 4))
    check(torch.mm, values(1, 1), values(1, 1))
    nan = torch.full((2, 2), float("nan"))
    check(lambda c, a: torch.addmm(c, a, a, beta=0), nan, values(2, 2))


def test_out_and_inplace():
    a, b = values(4, 4), values(4, 4, seed=1)
    x, y = to_card(a), to_card(b)
    out = torch.empty(4, 4, device="openreg").t()
    torch.mm(x, y, out=out)
    torch.testing.assert_close(out.cpu(), a @ b)
    x.addmm_(x, y)
    torch.testing.assert_close(x.cpu(), a + a @ b)


@pytest.mark.parametrize("shape", [(), (1,), (4,), (1, 4), (3, 1), (1, 1), (3, 4)])
def test_addbmm_resizes_a_summand_that_broadcasts(shape):
    c, a, b = values(*shape), values(5, 3, 2, seed=1), values(5, 2, 4, seed=2)
    want = torch.addbmm(c, a, b, beta=0.6, alpha=0.2)
    x, y, z = to_card(c), to_card(a), to_card(b)
    got = [to_card(c).addbmm_(y, z, beta=0.6, alpha=0.2)]
    got.append(torch.addbmm(x, y, z, beta=0.6, alpha=0.2, out=x))
    for result in got:
        torch.testing.assert_close(result.cpu(), want)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (1, 3, 4)])
def test_addbmm_refuses_a_summand_that_does_not_broadcast(shape):
    for device in ("cpu", "openreg"):
        c, a, b = (torch.ones(s, device=device) for s in (shape, (5, 3, 2), (5, 2, 4)))
        with pytest.raises(RuntimeError):
            c.addbmm_(a, b)
        assert c.shape == shape or device == "cpu"


def test_out_overlaps_the_summand():
    """out= may be the summand itself, or another view of its memory. The card must then
    read the summand first."""
    n = 192
    a, b, c = values(n, n), values(n, n, seed=1), values(n, n, seed=2)
    x, y = to_card(a), to_card(b)
    tolerance = {"rtol": 1e-4, "atol": 1e-3}

    out = to_card(c)
    torch.addmm(out.t(), x, y, out=out)
    torch.testing.assert_close(out.cpu(), c.t() + a @ b, **tolerance)
    out = to_card(c)
    torch.addmm(out[0], x, y, out=out)
    torch.testing.assert_close(out.cpu(), c[0] + a @ b, **tolerance)
    out = to_card(c)
    torch.addmm(out, x, y, out=out, beta=2)
    torch.testing.assert_close(out.cpu(), 2 * c + a @ b, **tolerance)
    wide = to_card(torch.cat([c, c], 1))
    wide[:, ::2].addmm_(x, y)
    torch.testing.assert_close(
        wide[:, ::2].cpu(), torch.cat([c, c], 1)[:, ::2] + a @ b, **tolerance
    )
    out = to_card(c)
    torch.addmv(out[:, 1], x, y[0], out=out[0])
    torch.testing.assert_close(out[0].cpu(), c[:, 1] + a @ b[0], **tolerance)


@pytest.mark.parametrize(
    "batch, m, n, k",
    [(1, 257, 256, 1 << 20), (1, 256, 257, 1 << 20), (5, 256, 256, 1 << 18)],
)
def test_more_work_than_a_packet_allows(batch, m, n, k):
    """More than 2^36 products; strides of zero keep the operands small."""
    a = ((torch.arange(batch)[:, None] + torch.arange(m)) % 4).float()[:, :, None]
    b = ((torch.arange(batch)[:, None] + torch.arange(n)) % 3).float()[:, None, :]
    c = (torch.arange(m) % 3).float()[:, None]
    want = k * a * b + c
    x, y, z = to_card(a).expand(-1, -1, k), to_card(b).expand(-1, k, -1), to_card(c)
    torch.openreg.reset_op_counts()
    if batch == 1:
        got = torch.addmm(z, x[0], y[0])[None]
        assert torch.openreg.op_counts()["aten::addmm"] == 1
    else:
        got = torch.baddbmm(z, x, y)
        assert torch.openreg.op_counts()["aten::baddbmm"] == 1
    assert torch.equal(got.cpu(), want)


def test_dot_of_complex_numbers():
    """Only vdot conjugates."""
    a, b = torch.tensor([1j, 2 + 1j]), torch.tensor([1j, 1 - 3j])
    for function in [torch.dot, torch.vdot]:
        assert function(to_card(a), to_card(b)).cpu() == function(a, b)
        assert function(to_card(a).conj(), to_card(b)).cpu() == function(a.conj(), b)
    torch.openreg.reset_op_counts()
    torch.dot(to_card(values(4)), to_card(values(4)))
    assert torch.openreg.op_counts()["aten::dot"] == 1


def test_linear():
    for shape in [(5,), (3, 5), (2, 3, 5)]:
        check(F.linear, values(*shape), values(4, 5, seed=1), values(4, seed=2))
    check(F.linear, values(3, 5), values(4, 5, seed=1))


def test_bad_input():
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        to_card(values(2, 3)) @ to_card(values(2, 3))
    with pytest.raises(RuntimeError, match="dtype"):
        torch.mm(to_card(values(2, 2)), to_card(values(2, 2, dtype=torch.float64)))
    with pytest.raises(RuntimeError):
        torch.mm(to_card(values(2, 2)), values(2, 2))


@pytest.mark.parametrize(
    "name, sizes",
    [
        ("addmm", [(3, 5), (2, 4), (4, 5)]),
        ("addmm", [(4,), (2, 4), (4, 5)]),
        ("addmm", [(0,), (2, 4), (4, 5)]),
        ("addmv", [(3,), (2, 4), (4,)]),
        ("addbmm", [(3, 5), (6, 2, 4), (6, 4, 5)]),
        ("baddbmm", [(2, 3, 5), (6, 2, 4), (6, 4, 5)]),
    ],
)
def test_summand_must_broadcast(name, sizes):
    tensors = [values(*size) for size in sizes]
    with pytest.raises(RuntimeError) as want:
        getattr(torch, name)(*tensors)
    with pytest.raises(RuntimeError) as got:
        getattr(torch, name)(*to_card(tensors))
    assert "size" in str(want.value) and "size" in str(got.value)
    torch.openreg.synchronize()


def test_outer_products_with_gaps():
    a = values(5, 6, 4)[:, :, :1]
    b = values(5, 4, 7, seed=1)[:, 3:, :]
    check(torch.bmm, a, b)
    check(torch.bmm, a.transpose(1, 2)[:, :, 2:3], b)


def test_different_dtypes_are_refused():
    texts = []
    for device in ("cpu", "openreg"):
        a, b = torch.ones(2, 3, dtype=torch.int16, device=device), torch.ones(3, 2, device=device)
        for call in (lambda: a @ b, lambda: F.linear(a, b.t())):
            with pytest.raises(RuntimeError) as error:
                call()
            texts.append(str(error.value))
    assert texts[:2] == texts[2:]
