# SPDX-License-Identifier: BSD-3-Clause
"""After reset(), a faulted stream still waits for everything for which it had waited.

Otherwise memory that a stream may reuse only because of a wait would be overwritten.
"""

import threading

import packets
import pytest
import torch
from torch_openreg import _C

DEV = "openreg"
N = 3 << 20  # large enough for its own segment


class Hold(packets.Gate):
    """A gate for any stream, made in advance: making it synchronizes the device."""

    def __init__(self):
        super().__init__()
        self.word = torch.zeros(1, dtype=torch.int64, device="openreg:0")
        self.side = torch.openreg.Stream(0)
        torch.openreg.synchronize(0)

    def close(self, stream):
        packets.Gate.closed.append(self)
        with torch.openreg.stream(stream):
            _C._launch_raw(packets.wait_ge(self.word.data_ptr(), 1), 0)

    def open(self):
        self.__exit__()


def own_streams(n):
    """Streams with different queues, none of them the queue of the default stream. On a
    card with few queues, streams share them."""
    found = {torch.openreg.default_stream().native_handle: None}
    for _ in range(16):
        stream = torch.openreg.Stream()
        found.setdefault(stream.native_handle, stream)
    return list(found.values())[1 : n + 1]


def bad_packet(stream):
    with torch.openreg.stream(stream):
        _C._launch_raw(packets.fill(packets.NO_SEGMENT, 4), 0)


def until_faulted(stream):
    """Waits until this stream has faulted, not only one for which it waits."""
    text = ""
    while f"stream {stream.stream_id} has faulted" not in text:
        try:
            stream.query()
        except RuntimeError as error:
            text = str(error)


def zeros_on(stream, n=N):
    with torch.openreg.stream(stream):
        return torch.zeros(n, device=DEV)


def fill(x, stream):
    with torch.openreg.stream(stream):
        x.fill_(7)


def reuse(stream, address):
    """Allocates zeros, which must get the freed memory at this address."""
    y = zeros_on(stream)
    assert y.data_ptr() == address
    return y


def settled_values(y):
    torch.openreg.synchronize()
    return y.cpu().unique().tolist()


def test_wait_survives_the_reset():
    """The stream waits again before it reuses memory that the other stream still uses."""
    a, b = own_streams(2)
    of_a, of_b = Hold(), Hold()
    x = zeros_on(b)
    address = x.data_ptr()
    a.wait_stream(b)
    of_a.close(a)
    fill(x, a)
    of_b.close(b)
    bad_packet(b)
    b.wait_stream(a)
    del x
    of_b.open()
    until_faulted(b)
    torch.openreg.reset(0)
    y = reuse(b, address)
    assert not b.query()
    of_a.open()
    assert settled_values(y) == [0.0]


def test_wait_that_raised_survives_the_reset():
    """wait_stream() raises if the stream has faulted, but the wait counts."""
    a, b = own_streams(2)
    of_a = Hold()
    x = zeros_on(b)
    address = x.data_ptr()
    a.wait_stream(b)
    of_a.close(a)
    fill(x, a)
    bad_packet(b)
    until_faulted(b)
    with pytest.raises(RuntimeError, match="has faulted"):
        b.wait_stream(a)
    del x
    torch.openreg.reset(0)
    y = reuse(b, address)
    of_a.open()
    assert settled_values(y) == [0.0]


def test_wait_for_a_stream_behind_a_fault():
    """a waits for the faulted c. b's wait for a raises, but counts after the reset."""
    a, b, c = own_streams(3)
    of_a, of_c = Hold(), Hold()
    x = zeros_on(b)
    address = x.data_ptr()
    a.wait_stream(b)
    of_c.close(c)
    bad_packet(c)
    a.wait_stream(c)
    of_a.close(a)
    fill(x, a)
    of_c.open()
    until_faulted(c)
    with pytest.raises(RuntimeError, match=f"stream {c.stream_id} has faulted"):
        b.wait_stream(a)
    del x
    torch.openreg.reset(0)
    y = reuse(b, address)
    of_a.open()
    assert settled_values(y) == [0.0]


@pytest.mark.parametrize("both", [False, True])
def test_wait_through_a_faulted_stream(both):
    """b waits for a, and a for c. a has faulted, and with both also b."""
    a, b, c = own_streams(3)
    of_a, of_b, of_c = Hold(), Hold(), Hold()
    x = zeros_on(b)
    address = x.data_ptr()
    c.wait_stream(b)
    of_c.close(c)
    fill(x, c)
    of_a.close(a)
    bad_packet(a)
    a.wait_stream(c)
    of_b.close(b)
    if both:
        bad_packet(b)
    b.wait_stream(a)
    event = a.record_event()
    del x
    of_a.open()
    until_faulted(a)
    of_b.open()
    if both:
        until_faulted(b)
    torch.openreg.reset(0)
    y = reuse(b, address)
    assert not event.query() and not b.query()
    of_c.open()
    assert settled_values(y) == [0.0]
    assert event.query()


