# SPDX-License-Identifier: MIT
"""Checks lab 10, as a client of host.py."""
import random

import torch
from client import attempt, held, load, packets

NAME = "lab10::soft_clip"


def wanted(x, limit):
    dtype = torch.result_type(x, limit)
    dtype = dtype if dtype.is_floating_point else torch.float32
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    x, limit = x.to(dtype).to(wide), limit.to(dtype).to(wide)
    return (x / (1 + x.abs() / limit)).to(dtype)


def compare(x, limit, device: int = 0, count: int = 1) -> str:
    """Runs the operator. x and limit: of the card. "" if all is as it should be"""
    what = f"{x.dtype} {tuple(x.shape)} {x.stride()}, {limit.dtype} {tuple(limit.shape)}"
    torch.openreg.reset_op_counts()
    torch.openreg.reset_fallbacks()
    before = packets(device)
    y = torch.ops.lab10.soft_clip(x, limit)
    ran, names = packets(device) - before, torch.openreg.op_counts()
    want = wanted(x.cpu(), limit.cpu())
    if ran != count or names != ({NAME: 1} if count else {}):
        return f"{what}: {ran} packets, {names}, fallbacks {torch.openreg.fallbacks()}"
    if (y.dtype, y.device.index, y.shape) != (want.dtype, device, want.shape):
        return f"{what}: the result is {y.dtype} {tuple(y.shape)} on {y.device}"
    tolerance = {"rtol": torch.finfo(want.dtype).eps * 4, "atol": 1e-6}
    if not torch.allclose(y.cpu(), want, **tolerance):
        return f"{what}: wrong elements"
    return ""


def tensors(rng, shape, other=None, dtype=torch.float32, device="openreg:0"):
    generator = torch.Generator().manual_seed(rng.randrange(1 << 30))
    x = torch.randn(shape, generator=generator) * 3
    limit = torch.rand(shape if other is None else other, generator=generator) * 2 + 0.5
    return x.to(dtype).to(device), limit.to(dtype).to(device)


def values(rng) -> str:
    for _ in range(5):
        shape = [rng.randrange(1, 30) for _ in range(rng.randrange(1, 4))]
        seen = compare(*tensors(rng, shape))
        if seen:
            return seen
    return ""


def layouts(rng) -> str:
    n, m = rng.randrange(3, 20), rng.randrange(21, 40)
    x, limit = tensors(rng, (n, m))
    y, other = tensors(rng, (m, n))
    z, _ = tensors(rng, (2, n, m))
    cases = [(x, other.t()), (y.t(), limit), (x[:, ::3], limit[:, ::3]), (x, limit[0]),
             (x, limit[:, :1]), (x[:1], limit), (x[1:, 2:], limit[1:, 2:]),
             (z.transpose(0, 2), limit[0, :1]), (x[:, :1].expand(n, m), limit[0])]
    return next(filter(None, (compare(*case) for case in cases)), "")


def types(rng) -> str:
    for one, two in ((torch.float16, torch.float32), (torch.bfloat16, torch.bfloat16),
                     (torch.float64, torch.float32), (torch.float16, torch.float16),
                     (torch.float32, torch.int64), (torch.int32, torch.int32)):
        x, limit = tensors(rng, (5, 7))
        seen = compare(x.to(one), (limit + 1).to(two))
        if seen:
            return seen
    return ""


def empty(rng) -> str:
    x, limit = tensors(rng, (3, 0, 4), (4,))
    a, b = tensors(rng, ())
    return compare(x, limit, count=0) or compare(a, b)


def card(rng) -> str:
    x, limit = tensors(rng, (4, 9), device="openreg:1")
    before = packets(0)
    return compare(x, limit, device=1) or (
        "the current card ran a packet" if packets(0) != before else "")


def stream(rng) -> str:
    x, limit = tensors(rng, (6, 11))
    side = torch.Stream(device="openreg:0")
    new = torch.full_like(x, rng.randrange(2, 9))
    torch.openreg.synchronize()
    with held(side) as release:
        with side:
            x.copy_(new)
            y = torch.ops.lab10.soft_clip(x, limit)
        main = torch.accelerator.current_stream()
        if not main.query():
            return "a packet went to another stream than the current one"
        release()
    return "" if torch.allclose(y.cpu(), wanted(new.cpu(), limit.cpu())) else (
        "it ran before the earlier packets of the current stream")


def refuses(rng) -> str:
    x, limit = tensors(rng, (2, 3))
    torch.openreg.synchronize()
    for one, two in ((x, limit.cpu()), (x.cpu(), limit), (x, limit.to("openreg:1"))):
        before = packets(0), packets(1)
        try:
            torch.ops.lab10.soft_clip(one, two)
            return f"no error for {one.device} and {two.device}"
        except RuntimeError:
            pass
        if (packets(0), packets(1)) != before:
            return "a packet was launched"
    return ""


def main(_part: str, directory: str, seed: int) -> None:
    load(directory, "lab10")
    rng = random.Random(seed)
    if attempt("values", values, rng):
        for check in (layouts, types, empty, card, stream, refuses):
            attempt(check.__name__, check, rng)
