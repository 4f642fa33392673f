# SPDX-License-Identifier: BSD-3-Clause
"""Pointwise operators, compared with the CPU."""

import math

import pytest
import torch
from torch.nn import functional as F

from ops import ALL, FLOATS, INTS, check, no_fallback, to_card, values

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, math.inf, -math.inf, math.nan, 1e-30, 3e38]

UNARY = """abs acos acosh asin asinh atan atanh ceil cos cosh erf erfc exp exp2 expm1
floor frac lgamma log log10 log1p log2 neg reciprocal round rsqrt sgn sigmoid sign sin
sinc sinh sqrt square tan tanh trunc isnan isinf isfinite isposinf isneginf signbit
logical_not positive""".split()


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    function = getattr(torch, name)
    for dtype in FLOATS:
        tolerance = {"rtol": 2e-5, "atol": 1e-5} if dtype == torch.float32 else {}
        check(function, values(7, 5, dtype=dtype), **tolerance)
    check(function, torch.tensor(SPECIAL, dtype=torch.float64))


@pytest.mark.parametrize("name", ["abs", "neg", "sign", "square", "exp", "sqrt", "floor"])
def test_unary_of_integers(name):
    for dtype in INTS:
        check(getattr(torch, name), values(9, dtype=dtype, high=100))


@pytest.mark.parametrize("decimals", [-1, 0, 2])
def test_round_to_decimals(decimals):
    for dtype in FLOATS:
        check(lambda x: torch.round(x, decimals=decimals), values(50, dtype=dtype, high=100))
    check(lambda x: torch.round(x, decimals=decimals), torch.tensor(SPECIAL, dtype=torch.float64))


def test_bits_and_logic():
    for dtype in [*INTS, torch.bool]:
        a, b = values(4, 6, dtype=dtype, high=50), values(4, 6, dtype=dtype, seed=1)
        check(torch.bitwise_not, a)
        for name in ["bitwise_and", "bitwise_or", "bitwise_xor"]:
            check(getattr(torch, name), a, b)
        for name in ["logical_and", "logical_or", "logical_xor"]:
            check(getattr(torch, name), a, b)
    for dtype in INTS:
        counts = torch.tensor([0, 1, 3, 7], dtype=dtype)
        check(torch.bitwise_left_shift, values(4, dtype=dtype, high=100), counts)
        check(torch.bitwise_right_shift, values(4, dtype=dtype, low=-100), counts)


BINARY = """add sub mul div maximum minimum fmax fmin eq ne lt le gt ge remainder
fmod""".split()


OF_FLOATS = "pow atan2 hypot copysign logaddexp logaddexp2 xlogy".split()
DIVISORS = {"low": 1, "high": 5}


@pytest.mark.parametrize(
    ("name", "dtypes", "first", "second"),
    [(name, [*FLOATS, *INTS], {}, DIVISORS) for name in BINARY]
    + [(name, FLOATS, {"low": 0.1}, {}) for name in OF_FLOATS],
)
def test_binary(name, dtypes, first, second):
    for dtype in dtypes:
        a, b = values(5, 6, dtype=dtype, **first), values(5, 6, dtype=dtype, seed=1, **second)
        check(getattr(torch, name), a, b)


def test_binary_of_special_values():
    a = torch.tensor(SPECIAL, dtype=torch.float64)
    for name in ["add", "mul", "div", "maximum", "minimum", "fmax", "pow", "eq", "lt"]:
        check(getattr(torch, name), a[:, None], a)


@pytest.mark.parametrize("mode", [None, "trunc", "floor"])
def test_division(mode):
    for dtype in [*FLOATS, *INTS]:
        a = values(40, dtype=dtype, low=-90, high=90)
        b = values(40, dtype=dtype, low=1, high=9, seed=3)
        check(lambda a, b: torch.div(a, b, rounding_mode=mode), a, b)
    check(torch.floor_divide, values(9, dtype=torch.int32, low=-90), torch.full((9,), 4))


def test_type_promotion():
    kinds = [torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.float32]
    for left in kinds:
        for right in kinds:
            a, b = values(6, dtype=left), values(6, dtype=right, seed=1)
            check(torch.add, a, b)
            check(torch.mul, a, b)
            check(torch.lt, a, b)
            check(torch.true_divide, a, b.abs() + 1 if right != torch.bool else b)


