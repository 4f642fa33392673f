# SPDX-License-Identifier: BSD-3-Clause
"""Streams and events: order, time, waiting."""

import ctypes
import threading
import time

import pytest
import torch

DEV = "openreg"


def until(condition) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def work(n=4 << 20):
    """Launches work of some milliseconds."""
    return torch.zeros(n, device=DEV).clone()


def test_current_and_default():
    s = torch.openreg.default_stream()
    assert torch.openreg.current_stream() == s and s.stream_id == 0
    side = torch.openreg.Stream()
    assert side != s and side.device == torch.device("openreg", 0)
    with torch.openreg.stream(side):
        assert torch.openreg.current_stream() == side
        with torch.openreg.stream(None):
            assert torch.openreg.current_stream() == side
    assert torch.openreg.current_stream() == s


def test_stream_of_another_device():
    side = torch.openreg.Stream(1)
    with torch.openreg.stream(side):
        assert torch.openreg.current_device() == 1
        assert torch.openreg.current_stream() == side
        assert torch.empty(1, device=DEV).device.index == 1
    assert torch.openreg.current_device() == 0


def test_current_stream_is_of_the_thread():
    side = torch.openreg.Stream()
    seen = []
    with torch.openreg.stream(side):
        t = threading.Thread(target=lambda: seen.append(torch.openreg.current_stream()))
        t.start()
        t.join()
    assert seen == [torch.openreg.default_stream()]


def test_many_streams():
    """More streams than the pool and the card's queues: streams share them."""
    x = torch.arange(100)
    streams = [torch.openreg.Stream(priority=-(i % 2)) for i in range(150)]
    results = []
    for s in streams:
        with torch.openreg.stream(s):
            results.append(x.to(DEV))
    torch.openreg.synchronize()
    assert all(torch.equal(r.cpu(), x) for r in results)


def test_query_and_synchronize():
    s = torch.openreg.Stream()
    with torch.openreg.stream(s):
        work()
    s.synchronize()
    assert s.query()


def test_order_within_a_stream():
    a = torch.zeros(1000).to(DEV)
    for i in range(200):
        a.copy_(torch.full((1000,), float(i)))
    assert a.cpu().unique().tolist() == [199.0]


@pytest.mark.parametrize("turns", [50])
def test_events_order_streams(turns):
    """Two streams pass a buffer to each other; only events keep the order."""
    one, two = torch.openreg.Stream(), torch.openreg.Stream()
    buffer = torch.zeros(1 << 16, dtype=torch.int64).to(DEV)
    seen = torch.zeros(turns, 1 << 16, dtype=torch.int64).to(DEV)
    numbers = torch.arange(turns).repeat_interleave(1 << 16).view(turns, -1).to(DEV)
    torch.openreg.synchronize()
    read = None
    for i in range(turns):
        with torch.openreg.stream(one):
            if read:
                one.wait_event(read)
            buffer.copy_(numbers[i])
            written = one.record_event()
        with torch.openreg.stream(two):
            two.wait_event(written)
            seen[i].copy_(buffer)
            read = two.record_event()
    torch.openreg.synchronize()
    assert torch.equal(seen.cpu(), numbers.cpu())


def test_launch_waits_for_a_full_ring(gate):
    """The packets in the ring wait for another stream, here for longer than a slice."""
    x = torch.zeros(8, device=DEV)
    with gate:
        timer = threading.Timer(1.0, gate.__exit__)
        timer.start()
        for _ in range(5000):
            x.add_(1)
        timer.join()
    assert x.cpu().unique().tolist() == [5000.0]


def record_and_wait(side):
    event = torch.openreg.current_stream().record_event()
    torch.openreg.current_stream().wait_event(side.record_event())
    return event


@pytest.mark.parametrize("call", [lambda side: torch.openreg.queue_stats(), record_and_wait])
def test_calls_do_not_block_other_threads(gate, call):
    """The plugin waits for a stream's mutex without the GIL, which the timer needs."""
    x = torch.zeros(8, device=DEV)
    side = torch.openreg.Stream()
    with gate:
        timer = threading.Timer(1.0, gate.__exit__)
        filler = threading.Thread(target=lambda: [x.add_(1) for _ in range(5000)])
        timer.start()
        filler.start()
        while filler.is_alive():
            made = call(side)
        timer.join()
        filler.join()
    if isinstance(made, torch.openreg.Event):
        made.synchronize()
    assert x.cpu().unique().tolist() == [5000.0]


