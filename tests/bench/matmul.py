# SPDX-License-Identifier: MIT
"""(a) An f32 matmul of 1024^3 from PyTorch, on the card and on the guest's CPU."""

import torch

from common import DEVICES, figure, measure

N = 1024

for device in DEVICES:
    a = torch.rand(N, N).to(device)
    b = torch.rand(N, N).to(device)
    out = torch.empty(N, N, device=device)
    runs = 15 if device == "openreg" else 1
    torch.mm(a, b, out=out)
    took = measure(lambda: torch.mm(a, b, out=out), device, runs)
    figure("a", f"matmul 1024^3 f32, PyTorch on {device}",
           2e-9 * N**3 / took, "GFLOP/s")
