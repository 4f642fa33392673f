#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Where the card's time of a training step goes, in eager mode and compiled: a table in ms.

The two modes take turns; the table has the least of several steps for each class of packets.
Idle is the time between the step's first and last packet in which no packet runs.

usage: scripts/sim --vram 8G python3 tests/bench/step_classes.py [STEPS]
"""

import collections
import gc
import sys

from fair import fair_environment

fair_environment()

import torch  # noqa: E402
from torch.profiler import ProfilerActivity, profile  # noqa: E402

from networks import bert, gpt2  # noqa: E402

CLASSES = ("products", "optimizer", "loss", "rest", "idle")
UPDATE = "Optimizer.step"  # the profiler's range of it


def class_of(event, updates):
    name, time = event.name, event.time_range
    if name.startswith("MATMUL"):
        return "products"
    if "_foreach_" in name or any(u.start <= time.start and time.end <= u.end for u in updates):
        return "optimizer"
    return "loss" if "log_softmax" in name or "nll_loss" in name else "rest"


def times_of(step):
    """Milliseconds by class."""
    torch.openreg.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as found:
        step()
        torch.openreg.synchronize()
    rows = [e for e in found.events() if e.device_type != torch.autograd.DeviceType.CPU]
    updates = [e.time_range for e in rows if e.name.startswith(UPDATE)]
    packets = [e for e in rows if not e.name.startswith(UPDATE)]
    times = collections.Counter()
    for event in packets:
        times[class_of(event, updates)] += event.time_range.elapsed_us() / 1e3
    begin = min(event.time_range.start for event in packets)
    end = max(event.time_range.end for event in packets)
    times["idle"] = (end - begin) / 1e3 - times.total()
    return times


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    print("|  |", " | ".join(CLASSES), "|")
    for name, make in {"GPT-2": gpt2, "BERT": bert}.items():
        torch.compiler.reset()
        ways = {"eager": make("openreg"), "compiled": make("openreg", torch.compile)}
        for step in ways.values():
            for _ in range(4):
                step()
        times = {way: [] for way in ways}
        for _ in range(runs):
            for way, step in ways.items():
                times[way].append(times_of(step))
        for way, found in times.items():
            least = [min(t[c] for t in found) for c in CLASSES]
            print(f"| {name}, {way} |", " | ".join(f"{ms:.1f}" for ms in least), "|", flush=True)
        del ways, step
        gc.collect()
        torch.openreg.empty_cache()


main()
