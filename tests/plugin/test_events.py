# SPDX-License-Identifier: BSD-3-Clause
"""How a thread waits for an event."""

import threading
import time

import pytest
import torch


@pytest.mark.parametrize("blocking", [True, False])
def test_who_waits_for_an_event_sleeps(gate, blocking):
    """Blocking or not: the library looks for some microseconds, and then sleeps."""
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
