# SPDX-License-Identifier: BSD-3-Clause
"""torch.compile: what a training step costs, in packets and in system calls."""

import collections
import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess
import time

import pytest
import torch
from compiled import DEV, fresh  # noqa: F401
from packets import launched
from torch import nn

pytestmark = pytest.mark.usefixtures("fresh")

PR_SET_PTRACER, ANY_PROCESS = 0x59616D61, ctypes.c_ulong(-1)
MARK = "getpriority"
WARM, STEPS = 4, 20


def training(model, loss_of, optimizer, compiled):
    """A training step of the model as a function."""
    run, update = compiled(model), compiled(optimizer.step)

    def step():
        optimizer.zero_grad()
        loss_of(run).backward()
        update()

    for _ in range(WARM):
        step()
    return step


def gpt2(compiled):
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(n_layer=4, n_embd=48, n_head=4, vocab_size=200)).to(DEV)
    tokens = torch.randint(200, (2, 128)).to(DEV)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    return training(
        model, lambda run: run(input_ids=tokens, labels=tokens).loss, optimizer, compiled
    )


@pytest.mark.native
@pytest.mark.long
def test_a_step_of_gpt2_needs_a_third_of_the_packets():
    eager = launched(gpt2(lambda f: f))
    compiled = launched(gpt2(torch.compile))
    assert 3 * compiled <= eager, (compiled, eager)


def threads_of_the_card():
    """Numbers of the threads that are the card inside this process."""
    tasks = pathlib.Path("/proc/self/task").iterdir()
    return {task.name for task in tasks if (task / "comm").read_text().startswith("openreg-")}


@contextlib.contextmanager
def system_calls(path):
    """Counts the system calls of all threads of the program, by name."""
    calls = collections.Counter()
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, ANY_PROCESS, 0, 0, 0)
    path.touch()
    strace = subprocess.Popen(("strace", "-f", "-qq", "-o", path, "-p", str(os.getpid())))
    # strace is attached to a thread before it sees the thread's calls. One read of fixed size:
    # strace appends each read, so that the end of the file would never be reached.
    with open(path, "rb", buffering=0) as trace:
        while strace.poll() is None and MARK.encode() not in os.pread(trace.fileno(), 1 << 20, 0):
            os.getpriority(os.PRIO_PROCESS, 0)
            time.sleep(0.01)
    os.getpriority(os.PRIO_PROCESS, 0)  # marks the begin, the next one the end
    try:
        yield calls
    finally:
        os.getpriority(os.PRIO_PROCESS, 0)
        strace.send_signal(signal.SIGINT)
        strace.wait()
    card = threads_of_the_card()
    lines = [line.split(maxsplit=1) for line in path.read_text().splitlines()]
    lines = [call for thread, call in lines if thread not in card]
    # Not the ends of calls that another thread's call has interrupted, signals and exits.
    names = [line.partition("(")[0] for line in lines if line[0] not in "<+-"]
    *_, begin, end = (i for i, name in enumerate(names) if name == MARK)
    calls.update(names[begin + 1 : end])


@pytest.mark.parametrize("mode", [None, "reduce-overhead"])
def test_a_step_makes_no_system_call(mode, tmp_path):
    """Threads of torch wait for each other by futex: backward() has a thread of its own."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4)).to(DEV)
    x, y = torch.randn(8, 16).to(DEV), torch.randn(8, 4).to(DEV)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = training(
        model,
        lambda run: (run(x) - y).square().mean(),
        optimizer,
        lambda f: torch.compile(f, mode=mode),
    )
    with system_calls(tmp_path / "calls") as calls:
        for _ in range(STEPS):
            step()
    torch.openreg.synchronize()
    others = {name: n for name, n in calls.items() if name != "futex" and n >= STEPS}
    assert not others, calls
