# SPDX-License-Identifier: MIT
"""(g) The cost of a call to the caller, without a wait for the card."""

import statistics
import time

import torch

from common import DEVICES, figure, synchronize

CALLS = 500


def cost(call, device, runs=7):
    """Returns the median over the runs of the seconds of a call. The ring never fills."""
    times = []
    for _ in range(runs):
        synchronize(device)
        begin = time.perf_counter()
        for _ in range(CALLS):
            call()
        times.append((time.perf_counter() - begin) / CALLS)
        synchronize(device)
    return statistics.median(times)


def calls(device):
    x, y = torch.zeros(16, device=device), torch.ones(16, device=device)
    a, b = torch.zeros(8, 8, device=device), torch.zeros(8, 8, device=device)
    on_host = torch.zeros(16)
    return {
        "add_ of 16": lambda: x.add_(y),
        "mul of 16": lambda: torch.mul(x, y),
        "empty of 16": lambda: torch.empty(16, device=device),
        "empty of 1 MiB, freed at once": lambda: torch.empty(1 << 20, device=device,
                                                             dtype=torch.uint8),
        "mm of 8x8": lambda: torch.mm(a, b),
        "to() and back, 16": lambda: on_host.to(device, copy=True).to("cpu"),
    }


for device in DEVICES:
    for name, call in calls(device).items():
        call()
        figure("g", f"{name}: call on {device}", 1e6 * cost(call, device), "us")
