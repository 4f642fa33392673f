# SPDX-License-Identifier: BSD-3-Clause
"""Factorizations of matrices, and what is made of them."""

import pytest
import torch
from ops import check, no_fallback, to_card, to_cpu, values, with_gradients
from torch import linalg

DTYPES = [torch.float32, torch.float64]
SQUARES = [(1, 1), (6, 6), (2, 3, 5, 5), (37, 37), (0, 0), (3, 0, 0), (0, 4, 4)]
OBLONGS = [(7, 4), (4, 7), (2, 20, 9), (2, 9, 20), (3, 0), (0, 3)]
TOLERANCE = {
    torch.float32: {"rtol": 1e-3, "atol": 1e-4},
    torch.float64: {"rtol": 1e-9, "atol": 1e-9},
}

with_matrices = pytest.mark.parametrize(
    ("shape", "dtype"), [(s, d) for s in SQUARES for d in DTYPES]
)


def regular(shape, dtype, seed=0):
    """Random matrices that are far from singular and ask for pivots."""
    n = shape[-1]
    return values(*shape, dtype=dtype, low=-1, high=1, seed=seed) + 2 * torch.eye(
        n, dtype=dtype
    ).roll(1, 0)


def definite(shape, dtype):
    a = values(*shape, dtype=dtype, low=-1, high=1)
    return a @ a.mT + torch.eye(shape[-1], dtype=dtype)


def both(function, *args):
    """Forward and backward."""
    dtype = args[0].dtype
    check(function, *args, **TOLERANCE[dtype])
    check(with_gradients(function), *args, **TOLERANCE[dtype])


@with_matrices
def test_triangular(shape, dtype):
    a = regular(shape, dtype) + 4 * torch.eye(shape[-1], dtype=dtype)
    b = values(*shape[:-1], 3, dtype=dtype, seed=1)
    for upper in [False, True]:
        for unit in [False, True]:
            keys = {"upper": upper, "unitriangular": unit}
            a = a / a.abs().amax() if a.numel() else a
            both(lambda a, b, k=keys: linalg.solve_triangular(a, b, **k), a, b)
            both(
                lambda a, b, k=keys: linalg.solve_triangular(a, b, left=False, **k),
                a.mT,
                b.mT,
            )
            check(
                lambda a, b, k=keys: tuple(torch.triangular_solve(b, a, transpose=True, **k)),
                a,
                b,
                **TOLERANCE[dtype],
            )


@with_matrices
def test_cholesky(shape, dtype):
    a = definite(shape, dtype)
    for upper in [False, True]:
        both(lambda a, u=upper: linalg.cholesky(a, upper=u), a)
        check(lambda a, u=upper: tuple(linalg.cholesky_ex(a, upper=u)), a, **TOLERANCE[dtype])
        factor = linalg.cholesky(a, upper=upper)
        both(lambda f, u=upper: torch.cholesky_inverse(f, upper=u), factor)
        b = values(*shape[:-1], 2, dtype=dtype)
        both(lambda b, f, u=upper: torch.cholesky_solve(b, f, upper=u), b, factor)


@pytest.mark.parametrize(
    ("shape", "dtype"), [(s, d) for s in SQUARES + OBLONGS for d in DTYPES]
)
def test_lu(shape, dtype):
    a = values(*shape, dtype=dtype)
    check(lambda a: tuple(linalg.lu_factor_ex(a)), a, **TOLERANCE[dtype])
    check(lambda a: tuple(linalg.lu(a)), a, **TOLERANCE[dtype])
    check(lambda a: torch.lu_unpack(*torch.linalg.lu_factor(a)), a, **TOLERANCE[dtype])
    for part in [1, 2]:
        check(with_gradients(lambda a, part=part: linalg.lu(a)[part]), a, **TOLERANCE[dtype])


def test_lu_swaps_rows_for_the_largest():
    a = torch.tensor([[1e-8, 1.0, 2.0], [1.0, -0.5, 3.0], [-4.0, 2.0, 1.0]])
    with no_fallback():
        factors, pivots = linalg.lu_factor(to_card(a))
    assert to_cpu(pivots).tolist() == [3, 3, 3]
    assert to_cpu(factors).tril(-1).abs().max() <= 1


def test_lu_without_pivots():
    a = definite((2, 9, 9), torch.float64)
    with no_fallback():
        p, lower, upper = linalg.lu(to_card(a), pivot=False)
    assert p.numel() == 0
    torch.testing.assert_close(to_cpu(lower @ upper), a)


@with_matrices
def test_solve_and_invert(shape, dtype):
    a, b = regular(shape, dtype), values(*shape[:-1], 3, dtype=dtype)
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
    a, b = regular((3, 1, 5, 5), torch.float64), values(2, 5, 4, dtype=torch.float64)
    both(linalg.solve, a, b)
    both(lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b), a, b)
    both(lambda a, b: linalg.solve_triangular(a, b, upper=True), a, b)


@with_matrices
def test_determinants(shape, dtype):
    for a in [regular(shape, dtype), regular(shape, dtype).mT]:
        both(linalg.det, a)
        both(lambda a: linalg.slogdet(a)[1], a)
        check(lambda a: tuple(linalg.slogdet(a)), a, **TOLERANCE[dtype])


