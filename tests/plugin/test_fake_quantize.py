# SPDX-License-Identifier: BSD-3-Clause
"""fake_quantize, the quantized_decomposed operators, shifts, and what is refused."""

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401: registers the operators
from ops import FLOATS, INTS, no_fallback, to_card, to_cpu
from packets import launched

INF, NAN = float("inf"), float("nan")


def inputs(dtype=torch.float32, rows: int = 6) -> torch.Tensor:
    """Values, ties and special values."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, 50, generator=generator, dtype=torch.float64) * 4
    x[:, :20] = torch.arange(-10, 10) * 0.5 * 0.1
    x[0, 20:28] = torch.tensor([INF, -INF, NAN, 1e30, -1e30, 0.0, -0.0, 1e-40])
    return x.to(dtype)


def same(found, expected) -> None:
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        torch.testing.assert_close(a.cpu(), b, rtol=0, atol=0, equal_nan=True)


def both(function, *args) -> None:
    expected = function(*args)
    with no_fallback():
        found = function(*to_card(args))
    as_tuple = lambda r: r if isinstance(r, tuple) else (r,)  # noqa: E731
    same(as_tuple(found), as_tuple(expected))


RANGES = [(0, 255, 128), (-128, 127, 0), (-8, 7, 3), (0, 1, 0), (-(2**31), 2**31 - 1, 5)]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("least, most, zero", RANGES)
def test_per_tensor(dtype, least, most, zero):
    x = inputs(dtype)
    aten = torch.ops.aten
    both(aten.fake_quantize_per_tensor_affine_cachemask, x, 0.1, zero, least, most)
    both(aten.fake_quantize_per_tensor_affine_cachemask, x.t(), 3e-3, zero, least, most)
    scale, zero_point = torch.tensor([0.1]), torch.tensor([zero], dtype=torch.int32)
    for enabled in [0, 1]:
        both(aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams, x, scale, zero_point,
             torch.tensor([enabled]), least, most)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("zero_type", [torch.int32, torch.float32, torch.float16])
@pytest.mark.parametrize("axis", [0, 1])
def test_per_channel(dtype, zero_type, axis):
    x = inputs(dtype)
    n = x.shape[axis]
    scale, zero = torch.linspace(0.01, 0.3, n), torch.arange(n) % 9 - 4.0
    if zero_type.is_floating_point:
        zero = zero + 0.25
    both(torch.ops.aten.fake_quantize_per_channel_affine_cachemask, x, scale, zero.to(zero_type),
         axis, -128, 127)


@pytest.mark.parametrize("size", [2.0**62, 4.6e18, 127.5, 3e38])
def test_module_at_ties(size):
    """
    The greatest elements lie half a step from a level. The formula of PyTorch's own test adds
    the zero point before it rounds, so it gives another level here, on the CPU as well.
    """
    x = torch.tensor([size, -size, 0.0, size / 2, -size / 4, size / 3])
    found = {}
    for device in ["cpu", "openreg"]:
        module = torch.ao.quantization.default_fake_quant().to(device)
        leaf = x.to(device).detach().requires_grad_()
        with no_fallback():
            out = module(leaf)
            out.backward(torch.ones_like(out))
        found[device] = [out.detach(), leaf.grad, module.scale, module.zero_point]
    same(found["openreg"], found["cpu"])


def gradients(device, function, *args):
    leaves = [a.detach().to(device).requires_grad_() for a in args if isinstance(a, torch.Tensor)]
    rest = [a for a in args if not isinstance(a, torch.Tensor)]
    out = function(*leaves, *rest)
    (out * torch.arange(out.numel(), device=device).view(out.shape) * 0.01).sum().backward()
    return [out.detach().cpu()] + [t.grad.cpu() for t in leaves]


def test_gradients():
    x = inputs()[1:]
    per_tensor = torch.fake_quantize_per_tensor_affine
    with no_fallback():
        found = gradients("openreg", per_tensor, x, 0.05, 10, 0, 255)
    same(found, gradients("cpu", per_tensor, x, 0.05, 10, 0, 255))
    for function, scale, zero, more in [
        (torch._fake_quantize_learnable_per_tensor_affine, torch.tensor([0.1]),
         torch.tensor([9.7]), (0, 255, 0.5)),
        (torch._fake_quantize_learnable_per_channel_affine, torch.linspace(0.02, 0.1, 5),
         torch.linspace(-1, 4, 5), (0, -8, 7, 0.7)),
    ]:
        with no_fallback():
            found = gradients("openreg", function, x, scale, zero, *more)
        expected = gradients("cpu", function, x, scale, zero, *more)
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-4)


def test_fused_observer():
    """fused_moving_avg_obs_fake_quant, as QAT modules call it."""
    from torch.ao.quantization import FusedMovingAvgObsFakeQuantize

    ours = FusedMovingAvgObsFakeQuantize().to("openreg")
    theirs = FusedMovingAvgObsFakeQuantize()
    for seed in range(3):
        x = torch.randn(20, 30, generator=torch.Generator().manual_seed(seed))
        same([ours(x.to("openreg"))], [theirs(x)])
        same([ours.scale, ours.zero_point], [theirs.scale, theirs.zero_point])


BAD = {
    "`quant_min` should be less than or equal to `quant_max`, but they are 5 and 3":
        lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 4, 5, 3),
    "`zero_point` must be between `quant_min` and `quant_max`, 0 and 15, but it is 16":
        lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 16, 0, 15),
    "not implemented for 'Int'":
        lambda x: torch.fake_quantize_per_tensor_affine(x.int(), 0.1, 0, 0, 15),
    "dimensions of scale and zero-point are not consistent with input tensor: they have 5":
        lambda x: torch.fake_quantize_per_channel_affine(
            x, x[0, :5].contiguous(), x[0, :5].int(), 0, -9, 9),
    "`axis` must be between 0 and number of dimensions of input, 2, but it is 2":
        lambda x: torch.fake_quantize_per_channel_affine(x, x[0], x[0].int(), 2, -9, 9),
    "scale should be a 1-D tensor":
        lambda x: torch.fake_quantize_per_channel_affine(x, x, x[0].int(), 0, -9, 9),
    "Zero-point must be Int32, Float or Half, found Long":
        lambda x: torch.fake_quantize_per_channel_affine(x, x[0], x[0].long(), 1, -9, 9),
}


@pytest.mark.parametrize("text", BAD)
def test_bad_input(text):
    with pytest.raises((RuntimeError, NotImplementedError)) as error:
        BAD[text](torch.ones(6, 50, device="openreg"))
    assert text in str(error.value)


SHIFTS = {
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
}
BITS = {
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
}


def in_place(name):
    def run(a, b):
        a = a.clone()
        scope = {"a": a, "b": b}
        exec(f"a {name}= b", scope)
        return scope["a"]
    return run


@pytest.mark.parametrize("name", [*SHIFTS, *BITS])
@pytest.mark.parametrize("dtype", INTS + [torch.bool])
def test_bits(name, dtype):
    if dtype == torch.bool and name in SHIFTS:
        both(SHIFTS[name], torch.tensor([True, False]), 1)  # an int64, by promotion
        with pytest.raises(NotImplementedError, match="Convert the tensor first"):
            SHIFTS[name](*[torch.ones(2, dtype=dtype, device="openreg")] * 2)
        return
    function = {**SHIFTS, **BITS}[name]
    low = 0 if dtype == torch.bool else torch.iinfo(dtype).min
    high = 1 if dtype == torch.bool else torch.iinfo(dtype).max
    a = torch.tensor([low, low + 1, -7 if low < 0 else 0, 0, 1, 5, high - 1, high]).to(dtype)
    for amount in [0, 1, 3, 7, 8, 15, 16, 31, 32, 63, 64, -1]:
        if dtype == torch.uint8 and amount < 0:
            continue
        number = bool(amount & 1) if dtype == torch.bool else amount
        other = torch.full_like(a, number)
        both(function, a, number)
        both(in_place(name), a, number)
        both(function, a, other)
        both(in_place(name), a, other)
        both(function, a[::2], other[:4])
        if dtype != torch.bool:
            both(function, a, other.long())


@pytest.mark.parametrize("dtype", INTS + [torch.bool])
def test_not(dtype):
    both(lambda a: ~a, torch.tensor([0, 1, 5, 127]).to(dtype))


DECOMPOSED = torch.ops.quantized_decomposed


def calls():
    x = torch.linspace(-5, 5, 48).view(6, 8)
    q8 = (torch.int8, torch.uint8, torch.int16)
    for dtype in q8:
        least, most = (0, 255) if dtype == torch.uint8 else (-128, 127)
        args = (0.05, 3, least, most, dtype)
        yield DECOMPOSED.quantize_per_tensor.default, (x, *args)
        whole = torch.arange(48).view(6, 8).to(dtype)
        yield DECOMPOSED.dequantize_per_tensor.default, (whole, *args)
        scale, zero = torch.tensor(0.05), torch.tensor(3)
        yield DECOMPOSED.quantize_per_tensor.tensor, (x, scale, zero, least, most, dtype)
        yield DECOMPOSED.dequantize_per_tensor.tensor, (whole, scale, zero, least, most, dtype)
        scales, zeros = torch.linspace(0.01, 0.1, 6), torch.arange(6)
        channel = (scales, zeros, 0, least, most, dtype)
        yield DECOMPOSED.quantize_per_channel.default, (x, *channel)
        yield DECOMPOSED.dequantize_per_channel.default, (whole, *channel)
    yield DECOMPOSED.choose_qparams.tensor, (x, -128, 127, 1e-6, torch.int8)
    yield DECOMPOSED.choose_qparams_symmetric.tensor, (x, -128, 127, 1e-6, torch.int8)
    yield DECOMPOSED.choose_qparams_per_token.default, (x, torch.int8)
    yield DECOMPOSED.choose_qparams_per_token_asymmetric.default, (x, torch.int8)
    token = (torch.linspace(0.01, 0.1, 6).view(6, 1), torch.zeros(6, 1, dtype=torch.int64))
    yield DECOMPOSED.quantize_per_token.default, (x, *token, -128, 127, torch.int8)
    whole = torch.arange(48).view(6, 8).to(torch.int8)
    yield DECOMPOSED.dequantize_per_token.default, (
        whole, *token, -128, 127, torch.int8, torch.float32)
    group = (torch.linspace(0.01, 0.1, 12).view(6, 2), torch.zeros(6, 2, dtype=torch.int32))
    yield DECOMPOSED.quantize_per_channel_group.default, (x, *group, -8, 7, torch.int8, 4)
    yield DECOMPOSED.dequantize_per_channel_group.default, (
        whole, *group, -8, 7, torch.int8, 4, torch.float32)


@pytest.mark.parametrize("index", range(len(list(calls()))))
def test_decomposed(index):
    function, args = list(calls())[index]
    expected = function(*args)
    with no_fallback():
        found = function(*to_card(args))
    expected = expected if isinstance(expected, tuple) else (expected,)
    found = found if isinstance(found, tuple) else (found,)
    for a, b in zip(to_cpu(list(found)), expected, strict=True):
        assert a.dtype == b.dtype
        torch.testing.assert_close(a, b, rtol=1e-6, atol=0)


def test_compiled_pair_is_one_packet():
    def pair(x):
        q = DECOMPOSED.quantize_per_tensor(x, 0.05, 3, -128, 127, torch.int8)
        return DECOMPOSED.dequantize_per_tensor(q, 0.05, 3, -128, 127, torch.int8)

    def channels(x, scales, zeros):
        q = DECOMPOSED.quantize_per_channel(x, scales, zeros, 0, -128, 127, torch.int8)
        return DECOMPOSED.dequantize_per_channel(q, scales, zeros, 0, -128, 127, torch.int8)

    torch.compiler.reset()
    x = torch.linspace(-9, 9, 6000).view(6, 1000)
    for function, args in [
        (pair, (x,)), (channels, (x, torch.linspace(0.01, 0.1, 6), torch.arange(6)))
    ]:
        compiled, card = torch.compile(function), to_card(args)
        torch.testing.assert_close(compiled(*card).cpu(), function(*args), rtol=1e-6, atol=1e-6)
        assert launched(lambda: compiled(*card)) == 1
    torch.compiler.reset()


REFUSED = {
    "quantize_per_tensor": lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8),
    "quantize_per_tensor of tensors": lambda x: torch.quantize_per_tensor(
        x, torch.tensor(0.1, device="openreg"), torch.tensor(0, device="openreg"), torch.qint8),
    "quantize_per_channel": lambda x: torch.quantize_per_channel(
        x, x[0], x[0].int(), 1, torch.qint8),
    "quantize_per_tensor_dynamic": lambda x: torch.quantize_per_tensor_dynamic(
        x, torch.qint8, False),
    "empty": lambda x: torch._empty_affine_quantized(
        [2], scale=1.0, zero_point=0, dtype=torch.quint8, device="openreg"),
    "quantize_dynamic": lambda x: torch.ao.quantization.quantize_dynamic(
        torch.nn.Sequential(torch.nn.Linear(8, 8)).to("openreg"), {torch.nn.Linear}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_quantized_tensors_are_refused(name):
    with pytest.raises(NotImplementedError, match=r"quantize_\(\) of torchao"):
        REFUSED[name](torch.ones(4, 8, device="openreg"))
