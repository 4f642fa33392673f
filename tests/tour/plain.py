# SPDX-License-Identifier: MIT
"""Times `c = a + b` with the card in this process, without a trace: the medians of the call
and of the call with the wait. Prints a line of JSON.

usage: plain.py    (by scripts/sim)
"""
import json
import time

import torch

TRIES = 5000

a = torch.rand(16, device="openreg")
b = torch.rand(16, device="openreg")
launches, totals = [], []
for _ in range(2 * TRIES):
    begin = time.perf_counter_ns()
    c = a + b
    launched = time.perf_counter_ns()
    torch.openreg.synchronize()
    totals.append(time.perf_counter_ns() - begin)
    launches.append(launched - begin)
    del c


def median(times):
    return sorted(times[TRIES:])[TRIES // 2]


print(json.dumps({"where": "untraced", "launch_ns": median(launches), "ns": median(totals)}))
