# SPDX-License-Identifier: BSD-3-Clause
"""_scaled_mm and scaled_mm: products of float8 matrices with scales."""

import pytest
import torch
from ops import no_fallback, to_card
from packets import launched
from torch.nn.functional import ScalingType, SwizzleType, scaled_mm

E4, E5, MX = torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu
TYPES = [E4, E5, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]


def matrix(rows: int, columns: int, dtype=E4, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, columns, generator=generator).to(dtype)


def scales(*size: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(size, generator=torch.Generator().manual_seed(seed)) + 0.5


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    """expected is the exact result: allows one rounding, and that of sums in float32."""
    exact = expected.float()
    tolerance = {torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 8e-3,
                 E4: 0.0667, E5: 0.143}[found.dtype]
    torch.testing.assert_close(found.cpu().float(), exact, rtol=tolerance, atol=1e-3)


@pytest.mark.parametrize("out_dtype", [torch.float32, torch.bfloat16, torch.float16, E4])
@pytest.mark.parametrize("bias", [False, True])
def test_scales_of_tensors_as_on_the_cpu(out_dtype, bias):
    a, b = matrix(33, 80), matrix(48, 80, seed=1).t()
    args = [a, b, scales(1), scales(1, seed=1)]
    extra = {"out_dtype": out_dtype}
    if bias:
        extra["bias"] = torch.linspace(-3, 3, 48)
    card = {k: to_card(v) for k, v in extra.items()}
    with no_fallback():
        found = torch._scaled_mm(*to_card(args), **card)
    exact = (a.double() * args[2]) @ (b.double() * args[3]) + (extra["bias"] if bias else 0)
    assert found.dtype == out_dtype
    close(found, exact)
    expected = torch._scaled_mm(*args, **extra)
    assert expected.dtype == out_dtype
    torch.testing.assert_close(
        found.cpu().float(), expected.float(), rtol=0.15 if out_dtype is E4 else 1e-2, atol=1e-2)


@pytest.mark.parametrize("left", TYPES)
@pytest.mark.parametrize("right", TYPES)
def test_pairs_of_dtypes(left, right):
    a, b = matrix(20, 64, left), matrix(30, 64, right, 1).t()
    one = torch.ones(1, device="openreg")
    with no_fallback():
        found = torch._scaled_mm(to_card(a), to_card(b), one, one, out_dtype=torch.float32)
    close(found, a.double() @ b.double())


def test_layouts():
    """mat1 and mat2 by rows and by columns, with gaps, of one row, and empty."""
    one = torch.ones((), device="openreg")
    for a in [matrix(17, 40), matrix(40, 17).t(), matrix(34, 80)[::2, ::2], matrix(1, 40)]:
        for b in [matrix(40, 23), matrix(23, 40).t(), matrix(40, 1)]:
            with no_fallback():
                found = torch._scaled_mm(to_card(a), to_card(b), one, one, out_dtype=torch.float32)
            close(found, a.double() @ b.double())
    with no_fallback():
        none = torch._scaled_mm(
            to_card(matrix(3, 0)), to_card(matrix(0, 5)), one, one, out_dtype=torch.float32)
        assert torch.equal(none.cpu(), torch.zeros(3, 5))
        empty = torch._scaled_mm(to_card(matrix(0, 8)), to_card(matrix(8, 5)), one, one)
        assert empty.shape == (0, 5)


def test_scales_of_rows_and_columns():
    a, b = matrix(24, 64), matrix(40, 64, seed=1).t()
    by_row, by_column = scales(24, 1), scales(1, 40, seed=1)
    bias = torch.linspace(-1, 1, 40).bfloat16()
    exact = (a.double() * by_row) @ (b.double() * by_column) + bias
    card = to_card([a, b, by_row, by_column, bias])
    with no_fallback():
        found = torch._scaled_mm(*card[:4], bias=card[4], out_dtype=torch.bfloat16)
        close(found, exact)
        theirs = torch._scaled_mm(a, b, by_row, by_column, bias=bias, out_dtype=torch.bfloat16)
        torch.testing.assert_close(found.cpu(), theirs, rtol=1e-2, atol=1e-2)
        found = scaled_mm(card[0], card[1], card[2], ScalingType.RowWise, card[3],
                          ScalingType.RowWise, bias=card[4], output_dtype=torch.float32)
        close(found, exact)
        mixed = scaled_mm(card[0], card[1], card[2], ScalingType.RowWise, card[3][:, :1].clone(),
                          ScalingType.TensorWise, output_dtype=torch.float32)
        close(mixed, (a.double() * by_row) @ (b.double() * by_column[0, 0]))


def blocks(grid: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    return grid.double().repeat_interleave(rows, 0).repeat_interleave(columns, 1)


@pytest.mark.parametrize("left", [1, 128])
@pytest.mark.parametrize("right", [1, 128])
def test_scales_of_blocks(left, right):
    m, n, k = 200, 136, 384
    a, b = matrix(m, k), matrix(n, k, seed=1)
    grid_a, grid_b = scales(-(-m // left), 3), scales(-(-n // right), 3, seed=1)
    exact = (a.double() * blocks(grid_a, left, 128)[:m]) @ (
        b.double() * blocks(grid_b, right, 128)[:n]).t()
    kind = {1: ScalingType.BlockWise1x128, 128: ScalingType.BlockWise128x128}
    card_a, card_b, by_a, by_b = to_card([a, b, grid_a, grid_b])
    padded = torch.nn.functional.pad(by_b, (0, 1)) if right == 128 else by_b
    with no_fallback():
        old = torch._scaled_mm(card_a, card_b.t(), by_a, by_b.t(), out_dtype=torch.float32)
        close(old, exact)
        for grid in [by_b, padded]:
            new = scaled_mm(
                card_a, card_b.t(), by_a if left == 1 else by_a.t(), kind[left],
                grid if right == 1 else grid.t(), kind[right], output_dtype=torch.bfloat16)
            close(new, exact)


def swizzled(grid: torch.Tensor) -> torch.Tensor:
    rows, columns = grid.shape
    tall, wide = -(-rows // 128) * 128, -(-columns // 4) * 4
    whole = torch.zeros(tall, wide, dtype=torch.uint8)
    whole[:rows, :columns] = grid.view(torch.uint8)
    tiles = whole.view(tall // 128, 4, 32, wide // 4, 4).permute(0, 3, 2, 1, 4)
    return tiles.contiguous().flatten().view(MX)


@pytest.mark.parametrize("swizzle", [False, True])
def test_mx_scales(swizzle):
    m, n, k = 150, 70, 160
    a, b = matrix(m, k, E5), matrix(n, k, seed=1)
    grid_a = torch.randint(122, 132, (m, 5)).to(torch.uint8).view(MX)
    grid_b = torch.randint(122, 132, (n, 5)).to(torch.uint8).view(MX)
    exact = (a.double() * blocks(grid_a, 1, 32)) @ (b.double() * blocks(grid_b, 1, 32)).t()
    how = swizzled if swizzle else lambda t: t
    card_a, card_b, by_a, by_b = to_card([a, b, how(grid_a), how(grid_b)])
    kind = ScalingType.BlockWise1x32
    way = SwizzleType.SWIZZLE_32_4_4 if swizzle else SwizzleType.NO_SWIZZLE
    with no_fallback():
        found = scaled_mm(card_a, card_b.t(), by_a, kind, by_b, kind, swizzle_a=way, swizzle_b=way,
                          output_dtype=torch.float32)
        close(found, exact)
        close(torch._scaled_mm(card_a, card_b.t(), by_a, by_b, out_dtype=torch.float32), exact)


def mx(*size: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(122, 132, size, generator=generator).to(torch.uint8).view(MX)


@pytest.mark.parametrize("out_dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_scales_of_blocks_take_one_packet(out_dtype):
    """MX in all layouts of the matrices; and blocks of 1 x 128."""
    kind = ScalingType.BlockWise1x32
    for left, right in [(E4, E4), (E5, E4)]:
        grids = [mx(40, 4), mx(56, 4, seed=1)]
        exact = None
        for turned in [False, True]:
            a, b = matrix(40, 128, left), matrix(56, 128, right, 1).t()
            if turned:
                a, b = a.t().contiguous().t(), b.contiguous()
            card = to_card([a, b, *grids])
            found = []
            with no_fallback():
                assert launched(lambda: found.append(
                    torch._scaled_mm(*card, out_dtype=out_dtype))) == 1
                assert launched(lambda: found.append(scaled_mm(
                    card[0], card[1], card[2], kind, card[3], kind, output_dtype=out_dtype))) == 1
            exact = (a.double() * blocks(grids[0], 1, 32)) @ (
                b.double().t() * blocks(grids[1], 1, 32)).t()
            for result in found:
                assert result.dtype == out_dtype and result.is_contiguous()
                close(result, exact)
    a, b, by_a, by_b = to_card([matrix(40, 128), matrix(56, 128, seed=1), scales(40, 1),
                                scales(56, 1, seed=1)])
    assert launched(lambda: scaled_mm(a, b.t(), by_a, ScalingType.BlockWise1x128, by_b,
                                      ScalingType.BlockWise1x128, output_dtype=out_dtype)) == 1


def test_mixed_kinds_of_blocks():
    a, b, k = matrix(24, 256), matrix(40, 256, seed=1), ScalingType
    by = {
        k.TensorWise: (scales(1), lambda s, m: s.view(1, 1).double()),
        k.RowWise: (scales(24, 1), lambda s, m: s.double()),
        k.BlockWise1x32: (mx(24, 8), lambda s, m: blocks(s, 1, 32)),
        k.BlockWise1x128: (scales(24, 2), lambda s, m: blocks(s, 1, 128)),
        k.BlockWise128x128: (scales(2, 1), lambda s, m: blocks(s.t(), 128, 128)[:24]),
    }
    grid = mx(40, 8, seed=1)
    right = (b.double() * blocks(grid, 1, 32)).t()
    for kind, (scale, whole) in by.items():
        exact = (a.double() * whole(scale, a)) @ right
        card = to_card([a, b, scale, grid])
        with no_fallback():
            close(scaled_mm(card[0], card[1].t(), card[2], kind, card[3], k.BlockWise1x32,
                            output_dtype=torch.float32), exact)
            # The same product, transposed: b's scales become a's.
            turned = card[2].t() if kind is k.RowWise else card[2]
            found = scaled_mm(card[1], card[0].t(), card[3], k.BlockWise1x32, turned, kind,
                              output_dtype=torch.bfloat16)
        close(found.t(), exact)


def test_blocks_with_bias_out_and_float8_results():
    a, b, grids = matrix(8, 64), matrix(16, 64, seed=1), [mx(8, 2), mx(16, 2, seed=1)]
    bias = torch.linspace(-3, 3, 16)
    exact = (a.double() * blocks(grids[0], 1, 32)) @ (b.double() * blocks(grids[1], 1, 32)).t()
    a, b, by_a, by_b, card_bias = to_card([a, b, *grids, bias])
    with no_fallback():
        close(torch._scaled_mm(a, b.t(), by_a, by_b, bias=card_bias, out_dtype=torch.float32),
              exact + bias)
        close(torch._scaled_mm(a, b.t(), by_a, by_b, out_dtype=E5), exact)
        for out in [torch.empty(8, 16, device="openreg"),
                    torch.empty(16, 8, device="openreg").t(),
                    torch.empty(8, 32, device="openreg")[:, ::2]]:
            assert torch._scaled_mm(a, b.t(), by_a, by_b, out_dtype=torch.float32, out=out) is out
            close(out, exact)
        kind = ScalingType.BlockWise1x32
        none = scaled_mm(a[:, :0], b.t()[:0], by_a[:, :0], kind, by_b[:, :0], kind,
                         bias=card_bias, output_dtype=torch.float32)
        assert torch.equal(none.cpu(), bias.expand(8, 16))


def test_nan_scale_of_a_block():
    """A NaN is in its row or column of the result, and nowhere else."""
    grids = [mx(6, 2), mx(5, 2, seed=1)]
    grids[0].view(torch.uint8)[2, 1] = 255
    grids[1].view(torch.uint8)[4, 0] = 255
    a, b, by_a, by_b = to_card([matrix(6, 64), matrix(5, 64, seed=1), *grids])
    found = torch._scaled_mm(a, b.t(), by_a, by_b, out_dtype=torch.float32).isnan().cpu()
    expected = torch.zeros(6, 5, dtype=torch.bool)
    expected[2], expected[:, 4] = True, True
    assert torch.equal(found, expected)


def test_nan_scales_give_nan():
    a, b = to_card([matrix(4, 32), matrix(32, 4)])
    nan, one = torch.full((1,), float("nan"), device="openreg"), torch.ones(1, device="openreg")
    assert torch._scaled_mm(a, b, nan, one, out_dtype=torch.float32).isnan().all()
    mx = torch.full((4, 1), 255, dtype=torch.uint8, device="openreg").view(MX)
    kind = ScalingType.BlockWise1x32
    found = scaled_mm(a, b, mx, kind, mx, kind, output_dtype=torch.float32)
    assert found.isnan().all()


def test_out_and_result_scale():
    a, b = to_card([matrix(8, 32), matrix(32, 8)])
    one, half = torch.ones(1, device="openreg"), torch.full((1,), 0.5, device="openreg")
    out = torch.empty(8, 8, dtype=torch.bfloat16, device="openreg")
    with no_fallback():
        assert torch._scaled_mm(a, b, one, half, out_dtype=torch.bfloat16, out=out) is out
    close(out, a.cpu().double() @ b.cpu().double() / 2)


BAD = {
    "mat_a and mat_b shapes cannot be multiplied (8x32 and 8x32)":
        lambda a, b, one: (a, a, one, one),
    "mat_b must be a matrix, but it has 1 dimensions": lambda a, b, one: (a, b[0], one, one),
    "but one has the dtype": lambda a, b, one: (a.float(), b, one, one),
    "scale_a has the shape [3], which is none of: one element":
        lambda a, b, one: (a, b, one.expand(3), one),
    "scale_b has the shape [5, 1], which is none of":
        lambda a, b, one: (a, b, one, one.expand(5, 1)),
    "scale_a must be a Float tensor for this kind of scales, but it has the dtype Double":
        lambda a, b, one: (a, b, one.double(), one),
    "at least two devices": lambda a, b, one: (a, b, one.cpu(), one),
    "bias must have 8 elements, one for each column of the result, but it has 3":
        lambda a, b, one: (a, b, one, one, one.expand(3)),
}


@pytest.mark.parametrize("text", BAD)
def test_bad_input(text):
    a, b = to_card([matrix(8, 32), matrix(32, 8)])
    one = torch.ones(1, device="openreg")
    with pytest.raises((ValueError, RuntimeError)) as error:
        torch._scaled_mm(*BAD[text](a, b, one), out_dtype=torch.float32)
    assert text in str(error.value)


RECIPES = {
    "scale_a must have the shape [8, 1] for a scale of each row, but it has [1]":
        (ScalingType.RowWise, (1,), torch.float32, 32),
    "128 must divide k, which is 32": (ScalingType.BlockWise1x128, (8, 1), torch.float32, 32),
    "scale_a must have the shape [8, 1] for scales of blocks of 1 x 128":
        (ScalingType.BlockWise1x128, (4, 1), torch.float32, 128),
    "scale_a must have the shape [1, 1] for scales of blocks of 128 x 128":
        (ScalingType.BlockWise128x128, (2, 2), torch.float32, 128),
    "scale_a must be a Float8_e8m0fnu tensor":
        (ScalingType.BlockWise1x32, (8, 1), torch.float32, 32),
    "must have 8 elements for scales of blocks of 1 x 32 elements, but it has 3":
        (ScalingType.BlockWise1x32, (3,), MX, 32),
    "32 must divide k, which is 48": (ScalingType.BlockWise1x32, (8, 1), MX, 48),
    "openreg has no float4": (ScalingType.BlockWise1x16, (8, 2), E4, 32),
}


@pytest.mark.parametrize("text", RECIPES)
def test_bad_recipes(text):
    kind, size, dtype, k = RECIPES[text]
    a, b = to_card([matrix(8, k), matrix(k, 8)])
    scale = torch.ones(size, device="openreg").to(dtype)
    one = torch.ones(1, device="openreg")
    with pytest.raises((ValueError, RuntimeError, NotImplementedError)) as error:
        scaled_mm(a, b, scale, kind, one, ScalingType.TensorWise, output_dtype=torch.float32)
    assert text in str(error.value)


def test_compiled():
    def product(a, b, by_row, by_column):
        a8 = (a / by_row).to(E4)
        return torch._scaled_mm(a8, b, by_row, by_column, out_dtype=torch.bfloat16) + 1

    a, b = torch.linspace(-3, 3, 16 * 64).view(16, 64), matrix(48, 64).t()
    args = to_card([a, b, scales(16, 1), scales(1, 48)])
    with no_fallback():
        expected = product(*args)
        found = torch.compile(product)(*args)
    torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-2)
    torch.compiler.reset()
