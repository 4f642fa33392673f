# SPDX-License-Identifier: MIT
"""Times `c = a + b` in a VM, and a product that takes so long that its caller sleeps, with
the driver's tracepoints. Prints lines of JSON.

usage: vm.py    (as root in the guest)
"""
import json
import pathlib
import re
import time

import torch

TRACING = pathlib.Path("/sys/kernel/tracing")
EVENT = re.compile(r" (\d+)\.(\d{6}): (openreg_\w+): (.*)")
TRIES = 200
COUNTS = ["packets", "doorbells", "interrupts"]


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def events(begin):
    """The driver's events since then, with their microseconds after it."""
    return [(int(m[1]) * 1000000 + int(m[2]) - begin // 1000, m[3], m[4])
            for m in EVENT.finditer((TRACING / "trace").read_text())]


def run(work):
    """One try: the times of launch and end, the counters and the driver's events."""
    before = torch.openreg.queue_stats()
    (TRACING / "trace").write_text("")
    begin = now()
    result = work()
    launched = now()
    torch.openreg.synchronize()
    end = now()
    found = events(begin)
    after = torch.openreg.queue_stats()
    del result
    return {"launch_ns": launched - begin, "ns": end - begin, "events": found,
            **{name: after[name] - before[name] for name in COUNTS}}


def fastest(where, work, sleep):
    runs = []
    for _ in range(TRIES if not sleep else TRIES // 10):
        time.sleep(sleep)
        runs.append(run(work))
    chosen = min(runs, key=lambda r: r["ns"])
    for at, event, text in chosen.pop("events"):
        print(json.dumps({"where": where, "step": "event", "at_us": at, "event": event,
                          "text": text}), flush=True)
    print(json.dumps({"where": where, "step": "all", **chosen}), flush=True)


(TRACING / "trace_clock").write_text("mono")
(TRACING / "events/openreg/enable").write_text("1")
a = torch.rand(16, device="openreg")
b = torch.rand(16, device="openreg")
m = torch.rand(2048, 2048, device="openreg")
for _ in range(100):
    a + b
torch.openreg.synchronize()
(m @ m).sum().item()
fastest("vm, awake", lambda: a + b, 0)
fastest("vm, asleep", lambda: a + b, 0.05)
fastest("vm, long", lambda: m @ m, 0.05)