@pytest.fixture
def reading(gate):
    """A stream that the gate blocks, and a thread that waits for a copy on this stream. A
    timer opens the gate after ten seconds."""
    side = torch.openreg.Stream()
    with torch.openreg.stream(side):
        x = torch.ones(8, device=DEV)
        gate.__enter__()

    def read():
        with torch.openreg.stream(side):
            assert x.cpu().sum().item() == 8

    timer = threading.Timer(10.0, gate.__exit__)
    reader = threading.Thread(target=read)
    sleeps = torch.openreg.queue_stats()["sleeps"]
    timer.start()
    reader.start()
    until(lambda: torch.openreg.queue_stats()["sleeps"] > sleeps)
    yield side
    timer.cancel()
    reader.join()


def test_waiting_read_does_not_block_a_launch(reading, gate):
    """While one thread waits for its copy, others can launch on the same stream."""
    with torch.openreg.stream(reading):
        y = torch.zeros(8, device=DEV).add_(1)
        assert gate in gate.closed
        gate.__exit__()
        assert y.cpu().sum().item() == 8


def test_waiting_read_does_not_block_an_event(reading, gate):
    event = reading.record_event()
    reading.wait_stream(torch.openreg.current_stream())
    assert gate in gate.closed and not event.query()
    gate.__exit__()
    event.synchronize()


def test_waiting_for_another_card_does_not_block_other_threads(gate):
    """While the caller waits for the other card, the timer's thread can run."""
    with gate:
        timer = threading.Timer(0.5, gate.__exit__)
        timer.start()
        event = torch.openreg.current_stream(0).record_event()
        torch.openreg.current_stream(1).wait_event(event)
        assert event.query()
        timer.join()


def test_synchronize_covers_a_wait_of_another_thread():
    """synchronize() of a stream also waits for the events for which the stream waits, even
    if another thread added the wait just before."""
    first, second = torch.openreg.Stream(), torch.openreg.Stream()
    newest, errors, over = [torch.openreg.Event()], [], threading.Event()

    def check():
        while not over.is_set():
            before = newest[0]
            second.synchronize()
            if not before.query():
                errors.append("a stream was ahead of an event for which it waited")

    checker = threading.Thread(target=check)
    checker.start()
    for _ in range(3000):
        event = first.record_event()
        second.wait_event(event)
        newest[0] = event
    over.set()
    checker.join()
    assert not errors


def test_wait_stream():
    side = torch.openreg.Stream()
    x = work()
    x.copy_(torch.ones(1).expand(x.shape[0]))
    side.wait_stream(torch.openreg.current_stream())
    with torch.openreg.stream(side):
        y = x.clone()
    side.synchronize()
    assert y.cpu().min().item() == 1.0


def test_synchronize_covers_chained_waits():
    """When the last stream is done, all streams for which it waited are done too."""
    first, second, last = (torch.openreg.Stream() for _ in range(3))
    x = torch.zeros(1 << 18, device=DEV)
    torch.openreg.synchronize()
    for _ in range(2000):
        with torch.openreg.stream(first):
            x.add_(1)
        events = [first.record_event()]
        second.wait_event(events[0])
        events.append(second.record_event())
        last.wait_event(events[1])
        last.synchronize()
        assert all(event.query() for event in events)
        assert first.query() and second.query()


def test_elapsed_time():
    begin = torch.openreg.Event(enable_timing=True)
    end = torch.openreg.Event(enable_timing=True)
    begin.record()
    work()
    end.record()
    end.synchronize()
    assert begin.query() and end.query()
    assert begin.elapsed_time(end) > 0


def test_event_recorded_again():
    begin = torch.openreg.Event(enable_timing=True)
    end = torch.openreg.Event(enable_timing=True)
    for _ in range(50):
        begin.record()
        end.record()
    torch.openreg.synchronize()
    assert begin.elapsed_time(end) >= 0


