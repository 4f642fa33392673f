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


def least(ways, tries, runs):
    """Returns the least time of a call of each function in seconds. Measures the functions
    in turns, so that a busy moment of the machine meets all of them. ways: functions and
    their devices by name; runs: calls of a try."""
    best = {name: float("inf") for name in ways}
    for _ in range(tries):
        for name, (run, device) in ways.items():
            synchronize(device)
            begin = time.perf_counter()
            for _ in range(runs):
                run()
            synchronize(device)
            best[name] = min(best[name], (time.perf_counter() - begin) / runs)
    return best
