# SPDX-License-Identifier: BSD-3-Clause
"""float8: casts of all values, and what runs on the card with it."""

import pytest
import torch
from ops import no_fallback
from packets import launched

FLOAT8 = [
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
]
OTHERS = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
]


def every(dtype: torch.dtype) -> torch.Tensor:
    """All values of a dtype of 8 or 16 bits."""
    if dtype.itemsize == 1:
        return torch.arange(256).to(torch.uint8).view(dtype)
    return torch.arange(-32768, 32768).to(torch.int16).view(dtype)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> None:
    """Equal to the bit, but any NaN equals another of the same sign."""
    a, b = a.cpu(), b.cpu()
    assert a.dtype == b.dtype and a.shape == b.shape
    if a.dtype.is_floating_point and a.dtype.itemsize > 1:
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(a.signbit() & ~a.isnan(), b.signbit() & ~b.isnan())
        return
    bits = torch.uint8 if a.dtype.itemsize == 1 else a.dtype
    a, b = a.view(bits), b.view(bits)
    wrong = (a != b).nonzero().flatten()
    assert not len(wrong), f"{wrong[:8].tolist()}: {a[wrong[:8]]} is not {b[wrong[:8]]}"


def f32_sample() -> torch.Tensor:
    """Ties, neighbours of ties, overflow, subnormals, NaN and random bits."""
    exact = torch.cat([every(t).float() for t in FLOAT8])
    exact = exact[exact.isfinite()].unique()
    middle = (exact[1:].double() + exact[:-1].double()).div(2).float()
    points = torch.cat([exact, middle, -exact, -middle])
    around = [torch.nextafter(points, torch.full_like(points, side)) for side in (1e38, -1e38)]
    special = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-45, -1e-40,
                            3.4e38, -3.4e38, 448, 464, 480, 57344, 61440, 65536, 240, 248, 256])
    generator = torch.Generator().manual_seed(0)
    random = torch.randint(-(2**31), 2**31, (100000,), generator=generator).to(torch.int32)
    near = torch.randn(100000, generator=generator) * 2.0 ** torch.randint(
        -20, 20, (100000,), generator=generator)
    return torch.cat([points, *around, special, random.view(torch.float32), near])


@pytest.mark.parametrize("dtype", FLOAT8)
def test_all_values_to_other_dtypes(dtype):
    x = every(dtype)
    with no_fallback():
        for to in OTHERS + FLOAT8:
            # A cast of NaN or of a large number to an integer is undefined on the CPU.
            number = x[x.float().abs() < 100] if not to.is_floating_point else x
            same_bits(number.to("openreg").to(to), number.to(to))


@pytest.mark.parametrize("dtype", FLOAT8)
@pytest.mark.parametrize("source", [torch.bfloat16, torch.float16])
def test_all_halves_to_float8(dtype, source):
    x = every(source)
    with no_fallback():
        same_bits(x.to("openreg").to(dtype), x.to(dtype))


@pytest.mark.parametrize("dtype", FLOAT8)
def test_f32_to_float8(dtype):
    x = f32_sample()
    with no_fallback():
        same_bits(x.to("openreg").to(dtype), x.to(dtype))
        double = x.double() * (1 + 2.0**-40)
        same_bits(double.to("openreg").to(dtype), double.to(dtype))


@pytest.mark.parametrize("dtype", FLOAT8)
def test_integers_to_float8(dtype):
    for source in [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]:
        x = torch.arange(-70000, 70000).to(source)
        with no_fallback():
            same_bits(x.to("openreg").to(dtype), x.to(dtype))
    x = torch.tensor([True, False])
    with no_fallback():
        same_bits(x.to("openreg").to(dtype), x.to(dtype))


