# SPDX-License-Identifier: BSD-3-Clause
"""Operators become one program. A program that is too large becomes several."""

import re

import torch
from torch._inductor.utils import run_and_get_code


def packets(work):
    torch.openreg.synchronize()
    before = torch.openreg.queue_stats()["packets"]
    work()
    torch.openreg.synchronize()
    return torch.openreg.queue_stats()["packets"] - before


def compare(function, *args):
    compiled = torch.compile(function)
    result, (code,) = run_and_get_code(compiled, *args)
    torch.testing.assert_close(result, function(*args))
    eager, fused = (packets(lambda f=f: f(*args)) for f in (function, compiled))
    print(f"{function.__name__}: {eager} packets, compiled {fused}")
    return re.findall(r'program\("\w+", """\n(.*?)\n"""', code, re.DOTALL)


def swish(x, scale):
    y = x * scale + 1
    return (y.sigmoid() * y).sum(1)


def many(*tensors):
    return sum(t.sin() for t in tensors)


x = torch.linspace(-1, 1, 64 * 128, device="openreg").reshape(64, 128)
(text,) = compare(swish, x, torch.rand(128, device="openreg"))
print(text)

compare(many, *(x + i for i in range(20)))

torch.compile(lambda x: torch.frexp(x * 2)[0])(x)
print(torch.openreg.compile_fallbacks())