def test_event_without_timing():
    a, b = torch.openreg.Event(), torch.openreg.Event()
    a.record()
    b.record()
    b.synchronize()
    with pytest.raises(ValueError, match="enable_timing"):
        a.elapsed_time(b)


def test_cards_have_their_own_clocks():
    events = [torch.openreg.Event(enable_timing=True) for _ in range(2)]
    for index, event in enumerate(events):
        event.record(torch.openreg.current_stream(index))
        event.synchronize()
    with pytest.raises(ValueError, match="own clock"):
        events[0].elapsed_time(events[1])


def test_event_never_recorded():
    e = torch.openreg.Event()
    assert e.query()
    e.synchronize()
    e.wait()


def test_event_belongs_to_a_device():
    e = torch.openreg.Event()
    e.record(torch.openreg.current_stream(0))
    with pytest.raises(RuntimeError, match="belongs to openreg:0"):
        e.record(torch.openreg.current_stream(1))


def test_event_across_cards():
    a = torch.arange(1 << 20).to("openreg:0")
    e = torch.openreg.current_stream(0).record_event()
    other = torch.openreg.Stream(1)
    other.wait_event(e)
    assert e.query()
    assert torch.equal(a.cpu(), torch.arange(1 << 20))


def test_wrong_stream():
    with pytest.raises(RuntimeError, match="has no stream 9999"):
        torch.openreg.Stream(
            stream_id=9999,
            device_index=0,
            device_type=int(torch._C._autograd.DeviceType.PrivateUse1),
        ).synchronize()