def test_numbers_and_tensors_of_the_cpu():
    for dtype in FLOATS + INTS:
        x = values(3, 4, dtype=dtype)
        check(lambda x: x + 2, x)
        check(lambda x: 1.5 * x, x)
        check(lambda x: 7 - x, x)
        check(lambda x: x > 1, x)
        check(lambda x: x.add(x, alpha=3), x)
    on_card = to_card(values(3))
    torch.testing.assert_close((on_card + torch.tensor(2.0)).cpu(), values(3) + 2)
    torch.testing.assert_close((torch.tensor(2.0) / on_card).cpu(), 2 / values(3))
    with pytest.raises(RuntimeError, match="same device"):
        on_card + torch.ones(3)


def test_scalar_operands_round_once():
    x = values(64, dtype=torch.float16)
    check(lambda x: x * 1.1, x)
    check(lambda x: x + 0.3, x, rtol=0, atol=2e-3)  # the CPU also rounds 0.3
    check(lambda x: torch.pow(x.abs(), 1.7), x)
    for exponent in [0, 1, 2, 3, 0.5, -0.5, -1, -2]:
        check(lambda x: x.abs().add(0.5).pow(exponent), values(9))
    check(lambda x: 2**x, values(9))
    check(lambda x: x**3, values(9, dtype=torch.int32))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_comparisons_of_halves_with_inexact_numbers(dtype):
    x = torch.tensor([0.1, 0.3, 0.7, -2.3, 1e-9], dtype=dtype)
    for number in [0.1, 0.3, 0.7, -2.3]:
        for name in ["eq", "ne", "lt", "le", "gt", "ge"]:
            function = getattr(torch, name)
            check(lambda x: function(x, number), x)
            check(lambda x: function(x, torch.tensor(number)), x)
        check(lambda x: torch.remainder(x, torch.tensor(number)), x)
        check(lambda x: torch.fmod(x, torch.tensor(number)), x)
    check(lambda x: torch.logical_or(x, torch.tensor(1e-9)), x)
    assert (to_card(x)[0] == 0.1).item()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16])
def test_wider_single_elements_are_narrowed(dtype):
    """A 0-dimensional tensor does not promote the other operand. The operator uses only its
    low bits, as many as the other dtype has."""
    x = torch.tensor([-50, 0, 50, 100], dtype=torch.int64).to(dtype)
    for wide in [torch.int16, torch.int32, torch.int64]:
        for number in [300, -300, 200, 70_005]:
            one = torch.tensor(number).to(wide)
            for name in ["lt", "ge", "eq", "maximum", "minimum", "bitwise_xor", "add"]:
                check(getattr(torch, name), x, one)
                check(getattr(torch, name), one, x)
            check(lambda x, y: torch.div(x, y, rounding_mode="floor"), x, one)
    check(torch.bitwise_right_shift, x, torch.tensor(257))
    check(torch.bitwise_left_shift, x, torch.tensor(65_537))
    check(torch.lt, x, torch.tensor(200, dtype=torch.uint8))


def test_broadcasting_and_strides():
    a, b = values(4, 1, 5), values(3, 1, seed=1)
    check(torch.add, a, b)
    wide = values(6, 8, 10)
    check(torch.mul, wide.transpose(0, 2), wide.permute(2, 1, 0) + 1)
    check(torch.add, wide[::2, 1:, ::3], wide[::2, 1:, ::3])
    check(lambda a, b: a - b.expand(4, 5), values(5, 4).t(), values(5))


def test_views_of_one_tensor():
    x = to_card(values(6, 8))
    with no_fallback():
        x[::2, 1::3].mul_(10)
        x.t()[2].add_(1)
    want = values(6, 8)
    want[::2, 1::3].mul_(10)
    want.t()[2].add_(1)
    torch.testing.assert_close(x.cpu(), want)


def test_many_dimensions():
    x = values(*[2] * 10).permute(9, 0, 7, 2, 5, 4, 3, 6, 1, 8)
    y = values(*[2] * 10, seed=1).permute(1, 0, 3, 2, 5, 4, 7, 6, 9, 8)
    check(torch.add, x, y)
    check(lambda x: x.sum((0, 2, 4, 6, 8)), x)
    check(lambda x: x.amax((1, 3, 5, 7, 9)), x)


