# SPDX-License-Identifier: BSD-3-Clause
"""Complex numbers: the card has no complex dtypes, so it computes on their parts."""

import pytest
import torch

from ops import check, no_fallback, to_card, to_cpu, values, with_gradients

COMPLEX = [torch.complex64, torch.complex128]
PART = {torch.complex64: torch.float32, torch.complex128: torch.float64}


def numbers(*size, dtype=torch.complex64, seed=0):
    part = PART[dtype]
    return torch.complex(
        values(*size, dtype=part, seed=seed), values(*size, dtype=part, seed=seed + 1)
    )


@pytest.mark.parametrize("dtype", COMPLEX)
def test_factories(dtype):
    def made(device):
        return [
            torch.zeros(3, 2, dtype=dtype, device=device),
            torch.ones(5, dtype=dtype, device=device),
            torch.full((2, 3), 1 - 2j, dtype=dtype, device=device),
            torch.full((), 3.5, dtype=dtype, device=device),
            torch.empty(4, dtype=dtype, device=device).fill_(torch.tensor(2 + 1j)),
            torch.zeros(4, 4, dtype=dtype, device=device)[::2, 1:].fill_(1j),
            torch.empty(0, dtype=dtype, device=device),
        ]

    with no_fallback():
        got = made("openreg")
    for g, w in zip(got, made("cpu"), strict=True):
        assert g.dtype == dtype
        torch.testing.assert_close(g.cpu(), w)


def test_copies_and_casts():
    z = numbers(4, 6)
    check(lambda z: [z.clone(), z.t().contiguous(), z[::2, 1:4].clone(), z.t().clone()], z)
    check(lambda z: [z.to(torch.complex128), z.to(torch.complex128).to(torch.complex64)], z)
    x = values(3, 4)
    check(lambda x: [x.to(torch.complex64), x.double().to(torch.complex64), x.t().cfloat()], x)
    check(lambda i: i.to(torch.complex128), torch.arange(-3, 4))
    check(lambda h: h.to(torch.complex64), values(5, dtype=torch.float16))


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
def test_casts_to_real():
    z = numbers(3, 4)
    check(lambda z: [z.to(torch.float32), z.conj().double(), z.t().to(torch.float16)], z)
    z = torch.tensor([0j, 1j, 1, -0.0])
    assert torch.equal(to_card(z).bool().cpu(), z.bool())


def test_views():
    z = numbers(3, 4)
    check(lambda z: [z.real, z.imag, torch.view_as_real(z), z.mT.real], z)
    check(lambda x: torch.view_as_complex(x) * 2, values(5, 2))
    card = to_card(z)
    card.real.zero_()
    card.imag[0] = 7
    want = z.clone()
    want.real.zero_()
    want.imag[0] = 7
    assert torch.equal(card.cpu(), want)


def test_conjugates():
    z, w = numbers(3, 4), numbers(3, 4, seed=5)
    assert to_card(z).conj().is_conj()
    check(lambda z: [z.conj(), z.conj().resolve_conj(), z.conj_physical(), z.mH.clone()], z)
    check(lambda z: [z.conj().imag, z.conj().imag.abs(), z.conj().real * 2], z)
    check(lambda z, w: [z.conj() * w, z * w.conj(), z.conj() + w.conj(), (z.conj() - w).conj()], z, w)
    check(lambda z: [z.conj().abs(), z.conj().angle(), z.conj().sum(0), torch.cat([z, z.conj()])], z)
    card = to_card(z)
    with no_fallback():
        card.conj().mul_(1 + 2j)
        card.conj_physical_()
    assert torch.allclose(card.cpu(), (z.conj() * (1 + 2j)))
    x = values(5)
    check(lambda x: [x.conj(), x.conj_physical()], x)


def test_conjugates_on_the_cpu():
    """An operator without a kernel gets its conjugate views resolved before the fallback."""
    z, w = numbers(3, 3), numbers(3, 3, seed=4)
    a, b = to_card(z), to_card(w)
    before = sum(torch.openreg.fallbacks().values())
    got = [a.conj() @ b, a.mH @ b.conj(), a.conj().tan(), a.conj().imag.mm(b.real), a.conj()[0].dot(b[0])]
    want = [z.conj() @ w, z.mH @ w.conj(), z.conj().tan(), z.conj().imag.mm(w.real), z.conj()[0].dot(w[0])]
    assert sum(torch.openreg.fallbacks().values()) > before
    torch.testing.assert_close(to_cpu(got), want)


BINARY = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "eq": torch.eq,
    "ne": torch.ne,
}


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtype", COMPLEX)
def test_arithmetic(name, dtype):
    op = BINARY[name]
    z, w = numbers(4, 5, dtype=dtype), numbers(5, dtype=dtype, seed=3)
    z[0, 0] = w[0]
    check(op, z, w)
    check(op, z.t(), numbers(5, 8, dtype=dtype, seed=7)[:, ::2])
    check(lambda z: [op(z, 2), op(z, 1 - 2j), op(z, -0.5)], z)
    check(op, z, values(4, 5, low=1, high=3))
    check(op, values(4, 5, dtype=torch.float64), numbers(5, seed=9))
    check(op, z, torch.arange(1, 6))
    check(op, z[:0], w)
    check(op, z, torch.tensor(1 + 1j))


