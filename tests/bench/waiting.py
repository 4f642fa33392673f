# SPDX-License-Identifier: MIT
"""(w) add_ of 16 floats, then synchronize. Measures the medians of many processes, alone and
beside busy processes. Prints a JSON object a line.

usage: waiting.py [--runs N] [--busy N...]
"""

import argparse
import contextlib
import json
import os
import signal
import statistics
import time

import torch
import torch_openreg  # noqa: F401

WAITS = 300
BURST = 20000
PINGS = 2000
IDLE_SECONDS = 1


def microseconds(call, times):
    """Returns the time of each of `times` calls."""
    took = []
    for _ in range(times):
        begin = time.perf_counter()
        call()
        took.append(1e6 * (time.perf_counter() - begin))
    return took


def measure():
    """Measures one process: the medians before and after a burst, and its CPU use while
    idle."""
    x = torch.zeros(16, device="openreg")
    y = torch.ones(16, device="openreg")

    def wait():
        x.add_(y)
        torch.openreg.synchronize()

    microseconds(wait, 50)
    found = {"at first": statistics.median(microseconds(wait, WAITS))}
    for _ in range(BURST):
        x.add_(y)
    torch.openreg.synchronize()
    found[f"after a burst of {BURST}"] = statistics.median(microseconds(wait, WAITS))
    time.sleep(0.1)
    cpu = time.process_time()
    time.sleep(IDLE_SECONDS)
    found["CPU of an idle card"] = 100 * (time.process_time() - cpu) / IDLE_SECONDS
    return found


def ping():
    """Measures the median of an eventfd round trip between two processes on two CPUs."""
    there, back = os.eventfd(0), os.eventfd(0)
    cpus = sorted(os.sched_getaffinity(0))[:2]
    pid = os.fork()
    if pid == 0:
        os.sched_setaffinity(0, cpus[-1:])
        for _ in range(PINGS):
            os.eventfd_read(there)
            os.eventfd_write(back, 1)
        os._exit(0)

    def once():
        os.eventfd_write(there, 1)
        os.eventfd_read(back)

    os.sched_setaffinity(0, cpus[:1])
    took = microseconds(once, PINGS)
    os.waitpid(pid, 0)
    return {"eventfd round trip": statistics.median(took)}


def in_child(function):
    """Runs the function in a process of its own, and returns its result."""
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        with contextlib.suppress(Exception):
            os.write(writable, json.dumps(function()).encode())
            status = 0
        os._exit(status)
    os.close(writable)
    with os.fdopen(readable, "rb") as pipe:
        text = pipe.read()
    if os.waitpid(pid, 0)[1]:
        raise SystemExit("waiting.py: a process that measured has failed")
    return json.loads(text)


@contextlib.contextmanager
def busy(processes):
    """Runs this number of busy processes."""
    pids = []
    for _ in range(processes):
        pid = os.fork()
        if pid == 0:
            while True:
                pass
        pids.append(pid)
    time.sleep(0.3 if processes else 0)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--busy", type=int, nargs="*", default=[0, 1, 2])
    args = parser.parse_args()
    for processes in args.busy:
        with busy(processes):
            runs = [in_child(measure) for _ in range(args.runs)]
            runs[0] |= in_child(ping)
        for what in {name: None for run in runs for name in run}:
            values = sorted(round(run[what], 2) for run in runs if what in run)
            print(json.dumps({"busy": processes, "what": what,
                              "unit": "%" if what.startswith("CPU") else "us",
                              "median": statistics.median(values),
                              "most": values[-1], "runs": values}), flush=True)


main()