@pytest.mark.parametrize(
    ("shape", "dtype"), [(s, d) for s in SQUARES + OBLONGS for d in DTYPES]
)
def test_qr(shape, dtype):
    a = values(*shape, dtype=dtype, seed=2)
    for mode in ["reduced", "complete", "r"]:
        check(lambda a, m=mode: tuple(linalg.qr(a, m)), a, **TOLERANCE[dtype])
    if shape[-2] >= shape[-1] > 0:
        both(lambda a: torch.cat(linalg.qr(a), -2), a)


@pytest.mark.parametrize("dtype", DTYPES)
def test_qr_is_orthogonal_where_columns_nearly_depend(dtype):
    a = values(60, 40, dtype=dtype)
    a[:, 20:] = a[:, :20] + 1e-5 * a[:, 20:]
    with no_fallback():
        q, r = map(to_cpu, linalg.qr(to_card(a)))
    eps = torch.finfo(dtype).eps
    assert (q.mT @ q - torch.eye(40, dtype=dtype)).abs().max() < 40 * eps
    assert (q @ r - a).abs().max() < 400 * eps


@pytest.mark.parametrize("scale", [1e-170, 1e170])
def test_qr_near_the_limits_of_doubles(scale):
    a = scale * values(7, 5, dtype=torch.float64, low=-1, high=1)
    check(lambda x: linalg.qr(x)[1], a, rtol=1e-9, atol=1e-9 * scale)
    q, r = (t.cpu() for t in linalg.qr(to_card(a)))
    assert torch.allclose(q.mT @ q, torch.eye(5, dtype=torch.float64))
    assert torch.allclose(q @ r / scale, a / scale)


@pytest.mark.parametrize("scale", [1e-42, 1e-39, 1e-37, 1e37])
def test_qr_near_the_limits_of_floats(scale):
    for a in (scale * values(7, 5, low=-1, high=1), torch.full((3, 2), scale)):
        q, r = (t.cpu().double() for t in linalg.qr(to_card(a)))
        one = torch.eye(a.size(1), dtype=torch.float64)
        assert (q.mT @ q - one).abs().max() < 1e-5
        assert (q @ r - a.double()).abs().max() < 1e-5 * scale + 1e-43


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_under_autocast(half):
    """None of it is in the lists: it stays in the type that it is given."""
    a = to_card(definite((6, 6), torch.float32))
    calls = [
        *(linalg.det, linalg.inv, linalg.cholesky, lambda x: linalg.solve(x, a)),
        *(lambda x: torch.cat(linalg.qr(x)), lambda x: torch.cat(linalg.qr(x[:, :1]))[:6]),
        lambda x: linalg.qr(x[:3])[1],
    ]
    for call in calls:
        with torch.autocast("openreg", dtype=half):
            got = call(a)
        assert got.dtype == torch.float32 and torch.equal(got, call(a))


def test_factors_of_large_matrices():
    a = regular((200, 200), torch.float64)
    check(lambda a: tuple(linalg.lu_factor(a)), a, rtol=1e-8, atol=1e-8)
    check(linalg.inv, a, rtol=1e-8, atol=1e-8)
    check(lambda a: tuple(linalg.qr(a)), a, rtol=1e-8, atol=1e-8)
    check(linalg.cholesky, definite((200, 200), torch.float64), rtol=1e-8, atol=1e-8)


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
            with no_fallback():
                answer = function(a)
            answers.append([t.tolist() for t in to_cpu(answer if isinstance(answer, tuple) else [answer])])
        except RuntimeError as e:
            answers.append(str(e))
    assert answers[0] == answers[1]


def test_info_says_which_minor():
    a = torch.stack([torch.diag(torch.tensor([1.0, 2.0, d, -1.0])) for d in (3.0, -3.0)])
    with no_fallback():
        assert linalg.cholesky_ex(to_card(a)).info.tolist() == [4, 3]
        assert linalg.lu_factor_ex(to_card(a.clamp(min=0))).info.tolist() == [4, 3]


def test_outputs_that_the_caller_gives():
    a, b = regular((5, 5), torch.float32), values(5, 2)

    def run(a, b):
        out = torch.empty(0, device=a.device)
        base = torch.empty(10, 10, device=a.device)
        linalg.solve_triangular(a, b, upper=True, out=out)
        return out, linalg.inv(a, out=base[::2, ::2]), linalg.solve(a, b, out=b.clone())

    check(run, a, b, rtol=1e-4, atol=1e-5)
    with pytest.raises(RuntimeError, match="same device"):
        linalg.solve_triangular(to_card(a), b, upper=True)


def test_complex_matrices_go_to_the_cpu():
    a = torch.complex(regular((4, 4), torch.float64), values(4, 4, dtype=torch.float64))
    torch.testing.assert_close(linalg.inv(to_card(a)).cpu(), linalg.inv(a))
    lower = a.tril()
    torch.testing.assert_close(
        linalg.solve_triangular(to_card(lower), to_card(a), upper=False).cpu(),
        linalg.solve_triangular(lower, a, upper=False),
    )