@pytest.mark.parametrize("dtype", FLOAT8)
def test_copies(dtype):
    """copy_ with other strides, to and from the host, between cards, and empty."""
    x = every(dtype).view(16, 16)
    with no_fallback():
        card = torch.empty(16, 16, dtype=dtype, device="openreg")
        same_bits(card.copy_(x.t()), x.t())
        wide = torch.empty(16, 16, device="openreg")
        same_bits(wide.copy_(card.t()), x.float())
        same_bits(torch.empty(16, 16, dtype=dtype, device="openreg:1").copy_(card), x.t())
        same_bits(card[::2, 1::3].contiguous(), x.t()[::2, 1::3].contiguous())
        host = torch.empty(16, 16)
        same_bits(host.copy_(card), x.t().float())
        same_bits(card.copy_(x.float().t()), x.float().t().to(dtype))
        assert card[:0].to(torch.float32).shape == (0, 16)


@pytest.mark.parametrize("dtype", FLOAT8[:2])
def test_autograd_through_a_cast(dtype):
    x = torch.linspace(-3, 3, 100).requires_grad_()
    y = x.detach().to("openreg").requires_grad_()
    with no_fallback():
        (x.to(dtype).float() * 2).sum().backward()
        (y.to(dtype).float() * 2).sum().backward()
    torch.testing.assert_close(y.grad.cpu(), x.grad)


@pytest.mark.parametrize("dtype", FLOAT8[:2])
def test_compiled_casts_are_one_packet(dtype):
    def scale(x):
        return (x * 3).clamp(-448, 448).to(dtype)

    x = torch.linspace(-300, 300, 4096)
    compiled = torch.compile(scale)
    on_card = x.to("openreg")
    same_bits(compiled(on_card), scale(x))
    assert launched(lambda: compiled(on_card)) == 1
    torch.compiler.reset()


@pytest.mark.parametrize("dtype", FLOAT8)
def test_pointwise_operators_of_the_cpu(dtype):
    x, y = every(dtype), every(dtype).roll(77)
    calls = [
        lambda a, b: a == b,
        lambda a, b: a == 1.0,
        lambda a, b: a != b,
        lambda a, b: a.isnan(),
        lambda a, b: torch.full_like(a, 1.7),
        lambda a, b: torch.zeros_like(a),
        lambda a, b: a.clone().fill_(0.3),
    ]
    if dtype != torch.float8_e8m0fnu:
        # The CPU leaves the sign of -0 and of NaN.
        calls.append(lambda a, b: a.abs().float().abs())
    for i, call in enumerate(calls):
        with no_fallback():
            found = call(x.to("openreg"), y.to("openreg"))
        same_bits(found, call(x, y))


WIDE = [torch.uint16, torch.uint32, torch.uint64]
MOVES = {
    "cat": lambda x, i, m: torch.cat([x, x[:1]]),
    "stack": lambda x, i, m: torch.stack([x, x]),
    "index": lambda x, i, m: x[i],
    "mask": lambda x, i, m: x[m],
    "index_select": lambda x, i, m: x.index_select(1, i),
    "embedding": lambda x, i, m: torch.nn.functional.embedding(i, x),
    "where": lambda x, i, m: torch.where(m, x, x.t().contiguous()),
    "masked_select": lambda x, i, m: x.masked_select(m),
    "roll": lambda x, i, m: x.roll(3, 1),
    "repeat": lambda x, i, m: x.repeat(2, 1),
    "repeat_interleave": lambda x, i, m: x.repeat_interleave(2, 0),
    "index_put_": lambda x, i, m: x.clone().index_put_((i,), x[:1]),
}


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("dtype", FLOAT8 + WIDE)
def test_moves_of_bits(dtype, name):
    """The CPU lacks some of these operators; it has all of them for integers."""
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    x = torch.arange(256).to(bits).view(16, 16)
    index, mask = torch.tensor([3, 0, 15, 3]), torch.arange(256).view(16, 16) % 3 == 0
    with no_fallback():
        found = MOVES[name](x.to("openreg").view(dtype), index.to("openreg"), mask.to("openreg"))
    assert found.dtype == dtype
    assert torch.equal(found.cpu().view(bits), MOVES[name](x, index, mask))
