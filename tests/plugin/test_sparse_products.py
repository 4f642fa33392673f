# SPDX-License-Identifier: BSD-3-Clause
"""Products of sparse and dense matrices on the card."""

import pytest
import torch
from ops import no_fallback, to_card, values
from test_sparse import sparse, uncoalesced

LAYOUTS = [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc]
DTYPES = [torch.float32, torch.float64]
SIZES = [(4, 6, 3), (1, 1, 1), (40, 30, 200), (4, 6, 0), (3, 1, 5)]

pytestmark = pytest.mark.filterwarnings("ignore:Sparse (CSR|CSC|BSR|BSC|invariant)")


def same(function, *args):
    want = function(*args)
    with no_fallback():
        got = function(*(a.to("openreg:1") for a in args))
    assert got.device.index == 1 and got.stride() == want.stride()
    torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m, k, n", SIZES)
def test_products(layout, dtype, m, k, n):
    s, d = sparse(layout, dtype, (m, k)), values(k, n, dtype=dtype, seed=5)
    c = values(m, n, dtype=dtype, seed=6)
    same(torch.sparse.mm, s, d)
    same(torch.mm, s, d)
    same(torch.mm, s, values(n, k, dtype=dtype, seed=5).t())
    same(torch.matmul, s, d[:, 0] if n else d)
    for beta, alpha in [(1, 1), (0, 1), (0.5, -2), (1, 0)]:
        same(lambda c, s, d, b=beta, a=alpha: torch.addmm(c, s, d, beta=b, alpha=a), c, s, d)
        same(lambda c, s, d, b=beta, a=alpha: c.clone().addmm_(s, d, beta=b, alpha=a), c, s, d)


def test_uncoalesced_and_empty():
    d = values(4, 5, seed=5)
    same(torch.mm, uncoalesced(), d)
    same(torch.mm, torch.sparse_coo_tensor((3, 4)), d)
    same(torch.mm, torch.zeros(3, 4).to_sparse_csr(), d)
    same(lambda c, s, d: torch.addmm(c, s, d), values(5), uncoalesced(), d)


def test_many_entries():
    s = (values(700, 900) * (values(700, 900, seed=1) > 3)).to_sparse()
    same(torch.mm, s, values(900, 130, seed=2))
    same(torch.mm, s.to_sparse_csr(), values(900, 1, seed=2))


def test_out():
    s, d = sparse(), values(6, 3, seed=5)
    with no_fallback():
        out = torch.empty(0, device="openreg")
        torch.mm(s.to("openreg"), to_card(d), out=out)
        torch.testing.assert_close(out.cpu(), torch.mm(s, d))
        square = sparse(size=(6, 6))
        x = values(6, 6)
        out = to_card(x)
        torch.addmm(out, square.to("openreg"), out, out=out)
        torch.testing.assert_close(out.cpu(), torch.addmm(x, square, x))


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients(layout, dtype):
    def run(device):
        s = sparse(layout, dtype).to(device).detach().requires_grad_()
        d = values(6, 3, dtype=dtype, seed=5).to(device).requires_grad_()
        c = values(4, 3, dtype=dtype, seed=6).to(device).requires_grad_()
        grad = values(4, 3, dtype=dtype, seed=7).to(device)
        grads = [
            *torch.autograd.grad(torch.sparse.addmm(c, s, d, beta=0.5, alpha=2), (s, d, c), grad),
            *torch.autograd.grad(torch.sparse.mm(s, d), (s, d), grad),
        ]
        kinds = {torch.sparse_coo: torch.Tensor._values, torch.sparse_csr: torch.Tensor.values}
        return [kinds.get(g.layout, torch.clone)(g) for g in grads]

    want = run("cpu")
    with no_fallback():
        got = [g.cpu() for g in run("openreg")]
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


def test_sampled_products():
    s = sparse(torch.sparse_csr)
    a, b = values(4, 5, seed=5), values(5, 6, seed=6)
    for beta, alpha in [(1, 1), (0.5, 2), (0, -1)]:
        want = torch.sparse.sampled_addmm(s, a, b, beta=beta, alpha=alpha)
        with no_fallback():
            got = torch.sparse.sampled_addmm(s.to("openreg"), to_card(a), to_card(b), beta=beta, alpha=alpha)
        assert got.layout == torch.sparse_csr and got.device.type == "openreg"
        torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-4)


def test_errors():
    s, d = sparse(), values(6, 3)
    for x, y in [(s, d), (s.to("openreg"), to_card(d))]:
        with pytest.raises(RuntimeError, match="size|multipl|Expected dim"):
            torch.mm(x, y[:5])
        with pytest.raises(RuntimeError, match="dtype|type"):
            torch.mm(x, y.double())
