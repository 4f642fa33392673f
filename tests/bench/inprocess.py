# SPDX-License-Identifier: MIT
"""(h) The card inside the process, compared with torch's CPU in the same process.
compiled.py has the figures of torch.compile."""

import os
import statistics
import subprocess
import sys
import time

from fair import fair_environment

fair_environment()

import torch  # noqa: E402

from common import figure, measure, synchronize  # noqa: E402
from functions import eight  # noqa: E402
from networks import NETWORKS  # noqa: E402

SMALL = 1000


def small(device):
    x, y = torch.zeros(16, device=device), torch.ones(16, device=device)

    def run():
        for _ in range(SMALL):
            x.add_(y)

    return run


def matmul(device):
    a, b = torch.rand(1024, 1024).to(device), torch.rand(1024, 1024).to(device)
    return lambda: torch.mm(a, b)


def softmax(device):
    x = torch.rand(4096, 4096).to(device)
    return lambda: torch.softmax(x, 1)


def chain(device):
    x, y = torch.rand(1 << 24).to(device), torch.rand(1 << 24).to(device)
    return lambda: eight(x, y)


CASES = {
    "add_ of 16, 1000 times": (small, 9),
    "matmul 1024^3 f32": (matmul, 15),
    "softmax 4096x4096": (softmax, 7),
    "chain of 8 over 16M floats": (chain, 5),
} | {f"{name}: step": (make, 15) for name, make in NETWORKS.items()}


def events(runs=500):
    """Events of a busy stream: an event on an idle stream needs no packet."""
    x, event = torch.zeros(16, device="openreg"), torch.openreg.Event()

    def run():
        for _ in range(runs):
            x.add_(1)
            event.record()
            event.synchronize()

    return run


def idle(runs=500):
    def run():
        for _ in range(runs):
            synchronize("openreg")

    return run


def graphs(nodes=100, replays=200):
    """A graph of add_ of 16 beside the same calls: the caller's time, and the whole time.
    The runs alternate."""
    x, y = torch.zeros(16, device="openreg"), torch.ones(16, device="openreg")

    def eager():
        for _ in range(nodes):
            x.add_(y)

    graph = torch.openreg.Graph()
    with torch.openreg.graph(graph):
        eager()
    times = {"replay": [], "eager": []}
    for _ in range(9):
        for name, call in (("replay", graph.replay), ("eager", eager)):
            # The ring has room: no call waits.
            count = replays if name == "replay" else 10
            synchronize("openreg")
            begin = time.perf_counter()
            for _ in range(count):
                call()
            called = time.perf_counter()
            synchronize("openreg")
            times[name].append(((called - begin) / count / nodes,
                                (time.perf_counter() - begin) / count / nodes))
    for name, taken in times.items():
        for i, part in enumerate(("call", "whole")):
            figure("h", f"add_ of 16 in a graph of {nodes}: {part} a node, {name}",
                   1e6 * statistics.median(t[i] for t in taken), "us")


def compare(cases):
    for name, (make, runs) in cases.items():
        for device in ("openreg", "cpu"):
            call = make(device)
            call()
            took = measure(call, device, runs)
            figure("h", f"{name}, in process, {device}", 1e3 * took, "ms")


# OpenBLAS is up to 1.8 times as fast with AVX-512 as with AVX2. The limit does not say which
# of the two it is for, so compare with both.
AVX2 = "matmul 1024^3 f32, OpenBLAS on AVX2"
if sys.argv[1:] == [AVX2]:
    compare({AVX2: (matmul, 15)})
    sys.exit()
compare(CASES)
for name, call in (("add_, event record and synchronize", events()),
                   ("synchronize of an idle card", idle())):
    call()
    figure("h", f"{name}, in process", 1e6 * measure(call, "openreg", 5) / 500, "us")
graphs()
subprocess.run([sys.executable, __file__, AVX2], check=True,
               env={**os.environ, "OPENBLAS_CORETYPE": "Haswell"})