def test_threads_share_a_stream():
    results = {}

    def loop(n):
        x = torch.full((500,), n)
        results[n] = all(torch.equal(x.to(DEV).clone().cpu(), x) for _ in range(50))

    threads = [threading.Thread(target=loop, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == {n: True for n in range(4)}


def test_both_cards_at_once():
    x = torch.arange(1 << 18)
    a = [x.to(f"openreg:{i}") for i in (0, 1) for _ in range(4)]
    b = [t.clone() for t in a]
    for t in b:
        assert torch.equal(t.cpu(), x)


def test_priorities():
    assert torch.openreg.Stream.priority_range() == (0, -1)
    assert torch.openreg.Stream(priority=-1).priority == -1
    assert torch.openreg.Stream(priority=0).priority == 0
    assert torch.openreg.default_stream().priority == 0


def own_queue(priority):
    """A stream that does not share the default stream's queue, as on cards with few queues."""
    shared = torch.openreg.default_stream().native_handle
    streams = (torch.openreg.Stream(priority=priority) for _ in range(32))
    return next(s for s in streams if s.native_handle != shared)


def normal_packets_before_the_urgent_end(gate, priority):
    """The number of steps of the normal stream before the urgent one ends. Both streams
    have the same work; the card reads the count, in the urgent stream."""
    normal, urgent = own_queue(0), own_queue(priority)
    opened, count, seen = torch.openreg.Event(), *torch.zeros(2, dtype=torch.int64, device=DEV)
    torch.openreg.synchronize()
    with gate:
        opened.record()
        for s in (normal, urgent):
            s.wait_event(opened)
        with torch.openreg.stream(normal):
            for _ in range(40):
                torch.openreg._sleep(10_000_000)
                count.add_(1)
        with torch.openreg.stream(urgent):
            for _ in range(2):
                torch.openreg._sleep(200_000_000)
            seen.copy_(count)
    torch.openreg.synchronize()
    return seen.item()


@pytest.mark.unchecked("it reads a counter that another stream raises")
def test_urgent_stream_is_first(gate):
    """Of the ready slices, the card takes those of the urgent stream first. On a busy host
    a thread of the card may be delayed, but not in every try."""
    shares = [normal_packets_before_the_urgent_end(gate, -1) for _ in range(5)]
    assert sorted(shares)[1] < 15, shares


def test_native_handle():
    one, two = torch.openreg.Stream(), torch.openreg.Stream()
    assert one.native_handle and one.native_handle != two.native_handle
    same = torch.openreg.get_stream_from_external(one.native_handle)
    assert same == one


@pytest.fixture
def library():
    """libopenreg's C functions, in the copy that the plugin has loaded."""
    lib = ctypes.CDLL("libopenreg.so.1")
    pointer = ctypes.c_void_p
    lib.openreg_queue_create.argtypes = [pointer, pointer, ctypes.POINTER(pointer)]
    bytes_at = [ctypes.c_uint64, ctypes.c_uint8, ctypes.c_uint64]
    lib.openreg_fill_async.argtypes = [pointer, *bytes_at]
    lib.openreg_fill_async.restype = ctypes.c_int64
    return lib


def test_external_stream(library):
    """Packets of torch and of C code in one queue run in order."""
    queue = ctypes.c_void_p()
    device = torch.openreg.device_handle(0)
    assert library.openreg_queue_create(device, None, ctypes.byref(queue)) == 0
    stream = torch.openreg.ExternalStream(queue.value)
    assert stream == torch.openreg.ExternalStream(queue.value, device=0)
    assert stream.native_handle == queue.value
    with torch.openreg.stream(stream):
        assert torch.openreg.current_stream() == stream
        x = torch.zeros(1 << 20, dtype=torch.uint8, device=DEV)
        assert library.openreg_fill_async(queue, x.data_ptr(), 7, x.nbytes) > 0
        y = x + 1
    stream.synchronize()
    assert stream.query()
    assert y.cpu().unique().tolist() == [8]


def test_synchronize_covers_an_external_stream(library, gate):
    """Packets that C code puts on its queue count for synchronize() and query()."""
    queue = ctypes.c_void_p()
    device = torch.openreg.device_handle(0)
    assert library.openreg_queue_create(device, None, ctypes.byref(queue)) == 0
    stream = torch.openreg.ExternalStream(queue.value)
    with torch.openreg.stream(stream):
        x = torch.zeros(64, dtype=torch.uint8, device=DEV)
        stream.synchronize()
        with gate:
            assert library.openreg_fill_async(queue, x.data_ptr(), 9, 64) > 0
            assert not stream.query()
    torch.openreg.synchronize()
    assert stream.query() and x.cpu().unique().tolist() == [9]


def test_wrong_external_streams():
    with pytest.raises(ValueError, match="device_handle"):
        torch.openreg.ExternalStream(0)
    handle = torch.openreg.Stream(0).native_handle
    with pytest.raises(ValueError, match="same device"):
        torch.openreg.ExternalStream(handle, device=1)


def test_sleep_keeps_the_engine_busy():
    begin = torch.openreg.Event(enable_timing=True)
    end = torch.openreg.Event(enable_timing=True)

    def times():
        for cycles in (1_000_000, 50_000_000):
            begin.record()
            torch.openreg._sleep(cycles)
            end.record()
            end.synchronize()
            yield begin.elapsed_time(end)

    # On a busy machine the short sleep may take as long, but not every time.
    assert any(5 * short < long for short, long in (times() for _ in range(50)))
    busy = torch.openreg.queue_stats()["busy_ns"]
    torch.openreg._sleep(20_000_000)
    torch.openreg.synchronize()
    # The card updates busy_ns when it has finished the packet.
    until(lambda: torch.openreg.queue_stats()["busy_ns"] > busy)
    torch.openreg._sleep(0)
    with pytest.raises(ValueError, match="number of cycles"):
        torch.openreg._sleep(-1)


def test_query_while_it_sleeps():
    side = torch.openreg.Stream()
    with torch.openreg.stream(side):
        torch.openreg._sleep(200_000_000)
        assert not side.query()
    side.synchronize()
    assert side.query()


def test_utilization():
    torch.openreg.synchronize()
    assert torch.openreg.utilization() == 0
    torch.openreg._sleep(2_000_000_000)
    assert torch.openreg.utilization() > 0
    torch.openreg.synchronize()


def test_streams_of_torch():
    """torch.Stream and torch.Event work without the module torch.openreg."""
    side = torch.Stream(DEV)
    with side:
        assert torch.accelerator.current_stream() == side
        y = torch.arange(5, device=DEV) + 1
        event = torch.Event(DEV)
        event.record()
    torch.accelerator.current_stream().wait_event(event)
    assert y.cpu().tolist() == [1, 2, 3, 4, 5]
    torch.accelerator.set_stream(side)
    assert torch.openreg.current_stream() == side
    torch.accelerator.set_stream(torch.openreg.default_stream())
    assert not torch.openreg.is_current_stream_capturing()