def test_empty_and_zero_dimensional():
    check(torch.add, values(0), values(0))
    check(torch.exp, values(3, 0, 2))
    check(torch.add, torch.tensor(2.0), torch.tensor(3.0))
    check(torch.sum, torch.tensor(2.0))


def test_out_and_inplace():
    x = to_card(values(4, 5))
    out = torch.empty(0, device="openreg")
    with no_fallback():
        torch.add(x, 1, out=out)
        torch.testing.assert_close(out.cpu(), values(4, 5) + 1)
        target = torch.zeros(5, 4, device="openreg").t()
        torch.exp(x, out=target)
        torch.testing.assert_close(target.cpu(), values(4, 5).exp())
        x.mul_(2).add_(1).clamp_(-2, 2)
    torch.testing.assert_close(x.cpu(), (values(4, 5) * 2 + 1).clamp(-2, 2))
    with pytest.raises(RuntimeError, match="can't be cast"):
        to_card(values(3, dtype=torch.int32)).add_(1.5)
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.add(x, 1, out=torch.empty(4, 5, dtype=torch.int32, device="openreg"))


def test_overlap_of_the_result_is_refused():
    """TensorIterator does not check these operators; the card would stop the stream."""
    x = to_card(values(4, 4))
    for write in [
        lambda y: y.addmm_(x, x),
        lambda y: torch.mm(x, x, out=y),
        lambda y: torch.sum(torch.stack([x, x]), 0, out=y),
        lambda y: torch.softmax(x, 1, out=y),
        lambda y: torch.tril(x, out=y),
        lambda y: torch.eye(4, out=y),
        lambda y: torch._C._nn.mse_loss(x, x, reduction=0, out=y),
    ]:
        with pytest.raises(RuntimeError, match="single memory location"):
            write(torch.zeros(4, device="openreg").expand(4, 4))
    torch.openreg.synchronize()


def test_wider_out_has_the_common_types_values():
    def into(out, function):
        return lambda *a: function(*a, out=torch.empty(0, dtype=out, device=a[0].device))

    for dtype in [torch.int8, torch.uint8, torch.int16]:
        x = torch.tensor([100, 127, -7, 1], dtype=torch.int64).to(dtype)
        x = x * 250 if dtype == torch.int16 else x
        for out in [torch.int32, torch.int64, torch.float32, torch.float16]:
            for function in [torch.add, torch.mul, torch.lt, torch.maximum]:
                check(into(out, function), x, x.flip(0))
    flags = torch.tensor([True, False])
    for out in [torch.uint8, torch.int64, torch.float32]:
        check(into(out, torch.add), flags, flags)
        check(into(out, torch.logical_xor), flags, flags.flip(0))
    for dtype, number in [(torch.float16, 300.0), (torch.bfloat16, 257.0)]:
        x = torch.tensor([number, 1 / 3, 2.0], dtype=dtype)
        for out in [torch.float32, torch.float64]:
            check(into(out, torch.mul), x, x)
            check(into(out, torch.add), x, x.flip(0))
            check(into(out, torch.exp), x.fmod(3))


def test_where_masked_fill_and_clamp():
    a, b, mask = values(4, 5), values(4, 5, seed=1), values(4, 5, dtype=torch.bool)
    for dtype in ALL:
        check(torch.where, mask, a.to(dtype), b.to(dtype))
        check(lambda m, a: a.masked_fill(m, 1), mask, a.to(dtype))
    check(torch.where, mask, a, b.double())
    check(lambda m, a: torch.where(m, a, 0.25), mask, a)
    check(lambda m, a: a.masked_fill(m[0], -math.inf), mask, a)
    check(lambda a: a.clamp(-1, 2), a)
    check(lambda a: a.clamp(min=0.5), a)
    check(lambda a, b: a.clamp(b, b + 1), a, b)
    check(lambda a, b: a.clamp(max=b), a, b)
    check(lambda a: a.clamp_min(1).clamp_max(3), values(9, dtype=torch.int64))


