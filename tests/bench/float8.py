# SPDX-License-Identifier: MIT
"""(h) Products of float8 matrices on the card inside the process: with a scale of the tensor,
with MX scales in the product's packet, and with matrices that are scaled to float32 first."""

from fair import fair_environment

fair_environment()

import torch  # noqa: E402

from common import figure, least  # noqa: E402

E4, MX = torch.float8_e4m3fn, torch.float8_e8m0fnu
K = N = 1024


def scaled(t, scale):
    return (t.float().view(-1, K // 32, 32) * scale.float().unsqueeze(2)).view(-1, K)


def ways(rows):
    a, b = (torch.randn(n, K).to(E4).to("openreg") for n in (rows, N))
    by_a, by_b = (torch.randint(122, 132, (n, K // 32)).to(torch.uint8).view(MX).to("openreg")
                  for n in (rows, N))
    one = torch.ones(1, device="openreg")
    halves = a.bfloat16(), b.bfloat16().t()
    what = f"matmul {rows}x{N}x{K}"
    return {
        f"{what} bf16 beside float8": lambda: torch.mm(*halves),
        f"{what} float8": lambda: torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16),
        f"{what} float8 with MX scales":
            lambda: torch._scaled_mm(a, b.t(), by_a, by_b, out_dtype=torch.bfloat16),
        f"{what} float8 scaled to float32 first":
            lambda: (scaled(a, by_a) @ scaled(b, by_b).t()).bfloat16(),
    }


for rows in (16, 256, 1024):
    functions = {f"{name}, in process": (run, "openreg") for name, run in ways(rows).items()}
    for run, _ in functions.values():
        run()
    for what, took in least(functions, 15, 1).items():
        figure("h", what, 1e3 * took, "ms")
