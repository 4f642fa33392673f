# SPDX-License-Identifier: BSD-3-Clause
"""Waiting for an event, and the memory of events."""

import threading
import time

import pytest
import torch


@pytest.mark.parametrize("blocking", [True, False])
def test_synchronize_sleeps(gate, blocking):
    """With and without blocking, the library polls for some microseconds, then sleeps."""
    event = torch.openreg.Event(blocking=blocking)
    with gate:
        event.record()
        sleeps = torch.openreg.queue_stats()["sleeps"]
        waiter = threading.Thread(target=event.synchronize)
        waiter.start()
        end = time.monotonic() + 60
        while torch.openreg.queue_stats()["sleeps"] == sleeps:
            assert time.monotonic() < end
            time.sleep(0.001)
        assert waiter.is_alive() and not event.query()
    waiter.join()
    assert event.query()


BEHIND_A_FAULT = """
import ctypes
import torch
from packets import NO_SEGMENT, Gate, fill
from torch_openreg import _C

library = ctypes.CDLL("libopenreg.so.1")

def memory_of_the_host():
    info = (ctypes.c_uint64 * 8)()
    device = ctypes.c_void_p(torch.openreg.device_handle())
    assert library.openreg_device_get_memory(device, info) == 0
    return info[4]

def has_faulted(stream):
    try:
        stream.query()
    except RuntimeError:
        return True

bad, gate = torch.openreg.Stream(), Gate()
events = [torch.openreg.Event(enable_timing=True) for _ in range(6)]
with torch.openreg.stream(bad):
    gate.__enter__()
    _C._launch_raw(fill(NO_SEGMENT, 4), 0)
    for event in events[1:]:
        event.record()
gate.__exit__()
while not has_faulted(bad):
    pass
del event, events[1:]
events[0].record()
before = memory_of_the_host()
assert before >= 1 << 16
for _ in range(9000):
    events[0].record()
assert memory_of_the_host() == before
events[0].synchronize()
"""


def test_slots_of_events_behind_a_fault_are_skipped(run_forked):
    """A slot of an event that was recorded behind a fault stays in use. The plugin skips
    it, and allocates no new memory."""
    run_forked(BEHIND_A_FAULT)