def message(function) -> str:
    with pytest.raises(RuntimeError) as caught:
        function()
    return str(caught.value)


def test_where_into_another_dtype():
    def choose(device):
        x = torch.ones(3, device=device)
        return torch.where(x > 0, x, x, out=torch.empty(3, dtype=torch.int64, device=device))

    assert message(lambda: choose("openreg")) == message(lambda: choose("cpu"))


def test_where_with_cpu_numbers():
    mask, x = values(4, dtype=torch.bool), values(4)
    one, two, yes = torch.tensor(1.0), torch.tensor(2.0), torch.tensor(True)
    m, y = to_card(mask), to_card(x)
    with no_fallback():
        assert torch.equal(torch.where(m, one, two).cpu(), torch.where(mask, one, two))
        assert torch.equal(torch.where(yes, y, two).cpu(), x)
        assert torch.equal(torch.where(yes, one, y).cpu(), torch.ones(4))
        out = torch.empty(0, device="openreg")
        assert torch.where(yes, one, two, out=out).item() == 1
    with pytest.raises(RuntimeError, match="same device"):
        torch.where(m, torch.ones(4), one)


def test_masked_fill_converts_numbers():
    mask = torch.tensor([True, False, True])
    for dtype, number in [
        (torch.bool, 0.5), (torch.int8, 2.75), (torch.uint8, -1), (torch.float16, 1e-9),
        (torch.bool, True), (torch.int64, 2**62 + 1),
    ]:
        x = torch.zeros(3, dtype=dtype)
        check(lambda x, m: x.masked_fill(m, number), x, mask)
        check(lambda x, m: x.masked_fill(m, torch.tensor(number)), x, mask)
        check(lambda x, m: x.clone().masked_fill_(m, number), x, mask)
    for dtype, number in [(torch.int8, 300), (torch.uint8, 256), (torch.float16, 1e6)]:
        x, y = torch.zeros(3, dtype=dtype), torch.zeros(3, dtype=dtype, device="openreg")
        assert message(lambda: y.masked_fill_(to_card(mask), number)) == message(
            lambda: x.masked_fill_(mask, number)
        )
    flags = to_card(torch.zeros(3, dtype=torch.bool))
    assert flags.masked_fill_(to_card(mask), to_card(torch.tensor(0.5))).tolist() == [
        True, False, True,
    ]


def test_masked_fill_with_its_own_element():
    x, mask = values(5), values(5, dtype=torch.bool, seed=2)
    y = to_card(x)
    with no_fallback():
        y.masked_fill_(to_card(mask), y[0])
    assert torch.equal(y.cpu(), x.masked_fill(mask, x[0]))


def test_combinations():
    for dtype in FLOATS:
        a, b, c = (values(4, 5, dtype=dtype, seed=s) for s in range(3))
        check(lambda a, b: torch.lerp(a, b, 0.3), a, b)
        check(torch.lerp, a, b, c)
        check(lambda a, b, c: torch.addcmul(a, b, c, value=0.7), a, b, c)
        check(lambda a, b, c: torch.addcdiv(a, b, c.abs() + 1, value=0.7), a, b, c)


ACTIVATIONS = [
    F.relu, F.silu, F.gelu, F.softplus, F.elu, F.selu, F.celu, F.leaky_relu, F.hardtanh,
    F.relu6, F.hardsigmoid, F.hardswish, F.mish, F.logsigmoid, F.hardshrink, F.softshrink,
    F.softsign, F.tanhshrink, torch.sigmoid, torch.tanh,
    lambda x: F.gelu(x, approximate="tanh"), lambda x: F.threshold(x, 0.5, -1.0),
]


def test_activations_of_odd_numbers_are_the_cpus_bits():
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([0.0, -0.0, 0.5, -0.5, 0.25, -0.25, 3.0, -3.0, 1e-40, inf, -inf, nan])
    for function in [
        *(lambda x, slope=slope: F.leaky_relu(x, slope) for slope in (0, 0.01, 1, 2, -0.5)),
        *(lambda x, limit=limit: F.softshrink(x, limit) for limit in (0, 0.5, 4)),
        F.hardsigmoid, F.hardswish, F.hardshrink,
    ]:
        want, got = function(x), function(to_card(x)).cpu()
        torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(got.signbit() | got.isnan(), want.signbit() | want.isnan())


