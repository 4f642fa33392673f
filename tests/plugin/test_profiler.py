# SPDX-License-Identifier: BSD-3-Clause
"""torch.autograd.profiler with use_kineto=False measures times of the card with events."""

import time

import torch
from torch.autograd.profiler import profile


def test_device_times():
    x = torch.randn(512, 512, device="openreg")
    (x @ x).sum().item()
    start = time.perf_counter()
    with profile(use_device="openreg", use_kineto=False) as prof:
        y = x @ x
        y.add_(1)
        torch.openreg.synchronize()
    wall = (time.perf_counter() - start) * 1e6
    times = {e.key: e.device_time_total for e in prof.key_averages()}
    assert 0 < times["aten::mm"] <= wall
    assert 0 < times["aten::add_"] <= wall
    assert all(0 <= t <= wall for t in times.values())
    assert "-" not in str(sum(e.self_device_time_total for e in prof.key_averages()))
    assert "aten::mm" in prof.key_averages().table(sort_by="device_time_total")