def test_types_of_arithmetic():
    z = numbers(3)
    check(lambda z, x: [z + x, z * x.double(), x / z], z, values(3, low=1, high=2))
    check(lambda x: [x * 1j, x + (2 - 1j), x - 0j], values(4))
    check(lambda z, w: torch.add(z, w, alpha=2 - 1j), z, numbers(3, seed=2))
    check(lambda z, w: torch.sub(z, w, alpha=3), z, numbers(3, seed=2))
    check(lambda x: torch.mul(x, 2, out=torch.empty(3, dtype=torch.complex64, device=x.device)), values(3))
    check(lambda x: torch.eq(x, 1, out=torch.empty(3, dtype=torch.complex64, device=x.device)), values(3))
    with pytest.raises(RuntimeError, match="can't be cast"):
        to_card(values(3)).mul_(1j)
    with pytest.raises(RuntimeError, match="In-place abs is not supported"):
        to_card(z).abs_()


def test_large_and_small():
    """Numbers with squares that overflow or underflow."""
    z = torch.tensor([3e30 + 4e30j, 3e-30 - 4e-30j, -1e-25 + 2e25j, 0j, 5e37j])
    check(torch.abs, z)
    check(torch.angle, z)
    check(torch.sgn, z)
    check(lambda z: [z[:3] / z[0], z[:3] / z[1].conj(), z[0].reciprocal()], z, rtol=2e-6, atol=0)
    inf, nan = float("inf"), float("nan")
    odd = torch.tensor([complex(inf, 1), complex(nan, inf), complex(nan, 1), complex(-inf, -inf)])
    check(lambda z: [z.abs(), z.isnan(), z.isinf(), z.isfinite(), z == z, z != z], odd)
    check(lambda z: z / 0, torch.tensor([0j]))


INF, NAN = float("inf"), float("nan")


def by_parts(got):
    """The real and imaginary parts, so that each is compared. As a whole, two complex
    numbers with a NaN count as equal, whatever their other part is."""
    return torch.view_as_real(got)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_infinities_and_nans(dtype):
    a = [1, 1 + 1j, complex(INF, 1), complex(1, INF), complex(NAN, 1), 0j, complex(-INF, 1), complex(INF, NAN)]
    b = [0j, complex(NAN, 0), complex(0, NAN), complex(-0.0, 0.0), complex(0.0, -0.0), 2 + 1j]
    a, b = torch.tensor(a, dtype=dtype), torch.tensor(b, dtype=dtype)[:, None]
    check(lambda a, b: by_parts(a / b), a, b)
    e = [complex(x, y) for x in (-INF, -2000, -200, INF, NAN) for y in (NAN, INF, 0, 1, -2)]
    check(lambda e: by_parts(e.exp()), torch.tensor(e, dtype=dtype))


@pytest.mark.parametrize("dtype", COMPLEX)
def test_logarithms(dtype):
    large = torch.finfo(dtype).max * 0.9
    z = [1 + 1e-4j, 1e-4 + 1j, 0.6 + 0.8j, -0.8 + 0.6j, 0.5 + 2j, 2 - 0.5j, complex(large, large), complex(1, -large)]
    z += [0j, 1e-36 + 1e-36j, complex(INF, INF), complex(INF, NAN), complex(NAN, 1), complex(-INF, NAN)]
    check(lambda z: by_parts(z.log()), torch.tensor(z, dtype=dtype), rtol=1e-6, atol=1e-15)


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
def test_real_results_of_sums():
    z = numbers(4, 5)
    for name in ("sum", "mean"):
        op = getattr(torch, name)
        out, want = torch.empty(5, device="openreg"), torch.empty(5)
        with no_fallback():
            op(to_card(z), 0, out=out)
        torch.testing.assert_close(out.cpu(), op(z, 0, out=want))


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_halves_and_numbers():
    z = torch.tensor([0.1 + 0j, 0.1 + 0.2j, 3], dtype=torch.complex32)
    check(lambda z: [z == 0.1, z != 0.1, z == 0.1 + 0.2j, z == torch.tensor(0.1), z == 3], z)


def test_abs_into_its_operand():
    z = numbers(3, 4)
    card = to_card(z)
    with no_fallback():
        torch.abs(card, out=card)
    torch.testing.assert_close(card.cpu(), z.abs().to(z.dtype))
    with pytest.raises(RuntimeError, match="In-place abs is not supported for complex tensors"):
        card.abs_()
    check(lambda x: x.clone().abs_(), values(7))


