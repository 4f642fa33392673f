#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What profiling costs an operator: a stream of add_ of 16 elements, in microseconds.

Takes turns, and prints the least of several tries: without a profiler, with only the card's
trace ring, and under torch.profiler. The first figure is the time of an operator, the second
the processor time of the thread that launches it, the third that of the card's threads.
Under load only the last two say something.

usage: scripts/sim python3 tests/bench/profiling.py [TRIES]
"""

import ctypes
import sys
import time

import torch
from torch.profiler import ProfilerActivity, profile

OPS = 20_000


def clocks():
    return time.perf_counter(), time.thread_time(), time.process_time()


def stream(x):
    torch.openreg.synchronize()
    begin = clocks()
    for _ in range(OPS):
        x.add_(1)
    launched = time.thread_time()
    torch.openreg.synchronize()
    wall, thread, process = clocks()
    card = process - begin[2] - (thread - begin[1])
    return [t / OPS * 1e6 for t in (wall - begin[0], launched - begin[1], card)]


def ring(x, library, queue):
    assert library.openreg_queue_trace_start(queue, ctypes.c_uint64(1 << 16)) == 0
    cost = stream(x)
    assert library.openreg_queue_trace_stop(queue) == 0
    return cost


def profiled(x, activities):
    with profile(activities=activities, acc_events=False):
        cost = stream(x)
    return cost


def main():
    tries = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    x = torch.zeros(16, device="openreg")
    library = ctypes.CDLL("libopenreg.so.1")
    queue = ctypes.c_void_p(torch.openreg.current_stream().native_handle)
    cpu = (ProfilerActivity.CPU,)
    card = (ProfilerActivity.PrivateUse1,)
    ways = {
        "no profiler": lambda: stream(x),
        "trace ring": lambda: ring(x, library, queue),
        "torch.profiler, CPU": lambda: profiled(x, cpu),
        "torch.profiler, card": lambda: profiled(x, card),
        "torch.profiler, CPU and card": lambda: profiled(x, cpu + card),
    }
    least = dict.fromkeys(ways, [float("inf")] * 3)
    for _ in range(tries):
        for name, way in ways.items():
            least[name] = [min(pair) for pair in zip(least[name], way())]
    for name, costs in least.items():
        print(f"{name:30}", *(f"{c:7.2f} us ({c - none:+5.2f})"
                              for c, none in zip(costs, least["no profiler"])))


if __name__ == "__main__":
    main()
