# SPDX-License-Identifier: BSD-3-Clause
"""A slow step: the profiler shows that the host waits, set_sync_debug_mode() shows where."""

import os
import traceback

os.environ["KINETO_LOG_LEVEL"] = "99"  # no lines of the profiler itself

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile


class Layer(nn.Module):
    def __init__(self, careful):
        super().__init__()
        self.linear = nn.Linear(64, 64)
        self.careful = careful

    def forward(self, x):
        y = self.linear(x)
        if self.careful and y.abs().max() > 1e6:  # the planted mistake
            y = y / 2
        return torch.relu(y)


def rows(model, x):
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as prof:
        model(x)
    names = [event.name for event in prof.events()]
    products = sum("MATMUL" in name for name in names)
    return f"{products} products, {names.count('aten::_local_scalar_dense')} numbers for the host"


x = torch.randn(32, 64, device="openreg")
slow = nn.Sequential(*(Layer(careful=True) for _ in range(8))).to("openreg")
fast = nn.Sequential(*(Layer(careful=False) for _ in range(8))).to("openreg")
slow(x), fast(x)
print("slow:", rows(slow, x))
print("fast:", rows(fast, x))

torch.openreg.set_sync_debug_mode("error")
try:
    slow(x)
except RuntimeError as error:
    print(error)
    print("in:", traceback.extract_tb(error.__traceback__)[-1].line)
