# SPDX-License-Identifier: BSD-3-Clause
"""A signal interrupts a wait for the card, and the process can continue afterwards."""

import pytest

# A gate blocks the stream, so that work is in flight when the signal arrives. The helper
# thread sends the signal when the waiting thread sleeps. If the wait ignores the signal,
# the timer opens the gate, and the test fails.
PROGRAM = """
import os
import signal
import threading
import time

import torch
from packets import Gate

x = torch.zeros(4, device="openreg")
large = torch.ones(3 << 18, device="openreg")
pinned = torch.empty(4).pin_memory()
event = torch.openreg.Event()
stream = torch.openreg.current_stream()
gate = Gate()


def full_ring():
    while True:
        x.add_(0)


def uploads():
    host = torch.ones(3 << 18)
    while True:
        large.copy_(host)


def sleeps():
    return torch.openreg.queue_stats()["sleeps"]


def open_gate():
    if gate in Gate.closed:
        gate.__exit__()


def send(number, before):
    while sleeps() == before:
        time.sleep(0.01)
    os.kill(os.getpid(), number)


gate.__enter__()
x.add_(1)
event.record()
late = threading.Timer(60, open_gate)
late.daemon = True
late.start()
threading.Thread(target=send, args=(SIGNAL, sleeps()), daemon=True).start()
"""

RAISES = (
    PROGRAM
    + """
signal.signal(SIGNAL, signal.default_int_handler)
try:
    CALL
    raise SystemExit("the wait ended without a KeyboardInterrupt")
except KeyboardInterrupt:
    assert not stream.query(), "all was done before the signal acted"
open_gate()
torch.openreg.synchronize()
assert stream.query() and x.tolist() == [1] * 4
assert (large + 1).sum().item() == 2 * large.numel()
"""
)

RETURNS = (
    PROGRAM
    + """
seen = []


def handler(*_):
    open_gate()
    seen.append((x + 1).cpu().tolist())


signal.signal(SIGNAL, handler)
result = CALL
assert seen == [[2] * 4], seen
assert result.tolist() == [1] * 4
"""
)

WAITS = {
    "synchronize": "torch.openreg.synchronize()",
    "accelerator": "torch.accelerator.synchronize()",
    "stream": "stream.synchronize()",
    "event": "event.synchronize()",
    "item": "x[0].item()",
    "cpu": "x.cpu()",
    "large": "large.add_(0).cpu()",
    "pinned": "pinned.copy_(x)",
    "card": "x.to('openreg:1')",
    "ring": "full_ring()",
    "uploads": "uploads()",
    "print": "repr(x)",
}


def fill_in(program, call, number="signal.SIGINT"):
    return program.replace("CALL", call).replace("SIGNAL", number)


@pytest.mark.parametrize("call", WAITS.values(), ids=WAITS)
def test_interrupts_end_a_wait(run_forked, call):
    run_forked(fill_in(RAISES, call))


def test_exception_of_a_handler_ends_a_wait(run_forked):
    run_forked(fill_in(RAISES, "x.cpu()", "signal.SIGALRM"))


# The handler itself uses the stream for which the interrupted thread waits.
@pytest.mark.parametrize("call", ["x.cpu()", "pinned.copy_(x)", "x.to('openreg:1').cpu()"])
def test_wait_continues_after_a_handler(run_forked, call):
    run_forked(fill_in(RETURNS, call))
