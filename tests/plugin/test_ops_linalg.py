# SPDX-License-Identifier: BSD-3-Clause
"""Factorizations of matrices and the functions built on them. They run on the CPU and count
as fallbacks. The card would not be faster: a factorization is a chain of small products."""

import packets
import pytest
import torch
from ops import to_card, to_cpu, values, with_gradients
from torch import linalg

DTYPES = [torch.float32, torch.float64, torch.complex64]
SQUARES = [(1, 1), (6, 6), (2, 3, 5, 5), (37, 37), (200, 200), (0, 0), (3, 0, 0), (0, 4, 4)]
OBLONGS = [(7, 4), (4, 7), (2, 20, 9), (2, 9, 20), (3, 0), (0, 3)]

with_matrices = pytest.mark.parametrize(
    ("shape", "dtype"), [(s, d) for s in SQUARES for d in DTYPES]
)
with_all_matrices = pytest.mark.parametrize(
    ("shape", "dtype"), [(s, d) for s in SQUARES + OBLONGS for d in DTYPES]
)


def compare(function, args, **how):
    want, got = function(*args), function(*map(to_card, args))
    for t in got if isinstance(got, tuple) else [got]:
        assert t.is_openreg
    torch.testing.assert_close(to_cpu(got), want, equal_nan=True, **how)


def both(function, *args):
    """Compares forward, with the CPU's strides, and backward."""
    compare(function, args, check_stride=True)
    scale = max([1.0, *(a.abs().max().item() for a in args if a.numel())])
    wide = args[0].dtype in (torch.float64, torch.complex128)
    rtol, atol = (1e-9, 1e-9) if wide else (1e-3, 1e-4)
    compare(with_gradients(function), args, rtol=rtol, atol=atol * scale)


def check(function, *args):
    compare(lambda *args: tuple(function(*args)), args, check_stride=True)


def numbers(*shape, dtype, seed=0):
    if dtype.is_complex:
        parts = values(*shape, 2, dtype=torch.float32, low=-1, high=1, seed=seed)
        return torch.view_as_complex(parts)
    return values(*shape, dtype=dtype, low=-1, high=1, seed=seed)


def regular(shape, dtype, seed=0):
    """Random matrices that are far from singular, and need pivots."""
    n = shape[-1]
    return numbers(*shape, dtype=dtype, seed=seed) + max(2, n / 4) * torch.eye(
        n, dtype=dtype
    ).roll(1, 0)


def definite(shape, dtype):
    a = numbers(*shape, dtype=dtype)
    return a @ a.mH + torch.eye(shape[-1], dtype=dtype)


@with_matrices
def test_triangular(shape, dtype):
    a = regular(shape, dtype).roll(-1, -2) / max(1, shape[-1])
    b = numbers(*shape[:-1], 3, dtype=dtype, seed=1)
    for upper in [False, True]:
        for unit in [False, True]:
            keys = {"upper": upper, "unitriangular": unit}
            both(lambda a, b, k=keys: linalg.solve_triangular(a, b, **k), a, b)
            both(
                lambda a, b, k=keys: linalg.solve_triangular(a, b, left=False, **k),
                a.mT,
                b.mT,
            )
            check(lambda a, b, k=keys: torch.triangular_solve(b, a, transpose=True, **k), a, b)


@with_matrices
def test_cholesky(shape, dtype):
    a = definite(shape, dtype)
    for upper in [False, True]:
        both(lambda a, u=upper: linalg.cholesky(a, upper=u), a)
        check(lambda a, u=upper: linalg.cholesky_ex(a, upper=u), a)
        factor = linalg.cholesky(a, upper=upper)
        both(lambda f, u=upper: torch.cholesky_inverse(f, upper=u), factor)
        b = numbers(*shape[:-1], 2, dtype=dtype)
        both(lambda b, f, u=upper: torch.cholesky_solve(b, f, upper=u), b, factor)


@with_all_matrices
def test_lu(shape, dtype):
    a = numbers(*shape, dtype=dtype)
    check(linalg.lu_factor_ex, a)
    check(linalg.lu, a)
    check(lambda a: torch.lu_unpack(*linalg.lu_factor(a)), a)
    if max(shape) < 50:
        for part in [1, 2]:
            both(lambda a, part=part: linalg.lu(a)[part], a)


def test_lu_without_pivots():
    a = definite((2, 9, 9), torch.float64)
    with pytest.raises(RuntimeError) as on_cpu:
        linalg.lu(a, pivot=False)
    with pytest.raises(RuntimeError) as on_card:
        linalg.lu(to_card(a), pivot=False)
    assert str(on_card.value) == str(on_cpu.value)


