# SPDX-License-Identifier: BSD-3-Clause
"""Results that are in range though a step on the way is not, and the gradients of
activations at numbers that are not finite."""

import pytest
import torch
import torch.nn.functional as F

from ops import check, to_card

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_products_out_of_range(dtype):
    # The CPU's result for the rest after its vectors differs.
    huge = torch.tensor([-0.9, 0.9, -0.9, 0.9]).repeat(16) * torch.finfo(torch.float32).max
    if dtype == torch.float64:
        huge = huge.double() * (torch.finfo(dtype).max / torch.finfo(torch.float32).max)
    x, factor = huge.to(dtype), torch.full((64,), -1.5, dtype=dtype)
    check(torch.addcmul, x, x, factor)
    check(torch.addcmul, x, factor, x)
    check(lambda x, y: torch.addcmul(x, x, y, value=1.5), x, torch.full((64,), -1, dtype=dtype))
    check(lambda x: torch.add(x, -x, alpha=1.5), x)
    check(lambda x: torch.sub(x, x, alpha=1.5), x)
    check(lambda x: torch.rsub(x, x, alpha=1.5), x)


def test_complex_exponential():
    numbers = {
        torch.complex64: [89 + 2j, 88.9 - 0.5j, -89 + 2j, 89, 100 + 2j, 3e38 + 1j, 2 + 89j],
        torch.complex128: [710 + 2j, 709.9 - 0.5j, -710 + 2j, 710, 800 + 2j],
    }
    for dtype, values in numbers.items():
        x = torch.tensor(values, dtype=dtype)
        rtol = 1e-6 if dtype == torch.complex64 else 1e-12
        check(lambda x: torch.view_as_real(x.exp()), x, rtol=rtol, atol=0)


def test_inverse_error_function_in_double():
    x = 1 - 10.0 ** -torch.arange(1, 16).double()
    x = torch.cat([x, torch.tensor([1 - 2.0**-53, 1e-300, 1.0, NAN])])
    x = torch.cat([x, -x])
    torch.testing.assert_close(to_card(x).erfinv().cpu(), x.erfinv(), rtol=0, atol=0, equal_nan=True)


ACTIVATIONS = {name: getattr(F, name) for name in """elu selu celu gelu hardswish hardsigmoid
    hardtanh hardshrink softshrink leaky_relu mish relu relu6 silu softplus tanhshrink softsign
    logsigmoid sigmoid tanh""".split()}
ACTIVATIONS["threshold"] = lambda x: F.threshold(x, 0.1, 20)
ACTIVATIONS["gelu by tanh"] = lambda x: F.gelu(x, approximate="tanh")


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_gradients_of_nan(name, dtype):
    for value in (NAN, 0.0, -0.0, 3.0, -3.0, 0.5, -0.5, 1.0, -1.0):
        for slope in (1.0, NAN):
            got = []
            for device in ("cpu", "openreg"):
                x = torch.full((64,), value, dtype=dtype, device=device, requires_grad=True)
                y = ACTIVATIONS[name](x)
                got.append(torch.autograd.grad(y, x, torch.full_like(y, slope))[0].cpu())
            # The CPU's vectors and the rest after them can differ for a NaN.
            rtol = 1e-2 if dtype == torch.bfloat16 else 1e-5
            ends = [torch.isclose(got[1], end, rtol, 1e-6, equal_nan=True) for end in got[0][[0, -1]]]
            assert (ends[0] | ends[1]).all(), (value, slope, got)
            if name in ("elu", "selu", "celu", "hardswish") and value != value:
                assert got[1].isnan().all()


@pytest.mark.parametrize("count", [1, 4, 64, 67])
def test_sums_of_products_out_of_range(count):
    rest, column, row = (torch.full((count,), v) for v in (-1e38, 2e19, 1.8e19))
    want = torch.addr(rest.double().expand(count, count), column.double(), row.double())
    got = torch.addr(*map(to_card, (rest.expand(count, count).contiguous(), column, row)))
    torch.testing.assert_close(got.cpu(), want.float())


@pytest.mark.parametrize("order", [0, 0.5, 1, 2, 3, INF, -1, -INF])
def test_norms_of_single_elements(order):
    for number in (1e38, -3e38, 1e-38, 0.0, INF, NAN):
        x = torch.full((3, 1), number)
        check(lambda x: torch.linalg.vector_norm(x, order, 1), x)
        check(lambda x: torch.linalg.vector_norm(x[0], order), x)
        check(lambda x: torch.dist(x[0], x[1] * 0 if order > 0 else x[1], order), x)


def test_zeta():
    """The Hurwitz zeta function of sums that converge slowly, in double."""
    generator = torch.Generator().manual_seed(1)
    x = 1 + 10.0 ** (-16 * torch.rand(1000, generator=generator).double())
    q = torch.rand(1000, generator=generator).double() * 12
    q[:100] = torch.randint(1, 12, (100,), generator=generator)
    check(torch.special.zeta, x, q, rtol=1e-15, atol=0)
    check(torch.special.zeta, x * 2, q, rtol=2e-15, atol=0)
