# SPDX-License-Identifier: BSD-3-Clause
"""Streams and events: order, time, waiting."""

import threading

import pytest
import torch

DEV = "openreg"


def work(n=4 << 20):
    """Some milliseconds for the card."""
    return torch.empty(n, device=DEV).clone()


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
    """More than the pool and the card's queues hold: they are shared."""
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
    """Two streams hand a buffer to each other; only events keep them in step."""
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


def test_a_full_ring_is_waited_for(gate):
    """What is in it may wait for another stream; here for longer than a slice."""
    x = torch.zeros(8, device=DEV)
    with gate:
        timer = threading.Timer(1.0, gate.__exit__)
        timer.start()
        for _ in range(5000):
            x.add_(1)
        timer.join()
    assert x.cpu().unique().tolist() == [5000.0]


def test_statistics_do_not_hold_others_up(gate):
    """A stream's mutex is waited for without the GIL."""
    x = torch.zeros(8, device=DEV)
    with gate:
        timer = threading.Timer(1.0, gate.__exit__)
        filler = threading.Thread(target=lambda: [x.add_(1) for _ in range(5000)])
        timer.start()
        filler.start()
        while filler.is_alive():
            torch.openreg.queue_stats()
        timer.join()
        filler.join()
    assert x.cpu().unique().tolist() == [5000.0]


def test_wait_stream():
    side = torch.openreg.Stream()
    x = work()
    x.copy_(torch.ones(1).expand(x.shape[0]))
    side.wait_stream(torch.openreg.current_stream())
    with torch.openreg.stream(side):
        y = x.clone()
    side.synchronize()
    assert y.cpu().min().item() == 1.0


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
