# SPDX-License-Identifier: MIT
"""(h) A training step of GPT-2 with torch.compile beside the same step in eager mode: packets,
system calls and time. The calls of the kernel need strace.

usage: compiledstep.py [WHERE]   WHERE ends the names of the figures, such as ", in process"
"""

import collections
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time

import torch

from common import figure, measure, synchronize
from networks import gpt2

NAME = "GPT-2 of 4 layers, 2x128: step"
WAYS = {
    "eager": lambda f: f,
    "compiled": torch.compile,
    "reduce-overhead": lambda f: torch.compile(f, mode="reduce-overhead"),
}
PR_SET_PTRACER = 0x59616D61
STEPS = 10


def packets():
    """The packets so far, without those that pad the end of a ring."""
    synchronize("openreg")
    stats = torch.openreg.queue_stats(0)
    return stats["packets"] - stats["pads"]


def attached():
    with open("/proc/self/status", encoding="ascii") as status:
        return any(line.startswith("TracerPid:") and line.split()[1] != "0" for line in status)


@contextlib.contextmanager
def traced(calls):
    """Counts the system calls of all threads by name."""
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(-1 & (1 << 64) - 1), 0, 0, 0)
    with tempfile.NamedTemporaryFile("r", suffix=".strace") as out:
        tracer = subprocess.Popen(
            ("strace", "-f", "-qq", "-o", out.name, "-p", str(os.getpid())))
        while not attached() and tracer.poll() is None:
            time.sleep(0.01)
        yield
        tracer.send_signal(signal.SIGINT)
        tracer.wait()
        for line in out:
            call = line.split(maxsplit=1)[1]
            if call[0] not in "<+-":  # the end of an interrupted call, an exit, a signal
                calls[call.partition("(")[0]] += 1


def run(way, compiled, where):
    torch.compiler.reset()
    step = gpt2("openreg", compiled)
    for _ in range(4):
        step()
    begin = packets()
    step()
    figure("h", f"{NAME}{where}, {way}: packets", packets() - begin, "")
    figure("h", f"{NAME}{where}, {way}", 1e3 * measure(step, "openreg", 7), "ms")
    calls = collections.Counter()
    with traced(calls):
        for _ in range(STEPS):
            step()
    print(f"# system calls of {STEPS} steps, {way}:", dict(calls))


def main():
    where = sys.argv[1] if len(sys.argv) > 1 else ""
    for way, compiled in WAYS.items():
        run(way, compiled, where)


main()