@pytest.mark.parametrize("function", ACTIVATIONS)
def test_activation_and_its_gradient(function):
    def both_ways(x):
        x = x.detach().requires_grad_()
        y = function(x)
        return y.detach(), torch.autograd.grad(y.sum(), x)[0]

    for dtype in FLOATS:
        if dtype.itemsize == 2:
            check(both_ways, values(6, 7, dtype=dtype), rtol=2e-2, atol=1e-2)
        else:
            check(both_ways, values(6, 7, dtype=dtype), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize(
    "function",
    [F.leaky_relu, F.hardsigmoid, F.hardswish, F.hardshrink, F.softshrink,
     lambda x: torch.lerp(x, x, 0.5), lambda x: torch.lerp(x, x, x),
     lambda x: torch.ops.aten.leaky_relu_backward(x, x, 0.1, False),
     lambda x: torch.ops.aten.hardsigmoid_backward(x, x),
     lambda x: torch.ops.aten.hardswish_backward(x, x),
     lambda x: torch.ops.aten.hardshrink_backward(x, x, 0.5),
     lambda x: torch.ops.aten.softshrink_backward(x, x, 0.5)],
)
def test_fractional_functions_refuse_integers(function):
    for dtype in [torch.int64, torch.int8]:
        x = values(4, dtype=dtype)
        for tensor in [x, to_card(x)]:
            with pytest.raises(NotImplementedError, match="not implemented for '(Long|Char)'"):
                function(tensor)


def test_missing_dtype_falls_back():
    x = torch.tensor([1 + 2j, 3 - 1j])
    torch.openreg.reset_fallbacks()
    y = to_card(x)
    torch.testing.assert_close(y.tan().cpu(), x.tan())
    assert sum(torch.openreg.fallbacks().values()) > 0


def test_operator_without_the_dtype_raises():
    with pytest.raises(RuntimeError, match="not implemented"):
        torch.bitwise_not(to_card(values(3)))
    torch.testing.assert_close((to_card(values(3)) + 1).cpu(), values(3) + 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_hardsigmoid_is_the_rounded_quotient(dtype):
    odd = torch.tensor([math.inf, -math.inf, math.nan], dtype=dtype)
    x = torch.cat([torch.linspace(-4, 4, 100001, dtype=dtype), odd])
    got = F.hardsigmoid(to_card(x)).cpu()
    torch.testing.assert_close(got, (x + 3).clamp(0, 6) / 6, rtol=0, atol=0, equal_nan=True)

ODD_NUMBERS = torch.tensor(
    [0.0, -0.0, 1.0, -1.0, 0.25, -2.5, 300.0, 1e-40, 3e38, -3e38, float("inf"), -float("inf"), float("nan")]
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_short_programs_of_odd_numbers(dtype):
    x = ODD_NUMBERS.to(dtype)
    a, b = torch.cartesian_prod(x, x).unbind(1)
    check(torch.logaddexp, a, b)
    check(torch.logaddexp2, a, b)
    for function in (
        torch.sign, torch.sgn, torch.nan_to_num, lambda x: torch.nan_to_num(x, 2.0),
        lambda x: torch.nan_to_num(x, 2.0, 5.0), lambda x: torch.nan_to_num(x, neginf=-7.0),
    ):
        check(function, x, rtol=0, atol=0)
        assert torch.equal(function(to_card(x)).cpu().signbit(), function(x).signbit())


@pytest.mark.parametrize("limit", [0.5, 1, 3])
@pytest.mark.parametrize("loss", [F.huber_loss, F.smooth_l1_loss])
def test_clipped_losses_of_odd_numbers(loss, limit):
    a, b = torch.cartesian_prod(ODD_NUMBERS, ODD_NUMBERS).unbind(1)
    name = "delta" if loss is F.huber_loss else "beta"

    def both_ways(a, b):
        a = a.detach().requires_grad_()
        y = loss(a, b, reduction="none", **{name: limit})
        return y.detach(), torch.autograd.grad(y.sum(), a)[0]

    check(both_ways, a, b)