@with_matrices
def test_solve_and_invert(shape, dtype):
    a, b = regular(shape, dtype), numbers(*shape[:-1], 3, dtype=dtype)
    both(linalg.solve, a, b)
    both(lambda a, b: linalg.solve(a, b, left=False), a.mT, b.mT)
    both(linalg.solve, a, b[..., 0])
    both(linalg.inv, a)
    both(lambda a: linalg.matrix_power(a, -2), a)
    factors = linalg.lu_factor(a)
    for left, adjoint in [(True, True), (False, False), (False, True)]:
        both(
            lambda f, p, b, k=(left, adjoint): linalg.lu_solve(
                f, p, b, left=k[0], adjoint=k[1]
            ),
            *factors,
            b if left else b.mT,
        )


def test_batches_broadcast():
    a, b = regular((3, 1, 5, 5), torch.float64), numbers(2, 5, 4, dtype=torch.float64)
    both(linalg.solve, a, b)
    both(lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b), a, b)
    both(lambda a, b: linalg.solve_triangular(a, b, upper=True), a, b)


@with_matrices
def test_determinants(shape, dtype):
    a = regular(shape, dtype) / max(1, shape[-1] / 4)
    for a in [a, a.mT]:
        both(linalg.det, a)
        both(lambda a: linalg.slogdet(a)[1], a)
        check(linalg.slogdet, a)


@with_all_matrices
def test_qr(shape, dtype):
    a = numbers(*shape, dtype=dtype, seed=2)
    for mode in ["reduced", "complete", "r"]:
        check(lambda a, m=mode: linalg.qr(a, m), a)
    if 50 > shape[-2] >= shape[-1] > 0:
        both(lambda a: torch.cat(linalg.qr(a), -2), a)


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_under_autocast(half):
    """No linalg operator is in autocast's lists, so the dtype stays float32."""
    a = to_card(definite((6, 6), torch.float32))
    calls = [
        *(linalg.det, linalg.inv, linalg.cholesky, lambda x: linalg.solve(x, a)),
        *(lambda x: torch.cat(linalg.qr(x)), lambda x: linalg.qr(x[:3])[1]),
    ]
    for call in calls:
        with torch.autocast("openreg", dtype=half):
            got = call(a)
        assert got.dtype == torch.float32 and torch.equal(got, call(a))


SINGULAR = {
    "zeros": torch.zeros(3, 3),
    "ones": torch.ones(2, 4, 4),
    "negative": -torch.eye(5),
}


@pytest.mark.parametrize("kind", list(SINGULAR))
@pytest.mark.parametrize(
    "function",
    [linalg.inv, linalg.cholesky, linalg.lu_factor, lambda a: linalg.solve(a, a), linalg.det],
)
def test_errors_are_those_of_the_cpu(kind, function):
    answers = []
    for a in [SINGULAR[kind], to_card(SINGULAR[kind])]:
        try:
            answer = function(a)
            answers.append([t.tolist() for t in to_cpu(answer if isinstance(answer, tuple) else [answer])])
        except RuntimeError as e:
            answers.append((type(e), str(e)))
    assert answers[0] == answers[1]


def test_info_has_the_failed_minor():
    a = torch.stack([torch.diag(torch.tensor([1.0, 2.0, d, -1.0])) for d in (3.0, -3.0)])
    assert linalg.cholesky_ex(to_card(a)).info.tolist() == [4, 3]
    assert linalg.lu_factor_ex(to_card(a.clamp(min=0))).info.tolist() == [4, 3]


def test_out():
    a, b = regular((5, 5), torch.float32), values(5, 2)

    def run(a, b):
        out = torch.empty(0, device=a.device)
        base = torch.zeros(10, 10, device=a.device)
        linalg.solve_triangular(a, b, upper=True, out=out)
        linalg.inv(a, out=base[::2, ::2])
        return out, base, linalg.solve(a, b, out=b.clone())

    compare(run, (a, b), check_stride=True)
    with pytest.raises(RuntimeError, match="same device"):
        linalg.solve_triangular(to_card(a), b, upper=True)


def test_views_of_matrices():
    """Slices, and matrices that share memory."""
    a, b = regular((12, 12), torch.float32), values(12, 1)
    for view in (lambda t: t[::2, 1::2], lambda t: t[:1].expand(5, 12).T @ t[:5] + t):
        both(lambda a, v=view: linalg.inv(v(a)), a)
    both(lambda a, b: linalg.solve(a.expand(4, 12, 12), b.expand(4, 12, 3)), a, b)


def test_solve_is_one_fallback_with_minimal_copies():
    a, b = to_card(regular((8, 8), torch.float32)), to_card(values(8, 2))
    torch.openreg.reset_fallbacks()
    linalg.solve_ex(a, b)
    assert torch.openreg.fallbacks() == {"aten::_linalg_solve_ex.result": 1}
    # Six copies: matrix and right sides to the CPU; solution, factors, pivots, info back.
    assert packets.launched(lambda: linalg.solve_ex(a, b)) == 6
    before = torch.openreg.queue_stats(0)["dma_written"]
    linalg.inv_ex(a.expand(1000, 8, 8))
    torch.openreg.synchronize()
    assert torch.openreg.queue_stats(0)["dma_written"] - before < 10 * a.nbytes
