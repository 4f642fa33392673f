# SPDX-License-Identifier: MIT
"""Prints the figures of the Python benchmarks, and names the devices that they compare."""

import json
import statistics
import time

import torch

DEVICES = ("openreg", "cpu")


def figure(bench, what, value, unit):
    print(json.dumps({"bench": bench, "what": what, "value": value, "unit": unit}),
          flush=True)


def synchronize(device):
    if device == "openreg":
        torch.openreg.synchronize()


def measure(function, device, runs):
    """Returns the median of function's time in seconds. Each run drains the queue."""
    times = []
    for _ in range(runs):
        synchronize(device)
        begin = time.perf_counter()
        function()
        synchronize(device)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)
