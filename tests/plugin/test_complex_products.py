# SPDX-License-Identifier: BSD-3-Clause
"""Products of complex matrices and vectors, with unresolved conjugate and negative bits."""

import pytest
import torch
from ops import check, no_fallback, to_card, values
from test_complex import COMPLEX, PART, numbers

TOLERANCE = {
    torch.complex64: {"rtol": 1e-4, "atol": 1e-4},
    torch.complex128: {"rtol": 1e-10, "atol": 1e-10},
}
SIZES = [(3, 4, 5), (1, 1, 1), (7, 1, 2), (1, 9, 1), (33, 65, 17), (0, 3, 2), (3, 0, 2), (3, 2, 0)]


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("m, k, n", SIZES)
def test_matrices(m, k, n, dtype):
    a, b, c = numbers(m, k, dtype=dtype), numbers(k, n, dtype=dtype, seed=3), numbers(m, n, dtype=dtype, seed=5)
    near = TOLERANCE[dtype]
    check(torch.mm, a, b, **near)
    check(lambda a, b: [a @ b.mH.mH, a.conj() @ b, (a.mT.mH @ b.conj()).conj()], a, b, **near)
    check(lambda a, b: a.mT.contiguous().mT @ b.mT.contiguous().mT, a, b, **near)
    check(lambda a, b: torch.mv(a, b[:, 0]) if b.shape[1] else a, a, b, **near)
    for beta, alpha in [(1, 1), (0, 2), (0.5, -3), (1 - 2j, 0.5j), (0, 1j)]:
        def sums(c, a, b, beta=beta, alpha=alpha):
            return [
                torch.addmm(c, a, b, beta=beta, alpha=alpha),
                c.clone().addmm_(a, b, beta=beta, alpha=alpha),
                torch.addmm(c[:, :1] if c.shape[1] else c, a, b, beta=beta, alpha=alpha),
            ]

        check(sums, c, a, b, **near)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_batches(dtype):
    a, b, c = numbers(4, 3, 5, dtype=dtype), numbers(4, 5, 2, dtype=dtype, seed=3), numbers(4, 3, 2, dtype=dtype, seed=5)
    near = TOLERANCE[dtype]
    check(torch.bmm, a, b, **near)
    check(lambda a, b: [a.conj() @ b, b.mH @ a.mH, a[:0] @ b[:0], a[1] @ b, a @ b[2].conj()], a, b, **near)
    check(lambda a, b: a[:1].expand(4, 3, 5) @ b.transpose(0, 1).contiguous().transpose(0, 1), a, b, **near)
    check(lambda c, a, b: torch.baddbmm(c, a, b, beta=2j, alpha=0.5), c, a, b, **near)
    check(lambda c, a, b: c.clone().baddbmm_(a, b, beta=2), c, a, b, **near)
    check(lambda a, b: torch.einsum("bij,bjk->ik", a, b), a, b, **near)


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("n", [0, 1, 7, 2048, 5001])
def test_vectors(n, dtype):
    x, y = numbers(n, dtype=dtype), numbers(n, dtype=dtype, seed=3)
    near = {"rtol": 1e-4, "atol": 1e-2} if dtype == torch.complex64 else TOLERANCE[dtype]
    check(lambda x, y: [torch.dot(x, y), torch.vdot(x, y), torch.dot(x.conj(), y)], x, y, **near)
    check(lambda x, y: [torch.vdot(x, y.conj()), torch.dot(x.conj(), y.conj()), torch.inner(x, y)], x, y, **near)
    check(lambda x, y: [torch.dot(x[::2], y[::2]), torch.outer(x[:5], y[:3])], x, y, **near)


def test_negatives():
    z, w = numbers(3, 3), numbers(3, 3, seed=4)
    check(lambda z, w: [torch._neg_view(z) @ w, z @ torch._neg_view(w.conj())], z, w)
    check(lambda z, w: torch.dot(torch._neg_view(z)[0], w[0].conj()), z, w)


def test_results_given():
    z, w = numbers(3, 3), numbers(3, 3, seed=4)

    def out(make):
        def run(z, w):
            given = make(torch.zeros(3, 3, dtype=z.dtype, device=z.device))
            torch.mm(z, w, out=given)
            return given

        return run

    check(out(lambda o: o), z, w)
    check(out(lambda o: o.mT), z, w)
    check(out(lambda o: o.conj()), z, w)
    check(out(lambda o: o.mH), z, w)

    with no_fallback():
        a, b, c, d = (to_card(z) for _ in range(4))
        e = to_card(w)
        torch.mm(a, e, out=a)
        b.addmm_(b, e, beta=2)
        torch.addmm(c, e, c, beta=0.5j, out=c)
        d.mH.addmm_(d, e)
    want = [z @ w, 2 * z + z @ w, 0.5j * z + w @ z, (z.mH + z @ w).mH]
    torch.testing.assert_close([t.cpu() for t in (a, b, c, d)], want)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_gradients(dtype):
    def run(device):
        a, b = (t.to(device).requires_grad_() for t in (numbers(3, 4, dtype=dtype), numbers(4, 2, dtype=dtype, seed=3)))
        v = numbers(4, dtype=dtype, seed=7).to(device).requires_grad_()
        loss = (a @ b).abs().pow(2).sum() + (a @ v).abs().sum() + torch.vdot(v, v.detach() * 1j).abs()
        return torch.autograd.grad(loss, (a, b, v))

    want = run("cpu")
    with no_fallback():
        got = [g.cpu() for g in run("openreg")]
    torch.testing.assert_close(got, list(want), rtol=1e-4, atol=1e-4)


def test_errors():
    z = numbers(3, 3)
    for x in (z, to_card(z)):
        real = values(3, 3, dtype=PART[torch.complex64]).to(x.device)
        with pytest.raises(RuntimeError, match="same dtype|must have the same dtype"):
            torch.mm(x, real)
        with pytest.raises(RuntimeError, match="same dtype"):
            torch.dot(x[0], real[0])
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            torch.mm(x, x[:2])
        with pytest.raises(RuntimeError, match="cannot be converted to type|complex"):
            torch.addmm(real, real, real, alpha=1j)
        with pytest.raises((RuntimeError, NotImplementedError), match="ComplexHalf"):
            x.to(torch.complex32) @ x.to(torch.complex32)