def test_mutual_waits_do_not_deadlock():
    """The signals that replace lost ones keep their order among the other packets."""
    a, b = own_streams(2)
    of_b = Hold()
    of_b.close(b)
    bad_packet(b)
    for _ in range(20):
        a.wait_stream(b)
        b.wait_stream(a)
    of_b.open()
    until_faulted(b)
    with pytest.raises(RuntimeError, match="has faulted"):
        a.synchronize()
    torch.openreg.reset(0)
    a.synchronize()
    b.synchronize()
    assert a.query() and b.query()


def test_fault_of_a_stream_that_is_waited_for_again():
    """After the reset b waits again for a, which then faults. b must raise, not hang."""
    a, b = own_streams(2)
    of_a, of_b = Hold(), Hold()
    of_a.close(a)
    bad_packet(a)
    of_b.close(b)
    bad_packet(b)
    b.wait_stream(a)
    of_b.open()
    until_faulted(b)
    torch.openreg.reset(0)
    zeros_on(b, 8)
    assert not b.query()
    of_a.open()
    with pytest.raises(RuntimeError, match=f"stream {a.stream_id} has faulted"):
        b.synchronize()
    with pytest.raises(RuntimeError, match=f"stream {a.stream_id} has faulted"):
        b.query()
    torch.openreg.reset(0)
    b.synchronize()


def test_recorded_memory_survives_the_reset():
    """x was freed with a recorded use on b, and b had waited for the use on a."""
    a, b, home = own_streams(3)
    of_a, of_b = Hold(), Hold()
    x = zeros_on(home)
    address = x.data_ptr()
    a.wait_stream(home)
    of_a.close(a)
    fill(x, a)
    of_b.close(b)
    bad_packet(b)
    b.wait_stream(a)
    x.record_stream(b)
    del x
    of_b.open()
    until_faulted(b)
    torch.openreg.reset(0)
    assert zeros_on(home).data_ptr() != address
    of_a.open()
    torch.openreg.synchronize()
    reuse(home, address)


def test_memory_behind_a_lost_wait_is_not_freed():
    a, b = own_streams(2)
    of_a, of_b = Hold(), Hold()
    x = zeros_on(b)
    a.wait_stream(b)
    of_a.close(a)
    fill(x, a)
    of_b.close(b)
    bad_packet(b)
    b.wait_stream(a)
    del x
    of_b.open()
    until_faulted(b)
    timer = threading.Timer(0.5, of_a.open)
    timer.start()
    torch.openreg.empty_cache()
    timer.join()
    a.synchronize()


def test_memory_behind_two_faults_is_kept():
    """c has faulted, a waits for it, and b has lost its wait for a."""
    a, b, c = own_streams(3)
    of_b, of_c = Hold(), Hold()
    x = zeros_on(b)
    address = x.data_ptr()
    a.wait_stream(b)
    of_c.close(c)
    bad_packet(c)
    a.wait_stream(c)
    fill(x, a)
    of_b.close(b)
    bad_packet(b)
    b.wait_stream(a)
    del x
    for hold, stream in ((of_b, b), (of_c, c)):
        hold.open()
        until_faulted(stream)
    torch.openreg.empty_cache()
    torch.openreg.reset(0)
    y = reuse(b, address)
    assert settled_values(y) == [0.0]
    assert a.query()


def test_failed_record_keeps_the_old_recording():
    a, b = own_streams(2)
    for _ in range(100):
        x = zeros_on(a, 8)
    begin, end = (torch.openreg.Event(enable_timing=True) for _ in range(2))
    begin.record(a)
    end.record(a)
    a.synchronize()
    before = begin.elapsed_time(end)
    bad_packet(b)
    until_faulted(b)
    with pytest.raises(RuntimeError, match="has faulted"):
        end.record(b)
    assert end.query()
    end.synchronize()
    assert begin.elapsed_time(end) == before
    torch.openreg.reset(0)
    assert end.query()
    assert x.sum().item() == 0


def test_times_dropped_by_reset():
    a, b = own_streams(2)
    of_b = Hold()
    times = [torch.openreg.Event(enable_timing=True) for _ in range(3)]
    for event in times:
        event.record(a)  # so that the event has a time already
    a.synchronize()
    of_b.close(b)
    times[0].record(b)
    bad_packet(b)
    times[1].record(b)
    of_b.open()
    until_faulted(b)
    torch.openreg.reset(0)
    times[2].record(b)
    b.synchronize()
    for begin, end in ((times[0], times[1]), (times[1], times[2])):
        with pytest.raises(RuntimeError, match=r"torch.openreg.reset\(\) dropped its packet"):
            begin.elapsed_time(end)
    assert times[0].elapsed_time(times[2]) > 0
