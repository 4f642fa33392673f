# SPDX-License-Identifier: BSD-3-Clause
"""Scenes of two processes that share an event."""

import gc

import torch
from ipc_process import DEV, Other, raises
from packets import Gate


def event_of_the_sender():
    """The sender records again after the receiver has the event."""

    def work(inbox, outbox):
        event, x = inbox.get()
        outbox.put("has it")
        assert inbox.get() == "recorded"
        assert not event.query()
        torch.openreg.current_stream().wait_event(event)
        y = x * 2
        assert not torch.openreg.current_stream().query()
        outbox.put("waits")
        event.synchronize()
        assert event.query()
        outbox.put(y.tolist())

    others = Other(work), Other(work)
    for other, make in zip(others, (torch.openreg.Event, lambda: torch.Event(DEV))):
        event, x = make(), torch.zeros(3, device=DEV)
        other.put((event, x))
        assert other.get() == "has it"
        with Gate():
            x.fill_(4)
            event.record()
            other.put("recorded")
            assert other.get() == "waits"
        assert other.get() == [8] * 3
        other.end()


def event_of_the_receiver():
    def work(inbox, outbox):
        event = torch.openreg.Event.from_ipc_handle(0, inbox.get())
        x = inbox.get()
        with Gate():
            x.fill_(9)
            event.record()
            outbox.put("recorded")
            assert inbox.get() == "waits"
        outbox.put("open")
        inbox.get()

    other = Other(work)
    event, x = torch.openreg.Event(interprocess=True), torch.zeros(3, device=DEV)
    other.put(event.ipc_handle(), x)
    assert other.get() == "recorded"
    assert not event.query()
    event.wait()
    y = x + 1
    assert not torch.openreg.current_stream().query()
    other.put("waits")
    event.synchronize()
    assert event.query() and y.tolist() == [10] * 3
    for _ in range(1200):  # the words of records are used again
        event.record()
    event.synchronize()
    other.put("end")
    other.end()


def event_recorded_before():
    """The event was recorded before it was sent, and its work is not done."""

    def work(inbox, outbox):
        event = inbox.get()
        outbox.put(event.query())
        event.synchronize()
        outbox.put(event.query())

    other = Other(work)
    event = torch.openreg.Event()
    with Gate():
        event.record()
        other.put(event)
        assert other.get() is False
    assert other.get() is True
    other.end()


def event_of_a_dead_process():
    def work(inbox, outbox):
        event = inbox.get()
        with Gate():
            event.record()
            outbox.put("recorded")
            inbox.get()

    other = Other(work)
    event = torch.openreg.Event()
    other.put(event)
    assert other.get() == "recorded"
    torch.openreg.current_stream().wait_event(event)
    other.kill()
    with raises(RuntimeError, f"process {other.process.pid}", "ended before"):
        event.synchronize()
    with raises(RuntimeError, f"process {other.process.pid}", "torch.openreg.reset()"):
        torch.openreg.synchronize()
    torch.openreg.reset()
    event.record()
    event.synchronize()


def event_freed_early():
    """The event goes away before the card has recorded it."""

    def work(inbox, outbox):
        event = inbox.get()
        with Gate():
            event.record()
            event.wait(torch.openreg.Stream())
            outbox.put("recorded")
            del event
            gc.collect()
            inbox.get()
        torch.openreg.synchronize()
        outbox.put("done")

    other = Other(work)
    event = torch.openreg.Event()
    with Gate():
        event.record()
        other.put(event)
        assert other.get() == "recorded"
        del event
        gc.collect()
    torch.openreg.synchronize()
    other.put("end")
    assert other.get() == "done"
    other.end()


def event_arguments():
    with raises(ValueError, "enable_timing"):
        torch.openreg.Event(enable_timing=True, interprocess=True)
    with raises(RuntimeError, "interprocess=True"):
        torch.openreg.Event().ipc_handle()
    event = torch.openreg.Event(interprocess=True)
    handle = event.ipc_handle()
    assert isinstance(handle, bytes) and event.query()
    if torch.openreg.device_count() > 1:
        with raises(ValueError, "openreg:0"):
            torch.openreg.Event.from_ipc_handle("openreg:1", handle)