@pytest.mark.parametrize("dtype", COMPLEX)
def test_functions(dtype):
    z = numbers(6, 7, dtype=dtype)
    check(lambda z: [-z, z.abs(), z.angle(), z.sgn(), z.reciprocal(), z.exp(), z.log()], z)
    check(lambda z: [z.t().abs(), z[:, ::2].sgn(), z.isreal(), z * z], z)
    part = PART[dtype]
    x, y = values(3, 4, dtype=part), values(4, dtype=part, seed=1)
    check(lambda x, y: [torch.complex(x, y), torch.polar(x.abs(), y)], x, y)
    check(lambda z: torch.abs(z, out=torch.empty(0, dtype=torch.float64, device=z.device)), z)
    check(lambda z: torch.abs(z, out=torch.empty(0, dtype=dtype, device=z.device)), z)
    with pytest.raises(RuntimeError, match="Half, Float or Double"):
        torch.complex(to_card(torch.arange(3)), to_card(torch.arange(3)))
    with pytest.raises(RuntimeError, match="Expected object of scalar type"):
        torch.complex(to_card(values(3)), to_card(values(3).double()))


def test_reductions():
    z = numbers(4, 5, 6)
    check(lambda z: [z.sum(), z.sum(1), z.sum((0, 2), keepdim=True), z.mean(), z.mean(-1)], z)
    check(lambda z: [z.permute(2, 0, 1).sum(1), z[:, ::2].mean(1), z[:0].sum(0), z[:0].mean()], z)
    check(lambda x: [x.sum(dtype=torch.complex64), x.mean(0, dtype=torch.complex128)], values(3, 4))
    check(lambda z: z.sum(0, dtype=torch.complex128), z)


def test_choices():
    z, w = numbers(3, 4), numbers(4, seed=2)
    mask = values(3, 4, seed=8) > 0
    check(lambda m, z, w: [torch.where(m, z, w), torch.where(m, z, 1j), torch.where(m, 0.0, z)], mask, z, w)
    check(lambda m, z: [z.masked_fill(m, 2 - 1j), z.masked_fill(m, 0)], mask, z)
    check(lambda z, w: [torch.cat([z, w[None]]), torch.stack([w, w]), torch.cat([z, z.real], 1)], z, w)
    check(lambda a, b, c: [torch.addcmul(a, b, c, value=2j), torch.addcdiv(a, b, c)],
          z, w, numbers(3, 1, seed=6))
    assert torch.equal(to_card(z), to_card(z.clone()))


@pytest.mark.parametrize("dtype", COMPLEX)
def test_gradients(dtype):
    def of(function):
        def run(*args):
            args = [a.detach().requires_grad_() for a in args]
            out = function(*args)
            weights = torch.linspace(-1, 2, out.numel(), dtype=out.dtype).to(out.device)
            return torch.autograd.grad(out, args, weights.view(out.shape))

        return run

    z, w = numbers(3, 4, dtype=dtype), numbers(4, dtype=dtype, seed=5)
    for function in (torch.add, torch.sub, torch.mul, torch.div):
        check(of(function), z, w)
    for function in (torch.abs, torch.angle, torch.sgn, torch.neg, torch.conj, torch.exp):
        check(of(function), z)
    check(of(lambda z: z.real * z.imag), z)
    check(of(lambda z: (z.conj() * z).sum(0).real), z)
    check(of(lambda z, x: z * x), z, values(4, dtype=PART[dtype]))
    check(of(torch.complex), values(3, dtype=PART[dtype]), values(3, dtype=PART[dtype], seed=1))
    check(of(torch.polar), values(3, dtype=PART[dtype], low=1), values(3, dtype=PART[dtype], seed=1))
    check(with_gradients(lambda x: torch.view_as_complex(x).abs()), values(5, 2, dtype=PART[dtype]))


def test_training():
    """Training finds the complex weight from which the data were made."""
    torch.manual_seed(0)
    x = torch.randn(64, dtype=torch.complex64, device="openreg")
    target = x * (0.6 - 1.3j) + (0.2 + 0.4j)
    weight = torch.zeros((), dtype=torch.complex64, device="openreg", requires_grad=True)
    bias = torch.zeros((), dtype=torch.complex64, device="openreg", requires_grad=True)
    optimizer = torch.optim.SGD([weight, bias], lr=0.3)
    with no_fallback():
        for _ in range(60):
            optimizer.zero_grad()
            loss = ((x * weight + bias - target).abs() ** 2).mean()
            loss.backward()
            optimizer.step()
    assert loss.item() < 1e-6
    assert abs(weight.item() - (0.6 - 1.3j)) < 1e-3


def test_random():
    torch.manual_seed(3)
    with no_fallback():
        z = torch.randn(4000, dtype=torch.complex64, device="openreg")
        spread = z.abs().square().mean().item()
    assert abs(spread - 1) < 0.1
    assert abs(z.cpu().mean()) < 0.05


def test_the_card_has_no_complex_types():
    assert not [t for t in torch.openreg.get_device_properties().dtypes if "complex" in t]
